"""What a fitted deep GP says about new points: every kept draw is a GP on inputs warped by that draw's hidden layers.

A draw maps x* through its hidden layers by their conditional means (so the warping itself is taken as known, as in the R
package deepgp), and predicts from the outer layer. Nothing is cached: factorising a draw again costs less than keeping it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg.blas import dgemm

from hyperleaf.data import Dataset
from hyperleaf.errors import InferenceError, InputError
from hyperleaf.mixture import Mixture
from hyperleaf.parallel import one_blas_thread
from hyperleaf.surrogates.base import Diagnostics, Joint, Posterior
from hyperleaf.surrogates.deep.gaussian import (
    CORRELATIONS,
    JITTER,
    Array,
    cholesky,
    cross_distances,
    distance_factors,
    self_distances,
    solve,
    solve_lower,
    solve_lower_rows,
)
from hyperleaf.surrogates.deep.sampler import State

if TYPE_CHECKING:
    from hyperleaf.surrogates.deep.surrogate import DeepGP

BLOCK = 2**17  # entries of a block of covariances: 1 MB, which stays in the cache


@dataclass(frozen=True)
class Draws:
    """s kept states, stacked; layers first to last. With τ² integrated out, its estimate τ̂² = yᵀK⁻¹y/n belongs to each draw."""

    hidden: tuple[Array, ...]  # each (s, n, p)
    scales: tuple[Array, ...]  # each (s, p): squared lengthscales of the hidden columns
    theta: Array  # (s,): squared lengthscale of the outer layer
    nugget: Array  # (s,): noise variance over τ²

    def __len__(self) -> int:
        return len(self.theta)


class _Outer(NamedTuple):
    """One draw's GP on warped inputs: training inputs, θ, factor of K + gI, K⁻¹y, τ̂², g."""

    inputs: Array
    theta: float
    factor: Array
    weights: Array
    tau2: float
    nugget: float


@dataclass(frozen=True, eq=False)
class DeepPosterior(Posterior):
    """Draws of a deep GP given data. `last` are the final states of the chains, from which `update` goes on."""

    surrogate: DeepGP
    data: Dataset
    draws: Draws
    last: tuple[State, ...]
    diagnostics: Diagnostics

    @one_blas_thread()
    def predict(self, x: ArrayLike) -> Mixture:
        """The latent f at x (m, d): per draw kᵀK⁻¹y and τ̂²(1 − kᵀK⁻¹k) on warped inputs, noise variance τ̂²g."""
        x = self._points("x", x)
        means, variances = np.empty((2, len(self.draws), len(x)))
        noise = np.empty(len(self.draws))
        for i, (outer, (warped,)) in enumerate(self._each(x)):
            means[i], variances[i], _ = self._moments(outer, warped)
            noise[i] = outer.tau2 * outer.nugget
        return Mixture(weights=self._weights(), means=means, variances=variances, noise=noise)

    def update(self, x: ArrayLike, y: ArrayLike, *, key: Any, noise: ArrayLike | None = None) -> DeepPosterior:
        """The posterior after more observations: the chains go on from where they stopped, for `update_sweeps` sweeps.

        The new rows of the hidden layers start at their conditional means.
        """
        return self.surrogate.sample(self.data.append(x, y, noise), key=key, warm=self.last)

    @one_blas_thread()
    def joint(self, x: ArrayLike, r: ArrayLike) -> Joint:
        """Per-draw moments and cross-covariances τ̂²(k(x, r) − k_xᵀK⁻¹k_r), x and r mapped through that draw's layers."""
        x, r = self._points("x", x), self._points("r", r)
        s, m, k = len(self.draws), len(x), len(r)
        mean_x, var_x = np.empty((2, s, m))
        mean_r, var_r = np.empty((2, s, k))
        cov, noise = np.empty((s, m, k)), np.empty(s)
        correlation = CORRELATIONS[self.surrogate.kernel]
        for i, (outer, (warped_x, warped_r)) in enumerate(self._each(x, r)):
            mean_x[i], var_x[i], half_x = self._moments(outer, warped_x)
            mean_r[i], var_r[i], half_r = self._moments(outer, warped_r)
            cov[i] = outer.tau2 * (correlation(cross_distances(warped_x, warped_r), outer.theta) - half_x @ half_r.T)
            noise[i] = outer.tau2 * outer.nugget
        return Joint(self._weights(), mean_x, var_x, mean_r, var_r, cov, noise)

    @one_blas_thread()
    def alc(self, candidates: ArrayLike, references: ArrayLike) -> Array:
        """Active learning Cohn (m,): the mean over draws and references r of the variance that observing x would take away,

            τ̂² [k(r, x) − k_rᵀK⁻¹k_x]² / (1 + g − k_xᵀK⁻¹k_x),

        with candidates and references both mapped through that draw's layers. Larger is better. Streams over blocks, so that
        no (draws, candidates, references) array is ever held.
        """
        x, r = self._points("candidates", candidates), self._points("references", references)
        correlation = CORRELATIONS[self.surrogate.kernel]
        total, step = np.zeros(len(x)), min(len(x), max(16, BLOCK // len(r)))
        buffer = np.empty((step, len(r)))
        for outer, (warped_x, warped_r) in self._each(x, r):
            half_x, half_r = (self._half(outer, warped)[0] for warped in (warped_x, warped_r))
            remaining = 1.0 + outer.nugget - np.vecdot(half_x, half_x)
            left, right = distance_factors(warped_x, warped_r)
            reduction = np.empty(len(x))
            for start in range(0, len(x), step):
                rows = slice(start, start + step)
                k = np.matmul(left[rows], right.T, out=buffer[: len(left[rows])])
                k = correlation(k, outer.theta, out=k)
                # All in the one buffer: k − AB by Fortran's dgemm, which sees everything transposed.
                k = dgemm(-1.0, half_r.T, half_x[rows].T, beta=1.0, c=k.T, trans_a=1, overwrite_c=1).T
                reduction[rows] = np.vecdot(k, k)
            total += outer.tau2 * reduction / np.maximum(remaining, JITTER)
        return total / (len(self.draws) * len(r))

    @one_blas_thread()
    def warp(self, x: ArrayLike) -> Array:
        """Where each draw's hidden layers put x (m, d): (s, m, p), or x itself where there is no hidden layer."""
        return np.stack([warped for _, (warped,) in self._each(self._points("x", x))])

    def _each(self, *points: Array) -> Iterator[tuple[_Outer, list[Array]]]:
        """Every draw with the given points mapped through its hidden layers."""
        correlation = CORRELATIONS[self.surrogate.kernel]
        self_x, cross_x = self_distances(self.data.x), [cross_distances(p, self.data.x) for p in points]
        for i in range(len(self.draws)):
            inputs, squared, crosses, warped = self.data.x, self_x, cross_x, list(points)
            for hidden, scales in zip(self.draws.hidden, self.draws.scales, strict=True):
                nodes = hidden[i]
                columns: list[list[Array]] = [[] for _ in points]
                for j in range(nodes.shape[1]):
                    weights = solve(self._factor(squared, scales[i, j], JITTER), nodes[:, j])
                    for target, cross in zip(columns, crosses, strict=True):
                        target.append(correlation(cross, scales[i, j]) @ weights)
                inputs, squared, warped = nodes, self_distances(nodes), [np.column_stack(c) for c in columns]
                crosses = [cross_distances(w, nodes) for w in warped] if hidden is not self.draws.hidden[-1] else []
            theta, nugget = float(self.draws.theta[i]), float(self.draws.nugget[i])
            diagonal = np.maximum(nugget * self.surrogate.noise_pattern(self.data), JITTER)
            factor = self._factor(squared, theta, diagonal)
            half = solve_lower(factor, self.data.y)
            yield _Outer(inputs, theta, factor, solve(factor, self.data.y), float(half @ half) / len(half), nugget), warped

    def _factor(self, squared: Array, theta: float, diagonal: float | Array) -> Array:
        factor = cholesky(CORRELATIONS[self.surrogate.kernel], squared, theta, diagonal)
        if factor is None:
            raise InferenceError(
                f"the covariance of a kept draw must be positive definite; with θ = {theta:g} it is not. "
                "The data changed after the fit, or a draw was altered: fit again."
            )
        return factor

    def _half(self, outer: _Outer, warped: Array) -> tuple[Array, Array]:
        """L⁻¹k for each point, (m, n), and the means kᵀK⁻¹y (m,)."""
        k = CORRELATIONS[self.surrogate.kernel](cross_distances(warped, outer.inputs), outer.theta)
        mean = k @ outer.weights
        return solve_lower_rows(outer.factor, k), mean

    def _moments(self, outer: _Outer, warped: Array) -> tuple[Array, Array, Array]:
        half, mean = self._half(outer, warped)
        variance = outer.tau2 * np.maximum(1.0 - np.vecdot(half, half), 0.0)
        return mean, variance, half

    def _weights(self) -> Array:
        return np.full(len(self.draws), 1.0 / len(self.draws))

    def _points(self, name: str, value: ArrayLike) -> Array:
        points = np.asarray(value, dtype=np.float64)
        if points.ndim != 2 or points.shape[1] != self.data.num_dims or len(points) == 0:
            raise InputError(f"{name} must be (m, {self.data.num_dims}) like the data, m ≥ 1; got {points.shape}. Reshape it.")
        if not np.isfinite(points).all():
            bad = np.count_nonzero(~np.isfinite(points))
            raise InputError(f"{name} must be finite; got {bad} values that are not. Drop those rows.")
        return points
