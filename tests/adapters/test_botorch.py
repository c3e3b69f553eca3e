"""A fitted posterior as a model of BoTorch: moments equal to `predict`, and acquisitions of BoTorch that run on it."""

import sys
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import jax
import numpy as np
import pytest

from hyperleaf.data import Dataset, Standardizer
from hyperleaf.errors import InputError
from hyperleaf.surrogates.gp import hhk_surrogate
from hyperleaf.surrogates.learned import Learned
from hyperleaf.surrogates.treed import TreedGP

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from kernels_to_adapt import package, points

from fixed_draws import posterior_of

package("botorch", "gpytorch")
torch = import_module("torch")
MixtureModel = import_module("hyperleaf.adapters.botorch").MixtureModel
NIPV = import_module("botorch.acquisition.active_learning").qNegIntegratedPosteriorVariance
LogEI = import_module("botorch.acquisition.logei").qLogExpectedImprovement
GaussianMixturePosterior = import_module("botorch.posteriors.fully_bayesian").GaussianMixturePosterior

X = points(14, 2)
Y = np.where(X[:, 0] > 0.5, np.sin(9 * X[:, 1]), X[:, 1])
NEW = points(6, 2, 5)
KEY = jax.random.key(0)


def tensor(values):
    return torch.as_tensor(np.array(values), dtype=torch.float64)


def drawn(data, **options):
    """Five draws that count alike."""
    posterior = posterior_of(hhk_surrogate(2, 2, mean="linear", **options), data, 5)
    return replace(posterior, log_weights=np.full(5, -np.log(5.0)))


@pytest.fixture(scope="module")
def posterior():
    return drawn(Dataset(X, Y))


def test_moments_are_those_of_predict(posterior):
    model, mixture = MixtureModel(posterior), posterior.predict(NEW)
    assert model.batch_shape == (posterior.num_draws,)
    found = model.posterior(tensor(NEW))
    assert isinstance(found, GaussianMixturePosterior)
    np.testing.assert_allclose(found.mean[..., 0].detach(), mixture.means, rtol=0, atol=1e-7)
    np.testing.assert_allclose(found.variance[..., 0].detach(), mixture.variances, rtol=0, atol=1e-7)
    np.testing.assert_allclose(found.mixture_mean[:, 0].detach(), mixture.mean(), rtol=0, atol=1e-7)
    np.testing.assert_allclose(found.mixture_variance[:, 0].detach(), mixture.var(), rtol=0, atol=1e-7)
    noisy = model.posterior(tensor(NEW), observation_noise=True)
    np.testing.assert_allclose(noisy.mixture_variance[:, 0].detach(), mixture.noisy().var(), rtol=0, atol=1e-7)
    one_by_one = model.posterior(tensor(NEW[:, None]))  # a t-batch of single points
    assert one_by_one.mean.shape == (6, posterior.num_draws, 1, 1)
    np.testing.assert_allclose(one_by_one.mixture_mean[:, 0, 0].detach(), mixture.mean(), rtol=0, atol=1e-7)


def test_native_units_known_noise_and_fewer_draws():
    noise, scale = np.linspace(0.01, 0.2, len(Y)), Standardizer(30.0, 4.0)
    learned = Learned(drawn(Dataset(X, Y, noise), noise="known"), scale, 30.0 + 4.0 * Y, noise * 16.0)
    mixture, found = learned.predict(NEW), MixtureModel(learned).posterior(tensor(NEW))
    np.testing.assert_allclose(found.mixture_mean[:, 0].detach(), mixture.mean(), rtol=0, atol=1e-6)
    np.testing.assert_allclose(found.mixture_variance[:, 0].detach(), mixture.var(), rtol=0, atol=1e-6)
    assert MixtureModel(learned, draws=3).batch_shape == (3,)


def test_draws_with_weights_are_resampled_by_them(posterior):
    weights = np.array([0.5, 0.1, 0.2, 0.05, 0.15])
    weighted = replace(posterior, log_weights=np.log(weights))
    found = MixtureModel(weighted, draws=20).posterior(tensor(NEW)).mixture_mean[:, 0].detach()
    np.testing.assert_allclose(found, weighted.predict(NEW).mean(), rtol=0, atol=1e-7)  # weights are twentieths


def test_the_variance_that_is_left_is_that_of_a_new_observation(posterior):
    """qNegIntegratedPosteriorVariance is minus the mean over references of v − c²/(v + noise), averaged over draws."""
    model, references = MixtureModel(posterior), points(9, 2, 8)
    found = NIPV(model, mc_points=tensor(references))(tensor(NEW[:, None]))
    joint = posterior.joint(NEW, references)
    gain = joint.cov**2 / (joint.var_x + joint.noise_at_x)[:, :, None]
    left = joint.weights @ np.mean(joint.var_r[:, None, :] - gain, axis=2)
    np.testing.assert_allclose(found.detach(), -left, rtol=0, atol=1e-6)
    batch = NIPV(model, mc_points=tensor(references), X_pending=tensor(NEW[:1]))(tensor(NEW[None, 1:3]))
    assert batch.shape == (1,) and np.isfinite(batch.detach()).all()


def test_expected_improvement_has_a_gradient_and_prefers_what_is_higher(posterior):
    model = MixtureModel(posterior)
    torch.manual_seed(0)
    improvement = LogEI(model, best_f=float(Y.max()) - 0.5)
    candidates = tensor(np.stack([X[np.argmax(Y)], X[np.argmin(Y)]])[:, None]).requires_grad_(True)
    values = improvement(candidates)
    assert values[0] > values[1]
    values.sum().backward()
    assert torch.isfinite(candidates.grad).all() and candidates.grad.abs().max() > 0
    pairs = improvement(tensor(NEW.reshape(3, 2, 2)))
    assert pairs.shape == (3,) and torch.isfinite(pairs).all()


def test_what_is_no_process_of_one_kernel_is_refused():
    treed = TreedGP(burn_in=5, total=15).fit(Dataset(points(8, 1), points(8, 1)[:, 0]), key=KEY)
    with pytest.raises(InputError, match="BoTorch takes draws of one Gaussian process; the posterior of TreedGP"):
        MixtureModel(treed)
    with pytest.raises(InputError, match="a posterior, a fitted regressor or a model of a study is needed; got str"):
        MixtureModel("booster")
