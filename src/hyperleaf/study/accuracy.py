"""How good the surrogate is, honestly: what it expects of itself, what leaving one out says, and what a test table says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hyperleaf.config import Definition
from hyperleaf.domain import Domain
from hyperleaf.storage.base import Record
from hyperleaf.surrogates.kinds import kind_of
from hyperleaf.surrogates.noise import Noise, noise_figures, noise_of

if TYPE_CHECKING:
    from hyperleaf.mixture import Mixture
    from hyperleaf.surrogates.learned import Learned

NUM_REFERENCES = 128  # of a domain or a large pool; the error of their mean variance is a few percent
WHOLE = 1024  # candidates up to which a whole pool is looked at: they have just been scored, and are not predicted again
COVERAGE = 0.9
Values = NDArray[np.float64]


@dataclass(frozen=True)
class Accuracy:
    """Of one output, in its native units.

    `expected_rmse`: √ of the mean predictive variance of f over where the surrogate will be used. `calibration`: the root mean
    square of leave-one-out errors in units of their predicted spread: 1 is honest, 2 is too sure of itself by a factor of two.
    `loo_coverage`: share of observations within their 90 % interval. `trusted_rmse` is the expected error, raised by the
    calibration where that is above 1. `noise` is √ of the mean variance of the noise, with 90 % of the posterior between
    `noise_low` and `noise_high`; where it differs from place to place, it goes from `noise_least` to `noise_most` at the
    observations. The test figures are there when a test table is.
    """

    expected_rmse: float
    trusted_rmse: float
    scale: float
    loo_rmse: float | None = None
    loo_coverage: float | None = None
    loo_nlpd: float | None = None
    calibration: float | None = None
    test_rmse: float | None = None
    test_coverage: float | None = None
    test_nlpd: float | None = None
    noise: float | None = None
    noise_low: float | None = None
    noise_high: float | None = None
    noise_least: float | None = None
    noise_most: float | None = None


def measure(model: Learned, references: Values, test: tuple[Values, Values] | None = None) -> Accuracy:
    """Accuracy on `references` (k, d) of the unit cube, on the model's own data, and on a test table (unit, y)."""
    expected = float(np.sqrt(np.mean(_moments(model.predict(references))[1])))
    left_out = model.posterior.left_out()
    figures: dict[str, Any] = {}
    calibration = 1.0
    if left_out is not None:
        left_out = left_out.affine(model.scale.loc, model.scale.scale)
        error = model.y - _moments(left_out)[0]
        calibration = float(np.sqrt(np.mean(error**2 / _moments(left_out)[1])))
        coverage, nlpd = _scores(left_out, model.y)
        rmse = float(np.sqrt(np.mean(error**2)))
        figures |= {"loo_rmse": rmse, "loo_coverage": coverage, "loo_nlpd": nlpd, "calibration": calibration}
    if test is not None:
        unit, y = test
        predicted = model.predict(unit)
        coverage, nlpd = _scores(predicted.noisy(), y)
        rmse = float(np.sqrt(np.mean((_moments(predicted)[0] - y) ** 2)))
        figures |= {"test_rmse": rmse, "test_coverage": coverage, "test_nlpd": nlpd}
    found = noise_figures(model.posterior).times(model.scale.scale)
    figures |= {"noise": found.std, "noise_low": found.low, "noise_high": found.high}
    figures |= {"noise_least": found.least, "noise_most": found.most}
    return Accuracy(expected, expected * max(calibration, 1.0), model.spread, **figures)


def noise_of_outputs(
    definition: Definition, domain: Domain, record: Record, accuracy: Mapping[str, Accuracy]
) -> dict[str, Noise]:
    """What is known of the noise of each output: as it was measured last, and as all finished runs at the same points say."""
    places = record.places()
    told = [dict(places[one.query_id]) for one in record.observations]
    unit = domain.to_unit(told) if told else np.zeros((0, domain.num_dims))
    tellable = kind_of(definition.surrogate.kind).tellable
    found = {}
    for name, output in definition.outputs.items():
        last = accuracy.get(name)
        figures: Sequence[float | None] = (None, None, None)
        if last is not None:
            figures = (last.noise, last.noise_low, last.noise_high, last.noise_least, last.noise_most)
        y = np.array([one.outputs[name] for one in record.observations], dtype=np.float64)
        found[name] = noise_of(name, output.unit, output.noise_kind, unit, y, figures, tellable=tellable)
    return found


# The same as Mixture's methods, in NumPy: those are compiled for a number of points, which here grows with every query.


def _moments(mixture: Mixture) -> tuple[Values, Values]:
    weights, means = np.asarray(mixture.weights), np.asarray(mixture.means)
    mean = weights @ means
    return mean, weights @ (np.asarray(mixture.variances) + (means - mean) ** 2)


def _scores(mixture: Mixture, y: Values) -> tuple[float, float]:
    """Share of y inside the central 90 % interval, and the mean of −ln p(y)."""
    from scipy.special import logsumexp, ndtr

    std = np.sqrt(np.asarray(mixture.variances))
    z = (y - np.asarray(mixture.means)) / std
    weights = np.asarray(mixture.weights)[:, None]
    below = np.sum(weights * ndtr(z), axis=0)
    log_density = logsumexp(-0.5 * z**2 - np.log(std), b=weights, axis=0) - 0.5 * np.log(2 * np.pi)
    tail = (1 - COVERAGE) / 2
    return float(np.mean((tail <= below) & (below <= 1 - tail))), float(-np.mean(log_density))
