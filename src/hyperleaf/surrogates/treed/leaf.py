"""The Gaussian process of one leaf: Z ~ N(Fβ, σ²K) with K = exp(−Σ_k (x_k − x'_k)²/d_k) + g·I, β and σ² integrated out.

`Block` is what a set of rows contributes whatever the parameters are, `Leaf` a block with its parameters (d, g) and its marginal
likelihood, `LeafModel` makes both. Everything here runs once or twice a round and leaf: plain arrays, LAPACK called directly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, lgamma, log, log1p, pi

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf, dtrtrs

Lengths = tuple[float, ...]


START_LENGTH, START_NUGGET = 0.5, 0.1
START_SHAPE, START_SCALE = 5.0, 10.0  # (a, q) of σ² ~ IG(a/2, q/2)
SHAPE_RATE, SCALE_RATE = 0.2, 10.0  # a ~ Exp(0.2), q ~ Exp(10)

_LOG_2PI = log(2.0 * pi)
_SHORT = log(0.5 * 20.0)
_LONG = log(0.5) + 10.0 * log(10.0) - lgamma(10.0)


def log_prior_lengths(lengths: Lengths) -> float:
    """Σ_k log[½ Gamma(d_k; 1, 20) + ½ Gamma(d_k; 10, 10)], shape and rate."""
    total = 0.0
    for d in lengths:
        short, long = _SHORT - 20.0 * d, _LONG + 9.0 * log(d) - 10.0 * d
        total += max(short, long) + log1p(exp(-abs(short - long)))
    return total


def draw_lengths(num_dims: int, rng: np.random.Generator) -> Lengths:
    long = rng.random(num_dims) < 0.5
    draws = np.where(long, rng.gamma(10.0, 0.1, num_dims), rng.gamma(1.0, 0.05, num_dims))
    return tuple(float(d) for d in draws)


def log_prior_nugget(nugget: float) -> float:
    """g ~ Exp(1)."""
    return -nugget


def draw_nugget(rng: np.random.Generator) -> float:
    return float(rng.standard_exponential())


def trend_columns(x: NDArray[np.float64], trend: str) -> NDArray[np.float64]:
    """F: the columns (1, X) for "linear", (1) for "constant", no column for "none"."""
    ones = np.ones((len(x), 1))
    return {"linear": np.hstack([ones, x]), "constant": ones, "none": ones[:, :0]}[trend]


@dataclass(slots=True)
class Block:
    rows: NDArray[np.intp]
    minus_squares: NDArray[np.float64]  # (d, n·n): −(x_k − x'_k)²
    columns: NDArray[np.float64]  # (n, p + 1): F and Z, column-major


@dataclass(slots=True)
class Leaf:
    """log p(Z) = constant + (a/2) ln(q/2) − ((a + dof)/2) ln((q + residual)/2) + ln Γ((a + dof)/2) − ln Γ(a/2)."""

    block: Block
    lengths: Lengths
    nugget: float
    correlation: NDArray[np.float64] | None  # K − g·I
    constant: float  # ½[ln|V| − n ln 2π − ln|K|]
    dof: int  # n − p
    residual: float  # λ = ZᵀK⁻¹Z − β̃ᵀV⁻¹β̃

    def log_marginal(self, a: float, q: float) -> float:
        half = 0.5 * (a + self.dof)
        return self.constant + 0.5 * a * log(0.5 * q) - half * log(0.5 * (q + self.residual)) + lgamma(half) - lgamma(0.5 * a)

    def log_prior(self) -> float:
        return log_prior_lengths(self.lengths) + log_prior_nugget(self.nugget)


@dataclass
class LeafModel:
    """Makes leaves for the rows of x (n, d), z (n,). `likelihood=False` leaves z out: the sampler then draws from the prior."""

    x: NDArray[np.float64]
    z: NDArray[np.float64]
    trend: str
    min_leaf: int
    likelihood: bool = True
    failures: int = 0

    def __post_init__(self) -> None:
        self.f = trend_columns(self.x, self.trend)

    def is_valid(self, rows: NDArray[np.intp]) -> bool:
        """More than `min_leaf` rows, more rows than trend columns, and these of full rank."""
        n, p = len(rows), self.f.shape[1]
        if n <= self.min_leaf or n <= p:
            return False
        return p <= 1 or int(np.linalg.matrix_rank(self.f[rows])) == p

    def block(self, rows: NDArray[np.intp]) -> Block:
        x = self.x[rows].T
        squares = x[:, :, None] - x[:, None, :]
        squares *= squares
        np.negative(squares, out=squares)
        columns = np.empty((len(rows), self.f.shape[1] + 1), order="F")
        columns[:, :-1] = self.f[rows]
        columns[:, -1] = self.z[rows]
        return Block(rows, squares.reshape(len(x), -1), columns)

    def leaf(self, block: Block, lengths: Lengths, nugget: float) -> Leaf | None:
        """None where K is not positive definite to working precision."""
        if not self.likelihood:
            return Leaf(block, lengths, nugget, None, 0.0, 0, 0.0)
        n = len(block.rows)
        correlation = np.dot([1.0 / d for d in lengths], block.minus_squares)
        np.exp(correlation, out=correlation)
        return self._finish(block, lengths, nugget, correlation.reshape(n, n))

    def with_nugget(self, leaf: Leaf, nugget: float) -> Leaf | None:
        if leaf.correlation is None:
            return Leaf(leaf.block, leaf.lengths, nugget, None, 0.0, 0, 0.0)
        return self._finish(leaf.block, leaf.lengths, nugget, leaf.correlation)

    def _finish(self, block: Block, lengths: Lengths, nugget: float, correlation: NDArray[np.float64]) -> Leaf | None:
        factor = factorise(correlation, nugget, block.columns)
        if factor is None:
            self.failures += 1
            return None
        cholesky, _, small = factor
        n, p = len(block.rows), block.columns.shape[1] - 1
        diagonal = np.log(cholesky.diagonal())
        log_det_v = -2.0 * sum(log(small[i, i]) for i in range(p))
        constant = 0.5 * (log_det_v - n * _LOG_2PI) - float(diagonal.sum())
        return Leaf(block, lengths, nugget, correlation, constant, n - p, float(small[p, p]) ** 2)


def factorise(
    correlation: NDArray[np.float64], nugget: float, columns: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]] | None:
    """L with LLᵀ = K, W = L⁻¹(F, Z), and the Cholesky factor S of WᵀW; None where one of them fails.

    S holds what is needed of the trend: its leading p×p part is the factor of V⁻¹, its last row gives β̃ = S_pp⁻ᵀ s, and its
    last diagonal element squared is the Schur complement λ.
    """
    k = correlation.copy()
    k.ravel()[:: len(k) + 1] += nugget
    # the transpose of a symmetric C-ordered matrix is itself in Fortran order: LAPACK works in place
    cholesky, info = dpotrf(k.T, lower=1, clean=0, overwrite_a=1)
    if info:
        return None
    whitened, info = dtrtrs(cholesky, columns, lower=1)
    if info:
        return None
    gram = whitened.T @ whitened
    small, info = dpotrf(gram, lower=1)
    p = len(gram) - 1
    if info == p + 1:  # the trend fits Z exactly, as it does when y is constant: λ = 0 is no failure
        small = np.zeros_like(gram)
        small[:p, :p], info = dpotrf(gram[:p, :p], lower=1) if p else (gram[:0, :0], 0)
        if p and not info:
            small[p, :p] = dtrtrs(small[:p, :p], gram[:p, p], lower=1)[0].ravel()
    return None if info else (cholesky, whitened, small)


def correlate(a: NDArray[np.float64], b: NDArray[np.float64], lengths: Sequence[float]) -> NDArray[np.float64]:
    """exp(−Σ_k (a_k − b_k)²/d_k) between rows of a (m, d) and b (n, d)."""
    total = np.zeros((len(a), len(b)))
    for k, d in enumerate(lengths):
        root = d**-0.5
        difference = np.subtract.outer(a[:, k] * root, b[:, k] * root)
        difference *= difference
        total -= difference
    return np.exp(total, out=total)
