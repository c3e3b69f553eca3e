"""Limits on outputs: how probable it is that they hold at a point, and which points may be asked.

A `Limit` is a range that an observation must keep to. Under draws θ with weights w_θ it holds with probability
Σ_θ w_θ [Φ((high − μ_θ)/s_θ) − Φ((low − μ_θ)/s_θ)]: the tail of the mixture itself, not of a Gaussian of the same moments, which
forgets the few draws that see danger. `all_hold` joins several. An `Admission` says which candidates are probable enough, counts
what is still open, and keeps steps within ramps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree
from scipy.special import ndtr

from hyperleaf.acquisition.belief import Points
from hyperleaf.errors import InputError
from hyperleaf.mixture import Mixture

Probabilities = NDArray[np.float64]
RESOLUTION = 3.0  # a mass below this, divided by the effective number of draws, may be there although no draw shows it
NEAR = 0.03  # times √d: so near to runs that kept all limits, or to the way between two, nothing new is expected of a system
APART = 0.5  # times the distance to a run that broke a limit: so much nearer it must be to those that kept them
NEIGHBOURS = 8  # of a run that kept all limits, to which the ways count


@dataclass(frozen=True)
class Limit:
    """What an observation must keep to: low ≤ y ≤ high, in native units."""

    low: float = -np.inf
    high: float = np.inf

    def __post_init__(self) -> None:
        if not self.low < self.high or not (np.isfinite(self.low) or np.isfinite(self.high)):
            raise InputError(f"a limit needs a low or a high bound, and low < high; got {self.low:g} and {self.high:g}.")

    def kept(self, y: float) -> bool:
        """Whether y lies between low and high, both included."""
        return self.low <= y <= self.high

    def by_draw(self, mixture: Mixture) -> Probabilities:
        """The probability (s, m) under each draw that it holds; the mixture should be that of an observation."""
        std = np.sqrt(np.maximum(mixture.variances, 1e-300))
        low, high = (self.low - mixture.means) / std, (self.high - mixture.means) / std
        upper = low > 0  # where the difference of two numbers next to one would lose all digits
        return np.where(upper, ndtr(-low) - ndtr(-high), ndtr(high) - ndtr(low))

    def holds(self, mixture: Mixture) -> Probabilities:
        """Its probability (m,), averaged over the draws."""
        return np.clip(mixture.weights @ self.by_draw(mixture), 0.0, 1.0)


def all_hold(predicted: Sequence[tuple[Mixture, Limit]], *, shared: bool = False) -> Probabilities:
    """The probability (m,) that all limits hold, of outputs that are independent given the parameters.

    Each output has draws of its own as a rule; then the sum over all combinations of draws is the product of the mixtures' own
    tails. With `shared`, all mixtures are over the same draws, and it is Σ_θ w_θ Π_k, which keeps dangers that come together
    together.
    """
    if not predicted:
        raise InputError("all_hold needs at least one limit; got none.")
    if not shared:
        return np.prod([limit.holds(mixture) for mixture, limit in predicted], axis=0)
    weights = predicted[0][0].weights
    if any(mixture.means.shape != predicted[0][0].means.shape for mixture, _ in predicted):
        raise InputError("outputs with shared draws must have equally many of them; these have not. Leave out shared=True.")
    return np.clip(weights @ np.prod([limit.by_draw(mixture) for mixture, limit in predicted], axis=0), 0.0, 1.0)


def effective_draws(mixture: Mixture) -> float:
    """1/Σ w²: how many equal draws say as much."""
    return float(1.0 / np.sum(np.square(mixture.weights)))


def resolved(risk: float, draws: float) -> bool:
    """Whether so many effective draws can tell a risk from none: if none of them shows a danger, one of probability 3/draws
    is missed in one case of twenty."""
    return risk * draws >= RESOLUTION


@dataclass(frozen=True)
class Ramp:
    """How far a query may be from the one before: the corners of what is reached from a row (d,) of the unit cube."""

    box_around: Callable[[NDArray[np.float64]], tuple[NDArray[np.float64], NDArray[np.float64]]]


@dataclass(frozen=True)
class Admission:
    """Which rows of the unit cube may be asked.

    A row is admitted if `probability` gives it at least 1 − `risk`, and ramps reach it from `last`. Once limits have been broken,
    `risk` is less than what was `asked` for, and the model is no longer taken at its word. Rows that it would have thought safe
    enough before are then admitted too, but only beside runs that kept all limits (`kept`) or on the way between two of them, and
    far nearer to these than to any run that did not (`broken`). With nothing left to risk (≤ 0) no others are admitted. An open
    query lowers the risk by `debit` times its own, until its outcome is known.
    """

    probability: Callable[[Points], Probabilities]
    asked: float
    risk: float
    debit: float = 0.0
    kept: Points = field(default_factory=lambda: np.zeros((0, 0)), repr=False)
    broken: Points = field(default_factory=lambda: np.zeros((0, 0)), repr=False)
    ramp: Ramp | None = None
    last: NDArray[np.float64] | None = None

    @cached_property
    def box(self) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
        """The corners of what ramps reach; None where nothing bounds a step."""
        return None if self.ramp is None or self.last is None else self.ramp.box_around(self.last)

    @property
    def careful(self) -> bool:
        """Whether limits were broken so often that the neighbourhood of safe runs is asked too, or alone."""
        return self.risk < self.asked

    def reached(self, unit: Points) -> NDArray[np.bool_]:
        """Which rows ramps reach."""
        if self.box is None:
            return np.ones(len(unit), dtype=bool)
        low, high = self.box
        return np.all((unit >= low - 1e-12) & (unit <= high + 1e-12), axis=1)

    def admits(self, unit: Points, probability: Probabilities | None = None) -> NDArray[np.bool_]:
        """Which rows may be asked; `probability` if it is known already."""
        return self._admitted(unit, self.probability(unit) if probability is None else probability, False)

    def among(self, unit: Points, probability: Probabilities) -> NDArray[np.bool_]:
        """`admits` for the rows of a pool, whose nearest row is near enough, for a pool has nothing nearer."""
        return self._admitted(unit, probability, True)

    def _admitted(self, unit: Points, probability: Probabilities, finite: bool) -> NDArray[np.bool_]:
        reached = self.reached(unit)
        sure = reached & (probability >= 1.0 - min(self.risk, self.asked)) & (self.risk > 0)
        if not self.careful or not len(self.kept) or not len(unit):
            return sure
        possible = reached & (probability >= 1.0 - self.asked)
        distance = np.full(len(unit), np.inf)
        distance[possible] = from_ways(self.kept, unit[possible])
        if len(self.broken):
            possible &= distance < APART * cKDTree(self.broken).query(unit)[0]
        near = NEAR * np.sqrt(unit.shape[1])
        if finite and possible.any():
            near = max(near, float(distance[possible].min()))
        return sure | (possible & (distance <= near))

    def after(self, unit: NDArray[np.float64]) -> Admission:
        """What is admitted beside a query at this row (d,) that is still open."""
        danger = 1.0 - float(self.probability(unit[None])[0])
        return replace(self, risk=self.risk - self.debit * danger, last=unit)


def from_ways(kept: Points, unit: Points) -> Probabilities:
    """The distance (m,) of each row to the nearest run (n, d), or straight way between two that are neighbours."""
    nearest = cKDTree(kept).query(unit)[0] if len(unit) else np.zeros(0)
    if len(kept) < 2 or not len(unit):
        return nearest
    neighbours = cKDTree(kept).query(kept, k=min(NEIGHBOURS + 1, len(kept)))[1]
    for start, others in zip(kept, neighbours, strict=True):
        way = kept[others] - start  # (k, d)
        length = np.maximum(np.sum(way**2, axis=1), 1e-300)
        share = np.clip((unit - start) @ way.T / length, 0.0, 1.0)  # (m, k)
        squares = np.sum((unit[:, None] - start - share[:, :, None] * way) ** 2, axis=2)
        nearest = np.minimum(nearest, np.sqrt(squares.min(axis=1)))
    return nearest
