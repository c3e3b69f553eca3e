"""scikit-learn's GaussianProcessRegressor: an anisotropic RBF and white noise by maximum likelihood, as in its documentation."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from hyperleaf.bench.rivals.base import Fitted, Moments, Values
from hyperleaf.data import Dataset


def _regressor(data: Dataset, **settings: Any) -> GaussianProcessRegressor:
    kernel = ConstantKernel() * RBF(np.ones(data.num_dims))
    jitter: Any = 1e-10
    if data.noise is None:
        kernel = kernel + WhiteKernel(0.1)
    else:  # of normalised outputs
        jitter = data.noise / (np.var(data.y) or 1.0) + 1e-10
    return GaussianProcessRegressor(kernel, alpha=jitter, normalize_y=True, **settings)


def fit(kind: str, data: Dataset, options: Mapping[str, Any], seed: int) -> dict[str, Any]:
    regressor = _regressor(data, n_restarts_optimizer=options["restarts"], random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a lengthscale at its bound says that an input does nothing
        regressor.fit(data.x, data.y)
    return {"theta": regressor.kernel_.theta}


def restore(kind: str, data: Dataset, options: Mapping[str, Any], arrays: Mapping[str, Any]) -> Fitted:
    regressor = _regressor(data, optimizer=None)
    regressor.kernel = regressor.kernel.clone_with_theta(arrays["theta"])
    return _Fitted(regressor.fit(data.x, data.y), data)


class _Fitted(Fitted):
    def __init__(self, regressor: GaussianProcessRegressor, data: Dataset) -> None:
        self._regressor = regressor
        if data.noise is None:
            self._white = self._noise = float(regressor.kernel_.k2.noise_level) * float(regressor._y_train_std) ** 2
        else:  # which the kernel does not hold; that of the next observation only if it is the same for all
            self._white, known = 0.0, data.noise
            self._noise = float(known[0]) if np.ptp(known) <= 1e-9 * known[0] else 0.0

    def moments(self, x: Values) -> Moments:
        mean, std = self._regressor.predict(x, return_std=True)
        return Moments(mean[None], np.maximum(std**2 - self._white, 0.0)[None], np.array([self._noise]))

    def covariance(self, x: Values) -> tuple[Values, Values, Values]:
        mean, covariance = self._regressor.predict(x, return_cov=True)
        return mean[None], (covariance - self._white * np.eye(len(x)))[None], np.array([self._noise])
