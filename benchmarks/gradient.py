"""One value-and-gradient of the log posterior against the floor of its parts, as a ratio measured in one run.

Floor: LAPACK `potrf` + `potri` through SciPy and the 8·n²/2 exponentials of a triangle through NumPy. 8 leaves, d = 2, 64 draws,
float64, one core; then the same work with every core this process may use.
"""

import os
import time

import jax
import numpy as np
import numpyro.distributions as dist
import scipy.linalg.lapack as lapack
from threadpoolctl import threadpool_limits

from hyperleaf import gp, parallel
from hyperleaf.data import Dataset
from hyperleaf.precision import float64
from hyperleaf.priors import Prior, hhk_prior

DRAWS = 64


def best_of(function, repeats: int) -> float:
    function()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def floor(n: int) -> float:
    rng = np.random.default_rng(0)
    a = rng.normal(size=(n, n))
    a = a @ a.T + n * np.eye(n)
    exponents = -rng.random(8 * n * n // 2)
    out = np.empty_like(exponents)
    with threadpool_limits(1):
        factor = best_of(lambda: lapack.dpotri(lapack.dpotrf(a, lower=1)[0], lower=1), 50)
    return factor + best_of(lambda: np.exp(exponents, out=out), 50)


def value_and_gradient(z, target):
    return jax.value_and_grad(target)(z)


@float64
def ours(n: int, cores: int) -> tuple[float, float]:
    rng = np.random.default_rng(1)
    x = rng.random((n, 2))
    prior = Prior(gp.GP(hhk_prior(2, 8), dist.Exponential(100.0)))
    target = gp.Target(prior, gp.pad(Dataset(x, np.sin(5 * x[:, 0]))))
    z = prior.sample_vectors(jax.random.key(0), DRAWS)
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, set(sorted(allowed)[:cores]))
    try:
        start = time.perf_counter()
        parallel.over_draws(value_and_gradient, z, target)
        first = time.perf_counter() - start
        return best_of(lambda: parallel.over_draws(value_and_gradient, z, target), 7) / DRAWS, first
    finally:
        os.sched_setaffinity(0, allowed)


def main() -> None:
    cores = parallel.num_threads()
    print(f"value and gradient of the log posterior: 8 leaves, d = 2, {DRAWS} draws (best of 7)")
    head = ("floor ms", "one core ms", "ratio", f"{cores} cores ms", "speed-up", "compile s")
    print(f"{'n':>5} {head[0]:>9} {head[1]:>12} {head[2]:>6} {head[3]:>12} {head[4]:>9} {head[5]:>10}")
    for n in (64, 128, 256):
        limit = floor(n)
        single, first = ours(n, 1)
        several, _ = ours(n, cores)
        print(
            f"{n:>5} {limit * 1e3:>9.3f} {single * 1e3:>12.3f} {single / limit:>6.2f} {several * 1e3:>12.3f} "
            f"{single / several:>9.2f} {first:>10.1f}"
        )


if __name__ == "__main__":
    main()
