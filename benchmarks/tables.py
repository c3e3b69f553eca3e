"""The shipped tables of real systems against the packages that computed them: the largest difference, in units of the spread.

Needs pip install 'hyperleaf[tasks]'. Usage: python -m benchmarks.tables
"""

from importlib.util import find_spec

import numpy as np

from hyperleaf.bench.tasks.systems import SYSTEMS


def main() -> None:
    for name, system in SYSTEMS.items():
        if system.function is None:
            print(f"{name}: taken over from {system.package} as it is")
        elif find_spec(system.package) is None:
            print(f"{name}: {system.package} is not installed; pip install 'hyperleaf[tasks]'")
        else:
            apart = np.abs(system.recompute())
            print(f"{name}: {len(apart)} rows, at most {apart.max():.1e} apart, median {np.median(apart):.1e}")


if __name__ == "__main__":
    main()
