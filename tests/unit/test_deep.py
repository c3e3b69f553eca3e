"""The deep GP's algebra, predictions and edges; whether its chain samples the right thing is asked in tests/statistical."""

import jax
import numpy as np
import pytest

from hyperleaf.data import Dataset
from hyperleaf.errors import DataError, HyperleafError, InputError
from hyperleaf.surrogates.deep import DeepGP
from hyperleaf.surrogates.deep.gaussian import CORRELATIONS, cholesky, cross_distances, log_marginal, log_normal, self_distances
from hyperleaf.surrogates.deep.sampler import extend_state, make_state, sweep
from hyperleaf.surrogates.files import load_posterior, save_posterior

QUICK = {"sweeps": 60, "draws": 5}


def wave(n: int = 12, d: int = 2, seed: int = 0) -> Dataset:
    rng = np.random.default_rng(seed)
    x = rng.random((n, d))
    y = np.sin(6 * x[:, 0]) + 0.1 * rng.standard_normal(n)
    return Dataset(x, (y - y.mean()) / y.std())


def dense(kernel: str, a: np.ndarray, b: np.ndarray, theta: float) -> np.ndarray:
    """The correlation from its definition, pair by pair."""
    r2 = ((a[:, None, :] - b[None, :, :]) ** 2).sum(-1)
    if kernel == "rbf":
        return np.exp(-r2 / theta)
    s = np.sqrt(5 * r2 / theta)
    return (1 + s + s**2 / 3) * np.exp(-s)


def dense_draw(posterior, i: int, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, float, float]:
    """Warped x, mean and latent covariance of draw i at x by plain inverses; τ̂² and g."""
    kernel, draws, inputs, points = posterior.surrogate.kernel, posterior.draws, posterior.data.x, x
    for hidden, scales in zip(draws.hidden, draws.scales, strict=True):
        columns = []
        for j in range(hidden.shape[2]):
            k = dense(kernel, inputs, inputs, scales[i, j]) + 1.5e-8 * np.eye(len(inputs))
            columns.append(dense(kernel, points, inputs, scales[i, j]) @ np.linalg.solve(k, hidden[i][:, j]))
        inputs, points = hidden[i], np.column_stack(columns)
    theta, g, y = draws.theta[i], draws.nugget[i], posterior.data.y
    k = dense(kernel, inputs, inputs, theta) + g * np.eye(len(y))
    cross = dense(kernel, points, inputs, theta)
    tau2 = y @ np.linalg.solve(k, y) / len(y)
    cov = tau2 * (dense(kernel, points, points, theta) - cross @ np.linalg.solve(k, cross.T))
    return points, cross @ np.linalg.solve(k, y), cov, tau2, g


def test_defaults_are_those_of_the_method():
    for layers, rate in ((1, 4.0), (2, 1.0), (3, 1.0)):
        surrogate, data = DeepGP(layers=layers), wave()
        model = surrogate.model(data)
        assert (model.nugget_prior, model.theta_prior) == ((1.01, 10.0), (1.2, rate))
        assert model.hidden_priors == ((1.2, 2.0),) * (layers - 1) and model.sample_nugget
        state = surrogate._start(model, np.random.default_rng(0), 0)
        assert (state.theta, state.nugget) == (0.01, 0.001) and state.scales == ((0.1, 0.1),) * (layers - 1)
        assert all((nodes == data.x).all() for nodes in state.hidden)
    assert (surrogate.kernel, surrogate.sweeps, surrogate.draws) == ("matern52", 10_000, 100)


@pytest.mark.parametrize("kernel", ["rbf", "matern52"])
def test_correlations_and_distances_are_their_definitions(kernel):
    rng = np.random.default_rng(0)
    a, b = rng.random((7, 3)), rng.random((5, 3))
    np.testing.assert_allclose(CORRELATIONS[kernel](cross_distances(a, b), 0.3), dense(kernel, a, b, 0.3), atol=1e-14)
    np.testing.assert_allclose(CORRELATIONS[kernel](self_distances(a), 0.3), dense(kernel, a, a, 0.3), atol=1e-14)
    assert (np.diagonal(self_distances(a)) == 0.0).all()


def test_log_densities_are_those_of_the_dense_formulas():
    rng = np.random.default_rng(1)
    x, y = rng.random((6, 2)), rng.standard_normal(6)
    k = dense("matern52", x, x, 0.4) + 0.1 * np.eye(6)
    factor = cholesky(CORRELATIONS["matern52"], self_distances(x), 0.4, 0.1)
    quadratic, log_det = y @ np.linalg.solve(k, y), np.linalg.slogdet(k)[1]
    assert log_normal(factor, y) == pytest.approx(-0.5 * quadratic - 0.5 * log_det, abs=1e-12)
    assert log_marginal(factor, y) == pytest.approx(-3 * np.log(quadratic) - 0.5 * log_det, abs=1e-12)


@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("kernel", ["rbf", "matern52"])
def test_predictions_follow_each_draw_through_its_layers(layers, kernel):
    posterior = DeepGP(layers=layers, kernel=kernel, **QUICK).fit(wave(), key=jax.random.key(0))
    x = np.random.default_rng(2).random((9, 2))
    mixture, joint, warped = posterior.predict(x), posterior.joint(x[:4], x[4:]), posterior.warp(x)
    alc = np.zeros(4)
    for i in range(len(posterior.draws)):
        points, mean, cov, tau2, g = dense_draw(posterior, i, x)
        np.testing.assert_allclose(warped[i], points, atol=1e-6)
        np.testing.assert_allclose(mixture.means[i], mean, atol=1e-6)
        np.testing.assert_allclose(mixture.variances[i], np.diagonal(cov), atol=1e-6 * tau2)
        assert mixture.noise[i] == pytest.approx(tau2 * g, rel=1e-6)
        np.testing.assert_allclose(joint.mean_x[i], mean[:4], atol=1e-6)
        np.testing.assert_allclose(joint.var_r[i], np.diagonal(cov)[4:], atol=1e-6 * tau2)
        np.testing.assert_allclose(joint.cov[i], cov[:4, 4:], atol=1e-6 * tau2)
        alc += (cov[:4, 4:] ** 2).mean(1) / (np.diagonal(cov)[:4] + tau2 * g) / len(posterior.draws)
    np.testing.assert_allclose(posterior.alc(x[:4], x[4:]), alc, rtol=1e-4, atol=1e-9)


def test_alc_is_the_same_in_one_block_and_in_many(monkeypatch):
    posterior = DeepGP(**QUICK).fit(wave(), key=jax.random.key(0))
    rng = np.random.default_rng(3)
    candidates, references = rng.random((50, 2)), rng.random((40, 2))
    whole = posterior.alc(candidates, references)
    monkeypatch.setattr("hyperleaf.surrogates.deep.posterior.BLOCK", 1)
    np.testing.assert_allclose(posterior.alc(candidates, references), whole, rtol=1e-10)


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_a_state_carries_exactly_what_it_determines(layers):
    surrogate, data = DeepGP(layers=layers), wave()
    model = surrogate.model(data)
    rng = np.random.default_rng(4)
    state = surrogate._start(model, rng, 0)
    for _ in range(30):
        state, _ = sweep(state, model, rng)
    fresh = make_state(model, state.hidden, state.scales, state.theta, state.nugget)
    assert state.log_likelihood == pytest.approx(fresh.log_likelihood, abs=1e-6)
    for kept, computed in zip(state.squared, fresh.squared, strict=True):
        np.testing.assert_allclose(kept, computed, atol=1e-12)
    for kept_layer, layer in zip(state.factors, fresh.factors, strict=True):
        for kept, computed in zip(kept_layer, layer, strict=True):
            np.testing.assert_allclose(np.tril(kept), np.tril(computed), atol=1e-6)


@pytest.mark.parametrize("layers", [2, 3])
def test_a_warm_start_puts_new_rows_at_their_conditional_means(layers):
    posterior = DeepGP(layers=layers, **QUICK).fit(wave(), key=jax.random.key(0))
    new = np.random.default_rng(5).random((2, 2))
    model = posterior.surrogate.model(posterior.data.append(new, [0.0, 1.0]))
    last = posterior.last[0]
    extended = extend_state(model, last)
    # The last kept draw is the last state, so that its warp is the conditional mean.
    np.testing.assert_allclose(extended.hidden[-1][-2:], posterior.warp(new)[-1], atol=1e-7)
    np.testing.assert_array_equal(extended.hidden[-1][:-2], last.hidden[-1])
    assert (extended.scales, extended.theta, extended.nugget) == (last.scales, last.theta, last.nugget)


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_it_works_from_two_observations_on(layers):
    surrogate = DeepGP(layers=layers, **QUICK)
    posterior = surrogate.fit(Dataset(np.array([[0.1, 0.5], [0.9, 0.2]]), np.array([-1.0, 1.0])), key=jax.random.key(0))
    x = np.random.default_rng(6).random((4, 2))
    for n, y in ((3, 0.5), (4, -0.2)):
        posterior = posterior.update(np.full((1, 2), 1 / n), [y], key=jax.random.key(n))
        assert posterior.data.num_observations == n
        mixture = posterior.predict(x)
        assert np.isfinite(mixture.means).all() and (np.asarray(mixture.variances) >= 0).all()
        assert np.isfinite(posterior.alc(x, x)).all()
        few = [message for message in posterior.diagnostics.messages if "hardly tell a warp from none" in message]
        assert len(few) == (layers > 1 and n <= 3)
    with pytest.raises(DataError, match="at least 2"):
        surrogate.fit(Dataset(np.zeros((1, 2)), np.zeros(1)), key=jax.random.key(0))


def test_equal_outputs_and_repeated_inputs_do_no_harm():
    x = np.array([[0.5], [0.5], [0.5], [0.2]])
    for y in (np.zeros(4), np.array([1.0, -1.0, 0.0, 0.0])):
        mixture = DeepGP(**QUICK).fit(Dataset(x, y), key=jax.random.key(1)).predict([[0.4]])
        assert np.isfinite(mixture.means).all() and np.isfinite(mixture.variances).all()


def test_the_same_key_gives_the_same_draws_and_another_key_others():
    fits = [DeepGP(**QUICK).fit(wave(), key=jax.random.key(k)).draws for k in (0, 0, 1)]
    np.testing.assert_array_equal(fits[0].hidden[0], fits[1].hidden[0])
    assert (fits[0].theta != fits[2].theta).any()


def test_fixed_noise_is_held_and_known_noise_gives_the_pattern():
    data = wave()
    held = DeepGP(fixed_noise=0.02, **QUICK).fit(data, key=jax.random.key(0))
    assert (held.draws.nugget == 0.02).all() and "nugget" not in held.diagnostics.extra["acceptance"]
    noisy = Dataset(data.x, data.y, np.where(np.arange(12) == 3, 100.0, 1e-4))
    posterior = DeepGP(fixed_noise=0.02, **QUICK).fit(noisy, key=jax.random.key(0))
    assert np.mean(posterior.surrogate.noise_pattern(noisy)) == pytest.approx(1.0)
    variances = np.asarray(posterior.predict(data.x).variances).mean(0)
    assert variances[3] > 3 * np.delete(variances, 3).max()  # the one noisy observation says little about f there


def test_diagnostics_report_acceptance_ess_and_rhat():
    posterior = DeepGP(sweeps=200, draws=20, chains=2).fit(wave(), key=jax.random.key(0))
    diagnostics = posterior.diagnostics
    assert diagnostics.num_draws == len(posterior.draws) == 20 and diagnostics.seconds > 0
    assert set(diagnostics.rhat) == {"log_likelihood", "nugget", "theta"}
    assert 0 < diagnostics.ess_bulk["log_likelihood"] < 400
    assert all(0 < rate < 1 for rate in diagnostics.extra["acceptance"].values())
    assert diagnostics.extra["slice_evaluations"] > 1


@pytest.mark.parametrize(
    "settings",
    [
        {"layers": 4},
        {"kernel": "linear"},
        {"sweeps": 0},
        {"draws": 6000},
        {"draws": 10, "chains": 3},
        {"burn_in": 10_000},
        {"fixed_noise": -1.0},
        {"hidden_prior": (0.0, 1.0)},
        {"start_theta": 0.0},
        {"update_sweeps": 50},
    ],
)
def test_settings_that_break_a_rule_are_refused(settings):
    with pytest.raises(InputError):
        DeepGP(**settings)


def test_updates_run_a_fifth_of_the_sweeps_unless_that_yields_too_few_draws():
    assert DeepGP()._update_sweeps() == 2000
    assert DeepGP(update_sweeps=500)._update_sweeps() == 500
    assert DeepGP(sweeps=300, burn_in=200)._update_sweeps() == 300


def test_points_of_the_wrong_shape_or_not_finite_are_refused():
    posterior = DeepGP(**QUICK).fit(wave(), key=jax.random.key(0))
    for x in (np.zeros((3, 1)), np.zeros(2), np.full((1, 2), np.nan), np.zeros((0, 2))):
        with pytest.raises(HyperleafError):
            posterior.predict(x)


@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("rows", [slice(None), slice(None, None, 2)])
def test_a_file_gives_back_the_same_predictions_to_the_last_bit(layers, rows, tmp_path):
    whole = wave(24)
    data = Dataset(np.asfortranarray(whole.x)[rows], whole.y[rows])
    posterior = DeepGP(layers=layers, kernel="rbf", **QUICK).fit(data, key=jax.random.key(0))
    loaded = load_posterior(save_posterior(tmp_path / "deep.npz", posterior))
    x = np.random.default_rng(7).random((200, 2))
    for ours, theirs in ((posterior, loaded), *[[p.update(x[:1], [0.3], key=jax.random.key(1)) for p in (posterior, loaded)]]):
        np.testing.assert_array_equal(ours.predict(x).means, theirs.predict(x).means)
        np.testing.assert_array_equal(ours.predict(x).variances, theirs.predict(x).variances)
        np.testing.assert_array_equal(ours.alc(x, x[:50]), theirs.alc(x, x[:50]))
