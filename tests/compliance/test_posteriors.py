"""What every posterior promises. Each kind of surrogate in the table joins by itself; a few variants are added by hand.

A kind that needs settings to be quick adds them to `QUICK`; one that does not is tried as it comes. Rivals of other packages
join where those are installed; R's tgp, which has its own test, does not: it runs a chain for every prediction.
"""

import importlib
import pkgutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hyperleaf.surrogates
from hyperleaf.acquisition import ACQUISITIONS, Belief
from hyperleaf.bench.rivals import RIVALS
from hyperleaf.data import Dataset
from hyperleaf.errors import InputError
from hyperleaf.inference.hmc import NUTS
from hyperleaf.inference.map import Map
from hyperleaf.inference.smc import SMC
from hyperleaf.mixture import Mixture
from hyperleaf.precision import float64
from hyperleaf.surrogates.base import Posterior, Surrogate
from hyperleaf.surrogates.files import posterior_from_arrays, posterior_to_arrays
from hyperleaf.surrogates.kinds import KINDS, kind_of
from hyperleaf.surrogates.learned import Learned
from hyperleaf.surrogates.named import make_surrogate

KEY, OTHER = jax.random.key(3), jax.random.key(4)
QUICK = {
    "hhk": {"leaves": 2, "inference": SMC(particles=16)},
    "stationary": {"inference": SMC(particles=16)},
    "warped": {"inference": Map(restarts=2, prior=False)},
    "treed": {"burn_in": 60, "total": 120, "thin": 4, "min_leaf": 4, "warm_burn_in": 10},
    "deep": {"sweeps": 60, "draws": 10},
    "botorch-saas": {"warmup": 4, "samples": 4, "thinning": 2},
    "sklearn": {"restarts": 1},
}
OUTSIDE = [name for name, kind in RIVALS.items() if kind.installed() and name != "tgp"]
EXAMPLES = {name: (name, QUICK.get(name, {})) for name in (*KINDS, *OUTSIDE)} | {
    "hhk, noise by leaf": ("hhk", {"leaves": 2, "inference": SMC(particles=16), "_noise": "per leaf"}),
    "hhk, average": ("hhk", {"choose_leaves": (1, 2), "inference": SMC(particles=16)}),
    "stationary, map": ("stationary", {"inference": Map(restarts=2)}),
    "stationary, nuts": ("stationary", {"inference": NUTS(chains=2, draws=10, warmup=10)}),
}
RNG = np.random.default_rng(11)
X, R = RNG.random((7, 2)), RNG.random((4, 2))
MORE_X, MORE_Y = RNG.random((2, 2)), np.array([0.3, -0.4])


def data(noise=None) -> Dataset:
    x = np.random.default_rng(1).random((14, 2))
    y = np.where(x[:, 0] < 0.5, np.sin(9 * x[:, 1]), 0.1 * x[:, 0]) + 0.05 * np.random.default_rng(2).normal(size=14)
    return Dataset(x, (y - y.mean()) / y.std(), None if noise is None else np.full(14, noise))


def surrogate_of(name, noise="learned") -> Surrogate:
    kind, options = EXAMPLES[name][0], dict(EXAMPLES[name][1])
    return make_surrogate(kind, 2, noise=options.pop("_noise", noise), **options)


@pytest.fixture(scope="module", params=EXAMPLES)
def name(request):
    return request.param


@pytest.fixture(scope="module")
def posterior(name):
    return surrogate_of(name).fit(data(), key=KEY)


def below(cls):
    return {cls}.union(*(below(one) for one in cls.__subclasses__()))


def test_every_posterior_of_hyperleaf_is_here():
    for module in pkgutil.walk_packages(hyperleaf.surrogates.__path__, "hyperleaf.surrogates."):
        importlib.import_module(module.name)
    importlib.import_module("hyperleaf.bench.rivals.base")
    classes = {cls for cls in below(Posterior) if cls.__module__.startswith("hyperleaf.") and cls is not Posterior}
    seen = {type(surrogate_of(name).fit(data(), key=KEY)) for name in ("hhk", "hhk, average", "treed", "deep", "sklearn")}
    made = {type(surrogate_of(name)) for name in EXAMPLES}
    surrogates = {cls for cls in below(Surrogate) if cls.__module__.startswith("hyperleaf.") and cls is not Surrogate}
    assert surrogates <= made, "a new surrogate joins by a line in hyperleaf.surrogates.kinds"
    assert classes == seen, "a new posterior needs an example here"


def test_rivals_that_should_be_here_are(needs):
    needs("botorch")
    assert {"botorch", "botorch-saas"} <= set(OUTSIDE)


def test_it_is_a_posterior_that_knows_its_data_and_its_surrogate(posterior, name):
    assert isinstance(posterior, Posterior)
    np.testing.assert_array_equal(posterior.data.y, data().y)
    assert type(posterior.surrogate) is type(surrogate_of(name))
    assert posterior.diagnostics.num_draws >= 1 and posterior.diagnostics.method


def test_predictions_are_mixtures_of_finite_moments_and_noise_is_per_draw_or_per_point(posterior):
    mixture = posterior.predict(X)
    s = len(mixture.weights)
    assert isinstance(mixture, Mixture) and np.sum(mixture.weights) == pytest.approx(1.0)
    assert np.shape(mixture.means) == np.shape(mixture.variances) == (s, 7)
    assert np.shape(mixture.noise) in ((s,), (s, 7))
    for values in (mixture.means, mixture.variances, mixture.noise):
        assert np.isfinite(values).all()
    assert (np.asarray(mixture.variances) >= 0).all() and (np.asarray(mixture.noise) >= 0).all()
    np.testing.assert_array_equal(posterior.predict(X).means, mixture.means)  # asking changes nothing


def test_fewer_draws_are_some_of_its_own_by_their_weights(posterior):
    whole, few = posterior.predict(X), posterior.fewer(6).predict(X)
    if len(few.weights) == len(whole.weights):  # not cheaper, or as few already
        np.testing.assert_array_equal(few.means, whole.means)
        return
    assert len(few.weights) <= 6 and np.sum(few.weights) == pytest.approx(1.0)
    apart = np.abs(np.asarray(few.means)[:, None] - np.asarray(whole.means)[None]).max(axis=2)
    assert apart.min(axis=1).max() < 1e-9
    own = np.asarray(whole.weights)[apart.argmin(axis=1)]
    assert (np.abs(np.asarray(few.weights) - own) <= 1 / 6 + 1e-12).all()
    assert posterior.fewer(10**6) is posterior


def test_it_is_the_average_of_its_parts(posterior):
    weights, parts = zip(*posterior.parts(), strict=True)
    assert sum(weights) == pytest.approx(1.0) and all(weight > 0 for weight in weights)
    means = [one.predict(X).mean() for one in parts]
    np.testing.assert_allclose(np.asarray(weights) @ np.stack(means), posterior.predict(X).mean(), rtol=1e-9, atol=1e-12)
    assert posterior.best in parts and weights[parts.index(posterior.best)] == max(weights)


def test_joint_moments_are_consistent(posterior):
    joint = posterior.joint(X, R)
    s = len(joint.weights)
    assert joint.cov.shape == (s, 7, 4) and joint.mean_x.shape == joint.var_x.shape == (s, 7)
    assert joint.mean_r.shape == joint.var_r.shape == (s, 4)
    assert joint.noise.shape in ((s,), (s, 7)) and joint.noise_at_x.shape in ((s, 1), (s, 7))
    assert (joint.cov**2 <= joint.var_x[:, :, None] * joint.var_r[:, None, :] * (1 + 1e-6) + 1e-9).all()
    turned = posterior.joint(R, X)
    np.testing.assert_allclose(np.swapaxes(turned.cov, 1, 2), joint.cov, rtol=1e-6, atol=1e-9)
    same = posterior.joint(X, X)
    np.testing.assert_allclose(np.diagonal(same.cov, axis1=1, axis2=2), same.var_x, rtol=1e-6, atol=1e-8)


def test_updates_take_in_what_is_told_and_leave_the_old_posterior_alone(posterior):
    before = np.array(posterior.predict(X).means)
    after = posterior.update(MORE_X, MORE_Y, key=OTHER)
    assert type(after) is type(posterior) and after.data.num_observations == 16
    np.testing.assert_array_equal(after.data.y[-2:], MORE_Y)
    assert posterior.data.num_observations == 14
    np.testing.assert_array_equal(posterior.predict(X).means, before)
    again = posterior.update(MORE_X, MORE_Y, key=OTHER)
    np.testing.assert_array_equal(again.predict(X).means, after.predict(X).means)


def test_updates_take_known_noise_where_the_data_have_it(name):
    fitted = surrogate_of(name, "known" if kind_of(EXAMPLES[name][0]).tellable else "learned").fit(data(0.01), key=KEY)
    after = fitted.update(MORE_X, MORE_Y, key=OTHER, noise=[0.01, 0.01])
    assert after.data.num_observations == 16 and np.isfinite(after.predict(X).means).all()


def test_samples_have_the_moments_that_are_predicted(posterior):
    samples = posterior.sample(X, OTHER, 4000)
    assert samples.shape == (4000, 7)
    joint = posterior.joint(X, X)  # a treed posterior predicts with more draws than it has covariances of
    mean = joint.weights @ joint.mean_x
    var = joint.weights @ (joint.var_x + (joint.mean_x - mean) ** 2)
    assert (np.abs(samples.mean(0) - mean) <= 5 * np.sqrt(var / 4000) + 1e-9).all()
    spread = samples.var(0)
    error = np.sqrt(np.maximum(((samples - samples.mean(0)) ** 4).mean(0) - spread**2, 0.0) / 4000)
    assert (np.abs(spread - var) <= 6 * error + 1e-9).all()


def test_alc_is_never_negative_and_that_of_the_base_class(posterior, name):
    own = posterior.alc(X, R)
    assert own.shape == (7,) and (own >= 0).all()
    if not name.startswith("treed"):  # whose covariances are of fewer draws
        np.testing.assert_allclose(own, Posterior.alc(posterior, X, R), rtol=1e-6)


def test_traced_functions_are_the_predictions_or_there_are_none(posterior):
    traced = posterior.traced()
    assert Belief.of(posterior).differentiable(ACQUISITIONS["entropy"]()) == (traced is not None)
    if traced is not None:
        mixture, joint = float64(traced.predict)(X), float64(traced.joint)(X, R)
        np.testing.assert_allclose(mixture.means, posterior.predict(X).means, rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(joint.cov, posterior.joint(X, R).cov, rtol=1e-6, atol=1e-9)


def test_other_units_give_the_same_predictions_in_them_or_none_at_all(posterior):
    moved = posterior.rescaled(0.5, 2.0, key=OTHER)
    if moved is not None:
        np.testing.assert_allclose(moved.data.y, (posterior.data.y - 0.5) / 2.0)
        there, here = moved.predict(X), posterior.predict(X)
        apart = np.abs(2.0 * np.asarray(there.mean()) + 0.5 - np.asarray(here.mean()))
        assert (apart <= 3 * np.asarray(here.std()) + 0.3).all()


def test_evidence_and_partition_are_told_or_none(posterior, name):
    evidence, partition = posterior.evidence(), posterior.partition()
    assert evidence is None or (kind_of(EXAMPLES[name][0]).evidence and np.isfinite(evidence.log) and evidence.std >= 0)
    assert (evidence is None) == (posterior.diagnostics.method != "smc")
    if partition is not None:
        weights = float64(lambda: np.asarray(partition.leaf_weights(jnp.asarray(X))))()
        np.testing.assert_allclose(weights.sum(axis=0), 1.0)
    assert (partition is not None) == (name in ("hhk", "hhk, noise by leaf")) or name == "hhk, average"


def test_kernels_before_data_give_the_predictions_after_them_or_there_are_none(posterior):
    known = posterior.data
    found = posterior.before_data(np.concatenate([known.x, X]), 5, seed=0)
    if found is None:
        return
    parts, n = list(found), known.num_observations
    assert sum(times for _, _, times in parts) == 5
    means = np.asarray(posterior.predict(X).means)
    for covariance, noise, _ in parts:
        np.testing.assert_allclose(covariance, covariance.T, atol=1e-12)
        mean = covariance[n:, :n] @ np.linalg.solve(covariance[:n, :n] + np.diag(np.broadcast_to(noise, n + 7)[:n]), known.y)
        assert np.abs(means - mean).max(axis=1).min() < 1e-3  # it is one of the draws


def test_leaving_one_out_predicts_every_observation_and_no_better_than_with_it(posterior):
    left_out = posterior.left_out()
    assert np.shape(left_out.mean()) == (14,) and np.isfinite(left_out.mean()).all()
    assert (np.asarray(left_out.variances) > 0).all()
    errors = np.mean((np.asarray(left_out.mean()) - posterior.data.y) ** 2)
    assert errors >= np.mean((np.asarray(posterior.predict(posterior.data.x).mean()) - posterior.data.y) ** 2)


def test_files_keep_it_to_the_last_bit(posterior):
    again = posterior_from_arrays(*posterior_to_arrays(posterior))
    np.testing.assert_array_equal(again.predict(X).means, posterior.predict(X).means)
    np.testing.assert_array_equal(
        again.update(MORE_X, MORE_Y, key=OTHER).predict(X).means, posterior.update(MORE_X, MORE_Y, key=OTHER).predict(X).means
    )


def test_points_of_another_shape_are_refused_in_a_sentence(posterior):
    with pytest.raises(InputError, match=r"\(m, 2\)"):
        posterior.predict(np.zeros((3, 5)))


def test_learned_speaks_in_native_units(name):
    unit, y = data().x, 1e4 + 300.0 * data().y
    learned = Learned.fit(surrogate_of(name), unit, y, key=KEY)
    mean = np.asarray(learned.predict(unit).mean())
    assert np.corrcoef(mean, y)[0, 1] > 0.3 and abs(mean.mean() - 1e4) < 300
    later = learned.update(MORE_X, np.array([1.2e4, 9.0e3]), key=OTHER)
    assert len(later.y) == 16 and np.isfinite(later.predict(X).mean()).all()
