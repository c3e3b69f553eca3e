"""The kernel of scikit-learn: hyperleaf's numbers and gradients, scikit-learn's own checks, its regressor and its optimiser."""

import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import WhiteKernel
from sklearn.gaussian_process.tests import test_kernels as checks

from hyperleaf.adapters.sklearn import HHK
from hyperleaf.errors import InputError
from hyperleaf.kernels import Constant, Linear, RationalQuadratic, WarpedMultiIndex
from hyperleaf.priors import hhk_prior

sys.path.insert(0, str(Path(__file__).parent))
from kernels_to_adapt import CASES, LEAVES, gp_with_trend, kernel_of, points, reference

POSITIVE = ("lengthscale", "steepness", "variance")


@pytest.mark.parametrize("depth, d", CASES)
def test_gram_matrices_and_gradients_are_those_of_hyperleaf(depth, d):
    leaf, weights = LEAVES[(depth + d) % 4], ("product", "sqrt")[depth % 2]
    kernel = kernel_of(depth, d, leaf, weights)
    adapted = HHK.from_hyperleaf(kernel)
    x, y, pull = points(9, d), points(5, d, 2), np.random.default_rng(3).normal(size=(9, 9))
    wanted_gram, wanted_cross, wanted = reference(kernel, x, y, pull)
    np.testing.assert_allclose(adapted(x, y), wanted_cross, rtol=0, atol=1e-10)
    gram, slopes = adapted(x, eval_gradient=True)
    np.testing.assert_allclose(gram, wanted_gram, rtol=0, atol=1e-10)
    np.testing.assert_allclose(adapted.diag(x), np.diag(wanted_gram), rtol=0, atol=1e-10)
    wanted = {name: value * np.asarray(getattr(adapted, name) if name in POSITIVE else 1.0) for name, value in wanted.items()}
    flat = np.concatenate([np.ravel(wanted[one.name]) for one in adapted.hyperparameters])
    np.testing.assert_allclose(np.einsum("nm,nmp->p", pull, slopes), flat, rtol=0, atol=1e-10)
    assert np.linalg.eigvalsh(gram).min() > -1e-12
    np.testing.assert_allclose(adapted(x)[2:5, 1:3], adapted(x[2:5], x[1:3]), rtol=0, atol=1e-13)
    assert HHK.from_hyperleaf(adapted.to_hyperleaf()) == adapted


KERNELS = {
    "one leaf": HHK.from_hyperleaf(kernel_of(0, 2)),
    "four leaves": HHK.from_hyperleaf(kernel_of(2, 2)),
    "matern": HHK.from_hyperleaf(kernel_of(1, 2, LEAVES[3], "sqrt")),
    "trend": HHK.from_hyperleaf(gp_with_trend()),
    "a sum": HHK.from_hyperleaf(kernel_of(1, 2)) + 2.0 * HHK.from_hyperleaf(kernel_of(0, 2)),
    "some fixed": HHK.from_hyperleaf(kernel_of(1, 2), steepness_bounds="fixed"),
}
CHECKS = (
    "test_kernel_gradient",
    "test_auto_vs_cross",
    "test_kernel_diag",
    "test_kernel_input_type",
    "test_kernel_clone",
    "test_kernel_clone_after_set_params",
    "test_kernel_versus_pairwise",
    "test_repr_kernels",
)


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("name", KERNELS)
def test_checks_of_scikit_learn_pass(name, check):
    getattr(checks, check)(KERNELS[name])


def test_checks_of_theta_pass_where_all_parameters_are_positive():
    """`test_set_get_params` takes theta for logarithms throughout, so it holds where there are no gates."""
    checks.test_kernel_stationary(KERNELS["one leaf"])
    one_number = HHK(lengthscale=((0.4,),), normal_bounds="fixed")
    checks.test_set_get_params(HHK(lengthscale=((0.4,),)))
    assert len(one_number.theta) == 2


def test_theta_holds_what_is_not_fixed_and_sets_it():
    kernel = clone(KERNELS["four leaves"])
    assert len(kernel.theta) == len(kernel.bounds) == kernel.n_dims == 4 * 2 + 3 * 2 + 3 + 3 + 4
    assert ((kernel.bounds[:, 0] < kernel.theta) & (kernel.theta < kernel.bounds[:, 1])).all()
    theta = kernel.theta + 0.1
    moved = kernel.clone_with_theta(theta)
    np.testing.assert_allclose(moved.theta, theta, rtol=1e-14)
    np.testing.assert_allclose(np.asarray(moved.offset), np.asarray(kernel.offset) + 0.1)
    np.testing.assert_allclose(np.asarray(moved.variance), np.asarray(kernel.variance) * np.exp(0.1))
    assert kernel == KERNELS["four leaves"] and moved != kernel
    fixed = KERNELS["some fixed"]
    assert len(fixed.theta) == len(HHK.from_hyperleaf(kernel_of(1, 2)).theta) - 1
    with pytest.raises(ValueError, match="theta has 9 entries"):
        fixed.theta = np.zeros(3)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # maximum likelihood likes gates at their bounds
def test_scikit_learns_regressor_trains_it():
    x = points(25, 2)
    y = np.where(x[:, 0] > 0.5, np.sin(20 * x[:, 1]), x[:, 1])
    start = HHK.from_hyperleaf(hhk_prior(2, 2), seed=1, lengthscale_bounds=(0.05, 10)) + WhiteKernel(1e-3, (1e-6, 1.0))
    model = GaussianProcessRegressor(start, random_state=0).fit(x, y)
    assert model.log_marginal_likelihood_value_ > model.log_marginal_likelihood(start.theta) + 5
    assert np.isfinite(model.predict(x, return_std=True)[1]).all()
    learned = model.kernel_.k1.to_hyperleaf()
    np.testing.assert_allclose(learned(x), model.kernel_.k1(x), atol=1e-10)


def test_a_trend_comes_along_and_goes_back():
    gp, x = gp_with_trend(), points(6, 2)
    adapted = HHK.from_hyperleaf(gp)
    np.testing.assert_allclose(adapted(x), gp.covariance(x), rtol=0, atol=1e-12)
    np.testing.assert_allclose(adapted.diag(x), np.diag(gp.covariance(x)), rtol=0, atol=1e-12)
    np.testing.assert_allclose(adapted.to_hyperleaf()(x), gp.covariance(x), rtol=0, atol=1e-12)


def test_what_has_no_counterpart_is_refused_with_the_remedy():
    with pytest.raises(InputError, match=r"leaves that go to other frameworks are one of .*got RationalQuadratic"):
        HHK.from_hyperleaf(RationalQuadratic(0.3))
    with pytest.raises(InputError, match="one Partition or stationary kernel"):
        HHK.from_hyperleaf(WarpedMultiIndex(np.eye(2)))
    with pytest.raises(InputError, match="one Partition or stationary kernel"):
        HHK.from_hyperleaf(kernel_of(1, 2) + Linear(1.0, center=0.0))
    with pytest.raises(InputError, match=r"posterior.draw\(\)"):
        HHK.from_hyperleaf("rbf")
    with pytest.raises(InputError, match="a tree of 2 leaves has variance"):
        HHK(offset=(0.1, 0.2), tree=(0, 1))(points(3, 1))
    with pytest.raises(InputError, match=r"X must have shape \(n, 2\)"):
        KERNELS["four leaves"](points(3, 1))
    assert (HHK.from_hyperleaf(kernel_of(1, 2) + Constant(2.0)).constant, KERNELS["trend"].linear) == (2.0, 4.0)
