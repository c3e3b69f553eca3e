"""hyperleaf's kernels in GPJax and GPJax's in partitions: the same numbers and gradients, trained by its own `fit_scipy`."""

import sys
from importlib import import_module
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

from hyperleaf.errors import InputError
from hyperleaf.kernels import RBF, Gates, Matern52, Partition
from hyperleaf.precision import float64
from hyperleaf.priors import Prior

sys.path.insert(0, str(Path(__file__).parent))
from kernels_to_adapt import CASES, FIELDS, LEAVES, gp_with_trend, kernel_of, package, points, reference

gpjax = package("gpjax", "gpjax")
adapter = import_module("hyperleaf.adapters.gpjax")
FromGPJax, FromHyperleaf = adapter.FromGPJax, adapter.FromHyperleaf


def fields(kernel, depth):
    found = {"lengthscale": kernel.leaves.lengthscale, "variance": kernel.leaves.variance} if depth else vars(kernel)
    return {**found, **(vars(kernel.gates) if depth else {})}


@pytest.mark.parametrize("depth, d", CASES)
@float64
def test_gram_matrices_and_gradients_are_those_of_hyperleaf(depth, d):
    kernel = kernel_of(depth, d, LEAVES[(depth + d) % 4], ("product", "sqrt")[depth % 2])
    adapted = FromHyperleaf(kernel)
    x, y, pull = points(9, d), points(5, d, 2), np.random.default_rng(3).normal(size=(9, 9))

    @jax.jit
    def of(one, x, y, pull):
        def total(one):
            gram = one.gram(x).as_matrix()
            return jnp.sum(pull * gram), (gram, one.cross_covariance(x, y), one.diagonal(x).as_matrix(), one(x[0], y[0]))

        slopes, values = jax.grad(total, has_aux=True)(one)
        return values, slopes

    (gram, cross, diagonal, pair), slopes = of(adapted, *(jnp.asarray(v) for v in (x, y, pull)))
    wanted_gram, wanted_cross, wanted = reference(kernel, x, y, pull)
    for found, right in [(gram, wanted_gram), (cross, wanted_cross), (diagonal, np.diag(np.diag(wanted_gram)))]:
        np.testing.assert_allclose(found, right, rtol=0, atol=1e-10)
    assert float(pair) == pytest.approx(wanted_cross[0, 0], abs=1e-10)
    raw, by_raw = fields(adapted.kernel, depth), fields(slopes.kernel, depth)
    for name in FIELDS if depth else ("lengthscale", "variance"):
        positive = name in ("lengthscale", "variance", "steepness")
        # PositiveReal is the softplus of what is trained, whose slope is the sigmoid.
        slope = jax.nn.sigmoid(raw[name]._unconstrained) if positive else 1.0
        found = by_raw[name]._unconstrained if positive else by_raw[name].value
        np.testing.assert_allclose(np.ravel(found), np.ravel(wanted[name]) * np.ravel(slope), rtol=0, atol=1e-10)
    assert np.linalg.eigvalsh(gram).min() > -1e-12
    np.testing.assert_allclose(adapted.to_hyperleaf()(x), wanted_gram, rtol=0, atol=1e-10)


@float64
def test_gpjax_trains_it_and_gives_it_back():
    x = points(25, 2)
    y = np.where(x[:, 0] > 0.5, np.sin(20 * x[:, 1]), x[:, 1])[:, None]
    data = gpjax.Dataset(X=jnp.asarray(x), y=jnp.asarray(y))
    prior = gpjax.gps.Prior(mean_function=gpjax.mean_functions.Zero(), kernel=FromHyperleaf(kernel_of(1, 2)))
    model = prior * gpjax.likelihoods.Gaussian()
    loss = lambda one, data: -gpjax.objectives.conjugate_mll(one, data)  # noqa: E731, as in GPJax's own examples
    trained, _ = gpjax.fit_scipy(model=model, objective=loss, train_data=data, max_iters=20, verbose=False)
    assert float(loss(trained, data)) < float(loss(model, data)) - 3
    back = trained.prior.kernel.to_hyperleaf()
    np.testing.assert_allclose(back(x), trained.prior.kernel.gram(jnp.asarray(x)).as_matrix(), atol=1e-10)


@float64
def test_a_trend_comes_along_and_columns_are_chosen():
    gp, x = gp_with_trend(), points(6, 3)
    adapted = FromHyperleaf(gp, active_dims=[0, 2])
    np.testing.assert_allclose(adapted.gram(x).as_matrix(), gp.covariance(x[:, [0, 2]]), rtol=0, atol=1e-12)
    np.testing.assert_allclose(np.diag(adapted.diagonal(x).as_matrix()), np.diag(gp.covariance(x[:, [0, 2]])), atol=1e-12)
    summed = FromHyperleaf(kernel_of(1, 3)) + gpjax.kernels.Matern32(lengthscale=0.3)
    assert summed.gram(x).as_matrix().shape == (6, 6)


@float64
def test_kernels_of_gpjax_are_leaves_of_a_partition():
    gates, x = Gates([-0.4], [[1.0, -0.2]], [9.0]), points(8, 2)
    theirs = (FromGPJax(gpjax.kernels.RBF(lengthscale=0.4, variance=1.5)), FromGPJax(gpjax.kernels.Matern52(lengthscale=0.2)))
    ours = Partition(gates, (RBF(0.4, 1.5), Matern52(0.2)))
    np.testing.assert_allclose(Partition(gates, theirs)(x), ours(x), rtol=0, atol=1e-10)
    np.testing.assert_allclose(Partition(gates, theirs).diagonal(jnp.asarray(x)), np.diag(ours(x)), atol=1e-10)
    prior = Prior(Partition(gates, (FromGPJax(gpjax.kernels.RBF(), lengthscale=dist.LogNormal(0.0, 1.0)), RBF(0.3))))
    assert prior.size == 1
    assert np.isfinite(prior.sample(jax.random.key(0))(x)).all()


def test_what_is_no_kernel_is_refused():
    with pytest.raises(InputError, match="a kernel of GPJax is needed; got RBF"):
        FromGPJax(RBF(1.0))
    with pytest.raises(InputError, match=r"a kernel or a GP of hyperleaf is needed; got str"):
        FromHyperleaf("rbf")
