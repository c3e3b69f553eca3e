"""Regressors in scikit-learn's form: the protocol, native units, learning on, clear errors."""

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from hyperleaf.estimators import DeepRegressor, HHKRegressor, StationaryRegressor, TreedRegressor
from hyperleaf.inference.map import Map
from hyperleaf.inference.smc import SMC

QUICK = SMC(particles=8, leapfrog=2, max_moves=1)


@parametrize_with_checks(
    [
        HHKRegressor(2, inference=Map(restarts=1, max_steps=30)),
        StationaryRegressor(inference=QUICK),
        TreedRegressor(burn_in=20, total=60),
        DeepRegressor(layers=1, sweeps=40, draws=5),
    ]
)
def test_scikit_learn_compliance(estimator, check):
    check(estimator)
