"""Predictions that grow: while the draws stay where they are, points that were asked for before gain one row an observation.

Points are kept from the second posterior on that is asked for them, so that who asks once pays for nothing. What has grown and
what is predicted anew are equal to the last bit (see `native/predictions.c`): nobody can tell a study that was restarted.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hyperleaf.gp import Conditioned
from hyperleaf.native import Draws, Kept

MANY = 4096  # points beyond which none are kept
SETS = 2  # of points: a pool, and the points at which accuracy is measured
BYTES = 2**28  # of all that is kept for one posterior


@dataclass
class Ahead:
    """What one posterior keeps: sets of points that were asked for, of itself or of the posterior before, and what grows."""

    asked: list[NDArray[np.float64]] = field(default_factory=list)
    kept: list[Kept] = field(default_factory=list)

    def predict(self, draws: Draws, points: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Latent mean and variance (s, m) of each draw."""
        mine = [one for one in self.kept if np.array_equal(one.points, points)]
        known = mine[0] if mine else None
        if known is not None:
            self.kept = [one for one in self.kept if one is not known]  # whoever asks meanwhile predicts anew
        size = 8 * draws.num * len(points) * len(draws.data.y)
        again = any(np.array_equal(one, points) for one in self.asked) and size <= BYTES - sum(map(_bytes, self.kept))
        found, left = draws.predict(points, known, keep=again)
        if left is not None and _bytes(left) <= BYTES:
            self.kept = [left, *self.kept][:SETS]
        if not any(np.array_equal(one, points) for one in self.asked) and len(points) <= MANY:
            self.asked = [points.copy(), *self.asked][:SETS]
        return found.mean, found.variance

    def handed_on(self, grown: bool) -> Ahead:
        """For the posterior after more observations; `grown` says that its factors are these with more rows."""
        kept, self.kept = self.kept, []
        return Ahead(list(self.asked), kept if grown else [])


def continues(z: Any, seen: Conditioned, count: int, next_z: Any, next_seen: Conditioned) -> bool:
    """Whether the next draws are the same, and their factors begin with the same `count` rows."""
    if not np.array_equal(np.asarray(z), np.asarray(next_z)):
        return False
    pairs = zip(np.asarray(seen.factor), np.asarray(next_seen.factor), strict=True)
    same = np.array_equal(np.asarray(seen.whitened)[:, :count], np.asarray(next_seen.whitened)[:, :count])
    return same and all(np.array_equal(a[:count, :count], b[:count, :count]) for a, b in pairs)


def _bytes(kept: Kept) -> int:
    return kept.rows.nbytes
