"""Dense Gaussian algebra of the deep GP's layers, on NumPy arrays and LAPACK calls without copies.

A correlation takes *squared* distances and a *squared* lengthscale θ. Squared distances are symmetric or (m, n) C-ordered
arrays, so that their transpose is what Fortran wants; a factor is the lower Cholesky triangle with rubbish above it.
"""

from __future__ import annotations

from math import log
from typing import Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dtrsm
from scipy.linalg.lapack import dpotrf, dpotrs, dtrtrs

Array: TypeAlias = NDArray[np.float64]
Kernel: TypeAlias = Literal["rbf", "matern52"]


class Correlation(Protocol):
    """Correlations from squared distances; `out` may be the distances themselves, which are then overwritten."""

    def __call__(self, squared: Array, theta: float, out: Array | None = None) -> Array: ...


# Added to the covariance of a hidden layer and the least nugget of the outer one: the square root of float64's epsilon.
JITTER = 1.5e-8


def rbf(squared: Array, theta: float, out: Array | None = None) -> Array:
    """exp(−r²/θ) from r²."""
    out = np.multiply(squared, -1.0 / theta, out=out)
    return np.exp(out, out=out)


def matern52(squared: Array, theta: float, out: Array | None = None) -> Array:
    """(1 + s + s²/3) e^−s with s = √(5r²/θ), from r²."""
    s = np.multiply(squared, 5.0 / theta, out=out)
    np.maximum(s, 0.0, out=s)  # a squared distance got by subtraction may be −1e-17
    np.sqrt(s, out=s)
    polynomial = s * (1.0 / 3.0)
    polynomial += 1.0
    polynomial *= s
    polynomial += 1.0
    np.negative(s, out=s)
    np.exp(s, out=s)
    s *= polynomial
    return s


CORRELATIONS: dict[str, Correlation] = {"rbf": rbf, "matern52": matern52}


def column_distances(w: Array) -> Array:
    """(w_i − w_j)² of one column w (n,)."""
    out = np.subtract.outer(w, w)
    return np.square(out, out=out)


def self_distances(w: Array) -> Array:
    """Squared distances between the rows of w (n, p); differences, not inner products, so that equal rows are 0 apart."""
    out = column_distances(w[:, 0])
    for j in range(1, w.shape[1]):
        out += column_distances(w[:, j])
    return out


def cross_distances(a: Array, b: Array) -> Array:
    """Squared distances (m, n) between the rows of a (m, p) and b (n, p)."""
    left, right = distance_factors(a, b)
    return left @ right.T


def distance_factors(a: Array, b: Array) -> tuple[Array, Array]:
    """Arrays (m, p + 2) and (n, p + 2) whose product holds the squared distances |a|² − 2aᵀb + |b|².

    Both are centred at b first, which leaves a rounding error of some 1e-16 |b|²: far below the jitter.
    """
    centre = b.mean(axis=0)
    a, b = a - centre, b - centre
    left = np.column_stack([-2.0 * a, np.vecdot(a, a), np.ones(len(a))])
    right = np.column_stack([b, np.ones(len(b)), np.vecdot(b, b)])
    return left, right


def cholesky(correlation: Correlation, squared: Array, theta: float, diagonal: float | Array) -> Array | None:
    """Lower factor of correlation(r², θ) + diag(diagonal), or None where it is not numerically positive definite."""
    k = correlation(squared, theta)
    k.reshape(-1)[:: len(k) + 1] += diagonal
    factor, info = dpotrf(k.T, lower=1, clean=0, overwrite_a=1)
    return factor if info == 0 else None


def solve_lower(factor: Array, b: Array) -> Array:
    """L⁻¹b for a vector b (n,)."""
    return dtrtrs(factor, b, lower=1)[0]


def solve(factor: Array, b: Array) -> Array:
    """(LLᵀ)⁻¹b."""
    return dpotrs(factor, b, lower=1)[0]


def solve_lower_rows(factor: Array, rows: Array) -> Array:
    """L⁻¹ applied to each row of `rows` (m, n), as an (m, n) array; overwrites `rows`."""
    return dtrsm(1.0, factor, rows.T, lower=1, overwrite_b=1).T


def half_log_det(factor: Array) -> float:
    """½ ln|LLᵀ|."""
    return float(np.log(factor.diagonal()).sum())


def log_normal(factor: Array, w: Array) -> float:
    """ln N(w; 0, LLᵀ) without its constant −(n/2) ln 2π."""
    z = solve_lower(factor, w)
    return -0.5 * float(z @ z) - half_log_det(factor)


def log_marginal(factor: Array, y: Array) -> float:
    """ln ∫ N(y; 0, τ²LLᵀ) dτ²/τ² without its constant: −(n/2) ln(yᵀK⁻¹y) − ½ ln|K|."""
    z = solve_lower(factor, y)
    # y = 0 (two equal observations, standardised) has no scale: any positive floor is a constant and cancels.
    return -0.5 * len(y) * log(max(float(z @ z), 1e-300)) - half_log_det(factor)
