"""How the cores share the work: the draws of a model between them, and BLAS with one thread in each.

`over_draws` is the one way in which anything is done with many draws, so that whoever brings another device begins here.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from itertools import pairwise
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, PyTree
from threadpoolctl import ThreadpoolController


def num_threads() -> int:
    """How many cores this process may use: HYPERLEAF_THREADS at most; taskset and containers are respected."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)
    limit = os.environ.get("HYPERLEAF_THREADS", "")
    return max(min(int(limit), cores), 1) if limit.isdecimal() else cores


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """BLAS on one thread, within a `with` or a function decorated by `@one_blas_thread()`.

    Matrices here are small and follow one another: more threads would only wait for each other, on a busy machine for ten times
    as long as the work takes.
    """
    with _blas().limit(limits=1, user_api="blas"):
        yield


def over_draws(function: Callable[..., PyTree], draws: PyTree, *shared: Any) -> PyTree:
    """`function(draw, *shared)` for each entry of the leading axis of `draws`; a module-level function, so that it compiles once.

    Draws go one after the other (a batch of covariance matrices would fall out of the cache), with the cores sharing them: each
    of a few threads runs the same compiled loop over its part. The result does not depend on the number of threads.
    """
    num = jax.tree.leaves(draws)[0].shape[0]
    parts = min(num_threads(), num)
    size = -(-num // parts)
    # Equal parts share one compilation: the last may begin inside the one before it, and what it repeats is dropped.
    starts = [min(i * size, num - size) for i in range(parts)]

    def run(start: int) -> PyTree:
        with jax.enable_x64(True):
            part = jax.tree.map(lambda leaf: leaf[start : start + size], draws)
            return jax.block_until_ready(_loop(function, part, shared))

    with one_blas_thread():
        if parts == 1:
            return run(0)
        with ThreadPoolExecutor(parts) as pool:
            results = list(pool.map(run, starts))
    skips = [0] + [before + size - start for before, start in pairwise(starts)]

    def join(*leaves: Array) -> Array:
        return jnp.concatenate([leaf[skip:] for leaf, skip in zip(leaves, skips, strict=True)])

    return jax.tree.map(join, *results)


def _one_after_the_other(function: Callable[..., PyTree], draws: PyTree, shared: tuple[Any, ...]) -> PyTree:
    return lax.map(lambda draw: function(draw, *shared), draws)


# Full vectors for the exponentials, where the processor has them; by default the compiler stays at half their width.
_JIT: dict[str, Any] = {"compiler_options": {"xla_cpu_prefer_vector_width": 512}}
_loop = eqx.filter_jit(_one_after_the_other, **_JIT)


@cache
def _blas() -> ThreadpoolController:
    import scipy.linalg  # noqa: F401, loads the BLAS that JAX calls

    return ThreadpoolController()
