"""Leave-one-out predictions without a second fit.

Given one draw of the parameters, K the covariance of the data with noise and α = K⁻¹y, observation i is predicted by all others
as N(yᵢ − αᵢ/K⁻¹ᵢᵢ, 1/K⁻¹ᵢᵢ). Where a surrogate keeps no such K, the same follows from what it predicts at its data: f is N(m, v)
given all, the noise has variance s, and taking observation i away leaves precision 1/v − 1/s and mean (m/v − y/s) over it.
Parameters too were learned with observation i, so draws are weighted by 1/p(yᵢ | rest), truncated at √(number of draws) times
their mean, which bounds the variance (Ionides, 2008).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack
from scipy.special import logsumexp, softmax

from hyperleaf.data import Dataset
from hyperleaf.mixture import Mixture

Values = NDArray[np.float64]
_FLOOR = 1e-12
_WIDEST = 1e4  # variance in units of the standardised outputs, where an observation without noise hides what was known before it


class Cavities(NamedTuple):
    """Weights (s,) of draws, and per draw the mean and variance (s, n) of each observation given the others."""

    weights: Values
    means: Values
    variances: Values


def leave_one_out(y: Values, cavities: Cavities) -> Mixture:
    """Each observation (n,), noise included, as predicted from all others, in the units of y."""
    draw_weights, means, variances = cavities
    alive = draw_weights > 0  # a draw that an observation has ruled out would have the largest ratio of all for it
    draw_weights, means, variances = draw_weights[alive], means[alive], variances[alive]
    log_ratios = 0.5 * (np.log(2 * np.pi * variances) + (y - means) ** 2 / variances)  # ln 1/p(yᵢ | rest)
    log_weights = np.log(draw_weights)[:, None]
    limit = 0.5 * np.log(len(draw_weights)) + logsumexp(log_weights + log_ratios, axis=0)
    weights = softmax(log_weights + np.minimum(log_ratios, limit), axis=0)
    return _equally_weighted(weights, means, variances)


def cavities_of_predictions(data: Dataset, mixture: Mixture) -> Cavities:
    """From what is predicted at the data, by taking each observation out of its own prediction."""
    means, variances = np.asarray(mixture.means), np.maximum(np.asarray(mixture.variances), _FLOOR)
    learned = np.broadcast_to(np.asarray(mixture.noise_at_candidates()), means.shape)
    noise = np.maximum(learned + (0.0 if data.noise is None else data.noise), _FLOOR)
    precision = np.maximum(1.0 / variances - 1.0 / noise, 1.0 / _WIDEST)
    return Cavities(np.asarray(mixture.weights), (means / variances - data.y / noise) / precision, 1.0 / precision + noise)


def cavities_of_factors(data: Dataset, weights: Values, factors: Values, whitened: Values) -> Cavities:
    """From the factor L (s, n or more, n or more) of each draw's covariance of the data, and from L⁻¹y."""
    n, s = data.num_observations, len(weights)
    means, variances = np.empty((2, s, n))
    alive = np.ones(s, dtype=bool)
    for i, factor in enumerate(factors):
        inverse, trouble = lapack.dtrtri(factor[:n, :n], lower=1)
        inverse = np.tril(inverse)
        diagonal = np.sum(inverse**2, axis=0)
        alive[i] = trouble == 0 and bool(np.isfinite(diagonal).all())
        means[i], variances[i] = data.y - (inverse.T @ whitened[i, :n]) / diagonal, 1.0 / diagonal
    weights = weights[alive]
    return Cavities(weights / weights.sum(), means[alive], variances[alive])


def _equally_weighted(weights: Values, means: Values, variances: Values) -> Mixture:
    """Mixtures whose weights differ between observations, resampled to equal ones; systematic, so the same every time."""
    s, n = weights.shape
    positions = (np.arange(s) + 0.5) / s
    cumulated = np.cumsum(weights, axis=0)
    rows = np.stack([np.minimum(np.searchsorted(cumulated[:, i], positions), s - 1) for i in range(n)], axis=1)
    columns = np.arange(n)[None]
    return Mixture(np.full(s, 1.0 / s), means[rows, columns], variances[rows, columns])
