"""Modes from many starts: against exact optima and SciPy, beside walls of −∞, told apart without labels."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy.optimize import minimize

from hyperleaf.data import Dataset
from hyperleaf.errors import InferenceError, InputError
from hyperleaf.gp import GP, Target, pad
from hyperleaf.inference.map import Map, find_modes
from hyperleaf.precision import float64
from hyperleaf.priors import Prior, hhk_prior


class Rosenbrock(eqx.Module):
    """Curved and badly scaled; one maximum, 0, at (1, …, 1)."""

    scale: float = 100.0

    def __call__(self, z):
        return -jnp.sum(self.scale * (z[1:] - z[:-1] ** 2) ** 2 + (1 - z[:-1]) ** 2)


class Walled(eqx.Module):
    """ln z − z for z > 0, −∞ elsewhere, as where a covariance has no factor; each coordinate's maximum is at 1."""

    def __call__(self, z):
        inside = (z > 0).all()
        safe = jnp.where(inside, z, 1.0)
        return jnp.where(inside, jnp.sum(jnp.log(safe) - safe), -jnp.inf)


class Mirrored(eqx.Module):
    """Two pairs of equal maxima: ± 1 with value 0, ± 4 with value −3."""

    def __call__(self, z):
        u = jnp.abs(z[0])
        return jnp.where(u < 2.5, -((u - 1) ** 2), -3.0 - (u - 4) ** 2)


class Nowhere(eqx.Module):
    value: float = -np.inf

    def __call__(self, z):
        return jnp.where(z[0] > 1e300, z[0], self.value)


class Observed(eqx.Module):
    """N(0, 1) before one observation of z at 2 with variance 1: the posterior's mode is 1, the likelihood's 2."""

    def log_likelihood(self, z):
        return -0.5 * jnp.sum((z - 2.0) ** 2)

    def __call__(self, z):
        return self.log_likelihood(z) - 0.5 * jnp.sum(z**2)


@float64
def hhk_target(n: int = 20, leaves: int = 4, seed: int = 0):
    rng = np.random.default_rng(seed)
    x = rng.uniform(size=(n, 2))
    y = np.where(x[:, 0] > 0.5, np.sin(12 * x[:, 0]), 0.1 * x[:, 1]) + 0.02 * rng.normal(size=n)
    prior = Prior(GP(hhk_prior(2, leaves), dist.Exponential(100.0)))
    target = Target(prior, pad(Dataset(x, (y - y.mean()) / y.std())), jnp.asarray(1.0))
    return target, np.asarray(prior.sample_vectors(jax.random.key(seed), 8))


def test_a_curved_valley_is_followed_to_its_end() -> None:
    starts = np.random.default_rng(0).normal(size=(6, 4)) * 2
    modes = find_modes(Rosenbrock(), starts, Map(max_steps=300))
    assert modes.converged.all()
    assert np.all(np.diff(modes.log_density) <= 0)
    # In four dimensions the valley has a second, local maximum near (−1, 1, 1, 1).
    best = modes.log_density > -1e-6
    assert best.sum() >= 3
    np.testing.assert_allclose(modes.z[best], 1.0, atol=2e-3)


def test_walls_only_shorten_the_step() -> None:
    starts = np.array([[5.0, 0.01], [1e-6, 3.0], [30.0, 30.0], [-1.0, 2.0]])
    modes = find_modes(Walled(), starts)
    np.testing.assert_allclose(modes.z[:3], 1.0, atol=1e-4)
    assert modes.converged.tolist() == [True, True, True, False]
    assert modes.log_density[3] == -np.inf  # started outside, stays last and is no mode
    assert modes.distinct.tolist() == [0]


def test_equal_optima_are_one() -> None:
    modes = find_modes(Mirrored(), np.array([[0.5], [-0.7], [3.5], [-4.4], [1.1]]))
    np.testing.assert_allclose(modes.log_density, [0, 0, 0, -3, -3], atol=1e-8)
    assert modes.distinct.tolist() == [0, 3]


def test_starts_that_lead_nowhere_are_an_error() -> None:
    for value in (-np.inf, np.nan):
        with pytest.raises(InferenceError, match="none of the 3 has one"):
            find_modes(Nowhere(value), np.zeros((3, 2)))
    with pytest.raises(InputError, match="shape"):
        find_modes(Nowhere(), np.zeros(3))


def test_without_the_prior_the_likelihood_alone_is_climbed() -> None:
    starts = np.array([[0.0], [5.0]])
    np.testing.assert_allclose(find_modes(Observed(), starts).z, 1.0, atol=1e-6)
    alone = find_modes(Observed(), starts, Map(prior=False))
    np.testing.assert_allclose(alone.z, 2.0, atol=1e-6)
    np.testing.assert_allclose(alone.log_density, 0.0, atol=1e-10)
    with pytest.raises(InputError, match="Walled has none"):
        find_modes(Walled(), starts, Map(prior=False))


def test_settings_are_checked() -> None:
    for wrong in ({"restarts": 0}, {"max_steps": 0}, {"tolerance": 0.0}):
        with pytest.raises(InputError, match=next(iter(wrong))):
            Map(**wrong)


def test_as_good_as_scipy_on_the_hyperplane_kernel() -> None:
    target, starts = hhk_target()
    modes = find_modes(target, starts)

    @eqx.filter_jit
    def cost(target, z):
        return jax.value_and_grad(lambda u: -target(u))(z)

    @float64
    def scipy_from(start):
        def fun(z):
            value, gradient = cost(target, jnp.asarray(z))
            return (float(value), np.asarray(gradient)) if np.isfinite(value) else (1e10, np.zeros_like(z))

        return -minimize(fun, start, jac=True, method="L-BFGS-B", options={"maxiter": 1000, "maxfun": 5000}).fun

    assert modes.converged.all()
    # Which basin a start falls into hangs on rounding, so it is not compared start by start: nothing may be left to gain at the
    # ends of the climbs, and what is reached must be as good on the whole.
    polished = np.array([scipy_from(z) for z in modes.z])
    np.testing.assert_array_less(polished, modes.log_density + 1e-3)
    theirs = np.array([scipy_from(start) for start in starts])
    assert np.median(modes.log_density) >= np.median(theirs) - 0.5
    assert modes.log_density[0] >= theirs.max() - 0.5


def test_modes_are_stationary_and_swapped_children_are_one_mode() -> None:
    target, starts = hhk_target(leaves=2)
    found = find_modes(target, starts)
    gradient = float64(eqx.filter_jit(jax.grad(target)))(found.z[0])
    assert np.abs(gradient).max() < 0.05

    @float64
    @jax.jit
    def mirrored(z):
        gp = target.prior.from_vector(z)
        gates = gp.kernel.gates
        flipped = eqx.tree_at(
            lambda g: (g.kernel.gates.offset, g.kernel.gates.normal, g.kernel.leaves.lengthscale, g.kernel.leaves.variance),
            gp,
            (-gates.offset, -gates.normal, gp.kernel.leaves.lengthscale[::-1], gp.kernel.leaves.variance[::-1]),
        )
        return target.prior.to_vector(flipped)

    twin = np.asarray(mirrored(found.z[0]))
    assert np.abs(twin - found.z[0]).max() > 0.1
    both = find_modes(target, np.stack([found.z[0], twin]))
    assert both.distinct.tolist() == [0]
