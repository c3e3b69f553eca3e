"""Axis-aligned binary trees over the observed locations, and their prior.

A tree is an immutable nest of `Split`s whose ends are `None`, the leaves; leaves are counted from left to right. A split sends a
row left where x ≤ v, with v the value of an observed row: it is stored as the *rank* of v among the distinct values of its axis,
so that no floats are compared. `Grid` holds those values, the prior over trees and the proposal of a split location.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import log

import numpy as np
from numpy.typing import NDArray

Path = tuple[int, ...]  # the way from the root: 0 is left, 1 is right
Interval = tuple[int, int]  # ranks r with low < r ≤ high
Box = tuple[Interval, ...]


@dataclass(frozen=True, slots=True)
class Split:
    """An internal node: rows with rank ≤ `rank` on `axis` go left."""

    axis: int
    rank: int
    left: Node = None
    right: Node = None

    def child(self, side: int) -> Node:
        return self.right if side else self.left


Node = Split | None


def num_leaves(node: Node) -> int:
    return 1 if node is None else num_leaves(node.left) + num_leaves(node.right)


def height(node: Node) -> int:
    """Number of splits on the longest way down; 0 for a single leaf."""
    return 0 if node is None else 1 + max(height(node.left), height(node.right))


def splits(node: Node, path: Path = ()) -> Iterator[tuple[Path, Split]]:
    """All internal nodes with their paths, parents before children."""
    if node is not None:
        yield path, node
        yield from splits(node.left, (*path, 0))
        yield from splits(node.right, (*path, 1))


def prunable(node: Node) -> list[Path]:
    """Paths of the splits both of whose children are leaves."""
    return [path for path, split in splits(node) if split.left is None and split.right is None]


def leaf_paths(node: Node, path: Path = ()) -> list[Path]:
    if node is None:
        return [path]
    return leaf_paths(node.left, (*path, 0)) + leaf_paths(node.right, (*path, 1))


def find(node: Node, path: Path) -> Node:
    for side in path:
        assert node is not None
        node = node.child(side)
    return node


def replace(node: Node, path: Path, new: Node) -> Node:
    """The tree with the node at `path` exchanged for `new`."""
    if not path:
        return new
    assert node is not None
    left, right = node.left, node.right
    if path[0]:
        right = replace(right, path[1:], new)
    else:
        left = replace(left, path[1:], new)
    return Split(node.axis, node.rank, left, right)


def partition(node: Node, ranks: NDArray[np.intp], rows: NDArray[np.intp]) -> list[NDArray[np.intp]]:
    """The rows of each leaf, left to right."""
    if node is None:
        return [rows]
    goes_left = ranks[rows, node.axis] <= node.rank
    return partition(node.left, ranks, rows[goes_left]) + partition(node.right, ranks, rows[~goes_left])


def box_of(node: Node, path: Path, box: Box) -> Box:
    """The intervals of ranks that the node at `path` covers, when the root covers `box`."""
    for side in path:
        assert node is not None
        low, high = box[node.axis]
        part = (node.rank, high) if side else (low, node.rank)
        box = (*box[: node.axis], part, *box[node.axis + 1 :])
        node = node.child(side)
    return box


@dataclass(frozen=True)
class Grid:
    """Where splits may lie, and how likely: p(tree) ∝ Π_splits p_split(q)·count(v)/(dN) · Π_leaves (1 − p_split(q)).

    A node at depth q splits with probability p_split(q) = base·(1 + q)^−power; its axis is uniform over d, its location uniform
    over N rows, the observed ones and any further `locations` (so a value seen `count` times is that much likelier). Only valid
    trees count (enough rows in each leaf, a design of full rank): the sampler checks that. Locations are proposed among the
    values inside the leaf's interval, with probability ∝ count/rank of the distance to the interval's midpoint, each side of
    the midpoint normalised to ½.
    """

    values: tuple[NDArray[np.float64], ...]
    counts: tuple[NDArray[np.intp], ...]
    ranks: NDArray[np.intp]  # (n, d), of the observed rows
    num_locations: int  # N
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    base: float = 0.5
    power: float = 2.0
    _proposals: dict[tuple[int, int, int], tuple[NDArray[np.intp], NDArray[np.float64]]] = field(
        default_factory=dict, init=False, repr=False
    )

    @staticmethod
    def of(x: NDArray[np.float64], base: float = 0.5, power: float = 2.0, locations: NDArray[np.float64] | None = None) -> Grid:
        places = x if locations is None else np.concatenate([x, locations])
        parts = [np.unique(column, return_inverse=True, return_counts=True) for column in places.T]
        ranks = np.stack([part[1] for part in parts], axis=1).astype(np.intp)[: len(x)]
        values, counts = tuple(part[0] for part in parts), tuple(part[2] for part in parts)
        low, high = np.minimum(0.0, places.min(0)), np.maximum(1.0, places.max(0))
        return Grid(values, counts, ranks, len(places), low, high, base, power)

    @property
    def num_rows(self) -> int:
        return self.ranks.shape[0]

    @property
    def num_dims(self) -> int:
        return self.ranks.shape[1]

    @property
    def box(self) -> Box:
        """All of it: every rank lies in (−1, last]."""
        return tuple((-1, len(values) - 1) for values in self.values)

    def split_probability(self, depth: int) -> float:
        return self.base * (1.0 + depth) ** -self.power

    def log_prior(self, node: Node, depth: int = 0) -> float:
        """Unnormalised: the share of the invalid trees is not taken out, it cancels in every ratio."""
        split = self.split_probability(depth)
        if node is None:
            return log(1.0 - split)
        place = self.counts[node.axis][node.rank] / (self.num_dims * self.num_locations)
        return log(split * place) + self.log_prior(node.left, depth + 1) + self.log_prior(node.right, depth + 1)

    def locations(self, axis: int, interval: Interval) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        """Ranks strictly inside the interval and the probability of proposing each; both empty where there is none."""
        low, high = interval
        key = (axis, low, high)
        if key not in self._proposals:
            ranks = np.arange(low + 1, high)
            values = self.values[axis]
            bottom = values[low] if low >= 0 else self.lower[axis]
            top = values[high] if high < len(values) - 1 else self.upper[axis]
            distance = values[ranks] - 0.5 * (bottom + top)
            order = np.argsort(np.abs(distance), kind="stable")
            weight = np.empty(len(ranks))
            weight[order] = 1.0 / np.arange(1, len(ranks) + 1)
            weight *= self.counts[axis][ranks]
            for side in (distance < 0, distance >= 0):
                if side.any():
                    weight[side] /= weight[side].sum()
            self._proposals[key] = ranks, weight / max(weight.sum(), 1.0)
        return self._proposals[key]

    def translate(self, node: Node, other: Grid) -> Node:
        """The same tree in the ranks of another grid, which must contain the values of this one."""
        if node is None:
            return None
        rank = int(np.searchsorted(other.values[node.axis], self.values[node.axis][node.rank]))
        return Split(node.axis, rank, self.translate(node.left, other), self.translate(node.right, other))

    def rectangles(self, node: Node) -> NDArray[np.float64]:
        """Lower and upper corners of the leaves, left to right: (leaves, 2, d)."""
        corners = np.empty((num_leaves(node), 2, self.num_dims))
        for number, path in enumerate(leaf_paths(node)):
            for axis, (low, high) in enumerate(box_of(node, path, self.box)):
                values = self.values[axis]
                corners[number, 0, axis] = values[low] if low >= 0 else self.lower[axis]
                corners[number, 1, axis] = values[high] if high < len(values) - 1 else self.upper[axis]
        return corners

    def leaf_of(self, node: Node, x: NDArray[np.float64]) -> NDArray[np.intp]:
        """The number of the leaf, left to right, in which each point (m, d) falls."""
        leaf = np.zeros(len(x), dtype=np.intp)
        if node is not None:
            goes_right = x[:, node.axis] > self.values[node.axis][node.rank]
            leaf[~goes_right] = self.leaf_of(node.left, x[~goes_right])
            leaf[goes_right] = num_leaves(node.left) + self.leaf_of(node.right, x[goes_right])
        return leaf


def describe(node: Node, values: Sequence[NDArray[np.float64]], names: Sequence[str] | None = None, indent: str = "") -> str:
    """The tree as indented text."""
    if node is None:
        return f"{indent}leaf\n"
    name = names[node.axis] if names else f"x{node.axis + 1}"
    value = f"{values[node.axis][node.rank]:.4g}"
    left, right = (describe(child, values, names, indent + "  ") for child in (node.left, node.right))
    return f"{indent}{name} ≤ {value}\n{left}{indent}{name} > {value}\n{right}"
