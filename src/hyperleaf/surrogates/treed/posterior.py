"""Prediction from the draws of the treed GP: a mixture with one component per draw, each exact given its tree and parameters.

In the leaf of x, with k = k(x, X_leaf): mean fᵀβ̃ + kᵀK⁻¹(Z − Fβ̃), latent variance σ²[1 − kᵀK⁻¹k + hᵀVh] with h = f − FᵀK⁻¹k,
noise σ²g. The last term of the variance is the uncertainty of β, which R's tgp leaves out; `trend_uncertainty=False` does too.
Different leaves are independent given the tree.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg.lapack import dtrtrs

from hyperleaf.data import Dataset
from hyperleaf.errors import DataError, InferenceError
from hyperleaf.mixture import Mixture
from hyperleaf.parallel import one_blas_thread
from hyperleaf.surrogates.base import Diagnostics, Joint, Posterior
from hyperleaf.surrogates.treed.leaf import Lengths, correlate, factorise, trend_columns
from hyperleaf.surrogates.treed.sampler import Draw
from hyperleaf.surrogates.treed.tree import Grid, Node, describe, partition

if TYPE_CHECKING:
    from hyperleaf.surrogates.treed import TreedGP

_CACHE_BYTES = 2**27  # factors of the components are kept between predictions up to this size, else made anew each time


@dataclass(frozen=True)
class Partitioned:
    """A tree as its user sees it: the leaves' rectangles (leaves, 2, d), lower and upper corners, and their parameters."""

    rectangles: NDArray[np.float64]
    lengths: NDArray[np.float64]  # (leaves, d)
    nuggets: NDArray[np.float64]
    variances: NDArray[np.float64]  # in units of y²
    text: str
    log_posterior: float

    @property
    def num_leaves(self) -> int:
        return len(self.rectangles)

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class LeafFactor:
    """What prediction needs of one leaf of one draw."""

    x: NDArray[np.float64]
    lengths: Lengths
    noise: float  # g
    variance: float  # σ²
    cholesky: NDArray[np.float64]
    white_trend: NDArray[np.float64]  # L⁻¹F
    white_rest: NDArray[np.float64]  # L⁻¹(Z − Fβ̃)
    beta: NDArray[np.float64]
    small: NDArray[np.float64]  # factor of V⁻¹

    def whiten(self, x: NDArray[np.float64], trend: str) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Fx (m, p), U = L⁻¹k (n, m), and T = S⁻¹h (p, m): the latent covariance is σ²[k(x, x') − UᵀU' + TᵀT']."""
        columns = trend_columns(x, trend)
        white, _ = dtrtrs(self.cholesky, correlate(x, self.x, self.lengths).T, lower=1, overwrite_b=1)
        if not columns.shape[1]:
            return columns, white, np.zeros((0, len(x)))
        tilt, _ = dtrtrs(self.small, columns.T - self.white_trend.T @ white, lower=1)
        return columns, white, tilt


@dataclass(frozen=True)
class TreedPosterior(Posterior):
    """Kept states of the chains; at most `surrogate.max_components` of them, evenly spread, take part in a prediction."""

    data: Dataset
    surrogate: TreedGP
    diagnostics: Diagnostics
    draws: tuple[Draw, ...]
    last: tuple[Draw, ...]  # one per chain: where an update starts from
    grid: Grid = field(repr=False)
    trend: str
    center: float  # the sampler sees z = (y − center)/width
    width: float
    locations: NDArray[np.float64] | None = field(default=None, repr=False)  # where splits may lie besides the observed rows
    _cache: dict[Draw, list[LeafFactor]] = field(default_factory=dict, init=False, repr=False, compare=False)

    # --- the contract

    def predict(self, x: ArrayLike) -> Mixture:
        """The latent f at x (m, d). Noise belongs to a leaf, so it is (s, m); it is (s,) where no component has a split."""
        means, variances, noise = self.moments(x)
        weights = np.full(len(means), 1.0 / len(means))
        return Mixture(weights, means, variances, noise)

    def update(self, x: ArrayLike, y: ArrayLike, *, key: Any, noise: ArrayLike | None = None) -> TreedPosterior:
        """Refit with more observations, the chains starting where they stand and with the shorter `warm_burn_in`."""
        known = noise is not None and self.data.noise is not None  # it plays no part, but a message says so
        data = self.data if known else Dataset(self.data.x, self.data.y)
        return self.surrogate.refit(data.append(x, y, noise if known else None), self, key=key)

    def joint(self, x: ArrayLike, r: ArrayLike) -> Joint:
        """Per-draw moments and covariances of at most `surrogate.max_joint` draws; zero between different leaves."""
        x, r = self._points(x), self._points(r)
        chosen = self.components(self.surrogate.max_joint)
        (mean_x, var_x, noise), (mean_r, var_r, _) = self.moments(x, chosen), self.moments(r, chosen)
        cov = np.zeros((len(chosen), len(x), len(r)))
        for i, factor, at_x, at_r in self._leaves_with(chosen, x, r):
            cov[i][np.ix_(at_x, at_r)] = factor.variance * self._covariance(factor, x[at_x], r[at_r])[0]
        weights = np.full(len(chosen), 1.0 / len(chosen))
        return Joint(weights, mean_x, var_x, mean_r, var_r, self.width**2 * cov, noise)

    # --- beyond it

    def moments(
        self, x: ArrayLike, draws: tuple[Draw, ...] | None = None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Latent means (s, m), latent variances (s, m) and noise variances, (s, m) or without splits (s,), in units of y."""
        x = self._points(x)
        draws = self.components() if draws is None else draws
        means, variances, noise = np.empty((3, len(draws), len(x)))
        for i, factor, inside, _ in self._leaves_with(draws, x):
            columns, white, tilt = factor.whiten(x[inside], self.trend)
            means[i, inside] = columns @ factor.beta + factor.white_rest @ white
            variance = 1.0 - np.einsum("nm,nm->m", white, white)
            if self.surrogate.trend_uncertainty:
                variance += np.einsum("pm,pm->m", tilt, tilt)
            variances[i, inside] = factor.variance * np.maximum(variance, 0.0)
            noise[i, inside] = factor.variance * factor.noise
        scale = self.width**2
        if all(draw.tree is None for draw in draws):
            noise = np.array([draw.variances[0] * draw.nuggets[0] for draw in draws])
        return self.center + self.width * means, scale * variances, scale * noise

    def alc(self, candidates: ArrayLike, references: ArrayLike) -> NDArray[np.float64]:
        """Expected fall of the mean variance over the references when a candidate is observed (m,), averaged over draws.

        Per draw: Σ over references r in x's leaf of cov(r, x)²/(var(x) + noise), divided by the number of all references.
        """
        x, r = self._points(candidates), self._points(references)
        if not len(r):
            raise DataError("alc needs at least one reference point; got none. Pass the points where accuracy matters.")
        draws = self.components()
        total = np.zeros(len(x))
        for _, factor, at_x, at_r in self._leaves_with(draws, x, r):
            covariance, variance = self._covariance(factor, x[at_x], r[at_r])
            total[at_x] += factor.variance * np.einsum("mk,mk->m", covariance, covariance) / (variance + factor.noise)
        return self.width**2 * total / (len(r) * len(draws))

    @property
    def map_draw(self) -> Draw:
        """The kept state of highest posterior density, with β and σ² integrated out."""
        return max(self.draws, key=lambda draw: draw.log_posterior)

    @property
    def map_tree(self) -> Partitioned:
        """The tree of `map_draw`. Densities of trees of different sizes have different units: a summary, not a test."""
        return self.partition_of(self.map_draw)

    def partition_of(self, draw: Draw) -> Partitioned:
        return Partitioned(
            self.grid.rectangles(draw.tree),
            np.array(draw.lengths),
            np.array(draw.nuggets),
            self.width**2 * np.array(draw.variances),
            describe(draw.tree, self.grid.values),
            draw.log_posterior,
        )

    def components(self, most: int | None = None) -> tuple[Draw, ...]:
        """The draws that take part: all, or `most` of them evenly spread over the chains."""
        most = self.surrogate.max_components if most is None else most
        if len(self.draws) <= most:
            return self.draws
        return tuple(self.draws[i] for i in np.linspace(0, len(self.draws) - 1, most).round().astype(int))

    # --- inside

    def _points(self, x: ArrayLike) -> NDArray[np.float64]:
        x = np.asarray(x, dtype=np.float64)
        if x.ndim != 2 or x.shape[1] != self.data.num_dims:
            raise DataError(f"points must have shape (m, {self.data.num_dims}) like the data; got {x.shape}. Reshape them.")
        return x

    def _leaves_with(
        self, draws: tuple[Draw, ...], x: NDArray[np.float64], r: NDArray[np.float64] | None = None
    ) -> Iterator[tuple[int, LeafFactor, NDArray[np.intp], NDArray[np.intp]]]:
        """(number of the draw, leaf, which points of x lie in it, which of r) for each leaf that holds some of all."""
        where: dict[Node, tuple[NDArray[np.intp], NDArray[np.intp]]] = {}
        with one_blas_thread():
            for i, draw in enumerate(draws):
                if draw.tree not in where:
                    in_x = self.grid.leaf_of(draw.tree, x)
                    where[draw.tree] = in_x, (in_x if r is None else self.grid.leaf_of(draw.tree, r))
                in_x, in_r = where[draw.tree]
                for number, factor in enumerate(self._factors(draw)):
                    at_x = np.flatnonzero(in_x == number)
                    at_r = at_x if r is None else np.flatnonzero(in_r == number)
                    if len(at_x) and len(at_r):
                        yield i, factor, at_x, at_r

    def _covariance(
        self, factor: LeafFactor, x: NDArray[np.float64], r: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Latent covariance of x with r and variance of x, both without the factor σ²."""
        _, white_x, tilt_x = factor.whiten(x, self.trend)
        _, white_r, tilt_r = factor.whiten(r, self.trend)
        covariance = correlate(x, r, factor.lengths) - white_x.T @ white_r
        variance = 1.0 - np.einsum("nm,nm->m", white_x, white_x)
        if self.surrogate.trend_uncertainty:
            covariance += tilt_x.T @ tilt_r
            variance += np.einsum("pm,pm->m", tilt_x, tilt_x)
        return covariance, np.maximum(variance, 0.0)

    def _factors(self, draw: Draw) -> list[LeafFactor]:
        if draw in self._cache:
            return self._cache[draw]
        x, z = self.data.x, (self.data.y - self.center) / self.width
        factors = []
        rows_of_leaves = partition(draw.tree, self.grid.ranks, np.arange(len(x)))
        for rows, lengths, nugget, variance in zip(rows_of_leaves, draw.lengths, draw.nuggets, draw.variances, strict=True):
            columns = np.asfortranarray(np.column_stack([trend_columns(x[rows], self.trend), z[rows]]))
            result = factorise(correlate(x[rows], x[rows], lengths), nugget, columns)
            if result is None:
                raise InferenceError(
                    f"a kept leaf must have a positive definite covariance; nugget {nugget:.3g} with lengths {lengths} has none. "
                    "Fit again with another key, or drop repeated rows of x."
                )
            cholesky, white, small = result
            p = columns.shape[1] - 1
            beta = dtrtrs(small[:p, :p], small[p, :p], lower=1, trans=1)[0].ravel() if p else np.zeros(0)
            rest = white[:, p] - white[:, :p] @ beta
            factors.append(LeafFactor(x[rows], lengths, nugget, variance, cholesky, white[:, :p], rest, beta, small[:p, :p]))
        if 8 * len(x) ** 2 * min(len(self.draws), self.surrogate.max_components) <= _CACHE_BYTES:
            self._cache[draw] = factors
        return factors
