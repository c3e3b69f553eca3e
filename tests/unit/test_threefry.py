"""JAX's random numbers in NumPy: the bits of keys, and numbers equal to rounding."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

from hyperleaf.gp import GP
from hyperleaf.machine import threefry
from hyperleaf.precision import float64
from hyperleaf.priors import Prior, hhk_prior, stationary_prior

KEY = threefry.data_of(jax.random.key(3))


@pytest.mark.parametrize("seed", [0, 7, 2**32 - 1, 2**40 + 5])
@float64
def test_keys_are_those_of_jax(seed):
    key = jax.random.key(seed)
    ours = threefry.data_of(threefry.seeded(seed))
    np.testing.assert_array_equal(ours, threefry.data_of(key))
    np.testing.assert_array_equal(threefry.split(ours, 5), threefry.data_of(jax.random.split(key, 5)))
    folded = jax.random.fold_in(jax.random.fold_in(key, 9), 1000)
    assert threefry.seeded(seed, 9, 1000) == folded and threefry.folded(threefry.seeded(seed, 9), 1000) == folded


@float64
def test_other_generators_are_left_to_jax():
    key = jax.random.key(0, impl="rbg")
    assert not threefry.is_default(key)
    assert threefry.folded(key, 3) == jax.random.fold_in(key, 3)


@float64
def test_numbers_are_those_of_jax():
    key = jax.random.key(3)
    expected = jax.random.uniform(key, (3, 4), jnp.float64, -2.0, 5.0)
    np.testing.assert_allclose(threefry.uniform(KEY, (3, 4), -2.0, 5.0), expected, rtol=1e-14)
    np.testing.assert_allclose(threefry.normal(KEY, (50,)), jax.random.normal(key, (50,), jnp.float64), rtol=1e-13)
    shape = np.geomspace(0.05, 50.0, 400)  # below one a number is boosted; large ones are rejected now and then
    ours = threefry.gamma(threefry.split(KEY, 400), shape)
    np.testing.assert_allclose(ours, jax.random.gamma(key, jnp.asarray(shape)), rtol=1e-11)


def test_gammas_have_the_moments_that_they_should():
    numbers = threefry.gamma(threefry.split(KEY, 40_000), np.full(40_000, 0.7))
    assert abs(numbers.mean() - 0.7) < 5 * np.sqrt(0.7 / 40_000) and abs(numbers.var() - 0.7) < 0.05


@float64
def test_prior_draws_are_those_of_jax():
    kernel = hhk_prior(3, 2, steepness=dist.LogNormal(1.0, 1.5), lengthscale=dist.Exponential(2.0))
    prior = Prior(GP(kernel, dist.Gamma(0.5, 20.0)))
    key = jax.random.key(5)
    expected = jax.vmap(lambda k: prior.to_vector(prior.sample(k)))(jax.random.split(key, 20))
    np.testing.assert_allclose(prior.sample_vectors(key, 20), expected, rtol=1e-10, atol=1e-11)


@float64
def test_priors_of_other_distributions_are_drawn_by_jax():
    prior = Prior(stationary_prior(1, lengthscale=dist.HalfNormal(1.0)))
    assert np.isfinite(prior.sample_vectors(jax.random.key(0), 3)).all()


@float64
def test_a_draw_in_numpy_is_the_one_behind_its_vector():
    prior = Prior(GP(hhk_prior(2, 2), dist.LogNormal(0.0, 1.0)))
    z = np.asarray(prior.sample_vectors(jax.random.key(1), 1))[0]
    ours, theirs = jax.tree.leaves(prior.numbers(z)), jax.tree.leaves(prior.from_vector(jnp.asarray(z)))
    for one, other in zip(ours, theirs, strict=True):
        assert isinstance(one, np.ndarray)
        np.testing.assert_allclose(one, other, rtol=1e-14)
