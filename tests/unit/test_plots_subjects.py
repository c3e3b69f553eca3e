"""Every picture takes what people hold, an estimator, a study or a loaded model, and draws it in native units and names."""

from types import SimpleNamespace

import numpy as np
import pytest

import hyperleaf as hl
from hyperleaf import plots
from hyperleaf.data import Dataset
from hyperleaf.errors import InputError, NotFittedYetError
from hyperleaf.mixture import Mixture
from hyperleaf.plots.subject import most_divided
from hyperleaf.surrogates.base import Posterior

DOMAIN = hl.Domain(speed=hl.Real(1.0, 100.0, log=True, unit="1/min"), load=hl.Real(0, 1))
MAP = {"kind": "hhk", "leaves": 3, "inference": {"kind": "map", "restarts": 1}}
INPUTS = {"speed [1/min]", "load"}


class Blank(Posterior):
    """Believes nothing, and divides nothing."""

    data = Dataset(np.full((1, 1), 0.5), np.zeros(1))

    def predict(self, x):
        zero = np.zeros((1, len(x)))
        return Mixture(np.ones(1), zero, zero + 1.0, np.zeros(1))

    def joint(self, x, r):
        raise NotImplementedError

    def update(self, x, y, *, key, noise=None):
        raise NotImplementedError


@pytest.fixture(scope="module")
def study():
    study = hl.Study.create("bench", DOMAIN, {"torque": {"unit": "N m"}, "other": {}}, surrogate=MAP, design=11)
    rows = [{**p, "torque": 50.0 * np.log(p["speed"]) * p["load"]} for p in DOMAIN.design(10, "sobol", 0)]
    study.add([{**row, "other": row["load"]} for row in rows])
    study.ask(owner="person")
    return study


@pytest.fixture(scope="module")
def held(study, tmp_path_factory):
    """The same thing in three hands."""
    estimator = hl.HHKRegressor(leaves=3, inference=hl.Map(restarts=1), domain=DOMAIN, random_state=0)
    table = study.table().dropna(subset=["torque"])
    estimator.fit(table[list(DOMAIN.names)].to_numpy(dtype=float), table["torque"].to_numpy(dtype=float))
    path = study.save_model(tmp_path_factory.mktemp("model") / "torque.npz")
    return {"study": study, "snapshot": study.snapshot(learn=True), "model": hl.load_model(path), "estimator": estimator}


def titles(figure, which):
    found = [axis.title.text for axis in figure.select_xaxes()] if which == "x" else [a.title.text for a in figure.select_yaxes()]
    return [text for text in found if text]


@pytest.mark.parametrize("kind", ["study", "snapshot", "model", "estimator"])
def test_maps_of_what_people_hold_need_no_further_argument(held, kind):
    label = "y" if kind == "estimator" else "torque [N m]"
    maps = plots.posterior_maps(held[kind], resolution=9)
    assert {*titles(maps, "x"), *titles(maps, "y")} == INPUTS
    assert maps.layout.coloraxis.colorbar.title.text == f"mean of {label}"
    leaves = plots.leaf_weight_maps(held[kind], resolution=9)
    assert {*titles(leaves, "x"), *titles(leaves, "y")} == INPUTS
    assert any(trace.name == "observations" for trace in leaves.data)
    surface = plots.acquisition_maps(held[kind], resolution=9)
    assert {*titles(surface, "x"), *titles(surface, "y")} == INPUTS
    pending = [trace for trace in surface.data if trace.name == "pending"]
    assert bool(pending) == (kind in ("study", "snapshot"))  # what a study waits for is on it


def test_predictions_are_those_of_the_study_in_native_units(held, study):
    heat = next(t for t in plots.posterior_maps(held["model"], resolution=9).data if t.type == "heatmap")
    x, y = np.asarray(heat.x), np.asarray(heat.y)
    assert x[0] == pytest.approx(1.0) and x[-1] == pytest.approx(100.0)
    expected = study.predict([{"speed": value, "load": y[3]} for value in x], "torque").mean()
    np.testing.assert_allclose(np.asarray(heat.z)[3], expected, rtol=1e-6)


def test_over_many_inputs_the_two_that_gates_divide_most_are_shown():
    gates = hl.kernels.Gates(np.array([-0.5, -0.3]), np.array([[0.1, 2, 9, 0, 1], [0, 1, 0, 9, 1]]), np.full(2, 50.0))
    domain = hl.Domain(a=hl.Real(0, 1), b=hl.Real(0, 1), c=hl.Choice("p", "q"), d=hl.Integer(1, 5))
    assert most_divided(SimpleNamespace(gates=gates), domain) == ("b", "d")


def test_one_of_several_outputs_is_named(study):
    assert plots.posterior_maps(study, output="other", resolution=5).layout.coloraxis.colorbar.title.text == "mean of other"
    assert study.plot("other", resolution=5).layout.coloraxis.colorbar.title.text == "mean of other"
    with pytest.raises(InputError, match=r"one of \['torque', 'other'\]; got 'lift'"):
        study.plot("lift")


def test_what_cannot_be_drawn_is_said_with_the_remedy(study):
    with pytest.raises(NotFittedYetError, match="Call fit"):
        plots.posterior_maps(hl.HHKRegressor())
    empty = hl.Study.create("empty", DOMAIN, ["y"], surrogate=MAP)
    with pytest.raises(NotFittedYetError, match="Tell some runs first"):
        empty.plot()
    with pytest.raises(NotFittedYetError, match="learn=True"):
        plots.posterior_maps(study.snapshot())
    plain = Blank()
    with pytest.raises(InputError, match=r"has none\. Take the HHK"):
        plots.leaf_weight_maps(plain)
    with pytest.raises(InputError, match="treed model"):
        plots.tree_map(plain)
    with pytest.raises(InputError, match="deep or a warped model"):
        plots.warp_maps(plain)


def test_draws_from_a_prior_need_a_kernel():
    with pytest.raises(InputError, match="one kernel"):
        plots.prior_draws(Blank())


@pytest.mark.long
@pytest.mark.parametrize(
    ("surrogate", "picture"),
    [
        ({"kind": "treed", "total": 40, "burn_in": 20}, plots.tree_map),
        ({"kind": "deep", "sweeps": 40, "draws": 5, "layers": 1}, plots.warp_maps),
        ({"kind": "warped"}, plots.warp_maps),
    ],
    ids=["treed", "deep", "warped"],
)
def test_rivals_are_drawn_from_a_study(surrogate, picture):
    domain = hl.Domain(a=hl.Real(0, 10, unit="s"), b=hl.Real(0, 1))
    study = hl.Study.create("rival", domain, ["y"], surrogate=surrogate)
    study.add([{**p, "y": np.sin(p["a"]) * p["b"]} for p in domain.design(12, "sobol", 0)])
    assert "a [s]" in titles(picture(study, resolution=9), "x")
    assert "a [s]" in titles(plots.posterior_maps(study, resolution=5), "x")
    if surrogate["kind"] == "warped":
        assert titles(plots.prior_draws(study, num=1, resolution=5), "x") == ["a [s]"]


def test_a_study_shows_itself_on_a_line_and_in_a_notebook(study):
    study.measure()
    assert repr(study).startswith("<Study 'bench': 10 done, 1 running, torque ±")
    before = study.storage.view("bench")[0].version
    html = study._repr_html_()
    assert "<td>torque</td>" in html and "N m</td>" in html and study.storage.view("bench")[0].version == before
    harm = hl.Study.create("<b>x</b>", DOMAIN, ["y"])
    assert repr(harm) == "<Study '<b>x</b>': nothing asked yet>"
    assert "&lt;b&gt;x&lt;/b&gt;" in harm._repr_html_() and "<b>" not in harm._repr_html_()
