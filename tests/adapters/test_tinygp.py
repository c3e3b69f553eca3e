"""hyperleaf's kernels in tinygp and tinygp's in partitions: the same numbers, gradients, and training by its own likelihood."""

import sys
from importlib import import_module
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

from hyperleaf.data import Dataset
from hyperleaf.errors import InputError
from hyperleaf.inference.map import Map
from hyperleaf.kernels import RBF, Gates, Matern52, Partition, WarpedMultiIndex
from hyperleaf.precision import float64
from hyperleaf.surrogates.gp.surrogate import surrogate

sys.path.insert(0, str(Path(__file__).parent))
from kernels_to_adapt import CASES_FEW_NOW, LEAVES, gp_with_trend, kernel_of, package, points, reference

tinygp = package("tinygp", "tinygp")
adapter = import_module("hyperleaf.adapters.tinygp")
FromHyperleaf, FromTinygp = adapter.FromHyperleaf, adapter.FromTinygp


@pytest.mark.parametrize("depth, d", CASES_FEW_NOW)
@float64
def test_gram_matrices_and_gradients_are_those_of_hyperleaf(depth, d):
    kernel = kernel_of(depth, d, LEAVES[(depth + d) % 4], ("product", "sqrt")[depth % 2])
    adapted = FromHyperleaf(jax.tree.map(jnp.asarray, kernel))
    x, y, pull = points(9, d), points(5, d, 2), np.random.default_rng(3).normal(size=(9, 9))

    @jax.jit
    def of(one, x, y, pull):
        def total(one):
            gram = one(x, x)
            pairs = jax.vmap(one.evaluate)(x[:5], y)
            return jnp.sum(pull * gram), (gram, one(x, y), one(x), pairs, one.evaluate_diag(x[0]))

        slopes, values = jax.grad(total, has_aux=True)(one)
        return values, slopes

    (gram, cross, diagonal, pairs, one_point), slopes = of(adapted, *(jnp.asarray(v) for v in (x, y, pull)))
    wanted_gram, wanted_cross, wanted = reference(kernel, x, y, pull)
    for found, right in [(gram, wanted_gram), (cross, wanted_cross), (diagonal, np.diag(wanted_gram))]:
        np.testing.assert_allclose(found, right, rtol=0, atol=1e-10)
    np.testing.assert_allclose(pairs, np.diag(wanted_cross[:5]), rtol=0, atol=1e-10)
    np.testing.assert_allclose(one_point, wanted_gram[0, 0], rtol=0, atol=1e-10)
    inner = slopes.kernel.leaves if depth else slopes.kernel
    np.testing.assert_allclose(np.ravel(inner.lengthscale), np.ravel(wanted["lengthscale"]), rtol=0, atol=1e-10)
    if depth:
        np.testing.assert_allclose(slopes.kernel.gates.normal, wanted["normal"], rtol=0, atol=1e-10)
    assert np.linalg.eigvalsh(gram).min() > -1e-12


@float64
def test_tinygps_process_says_what_hyperleafs_says():
    kernel, x, y = kernel_of(2, 2), points(12, 2), np.sin(5 * points(12, 2)[:, 0])
    model = tinygp.GaussianProcess(FromHyperleaf(kernel), jnp.asarray(x), diag=0.01)
    covariance = kernel(x) + 0.01 * np.eye(12)
    log_density = -0.5 * (y @ np.linalg.solve(covariance, y) + np.linalg.slogdet(2 * np.pi * covariance)[1])
    assert float(model.log_probability(jnp.asarray(y))) == pytest.approx(log_density, abs=1e-10)
    gp = gp_with_trend()
    np.testing.assert_allclose(FromHyperleaf(gp)(x, x), gp.covariance(x), atol=1e-12)
    summed = FromHyperleaf(kernel) + 2.0 * tinygp.kernels.Matern32(0.3)
    np.testing.assert_allclose(summed(x, x), kernel(x) + 2.0 * tinygp.kernels.Matern32(0.3)(x, x), atol=1e-12)
    assert FromHyperleaf(kernel).to_hyperleaf() is kernel
    line = FromHyperleaf(kernel_of(1, 1))
    assert line(jnp.linspace(0, 1, 4), jnp.linspace(0, 1, 3)).shape == (4, 3)
    assert FromHyperleaf(WarpedMultiIndex(np.eye(2)))(x, x).shape == (12, 12)


@float64
def test_kernels_of_tinygp_are_leaves_of_a_partition():
    gates, x = Gates([-0.4], [[1.0, -0.2]], [9.0]), points(8, 2)
    mixed = Partition(gates, (FromTinygp(1.5 * tinygp.kernels.ExpSquared(0.4)), FromTinygp(tinygp.kernels.Matern52(0.2))))
    # tinygp's Matérn takes the sum of absolute differences for a distance unless told otherwise.
    l2 = tinygp.kernels.distance.L2Distance()
    same = Partition(gates, (RBF(0.4, 1.5), FromTinygp(tinygp.kernels.Matern52(0.2, distance=l2))))
    np.testing.assert_allclose(same(x), Partition(gates, (RBF(0.4, 1.5), Matern52(0.2)))(x), atol=1e-12)
    assert np.linalg.eigvalsh(mixed(x)).min() > -1e-12
    np.testing.assert_allclose(np.diag(mixed(x)), mixed.diagonal(jnp.asarray(x)), atol=1e-13)
    slopes = jax.grad(lambda one: jnp.sum(one.gram(jnp.asarray(x)) ** 2))(jax.tree.map(jnp.asarray, mixed))
    assert abs(float(slopes.leaves[1].kernel.scale)) > 0


def test_a_leaf_of_tinygp_with_priors_is_learned():
    x = points(12, 1)
    leaf = FromTinygp(tinygp.kernels.ExpSquared(), scale=dist.LogNormal(0.0, 1.0))
    gates = Gates(dist.Normal(0.0, 1.0).expand((1,)), dist.Normal(0.0, 1.0).expand((1, 1)), np.array([8.0]))
    model = surrogate(Partition(gates, (leaf, RBF(0.3, 1.0))), inference=Map(restarts=2, max_steps=30))
    assert model.prior.size == 1 + 1 + 1 + 1  # an offset, a normal, the scale, the noise
    posterior = model.fit(Dataset(x, np.sin(9 * x[:, 0])), key=jax.random.key(0))
    assert float(np.sqrt(np.mean((posterior.predict(x).mean() - np.sin(9 * x[:, 0])) ** 2))) < 0.2
    assert float(posterior.draw().kernel.leaves[0].kernel.scale) > 0


def test_what_is_no_kernel_and_unknown_fields_are_refused():
    with pytest.raises(InputError, match=r"a kernel or a GP of hyperleaf is needed; got str"):
        FromHyperleaf("rbf")
    with pytest.raises(InputError, match="a kernel of tinygp is needed"):
        FromTinygp(RBF(1.0))
    with pytest.raises(InputError, match="ExpSquared has no field 'scales'; did you mean 'scale'"):
        FromTinygp(tinygp.kernels.ExpSquared(), scales=1.0)
    assert eqx.is_array_like(FromTinygp(tinygp.kernels.ExpSquared(0.3)).kernel.scale)
