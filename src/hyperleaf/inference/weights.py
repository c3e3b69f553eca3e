"""What the weights of particles decide: how much they are worth, who survives, the next temperature, and when moving may end.

Particles may fall into two strata. Each keeps its mass and a share of the particles, whatever the other does, until its mass
is negligible; so every decision is made stratum by stratum. A few numbers each, hence NumPy: dispatching them to JAX costs more.
"""

from __future__ import annotations

import jax
import numpy as np
from jaxtyping import Array
from numpy.typing import ArrayLike, NDArray

from hyperleaf.machine import threefry

STRATA = 2
NEGLIGIBLE = 1e-8  # the mass below which a stratum is given up
NEARLY = 0.7  # of the ESS that a step must leave: enough for the step that ends a bridge


def health(log_weights: ArrayLike, strata: NDArray[np.int64], share: float = 0.25) -> float:
    """The ESS as a share of what resampling would give, at worst over the strata that have not vanished and over all."""
    log_weights = np.asarray(log_weights, np.float64)
    log_mass, counts = _log_masses(log_weights, strata), np.bincount(strata, minlength=STRATA)
    living = np.flatnonzero(log_mass > np.log(NEGLIGIBLE))
    within = [effective_number(log_weights[strata == k]) / counts[k] for k in living]
    best = 1.0 / np.sum(np.exp(2.0 * log_mass[living]) / allotted(log_mass, len(strata), share)[living])
    return min(*within, effective_number(log_weights) / best)


def stratified_resample(
    key: Array,
    log_weights: ArrayLike,
    strata: NDArray[np.int64],
    share: float = 0.25,
    *,
    drop: bool = True,
    num: int | None = None,
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Indices of `num` survivors (s if not given) and their log weights: systematic in each stratum, which keeps its mass and a
    share of the seats. With `drop`, a stratum whose mass is negligible is given up.
    """
    log_weights = np.asarray(log_weights, np.float64)
    log_mass = _log_masses(log_weights, strata)
    log_mass = log_mass - np.logaddexp.reduce(log_mass)
    if drop:
        log_mass = np.where(log_mass < np.log(NEGLIGIBLE), -np.inf, log_mass)
    log_mass = log_mass - np.logaddexp.reduce(log_mass)
    counts = allotted(log_mass, len(strata) if num is None else num, share)
    default = threefry.is_default(key)
    uniforms = (
        threefry.uniform(threefry.data_of(key), (STRATA,)) if default else jax.random.uniform(key, (STRATA,), log_weights.dtype)
    )
    survivors, weights = [], []
    for k in np.flatnonzero(counts):
        members = np.flatnonzero(strata == k)
        survivors.append(members[systematic(log_weights[members], int(counts[k]), float(uniforms[k]))])
        weights.append(np.full(counts[k], log_mass[k] - np.log(counts[k])))
    return np.concatenate(survivors), np.concatenate(weights)


def systematic(log_weights: NDArray[np.float64], num: int, uniform: float) -> NDArray[np.int64]:
    """Indices of `num` survivors, each expected as often as its weight says, from one uniform number."""
    cumulated = np.cumsum(np.exp(log_weights - log_weights.max()))
    chosen = np.searchsorted(cumulated / cumulated[-1], (np.arange(num) + uniform) / num)
    return np.minimum(chosen, len(log_weights) - 1)


def log_mean_exp(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """ln of the mean of e^x, row by row (k, s)."""
    return np.logaddexp.reduce(rows, axis=1) - np.log(rows.shape[1])


def _log_masses(log_weights: NDArray[np.float64], strata: NDArray[np.int64]) -> NDArray[np.float64]:
    return np.array([np.logaddexp.reduce(log_weights[strata == k], initial=-np.inf) for k in range(STRATA)])


def allotted(log_mass: NDArray[np.float64], num: int, share: float) -> NDArray[np.int64]:
    """How many of num particles each stratum gets: by its mass, but a share of them if it has any; the largest takes the rest."""
    least = np.where(log_mass > -np.inf, max(round(share * num), 1), 0)
    counts = np.maximum(np.rint(np.exp(log_mass) * num).astype(np.int64), least)
    counts[np.argmax(log_mass)] += num - counts.sum()
    return counts


def effective_number(log_weights: NDArray[np.float64]) -> float:
    """(Σw)²/Σw², for weights of any sum."""
    weights = np.exp(log_weights - log_weights.max())
    return float(weights.sum() ** 2 / (weights**2).sum())


def next_temperature(
    log_weights: ArrayLike, increments: ArrayLike, remaining: float, threshold: float, strata: NDArray[np.int64]
) -> float:
    """The largest step ≤ remaining after which every stratum has `threshold` of its particles as ESS, by bisection.

    The whole rest if it nearly has: a last step of a few percent would cost as many moves as a whole one, so it is not left over.
    """
    old, gained = np.asarray(log_weights, np.float64), np.asarray(increments, np.float64)
    groups = [strata == k for k in np.unique(strata)]
    groups = [group for group in groups if np.isfinite(old[group] + gained[group]).any()]
    if not groups:
        return remaining

    def ess(step: float) -> float:
        return min(effective_number(old[group] + step * gained[group]) / group.sum() for group in groups)

    if ess(remaining) >= NEARLY * threshold:
        return remaining
    low, high = 0.0, remaining
    for _ in range(50):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if ess(middle) >= threshold else (low, middle)
    # Dead particles alone can hold the ESS under the floor; then a small step removes them and the next is measured anew.
    return max(low, 1e-6 * remaining)


def correlation(before: NDArray[np.float64], after: NDArray[np.float64], strata: NDArray[np.int64]) -> float:
    """Of the log densities before and after a move, over the particles alive in both, mean over the strata.

    In a stratum where it has no meaning it counts as 1, so that moving goes on.
    """
    total = 0.0
    for k in np.unique(strata):
        alive = (strata == k) & np.isfinite(before) & np.isfinite(after)
        a, b = before[alive], after[alive]
        # After a collapse all begin at one place; how far they got from it, nothing tells.
        unclear = len(a) < 3 or a.std() == 0 or b.std() == 0
        total += (strata == k).sum() * (1.0 if unclear else float(np.corrcoef(a, b)[0, 1]))
    return total / len(strata)
