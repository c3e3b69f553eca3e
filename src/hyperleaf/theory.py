"""The information in a design, greedy and exhaustive designs, and the sharp limit of a partition (paper, appendix on theory).

`information` is what observations at given points tell about f under a fixed kernel. `greedy_design` collects the points that
maximise it one by one, `exhaustive_design` all at once where that is affordable. `sharpen` walks along the lemma's sequence of
ever steeper gates, and `SharpPartition` is the kernel at its end, for which the theorem says where the points of a design go.
Noise is a variance throughout; points are rows in the unit cube.
"""

from __future__ import annotations

from itertools import combinations, islice
from math import comb
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from numpy.typing import ArrayLike, NDArray

from hyperleaf.errors import InputError
from hyperleaf.kernels import Gates, Kernel, Partition
from hyperleaf.kernels.partition import path_matrices
from hyperleaf.linalg import padded_size
from hyperleaf.precision import float64

MAX_SUBSETS = 200_000  # designs that an exhaustive search will look at: seconds, not minutes
TIE = 1e-10  # variances (relative) and information (absolute) closer than this are equal: rounding must not pick the point


class Design(NamedTuple):
    """Points of a grid in the order in which they were taken."""

    indices: NDArray[np.intp]  # (num,), rows of the grid
    information: NDArray[np.float64]  # (num,), of the first 1, 2, …, num points together


@float64
def information(kernel: Kernel, x: ArrayLike, noise: float) -> float:
    """I(y_A; f_A) = ½ log|I + K_A/σ²| in nats, with A the rows of x and σ² = `noise`."""
    points, noise = _points(x, "x"), _noise(noise)
    return _half_log_determinant(_gram(kernel, points), noise)


@float64
def greedy_design(kernel: Kernel, grid: ArrayLike, noise: float, num: int) -> Design:
    """`num` different rows of `grid`, each the one of largest posterior variance given those before; the first of equals.

    This is the greedy maximisation of `information`, because adding x to A gains ½ log(1 + v_A(x)/σ²), and it reaches at least
    1 − 1/e of the best that any `num` points can. A partial Cholesky factor grows by one row per point: O(num² · N) in all.
    """
    points, noise = _points(grid, "grid"), _noise(noise)
    num = _count(num, len(points))
    features, diagonal = _start(kernel, jnp.asarray(points))
    variance = np.array(diagonal)
    equal = TIE * variance.max()
    taken = np.zeros(len(points), dtype=bool)
    rows = np.zeros((num, len(points)))
    indices, gains = np.zeros(num, dtype=np.intp), np.zeros(num)
    for step in range(num):
        free = np.where(taken, -np.inf, variance)
        i = int(np.argmax(free >= free.max() - equal))
        column = np.asarray(_column(kernel, features, np.asarray(i))) - rows[:step, i] @ rows[:step]
        rows[step] = column / np.sqrt(variance[i] + noise)
        indices[step], gains[step] = i, 0.5 * np.log1p(variance[i] / noise)
        variance = np.maximum(variance - rows[step] ** 2, 0.0)
        taken[i] = True
    return Design(indices, np.cumsum(gains))


@float64
def exhaustive_design(kernel: Kernel, grid: ArrayLike, noise: float, num: int) -> tuple[NDArray[np.intp], float]:
    """The `num` rows of `grid` with the largest information and its value, by looking at all subsets; the first of equals."""
    points, noise = _points(grid, "grid"), _noise(noise)
    num = _count(num, len(points))
    if comb(len(points), num) > MAX_SUBSETS:
        raise InputError(
            f"an exhaustive search looks at no more than {MAX_SUBSETS} designs; got {comb(len(points), num)} "
            f"({num} of {len(points)} points). Take fewer points, a coarser grid, or greedy_design."
        )
    gram = _gram(kernel, points)
    best, value = np.zeros(num, dtype=np.intp), -np.inf
    subsets = combinations(range(len(points)), num)
    while chunk := list(islice(subsets, 4096)):
        rows = np.array(chunk, dtype=np.intp)
        values = _half_log_determinant(gram[rows[:, :, None], rows[:, None, :]], noise)
        i = int(np.argmax(values >= values.max() - TIE))
        if values[i] > value + TIE:
            best, value = rows[i], float(values[i])
    return best, value


class SharpPartition(Kernel):
    """k(x, y) = Σⱼ 1{x, y ∈ Dⱼ} kⱼ(x, y): the pointwise limit of a partition whose gates become ever steeper.

    Dⱼ holds the points with w̃ᵢᵀx̃ ≥ 0 for all gates that leaf j lies left of, and w̃ᵢᵀx̃ < 0 for those it lies right of. A point
    on a border belongs to the left side.
    """

    partition: Partition

    def _indicators(self, x: Any) -> Any:
        return _inside(self.partition, x).astype(x.dtype)

    def features(self, x):
        return self._indicators(x), self.partition.features(x)[1]

    def pairwise(self, a, b):
        return self.partition.pairwise(a, b)

    def diagonal(self, x):
        leaves = self.partition.leaves
        if isinstance(leaves, tuple):
            diagonals = jnp.stack([leaf.diagonal(x) for leaf in leaves])
        else:
            diagonals = jax.vmap(lambda leaf: leaf.diagonal(x))(leaves)
        return jnp.sum(self._indicators(x) * diagonals, axis=0)


def sharp_gram(partition: Partition, x: ArrayLike, y: ArrayLike | None = None) -> NDArray[np.float64]:
    """The Gram matrix of the limiting kernel between the rows of x and of y (of x, if y is not given)."""
    return SharpPartition(partition)(x, y)


@float64
def sharp_leaves(partition: Partition, x: ArrayLike) -> NDArray[np.intp]:
    """For each row of x the leaf j in whose region Dⱼ it lies; every point lies in exactly one."""
    return np.asarray(jnp.argmax(_inside(partition, jnp.asarray(_points(x, "x"))), axis=0), dtype=np.intp)


def sharpen(partition: Partition, n: float) -> Partition:
    """The n-th kernel of the lemma's sequence: w⁽ⁿ⁾ = n²(w̃ + e₀/n), that is steepness n² and offset + 1/n.

    On a border the gates' arguments are n → ∞, so that the limit puts it on the left; at w̃ᵀx̃ = −δ they are −n²δ + n, negative
    only from n > 1/δ on. The steepness that the partition had is forgotten.
    """
    if not np.isfinite(n) or n <= 0:
        raise InputError(f"n must be positive and finite; got {n!r}. Large n gives sharp borders.")
    gates = partition.gates
    sharper = Gates(gates.offset + 1.0 / n, gates.normal, np.full(np.shape(gates.offset), float(n) ** 2))
    return Partition(sharper, partition.leaves, partition.tree, partition.weights)


def _inside(partition, x):
    """1{x ∈ Dⱼ} (l, n). Signs do not depend on the steepness, which is positive, and are taken without it to keep zeros exact."""
    gates = partition.gates
    left, right = path_matrices(partition.tree)
    opens = Gates(gates.offset, gates.normal).logits(x) >= 0.0
    wrong = left @ (~opens.T).astype(x.dtype) + right @ opens.T.astype(x.dtype)
    return wrong == 0.0


def _gram(kernel: Kernel, points: NDArray[np.float64]) -> NDArray[np.float64]:
    """The Gram matrix, computed at a padded size: sets of points of any size share a few compilations."""
    n = len(points)
    padded = np.pad(points, ((0, padded_size(n) - n), (0, 0)), mode="edge")
    return np.asarray(_compiled_gram(kernel, jnp.asarray(padded)))[:n, :n]


@eqx.filter_jit
def _compiled_gram(kernel, x):
    return kernel.gram(x)


@eqx.filter_jit
def _start(kernel, x):
    return kernel.features(x), kernel.diagonal(x)


@eqx.filter_jit
def _column(kernel, features, i):
    point = jax.tree.map(lambda leaf: lax.dynamic_slice_in_dim(leaf, i, 1, axis=-1), features)
    return kernel.pairwise(features, point)[:, 0]


def _half_log_determinant(gram: NDArray[np.float64], noise: float) -> Any:
    """½ log|I + K/σ²| of one matrix or a stack. The eigenvalues are ≥ 1, so the factor exists unless σ² drowns in rounding."""
    try:
        factor = np.linalg.cholesky(np.eye(gram.shape[-1]) + gram / noise)
    except np.linalg.LinAlgError:
        raise InputError(
            f"noise must stand out from the rounding errors of the kernel matrix (about 1e-16 of its size "
            f"{np.abs(gram).max():.3g} × {gram.shape[-1]} points); got noise={noise:.3g}. Raise it."
        ) from None
    value = np.sum(np.log(np.diagonal(factor, axis1=-2, axis2=-1)), axis=-1)
    return float(value) if gram.ndim == 2 else value


def _points(x: ArrayLike, name: str) -> NDArray[np.float64]:
    points = np.asarray(x, dtype=np.float64)
    if points.ndim != 2 or 0 in points.shape:
        raise InputError(f"{name} must have shape (n, d) with n, d ≥ 1; got {points.shape}. Reshape it, with one point per row.")
    if not np.isfinite(points).all():
        raise InputError(f"{name} must be finite; got NaN or infinity. Drop those rows.")
    return points


def _noise(noise: Any) -> float:
    if np.ndim(noise) or not np.isfinite(noise) or noise <= 0:
        raise InputError(f"noise must be one positive variance; got {noise!r}. Without noise the information is infinite.")
    return float(noise)


def _count(num: Any, most: int) -> int:
    if isinstance(num, bool) or not isinstance(num, int | np.integer) or not 1 <= num <= most:
        raise InputError(f"num must be a whole number from 1 to the {most} points of the grid; got {num!r}.")
    return int(num)
