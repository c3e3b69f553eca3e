"""A fitted posterior as a model of BoTorch: draws are the batch, and what it predicts is BoTorch's Gaussian mixture.

It is a fully Bayesian model to BoTorch, as if NUTS of BoTorch had drawn its parameters, so that acquisitions average over the
draws. BoTorch counts all draws alike: where they have weights, they are resampled by these first.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hyperleaf.adapters import missing
from hyperleaf.adapters.gpytorch import HHK
from hyperleaf.checks import whole_number
from hyperleaf.data import Standardizer
from hyperleaf.errors import InputError
from hyperleaf.linalg import RELATIVE_JITTER
from hyperleaf.surrogates.base import Posterior
from hyperleaf.surrogates.gp import GPPosterior

try:
    import torch
    from botorch.models.fully_bayesian import AbstractFullyBayesianSingleTaskGP
    from botorch.models.model import FantasizeMixin
    from botorch.models.transforms.outcome import Standardize
    from botorch.posteriors.fully_bayesian import MCMC_DIM
    from gpytorch.constraints import GreaterThan
    from gpytorch.distributions import MultivariateNormal
    from gpytorch.likelihoods import FixedNoiseGaussianLikelihood, GaussianLikelihood
    from gpytorch.means import ZeroMean
    from gpytorch.models import ExactGP
    from torch import Tensor
except ModuleNotFoundError as error:
    raise missing("botorch", "gpytorch") from error

LEAST_NOISE = 1e-14  # of a variance: BoTorch's own floor of 1e-4 would drown runs that repeat exactly


class MixtureModel(AbstractFullyBayesianSingleTaskGP, FantasizeMixin):
    """A posterior, or what a regressor or a study has learned of one output, as a fully Bayesian single-task model.

    Inputs lie in the unit cube (`domain.to_unit`). Of a posterior outputs are standardised as it holds them; of what has a scale,
    `study.models["y"]` or `regressor.learned_`, they are in native units. `draws` is how many are kept, all by default; each is a
    copy of the data in memory and time.
    """

    def __init__(self, source: Any, draws: int | None = None) -> None:
        posterior, scale = _posterior_of(source)
        picks = _resampled(posterior.weights, posterior.num_draws if draws is None else whole_number("draws", draws))
        gps = [posterior.draw(int(i)) for i in picks]
        data, kernel = posterior.data, HHK.from_hyperleaf(gps)
        x, y = torch.as_tensor(np.array(data.x)), torch.as_tensor(np.array(data.y))
        with torch.no_grad():
            jitter = RELATIVE_JITTER * kernel(x, diag=True).mean(-1, keepdim=True)  # as hyperleaf adds it, draw by draw
        noise = torch.as_tensor([[float(gp.noise)] for gp in gps], dtype=torch.float64) + jitter
        likelihood: Any
        if data.noise is None:
            likelihood = GaussianLikelihood(batch_shape=noise.shape[:1], noise_constraint=GreaterThan(LEAST_NOISE)).double()
            likelihood.noise = noise.clamp_min(2 * LEAST_NOISE)
        else:
            likelihood = FixedNoiseGaussianLikelihood(noise + torch.as_tensor(np.array(data.noise)))
        # Past the constructor of BoTorch's class, which would make a sampler of its own.
        ExactGP.__init__(self, x, y, likelihood)
        self._num_outputs, self._input_batch_shape = 1, torch.Size([])
        self.mean_module, self.covar_module = ZeroMean(batch_shape=noise.shape[:1]), kernel
        if scale is not None:
            self.outcome_transform = _Scale(scale)
        for parameter in self.parameters():
            parameter.requires_grad_(False)
        self.eval()

    def forward(self, X: Tensor) -> MultivariateNormal:
        return MultivariateNormal(self.mean_module(X), self.covar_module(X))

    def train(self, mode: bool = True, reset: bool = False) -> MixtureModel:
        """Nothing is forgotten: there is no sampler of BoTorch to learn the parameters anew."""
        return super().train(mode, reset=False)

    def condition_on_observations(self, X: Tensor, Y: Tensor, **kwargs: Any) -> Any:
        """The model after more observations (…, q, 1), the same or others in each draw.

        Fantasies at several batches of points have an axis of draws that the points lack; BoTorch's class would repeat these
        along the wrong one.
        """
        if 2 < X.ndim < Y.ndim:
            X = X.unsqueeze(MCMC_DIM).expand(*Y.shape[:-1], X.shape[-1])
        return super().condition_on_observations(X, Y, **kwargs)

    def load_mcmc_samples(self, mcmc_samples: dict[str, Tensor]) -> None:
        raise InputError("the draws of this model are hyperleaf's; got samples of BoTorch's sampler. Make a new MixtureModel.")


class _Scale(Standardize):
    """The output scale of hyperleaf, which is not learned from what BoTorch is told."""

    def __init__(self, scale: Standardizer) -> None:
        super().__init__(m=1)
        self.means, self.stdvs = (torch.tensor([[value]], dtype=torch.float64) for value in (scale.loc, scale.scale))
        self._stdvs_sq, self._is_trained = self.stdvs**2, torch.tensor(True)
        self.eval()

    def train(self, mode: bool = True) -> _Scale:
        return super().train(False)


def _posterior_of(source: Any) -> tuple[GPPosterior, Standardizer | None]:
    learned = getattr(source, "learned_", source)  # a regressor
    posterior, scale = (learned, None) if isinstance(learned, Posterior) else _of_learned(learned)
    if not isinstance(posterior, GPPosterior):
        raise InputError(
            f"BoTorch takes draws of one Gaussian process; the posterior of {type(posterior.surrogate).__name__} has others. "
            'Learn with the surrogate "hhk" or "stationary".'
        )
    return posterior, scale


def _of_learned(learned: Any) -> tuple[Posterior, Standardizer]:
    if not hasattr(learned, "posterior") or not hasattr(learned, "scale"):
        raise InputError(
            f"a posterior, a fitted regressor or a model of a study is needed; got {type(learned).__name__}. Pass "
            'posterior, regressor or study.models["y"].'
        )
    return learned.posterior, learned.scale


def _resampled(weights: Any, num: int) -> Any:
    """`num` places among the draws, each as often as its weight says: systematic resampling, without chance."""
    if num == len(weights) and np.allclose(weights, 1.0 / num, rtol=1e-9):
        return np.arange(num)
    places = (np.arange(num) + 0.5) / num
    return np.minimum(np.searchsorted(np.cumsum(weights), places), len(weights) - 1)
