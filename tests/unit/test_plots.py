"""Figures show the data they should, in native units and in both libraries; what cannot be drawn is refused with a reason."""

import numpy as np
import plotly.graph_objects as go
import pytest
from matplotlib.figure import Figure

from hyperleaf.data import Dataset
from hyperleaf.domain import Choice, Domain, Integer, Real
from hyperleaf.errors import InputError
from hyperleaf.kernels import RBF, Constant, Gates, Partition
from hyperleaf.mixture import Mixture
from hyperleaf.plots import Heat, Line, Panel, Regions, Scale, Sheet, draw, leaf_weight_maps, posterior_maps, prior_draws
from hyperleaf.plots.view import View
from hyperleaf.priors import hhk_prior, stationary_prior

BOTH = pytest.mark.parametrize("backend", ["plotly", "matplotlib"])
DOMAIN = Domain(mach=Real(0.2, 6.0), alpha=Real(-5, 30, unit="deg"))
GATES = Gates(np.array([-0.5, -0.3, 0.1]), np.array([[1.0, 0.2], [0.2, 0.8], [0.6, -0.9]]), np.array([12.0, 20.0, 8.0]))
PARTITION = Partition(GATES, RBF(np.ones((4, 2)), np.ones(4)))
RNG = np.random.default_rng(1)
DATA = Dataset(RNG.random((9, 2)), RNG.normal(size=9))


def predict(u):
    mean = np.sin(4 * u[:, 0]) + u.sum(axis=1)
    return Mixture(np.array([0.5, 0.5]), np.stack([mean - 0.1, mean + 0.1]), np.full((2, len(u)), 0.04))


class Believer:
    """A posterior as the plots see it."""

    data = DATA
    predict = staticmethod(predict)


def lines_of(figure, name):
    """The coordinates of all lines of that name, whichever library drew them; matplotlib does not name what has no legend."""
    if isinstance(figure, go.Figure):
        return [(np.asarray(t.x), np.asarray(t.y)) for t in figure.data if t.type == "scatter" and t.name == name]
    return [line.get_data() for axes in figure.axes for line in axes.lines if line.get_label() in (name, "_")]


def panels_of(figure):
    """How many panels, without colour bars."""
    if isinstance(figure, go.Figure):
        return len({t.xaxis for t in figure.data})
    return len([axes for axes in figure.axes if axes.get_label() != "<colorbar>"])


# --- gates -----------------------------------------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("log", [False, True])
def test_gate_lines_lie_on_their_hyperplanes_in_native_units(backend, log):
    domain = Domain(speed=Real(100.0, 10_000.0, log=log, unit="1/min"), load=Real(-1.0, 3.0))
    figure = leaf_weight_maps(PARTITION, domain, resolution=11, backend=backend)
    found = [np.column_stack(xy) for gate in range(3) for xy in lines_of(figure, f"gate {gate}")]
    assert len(found) == (3 * 5 if backend == "plotly" else 3 * 3 * 5)  # each of three gates in each of five panels
    met = set()
    for ends in found:
        u = domain.to_unit(ends)
        residuals = np.abs(GATES.offset + u @ GATES.normal.T).max(axis=0)
        assert residuals.min() < 1e-9
        met.add(int(residuals.argmin()))
    assert met == {0, 1, 2}


def test_a_gate_is_drawn_only_where_the_gates_above_let_it_divide():
    view = View(Domain(a=Real(0, 1), b=Real(0, 1)), ["a", "b"])
    lines = {gate: np.column_stack([x, y]) for gate, x, y in view.gate_lines(PARTITION)}
    side = {gate: GATES.offset[0] + line @ GATES.normal[0] for gate, line in lines.items()}
    assert np.all(side[1] >= -1e-12) and np.all(side[2] <= 1e-12)
    assert side[1].min() == pytest.approx(0, abs=1e-12) and side[2].max() == pytest.approx(0, abs=1e-12)  # and up to the border
    np.testing.assert_allclose(np.sort(lines[0][:, 1]), [0.0, 1.0], atol=1e-12)  # the first crosses the whole square


def test_a_gate_outside_the_square_is_not_drawn():
    far = Partition(Gates(np.array([-3.0]), np.array([[1.0, 1.0]])), RBF(np.ones((2, 2)), np.ones(2)))
    shut = Partition(Gates(np.array([0.7]), np.array([[0.0, 0.0]])), RBF(np.ones((2, 2)), np.ones(2)))
    view = View(Domain(a=Real(0, 1), b=Real(0, 1)), ["a", "b"])
    assert view.gate_lines(far) == view.gate_lines(shut) == []


def test_gates_in_a_slice_pass_through_the_point_that_is_fixed():
    domain = Domain(a=Real(0, 2), b=Choice("low", "high"), c=Real(10, 30))
    normal = np.array([[1.0, 0.3, -0.2, 0.5]])
    partition = Partition(Gates(np.array([-0.6]), normal), RBF(np.ones((2, 4)), np.ones(2)))
    view = View(domain, ["c", "a"], {"a": 1.0, "b": "high", "c": 20.0})
    ((_, c, a),) = view.gate_lines(partition)
    u = domain.to_unit([{"a": float(p), "b": "high", "c": float(q)} for p, q in zip(a, c, strict=True)])
    np.testing.assert_allclose(-0.6 + u @ normal[0], 0.0, atol=1e-12)
    with pytest.raises(InputError, match="'b' is a Choice"):
        View(domain, ["a", "b"]).gate_lines(partition)


@BOTH
def test_leaf_weights_over_one_input_are_curves_with_gates_where_they_are_even(backend):
    partition = Partition(Gates(np.array([-0.25]), np.array([[1.0]]), np.array([20.0])), RBF(np.ones((2, 1)), np.ones(2)))
    figure = leaf_weight_maps(partition, Domain(t=Real(0, 8, unit="s")), backend=backend)
    if backend == "matplotlib":
        curves = {line.get_label(): line.get_data() for line in figure.axes[0].lines}
        gate = curves["_"]
        assert figure.axes[0].get_xlabel() == "t [s]"
    else:
        curves = {t.name: (t.x, t.y) for t in figure.data}
        gate = curves["gate 0"]
        assert figure.layout.xaxis.title.text == "t [s]"
    np.testing.assert_allclose(gate[0], 2.0)
    t, weight = curves["leaf 0"]
    np.testing.assert_allclose(weight, 1 / (1 + np.exp(-20 * (np.asarray(t) / 8 - 0.25))), rtol=1e-10)
    np.testing.assert_allclose(weight + np.asarray(curves["leaf 1"][1]), 1.0)


@BOTH
def test_leaf_maps_have_a_panel_for_each_leaf_and_one_for_the_largest(backend):
    figure = leaf_weight_maps(PARTITION, DOMAIN, data=DATA, resolution=13, backend=backend)
    assert panels_of(figure) == 5
    if backend == "plotly":
        heats = [t for t in figure.data if t.type == "heatmap"]
        index, weights = np.asarray(heats[0].z), np.array([t.z for t in heats[1:]])
        assert {t.coloraxis for t in heats[1:]} == {"coloraxis"} and figure.layout.coloraxis.colorbar.title.text == "leaf weight"
        assert figure.layout.xaxis.title.text == "mach" and figure.layout.yaxis.title.text == "alpha [deg]"
        dots = next(t for t in figure.data if t.name == "observations")
        np.testing.assert_allclose(np.column_stack([dots.x, dots.y]), DOMAIN.from_unit_array(DATA.x), rtol=1e-12)
        assert [t.showlegend for t in figure.data if t.name == "observations"] == [True, False, False, False, False]
    else:
        meshes = [axes.collections[0].get_array() for axes in figure.axes[:5]]
        index, weights = meshes[0], np.array([np.asarray(m).reshape(13, 13) for m in meshes[1:]])
        assert figure.axes[0].get_ylabel() == "alpha [deg]" and figure.axes[-1].get_ylabel() == "leaf weight"
    np.testing.assert_allclose(weights.sum(axis=0), 1.0)
    np.testing.assert_array_equal(np.asarray(index).reshape(13, 13), weights.argmax(axis=0))
    # The corner of largest inputs is left of the first two gates: leaf 0; rows run along the second axis.
    assert weights[:, -1, -1].argmax() == 0 and weights[:, -1, 0].argmax() == 3


def test_most_keeps_the_leaves_of_largest_weight():
    figure = leaf_weight_maps(PARTITION, DOMAIN, most=2, resolution=13)
    titles = [note.text for note in figure.layout.annotations]
    assert [title.partition(" (")[0] for title in titles] == ["largest weight", "leaf 0", "leaf 3"]


# --- posterior -------------------------------------------------------------------------------------------------------------


@BOTH
def test_posterior_over_two_inputs_shows_mean_and_std_with_observations(backend):
    figure = posterior_maps(Believer(), DOMAIN, output="lift", resolution=7, backend=backend)
    assert panels_of(figure) == 2
    ticks = np.linspace(0, 1, 7)
    u = np.stack(np.meshgrid(ticks, ticks), axis=-1)  # rows along the second axis
    mean = np.sin(4 * u[..., 0]) + u.sum(axis=-1)
    if backend == "plotly":
        heats = [t for t in figure.data if t.type == "heatmap"]
        z = [np.asarray(t.z) for t in heats]
        np.testing.assert_allclose(heats[0].x, 0.2 + 5.8 * ticks)
        assert figure.layout.coloraxis.colorbar.title.text == "mean of lift"
        assert figure.layout.coloraxis2.cmin == 0.0
        assert sum(t.name == "observations" for t in figure.data) == 2
    else:
        z = [np.asarray(axes.collections[0].get_array()).reshape(7, 7) for axes in figure.axes[:2]]
        assert [axes.get_ylabel() for axes in figure.axes[2:]] == ["mean of lift", "standard deviation of lift"]
    np.testing.assert_allclose(z[0], mean, rtol=1e-10)
    np.testing.assert_allclose(z[1], np.sqrt(0.05), rtol=1e-10)


@BOTH
def test_posterior_over_one_input_is_a_curve_in_its_band(backend):
    data = Dataset(DATA.x[:, :1], DATA.y)
    figure = posterior_maps(predict, Domain(t=Real(0, 10, unit="s")), data=data, probability=0.5, resolution=21, backend=backend)
    low, high = predict(np.linspace(0, 1, 21)[:, None]).interval(0.5)
    if backend == "plotly":
        band, mean, dots = figure.data
        np.testing.assert_allclose(band.y, np.concatenate([high, low[::-1]]))
        np.testing.assert_allclose(dots.x, 10 * data.x[:, 0])
        assert band.name == "50% of the probability" and mean.name == "mean"
    else:
        (axes,) = figure.axes
        np.testing.assert_allclose(np.asarray(axes.collections[1].get_offsets())[:, 1], data.y)
        assert axes.collections[0].get_paths()[0].vertices[:, 1].max() == pytest.approx(high.max())


@BOTH
def test_posterior_over_more_inputs_is_a_slice_along_each_through_the_point(backend):
    domain = Domain(a=Real(1, 100, log=True), b=Integer(1, 4), c=Choice("E5", "E10"))
    at = {"a": 10.0, "b": 2, "c": "E10"}
    figure = posterior_maps(predict, domain, at=at, resolution=11, backend=backend)
    assert panels_of(figure) == 3
    center = float(predict(domain.to_unit([at])).mean()[0])
    if backend == "plotly":
        a, b = (t for t in figure.data if t.name == "mean")
        assert figure.layout.xaxis.type == "log" and figure.layout.xaxis3.ticktext == ("E5", "E10")
        np.testing.assert_allclose(figure.layout.xaxis.range, [0, 2])
        assert figure.layout.yaxis.range == figure.layout.yaxis2.range
        curves = [(a.x, a.y), (b.x, b.y)]
    else:
        curves = [axes.lines[0].get_data() for axes in figure.axes[:2]]
        assert figure.axes[0].get_xscale() == "log"
        assert figure.axes[0].get_ylim() == figure.axes[1].get_ylim()
    assert list(curves[1][0]) == [1, 2, 3, 4]
    assert np.interp(10.0, *curves[0]) == pytest.approx(center) and curves[1][1][1] == pytest.approx(center)


def test_where_constraints_do_not_hold_the_map_is_blank():
    domain = Domain(a=Real(0, 1), b=Real(0, 1), constraints=["a + b <= 1"])
    figure = posterior_maps(predict, domain, resolution=5)
    blank = np.isnan(np.asarray(figure.data[0].z, dtype=float))
    np.testing.assert_array_equal(blank, np.add.outer(np.arange(5), np.arange(5)) > 4)
    posterior_maps(predict, domain, resolution=5, backend="matplotlib").canvas.draw()
    index, ticks = np.where(blank, np.nan, 1.0), np.linspace(0, 1, 5)
    regions = Sheet([Panel(Scale("a", 0, 1), Scale("b", 0, 1), [Regions(ticks, ticks, index)], "largest weight")], 1)
    np.testing.assert_array_equal(np.isnan(np.asarray(draw(regions, "plotly").data[0].z, dtype=float)), blank)
    draw(regions, "matplotlib").canvas.draw()


# --- prior -----------------------------------------------------------------------------------------------------------------


@BOTH
def test_prior_draws_show_functions_above_their_partitions(backend):
    figure = prior_draws(hhk_prior(2, 4), 3, num=2, resolution=9, backend=backend)
    assert isinstance(figure, go.Figure if backend == "plotly" else Figure)
    assert panels_of(figure) == 4
    if backend == "plotly":
        heats = [t for t in figure.data if t.type == "heatmap"]
        functions = [np.asarray(t.z) for t in heats if t.coloraxis]
        assert len(functions) == 2 and functions[0].shape == (9, 9) and not np.allclose(functions[0], functions[1])
        assert figure.layout.coloraxis.cmax == max(np.abs(f).max() for f in functions) == -figure.layout.coloraxis.cmin
        again = prior_draws(hhk_prior(2, 4), 3, num=1, resolution=9)
        np.testing.assert_array_equal(np.asarray(again.data[0].z), functions[0])


def test_draws_have_the_variance_of_their_kernel():
    """With a fixed variance of 4 and short lengthscales values along a line are nearly independent: mean square 4."""
    figure = prior_draws(Constant(1.0) * 1e-9 + RBF(5e-4, 4.0), 0, d=1, num=1, resolution=401)
    values = np.asarray(figure.data[0].y)
    assert np.mean(values**2) == pytest.approx(4.0, abs=4 * 4.0 * np.sqrt(2 / 401))


def test_a_stationary_prior_has_no_partition_to_show():
    assert panels_of(prior_draws(stationary_prior(1), 0, num=2, resolution=21)) == 2


# --- the two that draw, and errors -----------------------------------------------------------------------------------------


@BOTH
def test_panels_of_equal_meaning_share_a_colour_bar(backend):
    z = np.arange(4.0).reshape(2, 2)
    ends = np.array([0.0, 1.0])

    def panel(label, high):
        return Panel(Scale("a"), Scale("b"), [Heat(ends, ends, z, label, high=high), Line(ends, ends, "diagonal")])

    figure = draw(Sheet([panel("p", 3.0), panel("p", 3.0), panel("q", 3.0), panel("p", 9.0)], columns=2, title="t"), backend)
    if backend == "plotly":
        assert [t.coloraxis for t in figure.data if t.type == "heatmap"] == ["coloraxis", "coloraxis", "coloraxis2", "coloraxis3"]
        assert figure.layout.coloraxis3.cmax == 9.0
        assert sum(t.showlegend for t in figure.data if t.name == "diagonal") == 1
    else:
        assert len(figure.axes) == 4 + 3
        assert [text.get_text() for text in figure.legends[0].get_texts()] == ["diagonal"]


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: leaf_weight_maps(hhk_prior(2, 4)), "Draw one"),
        (lambda: leaf_weight_maps(RBF()), "needs a Partition; got RBF"),
        (lambda: leaf_weight_maps(PARTITION, Domain(a=Real(0, 1))), "divides 2 dimensions but the domain has 1"),
        (lambda: leaf_weight_maps(PARTITION, DOMAIN, axes=("mach", "beta")), r"got 'beta'.*\['mach', 'alpha'\]"),
        (lambda: leaf_weight_maps(PARTITION, DOMAIN, axes=("mach", "mach")), "must differ"),
        (lambda: leaf_weight_maps(PARTITION, DOMAIN, backend="ascii"), '"plotly" or "matplotlib"; got \'ascii\''),
        (lambda: leaf_weight_maps(PARTITION, DOMAIN, most=0), "most must be"),
        (lambda: posterior_maps(predict), "Give a domain or data"),
        (lambda: posterior_maps(3.0, DOMAIN), "got float"),
        (lambda: posterior_maps(predict, Domain(a=Real(0, 1)), data=DATA), "must have 1 columns"),
        (lambda: posterior_maps(predict, DOMAIN, at=[0.5]), "2 numbers in the unit cube"),
        (lambda: posterior_maps(predict, DOMAIN, resolution=1), "≥ 2"),
        (lambda: prior_draws(hhk_prior(3, 2), 0), "one or two inputs; the prior has 3"),
        (lambda: prior_draws(hhk_prior(2, 2), 0, Domain(a=Real(0, 1))), "has 2 inputs but the domain has 1"),
        (lambda: prior_draws(Constant(1.0), 0), "Give d, or a domain"),
        (lambda: prior_draws(hhk_prior(1, 2), 0, num=0), "num must be"),
    ],
)
def test_errors_name_rule_and_remedy(call, match):
    with pytest.raises(InputError, match=match):
        call()


def test_three_inputs_need_the_two_axes_to_show():
    partition = Partition(Gates(np.array([-0.5]), np.array([[1.0, 0.2, 0.1]])), RBF(np.ones((2, 3)), np.ones(2)))
    with pytest.raises(InputError, match="name the two axes"):
        leaf_weight_maps(partition)
    assert panels_of(leaf_weight_maps(partition, axes=("x2", "x0"), resolution=5)) == 3


def test_only_options_have_labels_of_their_own_along_an_axis():
    domain = Domain(a=Real(1, 10, log=True, unit="m"), k=Integer(1, 5), m=Choice("x", "y"))
    scales = [View(domain, [name], None, 11).scale(0) for name in domain.names]
    assert [scale.ticks for scale in scales] == [None, None, ("x", "y")]
    assert [(scale.label, scale.low, scale.high, scale.log) for scale in scales] == [
        ("a [m]", 1.0, 10.0, True),
        ("k", 0.5, 5.5, False),
        ("m", -0.5, 1.5, False),
    ]
