"""Sequential Monte Carlo: its parts, and what it does with data that break things. Statistical tests are in tests/statistical."""

import dataclasses
from collections import Counter

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import hyperleaf.gp
import hyperleaf.parallel
from hyperleaf.data import Dataset
from hyperleaf.errors import InferenceError, InputError
from hyperleaf.gp import Tempered, log_likelihood, pad
from hyperleaf.inference import smc
from hyperleaf.inference.annealing import pooled
from hyperleaf.inference.smc import SMC, Info, begin, bridge, merged, move, reweight, strata_of
from hyperleaf.inference.trajectories import masses
from hyperleaf.kernels import RBF
from hyperleaf.precision import float64
from hyperleaf.surrogates.gp import GPSurrogate, hhk_surrogate, surrogate

rng = np.random.default_rng(2)
X = rng.uniform(size=(12, 2))
Y = np.sin(4 * X[:, 0]) * X[:, 1]
GRID = rng.uniform(size=(9, 2))
# One small model for all tests of the surrogate, so that it compiles once: few particles, short moves.
CONFIG = SMC(particles=12, max_moves=2, leapfrog=4)
MODEL = hhk_surrogate(2, 2, inference=CONFIG)
KEY = jax.random.key(0)


@pytest.fixture(scope="module")
def fitted():
    return MODEL.fit(Dataset(X[:5], Y[:5]), key=KEY)


def frozen(posterior):
    """A copy of all arrays of a posterior."""
    return [np.array(leaf) for leaf in jax.tree.leaves((posterior.z, posterior.log_weights, posterior.seen, posterior.particles))]


def assert_usable(posterior, n):
    assert posterior.data.num_observations == n
    assert np.isfinite(posterior.log_evidence)
    assert posterior.weights.sum() == pytest.approx(1.0)
    mixture = posterior.predict(GRID)
    assert np.isfinite(mixture.means).all() and (mixture.variances >= 0).all()


# The parts.


@float64
def test_a_tempered_target_weighs_old_and_all_data_and_priors_of_old_and_new_units_by_their_powers():
    data, prior = Dataset(X[:7], Y[:7]), MODEL.prior
    value_alone, both_at_once = eqx.filter_jit(lambda target, z: target(z)), eqx.filter_jit(lambda t, z: t.value_and_grad(z))
    z = prior.sample_vectors(KEY, 1)[0]
    gp = prior.from_vector(z)
    old, both = (float(log_likelihood(gp, pad(Dataset(X[:n], Y[:n])))) for n in (4, 7))
    moved = jnp.linspace(-1.0, 1.0, prior.size)
    for moved_power, powers in enumerate([(0.0, 0.0), (0.0, 1.0), (1.0, 0.0), (0.3, 0.7), (0.0, 0.2)]):
        moved_power = 0.25 * moved_power
        shares = [jnp.asarray(powers), moved, jnp.asarray(moved_power)]
        target = Tempered(prior, pad(data), jnp.asarray([4, 7]), *shares, jnp.asarray(0.0))
        log_prior = (1 - moved_power) * prior.log_density(z) + moved_power * prior.log_density(z + moved)
        expected = float(log_prior) + powers[0] * old + powers[1] * both
        value, gradient = both_at_once(target, z)
        assert float(value_alone(target, z)) == pytest.approx(expected, rel=1e-9)
        assert float(value) == pytest.approx(expected, rel=1e-9)
        direction = jnp.ones_like(z) / jnp.sqrt(z.size)
        slope = (value_alone(target, z + 1e-5 * direction) - value_alone(target, z - 1e-5 * direction)) / 2e-5
        assert float(gradient @ direction) == pytest.approx(float(slope), rel=1e-4)


@float64
def test_reweighting_normalises_and_adds_up_the_evidence():
    particles = begin(jnp.zeros((4, 1)))
    first, info = reweight(particles, jnp.log(jnp.asarray([1.0, 2.0, 3.0, jnp.nan])))
    np.testing.assert_allclose(np.exp(first.log_weights), [1 / 6, 2 / 6, 3 / 6, 0.0], atol=1e-15)
    assert float(first.log_evidence) == pytest.approx(np.log(6 / 4))
    assert info.failed == 1
    assert float(first.ess) == pytest.approx(36 / 14)
    second, _ = reweight(first, jnp.log(jnp.asarray([1.0, 1.0, 3.0, 100.0])))
    assert float(second.log_evidence) == pytest.approx(np.log(6 / 4) + np.log((1 + 2 + 9) / 6))
    with pytest.raises(InferenceError, match="all 4 particles"):
        reweight(first, jnp.full(4, -jnp.inf))


class Gaussian(eqx.Module):
    """Independent normals of the given standard deviations."""

    std: jax.Array

    def __call__(self, z):
        return -0.5 * jnp.sum((z / self.std) ** 2)


@float64
def test_moves_keep_a_gaussian_and_masses_are_its_precisions():
    std = jnp.asarray([0.1, 1.0, 10.0])
    z = std * jax.random.normal(KEY, (400, 3), jnp.float64)
    np.testing.assert_allclose(masses(np.asarray(-z / std**2)), 1 / std**2, rtol=0.25)
    moved, info = move(begin(z), Gaussian(std), SMC(particles=400, correlation=0.1), jax.random.key(1))
    assert info.travelled >= 0.9 and 0.4 < info.acceptance <= 1
    assert info.gradients >= 400 * (1 + info.trajectories)
    # Standard error of a standard deviation from 400 draws is 3.5 %.
    np.testing.assert_allclose(np.std(moved.z, axis=0) / std, 1.0, atol=4 * 0.0354)
    np.testing.assert_array_equal(moved.log_weights, begin(z).log_weights)


class Halves(Gaussian):
    """A standard normal whose halves, by the sign of the first coordinate, are strata."""

    @property
    def stratum(self):
        return first_is_positive


def first_is_positive(z):
    return jnp.where(z[0] > 0, 1, 0)


@float64
def test_trajectories_stay_in_their_stratum_and_keep_the_density_within():
    target = Halves(jnp.ones(2))
    z = jax.random.normal(KEY, (400, 2), jnp.float64)
    strata = strata_of(z, target)
    assert 100 < strata.sum() < 300
    moved, info = move(begin(z), target, SMC(particles=400, correlation=0.1), jax.random.key(1))
    np.testing.assert_array_equal(strata_of(moved.z, target), strata)
    assert info.travelled > 0.5
    # |z₀| is half-normal in both: mean √(2/π), standard deviation 0.603.
    for k in (0, 1):
        values = np.abs(np.asarray(moved.z)[strata == k, 0])
        assert abs(values.mean() - np.sqrt(2 / np.pi)) < 4 * 0.603 / np.sqrt(len(values))
    assert moved.step_size.shape == (2, 2)  # two charts, two strata
    assert strata_of(z, Gaussian(jnp.ones(2))).sum() == 0


@float64
def test_tempering_that_stands_still_is_an_error(monkeypatch):
    monkeypatch.setattr(smc, "MAX_TEMPERATURES", 1)
    far = jnp.asarray([1e-4, 1e-4])

    def path(t):
        return Gaussian(1 / jnp.sqrt((1 - t) + t / far**2))

    with pytest.raises(InferenceError, match="stands still"):
        bridge(begin(jax.random.normal(KEY, (16, 2), jnp.float64)), path, SMC(particles=16, max_moves=1), KEY)


def test_settings_out_of_range_are_refused():
    floats = [{"threshold": 0.0}, {"target_acceptance": 1.0}, {"correlation": 1.0}, {"refresh": -0.1}, {"share": 0.6}]
    for bad in [{"particles": 1}, {"leapfrog": 0}, {"max_moves": 0}, {"islands": 0}, {"chains": 0}, *floats]:
        with pytest.raises(InputError, match=next(iter(bad))):
            SMC(**bad)


def test_infos_add_up():
    total = Info((0.5,), 2, 10, 0.7, 0.4, 60.0, 1) + Info((1.0,), 1, 5)
    assert total == Info((0.5, 1.0), 3, 15, 0.7, 0.4, 60.0, 1)


@float64
def test_two_sets_of_particles_are_merged_by_their_evidence():
    def of(value, log_evidence):
        made = begin(jnp.full((400, 1), value))
        return eqx.tree_at(lambda p: p.log_evidence, made, jnp.asarray(log_evidence))

    both = merged(of(0.0, 1.0), of(1.0, 1.0 + np.log(3.0)), KEY)
    assert float(jnp.mean(both.z)) == pytest.approx(0.75, abs=1 / 400)  # systematic, so exact but for one particle
    assert float(both.log_evidence) == pytest.approx(1.0 + np.log(2.0))
    assert float(both.log_evidence_variance) == pytest.approx(0.25)  # relative evidences ½ and 3/2
    one_sided = merged(of(0.0, -50.0), of(1.0, 0.0), KEY)
    assert (np.asarray(one_sided.z) == 1.0).all() and float(one_sided.log_evidence_variance) == pytest.approx(1.0)


def test_the_error_of_an_evidence_is_the_spread_of_its_islands_or_what_they_state_if_that_is_more():
    log_evidence, variance = pooled(np.log([1.0, 3.0]), np.zeros(2))
    assert log_evidence == pytest.approx(np.log(2.0)) and variance == pytest.approx(0.5 * (0.7 * np.log(3.0)) ** 2)
    assert pooled(np.zeros(2), np.array([0.4, 0.2]))[1] == pytest.approx(0.15)  # of the mean of two


def test_a_refresh_starts_again_when_the_data_have_grown_and_leaves_the_rest_alone(fitted):
    again = dataclasses.replace(fitted, surrogate=GPSurrogate(MODEL.model, dataclasses.replace(CONFIG, refresh=0.4)))
    once = again.update(X[5], Y[5], key=KEY)
    assert int(once.particles.started) == 5 and not once.diagnostics.extra["info"].islands
    twice = once.update(X[6], Y[6], key=KEY)
    assert int(twice.particles.started) == 7 and len(twice.diagnostics.extra["info"].islands) == CONFIG.num_islands
    assert_usable(twice, 7)


# The posterior.


def test_an_update_depends_on_the_key_alone_and_leaves_the_old_posterior_as_it_was(fitted):
    before = frozen(fitted)
    first, second = (fitted.update(X[5], 4.0, key=jax.random.key(1)) for _ in range(2))
    other = fitted.update(X[5], 4.0, key=jax.random.key(2))
    for a, b in zip(frozen(first), frozen(second), strict=True):
        np.testing.assert_array_equal(a, b)
    assert not np.array_equal(first.z, other.z)
    for a, b in zip(before, frozen(fitted), strict=True):
        np.testing.assert_array_equal(a, b)
    assert fitted.data.num_observations == 5


def test_the_last_prediction_is_kept_and_is_that_of_its_points_and_its_posterior(fitted):
    kept, points = fitted.predict(GRID), GRID.copy()
    assert fitted.predict(points) is kept  # also points that are merely equal
    points[0] = 0.5  # what was asked then does not change with the caller's array
    other = fitted.predict(points)
    assert not np.allclose(other.means[:, 0], kept.means[:, 0])
    np.testing.assert_array_equal(other.means[:, 1:], kept.means[:, 1:])
    moved = fitted.update(X[5], 4.0, key=jax.random.key(1))
    assert not np.allclose(moved.predict(points).means, other.means)
    with pytest.raises(ValueError, match="read-only"):
        other.means[0, 0] = 1.0


def without_moves(posterior):
    """The same posterior, which only ever weighs its particles."""
    return dataclasses.replace(posterior, surrogate=GPSurrogate(MODEL.model, dataclasses.replace(CONFIG, threshold=1e-9)))


def test_while_nothing_moves_several_observations_at_once_equal_one_at_a_time(fitted):
    start = without_moves(fitted)
    once = start.update(X[5:8], Y[5:8], key=KEY)
    step = start
    for point, value in zip(X[5:8], Y[5:8], strict=True):
        step = step.update(point, value, key=KEY)
    np.testing.assert_array_equal(once.z, fitted.z)
    np.testing.assert_array_equal(step.z, fitted.z)
    np.testing.assert_allclose(once.log_weights, step.log_weights, atol=1e-9)
    assert once.log_evidence == pytest.approx(step.log_evidence, abs=1e-9)
    np.testing.assert_allclose(once.seen.factor, step.seen.factor, atol=1e-12)
    assert len(step.diagnostics.extra["history"]) == 4


def test_grown_factors_equal_those_made_anew(fitted):
    once = without_moves(fitted).update(X[5:8], Y[5:8], key=KEY)
    with jax.enable_x64(True):
        for z, factor, whitened in zip(once.z[:3], once.seen.factor, once.seen.whitened, strict=False):
            anew = hyperleaf.gp.condition(MODEL.prior.from_vector(z), once.padded)
            np.testing.assert_allclose(factor, anew.factor, atol=1e-6)
            np.testing.assert_allclose(whitened, anew.whitened, atol=1e-5)


def test_the_number_of_threads_changes_nothing(fitted, monkeypatch):
    results = []
    for threads in (1, 2, 3):
        monkeypatch.setattr(hyperleaf.parallel, "num_threads", lambda threads=threads: threads)
        posterior = fitted.update(X[5], 4.0, key=KEY)
        results.append((posterior.z, posterior.log_weights, posterior.log_evidence, posterior.predict(GRID).means))
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10)


# What breaks things.


@pytest.mark.parametrize(
    ("x", "y"),
    [
        (np.repeat(X[:1], 6, axis=0), np.full(6, Y[0])),
        (np.repeat(X[:1], 6, axis=0), np.linspace(-1, 1, 6)),
        (X[:1], Y[:1]),
        (np.repeat(X, 2, axis=0)[:20], np.zeros(20)),
        (np.repeat(X, 2, axis=0)[:20], np.full(20, 3.0)),
    ],
    ids=["one point again and again", "one point with different outputs", "one observation", "20 zeros", "20 equal outputs"],
)
def test_hard_data_survive_a_fit_and_an_update(x, y):
    posterior = MODEL.fit(Dataset(x, y), key=KEY)
    assert_usable(posterior, len(y))
    assert_usable(posterior.update(x[-1], y[-1], key=KEY), len(y) + 1)


def test_an_outlier_of_fifty_deviations_is_tempered_and_survives(fitted):
    mean, std = float(fitted.predict(X[5:6]).mean()[0]), float(fitted.predict(X[5:6]).noisy().std()[0])
    posterior = fitted.update(X[5], mean + 50 * std, key=KEY)
    assert len(posterior.diagnostics.extra["info"].temperatures) > 1
    assert_usable(posterior, 6)
    assert_usable(posterior.update(X[6], Y[6], key=KEY), 7)


def exact_model(particles=12):
    """Known noise, which may be zero: a repeated point then has a singular covariance, saved by jitter alone."""
    kernel = RBF(dist.Gamma(2.0, 2.0).expand((2,)), dist.Gamma(2.0, 3.0))
    return surrogate(kernel, inference=dataclasses.replace(CONFIG, particles=particles), noise="known")


def broken(posterior, rows):
    """The same posterior with parameters in some rows under which no covariance has a factor, of points close together."""
    z = np.array(posterior.z)
    z[rows] = 800.0  # lengthscale and variance overflow to infinity
    with jax.enable_x64(True):
        particles = eqx.tree_at(lambda p: p.z, posterior.particles, jnp.asarray(z))
        return dataclasses.replace(posterior, z=particles.z, particles=particles)


def test_particles_without_a_factor_die_are_counted_and_are_replaced(fitted):
    hurt = broken(without_moves(fitted), [0, 3])
    expected = float(fitted.predict(X[5:6]).mean()[0])
    posterior = hurt.update(X[5], expected, key=KEY)
    assert posterior.diagnostics.extra["info"].failed == 2
    assert posterior.diagnostics.extra["info"].gradients == 0, "this is about particles that are only weighed"
    assert posterior.diagnostics.failed_draws == 2 and "carry no weight" in posterior.diagnostics.sentences[0]
    np.testing.assert_array_equal(posterior.weights[[0, 3]], 0.0)
    assert_usable(posterior, 6)
    posterior = dataclasses.replace(posterior, surrogate=MODEL).update(X[6], 3.0, key=KEY)  # a surprise: all are moved
    assert (posterior.weights > 0).all()
    assert np.abs(np.asarray(posterior.z)).max() < 700
    assert_usable(posterior, 7)


def test_all_particles_failing_is_an_error_that_keeps_the_data(fitted):
    hurt = broken(fitted, slice(None))
    before = frozen(hurt)
    with pytest.raises(InferenceError, match=r"all 12 particles.*data are kept"):
        hurt.update(X[5], Y[5], key=KEY)
    for a, b in zip(before, frozen(hurt), strict=True):
        np.testing.assert_array_equal(a, b)
    assert hurt.data.num_observations == 5
    assert_usable(fitted.update(X[5], Y[5], key=KEY), 6)


def test_repeated_points_without_noise_survive_and_contradictions_do_not_kill_the_run():
    model = exact_model()
    x = np.concatenate([X[:4], X[:1]])
    posterior = model.fit(Dataset(x, np.append(Y[:4], Y[0]), np.zeros(5)), key=KEY)
    assert_usable(posterior, 5)
    assert_usable(posterior.update(X[1], Y[1], key=KEY, noise=0.0), 6)
    # The same input, another output, no noise: impossible in exact arithmetic. Either outcome is named; nothing else escapes.
    try:
        assert_usable(posterior.update(X[1], Y[1] + 1.0, key=KEY, noise=0.0), 6)
    except InferenceError as error:
        assert "data are kept" in str(error)
    assert_usable(posterior, 5)


@pytest.mark.parametrize(("last", "shapes"), [(26, 2), pytest.param(65, 3, marks=pytest.mark.long)])
def test_a_campaign_compiles_once_for_each_padded_size(last, shapes, monkeypatch):
    traced = Counter()

    @eqx.filter_jit
    def counting(function, draws, shared):
        traced[function.__name__] += 1
        return jax.lax.map(lambda draw: function(draw, *shared), draws)

    monkeypatch.setattr(hyperleaf.parallel, "_loop", counting)
    monkeypatch.setenv("HYPERLEAF_NATIVE", "off")
    rng = np.random.default_rng(0)
    x = rng.uniform(size=(last, 2))
    y = np.sin(3 * x[:, 0])
    posterior = MODEL.fit(Dataset(x[:5], y[:5]), key=KEY)
    for i in range(5, last):
        posterior = posterior.update(x[i], y[i], key=jax.random.fold_in(KEY, i))
        posterior.predict(rng.uniform(size=(rng.integers(1, 16), 2)))
    assert_usable(posterior, last)
    assert traced["trajectory_of"] and traced["draw_observe"] and traced["draw_moments"]
    # The start moves its few chains, and weighs all they passed, by compiled code of its own.
    traced["trajectory_of"] -= 1
    assert max(traced.values()) <= shapes, traced
