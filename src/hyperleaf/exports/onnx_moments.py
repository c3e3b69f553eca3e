"""Mean and variance of f, and of its derivatives, under each draw, as nodes of an ONNX graph.

Draws go side by side in the first axis of every array; leaves and columns one after the other, so that what is held at once are
a few arrays (draws, points, observations). Distances are made of differences, since the expanded square loses half the digits.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hyperleaf.exports.ingredients import Part
from hyperleaf.exports.numerics import PROFILE, mixing
from hyperleaf.exports.onnx_nodes import Graph

_ROOTS = {"matern12": 1.0, "matern32": 3.0, "matern52": 5.0}


class Moments:
    """Of one output at the points `unit` (m, d), standardised; what is made once serves the values and all slopes."""

    def __init__(self, graph: Graph, part: Part, unit: str) -> None:
        self.graph, self.part, self.unit = graph, part, unit
        s, n, d, _, g = part.shape
        logits = graph("MatMul", unit, part.normal.reshape(s * g, d).T)  # (m, s g)
        by_draw = graph.add("Transpose", graph.shaped(logits, [-1, s, g]), perm=[1, 0, 2])
        self.z = graph("Add", by_draw, part.offset[:, None, :])  # (s, m, g)
        self.weights = self._mixing()  # (s, m, l)
        there = np.stack([mixing(part, i, part.x) for i in range(s)])
        self.shared = part.variance[:, None, :] * there  # (s, n, l)
        self.apart, squares = [], []
        for k in range(d):
            column = graph.add("Gather", unit, graph.constant([k], np.int64), axis=1)  # (m, 1)
            self.apart.append(graph("Sub", column, part.x[None, :, k]))  # (m, n)
            squares.append(graph.shaped(graph("Mul", self.apart[k], self.apart[k]), [-1, n, 1]))
        self.squared = squares[0] if d == 1 else graph.add("Concat", *squares, axis=2)  # (m, n, d)
        self.rates = [graph.constant((1.0 / part.lengthscale[:, j] ** 2).T) for j in range(part.shape[3])]  # (d, s)
        inverse = np.stack([np.linalg.solve(factor, np.eye(n)) for factor in part.factor])
        self.inverse = graph.constant(np.swapaxes(np.tril(inverse), 1, 2))
        self.whitened = graph.constant(part.whitened[:, :, None])

    def values(self) -> tuple[str, str]:
        """Mean and variance of f, (s, m)."""
        graph, part = self.graph, self.part
        inside = graph("Sub", self.unit, 0.5)
        trend = graph("Add", graph("Mul", graph("MatMul", inside, (part.x - 0.5).T), part.linear), part.constant)  # (m, n)
        prior = graph("Add", graph("Mul", graph.sum(graph("Mul", inside, inside), 1), part.linear), part.constant)  # (m,)
        cross = ""
        for j in range(part.shape[3]):
            squared = self._scaled(j)
            phi = _profile(graph, part.profile, squared)
            term = graph("Mul", graph("Mul", phi, self._leaf(self.weights, j)), self.shared[:, None, :, j])
            cross = term if not cross else graph("Add", cross, term)
        own = graph("MatMul", graph("Mul", self.weights, self.weights), part.variance[:, :, None])
        return self._solved(graph("Add", cross, trend), graph("Add", self._flat(own), prior))

    def noise(self) -> Any:
        """The noise variance of a new observation, in a shape that broadcasts with (s, m)."""
        graph, part = self.graph, self.part
        if not part.tilt.any():
            return part.noise[:, None]
        shares = self.weights if part.power == 1.0 else graph("Mul", self.weights, self.weights)
        return graph("Mul", graph("Exp", graph.sum(graph("Mul", shares, part.tilt[:, None, :]), 2)), part.noise[:, None])

    def slopes(self, column: int) -> tuple[str, str]:
        """Mean and variance of ∂f/∂u by that column of the unit cube, (s, m)."""
        graph, part = self.graph, self.part
        side = np.swapaxes(part.side.astype(np.float64), 1, 2)  # (s, g, l)
        along = part.normal[:, :, column, None]  # (s, g, 1)
        open_, shut = graph("Sigmoid", self.z), graph("Sigmoid", graph("Neg", self.z))
        left = graph("MatMul", shut, np.maximum(side, 0.0) * along)
        right = graph("MatMul", open_, np.maximum(-side, 0.0) * along)
        changes = graph("Mul", graph("Mul", self.weights, part.power), graph("Sub", left, right))  # ∂λᵖ/∂u, (s, m, l)
        rates = 1.0 / part.lengthscale[:, :, column] ** 2  # (s, l)
        at_zero = PROFILE[part.profile][1](np.zeros(1))[0]
        own = graph("Add", graph("Mul", changes, changes),
                    graph("Mul", graph("Mul", self.weights, self.weights), at_zero * rates[:, None, :]))  # fmt: skip
        prior = graph("Add", self._flat(graph("MatMul", own, part.variance[:, :, None])), part.linear)
        cross = graph.constant(part.linear * (part.x[None, None, :, column] - 0.5))
        for j in range(part.shape[3]):
            squared = self._scaled(j)
            rising = graph("Mul", _profile(graph, part.profile, squared), self._leaf(changes, j))
            falling = graph("Mul", _slope(graph, part.profile, squared), self._leaf(self.weights, j))
            moved = graph("Mul", graph("Mul", falling, self.apart[column]), rates[:, j, None, None])
            cross = graph("Add", cross, graph("Mul", graph("Sub", rising, moved), self.shared[:, None, :, j]))
        return self._solved(cross, prior)

    def _mixing(self) -> str:
        graph, part = self.graph, self.part
        tail = graph("Log", graph("Add", graph("Exp", graph("Neg", graph("Abs", self.z))), 1.0))
        shut = graph("Sub", graph("Min", self.z, 0.0), tail)
        side = np.swapaxes(part.side.astype(np.float64), 1, 2)  # (s, g, l)
        total = graph("Sub", graph("MatMul", shut, np.abs(side)), graph("MatMul", self.z, np.maximum(-side, 0.0)))
        return graph("Exp", graph("Mul", total, part.power))

    def _scaled(self, leaf: int) -> str:
        """Squared distances in lengthscales of a leaf, (s, m, n); made anew for each use, for all at once would be large."""
        return self.graph.add("Transpose", self.graph.add("MatMul", self.squared, self.rates[leaf]), perm=[2, 0, 1])

    def _leaf(self, values: str, leaf: int) -> str:
        """Of (s, m, l) those of one leaf, (s, m, 1)."""
        return self.graph.add("Gather", values, self.graph.constant([leaf], np.int64), axis=2)

    def _flat(self, values: str) -> str:
        return self.graph.shaped(values, [self.part.shape[0], -1])

    def _solved(self, cross: str, prior: str) -> tuple[str, str]:
        """Mean and variance, given the covariances with the observations (s, m, n) and the variance before them."""
        v = self.graph.add("MatMul", cross, self.inverse)
        means = self._flat(self.graph.add("MatMul", v, self.whitened))
        variances = self.graph("Sub", prior, self.graph.sum(self.graph("Mul", v, v), 2))
        return means, self.graph("Max", variances, 0.0)


def _profile(graph: Graph, profile: str, squared: str) -> str:
    if profile == "rbf":
        return graph("Exp", graph("Mul", squared, -0.5))
    r = graph("Sqrt", graph("Mul", squared, _ROOTS[profile]))
    fall = graph("Exp", graph("Neg", r))
    if profile == "matern12":
        return fall
    front = graph("Add", r, 1.0)
    if profile == "matern52":
        front = graph("Add", front, graph("Div", graph("Mul", r, r), 3.0))
    return graph("Mul", front, fall)


def _slope(graph: Graph, profile: str, squared: str) -> str:
    """−2 dφ/d(r²)."""
    if profile == "rbf":
        return graph("Exp", graph("Mul", squared, -0.5))
    r = graph("Sqrt", graph("Mul", squared, _ROOTS[profile]))
    fall = graph("Mul", graph("Exp", graph("Neg", r)), _ROOTS[profile])
    return fall if profile == "matern32" else graph("Mul", graph("Div", graph("Add", r, 1.0), 3.0), fall)
