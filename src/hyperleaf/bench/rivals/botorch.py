"""BoTorch: SingleTaskGP by maximum a posteriori, and the fully Bayesian GP with a SAAS prior by NUTS, all with its own defaults.

Its qNegIntegratedPosteriorVariance is what `alc` asks, so that this criterion too is the package's and not ours.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from botorch.acquisition import qNegIntegratedPosteriorVariance
from botorch.exceptions import ModelFittingError
from botorch.fit import fit_fully_bayesian_model_nuts, fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.models.fully_bayesian import SaasFullyBayesianSingleTaskGP
from botorch.models.transforms import Standardize
from gpytorch.mlls import ExactMarginalLogLikelihood

from hyperleaf.bench.rivals.base import Fitted, Moments, Values
from hyperleaf.data import Dataset
from hyperleaf.errors import InferenceError

_CHUNK = 128  # candidates for which observations are imagined at once
_REFERENCES = 128  # at most: each candidate takes a matrix of so many rows and columns


@contextmanager
def _alone() -> Iterator[None]:
    """One thread, for small matrices and the same sums everywhere; its warnings are about scales and restarts."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        torch.set_num_threads(threads)


def _model(kind: str, data: Dataset, options: Mapping[str, Any]) -> Any:
    x, y = torch.tensor(data.x), torch.tensor(data.y)[:, None]
    noise = None if data.noise is None else torch.tensor(data.noise)[:, None]
    if kind == "botorch":
        return SingleTaskGP(x, y, noise)
    return SaasFullyBayesianSingleTaskGP(x, y, noise, outcome_transform=Standardize(1), use_input_warping=options["warping"])


def fit(kind: str, data: Dataset, options: Mapping[str, Any], seed: int) -> dict[str, Any]:
    with _alone(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = _model(kind, data, options)
        try:
            if kind == "botorch":
                fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
            else:
                fit_fully_bayesian_model_nuts(
                    model,
                    warmup_steps=options["warmup"],
                    num_samples=options["samples"],
                    thinning=options["thinning"],
                    disable_progbar=True,
                    seed=seed,
                )
        except ModelFittingError as error:
            raise InferenceError(f"BoTorch could not fit {kind} to {len(data.y)} observations ({error}).") from error
    return {name: value.detach().numpy().copy() for name, value in model.state_dict().items()}


def restore(kind: str, data: Dataset, options: Mapping[str, Any], arrays: Mapping[str, Any]) -> Fitted:
    with _alone():
        model = _model(kind, data, options)
        model.load_state_dict({name: torch.as_tensor(np.array(value)) for name, value in arrays.items()})
        return _Fitted(model.eval(), data)


class _Fitted(Fitted):
    def __init__(self, model: Any, data: Dataset) -> None:
        self._model = model
        with torch.no_grad():
            scale = float(model.outcome_transform.stdvs) ** 2
            if data.noise is None:
                self._noise = model.likelihood.noise.numpy().reshape(-1) * scale
            else:  # of the next observation only if that of all is the same
                known = float(data.noise[0]) if np.ptp(data.noise) <= 1e-9 * data.noise[0] else 0.0
                self._noise = np.full(getattr(model, "num_mcmc_samples", 1), known)

    def moments(self, x: Values) -> Moments:
        with torch.no_grad(), _alone():
            found = self._model.posterior(torch.tensor(x)).distribution
            means, variances = found.mean.numpy(), found.variance.numpy()
        s = len(self._noise)
        return Moments(means.reshape(s, -1), variances.reshape(s, -1), self._noise)

    def covariance(self, x: Values) -> tuple[Values, Values, Values]:
        with torch.no_grad(), _alone():
            found = self._model.posterior(torch.tensor(x)).distribution
            means, covariances = found.mean.numpy(), found.covariance_matrix.numpy()
        s, m = len(self._noise), len(x)
        return means.reshape(s, m), covariances.reshape(s, m, m), self._noise

    def alc(self, x: Values, r: Values) -> Values | None:
        """How far qNegIntegratedPosteriorVariance rises above minus the mean variance of today."""
        if len(self._noise) > 1:
            return None
        r = r[:: -(-len(r) // _REFERENCES)]
        with torch.no_grad(), _alone():
            today = float(self.moments(r).variances.mean())
            measure = qNegIntegratedPosteriorVariance(self._model, mc_points=torch.tensor(r))
            parts = [measure(torch.tensor(x[i : i + _CHUNK])[:, None, :]).numpy() for i in range(0, len(x), _CHUNK)]
        return np.maximum(today + np.concatenate(parts), 0.0)
