"""Sequential Monte Carlo over z ∈ ℝᵖ: an online update for each new observation (IBIS), after a start that `annealing` makes.

`Particles` is the state: weighted draws, the running evidence, and the tuning carried from move to move. `reweight` folds in an
observation by its predictive density and costs nothing more. When the effective sample size falls below a share of the
particles, `bridge` takes them from the old log density to the new one: through as many intermediate temperatures as keep the
weights alive (one, as a rule), each time resampling and moving every particle by Hamiltonian trajectories until they have moved
far enough. Weighting comes before moving, always: a moved particle already belongs to the new density.

A target may tell two strata apart, by its `stratum`, a function of z. Trajectories then stay in theirs, and resampling leaves
each a share of the particles, with weights that make up for it, until next to no mass is left there. So a mode that loses
against another for a while (outputs taken for noise, before the structure in them is clear) is not lost for good.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from numpy.typing import NDArray

from hyperleaf import native
from hyperleaf.errors import InferenceError, InputError
from hyperleaf.inference.base import Drawn, Inference, Problem
from hyperleaf.inference.trajectories import POWERS, masses_of, trajectories
from hyperleaf.inference.weights import STRATA, correlation, effective_number, next_temperature, stratified_resample, systematic
from hyperleaf.machine import threefry
from hyperleaf.precision import put

MAX_TEMPERATURES = 200
LogDensity = Callable[[Float[Array, "p"]], Float[Array, ""]]


@dataclass(frozen=True)
class SMC(Inference):
    """Sequential Monte Carlo. `particles` is s; they move when ESS/s falls below `threshold`. Trajectories repeat until their
    log densities correlate with those before the move by no more than `correlation`, or until `max_moves` are done.

    A start anneals `chains` chains in `islands` islands, each with `start_moves` trajectories of three times the length at every
    step. When the number of observations has grown by the share `refresh` since the last start, another one is made on all of
    them, with half as many chains of half the length, and merged with the online particles by evidence; 0 never does. Each
    stratum keeps at least `share` of the particles. Every `guard_every` updates a fresh run is compared; 0 does not."""

    tag = "smc"
    particles: int = 128
    threshold: float = 0.5
    leapfrog: int = 8
    target_acceptance: float = 0.75
    correlation: float = 0.85
    max_moves: int = 4
    chains: int = 32
    islands: int = 2
    start_moves: int = 6
    refresh: float = 0.0
    guard_every: int = 0
    share: float = 0.25

    def __post_init__(self) -> None:
        rules = [
            ("particles", self.particles, self.particles >= 2, "at least 2"),
            ("threshold", self.threshold, 0 < self.threshold <= 1, "in (0, 1]"),
            ("leapfrog", self.leapfrog, self.leapfrog >= 1, "at least 1"),
            ("target_acceptance", self.target_acceptance, 0 < self.target_acceptance < 1, "in (0, 1)"),
            ("correlation", self.correlation, 0 < self.correlation < 1, "in (0, 1)"),
            ("max_moves", self.max_moves, self.max_moves >= 1, "at least 1"),
            ("chains", self.chains, self.chains >= 1, "at least 1"),
            ("islands", self.islands, self.islands >= 1, "at least 1"),
            ("start_moves", self.start_moves, self.start_moves >= 1, "at least 1"),
            ("refresh", self.refresh, 0 <= self.refresh < np.inf, "at least 0 (never)"),
            ("share", self.share, 0 < self.share <= 0.5, "in (0, 0.5]"),
            ("guard_every", self.guard_every, self.guard_every >= 0, "at least 0 (never)"),
        ]
        for name, value, holds, rule in rules:
            if not holds:
                raise InputError(f"{name} must be {rule}; got {value!r}.")

    @property
    def num_islands(self) -> int:
        """The number of islands, with a chain in each at least."""
        return min(self.islands, self.chains, self.particles)

    @property
    def num_chains(self) -> int:
        """Chains of a start: as many in each island, and no more than there are particles."""
        return min(self.chains, self.particles) // self.num_islands * self.num_islands

    @property
    def start_leapfrog(self) -> int:
        """Steps of a trajectory at a start; later ones are shorter."""
        return 3 * self.leapfrog

    def for_evidence(self) -> SMC:
        """The same with longer moves in updates, for when the evidence itself is wanted; for predictions the plain ones do."""
        return replace(self, correlation=min(self.correlation, 0.3), max_moves=max(self.max_moves, 30))

    def for_refresh(self) -> SMC:
        """The same with a quarter of the work in a start: along a campaign many come together, and often is better than long."""
        return replace(self, chains=max(self.chains // 2, self.num_islands), start_moves=max(self.start_moves // 2, 1))

    @classmethod
    def saved(cls) -> dict[str, type]:
        return {"smc-particles": Particles, "smc-info": Info}

    @property
    def num_draws(self) -> int:
        return self.particles

    @property
    def least_draws(self) -> float:
        return self.particles * self.threshold

    @property
    def gives_evidence(self) -> bool:
        return True

    def evidence_of(self, state: Particles | None) -> tuple[float, float] | None:
        return None if state is None else (float(state.log_evidence), float(np.sqrt(state.log_evidence_variance)))

    def is_check_due(self, num_updates: int) -> bool:
        return bool(self.guard_every) and num_updates % self.guard_every == 0

    def start(self, problem: Problem, key: Array) -> Drawn:
        from hyperleaf.inference import online

        return online.start(self, problem, key)

    def update(self, problem: Problem, before: Drawn, key: Array) -> Drawn:
        from hyperleaf.inference import online

        return online.start(self, problem, key) if before.state is None else online.update(self, problem, before, key)

    def carry_over(self, problem: Problem, before: Drawn, moved: Float[Array, "p"], key: Array) -> Drawn:
        from hyperleaf.inference import online

        return online.start(self, problem, key) if before.state is None else online.carry_over(self, problem, before, moved, key)


# What one word buys; the costs stand in docs/inference.md.
EFFORTS: dict[str, SMC] = {
    "fast": SMC(),
    "standard": SMC(chains=64, islands=4, start_moves=16, correlation=0.5, max_moves=8, refresh=0.12),
    "thorough": SMC(chains=128, islands=8, start_moves=24, correlation=0.3, max_moves=20, refresh=0.12),
}


class Particles(eqx.Module):
    """The state: draws z (s, p) with log weights (s,) that sum to one, and what is carried along with them."""

    z: Float[Array, "s p"]
    log_weights: Float[Array, "s"]
    log_evidence: Float[Array, ""]
    log_evidence_variance: Float[Array, ""]
    step_size: Float[Array, "*w k"]  # for each chart and stratum; older files have one for all charts
    started: Int[Array, ""] | int = 0  # the number of observations at the last start

    @property
    def ess(self) -> float:
        return effective_number(np.asarray(self.log_weights))


@dataclass(frozen=True)
class Info:
    """What an update did: temperatures passed, trajectories and gradients spent, acceptance, distance travelled, ESS before."""

    temperatures: tuple[float, ...] = ()
    trajectories: int = 0
    gradients: int = 0
    acceptance: float = float("nan")
    travelled: float = float("nan")
    ess: float = float("nan")
    failed: int = 0
    islands: tuple[float, ...] = ()  # log evidences of the islands of a start

    def __add__(self, other: Info) -> Info:
        def last(a: float, b: float) -> float:
            return a if np.isnan(b) else b

        return Info(
            self.temperatures + other.temperatures,
            self.trajectories + other.trajectories,
            self.gradients + other.gradients,
            last(self.acceptance, other.acceptance),
            last(self.travelled, other.travelled),
            last(self.ess, other.ess),
            self.failed + other.failed,
            other.islands or self.islands,
        )


def strata_of(z: Float[Array, "s p"], target: LogDensity) -> NDArray[np.int64]:
    """The stratum of each particle; all in the first if the target knows of none."""
    if not hasattr(target, "stratum"):
        return np.zeros(len(z), np.int64)
    found = native.strata(z, target)
    return np.asarray(_strata(z, target.stratum), np.int64) if found is None else found


@eqx.filter_jit
def _strata(z, stratum):
    return jax.vmap(stratum)(z)


def look(z: Float[Array, "s p"], target: LogDensity) -> tuple[Float[Array, "s"], Float[Array, "s p"]]:
    """Log densities and their gradients at the particles, by trajectories of no steps: nothing more is compiled for it."""
    num, size = z.shape
    draws = (z, threefry.many(threefry.seeded(0), num))  # of whose numbers nothing is used
    mass = np.ones((STRATA, size))
    _, value, gradient, _, _ = trajectories(draws, target, mass[:, 0], mass, 0, 0.0)
    return put(value), put(gradient)


def begin(z: Float[Array, "s p"]) -> Particles:
    """Particles drawn from the prior: equal weights, evidence one."""
    num, size = z.shape
    zero = jnp.zeros((), z.dtype)
    # 0.5·p^(−1/4) is the scale at which Hamiltonian steps of a whitened target are accepted about three times in four.
    step_size = jnp.full((len(POWERS), STRATA), 0.5 * max(size, 1) ** -0.25, z.dtype)
    return Particles(z, jnp.full(num, -jnp.log(num), z.dtype), zero, zero, step_size)


def reweight(particles: Particles, increments: Float[Array, "s"]) -> tuple[Particles, Info]:
    """Fold in log incremental weights ln p(y_new | y_old, zᵢ); a particle with NaN or −∞ there is dead and counted.

    The evidence grows by ln Σ wᵢ e^incrementᵢ; its variance by that of the mean of the incremental weights.
    """
    moved, gained, failed = _reweighed(particles, increments)
    if not np.isfinite(gained):
        raise InferenceError(
            f"all {increments.shape[0]} particles give the observations probability zero, so there is no posterior to move to. "
            "The data are kept; fit anew, with a noise prior that allows larger noise, or check the observation for a unit error."
        )
    return moved, Info(ess=moved.ess, failed=int(failed))


def _reweighed(particles: Particles, increments: Float[Array, "s"]) -> tuple[Particles, float, int]:
    """The particles with their new weights, by how much the log evidence grew, and the number of the dead."""
    before, more = np.asarray(particles.log_weights), np.where(np.isnan(increments), -np.inf, np.asarray(increments))
    unnormalised, failed = before + more, int(np.sum(more == -np.inf))
    gained = float(np.logaddexp.reduce(unnormalised))
    if not np.isfinite(gained):
        return particles, gained, failed
    log_weights = unnormalised - gained
    # Var of Σ wᵢvᵢ over (Σ wᵢvᵢ)², the delta method's variance of its log.
    squares = float(np.sum(np.where(more > -np.inf, (np.exp(log_weights) - np.exp(before)) ** 2, 0.0)))
    evidence = put(float(particles.log_evidence) + gained), put(float(particles.log_evidence_variance) + squares)
    moved = Particles(particles.z, put(log_weights), *evidence, particles.step_size, particles.started)
    return moved, gained, failed


def bridge(
    particles: Particles,
    path: Callable[[float], LogDensity],
    config: SMC,
    key: Array,
    increments: Float[Array, "s"] | None = None,
) -> tuple[Particles, Info]:
    """Take particles of path(0) to those of path(1), of equal weight in each stratum; path(t) = path(0)^(1−t) · path(1)^t.

    `increments` are the differences of the log densities of path(1) and path(0) at the particles, where they are known already;
    the particles must not yet carry them. Each temperature leaves at least `threshold` of the ESS in every stratum, and is
    followed by resampling and moves.
    """
    info = Info()
    t = 0.0
    while t < 1.0:
        if increments is None:
            last, first = look(particles.z, path(1.0))[0], look(particles.z, path(0.0))[0]
            increments = put(np.asarray(last) - np.asarray(first))
            info = info + Info(gradients=2 * len(first))
        gained = np.where(np.isnan(increments), -np.inf, np.asarray(increments))
        strata = strata_of(particles.z, path(1.0))
        step = next_temperature(particles.log_weights, gained, 1.0 - t, config.threshold, strata)
        particles, weighed = reweight(particles, put(step * gained))
        t = 1.0 if step >= 1.0 - t else t + step
        if len(info.temperatures) >= MAX_TEMPERATURES:
            raise InferenceError(
                f"tempering stands still at temperature {t:.2e} after {MAX_TEMPERATURES} steps: hardly any particle explains the "
                "data. The data are kept; widen the priors, raise the number of particles, or check the outputs for outliers."
            )
        key, move_key = threefry.divided(key)
        particles, moved = resample_and_move(particles, path(t), config, move_key, drop=t == 1.0)
        info = info + weighed + moved + Info(temperatures=(t,))
        increments = None
    return particles, info


def merged(first: Particles, second: Particles, key: Array) -> Particles:
    """Two sets of particles of the same density as one of the size of the first, each set with the weight of its evidence.

    The evidence is the mean of both; its variance that of the mean, and what their difference adds to it.
    """
    evidences = np.array([float(first.log_evidence), float(second.log_evidence)])
    total = float(np.logaddexp.reduce(evidences) - np.log(2.0))
    shares = np.exp(evidences - total) / 2.0
    log_weights = [np.asarray(p.log_weights) + np.log(max(w, 1e-300)) for p, w in zip((first, second), shares, strict=True)]
    uniform = float(jax.random.uniform(key, (), jnp.float64))
    rows = systematic(np.concatenate(log_weights), len(first.log_weights), uniform)
    stated = shares**2 @ [float(first.log_evidence_variance), float(second.log_evidence_variance)]
    variance = max(float(stated), 0.25 * float(np.diff(2.0 * shares)[0]) ** 2)
    z = jnp.concatenate([first.z, second.z])[rows]
    num = len(rows)
    weights = jnp.full(num, -np.log(num))
    return Particles(z, weights, put(total), put(variance), second.step_size, second.started)


def resample_and_move(
    particles: Particles, target: LogDensity, config: SMC, key: Array, *, drop: bool = True
) -> tuple[Particles, Info]:
    """Equal weights again in each stratum, at the price of copies; and moves that set the copies apart."""
    resample_key, move_key = threefry.divided(key)
    strata = strata_of(particles.z, target)
    survivors, log_weights = stratified_resample(resample_key, particles.log_weights, strata, config.share, drop=drop)
    resampled = (put(np.asarray(particles.z)[survivors]), put(log_weights))
    return move(eqx.tree_at(lambda p: (p.z, p.log_weights), particles, resampled), target, config, move_key)


def move(particles: Particles, target: LogDensity, config: SMC, key: Array) -> tuple[Particles, Info]:
    """Trajectories for every particle until they have forgotten enough; step sizes and masses from the particles of a stratum.

    Forgetting is judged by the log density, which does not depend on labels and is slow to decorrelate: positions can travel far
    along loose directions while the evidence is still off by several of its standard errors. Masses are E[(∂ᵢ ln π)²], estimated
    from the particles: the mean curvature, which unlike the particles' spread is not inflated by the equivalent modes of a
    partition. The distance that is reported is Σᵢ mᵢΔzᵢ²/2p, 1 for two independent draws of a Gaussian.
    """
    num = particles.z.shape[0]
    z, strata = particles.z, strata_of(particles.z, target)
    present = np.unique(strata)
    step_size = np.broadcast_to(np.asarray(particles.step_size), (len(POWERS), STRATA)).copy()
    # Masses are those of the start throughout: masses that depend on where a particle is would bias it.
    start_value, gradient = look(z, target)
    mass = masses_of(np.asarray(z), np.asarray(gradient), strata, target)
    info = Info(gradients=num)
    for turn in range(config.max_moves):
        way = turn % len(POWERS)
        key, draw_key = threefry.divided(key)
        draws = (z, threefry.many(draw_key, num))
        z, value, _, acceptance, spent = trajectories(draws, target, step_size[way], mass[way], config.leapfrog, POWERS[way])
        for k in present:
            step_size[way, k] *= np.exp(np.asarray(acceptance)[strata == k].mean() - config.target_acceptance)
        travelled = float(np.mean((np.asarray(z) - np.asarray(particles.z)) ** 2 * mass[0][strata]) / 2.0)
        gradients, accepted = int(np.asarray(spent).sum()), float(np.asarray(acceptance).mean())
        info = info + Info(trajectories=1, gradients=gradients, acceptance=accepted, travelled=travelled)
        if correlation(np.asarray(start_value), np.asarray(value), strata) <= config.correlation:
            break
    return eqx.tree_at(lambda p: (p.z, p.step_size), particles, (z, put(step_size))), info
