"""The warped surrogate: where maximum likelihood starts, searches and ends, and the same model with priors."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

from hyperleaf.data import Dataset
from hyperleaf.errors import InputError
from hyperleaf.gp import GP, Target, pad
from hyperleaf.inference import map as maps
from hyperleaf.inference.hmc import HMC, NUTS
from hyperleaf.inference.map import Map
from hyperleaf.inference.smc import SMC
from hyperleaf.kernels import WarpedMultiIndex
from hyperleaf.parallel import over_draws
from hyperleaf.precision import float64
from hyperleaf.surrogates.gp import NOISE_BOUNDS, warped_surrogate

TRUE = GP(WarpedMultiIndex(np.array([[0.8, 0.5], [-0.4, 0.9]]), [0.5, 2.0], [2.0, 0.6], [0.15, 0.3], 1.0), 0.01)


def drawn(n: int, seed: int) -> Dataset:
    """Observations drawn from the model itself."""
    rng = np.random.default_rng(seed)
    x = rng.random((n, 2))
    covariance = TRUE.kernel(x) + TRUE.noise * np.eye(n)
    return Dataset(x, np.linalg.cholesky(covariance) @ rng.standard_normal(n))


@float64
def log_likelihood(model, data: Dataset, z) -> float:
    return float(Target(model.prior, pad(data)).log_likelihood(jnp.asarray(z)))


@pytest.fixture(scope="module")
def fitted():
    data = drawn(16, 0)
    return data, warped_surrogate(2).fit(data, key=jax.random.key(0))


def test_maximum_likelihood_beats_the_parameters_that_made_the_data(fitted):
    data, posterior = fitted
    modes, model = posterior.diagnostics.extra["modes"], posterior.surrogate
    assert posterior.diagnostics.method == "ml" and posterior.num_draws == 1
    true = float64(model.prior.to_vector)(TRUE)
    start = float64(model.prior.to_vector)(model.start)
    assert modes.log_density[0] > log_likelihood(model, data, true) > log_likelihood(model, data, start)
    assert modes.log_density[0] == pytest.approx(log_likelihood(model, data, posterior.z[0]), abs=1e-8)
    assert len(modes.log_density) == 10 and np.all(np.diff(modes.log_density) <= 0)


def test_what_was_found_lies_between_the_bounds(fitted):
    draw = fitted[1].draw()
    kernel = draw.kernel
    for values, (low, high) in (
        (kernel.a, (0.1, 10.0)), (kernel.b, (0.1, 10.0)), (kernel.lengthscale, (0.05, 10.0)),
        (kernel.variance, (0.05, 20.0)), (draw.noise, NOISE_BOUNDS),
    ):  # fmt: skip
        assert (values >= low * (1 - 1e-9)).all() and (values <= high * (1 + 1e-9)).all()
    assert kernel.slope == 1.0


def test_the_first_start_is_no_warp_and_the_others_are_drawn(fitted, monkeypatch):
    data, posterior = fitted
    seen = []

    def record(target, starts, config):
        seen.append(np.asarray(starts))
        return posterior.diagnostics.extra["modes"]

    monkeypatch.setattr(maps, "find_modes", record)
    model = warped_surrogate(2)
    model.fit(data, key=jax.random.key(1))
    first = float64(model.prior.from_vector)(jnp.asarray(seen[0][0])).kernel
    np.testing.assert_allclose(first.index, np.eye(2), atol=1e-12)
    np.testing.assert_allclose([first.a, first.b], 1.0, rtol=1e-9)
    assert seen[0].shape == (10, model.prior.size) and len(np.unique(seen[0].round(6), axis=0)) == 10
    # An update starts at what was found, at no warp, and at new draws.
    posterior.update([[0.5, 0.5]], [0.0], key=jax.random.key(2))
    np.testing.assert_array_equal(seen[1][0], posterior.z[0])
    np.testing.assert_allclose(seen[1][1], seen[0][0], atol=1e-12)
    assert len(seen[1]) == 10


def test_too_few_observations_for_the_parameters_are_named(fitted):
    data, posterior = fitted
    assert posterior.diagnostics.messages == ()
    posterior = warped_surrogate(2).fit(Dataset(data.x[:11], data.y[:11]), key=jax.random.key(0))
    assert "11 observations do not determine 12 parameters" in posterior.diagnostics.messages[0]


@pytest.mark.parametrize(
    "inference",
    [
        SMC(particles=8, leapfrog=2, start_moves=1),
        pytest.param(NUTS(warmup=10, draws=5, chains=2, max_depth=3), marks=pytest.mark.long),
        pytest.param(HMC(burn_in=10, draws=10, thin=2), marks=pytest.mark.long),
    ],
    ids=["smc", "nuts", "hmc"],
)
def test_priors_of_our_own_make_it_fully_bayesian(fitted, inference):
    data, _ = fitted
    model = warped_surrogate(2, inference=inference, noise=50.0)
    posterior = model.fit(data, key=jax.random.key(0))
    assert isinstance(model.model.kernel.a.base_dist, dist.LogNormal) and posterior.num_draws > 1
    mixture = posterior.predict(data.x)
    assert np.isfinite(mixture.means).all() and np.ptp(mixture.means, axis=0).min() > 0


def test_settings_reach_the_model():
    assert warped_surrogate(3, 2, inference=HMC()).model.kernel.index.shape() == (2, 3)
    assert isinstance(warped_surrogate(2).model.noise, dist.LogUniform)
    assert isinstance(warped_surrogate(2, inference=Map(), noise=100.0).model.noise, dist.Exponential)
    given = dist.LogNormal(-4.0, 1.0)
    assert warped_surrogate(2, noise=given).model.noise is given
    known = warped_surrogate(2, noise="known", mean="linear")
    assert known.model.noise == 0.0 and known.start.noise == 0.0 and known.start.mean == "linear"
    assert warped_surrogate(2, shape=(0.5, 2.0)).model.kernel.a.base_dist.low == 0.5
    for wrong in ({"noise": -1.0}, {"noise": "loud"}, {"mean": "cubic"}, {"indices": 0}):
        with pytest.raises(InputError):
            warped_surrogate(2, **wrong)


def _value_and_gradient(z, target):
    return jax.value_and_grad(target)(z)


@pytest.mark.parametrize("size", [16, 17, 24])
@float64
def test_the_value_beside_its_gradient_is_the_value_alone(size):
    """At 16 and 17 points in one dimension the compiler got it wrong, and samplers went elsewhere without a sign of it."""
    rng = np.random.default_rng(0)
    data = Dataset(rng.random((14, 1)), rng.standard_normal(14))
    model = warped_surrogate(1, inference=NUTS())
    target, z = Target(model.prior, pad(data, size)), model.prior.sample_vectors(jax.random.key(1), 16)
    alone = jax.jit(lambda z: jax.lax.map(target, z))(z)
    beside, _ = over_draws(_value_and_gradient, z, target)
    np.testing.assert_allclose(beside, alone, rtol=1e-6, atol=1e-6)
