"""What is said of one prediction, one curve or two paired samples, and how sure one may be of it; `summaries` makes tables of it.

The area is the mean of ln RMSE over n. A difference of areas is thus the log of a ratio of RMSEs, averaged along the curve:
exp(A₁ − A₂) = 1.1 says that the first method's RMSE is 10 % larger in the geometric mean, and no unit of y enters.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from hyperleaf.errors import DataError, InputError

if TYPE_CHECKING:
    from hyperleaf.mixture import Mixture

Alternative = Literal["two-sided", "less", "greater"]
Array = NDArray[np.float64]


class Scores(NamedTuple):
    """Over test points: rmse and crps in the unit of y, nlpd in nats; the smaller, the better. Coverage is a share, and should be
    the probability of the interval."""

    rmse: float
    nlpd: float
    crps: float
    coverage: float


class Reach(NamedTuple):
    """After how many queries a target was met; if it was not, `queries` were made in vain: a right-censored time."""

    queries: float
    reached: bool


class Ratio(NamedTuple):
    """A ratio of paired samples with the ends of its bootstrap interval."""

    ratio: float
    low: float
    high: float


def scores(mixture: Mixture, y: ArrayLike, *, probability: float = 0.9, crps: bool = True) -> Scores:
    """RMSE of the mean, mean −log p(y), mean CRPS, and the share of y inside the central interval of that probability.

    Hold the latent mixture against noise-free truth, and `mixture.noisy()` against what was measured. The CRPS looks at all pairs
    of components, which takes longer than all else; without `crps` it is NaN.
    """
    y = np.asarray(y, dtype=np.float64)
    if y.shape != (len(mixture),) or not len(y) or not np.isfinite(y).all():
        raise DataError(f"y must be finite, one for each of the {len(mixture)} candidates, and not empty; got shape {y.shape}.")
    low, high = mixture.interval(probability)
    return Scores(
        rmse=float(np.sqrt(np.mean((mixture.mean() - y) ** 2))),
        nlpd=float(-np.mean(mixture.log_prob(y))),
        crps=float(np.mean(mixture.crps(y))) if crps else float("nan"),
        coverage=float(np.mean((low <= y) & (y <= high))),
    )


def log_rmse_area(n: ArrayLike, rmse: ArrayLike) -> float:
    """∫ ln RMSE dn / (n_last − n_first) by trapezoids: the log of the RMSE's geometric mean along the curve."""
    n, rmse = _curve(n, rmse)
    if len(n) < 2 or not (rmse > 0).all() or not np.isfinite(rmse).all():
        raise DataError(
            f"an area needs at least two n and finite RMSEs > 0; got {len(n)} of them, from {rmse.min(initial=np.inf):g}. "
            "Leave out a run that failed."
        )
    return float(np.trapezoid(np.log(rmse), n) / (n[-1] - n[0]))


def queries_to_reach(n: ArrayLike, rmse: ArrayLike, target: float, *, lasting: bool = False) -> Reach:
    """Queries after the first n until RMSE ≤ target: for the first time or, `lasting`, for good. A NaN does not meet a target."""
    n, rmse = _curve(n, rmse)
    if not len(n) or not target > 0:
        raise InputError(f"a target must be > 0 and a curve have a point; got {target} and {len(n)} points.")
    met = rmse <= target
    if lasting:
        met = np.logical_and.accumulate(met[::-1])[::-1]
    return Reach(float(n[met.argmax()] - n[0]), True) if met.any() else Reach(float(n[-1] - n[0]), False)


def censored_quantile(reaches: Sequence[Reach], q: float = 0.5) -> float:
    """The q-quantile of the queries needed, by Kaplan and Meier: min {t : 1 − Π_{s ≤ t} (1 − met_s/at risk_s) ≥ q}.

    Infinite where fewer than that share met the target; a time that is both met and censored counts as met first.
    """
    if not reaches or not 0 < q < 1:
        raise InputError(f"a quantile needs 0 < q < 1 and at least one run; got {q} and {len(reaches)} runs.")
    times, met = np.array([r.queries for r in reaches]), np.array([r.reached for r in reaches])
    survival = 1.0
    for time in np.unique(times[met]):
        survival *= 1.0 - np.sum(met & (times == time)) / np.sum(times >= time)
        if 1.0 - survival >= q - 1e-12:
            return float(time)
    return float("inf")


def paired_wilcoxon(a: ArrayLike, b: ArrayLike, alternative: Alternative = "two-sided") -> float:
    """The p-value of the signed-rank test that a − b is symmetric about 0; "less" speaks for a being smaller.

    Pairs that are equal are dropped; none left gives 1. The null distribution is exact up to 50 pairs, also with ties among
    |a − b|, and normal with continuity correction beyond. Few pairs cannot speak clearly: see `smallest_p`.
    """
    a, b = _pair(a, b)
    difference = a - b
    difference = difference[difference != 0]
    if not len(difference):
        return 1.0
    if len(difference) > 50:
        return float(stats.wilcoxon(difference, alternative=alternative, method="asymptotic", correction=True).pvalue)
    if len(np.unique(np.abs(difference))) == len(difference):
        return float(stats.wilcoxon(difference, alternative=alternative, method="exact").pvalue)
    # SciPy enumerates signs where there are ties, in half a second; twice a mid-rank is whole, so their sums can be counted
    ranks = np.rint(2 * stats.rankdata(np.abs(difference))).astype(int)
    probability = np.ones(1)
    for rank in ranks:
        probability = 0.5 * (np.pad(probability, (0, rank)) + np.pad(probability, (rank, 0)))
    observed = ranks[difference > 0].sum()
    less, greater = probability[: observed + 1].sum(), probability[observed:].sum()
    return float(min(1.0, {"less": less, "greater": greater, "two-sided": 2 * min(less, greater)}[alternative]))


def smallest_p(num_pairs: int, alternative: Alternative = "two-sided") -> float:
    """The smallest p-value that a signed-rank test of so many pairs can give: 2^−n, twice that if two-sided."""
    return min(1.0, (2.0 if alternative == "two-sided" else 1.0) * 0.5**num_pairs)


def holm(p: ArrayLike) -> Array:
    """p-values adjusted by Holm's step-down: in ascending order max_{j ≤ i} min(1, (m − j + 1) p_j). A NaN is no test."""
    p = np.asarray(p, dtype=np.float64)
    if p.ndim != 1 or ((p < 0) | (p > 1)).any():
        raise InputError(f"p-values must be an (m,) array in [0, 1]; got shape {p.shape}, {p}.")
    adjusted, tests = np.full(len(p), np.nan), np.flatnonzero(~np.isnan(p))
    order = tests[np.argsort(p[tests], kind="stable")]
    steps = (len(order) - np.arange(len(order))) * p[order]
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(steps))
    return adjusted


def bootstrap_ratio(
    a: ArrayLike,
    b: ArrayLike,
    *,
    statistic: Literal["geometric", "median"] = "geometric",
    probability: float = 0.95,
    num_resamples: int = 10_000,
    seed: int = 0,
) -> Ratio:
    """geometric mean(a)/geometric mean(b), or median(a)/median(b), of positive pairs, with a bootstrap interval over pairs.

    Percentiles of the resampled ratios, expanded for small samples: instead of α/2 the level Φ(−t_{α/2, n−1} √(n/(n − 1))), which
    for a mean makes up for the bootstrap's spread being too small. A single pair has no interval: NaN.
    """
    a, b = _pair(a, b)
    if not len(a) or not ((a > 0) & (b > 0)).all():
        raise DataError(f"a ratio needs pairs of numbers > 0; got {len(a)} pairs, some not so. Leave out runs that failed.")
    if statistic not in ("geometric", "median") or not 0 < probability < 1 or num_resamples < 1:
        raise InputError(
            'a bootstrap needs statistic "geometric" or "median", 0 < probability < 1 and num_resamples ≥ 1; '
            f"got {statistic!r}, {probability}, {num_resamples}."
        )

    def ratios(rows: NDArray[np.intp]) -> Array:
        if statistic == "geometric":
            return np.exp(np.mean(np.log(a)[rows] - np.log(b)[rows], axis=-1))
        return np.median(a[rows], axis=-1) / np.median(b[rows], axis=-1)

    n = len(a)
    ratio = float(ratios(np.arange(n)))
    if n == 1:
        return Ratio(ratio, float("nan"), float("nan"))
    drawn = ratios(np.random.default_rng(seed).integers(n, size=(num_resamples, n)))
    tail = stats.norm.cdf(stats.t.ppf(0.5 - 0.5 * probability, n - 1) * np.sqrt(n / (n - 1)))
    low, high = np.quantile(drawn, [tail, 1.0 - tail])
    return Ratio(ratio, float(low), float(high))


def _curve(n: ArrayLike, rmse: ArrayLike) -> tuple[Array, Array]:
    n, rmse = np.asarray(n, dtype=np.float64), np.asarray(rmse, dtype=np.float64)
    if n.ndim != 1 or n.shape != rmse.shape or not (np.diff(n) > 0).all():
        raise DataError(f"a curve is n ascending and one RMSE for each; got shapes {n.shape} and {rmse.shape}. Sort it by n.")
    return n, rmse


def _pair(a: ArrayLike, b: ArrayLike) -> tuple[Array, Array]:
    a, b = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if a.ndim != 1 or a.shape != b.shape or not (np.isfinite(a).all() and np.isfinite(b).all()):
        raise DataError(f"pairs are two finite arrays of one length; got shapes {a.shape} and {b.shape}. Drop pairs with a NaN.")
    return a, b
