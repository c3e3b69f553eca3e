"""The kernel of GPyTorch: hyperleaf's numbers and gradients in float64, GPyTorch's own kernel tests, priors, training."""

import sys
import unittest
from importlib import import_module
from pathlib import Path

import numpy as np
import numpyro.distributions as dist
import pytest

from hyperleaf.errors import InputError
from hyperleaf.kernels import Matern52, Partition
from hyperleaf.priors import Prior, hhk_prior, stationary_prior, wide_priors

sys.path.insert(0, str(Path(__file__).parent))
from kernels_to_adapt import CASES, FIELDS, LEAVES, gp_with_trend, kernel_of, package, points, reference

gpytorch = package("gpytorch", "gpytorch")
torch = import_module("torch")
base = import_module("gpytorch.test.base_kernel_test_case")
HHK = import_module("hyperleaf.adapters.gpytorch").HHK


def tensor(values):
    return torch.as_tensor(values, dtype=torch.float64)


def constrained_gradients(kernel, loss):
    """∂/∂field, from the gradients of what torch trains: Positive() is the softplus, whose slope is the sigmoid."""
    loss.backward()
    found = {}
    for name in FIELDS:
        positive = name in ("lengthscale", "variance", "steepness")
        raw = getattr(kernel, f"raw_{name}" if positive else name)
        found[name] = (raw.grad / torch.sigmoid(raw.detach()) if positive else raw.grad).numpy()
    return found


@pytest.mark.parametrize("depth, d", CASES)
def test_gram_matrices_and_gradients_are_those_of_hyperleaf(depth, d):
    kernel = kernel_of(depth, d, LEAVES[(depth + d) % 4], ("product", "sqrt")[depth % 2])
    adapted = HHK.from_hyperleaf(kernel)
    x, y, pull = points(9, d), points(5, d, 2), np.random.default_rng(3).normal(size=(9, 9))
    wanted_gram, wanted_cross, wanted = reference(kernel, x, y, pull)
    gram = adapted(tensor(x)).to_dense()
    found = constrained_gradients(adapted, (tensor(pull) * gram).sum())
    gram, cross = gram.detach().numpy(), adapted(tensor(x), tensor(y)).to_dense().detach().numpy()
    np.testing.assert_allclose(gram, wanted_gram, rtol=0, atol=1e-10)
    np.testing.assert_allclose(cross, wanted_cross, rtol=0, atol=1e-10)
    np.testing.assert_allclose(adapted(tensor(x), diag=True).detach(), np.diag(wanted_gram), rtol=0, atol=1e-10)
    pairs = adapted(tensor(x[:5]), tensor(y), diag=True).detach()
    np.testing.assert_allclose(pairs, np.diag(wanted_cross[:5]), rtol=0, atol=1e-10)
    for name, value in wanted.items():
        np.testing.assert_allclose(found[name], value, rtol=0, atol=1e-10, err_msg=name)
    assert np.linalg.eigvalsh(gram).min() > -1e-12
    np.testing.assert_allclose(adapted(tensor(x))[2:5, 1:3].to_dense().detach(), gram[2:5, 1:3], atol=1e-13)
    np.testing.assert_allclose(adapted.to_hyperleaf()(x), wanted_gram, rtol=0, atol=1e-10)


@pytest.mark.parametrize("depth", [0, 2])
def test_a_batch_is_its_kernels_one_by_one(depth):
    kernels = [kernel_of(depth, 2, Matern52, seed=seed) for seed in range(3)]
    adapted, x = HHK.from_hyperleaf(kernels), points(7, 2)
    assert adapted.batch_shape == (3,)
    grams = adapted(tensor(x)).to_dense().detach().numpy()
    assert grams.shape == (3, 7, 7)
    for kernel, gram, back in zip(kernels, grams, adapted.to_hyperleaf(), strict=True):
        np.testing.assert_allclose(gram, kernel(x), rtol=0, atol=1e-10)
        np.testing.assert_allclose(back(x), kernel(x), rtol=0, atol=1e-10)
    many = adapted(tensor(np.stack([points(4, 2, seed) for seed in range(5)])[:, None])).to_dense()
    assert many.shape == (5, 3, 4, 4)
    np.testing.assert_allclose(many[2, 1].detach(), kernels[1](points(4, 2, 2)), rtol=0, atol=1e-10)
    np.testing.assert_allclose(adapted[1](tensor(x)).to_dense().detach(), kernels[1](x), rtol=0, atol=1e-10)


class TestAsGPyTorchTestsItsOwn(base.BaseKernelTestCase, unittest.TestCase):
    """The compliance suite of GPyTorch. It makes kernels without naming their inputs: two, but where columns are chosen."""

    def create_kernel_no_ard(self, active_dims=None, **kwargs):
        torch.manual_seed(0)
        columns = {"test_active_dims_list": 4, "test_active_dims_range": 6}.get(self._testMethodName, 2)
        return HHK(columns, 4, active_dims=active_dims, **kwargs)

    def create_kernel_ard(self, num_dims, **kwargs):
        torch.manual_seed(0)
        return HHK(num_dims, 4, **kwargs)


def test_priors_are_those_of_hyperleaf():
    torch.manual_seed(3)
    for prior in (hhk_prior(2, 4), hhk_prior(3, 2, **wide_priors(3)), stationary_prior(2)):
        columns = 3 if isinstance(prior, Partition) and prior.gates.normal.shape()[-1] == 3 else 2
        kernel = HHK(columns, prior=prior).double()
        ours = Prior(prior).log_prob(kernel.to_hyperleaf())
        theirs = sum(one.log_prob(closure(module)).sum() for _, module, one, closure, _ in kernel.named_priors())
        assert theirs.item() == pytest.approx(float(ours), rel=1e-5)  # numpyro's in single precision here
    kernel = HHK(2, 4)
    assert sorted(name for name, *_ in kernel.named_priors()) == [f"{name}_prior" for name in FIELDS]
    kernel.sample_from_prior("steepness_prior")
    assert (kernel.steepness > 0).all()
    kernel.steepness = 7.0
    np.testing.assert_allclose(kernel.steepness.detach(), 7.0, rtol=1e-6)
    with pytest.raises(InputError, match="prior of lengthscale must be Gamma, LogNormal, Exponential or Normal"):
        HHK(2, prior=stationary_prior(2, lengthscale=dist.HalfNormal(1.0)))


def test_gpytorch_trains_it_and_gives_it_back():
    x = points(25, 2)
    y = np.where(x[:, 0] > 0.5, np.sin(20 * x[:, 1]), x[:, 1])

    class Model(gpytorch.models.ExactGP):
        def __init__(self, likelihood):
            super().__init__(tensor(x), tensor(y), likelihood)
            self.mean_module, self.covar_module = gpytorch.means.ZeroMean(), HHK.from_hyperleaf(hhk_prior(2, 2), seed=1)

        def forward(self, x):
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    likelihood = gpytorch.likelihoods.GaussianLikelihood().double()
    model = Model(likelihood)
    density = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.1)
    losses = []
    for _ in range(40):
        optimiser.zero_grad()
        loss = -density(model(tensor(x)), tensor(y))
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] - 0.1  # a mean over observations
    back = model.covar_module.to_hyperleaf()
    np.testing.assert_allclose(back(x), model.covar_module(tensor(x)).to_dense().detach(), rtol=0, atol=1e-10)


def test_a_trend_comes_along():
    gp, x = gp_with_trend(), points(6, 2)
    adapted = HHK.from_hyperleaf(gp)
    np.testing.assert_allclose(adapted(tensor(x)).to_dense().detach(), gp.covariance(x), rtol=0, atol=1e-10)
    np.testing.assert_allclose(adapted(tensor(x), diag=True).detach(), np.diag(gp.covariance(x)), rtol=0, atol=1e-10)
    np.testing.assert_allclose(adapted.to_hyperleaf()(x), gp.covariance(x), rtol=0, atol=1e-10)
    with pytest.raises(InputError, match="kernels of a batch have one tree"):
        HHK.from_hyperleaf([kernel_of(1, 2), kernel_of(2, 2)])
