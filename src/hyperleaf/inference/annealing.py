"""The start of sequential Monte Carlo: from the prior to the posterior through densities whose extra noise fades.

`anneal` passes through y ~ N(0, K + (σ² + τ²)I) with τ² falling from `FIRST` to 0, so that coarse structure is learned while the
fine one still looks like noise, and no particle ever has to cross from "all noise" to "structure". At each τ² a few chains run a
number of trajectories, and every state they pass is a particle of the next step (waste-free SMC: Dau & Chopin 2022): chains that
run longer find more than chains that are more in number. The chains are divided into islands that share the sequence of τ² and
nothing else, so that the spread of their evidences is a measured error of the evidence, and an island that missed a mode has no
weight in the end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import NDArray

from hyperleaf.errors import InferenceError
from hyperleaf.gp import over_draws
from hyperleaf.inference.weights import STRATA, effective_number, log_mean_exp, systematic

if TYPE_CHECKING:
    from hyperleaf.inference.smc import SMC, Info, LogDensity, Particles

FIRST = 100.0  # τ² of the first density, in units of the variance of the outputs: nothing can be learned there
LADDER = np.array([0.5, 0.75, 1.0, 1.5, 2.5])  # the next τ² is sought at these powers of the last ratio
MAX_HEATS = 300

Values = NDArray[np.float64]
Heated = Callable[[float], "LogDensity"]  # the density at τ²
Likelihoods = Callable[[Float[Array, "s p"], Float[Array, "h"]], Float[Array, "s h"]]  # ln p(y | z, τ²) for several τ²


def anneal(
    starts: Float[Array, "s p"], heated: Heated, likelihoods: Likelihoods, config: SMC, key: Array
) -> tuple[Particles, Info]:
    """Particles of heated(0) with their evidence, from draws of the prior: `chains` · `start_moves` of them."""
    from hyperleaf.inference.smc import Info, Particles, masses, trajectory_of

    islands, chains, moves = config.num_islands, config.num_chains, config.start_moves
    z, mass = np.asarray(starts), np.ones(starts.shape[1])
    log_evidence = np.zeros(islands)
    step_size = 0.5 * max(z.shape[1], 1) ** -0.25
    heat, ratio = np.inf, 0.5
    info, gradients = Info(), None
    while heat > 0.0:
        ladder = np.array([FIRST]) if heat == np.inf else np.append(heat * ratio**LADDER, 0.0)
        increments = _increments(likelihoods, z, heat, ladder)
        chosen = _next(increments, config.threshold)
        if heat < np.inf and ladder[chosen] > 0.0:
            ratio = max(ladder[chosen] / heat, 1e-3)
        heat = float(ladder[chosen])
        gained = increments[:, chosen].reshape(islands, -1)
        log_evidence += log_mean_exp(gained)
        _check(gained, len(info.temperatures), heat)
        key, resample_key, *move_keys = jax.random.split(key, moves + 2)
        uniforms = np.asarray(jax.random.uniform(resample_key, (islands,), jnp.float64))
        picked = [systematic(own, chains // islands, float(u)) for own, u in zip(gained, uniforms, strict=True)]
        survivors = np.concatenate([island * gained.shape[1] + own for island, own in enumerate(picked)])
        if gradients is not None:
            mass = masses(gradients)  # one for all, from the whole population: those of a single particle would bias it
        here = jnp.asarray(z[survivors])
        told: list[tuple[Values, Values]] = []
        settings = (jnp.broadcast_to(jnp.asarray(mass), (STRATA, len(mass))), jnp.asarray(config.start_leapfrog))
        for move_key in move_keys:
            draws = (here, jax.random.split(move_key, chains))
            sizes = jnp.full(STRATA, step_size)
            here, _, gradient, acceptance, spent = over_draws(trajectory_of, draws, heated(heat), sizes, *settings)
            told.append((np.asarray(here), np.asarray(gradient)))
            accepted = float(jnp.mean(acceptance))
            step_size *= np.exp(accepted - config.target_acceptance)
            info = info + Info(trajectories=1, gradients=int(jnp.sum(spent)), acceptance=accepted)
        # One island after the other, and in it one chain after the other.
        z = np.stack([states for states, _ in told], axis=1).reshape(-1, z.shape[1])
        gradients = np.stack([own for _, own in told], axis=1).reshape(z.shape)
        info = info + Info(temperatures=(heat,))
    total, variance = pooled(log_evidence)
    rows = _seats(log_evidence, len(z), config.particles)
    return (
        Particles(
            jnp.asarray(z[rows]),
            jnp.full(config.particles, -np.log(config.particles)),
            jnp.asarray(total),
            jnp.asarray(variance),
            jnp.full(STRATA, step_size),
        ),
        info + Info(islands=tuple(float(one) for one in log_evidence)),
    )


def pooled(log_evidence: Values) -> tuple[float, float]:
    """ln of the mean evidence of islands, and its variance from their spread; as good as one run tells if there is one only."""
    total = float(log_mean_exp(log_evidence[None])[0])
    relative = np.exp(log_evidence - total)
    return total, float(relative.var(ddof=1) / len(relative)) if len(relative) > 1 else 1.0


def _increments(likelihoods: Likelihoods, z: Values, heat: float, ladder: Values) -> Values:
    """ln p(y | z, τ²) at each τ² of the ladder (s, h), relative to that where the particles are; −∞ where there is none."""
    heats = ladder if heat == np.inf else np.append(ladder, heat)
    values = np.asarray(likelihoods(jnp.asarray(z), jnp.asarray(heats)))
    values = np.where(np.isnan(values), -np.inf, values)
    if heat == np.inf:
        return values
    now = values[:, -1:]
    return np.where(np.isfinite(now), values[:, :-1] - np.where(np.isfinite(now), now, 0.0), -np.inf)


def _next(increments: Values, threshold: float) -> int:
    """The last step of the ladder that leaves a share `threshold` of the ESS; the first if none does."""
    if increments.shape[1] == 1:
        return 0
    left = [effective_number(column) / len(column) if np.isfinite(column).any() else 0.0 for column in increments.T]
    if left[-1] >= 0.7 * threshold:  # a last step of a few percent would cost as many moves as a whole one
        return len(left) - 1
    enough = [step for step in range(len(left) - 1) if left[step] >= threshold]
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


def _seats(log_evidence: Values, num: int, seats: int) -> NDArray[np.int64]:
    """Which of the last states become particles of equal weight: each island by its evidence, its states evenly spaced."""
    share = np.exp(log_evidence - log_evidence.max())
    ends = np.rint(np.cumsum(share) / share.sum() * seats).astype(np.int64)
    counts = np.diff(ends, prepend=0)
    size = num // len(share)
    rows = [island * size + (np.arange(count) * size) // max(count, 1) for island, count in enumerate(counts)]
    return np.concatenate(rows)
