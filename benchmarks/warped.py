"""Type-II maximum likelihood of the Warped Multi-Index GP: ten restarts, compilation not counted; limit 2 s at n = 100.

Exponential 2-D: y = 5·z₁·exp(−z₁² − z₂²) on [−2, 5]², noise 0.01, uniform points. Each fit is from scratch on other data, after
one that compiled; times are CPU seconds of the process on one core. Usage: python -m benchmarks.warped [--fits 5] [--bayes]
"""

from __future__ import annotations

import argparse
import os

# Before NumPy and JAX are imported: one thread each, or CPU time counts idle spinning.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

import sys
import time

import jax
import numpy as np

from hyperleaf.data import Dataset
from hyperleaf.inference.map import Map
from hyperleaf.inference.smc import SMC
from hyperleaf.surrogates.gp import stationary_surrogate, warped_surrogate

LIMIT, N = 2.0, 100


def exponential(u: np.ndarray) -> np.ndarray:
    z = 7 * u - 2
    return 5 * z[:, 0] * np.exp(-(z**2).sum(axis=1))


def fit(surrogate, n: int, seed: int):
    """The posterior, CPU and elapsed seconds, and the error of its mean, in units of y, at 500 points."""
    rng = np.random.default_rng(seed)
    x, test = rng.random((n, 2)), rng.random((500, 2))
    y = exponential(x) + 0.01 * rng.normal(size=n)
    data = Dataset(x, (y - y.mean()) / y.std())
    began, cpu = time.perf_counter(), time.process_time()
    posterior = surrogate.fit(data, key=jax.random.key(seed))
    seconds = time.process_time() - cpu, time.perf_counter() - began
    error = y.mean() + y.std() * posterior.predict(test).mean() - exponential(test)
    return posterior, *seconds, float(np.sqrt(np.mean(error**2)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fits", type=int, default=5)
    parser.add_argument("--bayes", action="store_true", help="also by SMC with our priors, which takes minutes")
    arguments = parser.parse_args()
    write = sys.stdout.write
    write("| n | compile and fit | CPU seconds of a fit, median | largest | gradients | µs a gradient | RMSE, median |\n")
    write("|---|---|---|---|---|---|---|\n")
    for n in (10, 50, N):
        _, first, _, _ = fit(warped_surrogate(2), n, 1000)
        runs = [fit(warped_surrogate(2), n, seed) for seed in range(arguments.fits)]
        cpu = np.array([run[1] for run in runs])
        gradients = np.array([run[0].diagnostics.extra["modes"].num_gradients.sum() for run in runs])
        error = np.median([run[3] for run in runs])
        verdict = "" if n != N else f" ({LIMIT:g} s: {'met' if np.median(cpu) <= LIMIT else 'MISSED'})"
        each = 1e6 * cpu.sum() / gradients.sum()
        write(f"| {n} | {first:.1f} | {np.median(cpu):.2f}{verdict} | {cpu.max():.2f} | {np.median(gradients):.0f} | {each:.0f} ")
        write(f"| {error:.3f} |\n")
        sys.stdout.flush()
    for name, surrogate in (
        ("no warp, maximum likelihood", stationary_surrogate(2, inference=Map(prior=False))),
        *([("warped, SMC of 128 with our priors", warped_surrogate(2, inference=SMC()))] if arguments.bayes else []),
    ):
        runs = [fit(surrogate, N, seed) for seed in range(arguments.fits)]
        cpu, error = np.median([run[1] for run in runs]), np.median([run[3] for run in runs])
        write(f"{name}, n = {N}: RMSE {error:.3f}, CPU {cpu:.1f} s\n")


if __name__ == "__main__":
    main()
