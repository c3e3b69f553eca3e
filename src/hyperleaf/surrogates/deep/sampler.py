"""The sampler of the deep GP: Metropolis for scales and nugget, elliptical slice sampling for the hidden layers.

`Model` is the fixed posterior to be sampled, `State` one point of the chain together with what it determines (distances,
factors, likelihood). Each update is a pure function (state, model, rng) → (state, Info) that leaves the posterior invariant;
`sweep` runs them all once.

    hidden layers   w_i | inputs ~ N(0, K_θi(inputs) + 1.5e-8 I), inputs being X or the layer before
    response        y | W ~ N(0, τ²(K_θy(W) + g diag(v))), p(τ²) ∝ 1/τ² integrated out; v = 1 unless the noise is heteroscedastic
    scales          θ and g Gamma(shape, rate), g ≥ 1.5e-8
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import cos, exp, log, pi, sin
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg.blas import dtrmv

from hyperleaf.errors import InferenceError
from hyperleaf.surrogates.deep.gaussian import (
    JITTER,
    Array,
    Correlation,
    cholesky,
    column_distances,
    cross_distances,
    log_marginal,
    log_normal,
    self_distances,
    solve,
)

MAX_SHRINKS = 200  # the bracket has then shrunk below rounding: the slice holds nothing but the current point


class GammaPrior(NamedTuple):
    """Gamma(shape, rate)."""

    shape: float
    rate: float

    def log_density(self, value: float) -> float:
        return (self.shape - 1.0) * log(value) - self.rate * value


@dataclass(frozen=True)
class Model:
    """The posterior that is sampled; with `likelihood_off` the prior."""

    x: Array  # (n, d)
    y: Array  # (n,)
    correlation: Correlation
    hidden_priors: tuple[GammaPrior, ...]  # of θ, one per hidden layer, first the layer next to x
    theta_prior: GammaPrior
    nugget_prior: GammaPrior
    sample_nugget: bool = True
    noise_pattern: float | Array = 1.0
    likelihood_off: bool = False

    def likelihood(self, squared: Array, theta: float, nugget: float) -> float:
        """Log likelihood of y given squared distances between the outer inputs; −inf where the covariance is singular."""
        if self.likelihood_off:
            return 0.0
        factor = cholesky(self.correlation, squared, theta, np.maximum(nugget * self.noise_pattern, JITTER))
        return -np.inf if factor is None else log_marginal(factor, self.y)

    def hidden_factor(self, squared: Array, theta: float) -> Array | None:
        return cholesky(self.correlation, squared, theta, JITTER)


class State(NamedTuple):
    """One point of the chain; layer l maps inputs with squared distances `squared[l]` to `hidden[l]` (n, p)."""

    hidden: tuple[Array, ...]
    scales: tuple[tuple[float, ...], ...]  # θ of every column of every hidden layer
    theta: float  # of the outer layer
    nugget: float
    squared: tuple[Array, ...]  # between rows of x, then of each hidden layer; the last belongs to the outer layer
    factors: tuple[tuple[Array, ...], ...]  # of the covariance of every column of every hidden layer
    log_likelihood: float


class Info(NamedTuple):
    """What an update did: accepted or not, likelihood evaluations, factorisations that failed."""

    accepted: bool
    evaluations: int
    failures: int


def make_state(
    model: Model, hidden: tuple[Array, ...], scales: tuple[tuple[float, ...], ...], theta: float, nugget: float
) -> State:
    """A state with all that it determines computed afresh."""
    squared = [self_distances(model.x)]
    factors = []
    for nodes, layer_scales in zip(hidden, scales, strict=True):
        layer = [model.hidden_factor(squared[-1], scale) for scale in layer_scales]
        if any(factor is None for factor in layer):
            raise InferenceError(
                f"the covariance of a hidden layer must be positive definite; with squared lengthscales {layer_scales} and "
                f"{len(model.x)} observations it is not. Start from smaller lengthscales or use kernel='matern52'."
            )
        factors.append(tuple(factor for factor in layer if factor is not None))
        squared.append(self_distances(nodes))
    likelihood = model.likelihood(squared[-1], theta, nugget)
    if likelihood == -np.inf:
        raise InferenceError(
            f"the covariance of y must be positive definite at the start; with θ = {theta:g} and nugget {nugget:g} it is not. "
            "Start from a smaller θ or a larger nugget."
        )
    return State(hidden, scales, theta, nugget, tuple(squared), tuple(factors), likelihood)


def extend_state(model: Model, state: State) -> State:
    """The state carried over to a model with rows added behind the old ones: new rows of each layer by its conditional mean."""
    old, inputs, hidden = len(state.squared[0]), model.x, []
    for nodes, layer_scales, factors in zip(state.hidden, state.scales, state.factors, strict=True):
        squared = cross_distances(inputs[old:], inputs[:old])
        new = [
            model.correlation(squared, scale) @ solve(factor, nodes[:, j])
            for j, (scale, factor) in enumerate(zip(layer_scales, factors, strict=True))
        ]
        inputs = np.asfortranarray(np.vstack([nodes, np.column_stack(new)]))
        hidden.append(inputs)
    return make_state(model, tuple(hidden), state.scales, state.theta, state.nugget)


def _propose(value: float, rng: np.random.Generator) -> tuple[float, float]:
    """A proposal uniform on (value/2, 2 value) and the logarithm of its Hastings factor, value/proposal."""
    proposal = value * (0.5 + 1.5 * rng.random())
    return proposal, log(value / proposal)


def _accept(log_ratio: float, rng: np.random.Generator) -> bool:
    uniform = rng.random()
    return log_ratio >= 0.0 or uniform < exp(log_ratio)


def update_nugget(state: State, model: Model, rng: np.random.Generator) -> tuple[State, Info]:
    """Metropolis on g."""
    proposal, hastings = _propose(state.nugget, rng)
    if proposal < JITTER:
        return state, Info(False, 0, 0)
    likelihood = model.likelihood(state.squared[-1], state.theta, proposal)
    prior = model.nugget_prior.log_density(proposal) - model.nugget_prior.log_density(state.nugget)
    if _accept(likelihood - state.log_likelihood + prior + hastings, rng):
        return state._replace(nugget=proposal, log_likelihood=likelihood), Info(True, 1, 0)
    return state, Info(False, 1, likelihood == -np.inf)


def update_theta(state: State, model: Model, rng: np.random.Generator) -> tuple[State, Info]:
    """Metropolis on θ of the outer layer."""
    proposal, hastings = _propose(state.theta, rng)
    likelihood = model.likelihood(state.squared[-1], proposal, state.nugget)
    prior = model.theta_prior.log_density(proposal) - model.theta_prior.log_density(state.theta)
    if _accept(likelihood - state.log_likelihood + prior + hastings, rng):
        return state._replace(theta=proposal, log_likelihood=likelihood), Info(True, 1, 0)
    return state, Info(False, 1, likelihood == -np.inf)


def update_scale(state: State, model: Model, rng: np.random.Generator, layer: int, column: int) -> tuple[State, Info]:
    """Metropolis on θ of one column of a hidden layer, given that column."""
    scale, w, prior = state.scales[layer][column], state.hidden[layer][:, column], model.hidden_priors[layer]
    proposal, hastings = _propose(scale, rng)
    factor = model.hidden_factor(state.squared[layer], proposal)
    if factor is None:
        return state, Info(False, 1, 1)
    log_ratio = log_normal(factor, w) - log_normal(state.factors[layer][column], w)
    if _accept(log_ratio + prior.log_density(proposal) - prior.log_density(scale) + hastings, rng):
        scales = _put(state.scales, layer, _put(state.scales[layer], column, proposal))
        factors = _put(state.factors, layer, _put(state.factors[layer], column, factor))
        return state._replace(scales=scales, factors=factors), Info(True, 1, 0)
    return state, Info(False, 1, 0)


def elliptical_slice(
    current: Array,
    prior_draw: Array,
    likelihood: Callable[[Array], tuple[float, Any]],
    log_likelihood: float,
    rng: np.random.Generator,
) -> tuple[Array, float, Any, int]:
    """One elliptical slice step for a Gaussian prior with mean 0 (Murray, Adams and MacKay 2010).

    The candidate w cos a + ν sin a starts at a uniform angle a; the bracket [a − 2π, a] shrinks towards 0 until the candidate's
    likelihood exceeds the slice. `likelihood` returns a value and anything worth keeping of its computation. Returns the new
    point, its log likelihood, what was kept of it (None if the point did not move) and the number of evaluations.
    """
    threshold = log_likelihood + log(1.0 - rng.random())
    angle = 2.0 * pi * rng.random()
    low, high = angle - 2.0 * pi, angle
    for evaluation in range(1, MAX_SHRINKS + 1):
        candidate = cos(angle) * current + sin(angle) * prior_draw
        value, kept = likelihood(candidate)
        if value > threshold:
            return candidate, value, kept, evaluation
        if angle < 0.0:
            low = angle
        else:
            high = angle
        angle = low + (high - low) * rng.random()
    return current, log_likelihood, None, MAX_SHRINKS


def update_nodes(state: State, model: Model, rng: np.random.Generator, layer: int, column: int) -> tuple[State, Info]:
    """Elliptical slice sampling of one column of a hidden layer, given what the layer feeds."""
    nodes, failures = state.hidden[layer], 0
    w = nodes[:, column]
    others = state.squared[layer + 1] - column_distances(w)

    def likelihood(candidate: Array) -> tuple[float, Any]:
        nonlocal failures
        squared = column_distances(candidate)
        squared += others
        value, factors = _downstream(state, model, layer, squared)
        failures += value == -np.inf
        return value, (squared, factors)

    prior_draw = dtrmv(state.factors[layer][column], rng.standard_normal(len(w)), lower=1)
    w, value, kept, evaluations = elliptical_slice(w, prior_draw, likelihood, _downstream_now(state, layer), rng)
    if kept is None:
        return state, Info(False, evaluations, failures)
    nodes = nodes.copy(order="F")
    nodes[:, column] = w
    return _moved(state, layer, nodes, kept[0], value, kept[1]), Info(True, evaluations, failures)


def _downstream(state: State, model: Model, layer: int, squared: Array) -> tuple[float, tuple[Array, ...] | None]:
    """Log density of what a hidden layer feeds, were its squared distances these, and the factors that go with it.

    That is y where the layer is the last one, and otherwise the columns of the next layer.
    """
    if layer + 1 == len(state.hidden):
        return model.likelihood(squared, state.theta, state.nugget), None
    total, factors = 0.0, []
    for scale, w in zip(state.scales[layer + 1], state.hidden[layer + 1].T, strict=True):
        factor = model.hidden_factor(squared, scale)
        if factor is None:
            return -np.inf, None
        factors.append(factor)
        total += log_normal(factor, w)
    return total, tuple(factors)


def _downstream_now(state: State, layer: int) -> float:
    if layer + 1 == len(state.hidden):
        return state.log_likelihood
    return sum(log_normal(factor, w) for factor, w in zip(state.factors[layer + 1], state.hidden[layer + 1].T, strict=True))


def _moved(state: State, layer: int, nodes: Array, squared: Array, value: float, factors: tuple[Array, ...] | None) -> State:
    """The state with the nodes of a layer moved to where `_downstream` gave `value` and `factors`."""
    state = state._replace(hidden=_put(state.hidden, layer, nodes), squared=_put(state.squared, layer + 1, squared))
    if factors is None:
        return state._replace(log_likelihood=value)
    return state._replace(factors=_put(state.factors, layer + 1, factors))


def sweep(state: State, model: Model, rng: np.random.Generator) -> tuple[State, dict[str, list[Info]]]:
    """All updates once: g, θ of the outer layer, θ of each hidden column, then each hidden column; layers from y inwards."""
    info: dict[str, list[Info]] = {"nugget": [], "theta": [], "scale": [], "nodes": []}
    if model.sample_nugget:
        state, one = update_nugget(state, model, rng)
        info["nugget"].append(one)
    state, one = update_theta(state, model, rng)
    info["theta"].append(one)
    for layer in reversed(range(len(state.hidden))):
        for column in range(state.hidden[layer].shape[1]):
            state, one = update_scale(state, model, rng, layer, column)
            info["scale"].append(one)
    for layer in reversed(range(len(state.hidden))):
        # Distances are updated by adding and subtracting columns; computing them afresh here keeps rounding from piling up.
        state = state._replace(squared=_put(state.squared, layer + 1, self_distances(state.hidden[layer])))
        for column in range(state.hidden[layer].shape[1]):
            state, one = update_nodes(state, model, rng, layer, column)
            info["nodes"].append(one)
    return state, info


def _put(items: tuple, index: int, value: Any) -> tuple:
    return (*items[:index], value, *items[index + 1 :])
