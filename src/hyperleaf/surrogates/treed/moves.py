"""Proposals of the reversible-jump sampler on trees: grow, prune, change, swap and rotate.

Each takes a tree and returns another one with the log probabilities of proposing it and of proposing the way back, or None where
the move does not exist. Nothing is said here about leaf parameters or data: the sampler sees to these, and to validity. The order
of the leaves from left to right survives change, swap and rotate, so parameters stay in their places; grow puts two leaves where
one was, prune one where two were.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log

import numpy as np

from hyperleaf.surrogates.treed.tree import Grid, Node, Split, box_of, find, leaf_paths, num_leaves, prunable, replace, splits


@dataclass(frozen=True, slots=True)
class Proposal:
    kind: str
    tree: Node
    log_forward: float
    log_backward: float
    leaf: int = -1  # grow: the number of the leaf that splits; prune: the left of the two that merge


def grow(tree: Node, grid: Grid, rng: np.random.Generator) -> Proposal | None:
    """A leaf and an axis, each uniform, and a location by `Grid.locations`; the way back prunes the new split."""
    paths = leaf_paths(tree)
    leaf = int(rng.integers(len(paths)))
    axis = int(rng.integers(grid.num_dims))
    ranks, probabilities = grid.locations(axis, box_of(tree, paths[leaf], grid.box)[axis])
    if not len(ranks):
        return None
    chosen = min(int(np.searchsorted(np.cumsum(probabilities), rng.random(), side="right")), len(ranks) - 1)
    new = replace(tree, paths[leaf], Split(axis, int(ranks[chosen])))
    forward = log(probabilities[chosen]) - log(len(paths)) - log(grid.num_dims)
    return Proposal("grow", new, forward, -log(len(prunable(new))), leaf)


def prune(tree: Node, grid: Grid, rng: np.random.Generator) -> Proposal | None:
    """A split above two leaves, uniform, becomes a leaf; the way back grows it."""
    paths = prunable(tree)
    if not paths:
        return None
    path = paths[int(rng.integers(len(paths)))]
    split = find(tree, path)
    assert split is not None
    new = replace(tree, path, None)
    ranks, probabilities = grid.locations(split.axis, box_of(new, path, grid.box)[split.axis])
    # the ranks are consecutive, so the position of the split's rank is its distance from the first
    backward = log(probabilities[split.rank - ranks[0]]) - log(num_leaves(new)) - log(grid.num_dims)
    return Proposal("prune", new, -log(len(paths)), backward, leaf_paths(new).index(path))


def change(tree: Node, grid: Grid, rng: np.random.Generator) -> Proposal | None:
    """A uniform split moves to the next smaller or larger observed value of its axis, ½ each."""
    nodes = list(splits(tree))
    if not nodes:
        return None
    path, split = nodes[int(rng.integers(len(nodes)))]
    rank = split.rank + (1 if rng.random() < 0.5 else -1)
    if not 0 <= rank < len(grid.values[split.axis]):
        return None
    new = replace(tree, path, Split(split.axis, rank, split.left, split.right))
    probability = -log(2 * len(nodes))
    return Proposal("change", new, probability, probability)


def swap(tree: Node, grid: Grid, rng: np.random.Generator) -> Proposal | None:
    """A uniform split below the root trades its rule with its parent; on the same axis the pair is rotated instead.

    A rotation leaves every leaf its rows: with u < v, ((A u B) v C) ↔ (A u (B v C)).
    """
    nodes = [(path, node) for path, node in splits(tree) if path]
    if not nodes:
        return None
    path, node = nodes[int(rng.integers(len(nodes)))]
    parent = find(tree, path[:-1])
    assert parent is not None
    if node.axis != parent.axis:
        below = Split(parent.axis, parent.rank, node.left, node.right)
        pair = (parent.left, below) if path[-1] else (below, parent.right)
        turned, kind = Split(node.axis, node.rank, *pair), "swap"
    elif path[-1]:
        turned = Split(node.axis, node.rank, Split(parent.axis, parent.rank, parent.left, node.left), node.right)
        kind = "rotate"
    else:
        turned = Split(node.axis, node.rank, node.left, Split(parent.axis, parent.rank, node.right, parent.right))
        kind = "rotate"
    probability = -log(len(nodes))
    return Proposal(kind, replace(tree, path[:-1], turned), probability, probability)


MOVES = (grow, prune, change, swap)
CUMULATIVE = (0.2, 0.4, 0.8, 1.0)  # grow 0.2, prune 0.2, change 0.4, swap 0.2


def propose(tree: Node, grid: Grid, rng: np.random.Generator) -> tuple[str, Proposal | None]:
    """One of the four moves with its fixed probability, and what it proposes; a move that does not exist here is a rejection."""
    u = rng.random()
    move = next(move for move, bound in zip(MOVES, CUMULATIVE, strict=True) if u < bound)
    return move.__name__, move(tree, grid, rng)
