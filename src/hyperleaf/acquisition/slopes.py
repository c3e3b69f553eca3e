"""Scores with their gradients in x, from a posterior that has its own slopes: no compiled function of JAX is needed for them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hyperleaf.acquisition.belief import Belief
from hyperleaf.machine import mixtures as machine
from hyperleaf.surrogates.base import FLOOR, Slopes

Values = NDArray[np.float64]


def entropy_slopes(belief: Belief, x: Any) -> tuple[Values, Values] | None:
    """The entropy (m,) of an observation at x, and its gradient (m, d); None where only JAX has it."""
    found = _slopes_of(belief, x) if machine.is_there() else None
    if found is None:
        return None
    noisy = found.variances + found.noise_at_x
    floored = np.maximum(noisy, FLOOR)
    value, by_mean, by_variance = machine.entropy_slopes(found.weights, found.means, floored)
    by_variance = np.where(noisy > FLOOR, by_variance, 0.0)
    return value, np.einsum("sm,smd->md", by_mean, found.by_mean) + np.einsum("sm,smd->md", by_variance, _noisy(found))


def variance_slopes(belief: Belief, x: Any, noisy: bool) -> tuple[Values, Values] | None:
    """The variance of f, or of an observation, and its gradient."""
    found = _slopes_of(belief, x)
    if found is None:
        return None
    w, within = found.weights, found.variances + (found.noise_at_x if noisy else 0.0)
    off = found.means - w @ found.means
    # The derivative of the mean of the means has no part in it: deviations from it sum to zero.
    slope = np.einsum("s,smd->md", w, _noisy(found) if noisy else found.by_variance) + 2.0 * np.einsum(
        "s,sm,smd->md", w, off, found.by_mean
    )
    return w @ within + w @ off**2, slope


def _noisy(found: Slopes) -> Values:
    """The derivative of the variance of an observation."""
    return found.by_variance if found.by_noise is None else found.by_variance + found.by_noise


def _slopes_of(belief: Belief, x: Any) -> Slopes | None:
    return None if len(belief.points) else belief.posterior.slopes(x)
