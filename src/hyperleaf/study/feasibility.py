"""Where runs fail: the probability that one succeeds, learned from those that did and those that did not.

A Gaussian-process classifier over the unit cube: a latent f with an RBF kernel, P(success | f) = Φ(f). The posterior of f is
approximated by expectation propagation (Minka 2001; Rasmussen and Williams 2006, section 3.6), for each length scale and
amplitude of a grid; the grid is weighed by the evidence, so that what the few failures do not tell stays open. What comes out is
a mixture over the grid, as of any surrogate, and success is the limit f + ε ≥ 0: failures and limits on outputs speak one
language. Before anything failed the probability is one everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve, solve_triangular
from scipy.spatial import cKDTree
from scipy.special import log_ndtr

from hyperleaf.acquisition import Limit
from hyperleaf.mixture import Mixture

Rows = NDArray[np.float64]
LENGTHS = (0.1, 0.2, 0.4, 0.8)  # length scales, times √d
AMPLITUDES = (2.0, 6.0, 20.0)  # standard deviations of f; runs as a rule repeat, so that a label says much about its place
MOST = 400  # runs that are learned from: every sweep takes their number cubed
SWEEPS, DAMPING, TOLERANCE = 100, 0.8, 1e-6
SUCCESS = Limit(low=0.0)


class Sites(NamedTuple):
    """Gaussian factors in place of the likelihood's, precision τ and shift ν each, and ln p(labels) as they give it."""

    tau: Rows
    nu: Rows
    log_evidence: float


@dataclass(frozen=True, eq=False)
class Feasibility:
    """The learned classifier. Called with rows of the unit cube (m, d) it gives the probability (m,) that a run succeeds."""

    x: Rows
    lengths: Rows  # (s,)
    amplitudes: Rows  # (s,)
    weights: Rows  # (s,)
    sites: tuple[Sites, ...]

    def __call__(self, rows: Rows) -> Rows:
        return SUCCESS.holds(self.latent(rows).noisy())

    def latent(self, rows: Rows) -> Mixture:
        """f at rows (m, d), one draw for each point of the grid; its noise of variance 1 makes Φ of it."""
        rows = np.asarray(rows, dtype=np.float64)
        moments = [
            predicted(sites, rbf(self.x, self.x, length, size), rbf(rows, self.x, length, size), size**2)
            for sites, length, size in zip(self.sites, self.lengths, self.amplitudes, strict=True)
        ]
        means, variances = (np.stack(parts) for parts in zip(*moments, strict=True))
        return Mixture(self.weights, means, variances, np.ones(len(self.weights)))


@dataclass(frozen=True)
class OnlyFailures:
    """Nothing succeeded yet, so that no place is better than another: the rule of succession."""

    num: int

    def __call__(self, rows: Rows) -> Rows:
        return np.full(len(rows), 1.0 / (self.num + 2.0))


def learn_feasibility(succeeded: Rows, failed: Rows) -> Feasibility | OnlyFailures | None:
    """From the unit-cube rows of runs that succeeded and of those that failed; None if none failed."""
    if not len(failed):
        return None
    if not len(succeeded):
        return OnlyFailures(len(failed))
    near = cKDTree(failed).query(succeeded)[0].argsort(kind="stable")[: max(MOST - len(failed), MOST // 2)]
    x = np.concatenate([succeeded[np.sort(near)], failed[-MOST:]])
    labels = np.concatenate([np.ones(len(near)), -np.ones(len(failed[-MOST:]))])
    grid = [(length * np.sqrt(x.shape[1]), size) for length in LENGTHS for size in AMPLITUDES]
    sites = tuple(propagate(rbf(x, x, length, size), labels) for length, size in grid)
    log_weights = np.array([one.log_evidence for one in sites])
    weights = np.exp(log_weights - log_weights.max())
    lengths, sizes = np.array(grid).T
    return Feasibility(x, lengths, sizes, weights / weights.sum(), sites)


def rbf(a: Rows, b: Rows, length: float, size: float) -> Rows:
    squares = np.sum(a**2, axis=1)[:, None] + np.sum(b**2, axis=1) - 2.0 * a @ b.T
    return size**2 * np.exp(-0.5 * np.maximum(squares, 0.0) / length**2)


def propagate(kernel: Rows, labels: Rows) -> Sites:
    """Expectation propagation for labels ±1 under f ~ N(0, kernel), all sites at once and damped.

    Each site is set so that, with all others as they are, the moments of f_i are those of the exact factor Φ(label · f_i).
    """
    n = len(labels)
    kernel = kernel + 1e-8 * float(np.mean(np.diag(kernel))) * np.eye(n)
    tau, nu = np.zeros(n), np.zeros(n)
    mean, cov, log_det = _posterior(kernel, tau, nu)
    for _ in range(SWEEPS):
        cavity_tau, cavity_nu = _cavities(cov, mean, tau, nu)
        z, ratio = _tilt(labels, cavity_tau, cavity_nu)
        var = 1.0 / cavity_tau
        tilted_mean = cavity_nu * var + labels * var * ratio / np.sqrt(1.0 + var)
        tilted_var = var - var**2 * ratio * (z + ratio) / (1.0 + var)
        new_tau = np.maximum(1.0 / tilted_var - cavity_tau, 1e-12)
        change = new_tau - tau
        nu = nu + DAMPING * (tilted_mean / tilted_var - cavity_nu - nu)
        tau = tau + DAMPING * change
        mean, cov, log_det = _posterior(kernel, tau, nu)
        if np.max(np.abs(change) / (1.0 + tau)) < TOLERANCE:
            break
    cavity_tau, cavity_nu = _cavities(cov, mean, tau, nu)
    z, _ = _tilt(labels, cavity_tau, cavity_nu)
    cavity_mean, total = cavity_nu / cavity_tau, cavity_tau + tau
    log_evidence = np.sum(log_ndtr(z)) + 0.5 * np.sum(np.log1p(tau / cavity_tau)) - 0.5 * log_det
    log_evidence += 0.5 * (nu @ cov @ nu - nu @ (nu / total))
    log_evidence += 0.5 * np.sum(cavity_mean * cavity_tau / total * (tau * cavity_mean - 2.0 * nu))
    return Sites(tau, nu, float(log_evidence))


def predicted(sites: Sites, kernel: Rows, cross: Rows, prior: float) -> tuple[Rows, Rows]:
    """Mean and variance (m,) of f where its covariance with the labelled rows is `cross` (m, n)."""
    root = np.sqrt(sites.tau)
    factor = _factor(kernel + 1e-8 * float(np.mean(np.diag(kernel))) * np.eye(len(kernel)), root)
    weights = sites.nu - root * cho_solve(factor, root * (kernel @ sites.nu))
    half = solve_triangular(factor[0], root[:, None] * cross.T, lower=True)
    return cross @ weights, np.maximum(prior - np.sum(half**2, axis=0), 0.0)


def _factor(kernel: Rows, root: Rows) -> tuple[Rows, bool]:
    """The Cholesky factor of I + S^½ K S^½."""
    return cho_factor(np.eye(len(root)) + root[:, None] * kernel * root, lower=True)


def _posterior(kernel: Rows, tau: Rows, nu: Rows) -> tuple[Rows, Rows, float]:
    """Mean and covariance of f under Gaussian sites, and ln |I + S^½ K S^½|."""
    root = np.sqrt(tau)
    factor = _factor(kernel, root)
    half = solve_triangular(factor[0], root[:, None] * kernel, lower=True)
    cov = kernel - half.T @ half
    return cov @ nu, cov, 2.0 * float(np.sum(np.log(np.diag(factor[0]))))


def _cavities(cov: Rows, mean: Rows, tau: Rows, nu: Rows) -> tuple[Rows, Rows]:
    """Precision and shift of each f_i without its own site."""
    var = np.maximum(np.diag(cov), 1e-12)
    return np.maximum(1.0 / var - tau, 1e-10), mean / var - nu


def _tilt(labels: Rows, cavity_tau: Rows, cavity_nu: Rows) -> tuple[Rows, Rows]:
    """z of each label under its cavity, and φ(z)/Φ(z)."""
    z = labels * (cavity_nu / cavity_tau) / np.sqrt(1.0 + 1.0 / cavity_tau)
    return z, np.exp(-0.5 * z**2 - 0.5 * np.log(2.0 * np.pi) - log_ndtr(z))
