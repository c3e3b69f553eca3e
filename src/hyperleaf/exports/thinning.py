"""Fewer draws that say the same: the smallest weighted choice that keeps mean and std to within a tolerance.

Over reference points the mean Σ wᵢμᵢ and the second moment Σ wᵢ(vᵢ + (μᵢ − m)²) are linear in the weights. So draws are added one
after the other, each time the one that the remaining difference points to most, with all weights solved for anew under wᵢ ≥ 0 and
Σ wᵢ = 1 (kernel herding with full corrections). The loss is then measured at other places.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hyperleaf.domain.sobol import sobol
from hyperleaf.exports.ingredients import Part, Values
from hyperleaf.exports.numerics import moments

MATCHED, CHECKED = 256, 1024
SUM = 1e3  # how much the sum of the weights counts beside a difference


@dataclass(frozen=True)
class Thinned:
    """A part with fewer draws, and the largest change of mean and std that was found, in units of the std at that place."""

    part: Part
    before: int
    after: int
    mean_loss: float
    std_loss: float
    places: int


def thinned(part: Part, tolerance: float) -> Thinned:
    """The part with as few draws as keep mean and std to within `tolerance` of the std at all places that are looked at."""
    d, total = part.x.shape[1], len(part.weights)
    design = sobol(2048, d, 0)
    matched = np.concatenate([design[:MATCHED], part.x])
    places = design[MATCHED : MATCHED + CHECKED]
    means, variances = moments(part, np.concatenate([matched, places]))
    # Less than a thousandth of the outputs' spread is nothing that a std has to be kept of.
    variances = variances + np.maximum(np.minimum(part.noise[:, None], 1e-6), 1e-12)
    whole = _moments(part.weights, means, variances)
    features = np.concatenate(
        [(means - whole[0]) / whole[1], 0.5 * ((variances + (means - whole[0]) ** 2) / whole[1] ** 2 - 1.0)], 1
    )
    target = np.concatenate([np.arange(len(matched)), means.shape[1] + np.arange(len(matched))])
    chosen: list[int] = []
    weights = np.zeros(0)
    residual = np.zeros(len(target))
    while len(chosen) < total:
        scores = features[:, target] @ residual if chosen else -np.sum(features[:, target] ** 2, axis=1)
        scores[chosen] = -np.inf
        chosen.append(int(np.argmax(scores)))
        weights = _weights(features[chosen][:, target])
        residual = -weights @ features[chosen][:, target]
        if _loss(weights, means[chosen], variances[chosen], whole).max() <= tolerance:
            break
    kept = np.array(chosen, dtype=np.intp)[weights > 0]
    final = weights[weights > 0]
    if len(kept) >= total:
        kept, final = np.arange(total), part.weights
    order = np.argsort(kept)
    kept, final = kept[order], final[order]
    losses = _loss(final, means[kept], variances[kept], whole)
    return Thinned(part.only(kept, final), total, len(kept), float(losses[0]), float(losses[1]), means.shape[1])


def _moments(weights: Values, means: Values, variances: Values) -> tuple[Values, Values]:
    mean = weights @ means
    return mean, np.sqrt(weights @ (variances + (means - mean) ** 2))


def _loss(weights: Values, means: Values, variances: Values, whole: tuple[Values, Values]) -> Values:
    """The largest change of mean and of std, in units of the std."""
    mean, std = _moments(weights, means, variances)
    return np.array([np.max(np.abs(mean - whole[0]) / whole[1]), np.max(np.abs(std / whole[1] - 1.0))])


def _weights(features: Values) -> Values:
    """w ≥ 0 with Σ w = 1 that brings Σ wᵢ featuresᵢ closest to zero."""
    from scipy.optimize import nnls

    scale = SUM * max(float(np.abs(features).max()), 1.0)
    system = np.concatenate([features.T, np.full((1, len(features)), scale)])
    weights = nnls(system, np.append(np.zeros(features.shape[1]), scale))[0]
    return weights / weights.sum()
