"""One drawn partition as its user sees it: gates, lengthscales and standard deviations in native units."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hyperleaf.data import Standardizer
from hyperleaf.domain import Domain
from hyperleaf.errors import InputError
from hyperleaf.estimators.tables import to_unit
from hyperleaf.kernels import Kernel, Partition
from hyperleaf.kernels.partition import path_matrices
from hyperleaf.precision import float64


@dataclass(frozen=True, eq=False)
class NativePartition:
    """g = l − 1 gates and l leaves of one posterior draw.

    Gate i is the hyperplane offset[i] + normal[i]·φ(x) = 0, and opens to its left side as σ(steepness[i]·(offset[i] +
    normal[i]·φ(x))). φ(x) is x itself; for a log axis its logarithm, for a Choice one column of 0 and 1 per option (`columns`
    names them). `tree` holds the leaves as nested pairs, gates numbered breadth first, the first of a pair left.
    """

    columns: tuple[str, ...]
    tree: Any
    offset: NDArray[np.float64]  # (g,)
    normal: NDArray[np.float64]  # (g, d)
    steepness: NDArray[np.float64]  # (g,)
    lengthscale: NDArray[np.float64]  # (l, d), in units of φ(x)
    std: NDArray[np.float64]  # (l,), prior standard deviation of f in a leaf, in units of y
    weights: str  # "product" or "sqrt"
    kernel: Kernel = field(repr=False)  # the same draw on the unit cube, as the plots take it
    domain: Domain = field(repr=False)

    @property
    def num_leaves(self) -> int:
        """l."""
        return len(self.std)

    @float64
    def leaf_weights(self, X: Any) -> NDArray[np.float64]:
        """λⱼ(x) for the rows of X in native units: (n, l), each row sums to one."""
        table = np.asarray(X)
        if table.ndim != 2 or table.shape[1] != self.domain.num_axes:
            raise InputError(f"X must have one column for each of {list(self.domain.names)}; got shape {table.shape}.")
        unit = to_unit(self.domain, table)
        if not isinstance(self.kernel, Partition):
            return np.ones((len(unit), 1))
        gates = self.kernel.gates
        logits = np.asarray(gates.steepness) * (np.asarray(gates.offset) + unit @ np.asarray(gates.normal).T)
        left, right = path_matrices(self.kernel.tree)  # in NumPy: of one draw that is looked at nothing is compiled
        return np.exp(-np.logaddexp(0.0, -logits) @ left.T - np.logaddexp(0.0, logits) @ right.T)


def native_partition(kernel: Any, domain: Domain, scale: Standardizer) -> NativePartition:
    """A partition with numbers in its fields, taken from the unit cube to native units.

    With u = (φ − low)/width the gate b + n·u is (b − Σ nₖ lowₖ/widthₖ) + Σ (nₖ/widthₖ) φₖ.
    """
    low, width = _affine(domain)
    if isinstance(kernel, Partition):
        gates, leaves, tree, weights = kernel.gates, kernel.leaves, kernel.tree, kernel.weights
        if isinstance(leaves, tuple):
            raise InputError("only leaves of one kind have common parameters to show; this partition has different ones.")
        normal = np.asarray(gates.normal) / width
        offset = np.asarray(gates.offset) - normal @ low
        steepness = np.broadcast_to(np.asarray(gates.steepness), offset.shape)
        lengthscale, variance = np.asarray(leaves.lengthscale), np.asarray(leaves.variance)
    else:
        tree, weights, d = 0, "product", len(width)
        offset, normal, steepness = np.zeros(0), np.zeros((0, d)), np.zeros(0)
        lengthscale, variance = np.asarray(kernel.lengthscale)[None], np.asarray(kernel.variance)[None]
    std = scale.scale * np.sqrt(variance)
    return NativePartition(
        domain.columns, tree, offset, normal, steepness, lengthscale * width, std, weights, kernel=kernel, domain=domain
    )


def _affine(domain: Domain) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """low and width of each column of the unit cube in units of φ."""
    lows, highs = zip(*(axis.affine() for axis in domain.axes.values()), strict=True)
    return np.concatenate(lows), np.concatenate(highs) - np.concatenate(lows)
