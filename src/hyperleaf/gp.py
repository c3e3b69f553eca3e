"""The exact Gaussian process: its parts (kernel, noise, mean), its likelihood over padded data, and its conditional moments.

A `GP` holds one setting of all parameters Θ; with distributions in its fields it is a prior. The mean is zero, or a constant or
linear trend whose coefficients are integrated out, which makes it one more kernel. `Target` is the log posterior of the flat
vector z that the samplers explore; `condition` factorises the covariance of each draw and `moments` predicts from the factors.
All functions are pure JAX for one draw; `parallel.over_draws` maps them over many.
"""

from __future__ import annotations

from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int

from hyperleaf.data import Dataset
from hyperleaf.errors import InputError
from hyperleaf.kernels import Constant, Kernel, LeafNoise, Linear
from hyperleaf.kernels.base import parameter
from hyperleaf.linalg import RELATIVE_JITTER, append_row, cholesky_with_jitter, gaussian_log_density, padded_size
from hyperleaf.precision import put
from hyperleaf.priors import Chart, Prior

Mean = Literal["zero", "constant", "linear"]
TREND_VARIANCE = 4.0  # of the intercept and of each slope, for outputs of variance one over the unit cube


class GP(eqx.Module):
    """A Gaussian process with observation noise: kernel, noise variance, and a mean that is zero or a trend integrated out."""

    kernel: Kernel
    noise: Any  # (), variance; or `LeafNoise`
    mean: Mean = eqx.field(static=True)
    trend_variance: float = eqx.field(static=True)

    def __init__(self, kernel: Kernel, noise: Any, mean: Mean = "zero", trend_variance: float = TREND_VARIANCE):
        if mean not in ("zero", "constant", "linear"):
            raise InputError(f'mean must be "zero", "constant" or "linear"; got {mean!r}.')
        self.kernel = kernel
        self.noise = noise if isinstance(noise, LeafNoise) else parameter(noise)
        if isinstance(self.noise, LeafNoise):
            self.noise.check(kernel)
        if isinstance(self.noise, np.ndarray) and (self.noise.ndim or not np.isfinite(self.noise) or self.noise < 0):
            raise InputError(f"noise must be a finite variance ≥ 0 or a distribution; got {noise!r}.")
        self.mean, self.trend_variance = mean, float(trend_variance)

    def noise_at(self, x: Float[Array, "n d"]) -> Any:
        """The noise variance of an observation at x: (), or (n,) where every leaf has its own."""
        return jnp.exp(self._log_noise_at(x)) if isinstance(self.noise, LeafNoise) else self.noise

    def typical_noise(self, data: Padded | None) -> Any:
        """One variance that stands for all: where every leaf has its own, the geometric mean over the data."""
        if not isinstance(self.noise, LeafNoise):
            return self.noise
        assert data is not None
        real = data.real
        return jnp.exp(jnp.sum(self._log_noise_at(data.x) * real) / jnp.maximum(jnp.sum(real), 1.0))

    def _log_noise_at(self, x):
        kernel: Any = self.kernel  # a partition, as `LeafNoise.check` found
        return self.noise.log_at(kernel.leaf_weights(x))

    @property
    def covariance(self) -> Kernel:
        """The kernel of f, trend included."""
        kernel = self.kernel
        if self.mean != "zero":
            kernel = kernel + Constant(self.trend_variance)
        if self.mean == "linear":
            kernel = kernel + Linear(self.trend_variance, center=0.5)
        return kernel


class Padded(eqx.Module):
    """A data set in compiled shape: `count` real rows, then rows that are ignored."""

    x: Float[Array, "n d"]
    y: Float[Array, "n"]
    noise: Float[Array, "n"]  # known variance of each observation, zero if it is only learned
    count: Int[Array, ""]

    @property
    def real(self) -> Float[Array, "n"]:
        """1 for the real rows, 0 for the padding."""
        return (jnp.arange(self.y.shape[0]) < self.count).astype(self.y.dtype)


def pad(data: Dataset, size: int | None = None) -> Padded:
    """`data` padded to the next compiled size, or to the one given."""
    n = data.num_observations
    extra = (padded_size(n) if size is None else size) - n
    noise = np.zeros(n) if data.noise is None else data.noise
    return Padded(
        put(np.pad(data.x, ((0, extra), (0, 0)), constant_values=0.5)),
        put(np.pad(data.y, (0, extra))),
        put(np.pad(noise, (0, extra))),
        put(n),
    )


def covariance_of_data(gp: GP, data: Padded) -> tuple[Float[Array, "n n"], Float[Array, ""]]:
    """The lower triangle of blockdiag(K + noise, I), and the mean prior variance, to which jitter is relative."""
    real = data.real
    kernel = gp.covariance
    scale = jnp.sum(kernel.diagonal(data.x) * real) / jnp.maximum(data.count, 1)
    diagonal = real * (gp.noise_at(data.x) + data.noise + RELATIVE_JITTER * scale) + (1.0 - real)
    return kernel.lower_gram(data.x) * (real[:, None] * real[None, :]) + jnp.diag(diagonal), scale


def log_likelihood(gp: GP, data: Padded) -> Float[Array, ""]:
    """The log marginal likelihood ln p(y | x, Θ); −∞ where the covariance has no factor."""
    lower, _ = covariance_of_data(gp, data)
    return gaussian_log_density(lower, data.y, data.count.astype(lower.dtype))


class Target(eqx.Module):
    """The log posterior density of z, up to the evidence: ln p(z) + temperature · ln p(y | x, Θ(z))."""

    prior: Prior
    data: Padded
    temperature: Any = 1.0

    def log_prior(self, z: Float[Array, "p"]) -> Float[Array, ""]:
        return self.prior.log_density(z)

    def log_likelihood(self, z: Float[Array, "p"]) -> Float[Array, ""]:
        return log_likelihood(self.prior.from_vector(z), self.data)

    def __call__(self, z: Float[Array, "p"]) -> Float[Array, ""]:
        value = self.log_prior(z) + self.temperature * self.log_likelihood(z)
        return jnp.where(jnp.isfinite(value), value, -jnp.inf)


def differs(prior: Prior) -> bool:
    """Whether every leaf has its own noise."""
    return isinstance(getattr(prior.tree, "noise", None), LeafNoise)


class NoiseStratum(eqx.Module):
    """Which of two strata z lies in: 1 if its noise variance, the typical one of the data, is below the border, else 0."""

    prior: Prior
    border: Float[Array, ""]
    data: Padded | None = None  # where every leaf has its own noise

    def __call__(self, z: Float[Array, "p"]) -> Int[Array, ""]:
        return jnp.where(jnp.asarray(self.prior.from_vector(z).typical_noise(self.data)) < self.border, 1, 0)


class Tempered(eqx.Module):
    """A density between two data sets: ln p(z) + Σᵢ powerᵢ · ln p(first countᵢ observations | Θ(z)), for i = 0, 1.

    Powers (0, t) temper the whole data set from the prior, (1 − t, t) bridge from the old observations to old and new. A term
    of power zero is skipped, not multiplied, so that the usual case (0, 1) costs one likelihood; and both run through the same
    compiled code. The loop has a length known only at run time, hence `value_and_grad` in place of automatic differentiation.
    The prior may be one in passage too, from that of other units: p(z)^(1 − moved_power) · p(z + moved)^moved_power.
    """

    prior: Prior
    data: Padded
    counts: Int[Array, "2"]
    powers: Float[Array, "2"]
    moved: Float[Array, "p"]
    moved_power: Float[Array, ""]
    border: Float[Array, ""]  # of the noise variance, between two strata

    @property
    def stratum(self) -> NoiseStratum:
        return NoiseStratum(self.prior, self.border, self.data if differs(self.prior) else None)

    @property
    def chart(self) -> Chart:
        return self.prior.chart

    def _log_prior(self, z: Float[Array, "p"]) -> Float[Array, ""]:
        here, there = jax.vmap(self.prior.log_density)(jnp.stack([z, z + self.moved]))
        return here + self.moved_power * (there - here)

    def _term(self, z: Float[Array, "p"], i: Array) -> Float[Array, ""]:
        count = self.counts[i]
        y = jnp.where(jnp.arange(self.data.y.shape[0]) < count, self.data.y, 0.0)
        return self.powers[i] * log_likelihood(self.prior.from_vector(z), Padded(self.data.x, y, self.data.noise, count))

    def _range(self) -> tuple[Array, Array]:
        """Which of the two terms count: from the first of these up to, not including, the second."""
        skip_old = (self.powers[0] == 0.0) | (self.counts[0] == 0)
        return jnp.where(skip_old, 1, 0), jnp.where(self.powers[1] == 0.0, 1, 2)

    def __call__(self, z: Float[Array, "p"]) -> Float[Array, ""]:
        value = lax.fori_loop(*self._range(), lambda i, total: total + self._term(z, i), self._log_prior(z))
        return jnp.where(jnp.isnan(value), -jnp.inf, value)

    def value_and_grad(self, z: Float[Array, "p"]) -> tuple[Float[Array, ""], Float[Array, "p"]]:
        def add(i, total):
            value, gradient = jax.value_and_grad(self._term)(z, i)
            return total[0] + value, total[1] + gradient

        value, gradient = lax.fori_loop(*self._range(), add, jax.value_and_grad(self._log_prior)(z))
        return jnp.where(jnp.isnan(value), -jnp.inf, value), gradient


class Conditioned(eqx.Module):
    """What is kept of one draw after seeing the data: the factor L of its covariance and L⁻¹y."""

    factor: Float[Array, "*s n n"]
    whitened: Float[Array, "*s n"]
    jitter: Float[Array, "*s"]  # added beyond the usual, 0 as a rule; the factor is NaN if nothing helped


def condition(gp: GP, data: Padded) -> Conditioned:
    """Factorise the covariance of the data under one draw."""
    lower, scale = covariance_of_data(gp, data)
    factor, jitter = cholesky_with_jitter(lower, scale)
    return Conditioned(factor, _solve(factor, data.y[:, None])[:, 0], jitter)


def moments(gp: GP, data: Padded, seen: Conditioned, x: Float[Array, "m d"]) -> tuple[Float[Array, "m"], Float[Array, "m"]]:
    """Mean and variance of the latent f at x."""
    v = whitened_cross(gp, data, seen, x)
    variance = gp.covariance.diagonal(x) - jnp.sum(v * v, axis=0)
    return v.T @ seen.whitened, jnp.maximum(variance, 0.0)


def observe(
    gp: GP, data: Padded, seen: Conditioned, x: Float[Array, "d"], y: Float[Array, ""], noise: Float[Array, ""]
) -> tuple[Conditioned, Float[Array, ""]]:
    """Grow the factor of one draw by the observation that becomes row `data.count`, and its log predictive density; O(n²)."""
    kernel = gp.covariance
    cross = kernel.gram(data.x, x[None])[:, 0] * data.real
    scale = jnp.sum(kernel.diagonal(data.x) * data.real) / jnp.maximum(data.count, 1)
    own = jnp.reshape(jnp.asarray(gp.noise_at(x[None])), ())
    diagonal = kernel.diagonal(x[None])[0] + own + noise + RELATIVE_JITTER * scale
    factor, row, variance = append_row(seen.factor, data.count, cross, diagonal)
    residual = (y - row @ seen.whitened) / jnp.sqrt(variance)
    density = -0.5 * residual**2 - 0.5 * jnp.log(2 * jnp.pi * variance)
    return Conditioned(factor, seen.whitened.at[data.count].set(residual), seen.jitter), density


def whitened_cross(gp: GP, data: Padded, seen: Conditioned, x: Float[Array, "m d"]) -> Float[Array, "n m"]:
    """L⁻¹ k(X, x); the posterior covariance of f is k(x, r) minus the product of two of these."""
    return _solve(seen.factor, gp.covariance.gram(data.x, x) * data.real[:, None])


def _solve(factor, right):
    return lax.linalg.triangular_solve(factor, right, left_side=True, lower=True)
