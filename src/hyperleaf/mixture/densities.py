"""What is computed of Gaussian mixtures, as pure JAX functions, for use under `jit`, `vmap` and `grad`.

p(y | x_j) = Σ_i w_i N(y; μ_ij, v_ij) for j = 1…m. All work through the candidates in batches, so that memory stays bounded.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.special import erf, erfc, logsumexp, ndtri
from jaxtyping import Array, Float

Weights = Float[Array, " s"]
Moments = Float[Array, "s m"]

LOG_2PI = float(np.log(2.0 * np.pi))


def per_candidate(function: Callable[..., Any], *arrays: Array, work: int) -> Any:
    """Map over the last axis of `arrays`; `work` is the number of elements one candidate needs, and sets the batch size."""
    batch = int(np.clip(2**15 // max(work, 1), 1, 64))  # what fits the cache; larger batches run up to ten times slower
    columns = tuple(jnp.moveaxis(a, -1, 0) for a in arrays)
    return lax.map(jax.checkpoint(lambda column: function(*column)), columns, batch_size=batch)


def split_atoms(weights: Array, variances: Array) -> tuple[Array, Array]:
    """Which components are point masses of positive weight, and standard deviations that are safe to divide by."""
    return (variances <= 0) & (weights > 0), jnp.sqrt(jnp.where(variances > 0, variances, 1.0))


def mixture_moments(weights: Weights, means: Moments, variances: Moments) -> tuple[Float[Array, " m"], Float[Array, " m"]]:
    """Mean Σ w μ and variance Σ w (v + (μ - mean)²) of each candidate."""
    mean = weights @ means
    return mean, weights @ (variances + (means - mean) ** 2)


@jax.jit
def mixture_log_prob(weights: Weights, means: Moments, variances: Moments, y: Float[Array, "k m"]) -> Float[Array, "k m"]:
    """log p(y). A point mass counts as +inf on its own location and as nothing elsewhere."""

    def one(mean: Array, variance: Array, y: Array) -> Array:
        _, std = split_atoms(weights, variance)
        z = (y[:, None] - mean) / std
        log_density = jnp.where(variance > 0, -0.5 * (z * z + LOG_2PI) - jnp.log(std), jnp.where(z == 0, jnp.inf, -jnp.inf))
        log_weight = jnp.log(jnp.where(weights > 0, weights, 1.0))
        return logsumexp(jnp.where(weights > 0, log_weight + log_density, -jnp.inf), axis=1)

    return per_candidate(one, means, variances, y, work=means.shape[0] * y.shape[0]).T


def _cdf_one(weights: Array, mean: Array, variance: Array, y: Array) -> Array:
    _, std = split_atoms(weights, variance)
    z = y[:, None] - mean
    return jnp.where(variance > 0, 0.5 * erfc(z * (-np.sqrt(0.5) / std)), z >= 0) @ weights


@jax.jit
def mixture_cdf(weights: Weights, means: Moments, variances: Moments, y: Float[Array, "k m"]) -> Float[Array, "k m"]:
    """P(Y ≤ y); a point mass is a step."""
    work = means.shape[0] * y.shape[0]
    return per_candidate(partial(_cdf_one, weights), means, variances, y, work=work).T


@jax.jit
def mixture_quantile(weights: Weights, means: Moments, variances: Moments, q: Float[Array, " k"]) -> Float[Array, "k m"]:
    """inf {y : P(Y ≤ y) ≥ q}, by Newton steps kept inside a shrinking bracket; differentiable in all but the level.

    The q-quantile of a mixture lies between the smallest and the largest q-quantile of its components: that is the bracket.
    Every third step bisects, so a density that is flat, steep or zero between far components cannot stall the search.
    """

    def density(mean: Array, variance: Array, y: Array) -> Array:
        _, std = split_atoms(weights, variance)
        z = (y[:, None] - mean) / std
        return jnp.where(variance > 0, jnp.exp(-0.5 * (z * z + LOG_2PI)) / std, 0.0) @ weights

    def one(mean: Array, variance: Array) -> Array:
        parameters = lax.stop_gradient((mean, variance))
        frozen_mean, frozen_variance = parameters
        _, std = split_atoms(weights, frozen_variance)
        inside = jnp.where((q > 0) & (q < 1), q, 0.5)
        component = frozen_mean + jnp.where(frozen_variance > 0, std * ndtri(inside)[:, None], 0.0)
        low = jnp.min(jnp.where(weights > 0, component, jnp.inf), axis=1)
        high = jnp.max(jnp.where(weights > 0, component, -jnp.inf), axis=1)
        tolerance = 1e-13 * (high - low) + 1e-15 * jnp.maximum(jnp.abs(low), jnp.abs(high))

        def step(state: Any) -> Any:
            count, y, low, high, done = state
            excess = _cdf_one(weights, *parameters, y) - inside
            slope = density(*parameters, y)
            newton = y - jnp.where(slope > 0, excess / jnp.where(slope > 0, slope, 1.0), jnp.inf)
            low, high = jnp.where(excess < 0, y, low), jnp.where(excess < 0, high, y)
            usable = (newton >= low) & (newton <= high)
            # where the bracket has closed, its upper end is the one with cdf >= q, also at a step
            closed = high - low <= tolerance
            following = jnp.where(usable & (count % 3 != 2), newton, 0.5 * (low + high))
            following = jnp.where(closed, high, jnp.where(usable & (jnp.abs(newton - y) <= tolerance), newton, following))
            return count + 1, jnp.where(done, y, following), low, high, done | closed | (jnp.abs(newton - y) <= tolerance)

        # a hair wider than the theorem says, so that rounding cannot put the root outside
        low, high = low - tolerance, high + tolerance
        start = (jnp.asarray(0), 0.5 * (low + high), low, high, high - low <= 0)
        y = lax.while_loop(lambda state: (state[0] < 300) & ~jnp.all(state[4]), step, start)[1]
        slope = density(*parameters, y)
        # zero in value; its derivative is that of the implicit function cdf(y; mean, variance) = q
        residual = _cdf_one(weights, mean, variance, y)
        y = y - jnp.where(slope > 0, (residual - lax.stop_gradient(residual)) / jnp.where(slope > 0, slope, 1.0), 0.0)
        lowest = jnp.min(jnp.where(weights > 0, jnp.where(variance > 0, -jnp.inf, mean), jnp.inf))
        highest = jnp.max(jnp.where(weights > 0, jnp.where(variance > 0, jnp.inf, mean), -jnp.inf))
        return jnp.where(q <= 0, lowest, jnp.where(q >= 1, highest, y))

    return per_candidate(one, means, variances, work=means.shape[0] * q.shape[0]).T


@jax.jit
def mixture_crps(weights: Weights, means: Moments, variances: Moments, y: Float[Array, "k m"]) -> Float[Array, "k m"]:
    """Continuous ranked probability score E|Y - y| - ½ E|Y - Y'|, smaller is better, in the units of y.

    With A(μ, v) = E|N(μ, v)| = 2√v φ(μ/√v) + μ(2Φ(μ/√v) - 1) it is Σ w_i A(y - μ_i, v_i) - ½ Σ w_i w_j A(μ_i - μ_j, v_i + v_j).
    """

    def absolute(mean: Array, variance: Array) -> Array:
        std = jnp.sqrt(jnp.where(variance > 0, variance, 1.0))
        z = mean / std
        smooth = std * 2.0 * jnp.exp(-0.5 * (z * z + LOG_2PI)) + mean * erf(z * np.sqrt(0.5))
        return jnp.where(variance > 0, smooth, jnp.abs(mean))

    def one(mean: Array, variance: Array, y: Array) -> Array:
        spread = weights @ absolute(mean[:, None] - mean, variance[:, None] + variance) @ weights
        return absolute(y[:, None] - mean, jnp.broadcast_to(variance, (y.shape[0], *variance.shape))) @ weights - 0.5 * spread

    return per_candidate(one, means, variances, y, work=means.shape[0] * (means.shape[0] + y.shape[0])).T


@partial(jax.jit, static_argnames="shape")
def mixture_sample(key: Any, weights: Weights, means: Moments, variances: Moments, *, shape: tuple[int, ...]) -> Array:
    """Draws (*shape, m), independent of each other and across candidates."""
    choose, noise = jax.random.split(key)
    size = (*shape, means.shape[1])
    heights = jnp.cumsum(weights)
    index = jnp.searchsorted(heights, jax.random.uniform(choose, size) * heights[-1], side="right")
    column = jnp.arange(means.shape[1])
    return means[index, column] + jnp.sqrt(variances[index, column]) * jax.random.normal(noise, size)
