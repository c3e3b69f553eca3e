"""Noise: "none" leaves a nugget and nothing to learn, repeated runs measure it, and what is wrong with it is said."""

import jax
import numpy as np
import pytest

from hyperleaf.data import Dataset
from hyperleaf.domain import Domain, Real
from hyperleaf.errors import DataError, InputError
from hyperleaf.estimators import HHKRegressor, StationaryRegressor, TreedRegressor, WarpedRegressor
from hyperleaf.inference.map import Map
from hyperleaf.inference.smc import SMC
from hyperleaf.kernels import RBF
from hyperleaf.optimize import Trials, choose
from hyperleaf.study import Study
from hyperleaf.surrogates.gp import surrogate
from hyperleaf.surrogates.kinds import NUGGET
from hyperleaf.surrogates.named import make_surrogate
from hyperleaf.surrogates.noise import Noise, Repeats, posterior_noise, repeats_of

QUICK = {"kind": "stationary", "inference": {"kind": "map", "restarts": 2}}
LINE = Domain(x=Real(0.0, 2.0))
PARTICLES = SMC(particles=16, leapfrog=2, max_moves=1, start_moves=3)


def wave(n, repeat=0):
    x = np.linspace(0.0, 2.0, n)
    x = np.concatenate([x, x[:repeat]])
    return x[:, None], 3.0 + 50.0 * np.sin(3 * x)


# --- the nugget


@pytest.mark.parametrize("kind", ["hhk", "stationary", "warped"])
def test_without_noise_there_is_a_nugget_and_nothing_of_it_to_learn(kind):
    learned, none = (make_surrogate(kind, 2, noise=noise) for noise in ("learned", "none"))
    assert none.prior.size == learned.prior.size - 1
    assert float(none.model.noise) == NUGGET == 1e-6
    assert float(make_surrogate(kind, 2, noise="known").model.noise) == 0.0


@pytest.mark.parametrize("inference", [PARTICLES, Map(restarts=2)])
def test_the_nugget_stays_a_thousandth_of_the_spread_when_the_scale_is_estimated_anew(inference):
    x, y = wave(12)
    model = StationaryRegressor(inference=inference, noise="none", domain=LINE, random_state=0).fit(x[:3], 0.01 * y[:3])
    before = model.standardizer_.scale
    model.partial_fit(x[3:], y[3:])
    assert model.standardizer_.scale > 10 * before
    np.testing.assert_allclose(posterior_noise(model.posterior_), 1e-3, rtol=1e-9)
    np.testing.assert_allclose(np.sqrt(model.predict_mixture(x).noise), 1e-3 * model.standardizer_.scale, rtol=1e-9)


def test_outputs_that_repeat_exactly_are_met_exactly():
    x, y = wave(12)
    model = WarpedRegressor(noise="none", random_state=0).fit(x, y)
    assert np.abs(model.predict(x) - y).max() < 0.005 * np.std(y)
    assert model.diagnostics_.messages[0] == "noise: none (a nugget of 0.1 % of the spread)."


@pytest.mark.parametrize("kind", ["treed", "deep"])
@pytest.mark.parametrize("noise", ["none", "known"])
def test_surrogates_that_learn_their_noise_say_so(kind, noise):
    with pytest.raises(
        InputError, match=f'"{kind}" learns its noise; got noise = \'{noise}\'. Set noise = "learned" or "robust", or'
    ):
        make_surrogate(kind, 2, noise=noise)


def test_a_noise_that_is_none_of_these_is_an_error():
    with pytest.raises(InputError, match=r"noise must be one of .*Did you mean 'none'\?"):
        make_surrogate("hhk", 2, noise="nonne")
    with pytest.raises(InputError, match='a rate, a distribution, "per leaf", "known" or "none"'):
        surrogate(RBF(1.0), noise="loud")
    with pytest.raises(DataError, match='with noise="none" outputs repeat exactly and have no variances'):
        HHKRegressor(noise="none").fit(*wave(5), 0.1)


def test_a_nugget_is_no_reason_to_run_a_point_again():
    unit = np.array([[0.1], [0.9]])
    trials = Trials(unit, np.array([2.0, 1.0]))
    rounded = float(np.full(3, 1 / 3) @ np.full(3, NUGGET)) * (1 + 1e-12)
    assert choose(trials, unit[:1], noise=rounded) == (1, "")
    assert choose(trials, unit[:1], noise=1e-4)[0] == 0


# --- repeated runs


def test_repeated_runs_are_pooled_with_their_degrees_of_freedom():
    x = np.array([[0.1, 0.2]] * 3 + [[0.5, 0.5]] * 2 + [[0.9, 0.1]])
    y = np.array([1.0, 2.0, 3.0, 10.0, 12.0, 7.0])
    found = repeats_of(x, y)
    assert found == Repeats(2, pytest.approx(np.sqrt((2.0 + 2.0) / 3)), 3)
    moved = x + 1e-15 * np.arange(6)[:, None]  # the way to the unit cube and back
    assert repeats_of(moved, y) == found
    assert repeats_of(x[2:4], y[2:4]) is None and repeats_of(x[:1], y[:1]) is None


def test_pooled_deviation_is_the_noise_that_was_added():
    rng = np.random.default_rng(0)
    x = np.repeat(rng.random((200, 2)), 3, axis=0)
    found = repeats_of(x, 100 * x[:, 0] + 0.3 * rng.standard_normal(600))
    assert found.points == 200 and found.freedom == 400
    assert abs(found.std / 0.3 - 1) < 4 / np.sqrt(2 * 400)  # four standard errors


@pytest.mark.parametrize(
    ("kind", "std", "repeats", "words"),
    [
        ("learned", 0.19, None, None),
        (
            "learned",
            0.21,
            None,
            '21 % of the spread of rho is taken for noise. If your simulator repeats exactly, say noise = "none".',
        ),
        ("learned", 0.5, Repeats(2, 0.4, 4), None),  # it is there: runs at the same point say so
        (
            "learned",
            0.5,
            Repeats(2, 0.0, 4),
            'differ by 0 kg in rho, far less than the noise that was learned, 0.5 kg: say noise = "none"',
        ),
        ("learned", 0.1, Repeats(2, 0.01, 9), "say noise = 0.01"),
        ("learned", 0.1, Repeats(2, 0.08, 9), None),
        ("known", 0.5, None, None),
        ("known", 0.1, Repeats(2, 0.11, 9), None),
        ("known", 0.1, Repeats(2, 0.3, 9), "far more than the noise that was given, 0.1 kg. Say noise = 0.3"),
        ("none", 0.001, None, None),
        ("none", 0.001, Repeats(2, 1e-4, 9), None),
        ("none", 0.001, Repeats(2, 0.02, 7), 'differ by 0.02 kg in rho; noise = "none" is wrong. Say noise = "learned"'),
    ],
)
def test_what_is_wrong_with_the_noise_is_a_sentence_with_a_remedy(kind, std, repeats, words):
    found = Noise("rho", "kg", kind, 1.0, std, 0.9 * std, 1.1 * std, repeats).warnings
    assert found == () if words is None else words in " ".join(found) and len(found) == 1


def test_a_surrogate_that_cannot_be_told_is_not_the_remedy():
    (text,) = Noise("y", "", "learned", 1.0, 0.5, tellable=False).warnings
    assert text.endswith('say noise = "none", with a surrogate that can be told, such as "hhk".')
    rng = np.random.default_rng(0)
    x = np.linspace(0, 1, 30)[:, None]
    model = TreedRegressor(burn_in=50, total=100).fit(x, rng.standard_normal(30))
    assert any('such as "hhk"' in text for text in model.diagnostics_.messages)


def test_the_interval_is_that_of_the_posterior():
    x, y = wave(8)
    fitted = surrogate(RBF(0.3), inference=SMC(particles=64, leapfrog=2, max_moves=2)).fit(
        Dataset(x / 2, y / 50), key=jax.random.key(0)
    )
    std, low, high = posterior_noise(fitted)
    drawn = np.sqrt(fitted.noise())
    assert low < std and low < high
    assert fitted.weights[drawn < low].sum() <= 0.05 <= fitted.weights[drawn <= low].sum()
    assert fitted.weights[drawn < high].sum() <= 0.95 <= fitted.weights[drawn <= high].sum() + 1e-12
    assert std == pytest.approx(np.sqrt(fitted.weights @ fitted.noise()))


# --- in a study


def study_of(noise, rows, **options):
    study = Study.create("a", LINE, {"y": {"noise": noise, "unit": "mm"}}, surrogate=QUICK, **options)
    study.add(rows)
    study.measure()
    return study


def test_a_study_without_noise_says_so_and_learns_with_the_nugget():
    x, y = wave(9)
    study = study_of("none", [{"x": a, "y": b} for a, b in zip(x[:, 0], y, strict=True)])
    noise = study.status().noise["y"]
    assert noise.words == "none (a nugget of 0.1 % of the spread)" and noise.warnings == ()
    assert noise.std == pytest.approx(1e-3 * np.std(y))
    assert np.abs(study.predict([{"x": a} for a in x[:, 0]]).mean() - y).max() < 0.005 * np.std(y)


def test_repeats_that_differ_are_found_whatever_was_said():
    x, y = wave(7, repeat=2)
    rows = [{"x": a, "y": b} for a, b in zip(x[:, 0], y + np.r_[np.zeros(7), 4.0, -4.0], strict=True)]
    noise = study_of("none", rows).status().noise["y"]
    assert (noise.repeats.points, noise.repeats.freedom) == (2, 2) and noise.repeats.std == pytest.approx(np.sqrt(8.0))
    assert 'noise = "none" is wrong' in noise.warnings[0]
    assert study_of(3.0, rows).status().noise["y"].warnings == ()


def test_noise_is_measured_with_the_accuracy_and_older_figures_are_read_without_it():
    x, y = wave(8)
    study = study_of("learned", [{"x": a, "y": b} for a, b in zip(x[:, 0], y, strict=True)])
    last = study.history()[-1][1]["y"]
    assert last.noise > 0 and last.noise_low == last.noise_high  # one draw, by MAP
    study.storage.put_metrics(study.name, 9, {"y": {"expected_rmse": 1.0, "trusted_rmse": 1.0, "scale": 1.0}})
    noise = study.status().noise["y"]
    assert noise.std is None and noise.words == "not learned yet" and noise.warnings == ()


def test_noise_is_a_setting_of_an_output():
    with pytest.raises(InputError, match=r"surrogate: noise must be a setting of an output; write it in \[outputs\]"):
        Study.create("a", LINE, "y", surrogate={"kind": "hhk", "noise": "none"})
    with pytest.raises(InputError, match=r"got 'non'\. Did you mean \"none\"\?"):
        Study.create("a", LINE, {"y": {"noise": "non"}})
    with pytest.raises(InputError, match="has no option 'num_dims'"):
        Study.create("a", LINE, "y", surrogate={"kind": "hhk", "num_dims": 3})
