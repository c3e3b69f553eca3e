"""Modes of a log density on ℝᵖ, from many starts: L-BFGS with a line search that treats −∞ as a wall.

Each start runs the two-loop recursion on its last few steps and searches along the direction by bisection for a point that
satisfies the weak Wolfe conditions (Lewis and Overton, 2013): no interpolation, so values of −∞ where a covariance has no factor
only shorten the step. One gradient is compiled for all starts, and the cores share them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int
from numpy.typing import ArrayLike, NDArray

from hyperleaf.errors import InferenceError, InputError
from hyperleaf.inference.base import Diagnostics, Problem
from hyperleaf.inference.batch import Batch
from hyperleaf.parallel import over_draws
from hyperleaf.precision import float64
from hyperleaf.priors import check_count

MEMORY = 10  # pairs (step, change of gradient) that approximate the curvature
ARMIJO, CURVATURE = 1e-4, 0.9
MAX_TRIALS = 40  # of one line search; 2⁻⁴⁰ is where steps drown in rounding
FIRST_STEP = 1.0  # longest first step, in units of z: priors live on a scale of about one
FLAT = 1e-9  # relative gain of a step that counts as none, as in SciPy's L-BFGS-B
SAME_MODE = 1e-2  # optima whose log densities differ by less are taken for one …
SAME_LIKELIHOOD = 0.1  # … and log likelihoods: not stationary there, they are off by the root of what the density is off by


@dataclass(frozen=True)
class Map(Batch):
    """Maximum a posteriori from `restarts` starts, each of at most `max_steps` L-BFGS steps.

    A start has converged when no entry of the gradient exceeds `tolerance` · max(1, |log density|), or when nothing more is to
    be gained in floating point. With `prior=False` the likelihood alone is climbed: type-II maximum likelihood. The prior then
    only says where to start, and its support where to search.
    """

    tag = "map"
    restarts: int = 10
    max_steps: int = 500  # of 8 leaves in 2-D, most starts take 150 to 350
    tolerance: float = 1e-6
    prior: bool = True

    def __post_init__(self) -> None:
        check_count("restarts", self.restarts)
        check_count("max_steps", self.max_steps)
        if not 0 < self.tolerance < 1:
            raise InputError(f"tolerance must lie between 0 and 1; got {self.tolerance!r}.")

    @classmethod
    def saved(cls) -> dict[str, type]:
        return {"map-modes": Modes}

    @property
    def uses_prior(self) -> bool:
        return self.prior

    @property
    def least_draws(self) -> float:
        return 1.0

    @property
    def num_starts(self) -> int:
        """One for each restart."""
        return self.restarts

    def first_starts(self, problem: Problem, key: Array) -> Float[Array, "r p"]:
        starts = problem.prior_draws(key, self.restarts)
        return starts if problem.begin_at is None else starts.at[0].set(problem.begin_at)

    def next_starts(self, problem: Problem, z: Float[Array, "s p"], log_weights: Float[Array, "s"], key: Array) -> Array:
        """The last optimum, best first, then where the first run began and further draws of the prior."""
        kept = z[: max(self.restarts // 2, 1)]
        if problem.begin_at is not None:
            kept = jnp.concatenate([kept, problem.begin_at[None]])
        fresh = problem.prior_draws(key, max(self.restarts - len(kept), 0))
        return jnp.concatenate([kept, fresh])[: self.restarts]

    def run(self, problem: Problem, starts: Float[Array, "r p"], key: Array) -> tuple[Float[Array, "s p"], Diagnostics]:
        modes = find_modes(problem.target(), starts, self)
        summary = Diagnostics("map" if self.prior else "ml", 1, 0.0, extra={"modes": modes})
        if not self.prior and problem.size > problem.num_observations:
            few = f"{problem.num_observations} observations do not determine {problem.size} parameters: maximum likelihood takes"
            summary = replace(summary, messages=(f'{few} one of many optima and is too sure of it. "smc" averages over them.',))
        return jnp.asarray(modes.z[:1]), summary


def maximum_likelihood(**settings: Any) -> Map:
    """Type-II maximum likelihood: the settings of a Map, without the prior."""
    return Map(**{"prior": False} | settings)


@dataclass(frozen=True)
class Modes:
    """What each start came to, best first. `distinct` indexes one start of each different optimum, best first too."""

    z: NDArray[np.float64]  # (r, p)
    log_density: NDArray[np.float64]  # (r,), −inf for a start that had no density
    converged: NDArray[np.bool_]  # (r,)
    num_steps: NDArray[np.int64]  # (r,)
    num_gradients: NDArray[np.int64]  # (r,)
    distinct: NDArray[np.intp]
    seconds: float


@float64
def find_modes(target: Callable[[Array], Array], starts: ArrayLike, config: Map | None = None) -> Modes:
    """Climb the log density `target` from each row of `starts` (r, p); its log likelihood alone with `Map(prior=False)`.

    Optima are told apart by their log density, and by their log likelihood where the target has one. These do not change when
    the children of a gate are swapped, whereas z does: two such optima are one.
    """
    config = Map() if config is None else config
    began = time.perf_counter()
    z0 = check_starts(starts)
    if not config.prior:
        if not hasattr(target, "log_likelihood"):
            raise InputError(f"prior=False needs a target with a log_likelihood; {type(target).__name__} has none.")
        target = LikelihoodAlone(target)
    ends: _Climb = over_draws(_climb, z0, target, config)
    value = np.where(np.isfinite(ends.value), -np.asarray(ends.value), -np.inf)
    if not np.isfinite(value).any():
        raise InferenceError(
            f"a search needs at least one start of finite log density; none of the {len(value)} has one. "
            "Start from prior draws, raise the noise, or look for duplicated inputs with different outputs."
        )
    order = np.argsort(-value, kind="stable")
    z, value = np.asarray(ends.z)[order], value[order]
    likelihood = np.zeros_like(value)
    if hasattr(target, "log_likelihood"):
        likelihood = np.asarray(over_draws(_log_likelihood, jnp.asarray(z), target))
    return Modes(
        z=z,
        log_density=value,
        converged=np.asarray(ends.converged)[order] & np.isfinite(value),
        num_steps=np.asarray(ends.num_steps)[order],
        num_gradients=np.asarray(ends.num_gradients)[order],
        distinct=_distinct(value, likelihood),
        seconds=time.perf_counter() - began,
    )


class LikelihoodAlone(eqx.Module):
    """A target without its prior: flat over all of z, which for parameters within bounds is flat within the bounds."""

    target: Any

    def log_likelihood(self, z: Float[Array, "p"]) -> Float[Array, ""]:
        return self.target.log_likelihood(z)

    def __call__(self, z: Float[Array, "p"]) -> Float[Array, ""]:
        value = self.log_likelihood(z)
        return jnp.where(jnp.isfinite(value), value, -jnp.inf)


def check_starts(starts: ArrayLike) -> Float[Array, "r p"]:
    """Starts as a (r, p) array with at least one row and one column."""
    z = jnp.asarray(starts, dtype=jnp.float64)
    if z.ndim != 2 or 0 in z.shape:
        raise InputError(f"starts must be an array of shape (number of starts, p), neither of them 0; got shape {z.shape}.")
    return z


def _distinct(value: NDArray[np.float64], likelihood: NDArray[np.float64]) -> NDArray[np.intp]:
    """Starts that differ from every one kept before them."""
    kept: list[int] = []
    for i in np.flatnonzero(np.isfinite(value)):
        same = (np.abs(value[i] - value[kept]) <= SAME_MODE) & (np.abs(likelihood[i] - likelihood[kept]) <= SAME_LIKELIHOOD)
        if not same.any():
            kept.append(int(i))
    return np.array(kept, dtype=np.intp)


def _log_likelihood(z: Float[Array, "p"], target: Any) -> Float[Array, ""]:
    return target.log_likelihood(z)


class _Climb(NamedTuple):
    """One start under way; `value` is minus the log density."""

    z: Float[Array, "p"]
    value: Float[Array, ""]
    gradient: Float[Array, "p"]
    moves: Float[Array, "k p"]  # differences of z, newest last
    changes: Float[Array, "k p"]  # differences of the gradient
    inverse_products: Float[Array, "k"]  # 1 / (move · change), 0 where there is no pair yet
    num_steps: Int[Array, ""]
    num_gradients: Int[Array, ""]
    converged: Bool[Array, ""]
    stuck: Bool[Array, ""]


class _Search(NamedTuple):
    """One line search; the bracket (low, high) shrinks by bisection, or the step doubles while there is no upper end."""

    low: Float[Array, ""]
    high: Float[Array, ""]
    step: Float[Array, ""]
    z: Float[Array, "p"]
    value: Float[Array, ""]
    gradient: Float[Array, "p"]
    num_trials: Int[Array, ""]
    found: Bool[Array, ""]


def _climb(start: Float[Array, "p"], target: Callable[[Array], Array], config: Map) -> _Climb:
    """Minimise f = −target from one start."""

    def evaluate(z):
        value, gradient = jax.value_and_grad(lambda u: -target(u))(z)
        ok = jnp.isfinite(value) & jnp.isfinite(gradient).all()
        return jnp.where(ok, value, jnp.inf), jnp.where(ok, gradient, 0.0)

    def is_flat(value, gradient):
        return jnp.abs(gradient).max() <= config.tolerance * jnp.maximum(1.0, jnp.abs(value))

    def step(climb: _Climb) -> _Climb:
        direction = _two_loop(climb)
        fresh = ~(climb.inverse_products > 0).any()
        downhill = direction @ climb.gradient < 0
        direction = jnp.where(downhill, direction, -climb.gradient)
        # Without curvature the gradient says nothing about length; its scale may be anything.
        length = jnp.where(fresh | ~downhill, FIRST_STEP / jnp.maximum(FIRST_STEP, jnp.linalg.norm(direction)), 1.0)
        search = _line_search(evaluate, climb, direction, length)
        # A sufficient decrease without the curvature condition is still progress.
        moved = search.value < climb.value
        move = jnp.where(moved, search.z - climb.z, 0.0)
        change = jnp.where(moved, search.gradient - climb.gradient, 0.0)
        product = move @ change
        curved = moved & (product > 1e-12 * jnp.linalg.norm(move) * jnp.linalg.norm(change))
        gain = jnp.where(moved, climb.value - search.value, 0.0)
        z = jnp.where(moved, search.z, climb.z)
        value = jnp.where(moved, search.value, climb.value)
        gradient = jnp.where(moved, search.gradient, climb.gradient)

        def push(old, new):
            # When a direction from curvature fails, the pairs are forgotten and the next step goes down the gradient.
            return jnp.where(curved, jnp.concatenate([old[1:], new[None]]), jnp.where(moved, old, jnp.zeros_like(old)))

        return _Climb(
            z,
            value,
            gradient,
            push(climb.moves, move),
            push(climb.changes, change),
            push(climb.inverse_products, 1.0 / jnp.where(curved, product, 1.0)),
            climb.num_steps + 1,
            climb.num_gradients + search.num_trials,
            converged=is_flat(value, gradient) | (moved & (gain <= FLAT * jnp.maximum(1.0, jnp.abs(value)))),
            stuck=~moved & fresh,
        )

    p = start.shape[0]
    value, gradient = evaluate(start)
    first = _Climb(
        start,
        value,
        gradient,
        jnp.zeros((MEMORY, p)),
        jnp.zeros((MEMORY, p)),
        jnp.zeros(MEMORY),
        jnp.asarray(0),
        jnp.asarray(1),
        converged=jnp.isfinite(value) & is_flat(value, gradient),
        stuck=~jnp.isfinite(value),
    )
    return lax.while_loop(lambda c: ~c.converged & ~c.stuck & (c.num_steps < config.max_steps), step, first)


def _line_search(evaluate: Callable, climb: _Climb, direction: Float[Array, "p"], length: Float[Array, ""]) -> _Search:
    slope = climb.gradient @ direction

    def trial(search: _Search) -> _Search:
        z = climb.z + search.step * direction
        value, gradient = evaluate(z)
        enough = value <= climb.value + ARMIJO * search.step * slope  # false for +inf
        found = enough & (gradient @ direction >= CURVATURE * slope)
        low, high = jnp.where(enough, search.step, search.low), jnp.where(enough, search.high, search.step)
        following = jnp.where(jnp.isfinite(high), 0.5 * (low + high), 2.0 * low)
        # Keep the best sufficient decrease so far, in case the curvature condition is never met beside a wall of −∞.
        better = enough & (value <= search.value)
        return _Search(
            low,
            high,
            following,
            jnp.where(better, z, search.z),
            jnp.where(better, value, search.value),
            jnp.where(better, gradient, search.gradient),
            search.num_trials + 1,
            found,
        )

    first = _Search(
        jnp.zeros(()),
        jnp.asarray(jnp.inf),
        length,
        climb.z,
        climb.value,
        climb.gradient,
        jnp.asarray(0),
        jnp.asarray(False),
    )
    return lax.while_loop(lambda s: ~s.found & (s.num_trials < MAX_TRIALS), trial, first)


def _two_loop(climb: _Climb) -> Float[Array, "p"]:
    """−H·gradient, H the inverse Hessian that the remembered pairs imply (Nocedal and Wright, algorithm 7.4)."""
    pairs = (climb.moves, climb.changes, climb.inverse_products)

    def newest_first(q, pair):
        move, change, inverse_product = pair
        alpha = inverse_product * (move @ q)
        return q - alpha * change, alpha

    def oldest_first(q, pair):
        (move, change, inverse_product), alpha = pair
        return q + move * (alpha - inverse_product * (change @ q)), None

    q, alphas = lax.scan(newest_first, climb.gradient, pairs, reverse=True)
    square = climb.changes[-1] @ climb.changes[-1]
    scale = jnp.where(climb.inverse_products[-1] > 0, 1.0 / jnp.maximum(climb.inverse_products[-1] * square, 1e-300), 1.0)
    q, _ = lax.scan(oldest_first, scale * q, (pairs, alphas))
    return -q
