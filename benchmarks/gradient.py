"""One value-and-gradient of the log posterior against the floor of its parts, as a ratio measured in one run.

Floor: LAPACK `potrf` + `potri` through SciPy and the 8·n²/2 exponentials of a triangle through NumPy. 8 leaves, d = 2, 64 draws,
float64, one core; then the same work with two threads. Machine code (native/core.c) and JAX. Floor and gradients are timed by
turns, and the best of many rounds counts: a busy machine only ever makes them longer.
"""

import os
import time

import jax
import numpy as np
import numpyro.distributions as dist
import scipy.linalg.lapack as lapack
from threadpoolctl import threadpool_limits

from benchmarks import history
from hyperleaf import gp, native, parallel
from hyperleaf.data import Dataset
from hyperleaf.native import model
from hyperleaf.precision import float64
from hyperleaf.priors import Prior, hhk_prior
from hyperleaf.surrogates.gp.problem import posterior

DRAWS = 64
ROUNDS = 15


def spent(function, wall: bool) -> float:
    clock = time.perf_counter if wall else time.process_time
    start = clock()
    function()
    return clock() - start


def best(functions: dict, wall: bool = False) -> dict[str, float]:
    """Seconds of each, by turns."""
    times: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(ROUNDS):
        for name, function in functions.items():
            times[name].append(spent(function, wall))
    return {name: min(own) for name, own in times.items()}


def value_and_gradient(z, target):
    return target.value_and_grad(z)


@float64
def measure(n: int) -> dict[str, float]:
    rng = np.random.default_rng(1)
    a = rng.normal(size=(n, n))
    a = a @ a.T + n * np.eye(n)
    exponents = -rng.random(8 * n * n // 2)
    out = np.empty_like(exponents)
    x = rng.random((n, 2))
    prior = Prior(gp.GP(hhk_prior(2, 8), dist.Exponential(100.0)))
    target = posterior(prior, gp.pad(Dataset(x, np.sin(5 * x[:, 0]))))
    z = prior.sample_vectors(jax.random.key(0), DRAWS)
    core = native.core_of(target)
    nothing, mass = np.zeros(DRAWS), np.ones((2, z.shape[1]))

    def ours() -> None:
        core.trajectories(z, nothing, nothing, np.zeros(z.shape), nothing, mass[:, 0], mass, 0.0)

    def floor() -> None:
        for _ in range(8):
            lapack.dpotri(lapack.dpotrf(a, lower=1)[0], lower=1)
            np.exp(exponents, out=out)

    def by_jax() -> None:
        parallel.over_draws(value_and_gradient, z, target)

    found: dict[str, float] = {}
    with threadpool_limits(1):
        by_jax()
        os.environ["HYPERLEAF_THREADS"] = "1"
        taken = best({"floor": floor, "jax": by_jax, **({"machine": ours} if core is not None else {})})
        found = {"floor": taken["floor"] / 8, **{name: taken[name] / DRAWS for name in taken if name != "floor"}}
        if core is not None and model.num_threads() < len(os.sched_getaffinity(0)):
            one = best({"one": ours}, wall=True)["one"]
            os.environ["HYPERLEAF_THREADS"] = "2"
            found["gain"] = one / best({"two": ours}, wall=True)["two"]
    return found


def main() -> None:
    print(f"value and gradient of the log posterior: 8 leaves, d = 2, {DRAWS} draws, CPU (best of {ROUNDS} by turns)")
    print(f"{'n':>5} {'floor ms':>9} {'machine ms':>11} {'ratio':>6} {'JAX ms':>8} {'ratio':>6} {'two threads':>12}")
    figures = {}
    for n in (64, 128, 256):
        found = measure(n)
        floor, machine = found["floor"], found.get("machine", float("nan"))
        print(
            f"{n:>5} {floor * 1e3:>9.3f} {machine * 1e3:>11.3f} {machine / floor:>6.2f} {found['jax'] * 1e3:>8.3f} "
            f"{found['jax'] / floor:>6.2f} {found.get('gain', float('nan')):>11.2f}x",
            flush=True,
        )
        figures |= {f"machine over floor, n = {n}": machine / floor, f"JAX over floor, n = {n}": found["jax"] / floor}
    print("\n".join(history.keep("gradient", figures)))


if __name__ == "__main__":
    main()
