"""How good the surrogate is, honestly: what it expects of itself, what leaving one out says, and what a test table says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hyperleaf.surrogates.learned import Learned
from hyperleaf.surrogates.validation import leave_one_out

NUM_REFERENCES = 256
COVERAGE = 0.9
Values = NDArray[np.float64]


@dataclass(frozen=True)
class Accuracy:
    """Of one output, in its native units.

    `expected_rmse`: √ of the mean predictive variance of f over where the surrogate will be used. `calibration`: the root mean
    square of leave-one-out errors in units of their predicted spread: 1 is honest, 2 is too sure of itself by a factor of two.
    `loo_coverage`: share of observations within their 90 % interval. `trusted_rmse` is the expected error, raised by the
    calibration where that is above 1. The test figures are there when a test table is.
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


def measure(model: Learned, references: Values, test: tuple[Values, Values] | None = None) -> Accuracy:
    """Accuracy on `references` (k, d) of the unit cube, on the model's own data, and on a test table (unit, y)."""
    expected = float(np.sqrt(np.mean(model.predict(references).var())))
    left_out = leave_one_out(model.posterior)
    figures: dict[str, Any] = {}
    calibration = 1.0
    if left_out is not None:
        left_out = left_out.affine(model.scale.loc, model.scale.scale)
        error = model.y - left_out.mean()
        calibration = float(np.sqrt(np.mean((error / left_out.std()) ** 2)))
        low, high = left_out.interval(COVERAGE)
        figures |= {
            "loo_rmse": float(np.sqrt(np.mean(error**2))),
            "loo_coverage": float(np.mean((low <= model.y) & (model.y <= high))),
            "loo_nlpd": float(-np.mean(left_out.log_prob(model.y))),
            "calibration": calibration,
        }
    if test is not None:
        unit, y = test
        predicted = model.predict(unit)
        low, high = predicted.noisy().interval(COVERAGE)
        figures |= {
            "test_rmse": float(np.sqrt(np.mean((predicted.mean() - y) ** 2))),
            "test_coverage": float(np.mean((low <= y) & (y <= high))),
            "test_nlpd": float(-np.mean(predicted.noisy().log_prob(y))),
        }
    return Accuracy(expected, expected * max(calibration, 1.0), model.scale.scale, **figures)
