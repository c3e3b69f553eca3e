"""Figures kept from run to run: one JSON file for each machine and commit in benchmarks/history, and how the last run compares.

A machine is its processor and the number of cores that may be used; figures of two machines are never compared.
`python -m benchmarks.history` lists what is kept.
"""

import hashlib
import json
import os
import subprocess
import time
from pathlib import Path

FOLDER = Path(__file__).parent / "history"
NOTICEABLE = 1.15  # a ratio that is told as slower or faster; less is what a shared machine does by itself


def machine() -> dict[str, str]:
    """What the figures depend on, without the name of the machine."""
    model = "unknown"
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), model)
    except OSError:
        pass
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {"processor": model, "cores": str(cores)}


def tag_of(found: dict[str, str]) -> str:
    return hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()[:10]


def commit() -> str:
    """The short name of the commit; with a + if files differ from it, "none" outside a repository."""

    def git(*command: str) -> str:
        done = subprocess.run(["git", *command], cwd=FOLDER.parent, capture_output=True, text=True, check=False)
        return done.stdout.strip() if done.returncode == 0 else ""

    name = git("rev-parse", "--short=10", "HEAD")
    return name + ("+" if git("status", "--porcelain", "--untracked-files=no") else "") if name else "none"


def keep(benchmark: str, figures: dict[str, float], folder: Path = FOLDER, name: str | None = None) -> list[str]:
    """Write the figures (seconds or ratios, smaller is better) of a benchmark, and say how they compare with the last ones."""
    found, name = machine(), commit() if name is None else name
    place = folder / tag_of(found)
    place.mkdir(parents=True, exist_ok=True)
    before = last(benchmark, place, name)
    path = place / f"{name}.json"
    record = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {"machine": found, "commit": name, "figures": {}}
    record["time"] = int(time.time())
    record["figures"][benchmark] = {key: float(f"{value:.4g}") for key, value in figures.items()}
    path.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return compared(figures, before)


def last(benchmark: str, place: Path, name: str) -> tuple[str, dict[str, float]] | None:
    """Commit and figures of the latest run of the benchmark by another commit."""
    records = [json.loads(path.read_text(encoding="utf-8")) for path in place.glob("*.json") if path.stem != name]
    records = sorted((one for one in records if benchmark in one["figures"]), key=lambda one: one["time"])
    return (records[-1]["commit"], records[-1]["figures"][benchmark]) if records else None


def compared(figures: dict[str, float], before: tuple[str, dict[str, float]] | None) -> list[str]:
    if before is None:
        return ["nothing to compare with: the first run of this benchmark on this machine"]
    known, words = before[1], []
    for key, value in figures.items():
        if key in known and known[key] > 0:
            ratio = value / known[key]
            verdict = "slower" if ratio > NOTICEABLE else "faster" if ratio < 1 / NOTICEABLE else "the same"
            words.append(f"{key}: {value:.4g}, {ratio:.2f} of the {known[key]:.4g} at {before[0]}: {verdict}")
    return words


def main() -> None:
    for path in sorted(FOLDER.glob("*/*.json")):
        record = json.loads(path.read_text(encoding="utf-8"))
        print(f"{record['commit']} on {record['machine']['processor']}, {record['machine']['cores']} cores")
        for benchmark, figures in record["figures"].items():
            print(f"  {benchmark}: " + ", ".join(f"{key} {value:g}" for key, value in figures.items()))


if __name__ == "__main__":
    main()
