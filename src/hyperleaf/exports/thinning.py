"""Fewer draws that say the same: the smallest weighted choice that keeps mean and std to within a tolerance.

Over reference points the mean Σ wᵢμᵢ and the second moment Σ wᵢ(vᵢ + (μᵢ − m)²) are linear in the weights. So draws are
added one after the other, each time that to which the remaining difference points most, with all weights solved for anew
under wᵢ ≥ 0 and Σ wᵢ = 1 (kernel herding with full corrections). Then other places are looked at, among them the rim and
the gates of single draws, where one draw may be all of the variance: where the tolerance is missed there, these count too and
it goes on. What is stated is the loss at places that had no part in the choice.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from hyperleaf.exports.ingredients import Part, Values
from hyperleaf.exports.numerics import moments

MATCHED, CHECKED, ROUNDS = 256, 2048, 4
SUM = 1e3  # how much the sum of the weights counts beside a difference
RIM = 0.25  # of the unit interval: how far beyond it values are drawn that are then put on its ends


@dataclass(frozen=True)
class Thinned:
    """A part with fewer draws, and the largest change of mean and std that was found, in units of the std at that place."""

    part: Part
    before: int
    after: int
    mean_loss: float
    std_loss: float
    places: int


@dataclass(frozen=True)
class _Seen:
    """What all draws say at some places: their means and variances, and the mean and std of the mixture."""

    means: Values
    variances: Values
    whole: tuple[Values, Values]

    @classmethod
    def at(cls, part: Part, unit: Values) -> _Seen:
        means, variances = moments(part, unit)
        # Less than a thousandth of the outputs' spread is nothing that a std has to be kept of.
        variances = variances + np.maximum(np.minimum(part.noise[:, None], 1e-6), 1e-12)
        return cls(means, variances, _moments(part.weights, means, variances))

    def loss(self, weights: Values, draws: list[int]) -> Values:
        """The largest change of mean and of std, in units of the std."""
        mean, std = _moments(weights, self.means[draws], self.variances[draws])
        return np.array([np.max(np.abs(mean - self.whole[0]) / self.whole[1]), np.max(np.abs(std / self.whole[1] - 1.0))])

    def features(self) -> Values:
        """(s, 2m): what each draw adds to the difference of the mean and, to first order, of the std."""
        mean, std = self.whole
        return np.concatenate(
            [(self.means - mean) / std, 0.5 * ((self.variances + (self.means - mean) ** 2) / std**2 - 1.0)], axis=1
        )


def thinned(part: Part, tolerance: float, snap: Callable[[Values], Values] = lambda unit: unit) -> Thinned:
    """The part with as few draws as keep mean and std to within `tolerance` of the std at all places that are looked at; `snap`
    moves points of the unit cube to where there are points."""
    total = len(part.weights)
    rng = np.random.default_rng(0)
    sets = [snap(np.concatenate([_places(part, MATCHED, rng), part.x]))]
    sets += [snap(_places(part, CHECKED, rng)) for _ in range(ROUNDS)]
    known = [_Seen.at(part, sets[0])]
    features = known[0].features()
    chosen: list[int] = []
    weights = np.zeros(0)
    losses = np.zeros(2)
    for unit in sets[1:]:
        while len(chosen) < total and (not chosen or max(one.loss(weights, chosen).max() for one in known) > tolerance):
            residual = weights @ features[chosen]
            scores = -features @ residual if chosen else -np.sum(features**2, axis=1)
            scores[chosen] = -np.inf
            chosen.append(int(np.argmax(scores)))
            weights = _weights(features[chosen])
        fresh = _Seen.at(part, unit)
        losses = fresh.loss(weights, chosen)
        if losses.max() <= tolerance or len(chosen) == total:
            break
        known.append(fresh)
        worst = fresh.features()
        missed = np.argsort(-np.abs(weights @ worst[chosen]))[:MATCHED]
        features = np.concatenate([features, worst[:, missed]], axis=1)
    order = [k for k in np.argsort(chosen) if weights[k] > 0]
    kept, final = np.array(chosen, dtype=np.intp)[order], weights[order]
    if len(kept) >= total:
        return Thinned(part, total, total, 0.0, 0.0, CHECKED)
    return Thinned(part.only(kept, final), total, len(kept), float(losses[0]), float(losses[1]), CHECKED)


def _places(part: Part, num: int, rng: np.random.Generator) -> Values:
    """Points that fill the unit cube, as many on its rim, and as many on gates of draws."""
    from scipy.stats import qmc

    design = qmc.Halton(part.x.shape[1], scramble=True, rng=rng).random(3 * -(-num // 3))
    inner, outer, crossed = np.split(design, 3)
    outer = np.clip((1 + 2 * RIM) * outer - RIM, 0.0, 1.0)
    s, gates = part.offset.shape
    draw, gate = rng.integers(s, size=len(crossed)), rng.integers(gates, size=len(crossed))
    normal = part.normal[draw, gate]
    z = part.offset[draw, gate] + np.sum(crossed * normal, axis=1)
    moved = crossed - (z / np.maximum(np.sum(normal**2, axis=1), 1e-12))[:, None] * normal
    return np.concatenate([inner, outer, np.clip(moved, 0.0, 1.0)])[:num]


def _moments(weights: Values, means: Values, variances: Values) -> tuple[Values, Values]:
    mean = weights @ means
    return mean, np.sqrt(weights @ (variances + (means - mean) ** 2))


def _weights(features: Values) -> Values:
    """w ≥ 0 with Σ w = 1 that brings Σ wᵢ featuresᵢ closest to zero."""
    from scipy.optimize import nnls

    scale = SUM * max(float(np.abs(features).max()), 1.0)
    system = np.concatenate([features.T, np.full((1, len(features)), scale)])
    weights = nnls(system, np.append(np.zeros(features.shape[1]), scale))[0]
    return weights / weights.sum()
