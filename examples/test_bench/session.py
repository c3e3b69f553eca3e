"""A session at the bench, with a formula in the place of bench and person: every step is a command of its own.

    python session.py [--rounds 12] [--folder .]

The study in `study.toml` goes on where the last session ended.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

LIMIT = 900.0  # °C, at which the person stops the engine


def temperature(speed: float, torque: float) -> float:
    """What the needle shows: it rises with power, and steeply where the mixture is enriched no more."""
    power = speed * torque / 9549  # kW
    return 320 + 260 * math.tanh(power / 40) + 350 / (1 + math.exp(-(power - 90) / 6))


def hyperleaf(folder: Path, *arguments: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "hyperleaf.cli", *arguments, "--json"]
    return json.loads(subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--folder", type=Path, default=Path(__file__).parent)
    options = parser.parse_args()
    for _ in range(options.rounds):
        (query,) = hyperleaf(options.folder, "ask")["queries"]
        measured = temperature(**query["point"])
        if measured > LIMIT:
            hyperleaf(options.folder, "tell", str(query["id"]), "--failed", "too hot, had to stop")
        else:
            hyperleaf(options.folder, "tell", str(query["id"]), f"temperature={measured:.1f}")
        sys.stdout.write(f"query {query['id']}: {query['point']} → {measured:.1f} °C\n")
    counts = hyperleaf(options.folder, "status")["counts"]
    sys.stdout.write(f"{counts['done']} done, {counts['failed']} failed\n")


if __name__ == "__main__":
    main()
