"""The class `Mixture`: holds the arrays, checks them, and gives NumPy float64 to users.

Made from or called with traced arrays, it stays in JAX and checks shapes only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import ArrayLike, NDArray

from hyperleaf.errors import InputError
from hyperleaf.machine import mixtures as machine
from hyperleaf.mixture.densities import (
    LOG_2PI,
    mixture_cdf,
    mixture_crps,
    mixture_log_prob,
    mixture_moments,
    mixture_quantile,
    mixture_sample,
)
from hyperleaf.mixture.entropy import EntropyMethod, mixture_entropy, mixture_entropy_taylor, refined_entropy
from hyperleaf.precision import float64, put


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


def _crps(weights: Any, means: Any, variances: Any, y: Any) -> Any:
    if _traced(weights, means, variances, y) or not machine.is_there():
        return mixture_crps(weights, means, variances, y)
    return machine.crps(weights, means, variances, y)


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
        """s, the number of components."""
        return self.means.shape[0]

    @property
    def num_candidates(self) -> int:
        """m, the number of points."""
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

    def _moments(self) -> tuple[Any, Any]:
        """Mean and variance; plain NumPy outside a trace, where nothing is then compiled for them."""
        if _traced(self):
            return mixture_moments(*self._parts())
        plain: Any = (np.asarray(part) for part in (self.weights, self.means, self.variances))
        return mixture_moments(*plain)

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
                _traced(first, other) or np.allclose(first.weights, other.weights, rtol=1e-12)
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
        return put(self.weights), put(self.means), put(self.variances)

    @float64
    def mean(self) -> NDArray[np.float64]:
        """E y, (m,)."""
        return _out(self._moments()[0])

    @float64
    def var(self) -> NDArray[np.float64]:
        """Var y, (m,): within and between draws."""
        return _out(self._moments()[1])

    @float64
    def std(self) -> NDArray[np.float64]:
        """√Var y, (m,)."""
        variance = self._moments()[1]
        library: Any = jnp if _traced(variance) else np
        return library.sqrt(variance)

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
        library: Any = jnp if _traced(y) else np
        rows = library.broadcast_to(y, shape).reshape(-1, len(self)) if len(self) else np.zeros((int(np.prod(shape[:-1])), 0))
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
        return self._at(_crps, y)

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
        if method == "quadrature" and not _traced(self):
            return refined_entropy(self.weights, self.means, self.variances, tolerance)
        parts = self._parts()
        if method == "quadrature":
            return _out(mixture_entropy(*parts))
        if method == "moments":
            variance = self._moments()[1]
            library: Any = jnp if _traced(variance) else np
            return 0.5 * (1.0 + LOG_2PI + library.log(variance))
        if method in ("taylor1", "taylor2"):
            return _out(mixture_entropy_taylor(*parts, order=int(method[-1])))
        if method == "sampling":
            if key is None or num_samples < 1:
                raise InputError(
                    f"sampling needs a key and num_samples >= 1; got {key} and {num_samples}. Pass jax.random.key(0)."
                )
            return _out(-jnp.mean(mixture_log_prob(*parts, mixture_sample(key, *parts, shape=(num_samples,))), axis=0))
        raise InputError(f"method must be quadrature, moments, taylor1, taylor2 or sampling; got {method!r}. Use quadrature.")
