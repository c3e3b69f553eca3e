"""What a GP posterior does with each of its draws, and the few shapes it does it in.

Functions of (draw, shared…) for `over_draws`, at module level so that each compiles once per shape; candidates are padded to
a few sizes, so that a pool that shrinks by one at every query does not compile anew.
"""

from __future__ import annotations

from collections.abc import Iterator

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from numpy.typing import NDArray

from hyperleaf.gp import (
    Conditioned,
    Padded,
    Target,
    condition,
    covariance_of_data,
    moments,
    observe,
    whitened_cross,
)
from hyperleaf.linalg import gaussian_log_density, triangular_inverse
from hyperleaf.precision import put

CANDIDATES = 1024  # predicted at a time, to bound memory; fewer are padded to one of a few compiled sizes
MANY = 2**14  # candidates from which on less padding of the data pays for compiling anew
SIZES = (16, 64, 128, 256, 512)  # below that, to which points are padded
BLOCK = 64  # candidates of one draw at a time, so that their covariances with the data stay in the cache


def pad_points(points: NDArray[np.float64]) -> Array:
    """Points padded to one of a few sizes."""
    size = next((size for size in SIZES if len(points) <= size), -(-len(points) // CANDIDATES) * CANDIDATES)
    return put(np.pad(points, ((0, size - len(points)), (0, 0)), constant_values=0.5))


def chunks(points: NDArray[np.float64]) -> Iterator[tuple[Array, int]]:
    """Points in padded chunks of at most `CANDIDATES`, with the number of real ones in each."""
    for start in range(0, max(len(points), 1), CANDIDATES):
        part = points[start : start + CANDIDATES]
        yield pad_points(part), len(part)


def trimmed(data: Padded, seen: Conditioned, count: int) -> tuple[Padded, Conditioned]:
    """Data and factors without the padding beyond a multiple of 8: worth a compilation where very many points are predicted."""
    n = min(-(-count // 8) * 8, data.y.shape[0])
    short = Padded(data.x[:n], data.y[:n], data.noise[:n], data.count)
    return short, Conditioned(seen.factor[:, :n, :n], seen.whitened[:, :n], seen.jitter)


def density(z, target):
    """The log density of one draw."""
    return target(z)


def noisier_likelihoods(z, prior, data, heats):
    """The log likelihood of one draw with each of several variances (h,) added to all observations."""
    lower, _ = covariance_of_data(prior.from_vector(z), data)
    count = data.count.astype(lower.dtype)
    return jax.lax.map(lambda heat: gaussian_log_density(lower + jnp.diag(heat * data.real), data.y, count), heats)


def draw_gram(z, prior, x):
    """The covariance of f at x under one draw, before data."""
    return prior.from_vector(z).covariance.gram(x)


def draw_condition(z, prior, data):
    """The factor of one draw's covariance of the data."""
    return condition(prior.from_vector(z), data)


def draw_observe(draw, prior, data):
    """One draw's factor grown by the row after the last, and the log predictive density of that observation."""
    z, seen = draw
    i = data.count
    return observe(prior.from_vector(z), data, seen, data.x[i], data.y[i], data.noise[i])


def draw_moments(draw, prior, data, x):
    """Latent mean and variance at x of one draw, block by block."""
    z, seen = draw
    gp = prior.from_vector(z)
    if x.shape[0] <= BLOCK:
        return moments(gp, data, seen, x)
    kernel = gp.covariance
    features = kernel.features(data.x)
    inverse = triangular_inverse(seen.factor)  # once for all blocks: from there on only matrix products

    def block(points):
        v = (kernel.pairwise(kernel.features(points), features) * data.real) @ inverse.T
        return v @ seen.whitened, jnp.maximum(kernel.diagonal(points) - jnp.sum(v * v, axis=1), 0.0)

    mean, variance = jax.lax.map(block, x.reshape(-1, BLOCK, x.shape[1]))
    return mean.reshape(-1), variance.reshape(-1)


def draw_joint(draw, prior, data, x, r):
    """Latent moments at x and r of one draw, and the covariances between them, block by block of x."""
    z, seen = draw
    gp = prior.from_vector(z)
    kernel = gp.covariance
    if x.shape[0] <= BLOCK:
        vx, vr = whitened_cross(gp, data, seen, x), whitened_cross(gp, data, seen, r)
        mean_x, var_x = vx.T @ seen.whitened, jnp.maximum(kernel.diagonal(x) - jnp.sum(vx * vx, axis=0), 0.0)
        cov = kernel.gram(x, r) - vx.T @ vr
    else:
        features, at_r = kernel.features(data.x), kernel.features(r)
        inverse = triangular_inverse(seen.factor)
        vr = inverse @ (kernel.pairwise(features, at_r) * data.real[:, None])

        def block(points):
            at_x = kernel.features(points)
            v = (kernel.pairwise(at_x, features) * data.real) @ inverse.T  # a row each: no product then needs a transpose
            var = jnp.maximum(kernel.diagonal(points) - jnp.sum(v * v, axis=1), 0.0)
            return v @ seen.whitened, var, kernel.pairwise(at_x, at_r) - v @ vr

        mean_x, var_x, cov = jax.lax.map(block, x.reshape(-1, BLOCK, x.shape[1]))
        mean_x, var_x, cov = mean_x.reshape(-1), var_x.reshape(-1), cov.reshape(x.shape[0], -1)
    var_r = jnp.maximum(kernel.diagonal(r) - jnp.sum(vr * vr, axis=0), 0.0)
    return mean_x, var_x, vr.T @ seen.whitened, var_r, cov


def draw_sample(draw, prior, data, x):
    """One function of one draw's posterior at x, from standard normal numbers."""
    z, seen, normal = draw
    gp = prior.from_vector(z)
    v = whitened_cross(gp, data, seen, x)
    kernel = gp.covariance
    covariance = kernel.gram(x) - v.T @ v
    # An eigendecomposition takes a covariance that is singular (a point among the data, two equal points) as it comes.
    values, vectors = jnp.linalg.eigh(0.5 * (covariance + covariance.T))
    return v.T @ seen.whitened + vectors @ (jnp.sqrt(jnp.maximum(values, 0.0)) * normal)


def invariants(z, prior, data):
    """What does not depend on the labels of leaves: log likelihood, noise, f in the middle of the cube."""
    gp = prior.from_vector(z)
    seen = condition(gp, data)
    middle = jnp.full((1, data.x.shape[1]), 0.5)
    return (
        Target(prior, data).log_likelihood(z),
        jnp.asarray(gp.typical_noise(data), z.dtype),
        moments(gp, data, seen, middle)[0][0],
    )


@eqx.filter_jit
def draw_noise(z, prior, data):
    """The noise variance of all draws, or the typical one of these data."""
    return jax.vmap(lambda one: jnp.asarray(prior.from_vector(one).typical_noise(data), one.dtype))(z)


def draw_noise_at(z, prior, x):
    """The noise variance of one draw at each x, where every leaf has its own."""
    return prior.from_vector(z).noise_at(x)


@eqx.filter_jit
def traced_noise(z, prior, x):
    """The same of all draws, differentiable in x."""
    return jax.lax.map(lambda one: prior.from_vector(one).noise_at(x), z)


@eqx.filter_jit
def traced_moments(draws, prior, data, x):
    """Latent moments at x of all draws, differentiable in x."""
    return jax.lax.map(lambda draw: moments(prior.from_vector(draw[0]), data, draw[1], x), draws)


@eqx.filter_jit
def traced_joint(draws, prior, data, x, r):
    """Latent moments and covariances at x and r of all draws, differentiable in x and r."""
    return jax.lax.map(lambda draw: draw_joint(draw, prior, data, x, r), draws)
