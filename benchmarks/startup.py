"""Seconds that `import hyperleaf` takes in a fresh process, what the first use adds, and the CPU of commands that stay light.

`tell`, `status`, `ask --again` and `export table.csv` should take half a second of CPU each: they load neither JAX nor pandas.
"""

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

STUDY = '[study]\nname = "s"\n[inputs]\na = { low = 0.0, high = 1.0 }\n[outputs]\ny = {}\n'
LIGHT = (["status"], ["ask", "--again"], ["tell", "1", "y=1.0"], ["export", "table.csv"])


def seconds(code: str, repeats: int = 5) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)
        times.append(time.perf_counter() - start)
    return min(times)


def cpu(command: list[str], folder: str, repeats: int = 3) -> float:
    """Seconds of CPU, of the quickest of a few times."""
    times = []
    for _ in range(repeats):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-m", "hyperleaf.cli", *command], cwd=folder, check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(times)


def main() -> None:
    bare = seconds("pass")
    print(f"import hyperleaf: {seconds('import hyperleaf') - bare:.3f} s beside {bare:.3f} s for Python itself")
    print(f"first estimator:  {seconds('import hyperleaf; hyperleaf.HHKRegressor', 2) - bare:.2f} s, most of it JAX")
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "study.toml").write_text(STUDY)
        cpu(["ask", "-n", "3"], folder, 1)
        for command in LIGHT:
            print(f"hyperleaf {' '.join(command):20} {cpu(command, folder):.2f} s of CPU")


if __name__ == "__main__":
    main()
