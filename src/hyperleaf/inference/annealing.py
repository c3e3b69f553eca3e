"""The start of sequential Monte Carlo: from the prior to the posterior through densities whose extra noise fades.

`anneal` passes through y ~ N(0, K + (σ² + τ²)I) with τ² falling from `FIRST` to 0, so that coarse structure is learned while the
fine one still looks like noise. Where the target has strata (outputs taken for noise, outputs taken for structure), each keeps a
share of the chains all the way, so that one which loses for a while is there when it wins in the end.

At each τ² a few chains run a number of trajectories, and every state they pass is a particle of the next step (waste-free SMC:
Dau & Chopin 2022): chains that run longer find more than chains that are more in number. The chains are divided into islands that
share the sequence of τ² and nothing else, so that the spread of their evidences is a measured error of the evidence, and an
island that missed a mode has no weight in the end.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Array, Float
from numpy.typing import NDArray

from hyperleaf.errors import InferenceError
from hyperleaf.inference.trajectories import POWERS, masses, trajectories
from hyperleaf.inference.weights import STRATA, effective_number, log_mean_exp, stratified_resample
from hyperleaf.machine import threefry
from hyperleaf.precision import put

if TYPE_CHECKING:
    from hyperleaf.inference.smc import SMC, Info, LogDensity, Particles

FIRST = 100.0  # τ² of the first density, in units of the variance of the outputs: nothing can be learned there
LADDER = np.array([0.25, 0.5, 0.75, 1.0, 1.5, 2.5])  # the next τ² is sought at these powers of the last ratio
STEEPEST = 0.25  # no ratio of neighbouring τ² below this one, but for the last: what is learned takes moves, not weights alone
MAX_HEATS = 300
OF_THE_BEST = 0.7  # the standard deviation of the largest of four normal draws, in units of theirs; of two 0.8, of eight 0.6

Values = NDArray[np.float64]
Heated = Callable[[float], "LogDensity"]  # the density at τ²
Likelihoods = Callable[[Float[Array, "s p"], Float[Array, "h"]], Float[Array, "s h"]]  # ln p(y | z, τ²) for several τ²


def anneal(
    starts: Float[Array, "s p"], heated: Heated, likelihoods: Likelihoods, config: SMC, key: Array
) -> tuple[Particles, Info]:
    """Particles of heated(0) with their evidence, from draws of the prior: `chains` · `start_moves` of them."""
    from hyperleaf.inference.smc import Info, Particles, strata_of

    islands, per_island, moves = config.num_islands, config.num_chains // config.num_islands, config.start_moves
    z, size = np.asarray(starts), starts.shape[1]
    log_evidence, own_variance = np.zeros(islands), np.zeros(islands)
    log_weights = np.full((islands, len(z) // islands), -np.log(len(z) // islands))  # of the states of each island, of sum one
    strata = strata_of(starts, heated(FIRST))
    step_size, mass = np.full((len(POWERS), STRATA), 0.5 * max(size, 1) ** -0.25), np.ones((len(POWERS), STRATA, size))
    heat, ratio = np.inf, 0.5
    info = Info()
    while heat > 0.0:
        ladder = np.array([FIRST]) if heat == np.inf else np.append(heat * np.maximum(ratio**LADDER, STEEPEST), 0.0)
        increments = _increments(likelihoods, z, heat, ladder)
        chosen = _next(log_weights, increments, strata, config.threshold)
        if heat < np.inf and ladder[chosen] > 0.0:
            ratio = min(ladder[chosen] / heat, 0.95)
        heat = float(ladder[chosen])
        gained = increments[:, chosen].reshape(islands, -1)
        _check(gained, len(info.temperatures), heat)
        log_weights = log_weights + gained
        now = np.logaddexp.reduce(log_weights, axis=1)
        log_evidence, log_weights = log_evidence + now, log_weights - now[:, None]
        own_variance = own_variance + _relative_variance(log_weights, strata.reshape(islands, -1), moves)
        key, move_key, *pick_keys = threefry.divided(key, islands + 2)
        picked, kept = [], []
        for i in range(islands):
            own = strata.reshape(islands, -1)[i]
            rows, weights = stratified_resample(pick_keys[i], log_weights[i], own, config.share, drop=heat == 0.0, num=per_island)
            picked.append(i * len(own) + rows)
            kept.append(weights)
        survivors = np.concatenate(picked)
        here, strata, target = put(z[survivors]), strata[survivors], heated(heat)
        told = []
        for turn, own_key in enumerate(threefry.divided(move_key, moves)):
            way = turn % len(POWERS)
            draws = (here, threefry.many(own_key, len(survivors)))
            settings = (step_size[way], mass[way], config.start_leapfrog, POWERS[way])
            here, _, gradient, acceptance, spent = trajectories(draws, target, *settings)
            told.append((np.asarray(here), np.asarray(gradient)))
            for k in np.unique(strata):
                step_size[way, k] *= np.exp(np.asarray(acceptance)[strata == k].mean() - config.target_acceptance)
            info = info + Info(
                trajectories=1, gradients=int(np.asarray(spent).sum()), acceptance=float(np.asarray(acceptance).mean())
            )
        # One island after the other, and in it one chain after the other.
        z = np.stack([states for states, _ in told], axis=1).reshape(-1, size)
        # Masses from the whole population of a stratum: those of a single chain would bias it.
        for way in range(min(len(POWERS), moves)):
            slopes = np.stack([own for _, own in told[way :: len(POWERS)]])
            mass[way] = [masses(slopes[:, strata == k].reshape(-1, size)) for k in range(STRATA)]
        strata = np.repeat(strata, moves)
        log_weights = np.repeat(np.stack(kept) - np.log(moves), moves, axis=1)
        info = info + Info(temperatures=(heat,))
    total, variance = pooled(log_evidence, own_variance)
    final = (log_weights + log_evidence[:, None]).ravel()
    rows, weights = stratified_resample(threefry.folded(key, 1), final, strata, config.share, num=config.particles)
    numbers = (put(total), put(variance), put(step_size))
    found = Info(islands=tuple(float(one) for one in log_evidence))
    return Particles(put(z[rows]), put(weights), *numbers), info + found


def pooled(log_evidence: Values, own_variance: Values) -> tuple[float, float]:
    """ln of the mean evidence of islands, and its variance: what they state of themselves, or their spread if that is more.

    Where the islands lie nats apart the best one makes the mean, and the error is that of the best of a few draws: OF_THE_BEST of
    the standard deviation of ln Z between them. The spread of the evidences themselves never says more than one there.
    """
    total = float(log_mean_exp(log_evidence[None])[0])
    relative = np.exp(log_evidence - total)
    stated = float(np.mean(relative**2 * own_variance) / len(relative))
    spread = OF_THE_BEST**2 * float(log_evidence.var(ddof=1)) if len(relative) > 1 else 0.0
    return total, max(stated, spread)


def _relative_variance(log_weights: Values, strata: NDArray[np.int64], moves: int) -> Values:
    """The variance of the sum of weights (i, s) of each island, relative to that sum, one: from the spread between its chains.

    States of one chain depend on each other, so that a chain counts once; each stratum has its own number of them.
    """
    sums = np.exp(log_weights).reshape(len(log_weights), -1, moves).sum(axis=2)
    own = strata.reshape(len(log_weights), -1, moves)[:, :, 0]
    total = np.zeros(len(sums))
    for i, k in product(range(len(sums)), range(STRATA)):
        chains = sums[i][own[i] == k]
        if len(chains) > 1:
            total[i] += len(chains) * chains.var(ddof=1)
    return total


def _increments(likelihoods: Likelihoods, z: Values, heat: float, ladder: Values) -> Values:
    """ln p(y | z, τ²) at each τ² of the ladder (s, h), relative to that where the particles are; −∞ where there is none."""
    heats = ladder if heat == np.inf else np.append(ladder, heat)
    values = np.asarray(likelihoods(put(z), put(heats)))
    values = np.where(np.isnan(values), -np.inf, values)
    if heat == np.inf:
        return values
    now = values[:, -1:]
    return np.where(np.isfinite(now), values[:, :-1] - np.where(np.isfinite(now), now, 0.0), -np.inf)


def _next(log_weights: Values, increments: Values, strata: NDArray[np.int64], threshold: float) -> int:
    """The last step of the ladder that leaves every stratum a share `threshold` of its ESS; the first if none does."""
    if increments.shape[1] == 1:
        return 0
    groups = [strata == k for k in np.unique(strata)]

    def left(gained: Values) -> float:
        shares = [effective_number(gained[own]) / own.sum() if np.isfinite(gained[own]).any() else 0.0 for own in groups]
        return min(shares)

    each = [left(column) for column in increments.T]
    if each[-1] >= 0.7 * threshold:  # a last step of a few percent would cost as many moves as a whole one
        return len(each) - 1
    enough = [step for step in range(len(each) - 1) if each[step] >= threshold]
    return enough[-1] if enough else 0


def _check(gained: Values, num_heats: int, heat: float) -> None:
    if not np.isfinite(gained).any(axis=1).all():
        raise InferenceError(
            f"all {gained.shape[1]} particles of an island give the observations probability zero, so there is no posterior to "
            "move to. The data are kept; widen the priors, or check the observations for a unit error."
        )
    if num_heats >= MAX_HEATS:
        raise InferenceError(
            f"annealing stands still at an extra noise variance of {heat:.2e} after {MAX_HEATS} steps: hardly any particle "
            "explains the data. The data are kept; widen the priors, take more chains, or check the outputs for outliers."
        )
