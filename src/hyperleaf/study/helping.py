"""Whether a campaign helps: how many random runs would have taught as much, and what a plain process makes of the same runs.

Nobody can make the random runs, but the posterior says what they would have shown. A function is drawn from it, with the
parameters it was drawn with; it is learned from the study's own runs and from random ones, in closed form and by the same
kernel, and the number of random runs after which its error is the same is read off. Over many functions that is a distribution.
The error after every number of runs comes from one factor: with L Lᵀ = K + Σ, V = L⁻¹ K(X, R) and w = L⁻¹ y, the mean at R after
the first n runs is Σ_{i ≤ n} wᵢ Vᵢ.

The kernel is taken for known on both sides. Held against random campaigns that were really made, the middle of the interval is
right to a factor of 1.7, and 0.9 of the real one on average (`benchmarks/helping.py`).
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hyperleaf.domain import Domain

if TYPE_CHECKING:
    from hyperleaf.surrogates.learned import Learned

FEWEST, MOST = 8, 400  # runs with which it means something, and with which it takes seconds
TIMES, LIMIT = 6, 512  # random runs are tried up to so many times as many, and up to so many
NUM_REFERENCES = 160
DRAWS, DRAWS_OF_MANY = 40, 16  # functions; fewer where each costs more
MANY = 600  # points from which on
INTERVAL = (0.1, 0.5, 0.9)
STEPS = 5  # numbers of runs at which the plain process is fitted
MOST_PLAIN = 250  # runs
Values = NDArray[np.float64]


@dataclass(frozen=True)
class Helping:
    """Of one output, in its native units. The study made `num_runs`; random runs would have taken `equal` (10 %, 50 % and 90 % of
    the functions) for the same error, at most `limit` were tried. `own` and `random` are errors after 1, 2, 3 … runs, `random`
    (limit, 3) with its interval. `plain` are numbers of runs and errors at runs left out of a plain stationary process.
    """

    num_runs: int
    limit: int
    num_draws: int
    equal: tuple[float, float, float]
    own: Values
    random: Values
    plain: tuple[tuple[int, float], ...]

    @property
    def beyond(self) -> bool:
        """Whether not even the largest number of random runs was enough, for half of the functions."""
        return self.equal[1] >= self.limit


def find_helping(model: Learned, domain: Domain, candidates: Values | None, *, seed: int, plain: bool) -> Helping | None:
    """What random runs would have taught; None with too few runs or very many, or where the surrogate has no kernel to tell by.

    Random runs are uniform over the domain, or rows of `candidates` (m, d) in the unit cube. `plain` asks for the plain process
    too.
    """
    data = model.posterior.data
    num = data.num_observations
    if not FEWEST <= num <= MOST or model.scale.scale <= 0 or np.ptp(data.y) == 0:
        return None
    rng = np.random.default_rng(np.random.SeedSequence((seed, num)))
    tried, references = _places(domain, candidates, min(TIMES * num, LIMIT), rng, seed)
    points = np.concatenate([data.x, tried, references])
    draws = DRAWS if len(points) <= MANY else DRAWS_OF_MANY
    picked = model.posterior.before_data(points, draws, seed=seed)
    if picked is None:
        return None
    own, random = [], []
    for covariance, noise, times in picked:
        errors = _errors(covariance, noise, times, data.x, data.y, data.noise, len(tried), rng)
        own.append(errors[0])
        random.append(errors[1])
    own_errors, random_errors = np.concatenate(own, axis=1), np.concatenate(random, axis=1)
    equal = np.quantile([_equal(own_errors[-1, k], random_errors[:, k]) for k in range(own_errors.shape[1])], INTERVAL)
    scale = model.scale.scale
    return Helping(
        num,
        len(tried),
        own_errors.shape[1],
        (float(equal[0]), float(equal[1]), float(equal[2])),
        scale * np.sqrt(np.mean(own_errors**2, axis=1)),
        scale * np.quantile(random_errors, INTERVAL, axis=1).T,
        _plain(data.x, model.y) if plain else (),
    )


def _places(domain: Domain, candidates: Values | None, num: int, rng: np.random.Generator, seed: int) -> tuple[Values, Values]:
    """Random runs, and where the error is looked at."""
    if candidates is None:
        tried = domain.to_unit(domain.design(num, "uniform", int(rng.integers(2**31))))
        return tried, domain.to_unit(domain.design(NUM_REFERENCES, "sobol", seed))
    rows = rng.permutation(len(candidates))
    thinned = np.linspace(0, len(candidates) - 1, min(NUM_REFERENCES, len(candidates))).round().astype(int)
    return candidates[rows[:num]], candidates[thinned]


def _errors(
    covariance: Values,
    noise: Any,
    times: int,
    x: Values,
    y: Values,
    known: Values | None,
    num_tried: int,
    rng: np.random.Generator,
) -> tuple[Values, Values]:
    """Errors after each number of the study's runs (n, times) and of random ones (num_tried, times), for one draw's functions."""
    n, m = len(x), len(covariance)
    at, references = slice(0, n), slice(n + num_tried, m)
    jitter = 1e-8 * float(np.mean(np.diag(covariance)))
    own_noise = np.broadcast_to(noise, m)  # a number, or one for each place
    functions = _factor(covariance, jitter) @ rng.standard_normal((m, times))
    variances = own_noise[at] + jitter + (np.zeros(n) if known is None else known)
    root = _factor(covariance[at, at] + np.diag(variances), 0.0)
    # Matheron: a function of the prior, moved by what the data say that it has missed.
    missed = y[:, None] - functions[at] - np.sqrt(variances)[:, None] * rng.standard_normal((n, times))
    functions = functions + covariance[:, at] @ _solve(root.T, _solve(root, missed, True), False)
    own = _along(root, covariance[at, references], np.repeat(y[:, None], times, axis=1), functions[references])
    other = own_noise + (0.0 if known is None else float(np.mean(known)))
    told = functions + np.sqrt(other)[:, None] * rng.standard_normal((m, times))
    columns = []
    for k in range(times):  # each function with random runs of its own
        rows = n + rng.permutation(num_tried)
        root = _factor(covariance[np.ix_(rows, rows)], other[rows] + jitter)
        columns.append(_along(root, covariance[rows, references], told[rows, k : k + 1], functions[references, k : k + 1]))
    return own, np.concatenate(columns, axis=1)


def _along(root: Values, cross: Values, y: Values, truth: Values) -> Values:
    """Root mean square errors (n, times) at the references after the first, second, … of the runs."""
    across, whitened = _solve(root, cross, True), _solve(root, y, True)
    errors = np.empty((len(y), y.shape[1]))
    for k in range(y.shape[1]):
        left = truth[:, k] - np.cumsum(across * whitened[:, k : k + 1], axis=0)
        errors[:, k] = np.sqrt(np.mean(left**2, axis=1))
    return errors


def _equal(own: float, random: Values) -> float:
    """After how many random runs the error is the study's, also between whole numbers. The curve is made one that only falls."""
    from sklearn.isotonic import IsotonicRegression

    nums = np.arange(1, len(random) + 1, dtype=np.float64)
    curve = IsotonicRegression(increasing=False).fit_transform(nums, np.log(np.maximum(random, 1e-300)))
    wanted = np.log(max(own, 1e-300))
    below = np.flatnonzero(curve <= wanted)
    if not len(below):
        return float(len(random))
    i = int(below[0])
    if i == 0 or curve[i - 1] == curve[i]:
        return float(nums[i])
    return float(nums[i] - (wanted - curve[i]) / (curve[i - 1] - curve[i]))


def _plain(x: Values, y: Values) -> tuple[tuple[int, float], ...]:
    """The error at runs left out of a stationary process with a Matérn 5/2 kernel, after several numbers of the same runs."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

    last = min(len(y), MOST_PLAIN)
    found = []
    for num in np.unique(np.linspace(min(max(FEWEST, last // 4), last), last, STEPS).round().astype(int)):
        part, told = x[:num], y[:num]
        if np.ptp(told) == 0:
            continue
        kernel = ConstantKernel(1.0, (1e-2, 1e3)) * Matern(np.full(x.shape[1], 0.5), (2e-2, 2e1), nu=2.5)
        process = GaussianProcessRegressor(kernel + WhiteKernel(1e-3, (1e-7, 1.0)), normalize_y=True, alpha=1e-9)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of lengths at their bounds
            process.fit(part, told)
        inverse = np.linalg.inv(process.L_)
        left_out = process.alpha_ / np.sum(inverse**2, axis=0)  # (K⁻¹y)ᵢ / K⁻¹ᵢᵢ
        found.append((int(num), float(np.std(told) * np.sqrt(np.mean(left_out**2)))))
    return tuple(found)


def _factor(covariance: Values, noise: Any) -> Values:
    """A lower factor of covariance + noise; what is left of an indefinite one by rounding is filled up."""
    scale = float(np.mean(np.diag(covariance)))
    for jitter in (0.0, 1e-9, 1e-7, 1e-5, 1e-3):
        try:
            return np.asarray(
                np.linalg.cholesky(covariance + np.diag(np.broadcast_to(noise + jitter * scale, len(covariance)))), np.float64
            )
        except np.linalg.LinAlgError:
            continue
    return np.asarray(np.diag(np.sqrt(np.diag(covariance) + noise)), dtype=np.float64)


def _solve(root: Values, right: Values, lower: bool) -> Values:
    from scipy.linalg import solve_triangular

    return solve_triangular(root, right, lower=lower, check_finite=False)
