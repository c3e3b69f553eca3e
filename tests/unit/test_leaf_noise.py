"""Noise that differs from leaf to leaf: its formula, what is learned of it, and everything that meets noise of shape (s, m)."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy.stats import multivariate_normal

from hyperleaf import native
from hyperleaf.acquisition import ACQUISITIONS, ALC, EPIG, Belief, Entropy, Variance
from hyperleaf.data import Dataset
from hyperleaf.domain import Domain, Real
from hyperleaf.errors import InputError
from hyperleaf.estimators import HHKRegressor, StationaryRegressor
from hyperleaf.gp import GP, Target, log_likelihood, pad
from hyperleaf.inference.map import Map
from hyperleaf.inference.smc import SMC
from hyperleaf.kernels import RBF, Gates, LeafNoise, Partition
from hyperleaf.precision import float64
from hyperleaf.study import Study
from hyperleaf.surrogates.ensemble import Averaged
from hyperleaf.surrogates.files import posterior_from_arrays, posterior_to_arrays
from hyperleaf.surrogates.gp import GPSurrogate, hhk_surrogate, noise_by_leaf, stationary_surrogate
from hyperleaf.surrogates.named import make_surrogate
from hyperleaf.surrogates.noise import noise_figures
from hyperleaf.surrogates.validation import leave_one_out

LIGHT = SMC(particles=64, chains=16, start_moves=6)
TINY = SMC(particles=16, chains=4, start_moves=3, leapfrog=2)
LOW, HIGH = 0.03, 0.3


@float64
def known_gates(inference=LIGHT, noise=None) -> GPSurrogate:
    """Two leaves in one input, whose border is known to stand at ½ and to be sharp."""
    gates = Gates(np.array([-100.0]), np.array([[200.0]]), np.array([1.0]))
    leaves = RBF(dist.LogNormal(-1.5, 0.7).expand((2, 1)), dist.Gamma(2.0, 3.0).expand((2,)))
    return GPSurrogate(GP(Partition(gates, leaves), noise_by_leaf(2) if noise is None else noise), inference)


def halves(seed: int, n: int = 60) -> Dataset:
    rng = np.random.default_rng(seed)
    x = rng.random((n, 1))
    return Dataset(x, np.sin(6 * x[:, 0]) + np.where(x[:, 0] < 0.5, LOW, HIGH) * rng.standard_normal(n))


@pytest.fixture(scope="module")
def posterior():
    return known_gates().fit(halves(0), key=jax.random.key(0))


# --- the formula


@float64
def test_noise_is_the_weighted_geometric_mean_of_its_leaves():
    gates = Gates(np.array([0.2, -0.4, 0.1]), np.array([[1.0, -2.0], [0.5, 0.5], [-1.0, 0.3]]), np.array([2.0, 5.0, 1.0]))
    kernel = Partition(gates, RBF(np.ones((4, 2)), np.ones(4)), ((0, 1), (2, 3)), weights="sqrt")
    gp = GP(kernel, LeafNoise(0.01, 1.5, np.array([-1.0, 0.3, 2.0, 0.0])))
    levels = 0.01 * np.exp(1.5 * np.array([-1.0, 0.3, 2.0, 0.0]))
    x = np.random.default_rng(0).random((5, 2))
    for point, found in zip(x, gp.noise_at(jnp.asarray(x)), strict=True):
        open_ = [1 / (1 + np.exp(-s * (o + n @ point))) for o, n, s in zip(*_fields(gates), strict=True)]
        weights = [open_[0] * open_[1], open_[0] * (1 - open_[1]), (1 - open_[0]) * open_[2], (1 - open_[0]) * (1 - open_[2])]
        assert float(found) == pytest.approx(np.prod(levels ** np.array(weights)), rel=1e-12)
    y, known = np.sin(x[:, 0]), np.array([0.0, 0.1, 0.0, 0.2, 0.0])
    covariance = np.asarray(kernel.gram(jnp.asarray(x))) + np.diag(np.asarray(gp.noise_at(jnp.asarray(x))) + known)
    expected = multivariate_normal(np.zeros(5), covariance).logpdf(y)
    assert float(log_likelihood(gp, pad(Dataset(x, y, known)))) == pytest.approx(expected, rel=1e-7)


def _fields(gates):
    return gates.offset, gates.normal, gates.steepness


@float64
def test_its_gradient_is_that_of_differences():
    data = pad(halves(1, 20))
    target = Target(hhk_surrogate(1, 3, noise="per leaf", mean="linear").prior, data)
    z = np.asarray(target.prior.sample_vectors(jax.random.key(0), 3))[1]
    value = jax.jit(lambda z: target(z))
    found, step = jax.jit(jax.grad(lambda z: target(z)))(z), 1e-6
    expected = [(value(z + h) - value(z - h)) / (2 * step) for h in step * np.eye(len(z))]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_equal_noise_is_the_middle_and_one_noise_has_the_vector_it_always_had():
    one, own = hhk_surrogate(2, 4), hhk_surrogate(2, 4, noise="per leaf")
    assert own.prior.size == one.prior.size + 1 + 4
    z = np.zeros(own.prior.size)
    noise = own.prior.numbers(z).noise
    np.testing.assert_array_equal(noise.deviation, 0.0)
    with jax.enable_x64(True):
        logs = np.asarray(own.prior.sample_vectors(jax.random.key(0), 4000))[:, -6:]
    differences = np.exp(logs[:, 1]) * (logs[:, 2] - logs[:, 3])
    assert abs(np.median(differences)) < 0.1 and np.mean(np.abs(differences) > np.log(100.0)) > 0.02  # ten in standard deviation


# --- what is learned


def intervals(posterior, scale=1.0):
    """Central 90 % of the noise (standard deviation) in each half."""
    mixture = posterior.predict([[0.05], [0.95]])
    noise, weights = np.asarray(mixture.noise), np.asarray(mixture.weights)
    for k in (0, 1):
        order = np.argsort(noise[:, k])
        below = np.cumsum(weights[order])
        yield tuple(scale * np.sqrt(noise[order[np.searchsorted(below, p)], k]) for p in (0.05, 0.95))


def test_two_levels_that_differ_by_ten_are_found(posterior):
    (low, high), (loud, louder) = intervals(posterior)
    assert low < LOW < high < 0.1 < loud < HIGH < louder
    assert posterior.diagnostics.extra["code"] == (
        "jax" if native.core_of((posterior.surrogate.prior, posterior.padded)) is None else "machine"
    )
    figures = noise_figures(posterior)
    assert figures.least < 0.05 and figures.most > 0.2 and figures.least < figures.std < figures.most


@pytest.mark.long
def test_the_posterior_covers_two_levels_that_differ_by_ten():
    held = []
    for seed in range(20):
        found = intervals(known_gates().fit(halves(seed), key=jax.random.key(seed)))
        held += [low <= true <= high for (low, high), true in zip(found, (LOW, HIGH), strict=True)]
    assert sum(held) >= 31  # of 40 at 90 %: fewer in 1 of 100 if the truth is in the middle of the prior


def ranks(num: int, n: int, surrogate) -> np.ndarray:
    """Simulation-based calibration: the place of the truth among independent draws of the posterior, for the two levels and what
    they are made of; uniform in 0 … 1 if the posterior is right."""
    found = []
    for seed in range(num):
        with jax.enable_x64(True):
            truth = np.asarray(surrogate.prior.sample_vectors(jax.random.key(1000 + seed), 1))[0]
            gp = surrogate.prior.from_vector(jnp.asarray(truth))
            x = np.random.default_rng(seed).random((n, 1))
            covariance = np.asarray(gp.kernel.gram(jnp.asarray(x))) + np.diag(np.asarray(gp.noise_at(jnp.asarray(x))))
        y = np.random.default_rng(seed + 500).multivariate_normal(np.zeros(n), covariance)
        after = surrogate.fit(Dataset(x, y), key=jax.random.key(seed))
        of_draws, of_truth = _summaries(np.asarray(after.z)), _summaries(truth[None])[0]
        found.append(after.weights @ (of_draws < of_truth))
    return np.array(found)


def _summaries(z):
    """ln σ² of either leaf, and the spread."""
    return np.stack([z[:, -4] + np.exp(z[:, -3]) * z[:, -2], z[:, -4] + np.exp(z[:, -3]) * z[:, -1], z[:, -3]], axis=1)


def test_calibration_by_simulation_in_short():
    found = ranks(8, 14, known_gates(SMC(particles=48, chains=12, start_moves=4, leapfrog=4)))
    assert (np.abs(found.mean(axis=0) - 0.5) < 4 * np.sqrt(1 / 12 / 8)).all()
    assert (found.std(axis=0) > 0.05).all()


@pytest.mark.long
def test_calibration_by_simulation():
    found = ranks(100, 24, known_gates())
    for column in found.T:
        counts = np.histogram(column, 10, (0.0, 1.0))[0]
        assert np.sum((counts - 10.0) ** 2 / 10.0) < 27.9  # χ² of nine degrees of freedom at 0.999


def test_map_learns_it_too():
    after = known_gates(Map(restarts=3)).fit(halves(2), key=jax.random.key(2))
    left, right = np.sqrt(np.asarray(after.predict([[0.05], [0.95]]).noise)[0])
    assert 0.015 < left < 0.06 and 0.2 < right < 0.45


# --- whoever meets noise of shape (s, m)


def test_predictions_joints_and_samples_carry_it(posterior):
    x, r = np.array([[0.1], [0.8], [0.9]]), np.array([[0.2], [0.7]])
    mixture, joint = posterior.predict(x), posterior.joint(x, r)
    assert np.shape(mixture.noise) == np.shape(joint.noise) == (64, 3)
    np.testing.assert_array_equal(mixture.noise, joint.noise)
    np.testing.assert_array_equal(mixture.noisy().variances, mixture.variances + mixture.noise)
    np.testing.assert_array_equal(posterior.predict(x[::-1]).noise, np.asarray(mixture.noise)[:, ::-1])
    traced = float64(lambda: np.asarray(posterior.predict_traced(jnp.asarray(x)).noise))()
    np.testing.assert_allclose(traced, mixture.noise, rtol=1e-9)


def test_every_criterion_counts_it_and_batches_too(posterior):
    x, pending = np.linspace(0.02, 0.98, 25)[:, None], np.array([[0.3], [0.7]])
    for name, make in ACQUISITIONS.items():
        scores = make().score(posterior, x, pending=pending, key=jax.random.key(0))
        assert np.shape(scores) == (25,) and np.isfinite(scores).all(), name
    entropy, alc = Entropy().score(posterior, x), ALC(x).score(posterior, x)
    assert x[np.argmax(entropy), 0] > 0.5  # entropy likes noise
    mixture = posterior.predict(x)
    joint = posterior.joint(x, x)
    by_hand = np.asarray(mixture.weights) @ (np.mean(joint.cov**2, axis=2) / (joint.var_x + np.asarray(mixture.noise) + 1e-12))
    np.testing.assert_allclose(alc, by_hand, rtol=1e-8)
    noisy = joint.var_x + np.asarray(mixture.noise) + 1e-12
    rho = joint.cov**2 / noisy[:, :, None] / noisy[:, None, :]
    expected = joint.weights @ (-0.5 * np.log1p(-rho).mean(axis=2))
    np.testing.assert_allclose(EPIG(x).score(posterior, x), expected, rtol=1e-8)


@pytest.mark.parametrize("criterion", [Entropy(), Variance()])
def test_criteria_climb_by_slopes_that_know_of_it(posterior, criterion):
    x, step = np.array([[0.31], [0.499], [0.503], [0.84]]), 1e-6
    found = criterion.slopes(Belief.of(posterior), x)
    if found is None:  # without a compiler JAX differentiates
        return
    up, down = (criterion.score(posterior, x + change) for change in (step, -step))
    np.testing.assert_allclose(found[1][:, 0], (up - down) / (2 * step), rtol=1e-3, atol=1e-4)


def test_leaving_one_out_is_a_fit_without_it(posterior):
    """With the parameters of the first draw, from the covariance itself."""
    cavities, data = posterior.cavities(), posterior.data
    with jax.enable_x64(True):
        gp = posterior.surrogate.prior.from_vector(posterior.z[0])
        covariance = np.asarray(gp.kernel.gram(jnp.asarray(data.x))) + np.diag(np.asarray(gp.noise_at(jnp.asarray(data.x))))
    for i in (0, 7):
        rest = np.arange(60) != i
        gain = np.linalg.solve(covariance[np.ix_(rest, rest)], covariance[rest, i])
        assert cavities.means[0, i] == pytest.approx(gain @ data.y[rest], abs=1e-6)
        assert cavities.variances[0, i] == pytest.approx(covariance[i, i] - gain @ covariance[rest, i], rel=1e-5)
    assert np.isfinite(leave_one_out(data.y, cavities).means).all()


def test_other_units_change_no_ratio_of_levels(posterior):
    moved = posterior.rescaled(0.3, 2.0, key=jax.random.key(1))
    x = np.array([[0.1], [0.9]])
    before, after = (np.sqrt(one.weights @ np.asarray(one.predict(x).noise)) for one in (posterior, moved))
    np.testing.assert_allclose(2.0 * after, before, rtol=0.35)
    update = posterior.update(np.array([[0.2], [0.8]]), np.array([0.9, -0.9]), key=jax.random.key(2))
    assert np.shape(update.predict(x).noise) == (64, 2)


def test_files_keep_it_under_a_tag_of_its_own(posterior):
    arrays, meta = posterior_to_arrays(posterior)
    assert '"leaf-noise"' in str(meta).replace("'", '"')
    again = posterior_from_arrays(arrays, meta)
    np.testing.assert_array_equal(again.predict([[0.2]]).noise, posterior.predict([[0.2]]).noise)
    np.testing.assert_array_equal(Entropy().score(again, [[0.2]]), Entropy().score(posterior, [[0.2]]))


# --- by name


def test_auto_holds_both_and_averages_them():
    surrogate = make_surrogate("hhk", 1, noise="auto", leaves=2, inference=TINY)
    assert isinstance(surrogate, Averaged) and len(surrogate.surrogates) == 2
    after = surrogate.fit(halves(0, 20), key=jax.random.key(0))
    assert np.shape(after.predict([[0.1], [0.9]]).means)[1] == 2 and np.isfinite(after.joint([[0.1]], [[0.9]]).noise).all()
    trees = make_surrogate("hhk", 1, noise="auto", choose_leaves=(1, 2), inference=TINY).surrogates
    assert [isinstance(one.model.noise, LeafNoise) for one in trees] == [False, False, True]
    trees = make_surrogate("hhk", 1, noise="per leaf", choose_leaves=(1, 2), inference=TINY).surrogates
    assert [isinstance(one.model.noise, LeafNoise) for one in trees] == [False, True]


@pytest.mark.parametrize(
    ("arguments", "options", "said"),
    [
        (("stationary", 2), {"noise": "per leaf"}, 'takes a surrogate with leaves of its own, "hhk"; got "stationary"'),
        (("treed", 2), {"noise": "auto"}, 'noise = \'auto\' takes a surrogate with leaves of its own, "hhk"; got "treed"'),
        (("deep", 2), {"noise": "per leaf"}, 'Set noise = "learned", or choose surrogate = "hhk"'),
        (("hhk", 2), {"noise": "per leaf", "leaves": 1}, "needs a partition of two leaves or more; got 1"),
        (
            ("hhk", 2),
            {"noise": "auto", "choose_leaves": [1], "inference": TINY},
            "needs a partition of two leaves or more; got 1",
        ),
        (("hhk", 2), {"noise": "auto", "inference": "map"}, 'needs inference = "smc"; got \'map\'. Set noise = "learned"'),
        (("hhk", 2), {"noise": "per leaf", "inference": "ml"}, "noise by leaf needs priors"),
        (("hhk", 2), {"noise": "per leaf", "noise_rate": -1.0}, "the rate of the noise prior must be positive"),
        (("hhk", 2), {"noise": "per leave"}, r"Did you mean 'per leaf'\?"),
    ],
)
def test_where_it_cannot_be_a_sentence_says_so(arguments, options, said):
    with pytest.raises(InputError, match=said):
        make_surrogate(*arguments, **options)


def test_the_model_itself_refuses_what_does_not_fit():
    with pytest.raises(InputError, match="a partition of 3 leaves; got a RBF of one leaf"):
        stationary_surrogate(2, noise=noise_by_leaf(3))
    with pytest.raises(InputError, match="noise by leaf needs a partition of two leaves or more"):
        stationary_surrogate(2, noise="per leaf")
    with pytest.raises(InputError, match="one variance, one spread and a deviation for each leaf"):
        LeafNoise(0.1, 1.0, 0.0)
    with pytest.raises(InputError, match="leaves of its own"):
        StationaryRegressor(noise="per leaf").fit([[0.0], [1.0]], [0.0, 1.0])


def test_a_regressor_and_a_study_take_it_and_say_how_much_it_differs():
    data = halves(4, 40)
    model = HHKRegressor(2, noise="per leaf", inference=TINY, random_state=0).fit(data.x, data.y)
    std = model.predict_mixture([[0.1], [0.9]]).noise
    assert np.shape(std) == (16, 2)
    study = Study.create(
        "two halves",
        Domain(x=Real(0.0, 1.0)),
        outputs={"y": {"noise": "per leaf", "unit": "kN"}},
        surrogate={"kind": "hhk", "leaves": 2, "inference": {"kind": "smc", "particles": 16, "chains": 4, "leapfrog": 2}},
        acquisition="alc",
        design=12,
    )
    rng = np.random.default_rng(0)
    for _ in range(14):
        (query,) = study.ask()
        x = query.point["x"]
        study.tell(query, y=float(np.sin(6 * x) + (0.01 if x < 0.5 else 0.5) * rng.standard_normal()))
    study.measure()
    noise = study.status().noise["y"]
    assert noise.kind == "learned" and noise.least < noise.most and noise.std is not None
    assert not noise.differs or "from place to place" in noise.words
