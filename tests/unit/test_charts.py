"""Charts, in which sharp gates and soft ones move alike: the same density in other coordinates."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hyperleaf.data import Dataset
from hyperleaf.inference.trajectories import POWERS, masses_of, trajectory_of
from hyperleaf.parallel import over_draws
from hyperleaf.precision import float64, put
from hyperleaf.priors import wide_priors
from hyperleaf.surrogates.gp import hhk_surrogate, stationary_surrogate


def problem(leaves=4, d=2):
    made = hhk_surrogate(d, leaves, **wide_priors(d))
    return made.problem(Dataset(np.full((1, d), 0.5), np.zeros(1)))


@pytest.mark.parametrize("power", POWERS)
@float64
def test_a_chart_is_undone_and_its_volume_and_gradient_are_those_of_autodiff(power):
    target = problem().posterior()
    chart = target.chart._replace(power=power)
    z = problem().prior_draws(jax.random.key(0), 3)
    u = chart.into(z)
    np.testing.assert_allclose(chart.back(u), z, atol=1e-12)
    density = target.prior.log_density
    for one, moved in zip(z, u, strict=True):
        _, volume = np.linalg.slogdet(jax.jacobian(chart.back)(moved))
        np.testing.assert_allclose(chart.log_volume(moved), volume, atol=1e-10)
        wanted = jax.grad(lambda v: density(chart.back(v)) + chart.log_volume(v))(moved)
        np.testing.assert_allclose(chart.gradient(one, jax.grad(density)(one)), wanted, rtol=1e-10, atol=1e-10)


@float64
def test_a_chart_scales_offset_and_normal_of_each_gate_by_its_own_steepness():
    prior = problem(leaves=4, d=2).prior
    z = np.asarray(prior.sample_vectors(jax.random.key(1), 1))[0]
    before, after = prior.from_vector(put(z)), prior.from_vector(prior.chart._replace(power=1.0).into(put(z)))
    gates, scaled = before.kernel.gates, after.kernel.gates
    np.testing.assert_allclose(scaled.offset, gates.steepness * gates.offset)
    np.testing.assert_allclose(scaled.normal, gates.steepness[:, None] * gates.normal)
    np.testing.assert_allclose(scaled.steepness, gates.steepness)
    np.testing.assert_allclose(after.kernel.leaves.lengthscale, before.kernel.leaves.lengthscale)


@float64
def test_a_kernel_without_gates_has_a_chart_that_changes_nothing():
    prior = stationary_surrogate(3).prior
    z = prior.sample_vectors(jax.random.key(0), 2)
    np.testing.assert_array_equal(prior.chart._replace(power=1.0).into(z), z)


@pytest.mark.parametrize("power", POWERS)
@float64
def test_trajectories_in_a_chart_leave_the_prior_as_it_is(power):
    """Draws of the prior, moved far by trajectories of the prior's own density, are draws of the prior still."""
    model, num = problem(leaves=2, d=1), 3000
    target = model.posterior()
    target = type(target)(target.prior, target.data, put(np.array([0, 0])), put(np.zeros(2)), target.moved, put(0.0), put(np.inf))
    z = model.prior_draws(jax.random.key(0), num)
    gradient = np.asarray(jax.vmap(jax.grad(target.prior.log_density))(z))
    mass = masses_of(np.asarray(z), gradient, np.ones(num, np.int64), target)[POWERS.index(power)]
    moved = z
    for key in jax.random.split(jax.random.key(1), 3):
        draws = (moved, jax.random.split(key, num))
        moved, value, _, acceptance, _ = over_draws(
            trajectory_of, draws, target, put(np.full(2, 0.2)), put(mass), put(12), put(power)
        )
    np.testing.assert_allclose(value, jax.vmap(target.prior.log_density)(moved), atol=1e-8)
    assert float(jnp.mean(acceptance)) > 0.5
    assert float(jnp.mean(jnp.abs(moved - z))) > 0.3
    first, second = np.asarray(z), np.asarray(moved)
    for a, b in ((first, second), (first**2, second**2)):
        error = np.sqrt((a.var(axis=0) + b.var(axis=0)) / num)
        assert np.abs((a.mean(axis=0) - b.mean(axis=0)) / error).max() < 4.5
