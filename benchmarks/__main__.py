"""`make bench`: every figure of docs/speed.md, one after the other; `python -m benchmarks gradient smc` for some of them.

Figures are ratios or medians of one run. Machines are shared and noisy: compare within a run, not between runs.
"""

import subprocess
import sys
from pathlib import Path

ALL = sorted(path.stem for path in Path(__file__).parent.glob("*.py") if not path.stem.startswith("__"))


def main() -> None:
    names = sys.argv[1:] or ALL
    unknown = [name for name in names if name not in ALL]
    if unknown:
        sys.exit(f"no benchmark is called {', '.join(unknown)}; there are {', '.join(ALL)}.")
    for name in names:
        print(f"\n== {name}", flush=True)
        subprocess.run([sys.executable, "-m", f"benchmarks.{name}"], check=True)


if __name__ == "__main__":
    main()
