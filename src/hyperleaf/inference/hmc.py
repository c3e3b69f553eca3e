"""Hamiltonian Monte Carlo: the paper's fixed-length HMC and the No-U-Turn sampler, several chains shared between the cores.

A chain is a carry (`_Chain`) and a schedule of stages: adapt the step size, adapt the mass matrix too, draw, or idle. The same
compiled block of steps runs every stage, so warm-up and draws of one shape of target compile once, and progress can be told
between blocks. The transitions and Stan's adaptation windows are BlackJAX's.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float
from numpy.typing import ArrayLike, NDArray

from hyperleaf.errors import InferenceError, InputError
from hyperleaf.inference import diagnostics as diagnose
from hyperleaf.inference.base import Diagnostics, Problem
from hyperleaf.inference.batch import Batch
from hyperleaf.inference.chains import Chains, usable_starts
from hyperleaf.inference.map import check_starts
from hyperleaf.parallel import over_draws
from hyperleaf.precision import float64
from hyperleaf.priors import check_count

BLOCK = 100  # steps between two reports of progress; each block waits for the slowest chain
MAX_DELTA_ENERGY = 1000.0  # a transition whose energy error exceeds this has diverged
_FAST, _SLOW, _DRAW, _IDLE = range(4)

Progress = Callable[[int, int], None]


class Chained(Batch):
    """A Markov chain from each start: warm-up in stages, then `draws` transitions, of which every `thin`-th is kept."""

    if TYPE_CHECKING:  # fields of the settings

        @property
        def draws(self) -> int: ...

        @property
        def chains(self) -> int: ...

        @property
        def thin(self) -> int: ...

        @property
        def initial_step_size(self) -> float: ...

        @property
        def target_acceptance(self) -> float: ...

    @classmethod
    def saved(cls) -> dict[str, type]:
        return {"hmc-chains": Chains}

    @property
    def num_starts(self) -> int:
        """One for each chain."""
        return self.chains

    @property
    def num_kept(self) -> int:
        """Draws kept of each chain."""
        return self.draws // self.thin

    @property
    def num_draws(self) -> int:
        return self.num_starts * self.num_kept

    @abstractmethod
    def warmup_stages(self) -> list[tuple[int, bool]]:
        """The stage of each transition of the warm-up, and whether a window of the mass matrix ends with it."""

    @abstractmethod
    def kernel(self) -> tuple[Callable, int]:
        """BlackJAX's transition, and the length of a trajectory as it wants it."""

    @abstractmethod
    def is_saturated(self, info: Any) -> Array:
        """Whether a trajectory was cut off at its greatest length."""

    def run(self, problem: Problem, starts: Float[Array, "r p"], key: Array) -> tuple[Float[Array, "s p"], Diagnostics]:
        chains = sample(problem.target(), starts, key, self)
        z = jnp.asarray(chains.z.reshape(-1, chains.z.shape[-1]))
        shape = chains.z.shape[:2]
        quantities = {name: np.asarray(v).reshape(shape) for name, v in problem.invariants(z).items()}
        rhat, bulk, tail = diagnose.summarise(quantities)
        divergences = int(np.sum(chains.divergent))
        messages = diagnose.messages(rhat, bulk, tail, chains=chains)
        extra = {"chains": chains, "quantities": quantities}
        return z, Diagnostics(self.tag, len(z), 0.0, rhat, bulk, tail, divergences, messages=messages, extra=extra)


@dataclass(frozen=True)
class HMC(Chained):
    """The paper's protocol: `steps` leapfrog steps, identity mass, step size by dual averaging during burn-in.

    `draws` transitions follow `burn_in`, and every `thin`-th is kept: 100 of 5000 by default.
    """

    tag = "hmc"
    burn_in: int = 500
    draws: int = 5000
    thin: int = 50
    steps: int = 10
    initial_step_size: float = 0.01
    target_acceptance: float = 0.65
    chains: int = 1

    def __post_init__(self) -> None:
        for name in ("burn_in", "draws", "thin", "steps", "chains"):
            check_count(name, getattr(self, name))
        if self.thin > self.draws:
            raise InputError(f"thin must not exceed draws, or no draw is kept; got thin={self.thin} and draws={self.draws}.")
        _check_rates(self.initial_step_size, self.target_acceptance)

    def warmup_stages(self) -> list[tuple[int, bool]]:
        return [(_FAST, False)] * self.burn_in

    def kernel(self) -> tuple[Callable, int]:
        import blackjax

        return blackjax.hmc.build_kernel(divergence_threshold=MAX_DELTA_ENERGY), self.steps

    def is_saturated(self, info: Any) -> Array:
        return jnp.asarray(False)


@dataclass(frozen=True)
class NUTS(Chained):
    """The No-U-Turn sampler with Stan's warm-up: step size by dual averaging, diagonal mass in windows of growing length.

    A transition takes at most 2^`max_depth` − 1 gradients.
    """

    tag = "nuts"
    thin = 1
    warmup: int = 500
    draws: int = 250
    chains: int = 4
    target_acceptance: float = 0.8
    max_depth: int = 8
    initial_step_size: float = 0.1

    def __post_init__(self) -> None:
        for name in ("warmup", "draws", "chains", "max_depth"):
            check_count(name, getattr(self, name))
        _check_rates(self.initial_step_size, self.target_acceptance)

    def warmup_stages(self) -> list[tuple[int, bool]]:
        from blackjax.adaptation.window_adaptation import build_schedule

        return [(_SLOW if slow else _FAST, bool(end)) for slow, end in build_schedule(self.warmup)]

    def kernel(self) -> tuple[Callable, int]:
        import blackjax

        return blackjax.nuts.build_kernel(divergence_threshold=MAX_DELTA_ENERGY), self.max_depth

    def is_saturated(self, info: Any) -> Array:
        return info.num_trajectory_expansions >= self.max_depth


class _Chain(NamedTuple):
    state: Any  # HMCState of BlackJAX, which is slow to import and comes with the first chain
    key: Any  # the data of a key; step i uses fold_in(key, i), so that blocks do not matter
    step_size: Any  # of dual averaging
    mass: Any  # Welford's sums of the present window, and the inverse mass in use


class _Told(NamedTuple):
    """What one transition leaves behind."""

    z: Any  # (p,)
    log_density: Any
    acceptance: Any
    divergent: Any
    num_steps: Any
    saturated: Any


@float64
def sample(
    target: Callable[[Array], Array],
    starts: ArrayLike,
    key: Any,
    config: Chained | None = None,
    *,
    progress: Progress | None = None,
) -> Chains:
    """Draw from the density exp(target(z)) on ℝᵖ, one chain from each row of `starts` (chains, p).

    `target` is a pytree that can be called, such as `gp.Target`; another one of the same shapes compiles nothing new.
    `progress(done, total)` is called after each block of transitions, warm-up included.
    """
    config = NUTS() if config is None else config
    began = time.perf_counter()
    z = check_starts(starts)
    if len(z) != config.chains:
        raise InputError(f"there must be one start for each of the {config.chains} chains; got {len(z)}.")
    keys = jax.random.key_data(jax.random.split(key, config.chains))
    chains = over_draws(_begin, (z, keys), target, config)
    state, num_replaced = usable_starts(chains.state)
    chains = chains._replace(state=state)
    stages, window_ends = _schedule(config)
    total = int((stages != _IDLE).sum())
    block = min(BLOCK, total)
    told: list[_Told] = []
    for first in range(0, len(stages), block):
        part = slice(first, first + block)
        schedule = (jnp.asarray(stages[part]), jnp.asarray(window_ends[part]), jnp.arange(first, first + block))
        chains, new = over_draws(_advance, chains, target, config, schedule)
        told.append(jax.tree.map(np.asarray, new))
        if progress is not None:
            progress(min(first + block, total), total)
    every = _Told(*(np.concatenate(parts, axis=1)[:, stages == _DRAW] for parts in zip(*told, strict=True)))
    _check_moved(every, config)
    return _thinned(every, chains, config, num_replaced, time.perf_counter() - began)


def _check_rates(initial_step_size: float, target_acceptance: float) -> None:
    if not (np.isfinite(initial_step_size) and initial_step_size > 0):
        raise InputError(f"initial_step_size must be positive and finite; got {initial_step_size!r}.")
    if not 0 < target_acceptance < 1:
        raise InputError(f"target_acceptance must lie between 0 and 1; got {target_acceptance!r}.")


def _schedule(config: Chained) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Stage of each transition, and whether a window of the mass matrix ends with it; idle steps fill up the last block."""
    schedule = config.warmup_stages() + [(_DRAW, False)] * config.draws
    block = min(BLOCK, len(schedule))
    schedule += [(_IDLE, False)] * (-len(schedule) % block)
    stages, ends = zip(*schedule, strict=True)
    return np.array(stages), np.array(ends)


def _averaging(config: Chained) -> Any:
    from blackjax.adaptation.step_size import dual_averaging_adaptation

    return dual_averaging_adaptation(config.target_acceptance)


def _windows() -> Any:
    from blackjax.adaptation.mass_matrix import mass_matrix_adaptation

    return mass_matrix_adaptation(True)


def _begin(start: tuple[Array, Array], target: Callable[[Array], Array], config: Chained) -> _Chain:
    import blackjax

    z, key = start
    step_size, _, _ = _averaging(config)
    mass, _, _ = _windows()
    chain = _Chain(blackjax.hmc.init(z, target), key, step_size(config.initial_step_size), mass(z.shape[0]))
    # Explicit types: a weakly typed Python number would make the second block another type than the first, and compile again.
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.asarray(leaf).dtype), chain)


def _advance(chain: _Chain, target: Callable[[Array], Array], config: Chained, schedule: tuple) -> tuple[_Chain, _Told]:
    """One block of transitions of one chain."""
    start_averaging, average, averaged = _averaging(config)
    _, add_to_window, end_window = _windows()
    transition = _transition(config, target)

    def adapt(chain: _Chain, acceptance, stage, window_end) -> _Chain:
        mass = lax.cond(stage == _SLOW, lambda m: add_to_window(m, chain.state.position), lambda m: m, chain.mass)
        step_size = average(chain.step_size, acceptance)
        step_size, mass = lax.cond(
            window_end,
            lambda s, m: (start_averaging(averaged(s)), end_window(m)),
            lambda s, m: (s, m),
            step_size,
            mass,
        )
        like = partial(jax.tree.map, lambda new, old: jnp.asarray(new, old.dtype))
        return chain._replace(step_size=like(step_size, chain.step_size), mass=like(mass, chain.mass))

    def step(chain: _Chain, entry):
        stage, window_end, index = entry
        log_step = jnp.where(stage == _DRAW, chain.step_size.log_step_size_avg, chain.step_size.log_step_size)
        key = jax.random.fold_in(jax.random.wrap_key_data(chain.key), index)
        state, told = transition(key, chain.state, jnp.exp(log_step), chain.mass.inverse_mass_matrix)
        chain = chain._replace(state=state)
        return lax.cond(stage == _DRAW, lambda c: c, lambda c: adapt(c, told.acceptance, stage, window_end), chain), told

    def idle(chain: _Chain, entry):
        nothing = jnp.asarray(False)
        zero = jnp.zeros((), chain.state.logdensity.dtype)
        return chain, _Told(chain.state.position, chain.state.logdensity, zero, nothing, jnp.asarray(0), nothing)

    return lax.scan(lambda c, entry: lax.cond(entry[0] == _IDLE, idle, step, c, entry), chain, schedule)


def _transition(config: Chained, target: Callable[[Array], Array]) -> Callable:
    """One Markov transition, of either sampler, as a function of (key, state, step size, inverse mass)."""
    kernel, length = config.kernel()

    def transition(key, state, step_size, inverse_mass):
        state, info = kernel(key, state, target, step_size, inverse_mass, length)
        num_steps, saturated = jnp.asarray(info.num_integration_steps, jnp.asarray(0).dtype), config.is_saturated(info)
        return state, _Told(state.position, state.logdensity, info.acceptance_rate, info.is_divergent, num_steps, saturated)

    return transition


def _check_moved(every: _Told, config: Chained) -> None:
    """An error where no chain has moved, since nothing that follows would mean anything."""
    moved = (every.z[:, 1:] != every.z[:, :-1]).any(axis=(1, 2)) if every.z.shape[1] > 1 else np.array([True])
    if not moved.any():
        warmup = len(config.warmup_stages())
        raise InferenceError(
            f"at least one chain must move; all {len(moved)} stood still for {every.z.shape[1]} transitions, "
            f"with a mean acceptance of {np.nanmean(every.acceptance):.2g} and {int(every.divergent.sum())} divergent. "
            f"Warm up for more than {warmup} transitions, begin with a step size below {config.initial_step_size:g}, or start "
            "elsewhere."
        )


def _thinned(every: _Told, chains: _Chain, config: Chained, num_replaced: int, seconds: float) -> Chains:
    thin, kept = config.thin, config.num_kept

    def groups(array):
        return array[:, : kept * thin].reshape(array.shape[0], kept, thin)

    return Chains(
        z=every.z[:, thin - 1 : kept * thin : thin],
        log_density=every.log_density[:, thin - 1 : kept * thin : thin],
        acceptance=groups(every.acceptance).mean(axis=2),
        divergent=groups(every.divergent).any(axis=2),
        num_steps=groups(every.num_steps).sum(axis=2),
        step_size=np.exp(np.asarray(chains.step_size.log_step_size_avg)),
        inverse_mass=np.asarray(chains.mass.inverse_mass_matrix),
        saturated=groups(every.saturated).any(axis=2),
        num_divergent=every.divergent.sum(axis=1),
        num_transitions=every.z.shape[1],
        num_replaced=num_replaced,
        seconds=seconds,
    )
