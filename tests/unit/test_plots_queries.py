"""The picture of a criterion shows the surface that `suggest` climbs, and finished, pending and chosen points in their places."""

import sys
from pathlib import Path

import numpy as np
import pytest

from hyperleaf.acquisition import ALC, Entropy, Variance
from hyperleaf.data import Pool, Standardizer
from hyperleaf.domain import Choice, Domain, Integer, Real
from hyperleaf.errors import InputError
from hyperleaf.plots import acquisition_maps
from hyperleaf.suggestion import suggest

sys.path.insert(0, str(Path(__file__).parents[1]))
from reference_posterior import reference

BOTH = pytest.mark.parametrize("backend", ["plotly", "matplotlib"])
PLANE = Domain(mach=Real(0.2, 6.0), alpha=Real(1.0, 100.0, log=True, unit="deg"), constraints=["mach * alpha <= 300"])
POSTERIOR = reference()
MIXED = Domain(a=Real(0, 10), k=Integer(1, 5), m=Choice("x", "y"))


def points_of(figure, name, panel=0):
    """Places (n, 2) of the markers of that name in a panel."""
    if hasattr(figure, "to_plotly_json"):
        axis = f"x{panel + 1 if panel else ''}"
        found = [t for t in figure.data if t.name == name and t.mode == "markers" and (t.xaxis or "x") == axis]
        return np.column_stack([found[0].x, found[0].y]) if found else np.zeros((0, 2))
    found = [c for c in figure.axes[panel].collections if c.get_label() == name]
    return np.asarray(found[0].get_offsets()) if found else np.zeros((0, 2))


def heats_of(figure, shape):
    if hasattr(figure, "to_plotly_json"):
        return [np.asarray(t.z, dtype=float) for t in figure.data if t.type == "heatmap"]
    meshes = [axes.collections[0] for axes in figure.axes if axes.get_label() != "<colorbar>"]
    return [np.ma.filled(np.ma.asarray(mesh.get_array(), dtype=float), np.nan).reshape(shape) for mesh in meshes]


def curves_of(figure):
    """(x, y) of the first solid line of each panel."""
    if hasattr(figure, "to_plotly_json"):
        lines = [t for t in figure.data if t.mode == "lines" and t.line.dash == "solid"]
        return [(np.asarray(t.x), np.asarray(t.y)) for t in lines]
    return [line.get_data() for axes in figure.axes for line in axes.lines if line.get_linestyle() == "-"]


@BOTH
def test_the_map_over_two_inputs_is_the_score_in_native_units_blank_where_forbidden(backend):
    pending = [{"mach": 1.0, "alpha": 20.0}]
    chosen = suggest(POSTERIOR, PLANE, "variance", n=2, pending=pending, optimizer="sobol")
    figure = acquisition_maps(POSTERIOR, PLANE, "variance", chosen=chosen, pending=pending, resolution=9, backend=backend)
    (z,) = heats_of(figure, (9, 9))
    unit = np.stack(np.meshgrid(np.linspace(0, 1, 9), np.linspace(0, 1, 9)), -1).reshape(-1, 2)  # rows along the second axis
    expected = Variance().score(POSTERIOR, unit, pending=PLANE.to_unit(pending))
    expected[~PLANE.feasible_unit(unit)] = np.nan
    assert 0 < np.isnan(expected).sum() < 40
    np.testing.assert_allclose(z, expected.reshape(9, 9), rtol=1e-9)
    np.testing.assert_allclose(points_of(figure, "finished"), PLANE.from_unit_array(POSTERIOR.data.x), rtol=1e-9)
    np.testing.assert_allclose(points_of(figure, "pending"), [[1.0, 20.0]], rtol=1e-9)
    np.testing.assert_allclose(points_of(figure, "chosen"), [[s.point["mach"], s.point["alpha"]] for s in chosen], rtol=1e-9)
    if backend == "matplotlib":
        assert figure.axes[0].get_ylabel() == "alpha [deg]" and figure.axes[0].get_yscale() == "log"
        assert len(figure.axes[0].collections) > 4  # contours, also where the map has holes
        figure.canvas.draw()


def test_the_star_sits_on_the_top_of_what_is_shown():
    grid = Domain(k=Integer(0, 12), j=Integer(0, 8))
    figure = acquisition_maps(POSTERIOR, grid, chosen=suggest(POSTERIOR, grid))
    (z,) = heats_of(figure, None)
    row, column = np.unravel_index(z.argmax(), z.shape)
    np.testing.assert_array_equal(points_of(figure, "chosen"), [[column, row]])


@BOTH
def test_with_each_a_choice_stands_on_the_surface_that_the_earlier_ones_left(backend):
    chosen = suggest(POSTERIOR, PLANE, n=3, optimizer="sobol")
    figure = acquisition_maps(POSTERIOR, PLANE, chosen=chosen, each=True, resolution=7, backend=backend)
    heights = heats_of(figure, (7, 7))
    assert len(heights) == 3
    unit = np.stack(np.meshgrid(np.linspace(0, 1, 7), np.linspace(0, 1, 7)), -1).reshape(-1, 2)
    for i, z in enumerate(heights):
        before = np.stack([s.unit for s in chosen[:i]]) if i else None
        expected = Entropy().score(POSTERIOR, unit, pending=before).reshape(7, 7)
        inside = np.isfinite(z)
        np.testing.assert_allclose(z[inside], expected[inside], rtol=1e-6, atol=1e-6)
        place = points_of(figure, "chosen", i)
        np.testing.assert_allclose(place, [[chosen[i].point["mach"], chosen[i].point["alpha"]]], rtol=1e-9)
        assert len(points_of(figure, "pending", i)) == i


class Fitted:
    posterior_ = reference(d=1)
    domain_ = Domain(t=Real(0, 10, unit="s"))
    standardizer_ = Standardizer(100.0, 7.0)


@BOTH
def test_over_one_input_points_sit_on_the_curve_below_what_is_believed(backend):
    model = Fitted()
    chosen = suggest(model, optimizer="sobol", pending=[{"t": 9.0}])
    figure = acquisition_maps(model, chosen=chosen, pending=[{"t": 9.0}], resolution=51, backend=backend)
    (_, mean), (places, score) = curves_of(figure)
    unit = np.linspace(0, 1, 51)[:, None]
    np.testing.assert_allclose(places, 10 * unit[:, 0], atol=1e-12)
    np.testing.assert_allclose(mean, 100 + 7 * model.posterior_.predict(unit).mean(), rtol=1e-9)
    np.testing.assert_allclose(score, Entropy().score(model.posterior_, unit, pending=[[0.9]]), atol=1e-6)
    np.testing.assert_allclose(points_of(figure, "finished", 0)[:, 1], 100 + 7 * model.posterior_.data.y, rtol=1e-9)
    np.testing.assert_allclose(points_of(figure, "chosen", 1), [[chosen[0].point["t"], chosen[0].score]], rtol=1e-6)
    np.testing.assert_allclose(points_of(figure, "pending", 1)[0, 0], 9.0)


@BOTH
def test_over_more_inputs_there_is_a_slice_along_each_through_the_choice(backend):
    posterior = reference(d=MIXED.num_dims)
    chosen = suggest(posterior, MIXED, "alc", optimizer="sobol")
    figure = acquisition_maps(posterior, MIXED, "alc", chosen=chosen, resolution=21, backend=backend)
    curves = curves_of(figure)
    assert len(curves) == 2 + 2  # a, k, and a bar for each option of m
    for panel, name in enumerate(("a", "k", "m")):
        ((x, height),) = points_of(figure, "chosen", panel)
        value = chosen[0].point[name]
        assert x == pytest.approx("xy".index(value) if name == "m" else value)
        assert height == pytest.approx(chosen[0].score, rel=1e-6)
        finished = points_of(figure, "finished", panel)
        assert len(np.unique(finished[:, 1])) == 1 and finished[0, 1] < min(y.min() for _, y in curves)  # at the lower rim
    np.testing.assert_array_equal(curves[1][0], [1, 2, 3, 4, 5])
    slice_of_k = MIXED.to_unit([chosen[0].point | {"k": k} for k in range(1, 6)])
    references = MIXED.to_unit(MIXED.design(500, "sobol", 0))
    np.testing.assert_allclose(curves[1][1], ALC(references).score(posterior, slice_of_k), rtol=1e-9)


def test_two_axes_of_more_make_a_map_of_a_slice_and_one_a_curve():
    posterior = reference(d=MIXED.num_dims)
    at = {"a": 5.0, "k": 3, "m": "y"}
    (z,) = heats_of(acquisition_maps(posterior, MIXED, "variance", axes=("k", "a"), at=at, resolution=6), None)
    expected = Variance().score(
        posterior, MIXED.to_unit([at | {"k": k, "a": a} for a in np.linspace(0, 10, 6) for k in range(1, 6)])
    )
    np.testing.assert_allclose(z, expected.reshape(6, 5), rtol=1e-9)
    ((_, along),) = curves_of(acquisition_maps(posterior, MIXED, "variance", axes="k", at=at | {"a": 0.0}))
    np.testing.assert_allclose(along, z[0], rtol=1e-9)


def test_a_pool_shows_its_candidates_and_lends_them_as_references():
    pool = Pool(PLANE.design(30), PLANE).without([0, 1])
    chosen = suggest(POSTERIOR, pool, "alc")
    figure = acquisition_maps(POSTERIOR, pool, "alc", chosen=chosen, resolution=5)
    np.testing.assert_allclose(points_of(figure, "candidates"), PLANE.from_unit_array(pool.unit[2:]), rtol=1e-9)
    unit = np.stack(np.meshgrid(np.linspace(0, 1, 5), np.linspace(0, 1, 5)), -1).reshape(-1, 2)
    (z,) = heats_of(figure, None)
    inside = np.isfinite(z)
    np.testing.assert_allclose(z[inside], ALC(pool.unit).score(POSTERIOR, unit).reshape(5, 5)[inside], rtol=1e-9)


def test_a_posterior_alone_is_shown_over_the_unit_cube_and_every_criterion_can_be():
    for name in ("bald", "qbc", "epig", "random", "space-filling"):
        figure = acquisition_maps(POSTERIOR, acquisition=name, resolution=4)
        assert heats_of(figure, None)[0].shape == (4, 4) and figure.layout.xaxis.title.text == "x0"


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: acquisition_maps(POSTERIOR, MIXED), "unit columns"),
        (lambda: acquisition_maps(POSTERIOR, PLANE, axes=()), "one or two axes"),
        (lambda: acquisition_maps(POSTERIOR, PLANE, axes=("mach", "beta")), "got 'beta'"),
        (lambda: acquisition_maps(POSTERIOR, PLANE, "entrpy"), "'entropy'"),
        (lambda: acquisition_maps(POSTERIOR, PLANE, backend="ascii"), "ascii"),
        (lambda: acquisition_maps(3.0, PLANE), "got float"),
    ],
)
def test_errors_name_rule_and_remedy(call, match):
    with pytest.raises(InputError, match=match):
        call()
