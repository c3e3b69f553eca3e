"""Seconds that `import hyperleaf` takes in a fresh process, and what the first use adds."""

import subprocess
import sys
import time


def seconds(code: str, repeats: int = 5) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)
        times.append(time.perf_counter() - start)
    return min(times)


def main() -> None:
    bare = seconds("pass")
    print(f"import hyperleaf: {seconds('import hyperleaf') - bare:.3f} s beside {bare:.3f} s for Python itself")
    print(f"first estimator:  {seconds('import hyperleaf; hyperleaf.HHKRegressor', 2) - bare:.2f} s, most of it JAX")


if __name__ == "__main__":
    main()
