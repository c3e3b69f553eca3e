"""Files of every format version that there was are read, predict what they did when they were written, and learn on."""

import json
import shutil
from pathlib import Path

import jax
import numpy as np
import pytest

import hyperleaf as hl
from hyperleaf.estimators.files import REGRESSORS, load_regressor
from hyperleaf.study.learning import Learner
from hyperleaf.surrogates import tags
from hyperleaf.surrogates.files import load_posterior, posterior_from_arrays, posterior_to_arrays
from hyperleaf.surrogates.kinds import KINDS

FOLDERS = sorted((Path(__file__).parents[1] / "golden").glob("models-v*"))
EXPECTED = {folder: json.loads((folder / "expected.json").read_text()) for folder in FOLDERS}
POINTS = np.array([[0.1, 0.2], [0.5, 0.5], [0.9, 0.3], [0.35, 0.95], [1.0, 0.0]])
NEW_X, NEW_Y = [[0.6, 0.4]], [0.5]
OTHERS = ("priors", "learned", "study-model")
NAMES = [(folder, name) for folder in FOLDERS for name in EXPECTED[folder]]
POSTERIORS = [pair for pair in NAMES if pair[1] not in OTHERS and not pair[1].startswith("regressor")]
REGRESSOR_FILES = [pair for pair in NAMES if pair[1].startswith("regressor")]


def label(value):
    return value.name if isinstance(value, Path) else value


def check(mixture, expected):
    found = {"mean": mixture.mean(), "variance": mixture.var(), "noisy_variance": mixture.noisy().var()}
    for name, values in found.items():
        np.testing.assert_allclose(values, expected[name], rtol=1e-12, atol=1e-12, err_msg=name)


def tags_in(node):
    """Every tag of a header; an assertion that nothing is named by its module."""
    if isinstance(node, dict):
        assert "class" not in node
        return {node["tag"]}.union(tags_in(node["fields"])) if "tag" in node else set().union(*map(tags_in, node.values()))
    return set().union(*map(tags_in, node)) if isinstance(node, list) else set()


def check_saved(content):
    """What is saved names tags and no modules, loses nothing of the diagnostics, and is read again."""
    arrays, meta = posterior_to_arrays(content)
    assert meta["version"] == 2 and tags_in(meta["posterior"]) <= set(tags.CLASS_OF)
    text = json.dumps(meta["posterior"])
    assert "hyperleaf." not in text and "numpyro." not in text
    return posterior_from_arrays(arrays, json.loads(json.dumps(meta)))


@pytest.mark.parametrize(("folder", "name"), POSTERIORS, ids=label)
def test_a_golden_posterior_predicts_the_same_and_learns_on(folder, name):
    posterior, expected = load_posterior(folder / f"{name}.npz"), EXPECTED[folder][name]
    check(posterior.predict(POINTS), expected)
    if "log_evidence" in expected:
        np.testing.assert_allclose(posterior.log_evidence, expected["log_evidence"], rtol=1e-12)
    check(check_saved(posterior).predict(POINTS), expected)
    # What learning makes anew are classes of today: they have tags too, or they could not be saved, or would be left out.
    moved = posterior.update(NEW_X, NEW_Y, key=jax.random.key(7))
    assert moved.data.num_observations == posterior.data.num_observations + 1
    assert np.isfinite(moved.predict(POINTS).mean()).all()
    again = check_saved(moved)
    assert again.diagnostics.extra.keys() == moved.diagnostics.extra.keys()
    np.testing.assert_array_equal(again.predict(POINTS).mean(), moved.predict(POINTS).mean())


@pytest.mark.parametrize(("folder", "name"), REGRESSOR_FILES, ids=label)
def test_a_golden_regressor_predicts_the_same_and_learns_on(folder, name, tmp_path):
    model = load_regressor(folder / f"{name}.npz")
    check(model.predict_mixture(POINTS), EXPECTED[folder][name])
    again = type(model).load(model.save(tmp_path / "model.npz"))
    check(again.predict_mixture(POINTS), EXPECTED[folder][name])
    assert np.isfinite(again.partial_fit(NEW_X, NEW_Y).predict(POINTS)).all()


@pytest.mark.parametrize("folder", FOLDERS, ids=label)
def test_golden_priors_have_the_densities_they_had(folder):
    with jax.enable_x64(True):
        read = load_posterior(folder / "priors.npz")
        assert read.keys() == EXPECTED[folder]["priors"].keys()
        for priors in (read, check_saved(read)):
            for name, prior in priors.items():
                density = np.sum(np.asarray(prior.log_prob(0.4)))
                np.testing.assert_allclose(density, EXPECTED[folder]["priors"][name], rtol=1e-12, atol=1e-12, err_msg=name)


@pytest.mark.parametrize("folder", FOLDERS, ids=label)
def test_a_golden_model_of_a_study_predicts_the_same(folder):
    points = [{"a": a, "b": b} for a, b in POINTS]
    check(hl.load_model(folder / "study-model.npz").predict(points), EXPECTED[folder]["study-model"])


@pytest.mark.parametrize("folder", FOLDERS, ids=label)
def test_what_a_golden_store_has_learned_is_read_not_learned_again(folder, tmp_path, monkeypatch):
    shutil.copy(folder / "learned.sqlite", tmp_path / "learned.sqlite")
    study = hl.Study.load(storage=f"sqlite:///{tmp_path}/learned.sqlite")
    points = [{"a": a, "b": b} for a, b in POINTS]
    with monkeypatch.context() as patch:
        patch.setattr(Learner, "_absorb", lambda *_: pytest.fail("what was learned could not be read"))
        check(study.predict(points), EXPECTED[folder]["learned"])
    study.tell(7, y=0.5)
    assert np.isfinite(study.predict(points).mean()).all()
    study.storage.close()


def test_every_kind_of_surrogate_and_regressor_has_a_golden_file():
    posteriors = {name.partition("-")[0] for _, name in POSTERIORS}
    assert posteriors >= set(KINDS), "a new kind needs a golden file: see tests/golden/make_models.py"
    assert {type(load_regressor(folder / f"{name}.npz")) for folder, name in REGRESSOR_FILES} == set(REGRESSORS.values())
