"""Pictures of trees and warps: rectangles where the splits are, in native units and in slices; warps as models measure them."""

from types import SimpleNamespace

import jax
import numpy as np
import plotly.graph_objects as go
import pytest

from hyperleaf.data import Dataset
from hyperleaf.domain import Choice, Domain, Integer, Real
from hyperleaf.errors import InputError
from hyperleaf.kernels import WarpedMultiIndex
from hyperleaf.plots import posterior_maps, tree_map, warp_maps
from hyperleaf.surrogates.deep import DeepGP
from hyperleaf.surrogates.treed import TreedGP

BOTH = pytest.mark.parametrize("backend", ["plotly", "matplotlib"])
# x0 ≤ 0.4: leaf 0; right of it x1 ≤ 0.7: leaf 1, above: leaf 2
CORNERS = np.array([[[0.0, 0.0], [0.4, 1.0]], [[0.4, 0.0], [1.0, 0.7]], [[0.4, 0.7], [1.0, 1.0]]])
TREE = SimpleNamespace(rectangles=CORNERS)
RNG = np.random.default_rng(0)
DATA = Dataset(RNG.random((9, 2)), RNG.normal(size=9))


def traces(figure, name):
    return [t for t in figure.data if t.name == name]


def line_ends(figure, number):
    """Left, right, bottom and top of a leaf's outline, whichever library drew it; matplotlib does not name it."""
    if isinstance(figure, go.Figure):
        (outline,) = traces(figure, f"leaf {number}")
        x, y = np.asarray(outline.x), np.asarray(outline.y)
    else:
        x, y = figure.axes[0].lines[number].get_data()
    assert len(x) == 5 and x[0] == x[-1] and y[0] == y[-1]
    return [x.min(), x.max(), y.min(), y.max()]


@BOTH
def test_leaves_are_rectangles_in_native_units_with_the_observations(backend):
    domain = Domain(speed=Real(100.0, 10_000.0, log=True, unit="1/min"), load=Real(-1.0, 3.0))
    figure = tree_map(TREE, domain, data=DATA, resolution=21, backend=backend)
    np.testing.assert_allclose(line_ends(figure, 0), [100.0, 100 * 100**0.4, -1.0, 3.0])
    np.testing.assert_allclose(line_ends(figure, 1), [100 * 100**0.4, 10_000.0, -1.0, 1.8])
    np.testing.assert_allclose(line_ends(figure, 2), [100 * 100**0.4, 10_000.0, 1.8, 3.0])
    if backend == "plotly":
        index = np.asarray(next(t for t in figure.data if t.type == "heatmap").z)
        (dots,) = traces(figure, "observations")
        np.testing.assert_allclose(domain.to_unit(np.column_stack([dots.x, dots.y])), DATA.x)
        (labels,) = (t for t in figure.data if t.type == "scatter" and t.mode == "text")
        assert labels.text == ("0", "1", "2")
        assert figure.layout.xaxis.type == "log" and figure.layout.annotations[0].text == "3 leaves"
    else:
        axes = figure.axes[0]
        index = np.asarray(axes.collections[0].get_array()).reshape(21, 21)
        assert axes.get_title() == "3 leaves" and axes.get_xlabel() == "speed [1/min]"
        assert [text.get_text() for text in axes.texts] == ["0", "1", "2"]
    u = np.linspace(0, 1, 21)
    expected = np.where(u[None, :] <= 0.4, 0, np.where(u[:, None] <= 0.7, 1, 2))
    np.testing.assert_array_equal(index, expected)


def test_a_slice_shows_the_leaves_that_it_meets():
    domain = Domain(a=Real(0, 1), b=Integer(1, 9), c=Choice("low", "high"))
    # c's columns are one-hot: the second, "high", divides first; then a at 0.3 where it is high
    corners = np.zeros((3, 2, 4))
    corners[:, 1] = 1.0
    corners[0, 1, 3], corners[1, 0, 3], corners[2, 0, 3] = 0.0, 0.0, 0.0
    corners[0, 0, 3], corners[1, 1, 0], corners[2, 0, 0] = 0.0, 0.3, 0.3
    tree = SimpleNamespace(rectangles=corners)
    low = tree_map(tree, domain, axes=("a", "b"), at={"a": 0.5, "b": 5, "c": "low"}, resolution=11)
    high = tree_map(tree, domain, axes=("b", "a"), at={"a": 0.5, "b": 5, "c": "high"}, resolution=11)
    assert [t.name for t in low.data if t.name and t.name.startswith("leaf")] == ["leaf 0"]
    assert [t.name for t in high.data if t.name and t.name.startswith("leaf")] == ["leaf 1", "leaf 2"]
    assert line_ends(high, 1)[2:] == [0.0, 0.3] and low.layout.annotations[0].text == "3 leaves, 1 in this slice"


def test_the_map_agrees_with_the_posterior_about_every_point():
    data = Dataset(RNG.random((40, 2)), np.zeros(40))
    data = Dataset(data.x, np.where(data.x[:, 0] + 0.02 > 0.5, 2.0 + data.x[:, 1], np.sin(9 * data.x[:, 1])))
    posterior = TreedGP(burn_in=300, total=600, min_leaf=4).fit(data, key=jax.random.key(0))
    figure = tree_map(posterior, resolution=31)
    ticks = np.linspace(0, 1, 31)
    points = np.stack(np.meshgrid(ticks, ticks), axis=-1).reshape(-1, 2)
    index = np.asarray(next(t for t in figure.data if t.type == "heatmap").z)
    assert index.max() == posterior.map_tree.num_leaves - 1 >= 1
    np.testing.assert_array_equal(index.ravel(), posterior.grid.leaf_of(posterior.map_draw.tree, points))
    assert len(traces(figure, "observations")[0].x) == 40


@BOTH
def test_over_one_input_splits_stand_between_curve_and_observations(backend):
    x = np.linspace(0, 1, 30)[:, None]
    data = Dataset(x, np.where(x[:, 0] < 0.5, 0.0, 3.0) + 0.01 * RNG.normal(size=30))
    posterior = TreedGP(burn_in=100, total=300, min_leaf=4).fit(data, key=jax.random.key(0))
    figure = tree_map(posterior, Domain(t=Real(0, 8)), backend=backend, resolution=41)
    expected = np.sort(posterior.map_tree.rectangles[:, 0, 0])[1:] * 8
    assert len(expected) >= 1
    if backend == "plotly":
        splits = [t.x[0] for t in traces(figure, "split")]
        np.testing.assert_allclose(traces(figure, "mean")[0].y, posterior.predict(np.linspace(0, 1, 41)[:, None]).mean())
    else:
        splits = [line.get_xdata()[0] for line in figure.axes[0].lines if line.get_linestyle() == "--"]
    np.testing.assert_allclose(splits, expected)
    bare = tree_map(posterior.map_tree, backend=backend)
    assert isinstance(bare, type(figure))


# --- warps


def squeeze(u):
    """Three draws of a warp whose slope along the first input is 2 left of the middle and ½ right of it; turned and shifted."""
    first = np.where(u[:, 0] < 0.5, 2 * u[:, 0], 0.75 + 0.5 * u[:, 0])
    places = np.column_stack([first, *u.T[1:]])
    turn = np.array([[0.0, 1.0], [-1.0, 0.0]]) if places.shape[1] == 2 else -np.eye(1)
    return np.stack([places, -places + 3.0, places @ turn + 7.0])


@BOTH
def test_draws_over_one_input_lie_upon_each_other_however_they_are_turned(backend):
    figure = warp_maps(squeeze, Domain(t=Real(0, 8)), resolution=101, backend=backend)
    t = np.linspace(0, 8, 101)
    expected = np.where(t < 4, t / 4, 0.75 + t / 16)
    if backend == "plotly":
        curves = [np.asarray(trace.y) for trace in figure.data if str(trace.name).startswith("draw")]
        pace = np.asarray(traces(figure, "median")[0].y)
    else:
        curves = [line.get_ydata() for line in figure.axes[0].lines]
        pace = figure.axes[1].lines[0].get_ydata()
    assert len(curves) == 3
    for curve in curves:
        np.testing.assert_allclose(curve, expected - expected.mean(), atol=1e-12)
    np.testing.assert_allclose(pace[:49] / pace[-49:], 4.0)
    assert np.mean(pace**2) == pytest.approx(1.0)


@BOTH
def test_over_two_inputs_grid_lines_are_sent_and_the_pace_is_mapped(backend):
    figure = warp_maps(squeeze, Domain(a=Real(0, 4), b=Real(0, 1)), data=DATA, resolution=21, index=2, backend=backend)
    if backend == "plotly":
        lines = [(np.asarray(t.x), np.asarray(t.y)) for t in figure.data if t.name in ("a constant", "b constant")]
        heat = np.asarray(next(t for t in figure.data if t.type == "heatmap").z)
        dots = traces(figure, "observations")[0]
        places = np.column_stack([dots.x, dots.y])
    else:
        lines = [line.get_data() for line in figure.axes[0].lines]
        heat = np.asarray(figure.axes[1].collections[0].get_array()).reshape(21, 21)
        places = np.asarray(figure.axes[0].collections[0].get_offsets())
    assert len(lines) == 22
    np.testing.assert_allclose([np.ptp(x) for x, _ in lines[:11]], 0.0, atol=1e-9)  # a constant: upright, whatever the turn
    sent = squeeze(DATA.x)[0]
    distances = np.linalg.norm(places[:, None] - places, axis=-1)
    np.testing.assert_allclose(distances, np.linalg.norm(sent[:, None] - sent, axis=-1), atol=1e-9)
    left, right = np.sqrt(2**2 + 1), np.sqrt(0.5**2 + 1)
    np.testing.assert_allclose(heat[:, :9] - heat[:, -9:], np.log2(left / right))


def test_deep_posteriors_and_warped_kernels_are_warps():
    posterior = DeepGP(sweeps=40, draws=5).fit(DATA, key=jax.random.key(0))
    figure = warp_maps(posterior, resolution=9, index=1)
    dots = traces(figure, "observations")[0]
    places, warped = np.column_stack([dots.x, dots.y]), posterior.warp(DATA.x)[1]
    gaps = np.linalg.norm(warped[:, None] - warped, axis=-1)
    np.testing.assert_allclose(np.linalg.norm(places[:, None] - places, axis=-1), gaps, atol=1e-9)
    kernel = WarpedMultiIndex(np.array([[1.0, 0.5], [-0.5, 1.0]]), [0.5, 2.0], 1.0, [0.3, 0.6])
    figure = warp_maps(kernel, data=DATA, resolution=9)
    dots = traces(figure, "observations")[0]
    places = np.column_stack([dots.x, dots.y])
    s = np.sqrt(5) * np.linalg.norm(places[:, None] - places, axis=-1)
    np.testing.assert_allclose((1 + s + s**2 / 3) * np.exp(-s), kernel(DATA.x), atol=1e-10)  # distances are the kernel's own
    assert warp_maps(WarpedMultiIndex(np.eye(1), 0.5), resolution=9) is not None


@BOTH
def test_posterior_maps_show_every_rival(backend):
    for surrogate in (TreedGP(burn_in=20, total=60, min_leaf=2), DeepGP(sweeps=40, draws=5)):
        posterior = surrogate.fit(DATA, key=jax.random.key(0))
        figure = posterior_maps(posterior, resolution=5, backend=backend)
        ticks = np.linspace(0, 1, 5)
        mean = posterior.predict(np.stack(np.meshgrid(ticks, ticks), axis=-1).reshape(-1, 2)).mean()
        z = figure.data[0].z if backend == "plotly" else figure.axes[0].collections[0].get_array()
        np.testing.assert_allclose(np.ravel(z), mean)


CUBE = SimpleNamespace(rectangles=np.array([[[0.0] * 3, [1.0] * 3]]))


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: tree_map(3.0), "needs a treed model, a treed posterior or its map_tree; got float"),
        (lambda: tree_map(TREE, Domain(a=Real(0, 1))), "divides 2 dimensions but the domain has 1"),
        (lambda: tree_map(CUBE), "name the two axes"),
        (lambda: tree_map(CUBE, axes=("x0", "x1", "x2")), "at most two axes"),
        (lambda: tree_map(CUBE, Domain(a=Real(0, 1), c=Choice("p", "q")), axes=("a", "c")), "'c' is a Choice"),
        (lambda: warp_maps(3.0), "got float"),
        (lambda: warp_maps(squeeze), "Give a domain or data"),
        (lambda: warp_maps(squeeze, Domain(a=Real(0, 1), b=Real(0, 1), c=Real(0, 1))), "one or two inputs"),
        (lambda: warp_maps(squeeze, Domain(a=Choice("p", "q"))), "that are numbers"),
        (lambda: warp_maps(squeeze, Domain(a=Real(0, 1)), index=3), "one of the 3 draws; got 3"),
        (lambda: warp_maps(squeeze, Domain(a=Real(0, 1)), most=0), "most must be"),
        (lambda: warp_maps(lambda u: u[:3], Domain(a=Real(0, 1)), resolution=5), r"must give \(5, p\)"),
    ],
)
def test_what_cannot_be_drawn_is_refused_with_a_reason(call, match):
    with pytest.raises(InputError, match=match):
        call()
