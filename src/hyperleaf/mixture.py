"""The predictive distribution of every surrogate: at each candidate a mixture of Gaussians, one component per posterior draw.

p(y | x_j) = Σ_i w_i N(y; μ_ij, v_ij) for j = 1…m. The functions `mixture_*` are pure JAX, for use under `jit`, `vmap` and `grad`;
they work through the candidates in batches, so that memory stays bounded. `Mixture` holds the arrays, checks them, and gives
NumPy float64 to users; made from or called with traced arrays, it stays in JAX and checks shapes only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.special import erf, erfc, logsumexp, ndtri
from jaxtyping import Array, Float
from numpy.typing import ArrayLike, NDArray

from hyperleaf.errors import InputError
from hyperleaf.precision import float64

EntropyMethod = Literal["quadrature", "moments", "taylor1", "taylor2", "sampling"]
Weights = Float[Array, " s"]
Moments = Float[Array, "s m"]

_LOG_2PI = float(np.log(2.0 * np.pi))
_TINY = 1e-300
_REACH = 9.0  # standard deviations beyond the outermost components; 1e-17 of the entropy lies outside
_KNOTS = np.array([-9.0, -6.5, -4.5, -3.0, -1.5, 0.0, 1.5, 3.0, 4.5, 6.5, 9.0])
_GAUSS_LEGENDRE = np.polynomial.legendre.leggauss(10)


# --- pure functions ---------------------------------------------------------------------------------------------------------


def _per_candidate(function: Callable[..., Any], *arrays: Array, work: int) -> Any:
    """Map over the last axis of `arrays`; `work` is the number of elements one candidate needs, and sets the batch size."""
    batch = int(np.clip(2**15 // max(work, 1), 1, 64))  # what fits the cache; larger batches run up to ten times slower
    columns = tuple(jnp.moveaxis(a, -1, 0) for a in arrays)
    return lax.map(jax.checkpoint(lambda column: function(*column)), columns, batch_size=batch)


def _split_atoms(weights: Array, variances: Array) -> tuple[Array, Array]:
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
        _, std = _split_atoms(weights, variance)
        z = (y[:, None] - mean) / std
        log_density = jnp.where(variance > 0, -0.5 * (z * z + _LOG_2PI) - jnp.log(std), jnp.where(z == 0, jnp.inf, -jnp.inf))
        log_weight = jnp.log(jnp.where(weights > 0, weights, 1.0))
        return logsumexp(jnp.where(weights > 0, log_weight + log_density, -jnp.inf), axis=1)

    return _per_candidate(one, means, variances, y, work=means.shape[0] * y.shape[0]).T


def _cdf_one(weights: Array, mean: Array, variance: Array, y: Array) -> Array:
    _, std = _split_atoms(weights, variance)
    z = y[:, None] - mean
    return jnp.where(variance > 0, 0.5 * erfc(z * (-np.sqrt(0.5) / std)), z >= 0) @ weights


@jax.jit
def mixture_cdf(weights: Weights, means: Moments, variances: Moments, y: Float[Array, "k m"]) -> Float[Array, "k m"]:
    """P(Y ≤ y); a point mass is a step."""
    work = means.shape[0] * y.shape[0]
    return _per_candidate(partial(_cdf_one, weights), means, variances, y, work=work).T


@jax.jit
def mixture_quantile(weights: Weights, means: Moments, variances: Moments, q: Float[Array, " k"]) -> Float[Array, "k m"]:
    """inf {y : P(Y ≤ y) ≥ q}, by Newton steps kept inside a shrinking bracket; differentiable in all but the level.

    The q-quantile of a mixture lies between the smallest and the largest q-quantile of its components: that is the bracket.
    Every third step bisects, so a density that is flat, steep or zero between far components cannot stall the search.
    """

    def density(mean: Array, variance: Array, y: Array) -> Array:
        _, std = _split_atoms(weights, variance)
        z = (y[:, None] - mean) / std
        return jnp.where(variance > 0, jnp.exp(-0.5 * (z * z + _LOG_2PI)) / std, 0.0) @ weights

    def one(mean: Array, variance: Array) -> Array:
        parameters = lax.stop_gradient((mean, variance))
        frozen_mean, frozen_variance = parameters
        _, std = _split_atoms(weights, frozen_variance)
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

    return _per_candidate(one, means, variances, work=means.shape[0] * q.shape[0]).T


@jax.jit
def mixture_crps(weights: Weights, means: Moments, variances: Moments, y: Float[Array, "k m"]) -> Float[Array, "k m"]:
    """Continuous ranked probability score E|Y - y| - ½ E|Y - Y'|, smaller is better, in the units of y.

    With A(μ, v) = E|N(μ, v)| = 2√v φ(μ/√v) + μ(2Φ(μ/√v) - 1) it is Σ w_i A(y - μ_i, v_i) - ½ Σ w_i w_j A(μ_i - μ_j, v_i + v_j).
    """

    def absolute(mean: Array, variance: Array) -> Array:
        std = jnp.sqrt(jnp.where(variance > 0, variance, 1.0))
        z = mean / std
        smooth = std * 2.0 * jnp.exp(-0.5 * (z * z + _LOG_2PI)) + mean * erf(z * np.sqrt(0.5))
        return jnp.where(variance > 0, smooth, jnp.abs(mean))

    def one(mean: Array, variance: Array, y: Array) -> Array:
        spread = weights @ absolute(mean[:, None] - mean, variance[:, None] + variance) @ weights
        return absolute(y[:, None] - mean, jnp.broadcast_to(variance, (y.shape[0], *variance.shape))) @ weights - 0.5 * spread

    return _per_candidate(one, means, variances, y, work=means.shape[0] * (means.shape[0] + y.shape[0])).T


def _negative_p_log_p(p: Array) -> Array:
    return -p * jnp.log(jnp.maximum(p, _TINY))


def _density_at(weights: Array, mean: Array, std: Array, y: Array) -> Array:
    """p at nodes y (k,), components summed over the leading axis: the layout in which XLA vectorises the exponentials."""
    t = (y - mean[:, None]) * (np.sqrt(0.5) / std)[:, None]
    return jnp.sum((weights / std)[:, None] * jnp.exp(-t * t), axis=0) * np.exp(-0.5 * _LOG_2PI)


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
        atom, std = _split_atoms(weights, variance)
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
        focus = jax.nn.softmax(2.0 * (jnp.log(jnp.maximum(weights, _TINY)) - jnp.log(std)))
        centre = focus @ mean
        width = jnp.sqrt(focus @ ((mean - centre) ** 2 + std**2))
        low = jnp.min(jnp.where(weights > 0, mean - _REACH * std, jnp.inf))
        high = jnp.max(jnp.where(weights > 0, mean + _REACH * std, -jnp.inf))
        first, last = jnp.arcsinh((low - centre) / width), jnp.arcsinh((high - centre) / width)
        step = (last - first) / count
        u = first + step * jnp.arange(count)
        return centre + width * jnp.sinh(u), step * width * jnp.cosh(u)

    return _per_candidate(one, means, variances, work=means.shape[0] * num_nodes)


def mixture_entropy(weights: Weights, means: Moments, variances: Moments, *, num_nodes: int = 120) -> Float[Array, " m"]:
    """Entropy by the rule of `mixture_entropy_with_error`, for differentiation; `Mixture.entropy` also refines where needed."""
    return mixture_entropy_with_error(weights, means, variances, num_nodes=num_nodes)[0]


@jax.jit
def _entropy_by_panels(weights: Weights, means: Moments, variances: Moments) -> Float[Array, " m"]:
    """Entropy by Gauss-Legendre panels between all points μ_i + k√v_i: costs s² per candidate, resolves any set of widths."""
    abscissae, areas = _GAUSS_LEGENDRE

    def one(mean: Array, variance: Array) -> Array:
        atom, std = _split_atoms(weights, variance)
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

    return _per_candidate(one, means, variances, work=2**15)


@partial(jax.jit, static_argnames="order")
def mixture_entropy_taylor(weights: Weights, means: Moments, variances: Moments, *, order: int) -> Float[Array, " m"]:
    """Entropy with log p expanded about each component's mean: -Σ w_i [log p(μ_i) + ½ v_i (log p)''(μ_i)].

    The linear term vanishes in expectation, so order 1 is -Σ w_i log p(μ_i); order 2 adds the curvature. Good when components
    overlap; order 2 can be far off when their widths differ much.
    """

    def one(mean: Array, variance: Array) -> Array:
        atom, std = _split_atoms(weights, variance)
        slope = (mean - mean[:, None]) / std**2  # of component j at the mean of component i
        log_density = jnp.log(jnp.maximum(weights, _TINY)) - jnp.log(std) - 0.5 * (slope**2 * std**2 + _LOG_2PI)
        log_p = logsumexp(log_density, axis=1)
        entropy = -weights @ log_p
        if order == 2:
            share = jnp.exp(log_density - log_p[:, None])
            curvature = jnp.sum(share * (slope**2 - 1.0 / std**2), axis=1) - jnp.sum(share * slope, axis=1) ** 2
            entropy = entropy - 0.5 * weights @ (variance * curvature)
        return jnp.where(jnp.any(atom), -jnp.inf, entropy)

    return _per_candidate(one, means, variances, work=means.shape[0] ** 2)


@partial(jax.jit, static_argnames="shape")
def mixture_sample(key: Any, weights: Weights, means: Moments, variances: Moments, *, shape: tuple[int, ...]) -> Array:
    """Draws (*shape, m), independent of each other and across candidates."""
    choose, noise = jax.random.split(key)
    size = (*shape, means.shape[1])
    heights = jnp.cumsum(weights)
    index = jnp.searchsorted(heights, jax.random.uniform(choose, size) * heights[-1], side="right")
    column = jnp.arange(means.shape[1])
    return means[index, column] + jnp.sqrt(variances[index, column]) * jax.random.normal(noise, size)


# --- the class --------------------------------------------------------------------------------------------------------------


def _traced(*values: Any) -> bool:
    return any(isinstance(value, jax.core.Tracer) for value in jax.tree.leaves(values))


def _out(value: Any) -> Any:
    """NumPy for users, JAX inside a trace."""
    return value if _traced(value) else np.asarray(value)


def _array(name: str, value: Any) -> Any:
    """A float64 NumPy array without NaN or infinities; a traced value is passed on unseen."""
    if _traced(value):
        return jnp.asarray(value)
    try:
        array = np.array(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must be an array of numbers; got {type(value).__name__}. Pass a float array.") from error
    if not np.all(np.isfinite(array)):
        where = np.argwhere(~np.isfinite(np.atleast_1d(array)))[0].tolist()
        raise InputError(f"{name} must be finite; entry {where} is not. Drop failed draws or candidates first.")
    return array


def _non_negative(name: str, array: Any) -> None:
    if not _traced(array) and np.any(array < 0):
        raise InputError(f"{name} must be >= 0; the smallest is {array.min():.6g}. Clip rounding errors to 0 before.")


class Mixture(eqx.Module):
    """A Gaussian mixture at each of m candidates: component i has weight w_i, mean μ_ij, variance v_ij.

    As a surrogate predicts it, a mixture is *latent*: it describes f, and all methods leave `noise` aside, the variance of the
    observation noise of each draw (s,), or of each draw at each candidate (s, m) where it depends on x. `noisy()` is the mixture
    of an observation y = f + ε, to be scored against data.
    Candidates are independent of each other here: only the marginals are known. Weights are normalised on construction. A
    variance of zero is a point mass: the entropy is -inf, `log_prob` is +inf on it; cdf, quantile and crps are exact.
    """

    weights: Float[Array | np.ndarray, " s"]
    means: Float[Array | np.ndarray, "s m"]
    variances: Float[Array | np.ndarray, "s m"]
    noise: Float[Array | np.ndarray, " s"] | Float[Array | np.ndarray, "s m"]

    def __init__(self, weights: Any, means: Any, variances: Any, noise: Any = None) -> None:
        weights, means, variances = _array("weights", weights), _array("means", means), _array("variances", variances)
        noise = np.zeros(weights.shape) if noise is None else _array("noise", noise)
        if means.ndim != 2 or 0 in means.shape[:1] or variances.shape != means.shape:
            raise InputError(
                "means and variances must both be (draws, candidates) with at least one draw; "
                f"got {means.shape} and {variances.shape}. For one Gaussian per candidate use [None, :]."
            )
        if weights.shape != means.shape[:1]:
            raise InputError(
                f"weights must have one entry per draw, ({means.shape[0]},); got {weights.shape}. "
                "Use np.full(s, 1 / s) for equal weights."
            )
        if noise.shape not in (means.shape[:1], means.shape):
            raise InputError(f"noise must have one entry per draw or the shape of means, {means.shape}; got {noise.shape}.")
        for name, array in (("weights", weights), ("variances", variances), ("noise", noise)):
            _non_negative(name, array)
        total = weights.sum()
        if not _traced(total) and not total > 0:
            raise InputError(f"weights must have a positive sum; got {total:.6g}. Use np.full(s, 1 / s) for equal weights.")
        self.weights, self.means, self.variances, self.noise = weights / total, means, variances, noise

    # --- parts and wholes

    @property
    def num_draws(self) -> int:
        return self.means.shape[0]

    @property
    def num_candidates(self) -> int:
        return self.means.shape[1]

    def __len__(self) -> int:
        return self.num_candidates

    def __iter__(self) -> Iterator[Mixture]:
        return (self[j] for j in range(len(self)))

    def __getitem__(self, index: Any) -> Mixture:
        """The candidates that NumPy indexing of arange(m) would pick; a single integer gives a mixture with m = 1."""
        return self.take(np.atleast_1d(np.arange(len(self))[index]))

    @float64
    def take(self, indices: Any) -> Mixture:
        """The candidates with these integer indices, in this order."""
        if not _traced(indices):
            indices = np.atleast_1d(np.asarray(indices))
            if indices.size == 0:
                indices = indices.astype(int)
            if indices.ndim != 1 or not np.issubdtype(indices.dtype, np.integer):
                raise InputError(f"indices must be a list of integers; got {indices.dtype} {indices.shape}. Index [] with masks.")
            if np.any((indices < -len(self)) | (indices >= len(self))):
                raise InputError(f"indices must lie in [0, {len(self)}); got {indices.min()}…{indices.max()}. Check the pool.")
        library: Any = jnp if _traced(indices, self) else np
        means, variances = (library.asarray(a)[:, indices] for a in (self.means, self.variances))
        noise = self.noise if self.noise.ndim == 1 else library.asarray(self.noise)[:, indices]
        return Mixture(self.weights, means, variances, noise)

    def noise_at_candidates(self) -> Any:
        """The noise variance of each draw at each candidate (s, m), also where it is the same at all of them."""
        noise = self.noise[:, None] if self.noise.ndim == 1 else self.noise
        return (jnp if _traced(self) else np).broadcast_to(noise, self.means.shape)

    @staticmethod
    @float64
    def concatenate(mixtures: Sequence[Mixture]) -> Mixture:
        """The candidates of several mixtures over the same draws, one after the other."""
        mixtures = list(mixtures)
        if not mixtures:
            raise InputError("concatenate needs at least one mixture; got none. Pass a non-empty list.")
        first = mixtures[0]
        for number, other in enumerate(mixtures[1:], start=1):
            if other.num_draws != first.num_draws or not (
                _traced(first, other)
                or np.allclose(first.weights, other.weights, rtol=1e-12)
            ):
                raise InputError(
                    f"concatenate joins candidates of the same draws; mixture {number} has other draws or weights. "
                    "To average over models, use combine."
                )
        library: Any = jnp if _traced(mixtures) else np
        means, variances, noises = zip(*((o.means, o.variances, o.noise_at_candidates()) for o in mixtures), strict=True)
        same = all(o.noise.ndim == 1 and (_traced(o, first) or np.array_equal(o.noise, first.noise)) for o in mixtures)
        noise = first.noise if same else library.concatenate(noises, axis=1)
        return Mixture(first.weights, library.concatenate(means, axis=1), library.concatenate(variances, axis=1), noise)

    @staticmethod
    @float64
    def combine(mixtures: Sequence[Mixture], weights: Any) -> Mixture:
        """Bayesian model averaging: Σ_k π_k p_k(y) at the same candidates, the draws of all models stacked."""
        mixtures, weights = list(mixtures), _array("weights", weights)
        if not mixtures or weights.shape != (len(mixtures),):
            raise InputError(f"combine needs one weight per mixture; got {len(mixtures)} mixtures and weights {weights.shape}.")
        if len({len(mixture) for mixture in mixtures}) > 1:
            raise InputError(f"combine needs the same candidates in each mixture; got {[len(o) for o in mixtures]} of them.")
        _non_negative("weights", weights)
        library: Any = jnp if _traced(mixtures, weights) else np
        stacked = library.concatenate([weight * mixture.weights for weight, mixture in zip(weights, mixtures, strict=True)])
        flat = all(o.noise.ndim == 1 for o in mixtures)
        parts = ((o.means, o.variances, o.noise if flat else o.noise_at_candidates()) for o in mixtures)
        rest = (library.concatenate(a) for a in zip(*parts, strict=True))
        return Mixture(stacked, *rest)

    @float64
    def noisy(self) -> Mixture:
        """The mixture of an observation: each draw's noise variance added to its variances, nothing left in `noise`."""
        return Mixture(self.weights, self.means, self.variances + self.noise_at_candidates())

    @float64
    def affine(self, loc: Any, scale: Any) -> Mixture:
        """The mixture of loc + scale·y, such as y in native units when this one is standardised."""
        loc, scale = _array("loc", loc), _array("scale", scale)
        if loc.shape or scale.shape or (not _traced(scale) and scale == 0):
            raise InputError(
                f"loc and scale must be numbers, scale not 0; got {loc} and {scale}. A constant y has no scale: use 1."
            )
        return Mixture(self.weights, loc + scale * self.means, scale**2 * self.variances, scale**2 * self.noise)

    # --- summaries

    def _parts(self) -> tuple[Array, Array, Array]:
        return jnp.asarray(self.weights), jnp.asarray(self.means), jnp.asarray(self.variances)

    @float64
    def mean(self) -> NDArray[np.float64]:
        """E y, (m,)."""
        return _out(mixture_moments(*self._parts())[0])

    @float64
    def var(self) -> NDArray[np.float64]:
        """Var y, (m,): within and between draws."""
        return _out(mixture_moments(*self._parts())[1])

    @float64
    def std(self) -> NDArray[np.float64]:
        """√Var y, (m,)."""
        return _out(jnp.sqrt(mixture_moments(*self._parts())[1]))

    @float64
    def quantile(self, q: ArrayLike) -> NDArray[np.float64]:
        """The q-quantiles, (*q.shape, m); 0 and 1 give the ends of the support."""
        levels = _array("q", q)
        if not _traced(levels) and np.any((levels < 0) | (levels > 1)):
            raise InputError(f"q must lie in [0, 1]; got {levels.min():.6g}…{levels.max():.6g}. Divide percentages by 100.")
        return _out(mixture_quantile(*self._parts(), jnp.ravel(levels)).reshape(*levels.shape, len(self)))

    def interval(self, probability: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Ends (low, high), each (m,), of the interval that leaves (1 - probability)/2 on either side."""
        if not 0 <= probability <= 1:
            raise InputError(f"probability must lie in [0, 1]; got {probability}. Divide percentages by 100.")
        low, high = self.quantile(np.array([0.5 - 0.5 * probability, 0.5 + 0.5 * probability]))
        return low, high

    def _at(self, function: Callable[..., Array], y: Any, name: str = "y") -> Any:
        y = _array(name, y)
        try:
            shape = np.broadcast_shapes(y.shape, (len(self),))
        except ValueError:
            shape = ()
        if shape[-1:] != (len(self),):
            raise InputError(f"{name} must have one entry per candidate in its last axis, ({len(self)},); got {y.shape}.")
        rows = jnp.broadcast_to(y, shape).reshape(-1, len(self)) if len(self) else jnp.zeros((int(np.prod(shape[:-1])), 0))
        return _out(function(*self._parts(), rows).reshape(shape))

    @float64
    def cdf(self, y: ArrayLike) -> NDArray[np.float64]:
        """P(Y ≤ y) at y (…, m) or a number."""
        return self._at(mixture_cdf, y)

    @float64
    def probability(self, low: ArrayLike, high: ArrayLike) -> NDArray[np.float64]:
        """P(low < Y ≤ high) at bounds (…, m) or numbers; 0 where high < low."""
        difference = self._at(mixture_cdf, high, "high") - self._at(mixture_cdf, low, "low")
        return _out(jnp.maximum(difference, 0.0))

    @float64
    def log_prob(self, y: ArrayLike) -> NDArray[np.float64]:
        """log p(y) at y (…, m) or a number; the larger, the better the prediction."""
        return self._at(mixture_log_prob, y)

    @float64
    def crps(self, y: ArrayLike) -> NDArray[np.float64]:
        """Continuous ranked probability score at y (…, m) or a number, in units of y; the smaller, the better."""
        return self._at(mixture_crps, y)

    @float64
    def sample(self, key: Any, shape: int | tuple[int, ...] = ()) -> NDArray[np.float64]:
        """Draws (*shape, m), independent of each other and across candidates."""
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        return _out(mixture_sample(key, *self._parts(), shape=shape))

    @float64
    def entropy(
        self, method: EntropyMethod = "quadrature", *, tolerance: float = 1e-6, key: Any = None, num_samples: int = 1024
    ) -> NDArray[np.float64]:
        """Differential entropy -∫ p log p dy in nats, (m,).

        "quadrature" is exact to about `tolerance`; "moments" takes the Gaussian of equal mean and variance, an upper bound;
        "taylor1" and "taylor2" expand log p about each component's mean; "sampling" averages -log p over `num_samples` draws
        made with `key`. Within a trace the quadrature cannot refine itself: see `mixture_entropy_with_error` for its error.
        """
        parts = self._parts()
        if method == "quadrature":
            return _out(mixture_entropy(*parts)) if _traced(parts) else _refined_entropy(*parts, tolerance)
        if method == "moments":
            return _out(0.5 * (1.0 + _LOG_2PI + jnp.log(mixture_moments(*parts)[1])))
        if method in ("taylor1", "taylor2"):
            return _out(mixture_entropy_taylor(*parts, order=int(method[-1])))
        if method == "sampling":
            if key is None or num_samples < 1:
                raise InputError(
                    f"sampling needs a key and num_samples >= 1; got {key} and {num_samples}. Pass jax.random.key(0)."
                )
            return _out(-jnp.mean(mixture_log_prob(*parts, mixture_sample(key, *parts, shape=(num_samples,))), axis=0))
        raise InputError(f"method must be quadrature, moments, taylor1, taylor2 or sampling; got {method!r}. Use quadrature.")


def _refined_entropy(weights: Array, means: Array, variances: Array, tolerance: float) -> NDArray[np.float64]:
    """Few nodes for all candidates, more for those whose error estimate asks for it, panels for what is left.

    Pools shrink by a point per query; so candidates are filled up to 16, 64 or a multiple of 256, and refined in groups of 16,
    and no new shape is compiled for each count.
    """
    count = means.shape[1]
    if count == 0:
        return np.zeros(0)
    size = next((size for size in (16, 64) if count <= size), 256 * -(-count // 256))
    padded = np.minimum(np.arange(size), count - 1)
    columns, spreads = np.asarray(means)[:, padded], np.asarray(variances)[:, padded]
    entropy, error = (np.array(a)[:count] for a in mixture_entropy_with_error(weights, columns, spreads, num_nodes=96))
    rules: list[Callable[..., Any]] = [
        partial(mixture_entropy_with_error, num_nodes=288),
        partial(mixture_entropy_with_error, num_nodes=1152),
        lambda *parts: (_entropy_by_panels(*parts), 0.0),
    ]
    for rule in rules:
        left = np.flatnonzero(~(error <= tolerance))
        for start in range(0, len(left), 16):
            group = np.resize(left[start : start + 16], 16)
            entropy[group], error[group] = rule(weights, columns[:, group], spreads[:, group])
    return entropy
