"""CPU seconds of the treed GP: 2000 + 5000 rounds and prediction at 1000 points, one core. Run: python benchmarks/treed.py

R's tgp 2.4 needs for the same about 1.3, 3 and 12–25 s at n = 10, 50 and 100. It predicts from all 2500 kept states; by default
hyperleaf predicts from 500 of them, and the last column is with all.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from dataclasses import replace

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import jax
import numpy as np
from threadpoolctl import threadpool_limits

from hyperleaf.data import Dataset
from hyperleaf.surrogates.treed import TreedGP


def exponential(n: int, seed: int) -> Dataset:
    """5 z₁ exp(−z₁² − z₂²) with z = 7x − 2 and noise 0.01, standardised."""
    rng = np.random.default_rng(seed)
    x = rng.random((n, 2))
    z = 7 * x - 2
    y = 5 * z[:, 0] * np.exp(-(z**2).sum(1)) + 0.01 * rng.standard_normal(n)
    return Dataset(x, (y - y.mean()) / y.std())


def measure(surrogate: TreedGP, data: Dataset, x: np.ndarray, seed: int) -> tuple[float, float, float, float]:
    start = time.process_time()
    posterior = surrogate.fit(data, key=jax.random.key(seed))
    fitted = time.process_time()
    posterior.moments(x)
    predicted = time.process_time()
    replace(posterior, surrogate=replace(surrogate, max_components=len(posterior.draws))).moments(x)
    everything = time.process_time()
    leaves = sum(size * share for size, share in posterior.diagnostics.extra["num_leaves"].items())
    return fitted - start, predicted - fitted, everything - predicted, leaves


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[10, 50, 100])
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    x = np.random.default_rng(1).random((1000, 2))
    TreedGP(burn_in=10, total=20).fit(exponential(30, 0), key=jax.random.key(0)).moments(x)  # imports
    lines = ["| model | n | leaves | fit | predict, 500 states | total | total with all 2500 states |", "|---" * 7 + "|"]
    with threadpool_limits(limits=1):
        for name, surrogate in (("treed", TreedGP()), ("one GP", TreedGP(tree=False))):
            for n in arguments.sizes:
                runs = [measure(surrogate, exponential(n, seed), x, seed) for seed in range(arguments.repeats)]
                fit, predict, everything, leaves = np.median(runs, axis=0)
                seconds = [f"{value:.2f}" for value in (fit, predict, fit + predict, fit + everything)]
                lines.append(f"| {name} | {n} | {leaves:.1f} | {' | '.join(seconds)} |")
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
