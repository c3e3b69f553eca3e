"""Speed of the deep GP on one core: against R's deepgp, against the cost of its arithmetic alone, and NumPy against JAX.

    python benchmarks/deep.py            # some two minutes; the tables of docs/deep.md

Times are CPU seconds of this process, the best of two or three runs, compilation not counted. R's figures are those of
deepgp 1.2 on one core.
"""

from __future__ import annotations

import os

# Before NumPy and JAX are imported: one thread each, or CPU time counts idle spinning.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")

import sys
import time
from collections.abc import Callable
from functools import partial
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from hyperleaf.data import Dataset
from hyperleaf.precision import float64
from hyperleaf.surrogates.deep import DeepGP
from hyperleaf.surrogates.deep.gaussian import cholesky, column_distances, log_marginal, rbf

T = TypeVar("T")

R_FIT = {10: 8.0, 50: 48.0, 100: 210.0}  # 5000 sweeps and prediction at 1000 points
R_ALC = {10: 3.0, 50: 9.0, 100: 18.0}  # 1000 candidates × 1000 references
PADDED = {10: 16, 50: 64, 100: 128}  # what compiled code would pad n to


def line(*cells: object) -> None:
    sys.stdout.write("| " + " | ".join(f"{cell:.3g}" if isinstance(cell, float) else str(cell) for cell in cells) + " |\n")
    sys.stdout.flush()


def exponential(n: int, seed: int = 0) -> Dataset:
    """The Exponential 2-D task: 5 z₁ exp(−z₁² − z₂²), z = 7u − 2, noise 0.01, standardised."""
    rng = np.random.default_rng(seed)
    x = rng.random((n, 2))
    z = 7 * x - 2
    y = 5 * z[:, 0] * np.exp(-(z**2).sum(1)) + 0.01 * rng.standard_normal(n)
    return Dataset(x, (y - y.mean()) / y.std())


def cpu(function: Callable[[], T]) -> tuple[float, T]:
    began = time.process_time()
    result = function()
    return time.process_time() - began, result


def repeated(function: Callable[[], object], repeats: int = 3000) -> float:
    """Microseconds of one call; the best of three rounds."""

    def rounds() -> None:
        for _ in range(repeats):
            function()

    return min(cpu(rounds)[0] for _ in range(3)) / repeats * 1e6


def against_r() -> None:
    line("n", "R fit + predict", "here", "times faster", "fit", "predict", "R ALC", "here", "times faster", "update")
    line(*["---"] * 10)
    x = np.random.default_rng(1).random((1000, 2))
    r = np.random.default_rng(2).random((1000, 2))
    surrogate = DeepGP(kernel="rbf", sweeps=5000)
    surrogate.fit(exponential(5), key=jax.random.key(0)).predict(x)  # imports and first calls
    for n in R_FIT:
        runs = [cpu(partial(surrogate.fit, exponential(n), key=jax.random.key(1))) for _ in range(2)]
        fit, posterior = min(runs, key=lambda run: run[0])
        predict = min(cpu(partial(posterior.predict, x))[0] for _ in range(3))
        alc = min(cpu(partial(posterior.alc, x, r))[0] for _ in range(3))
        update, _ = cpu(partial(posterior.update, [[0.3, 0.4]], [0.0], key=jax.random.key(2)))
        both = fit + predict
        line(n, R_FIT[n], both, R_FIT[n] / both, fit, predict, R_ALC[n], alc, R_ALC[n] / alc, update)


def lapack_likelihood(rest: np.ndarray, y: np.ndarray, w: np.ndarray) -> float:
    squared = column_distances(w)
    squared += rest
    factor = cholesky(rbf, squared, 0.1, 0.001)
    return -np.inf if factor is None else log_marginal(factor, y)


def compiled_likelihood(rest: jax.Array, y: jax.Array, n: int) -> Callable[[jax.Array], jax.Array]:
    def likelihood(w: jax.Array) -> jax.Array:
        difference = w[:, None] - w
        k = jnp.exp(-(rest + difference * difference) * 10.0)
        k = jnp.where(jnp.eye(len(w), dtype=bool), 1.001, k)
        factor = jax.lax.linalg.cholesky(k, symmetrize_input=False)
        z = jax.lax.linalg.triangular_solve(factor, y[:, None], left_side=True, lower=True)[:, 0]
        return -0.5 * n * jnp.log(z @ z) - jnp.log(jnp.diagonal(factor)).sum()

    return likelihood


@float64
def jax_microseconds(n: int) -> float:
    """One evaluation inside a compiled loop, at the padded size."""
    size, evaluations, rng = PADDED[n], 2000, np.random.default_rng(0)
    others, w, y = rng.random(size), jnp.asarray(rng.random(size)), jnp.asarray(rng.random(size))
    likelihood = compiled_likelihood(jnp.asarray(column_distances(others)), y, n)

    @jax.jit
    def loop(w: jax.Array) -> jax.Array:
        return jax.lax.fori_loop(0, evaluations, lambda _, w: w + 1e-15 * likelihood(w), w)

    jax.block_until_ready(loop(w))
    return min(cpu(lambda: jax.block_until_ready(loop(w)))[0] for _ in range(3)) / evaluations * 1e6


def one_evaluation() -> None:
    line("n", "NumPy + LAPACK, µs", "JAX padded, µs", "potrf and exp alone, µs")
    line(*["---"] * 4)
    for n in R_FIT:
        rng = np.random.default_rng(0)
        rest, w, y = column_distances(rng.random(n)), rng.random(n), rng.random(n)
        evaluate, bare = partial(lapack_likelihood, rest, y, w), partial(cholesky, rbf, rest, 0.1, 0.001)
        line(n, repeated(evaluate), jax_microseconds(n), repeated(bare))


if __name__ == "__main__":
    against_r()
    sys.stdout.write("\n")
    one_evaluation()
