"""Regressors in scikit-learn's form: the protocol, native units, learning on, files, clear errors.

What the façade does is the same for every surrogate, so most tests put a one-layer deep GP behind it, which compiles nothing;
`long` tests run scikit-learn's checks on the real ones.
"""

import pickle

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

from hyperleaf.data import Standardizer
from hyperleaf.domain import Choice, Domain, Integer, Real
from hyperleaf.errors import DataError, DomainError, InputError, NotFittedYetError
from hyperleaf.estimators import DeepRegressor, HHKRegressor, StationaryRegressor, TreedRegressor, WarpedRegressor
from hyperleaf.estimators.partition import native_partition
from hyperleaf.inference.map import Map
from hyperleaf.inference.smc import SMC
from hyperleaf.kernels import RBF, Gates, Partition
from hyperleaf.precision import float64
from hyperleaf.surrogates.deep import DeepGP

QUICK = SMC(particles=8, leapfrog=2, max_moves=1)
SHORT_ML = Map(restarts=2, max_steps=20, prior=False)
STAND_IN = DeepGP(layers=1, sweeps=40, draws=5)


class LightHHK(HHKRegressor):
    def _surrogate(self, d):
        super()._surrogate(d)  # its parameters are checked as usual
        return STAND_IN


class LightStationary(StationaryRegressor):
    def _surrogate(self, d):
        super()._surrogate(d)
        return STAND_IN


class LightWarped(WarpedRegressor):
    def _surrogate(self, d):
        super()._surrogate(d)
        return STAND_IN


def exponential(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 5, (n, 2))
    return X, 5 * X[:, 0] * np.exp(-(X[:, 0] ** 2) - X[:, 1] ** 2) + 0.01 * rng.standard_normal(n)


# --- the protocol


@parametrize_with_checks(
    [
        LightHHK(2),
        LightStationary(),
        LightWarped(),
        TreedRegressor(burn_in=20, total=60),
        DeepRegressor(layers=1, sweeps=40, draws=5),
    ]
)
def test_scikit_learn_compliance(estimator, check):
    check(estimator)


@pytest.mark.long
@parametrize_with_checks(
    [
        HHKRegressor(2, inference=Map(restarts=1, max_steps=10)),
        StationaryRegressor(inference=QUICK),
        WarpedRegressor(inference=SHORT_ML),
    ]
)
def test_scikit_learn_compliance_of_the_compiled_ones(estimator, check):
    check(estimator)


def test_clone_keeps_configs_and_domains_and_forgets_the_data():
    model = LightHHK(3, inference=SMC(particles=16), domain=Domain(a=Real(-2, 5), b=Real(-2, 5))).fit(*exponential(6))
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    with pytest.raises(NotFittedError):
        copy.predict([[0.0, 0.0]])
    with pytest.raises(NotFittedYetError, match="Call fit first"):
        copy.partition_  # noqa: B018


# --- native units


def test_units_of_inputs_and_outputs_do_not_matter():
    X, y = exponential(12)
    plain, moved = LightHHK().fit(X, y), LightHHK().fit(1e3 * X + 7, 100 * y - 5)
    mean, std = plain.predict(X, return_std=True)
    other_mean, other_std = moved.predict(1e3 * X + 7, return_std=True)
    np.testing.assert_allclose(other_mean, 100 * mean - 5, rtol=1e-8)
    np.testing.assert_allclose(other_std, 100 * std, rtol=1e-6)


def test_covariance_agrees_with_std_and_samples_agree_with_both():
    X, y = exponential(12)
    model = LightHHK().fit(X, y)
    points = exponential(5, seed=1)[0]
    mean, std = model.predict(points, return_std=True)
    again, covariance = model.predict(points, return_cov=True)
    np.testing.assert_allclose(again, mean, atol=1e-12)
    np.testing.assert_allclose(np.diag(covariance), std**2, atol=1e-12)
    samples = model.sample_y(points, 4000, random_state=3)
    assert samples.shape == (5, 4000)
    assert np.all(np.abs(samples.mean(axis=1) - mean) < 5 * std / np.sqrt(4000))
    np.testing.assert_allclose(np.cov(samples), covariance, atol=0.15 * covariance.max())


def test_predictions_are_latent_unless_noisy_is_asked_for():
    X, y = exponential(12)
    model = LightHHK().fit(X, y)
    latent, noisy = (model.predict(X, return_std=True, noisy=flag)[1] for flag in (False, True))
    mixture = model.predict_mixture(X)
    noise = mixture.weights @ mixture.noise
    assert noise > 0
    np.testing.assert_allclose(noisy**2, latent**2 + noise, rtol=1e-9)
    np.testing.assert_allclose(np.diag(model.predict(X, return_cov=True, noisy=True)[1]), noisy**2, rtol=1e-9)


def test_points_outside_the_box_are_extrapolated():
    model = LightHHK().fit(*exponential(12))
    inside, outside = model.predict([[0.0, 0.0], [50.0, 50.0]], return_std=True)[1]
    assert outside > inside


def test_a_domain_takes_tables_with_texts_and_whole_numbers_in_any_order_of_columns():
    domain = Domain(depth=Real(1, 100, log=True), metal=Choice("steel", "brass"), turns=Integer(1, 9))
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {"turns": rng.integers(1, 10, 14), "depth": rng.uniform(1, 100, 14), "metal": rng.choice(["steel", "brass"], 14)}
    )
    model = LightHHK(domain=domain).fit(table, np.log(table["depth"]) + table["turns"])
    np.testing.assert_array_equal(model.posterior_.data.x, domain.to_unit(table))
    assert list(model.feature_names_in_) == ["turns", "depth", "metal"]
    assert model.predict(table.head(3)).shape == (3,)
    with pytest.raises(DomainError, match="glass"):
        model.predict(table.head(1).assign(metal="glass"))
    with pytest.raises(InputError, match="one column for each axis"):
        LightHHK(domain=domain).fit(table.rename(columns={"turns": "windings"}), table["depth"])


# --- partitions


@float64
def test_gates_in_native_units_are_those_of_the_unit_cube():
    domain = Domain(a=Real(-2, 6), b=Real(1, 100, log=True), c=Integer(0, 5), d=Choice("x", "y"))
    rng = np.random.default_rng(0)
    gates = Gates(rng.normal(size=3), rng.normal(size=(3, 5)), rng.gamma(2.0, size=3))
    kernel = Partition(gates, RBF(rng.gamma(2.0, size=(4, 5)), rng.gamma(2.0, size=4)))
    partition = native_partition(kernel, domain, Standardizer(3.0, 10.0))
    table = domain.to_array(domain.design(20))
    unit = jnp.asarray(domain.to_unit(table))
    one_hot = np.column_stack([table[:, 3] == "x", table[:, 3] == "y"])
    phi = np.column_stack([table[:, 0], np.log(table[:, 1].astype(float)), table[:, 2], one_hot]).astype(float)
    logits = partition.steepness * (partition.offset + phi @ partition.normal.T)
    np.testing.assert_allclose(logits, kernel.gates.logits(unit), atol=1e-10)
    np.testing.assert_allclose(partition.leaf_weights(table), np.asarray(kernel.leaf_weights(unit)).T, atol=1e-12)
    np.testing.assert_allclose(partition.lengthscale[:, 0], 8 * np.asarray(kernel.leaves.lengthscale)[:, 0])
    np.testing.assert_allclose(partition.std, 10 * np.sqrt(kernel.leaves.variance))
    assert partition.columns == ("a", "b", "c", "d=x", "d=y")


def test_one_leaf_is_a_partition_without_gates():
    partition = native_partition(RBF([1.0, 2.0], 4.0), Domain(a=Real(0, 2), b=Real(0, 4)), Standardizer(0.0, 1.0))
    assert (
        partition.num_leaves == 1
        and partition.std == [2.0]
        and partition.offset.shape == (0,)
        and partition.normal.shape == (0, 2)
    )
    np.testing.assert_array_equal(partition.leaf_weights([[1.0, 1.0]]), [[1.0]])


# --- learning on


def test_leaving_the_learned_box_fits_again_and_says_so():
    X, y = exponential(14)
    order = np.argsort(X[:, 0])
    X, y = X[order], y[order]
    model = LightHHK().fit(X[:12], y[:12])
    with pytest.warns(UserWarning, match="larger one"):
        model.partial_fit(X[12:], y[12:])
    whole = LightHHK().fit(X, y)
    assert model.domain_ == whole.domain_
    np.testing.assert_array_equal(model.predict(X), whole.predict(X))
    assert "larger" in model.diagnostics_.messages[0]


def test_outside_a_given_domain_an_observation_is_refused_and_the_regressor_stays_as_it_was():
    X, y = exponential(8)
    model = LightHHK(domain=Domain(a=Real(-2, 5), b=Real(-2, 5))).fit(X, y)
    before = model.predict(X)
    with pytest.raises(DomainError, match="widen the axis"):
        model.partial_fit([[9.0, 0.0]], [0.0])
    np.testing.assert_array_equal(model.predict(X), before)


@pytest.fixture(scope="module")
def online():
    """A stationary GP by SMC that saw five nearly flat outputs, then a large one."""
    box = Domain(a=Real(0, 1), b=Real(0, 1))
    X = np.random.default_rng(0).random((6, 2))
    y = np.array([0.01, -0.01, 0.02, 0.0, -0.02, 3.0])
    model = StationaryRegressor(inference=QUICK, domain=box).fit(X[:5], y[:5])
    first = model.standardizer_
    return X, y, first, model.partial_fit(X[5:], y[5:])


def test_the_output_scale_is_estimated_anew_when_it_was_wrong(online):
    X, y, first, model = online
    assert first.scale < 0.05
    assert model.standardizer_ == Standardizer.from_data(y)
    np.testing.assert_allclose(model.posterior_.data.y, model.standardizer_.transform(y), atol=1e-12)
    assert "scale" in model.diagnostics_.messages[0]
    mean, std = model.predict(X, return_std=True, noisy=True)
    assert np.all(np.abs(mean - y) < 4 * std)


def test_learning_is_a_function_of_the_seed(online):
    X, y, _, model = online
    again = clone(model).fit(X[:5], y[:5]).partial_fit(X[5:], y[5:])
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert not np.array_equal(clone(model).set_params(random_state=1).fit(X, y).predict(X), clone(model).fit(X, y).predict(X))


def test_a_given_output_range_is_kept():
    X, y = exponential(8)
    model = LightHHK(output_range=(-10, 30)).fit(X[:4], y[:4])
    model.partial_fit(np.clip(X[4:], X[:4].min(0), X[:4].max(0)), 100 * y[4:])
    assert model.standardizer_ == Standardizer.from_range(-10, 30)


def test_log_evidence_is_a_density_in_native_units(online):
    X, y, _, model = online
    plain, scaled = clone(model).fit(X, y), clone(model).fit(X, 100 * y)
    assert scaled.log_evidence_ == pytest.approx(plain.log_evidence_ - len(y) * np.log(100), abs=1e-6)
    fitted = LightHHK().fit(X, y)
    with pytest.raises(AttributeError, match="smc"):
        fitted.log_evidence_  # noqa: B018


# --- few observations

RIVALS = {
    "warped": (WarpedRegressor(inference=SHORT_ML), "do not determine"),
    "treed": (TreedRegressor(burn_in=20, total=60), "one leaf only"),
    "one layer": (DeepRegressor(1, sweeps=40, draws=5), None),
    "two layers": (DeepRegressor(2, sweeps=40, draws=5), "hardly tell a warp from none"),
    "three layers": (DeepRegressor(3, sweeps=40, draws=5), "hardly tell a warp from none"),
}


@pytest.mark.parametrize("name", RIVALS)
def test_every_rival_works_from_two_observations_on_and_says_what_so_few_cannot_tell(name):
    model, message = clone(RIVALS[name][0]), RIVALS[name][1]
    X, y = np.array([[0.0, 0.0], [1.0, 1.0], [0.2, 0.9]]), np.array([1.0, 3.0, -2.0])
    model.fit(X[:2], y[:2])
    for n in (2, 3):
        mean, std = model.predict(X, return_std=True)
        assert model.posterior_.data.num_observations == n
        assert np.isfinite(mean).all() and (std > 0).any() and np.isfinite(std).all()
        if message is not None:
            assert any(message in said for said in model.diagnostics_.messages)
        model.partial_fit(X[2:], y[2:])
    same = clone(model).fit(X[:2], [5.0, 5.0])  # outputs that do not vary
    np.testing.assert_allclose(same.predict(X[:2]), 5.0, atol=0.5)


# --- files


def test_files_and_pickles_give_the_same_regressor_back(online, tmp_path):
    X, _, _, model = online
    model.save(tmp_path / "model.npz")
    for other in (StationaryRegressor.load(tmp_path / "model.npz"), pickle.loads(pickle.dumps(model))):
        assert other.get_params() == model.get_params()
        np.testing.assert_array_equal(other.predict(X, return_std=True), model.predict(X, return_std=True))
        assert other.diagnostics_.messages == model.diagnostics_.messages
        assert other.posterior_.z.dtype == np.float64
    with pytest.raises(InputError, match=r"StationaryRegressor\.load"):
        HHKRegressor.load(tmp_path / "model.npz")


@pytest.mark.parametrize("name", RIVALS)
def test_every_rival_comes_back_from_a_file_to_the_last_bit(name, tmp_path):
    X, y = exponential(12)
    model = clone(RIVALS[name][0]).fit(X, y)
    model.save(tmp_path / "model.npz")
    other = type(model).load(tmp_path / "model.npz")
    points = exponential(60, seed=2)[0]
    assert other.get_params() == model.get_params() and other.diagnostics_.messages == model.diagnostics_.messages
    np.testing.assert_array_equal(other.predict(points, return_std=True), model.predict(points, return_std=True))
    new = 0.5 * (X[:1] + X[1:2])
    for regressor in (model, other):
        regressor.partial_fit(new, [0.1])
    np.testing.assert_array_equal(other.predict(points, return_std=True), model.predict(points, return_std=True))


# --- errors

GOOD_X, GOOD_Y = exponential(6)
CONSTANT = np.column_stack([GOOD_X[:, 0], np.full(6, 3.0)])


@pytest.mark.parametrize(
    ("params", "X", "y", "noise", "message"),
    [
        ({"leaves": 0}, GOOD_X, GOOD_Y, None, "leaves must be a whole number ≥ 1; got 0"),
        ({"inference": "magic"}, GOOD_X, GOOD_Y, None, "inference must be one of .* got 'magic'"),
        ({"inference": 3}, GOOD_X, GOOD_Y, None, "inference must be one of .* got 3"),
        ({"mean": "cubic"}, GOOD_X, GOOD_Y, None, "mean must be one of"),
        ({"weights": "cube"}, GOOD_X, GOOD_Y, None, "weights must be one of"),
        ({"noise": "loud"}, GOOD_X, GOOD_Y, None, "noise must be one of"),
        ({"noise": "known"}, GOOD_X, GOOD_Y, None, "needs the variances"),
        ({"noise_rate": -1.0}, GOOD_X, GOOD_Y, None, "must be positive and finite; got -1"),
        ({"random_state": -1}, GOOD_X, GOOD_Y, None, "random_state must lie between"),
        ({"random_state": "x"}, GOOD_X, GOOD_Y, None, "random_state must be"),
        ({"domain": (0, 1)}, GOOD_X, GOOD_Y, None, "domain must be a Domain"),
        ({"output_range": (1, 0)}, GOOD_X, GOOD_Y, None, "low < high"),
        ({"output_range": 3}, GOOD_X, GOOD_Y, None, "must be a pair"),
        ({"choose_leaves": (1, 1)}, GOOD_X, GOOD_Y, None, "different numbers of leaves"),
        ({"choose_leaves": (1, 2), "inference": "map"}, GOOD_X, GOOD_Y, None, "needs inference"),
        ({"choose_leaves": (1, 2), "combine": "vote"}, GOOD_X, GOOD_Y, None, "combine must be one of"),
        ({}, GOOD_X, GOOD_Y, -0.1, "≥ 0 and finite; got -0.1"),
        ({}, GOOD_X, GOOD_Y, np.ones(4), "one for each of the 6 rows"),
        ({}, GOOD_X[:1], GOOD_Y[:1], None, "n_samples=1"),
        ({}, CONSTANT, GOOD_Y, None, "must vary .* got 3 in all rows. Drop it, or give a Domain"),
        ({}, np.where(GOOD_X > 4, np.nan, GOOD_X), GOOD_Y, None, "NaN.* Drop or repair"),
        ({}, GOOD_X, np.where(GOOD_Y > 0, np.inf, GOOD_Y), None, "infinity.* Drop or repair"),
        ({}, GOOD_X, np.column_stack([GOOD_Y, GOOD_Y]), None, "Fit one regressor for each output"),
        ({}, GOOD_X, GOOD_Y[:4], None, "one y for each row"),
        ({}, GOOD_X[:, 0], GOOD_Y, None, "Expected 2D array"),
    ],
)
def test_errors_name_rule_value_and_remedy(params, X, y, noise, message):
    with pytest.raises(InputError, match=message):
        LightHHK(**params).fit(X, y, noise)


def test_errors_of_a_fitted_regressor():
    model = LightHHK().fit(GOOD_X, GOOD_Y)
    with pytest.raises(DataError, match="Give the columns that fit saw"):
        model.predict(np.ones((2, 3)))
    with pytest.raises(InputError, match="at most one of"):
        model.predict(GOOD_X, return_std=True, return_cov=True)
    with pytest.raises(InputError, match="n_samples must be"):
        model.sample_y(GOOD_X, 0)
    with pytest.raises(DataError, match="for all observations or for none"):
        model.partial_fit(GOOD_X[:1], GOOD_Y[:1], 0.1)
    with pytest.raises(InputError, match="learns its noise"):
        TreedRegressor().fit(GOOD_X, GOOD_Y, 0.1)


@pytest.mark.parametrize("kernel", ["rbf2", 3, int])
def test_unknown_kernels_are_named(kernel):
    with pytest.raises(InputError, match="kernel must be one of"):
        LightStationary(kernel).fit(GOOD_X, GOOD_Y)


@pytest.mark.parametrize("kernel", ["rbf", "matern12", "matern32", "matern52", "rational_quadratic", "periodic"])
def test_every_named_kernel_is_a_prior_with_something_to_learn(kernel):
    prior = StationaryRegressor(kernel)._surrogate(2).prior
    extra = {"rational_quadratic": 1, "periodic": 2}.get(kernel, 0)
    assert prior.size == 2 + 1 + 1 + extra  # lengthscales, variance, noise, and what else the kernel has


def test_noise_that_differs_between_leaves_reaches_the_predictions():
    rng = np.random.default_rng(0)
    X = np.linspace(0, 1, 60)[:, None]
    left = X[:, 0] < 0.5
    y = np.where(left, 5.0 + 0.01 * rng.standard_normal(60), rng.standard_normal(60))
    model = TreedRegressor(burn_in=300, total=600).fit(X, y)
    (_, latent), (_, noisy) = (model.predict(X, return_std=True, noisy=flag) for flag in (False, True))
    _, covariance = model.predict(X, return_cov=True, noisy=True)
    assert np.median(noisy[~left]) > 5 * np.median(noisy[left])
    assert np.all(noisy >= latent)
    np.testing.assert_allclose(np.diag(covariance)[~left], noisy[~left] ** 2, rtol=0.3)  # joint takes fewer of the draws
