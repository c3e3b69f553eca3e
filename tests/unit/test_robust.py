"""noise = "robust": wild values are set aside, come back when others bear them out, and leave the rest as it would be."""

from __future__ import annotations

import numpy as np
import pytest

import hyperleaf as hl
from hyperleaf.config import ConfigError, parse_toml
from hyperleaf.report.facts import gather
from hyperleaf.report.remarks import about_output
from hyperleaf.surrogates.files import load_posterior, save_posterior
from hyperleaf.surrogates.outliers import grossly_out
from hyperleaf.surrogates.robust import Robust

rng = np.random.default_rng(5)
X = rng.random((30, 2))
GRID = rng.random((200, 2))
BOX = hl.Domain(a=hl.Real(0, 1), b=hl.Real(0, 1))


def truth(x):
    return 20 + 8 * np.sin(4 * x[:, 0]) * x[:, 1]


Y = truth(X) + 0.05 * rng.standard_normal(len(X))


def regressor(noise="robust"):
    return hl.StationaryRegressor("matern52", inference="map", noise=noise, domain=BOX, random_state=1)


def rmse(model):
    return float(np.sqrt(np.mean((model.predict(GRID) - truth(GRID)) ** 2)))


@pytest.fixture(scope="module")
def clean():
    return regressor("learned").fit(X, Y)


# --- by size alone


@pytest.mark.parametrize(
    ("y", "out"),
    [
        ([10, 12, 15, 11, 1e9], [4]),
        ([10, 12, 15, 11, 13, 9, 8, 10, 1e9, -3e9], [8, 9]),
        ([-3, 5, 1, -2, 8000], [4]),
        ([3, 3, 3, 3, 1e9], [4]),
        ([1e-3, 0.1, 1, 20, 3000], []),  # grows by powers
        ([10, 12, 15, 11, 60], []),
        ([0, 0, 0, 0, 5], []),  # a step
        ([1, 2, 1e9, 1e9, 1e9], []),  # too many to be wild
        ([1, 2, 1e9], []),
        ([1e-100, 2e-100, 3e-100, 2e-100, 1e100], [4]),
    ],
)
def test_what_is_wild_by_its_size(y, out):
    assert list(np.flatnonzero(grossly_out(np.array(y, dtype=float)))) == out


# --- estimators


@pytest.mark.parametrize("wild", [{3: 1e9}, {3: 1e9, 17: -1e7}, {8: 20_000.0}, {21: -20.0}], ids=str)
def test_a_wild_value_changes_next_to_nothing(clean, wild):
    y = Y.copy()
    y[list(wild)] = list(wild.values())
    model = regressor().fit(X, y)
    assert list(model.aside_) == sorted(wild)
    assert rmse(model) < 1.2 * rmse(clean) and regressor("learned").fit(X, y).predict(GRID).std() != clean.predict(GRID).std()
    assert abs(model._noise_of_y().std - clean._noise_of_y().std) < 0.3 * clean._noise_of_y().std
    assert f"{len(wild)} value" in model.diagnostics_.messages[0] and "set aside" in model.diagnostics_.messages[0]


def test_without_wild_values_it_is_learned_noise(clean):
    model = regressor().fit(X, Y)
    assert len(model.aside_) == 0
    np.testing.assert_array_equal(model.predict(GRID), clean.predict(GRID))


def test_a_value_comes_back_when_a_run_nearby_says_the_same():
    y = Y.copy()
    y[4] += 60.0  # a peak that nobody has seen yet
    model = regressor().fit(X, y)
    assert list(model.aside_) == [4]
    model.partial_fit(np.clip(X[[4]] + 0.01, 0, 1), [y[4] - 5])
    assert len(model.aside_) == 0
    assert model.predict(X[[4]])[0] > 50


def test_a_value_is_told_to_be_wild_by_what_comes_after_it():
    few = regressor().fit(X[:6], np.r_[Y[:5], -20.0])  # nothing can be said with so few
    assert len(few.aside_) == 0
    for k in range(6, 24, 3):
        few.partial_fit(X[k : k + 3], Y[k : k + 3])
    assert list(few.aside_) == [5]
    assert rmse(few) < 1.0


def test_the_same_data_give_the_same_and_a_file_learns_on(tmp_path):
    y = np.where(np.arange(len(Y)) == 3, 1e9, Y)
    one, other = regressor().fit(X[:20], y[:20]), regressor().fit(X[:20], y[:20])
    loaded = hl.StationaryRegressor.load(one.save(tmp_path / "m.npz"))
    for model in (one, other, loaded):
        model.partial_fit(X[20:], y[20:])
    np.testing.assert_array_equal(one.predict(GRID), other.predict(GRID))
    np.testing.assert_array_equal(one.predict(GRID), loaded.predict(GRID))
    assert list(loaded.aside_) == [3] and len(loaded.learned_.told[0]) == 30
    learned = load_posterior(save_posterior(tmp_path / "l.npz", one.learned_))
    assert isinstance(learned, Robust) and list(learned.aside) == [3]


def test_a_box_that_grows_keeps_what_was_set_aside():
    model = hl.StationaryRegressor("matern52", inference="map", noise="robust")
    y = np.where(np.arange(len(Y)) == 3, 1e9, Y)
    model.fit(X, y)
    with pytest.warns(UserWarning, match="larger one"):
        model.partial_fit([[1.5, 0.5]], [20.0])
    assert list(model.aside_) == [3] and len(model.learned_.told[0]) == 31


def test_surrogates_that_learn_their_noise_can_be_robust_too():
    y = np.where(np.arange(len(Y)) == 3, 1e9, Y)
    study = study_of("treed", burn_in=20, total=60, warm_burn_in=10)
    study.add([{"a": a, "b": b, "y": value} for (a, b), value in zip(X, y, strict=True)])
    model = study.models["y"]
    assert isinstance(model, Robust) and list(model.aside) == [3] and len(model.y) == 29


# --- studies


def study_of(kind="stationary", **options):
    surrogate = {"kind": kind, **({"inference": "map"} if kind == "stationary" else {}), **options}
    return hl.Study.create("s", BOX, {"y": {"noise": "robust"}}, surrogate=surrogate, design=4)


def test_a_study_says_what_is_set_aside_and_its_figures_are_those_of_good_runs():
    study = study_of()
    study.add([{"a": a, "b": b, "y": value} for (a, b), value in zip(X, Y, strict=True)])
    before = study.accuracy()["y"]
    (query,) = study.ask()
    study.tell(query, y=1e9)
    after = study.measure()["y"]
    assert after.trusted_rmse < 1.2 * before.trusted_rmse and after.noise < 1.2 * before.noise and after.scale < 10
    assert after.loo_rmse < 1.2 * before.loo_rmse
    status = study.status()
    assert status.noise["y"].spread < 10 and not status.noise["y"].warnings
    assert [one.query_id for one in study.suspects()] == [query.id]
    assert "1e+09" in study.models["y"].diagnostics.messages[0]
    facts = gather(study.snapshot(learn=True), helping=False)
    assert facts.known[0].aside == (query.id,)
    said = [remark.text for remark in about_output(facts, facts.known[0])]
    assert f'Run {query.id} does not go with the others and is set aside: noise = "robust".' in said
    again = study_of()
    assert again.definition.outputs["y"].noise == "robust"


def test_where_a_value_was_set_aside_the_next_query_is_there_once():
    study = study_of()
    study.add([{"a": a, "b": b, "y": value} for (a, b), value in zip(X, np.where(np.arange(30) == 3, 1e9, Y), strict=True)])
    first, second = study.ask(2)
    assert first.point == {"a": X[3, 0], "b": X[3, 1]} and first.note == "as query 4, whose value does not go with the others"
    assert second.point != first.point
    study.tell(first, y=Y[3])
    assert study.ask()[0].point != first.point and list(study.models["y"].aside) == [3]


def test_of_a_pool_the_second_look_is_at_the_nearest_candidate():
    pool = [{"a": float(a), "b": float(b)} for a, b in X]
    study = hl.Study.create(
        "s", BOX, {"y": {"noise": "robust"}}, surrogate={"kind": "stationary", "inference": "map"}, design=12, pool=pool
    )
    queries = study.ask(12)
    for query in queries:
        study.tell(query, y=1e9 if query is queries[5] else Y[query.index])
    row = queries[5].index
    near = [int(k) for k in np.argsort(np.sum((X - X[row]) ** 2, axis=1))][1]
    (look,) = study.ask()
    assert (look.index == near) == (near not in [query.index for query in queries])


def test_a_word_that_is_none_is_refused_with_the_nearest():
    text = '[study]\nname = "s"\n[inputs]\nx = { low = 0.0, high = 1.0 }\n[outputs]\ny = { noise = "robst" }\n'
    with pytest.raises(ConfigError, match=r'"robust" \(some values are wild\).*Did you mean "robust"'):
        parse_toml(text)
    assert parse_toml(text.replace("robst", "robust")).outputs["y"].noise_kind == "robust"
