"""The rule about asking for a finished point again."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from hyperleaf.errors import ExhaustedError
from hyperleaf.optimize.base import Rows, Trials

REPEAT_DISTANCE = 1e-6  # of the width of each axis; nearer than this is the same point
NOTICEABLE_NOISE = 1e-6  # variance; a noise std below a thousandth of the output's is none


def repeats(unit: Rows, finished: Rows) -> NDArray[np.bool_]:
    """Which rows are the same point as a finished one."""
    if not len(finished) or not len(unit):
        return np.zeros(len(unit), dtype=bool)
    distance, _ = cKDTree(finished).query(unit, p=np.inf, distance_upper_bound=2 * REPEAT_DISTANCE)
    return distance <= REPEAT_DISTANCE


def choose(trials: Trials, finished: Rows, *, noise: float, informed: bool = True) -> tuple[int, str]:
    """The index of the trial to ask for, and a note if that repeats a finished (pending, picked) point.

    A repetition is worth it only if outputs are noisy (`noise` is their variance) and a criterion that knows about the noise
    (`informed`) scores it above every new point, or if no new point is left.
    """
    again = repeats(trials.unit, finished)
    noisy = noise > 1.01 * NOTICEABLE_NOISE  # the nugget of outputs that repeat exactly is none, whatever rounding does to it
    if again.all():
        if not noisy:
            raise ExhaustedError(
                f"a query must not repeat a finished point without noise; all {len(again)} candidates are finished or pending. "
                "Widen the domain, add candidates to the pool, or stop here."
            )
        return int(np.argmax(trials.scores)), f"repeats a finished point: none is left that is new (noise std {noise**0.5:.3g})"
    new = np.flatnonzero(~again)
    best_new = int(new[np.argmax(trials.scores[new])])
    best = int(np.argmax(trials.scores))
    if again[best] and noisy and informed and trials.scores[best] > trials.scores[best_new]:
        gap = trials.scores[best] - trials.scores[best_new]
        return best, f"repeats a finished point: with noise std {noise**0.5:.3g} it scores {gap:.3g} above the best new one"
    return best_new, ""
