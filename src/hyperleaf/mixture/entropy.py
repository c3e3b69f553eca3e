"""The entropy of Gaussian mixtures: by quadrature that refines itself where it must, and by expansion.

`mixture_entropy_with_error` is one rule for all candidates, for use under `jit` and `grad`; `refined_entropy` is what users get.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.special import logsumexp
from jaxtyping import Array, Float
from numpy.typing import NDArray

from hyperleaf.machine import mixtures as machine
from hyperleaf.mixture.densities import LOG_2PI, Moments, Weights, per_candidate, split_atoms
from hyperleaf.precision import put

EntropyMethod = Literal["quadrature", "moments", "taylor1", "taylor2", "sampling"]

TINY = 1e-300
GROUP = 16  # candidates that are refined together
_REACH = 9.0  # standard deviations beyond the outermost components; 1e-17 of the entropy lies outside
_KNOTS = np.array([-9.0, -6.5, -4.5, -3.0, -1.5, 0.0, 1.5, 3.0, 4.5, 6.5, 9.0])
_GAUSS_LEGENDRE = np.polynomial.legendre.leggauss(10)


def _negative_p_log_p(p: Array) -> Array:
    return -p * jnp.log(jnp.maximum(p, TINY))


def _density_at(weights: Array, mean: Array, std: Array, y: Array) -> Array:
    """p at nodes y (k,), components summed over the leading axis: the layout in which XLA vectorises the exponentials."""
    t = (y - mean[:, None]) * (np.sqrt(0.5) / std)[:, None]
    return jnp.sum((weights / std)[:, None] * jnp.exp(-t * t), axis=0) * np.exp(-0.5 * LOG_2PI)


@partial(jax.jit, static_argnames="num_nodes")
def mixture_entropy_with_error(
    weights: Weights, means: Moments, variances: Moments, *, num_nodes: int = 120
) -> tuple[Float[Array, " m"], Float[Array, " m"]]:
    """Differential entropy -∫ p log p dy by the trapezoidal rule, and an estimate of its error.

    In y = c + a sinh(u) the rule converges spectrally. c and a are mean and spread of the components weighted by the square of
    their peak, (w/√v)²: the nodes crowd where the narrow components are and thin out geometrically towards 9 sd beyond the
    outermost. Every second node alone is the rule with half the nodes, and the change from it bounds the error of the full rule
    amply once convergence is geometric. By a chance of phase that change can vanish; so a hundredth of the largest change from
    the three rules of every third node is the least it may be. Added is the error in ∫ p dy = 1, which betrays narrow peaks.
    `num_nodes` is rounded up to a multiple of 6. The nodes are held fixed in derivatives. A point mass makes the entropy -inf.
    """

    count = 6 * -(-num_nodes // 6)

    def one(mean: Array, variance: Array) -> tuple[Array, Array]:
        atom, std = split_atoms(weights, variance)
        # the barrier keeps XLA from computing each sinh anew for every component
        node, volume = lax.optimization_barrier(nodes(*lax.stop_gradient((mean, std))))
        p = _density_at(weights, mean, std, node)
        integrand = volume * _negative_p_log_p(p)
        entropy = jnp.sum(integrand)
        halves = 2.0 * jnp.sum(integrand.reshape(-1, 2), axis=0)
        thirds = 3.0 * jnp.sum(integrand.reshape(-1, 3), axis=0)
        coarse = jnp.maximum(jnp.abs(entropy - halves[0]), 0.01 * jnp.max(jnp.abs(entropy - thirds)))
        error = coarse + jnp.abs(jnp.sum(volume * p) - 1.0)
        return jnp.where(jnp.any(atom), -jnp.inf, entropy), jnp.where(jnp.any(atom), 0.0, lax.stop_gradient(error))

    def nodes(mean: Array, std: Array) -> tuple[Array, Array]:
        focus = jax.nn.softmax(2.0 * (jnp.log(jnp.maximum(weights, TINY)) - jnp.log(std)))
        centre = focus @ mean
        width = jnp.sqrt(focus @ ((mean - centre) ** 2 + std**2))
        low = jnp.min(jnp.where(weights > 0, mean - _REACH * std, jnp.inf))
        high = jnp.max(jnp.where(weights > 0, mean + _REACH * std, -jnp.inf))
        first, last = jnp.arcsinh((low - centre) / width), jnp.arcsinh((high - centre) / width)
        step = (last - first) / count
        u = first + step * jnp.arange(count)
        return centre + width * jnp.sinh(u), step * width * jnp.cosh(u)

    return per_candidate(one, means, variances, work=means.shape[0] * num_nodes)


def mixture_entropy(weights: Weights, means: Moments, variances: Moments, *, num_nodes: int = 120) -> Float[Array, " m"]:
    """Entropy by the rule of `mixture_entropy_with_error`, for differentiation; `Mixture.entropy` also refines where needed."""
    return mixture_entropy_with_error(weights, means, variances, num_nodes=num_nodes)[0]


@jax.jit
def _entropy_by_panels(weights: Weights, means: Moments, variances: Moments) -> Float[Array, " m"]:
    """Entropy by Gauss-Legendre panels between all points μ_i + k√v_i: costs s² per candidate, resolves any set of widths."""
    abscissae, areas = _GAUSS_LEGENDRE

    def one(mean: Array, variance: Array) -> Array:
        atom, std = split_atoms(weights, variance)
        heaviest = jnp.argmax(weights)
        edge_mean, edge_std = jnp.where(weights > 0, mean, mean[heaviest]), jnp.where(weights > 0, std, std[heaviest])
        edges = jnp.sort((edge_mean[:, None] + edge_std[:, None] * _KNOTS).ravel())
        edges = jnp.append(edges, edges[-1])  # an empty last panel makes blocks of equal size
        middle, radius = 0.5 * (edges[1:] + edges[:-1]), 0.5 * (edges[1:] - edges[:-1])

        def block(bounds: tuple[Array, Array]) -> Array:
            middle, radius = bounds
            p = _density_at(weights, mean, std, (middle[:, None] + radius[:, None] * abscissae).ravel())
            return (radius[:, None] * areas).ravel() @ _negative_p_log_p(p)

        blocks = (middle.reshape(-1, len(_KNOTS)), radius.reshape(-1, len(_KNOTS)))
        return jnp.where(jnp.any(atom), -jnp.inf, jnp.sum(lax.map(block, blocks)))

    return per_candidate(one, means, variances, work=2**15)


@partial(jax.jit, static_argnames="order")
def mixture_entropy_taylor(weights: Weights, means: Moments, variances: Moments, *, order: int) -> Float[Array, " m"]:
    """Entropy with log p expanded about each component's mean: -Σ w_i [log p(μ_i) + ½ v_i (log p)''(μ_i)].

    The linear term vanishes in expectation, so order 1 is -Σ w_i log p(μ_i); order 2 adds the curvature. Good when components
    overlap; order 2 can be far off when their widths differ much.
    """

    def one(mean: Array, variance: Array) -> Array:
        atom, std = split_atoms(weights, variance)
        slope = (mean - mean[:, None]) / std**2  # of component j at the mean of component i
        log_density = jnp.log(jnp.maximum(weights, TINY)) - jnp.log(std) - 0.5 * (slope**2 * std**2 + LOG_2PI)
        log_p = logsumexp(log_density, axis=1)
        entropy = -weights @ log_p
        if order == 2:
            share = jnp.exp(log_density - log_p[:, None])
            curvature = jnp.sum(share * (slope**2 - 1.0 / std**2), axis=1) - jnp.sum(share * slope, axis=1) ** 2
            entropy = entropy - 0.5 * weights @ (variance * curvature)
        return jnp.where(jnp.any(atom), -jnp.inf, entropy)

    return per_candidate(one, means, variances, work=means.shape[0] ** 2)


def refined_entropy(weights: Any, means: Any, variances: Any, tolerance: float) -> NDArray[np.float64]:
    """Few nodes for all candidates, more for those whose error estimate asks for it, panels for what is left."""
    weights, means, variances = (np.asarray(part, np.float64) for part in (weights, means, variances))
    if means.shape[1] == 0:
        return np.zeros(0)
    entropy, error = _at_all(weights, means, variances)
    for nodes in (288, 1152, 0):
        left = np.flatnonzero(~(error <= tolerance))
        for start in range(0, len(left), GROUP):
            group = left[start : start + GROUP]
            entropy[group], error[group] = _at_some(weights, means[:, group], variances[:, group], nodes)
    return entropy


def _at_all(weights: Any, means: Any, variances: Any, nodes: int = 96) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Pools shrink by a point per query; so for JAX candidates are filled up to 16, 64 or a multiple of 256."""
    if machine.is_there():
        return machine.entropy(weights, means, variances, nodes)
    count = means.shape[1]
    size = next((size for size in (GROUP, 64) if count <= size), 256 * -(-count // 256))
    padded = np.minimum(np.arange(size), count - 1)
    entropy, error = mixture_entropy_with_error(put(weights), means[:, padded], variances[:, padded], num_nodes=nodes)
    return np.array(entropy)[:count], np.array(error)[:count]


def _at_some(weights: Any, means: Any, variances: Any, nodes: int) -> tuple[NDArray[np.float64], Any]:
    """A group of at most `GROUP`, for one compiled shape; by panels with no nodes."""
    if machine.is_there():
        return machine.entropy(weights, means, variances, nodes)
    count, filled = means.shape[1], np.resize(np.arange(means.shape[1]), GROUP)
    parts = put(weights), means[:, filled], variances[:, filled]
    if nodes == 0:
        return np.asarray(_entropy_by_panels(*parts))[:count], 0.0
    entropy, error = mixture_entropy_with_error(*parts, num_nodes=nodes)
    return np.asarray(entropy)[:count], np.asarray(error)[:count]
