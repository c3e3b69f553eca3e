"""A `Problem` is a score of rows of the unit cube, the domain they must lie in, and perhaps the score's gradient; `Trials` are
rows that an `Optimizer` tried."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hyperleaf.domain import Domain

Rows = NDArray[np.float64]  # (m, d), in the unit cube
Scores = NDArray[np.float64]  # (m,), larger is better
Score = Callable[[Rows], Scores]

APART = 0.1  # of the width of some axis; starts nearer than this in all of them are taken for the same hill


@dataclass(frozen=True)
class Problem:
    """`score` to be maximised over `domain`; `gradient` gives scores and their gradients (m, d) at rows, if there is one.

    A score that is `coarse` is not worth a long search.
    """

    domain: Domain
    score: Score
    gradient: Callable[[Rows], tuple[Scores, Rows]] | None = None
    seed: int = 0
    coarse: bool = False


@dataclass(frozen=True)
class Trials:
    """Feasible rows that were tried, and their scores; one that is not a number counts as −∞."""

    unit: Rows
    scores: Scores

    def __post_init__(self) -> None:
        object.__setattr__(self, "scores", np.where(np.isnan(self.scores), -np.inf, self.scores))

    def best(self, num: int) -> Trials:
        """The `num` best, best first; of equals the earlier."""
        order = np.argsort(-self.scores, kind="stable")[:num]
        return Trials(self.unit[order], self.scores[order])

    def spread(self, num: int) -> Trials:
        """The best, then each time the best that is not near one already taken, so that starts do not share one hill."""
        left, taken = np.argsort(-self.scores, kind="stable"), list[np.intp]()
        while len(left) and len(taken) < num:
            taken.append(left[0])
            left = left[np.abs(self.unit[left] - self.unit[left[0]]).max(axis=1) > APART]
        order = np.array(taken, dtype=np.intp)
        return Trials(self.unit[order], self.scores[order])

    def and_(self, other: Trials) -> Trials:
        return Trials(np.concatenate([self.unit, other.unit]), np.concatenate([self.scores, other.scores]))


class Optimizer(ABC):
    """A way to search a domain."""

    @abstractmethod
    def search(self, problem: Problem) -> Trials:
        """Feasible rows worth considering, the best found among them."""
