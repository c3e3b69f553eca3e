"""Pictures of what the rivals learned: the rectangles of a treed GP, and where a deep or a warped GP stretches the inputs."""

from __future__ import annotations

from typing import Any

import numpy as np

from hyperleaf.checks import whole_number
from hyperleaf.domain import Domain
from hyperleaf.errors import InputError
from hyperleaf.plots.maps import GRID_1D, GRID_2D, WEIGHT_GRID_2D
from hyperleaf.plots.sheet import (
    INK,
    PALETTE,
    Backend,
    Band,
    Heat,
    Layer,
    Line,
    Panel,
    Points,
    Regions,
    Scale,
    Sheet,
    Values,
    draw,
)
from hyperleaf.plots.subject import Subject, read_subject
from hyperleaf.plots.view import View, unit_domain

GRID_LINES = 11  # of each kind, sent through a warp


def tree_map(
    model: Any,
    domain: Domain | None = None,
    *,
    axes: tuple[str, str] | None = None,
    at: Any = None,
    data: Any = None,
    output: str | None = None,
    probability: float = 0.95,
    resolution: int | None = None,
    backend: Backend = "plotly",
) -> Any:
    """The leaves of a treed GP as numbered rectangles, with the observations.

    `model` is a treed estimator, study or loaded model, or a treed posterior, whose likeliest tree is shown with its data; or it
    has `rectangles` (leaves, 2, d) in the unit cube, as a posterior's `map_tree`. Over more than two inputs the picture is a
    slice along two `axes` (of a model by themselves the two that are split most) through `at` (a dict in native units, or d
    numbers in the unit cube; the centre by default), with all observations seen along the others. Over one input it is the
    model's curve, or the observations alone, between the splits.
    """
    held, tree = read_subject(model, output, domain), model
    if held is not None:
        tree, domain = getattr(held.posterior, "map_tree", held.posterior), held.domain
        data = held.data if data is None else data
    corners = np.asarray(getattr(tree, "rectangles", 0.0), dtype=np.float64)
    if corners.ndim != 3:
        raise InputError(f"a map of a tree needs a treed model, a treed posterior or its map_tree; got {type(tree).__name__}.")
    d = corners.shape[2]
    domain = domain or unit_domain(d)
    if domain.num_dims != d:
        raise InputError(f"the tree divides {d} dimensions but the domain has {domain.num_dims}. Give the domain of its data.")
    if axes is None and domain.num_axes > 2 and held is not None:
        axes = _most_split(corners, domain)
    if axes is None and domain.num_axes > 2:
        raise InputError(f"over {domain.num_axes} inputs name the two axes to show, of {list(domain.names)}; got none.")
    names = domain.names if axes is None else tuple(axes)
    if len(names) > 2:
        raise InputError(f"a map has at most two axes; got {list(names)}.")
    default = GRID_1D if len(names) == 1 else WEIGHT_GRID_2D
    view = View(domain, names, at, default if resolution is None else resolution)
    for name, axis in zip(names, view.axes, strict=True):
        if not axis.ordered:
            raise InputError(
                f"rectangles have numbers along their sides; the axis {name!r} is a {type(axis).__name__}. Fix it by `at`."
            )
    if len(names) == 2:
        return draw(Sheet([_leaf_panel(view, corners, data)], columns=1), backend)
    label = (output or "f") if held is None else held.label
    predict = None if held is None else held.predict
    return draw(Sheet([_split_panel(view, corners, predict, data, label, probability)], columns=1), backend)


def warp_maps(
    model: Any,
    domain: Domain | None = None,
    *,
    output: str | None = None,
    data: Any = None,
    index: int = -1,
    most: int = 20,
    resolution: int | None = None,
    backend: Backend = "plotly",
) -> Any:
    """Where a model stretches its inputs before it measures distances, over one or two inputs.

    `model` is a deep or a warped estimator, study or loaded model, or a deep posterior; or it has `coordinates` (a Warped
    Multi-Index kernel with numbers in it), or is a function, from points (m, d) in the unit cube to places (m, p), or (s, m, p)
    for s draws. Distances alone matter to the model, so that each draw is shown shifted and turned to lie as the inputs do.

    Over one input: the places of `most` draws, and their pace, the slope over its root mean square, in the middle and for nine in
    ten of the draws. Over two: even grid lines as draw `index` sends them, and the pace, √Σ(∂w/∂u)² over its root mean square,
    as a logarithm and averaged over draws.
    """
    held, warp = read_subject(model, output, domain), model
    if held is not None:
        warp, domain, data = _warp_of(held), held.domain, held.data if data is None else data
    function = next((getattr(warp, name) for name in ("coordinates", "warp") if hasattr(warp, name)), warp)
    if not callable(function):
        raise InputError(f"a map of a warp needs a deep or a warped model, or a function; got {type(warp).__name__}.")
    data = getattr(warp, "data", None) if data is None else data
    if domain is None:
        if data is None and not hasattr(warp, "index"):
            raise InputError("the number of inputs cannot be told from a function alone. Give a domain or data.")
        domain = unit_domain(np.shape(warp.index)[1] if data is None else np.shape(data.x)[1])
    if domain.num_axes > 2 or domain.num_dims != domain.num_axes:
        raise InputError(f"a warp is shown over one or two inputs that are numbers; got {list(domain.names)}.")
    default = GRID_1D if domain.num_axes == 1 else GRID_2D
    view = View(domain, domain.names, resolution=default if resolution is None else resolution)
    grid = view.points()
    places = _places(function, grid)
    if not -len(places) <= index < len(places):
        raise InputError(f"index must name one of the {len(places)} draws; got {index!r}.")
    if domain.num_axes == 1:
        return draw(_warp_1d(view, grid, places, most), backend)
    return draw(_warp_2d(view, grid, places, function, data, index), backend)


def _warp_of(held: Subject) -> Any:
    """What of a model warps: a deep posterior itself, or the kernel of the likeliest draw."""
    from hyperleaf.surrogates.gp import GPPosterior

    return held.posterior.draw().kernel if isinstance(held.posterior, GPPosterior) else held.posterior


def _most_split(corners: Values, domain: Domain) -> tuple[str, str]:
    """The two ordered axes with most splits, in the order of the domain."""
    splits, start = {}, 0
    for name, axis in domain.axes.items():
        if axis.ordered:
            splits[name] = len(np.unique(corners[:, 0, start]))
        start += axis.num_columns
    most = sorted(splits, key=lambda name: -splits[name])[:2]
    if len(most) < 2:
        raise InputError(f"a map of a tree needs two inputs that are numbers; of {list(domain.names)} there are {len(most)}.")
    first, second = (name for name in domain.names if name in most)
    return first, second


# --- trees -----------------------------------------------------------------------------------------------------------------


def _inside(corners: Values, x: Values) -> Values:
    """How well each point (m, d) fits each rectangle, 0 if it lies outside: (leaves, m). A split sends x ≤ v to its lower side.

    A split at the very edge, as between the 0 and 1 of a choice, leaves a flat rectangle, which then has the better claim.
    """
    low, high = corners[:, None, 0], corners[:, None, 1]
    above = (x > low) | (low <= corners[:, 0].min(axis=0))
    below = (x <= high) | (high >= corners[:, 1].max(axis=0))
    return (above & below).all(axis=2) * (1 + (low == high).sum(axis=2))


def _leaf_panel(view: View, corners: Values, data: Any) -> Panel:
    index = _inside(corners, view.points()).argmax(axis=0)
    layers: list[Layer] = [Regions(view.ticks[0], view.ticks[1], view.masked(index.astype(float)))]
    others = np.delete(np.arange(corners.shape[2]), [column.start for column in view.columns])
    fits = _inside(corners[:, :, others], view.base[None, others])[:, 0]
    here = (fits > 0) & ((fits.max() == 1) | np.isin(np.arange(len(corners)), index))
    labels, middles = [], []
    for number in np.flatnonzero(here):
        ends = [view.native(i, np.clip(corners[number, :, column.start], 0.0, 1.0)) for i, column in enumerate(view.columns)]
        middle = [np.clip(corners[number, :, column.start], 0.0, 1.0).mean(keepdims=True) for column in view.columns]
        middles.append([float(view.native(i, u)[0]) for i, u in enumerate(middle)])
        labels.append(str(number))
        (left, right), (bottom, top) = ends
        x, y = np.array([left, right, right, left, left]), np.array([bottom, bottom, top, top, bottom])
        layers.append(Line(x, y, f"leaf {number}", INK, 1.8, halo=True, legend=False))
    if data is not None:
        layers.append(Points(view.place(0, data.x), view.place(1, data.x), "observations"))
    x, y = np.array(middles).T
    layers.append(Points(x, y, labels=labels))
    leaves = f"{len(corners)} leaves" if len(corners) > 1 else "one leaf"
    return Panel(view.scale(0), view.scale(1), layers, leaves if here.all() else f"{leaves}, {here.sum()} in this slice")


def _split_panel(view: View, corners: Values, predict: Any, data: Any, output: str, probability: float) -> Panel:
    x, seen = view.ticks[0], []
    layers: list[Layer] = []
    if predict is not None:
        mixture = predict(view.points())
        low, high = mixture.interval(probability)
        layers += [Band(x, low, high, f"{probability:.0%} of the probability"), Line(x, mixture.mean(), "mean")]
        seen += [low, high]
    if data is not None:
        layers.append(Points(view.place(0, data.x), np.asarray(data.y), "observations"))
        seen.append(np.asarray(data.y))
    bottom, top = (min(float(v.min()) for v in seen), max(float(v.max()) for v in seen)) if seen else (0.0, 1.0)
    margin = 0.04 * (top - bottom)
    ends = np.array([bottom - margin, top + margin])
    for split in view.native(0, np.sort(corners[:, 0, 0])[1:]):
        layers.append(Line(np.full(2, split), ends, "split", "#888888", 1.2, dashed=True))
    leaves = f"{len(corners)} leaves" if len(corners) > 1 else "one leaf"
    return Panel(view.scale(0), Scale(output if seen else "", bottom - margin, top + margin), layers, leaves, square=False)


# --- warps -----------------------------------------------------------------------------------------------------------------


def _places(function: Any, x: Values) -> Values:
    places = np.asarray(function(x), dtype=np.float64)
    places = places[None] if places.ndim == 2 else places
    if places.ndim != 3 or places.shape[1] != len(x):
        raise InputError(f"a warp must give ({len(x)}, p) or (draws, {len(x)}, p) for as many points; got {places.shape}.")
    return places


def _turned(places: Values, x: Values) -> tuple[Values, Values]:
    """The shift (p,) and the orthogonal map (p, d) that bring places (m, p) closest to x (m, d), lengths kept (Procrustes)."""
    shift = places.mean(axis=0)
    left, _, right = np.linalg.svd((places - shift).T @ (x - x.mean(axis=0)), full_matrices=False)
    return shift, left @ right


def _paces(view: View, places: Values) -> Values:
    """√Σ(∂w/∂u)² along the unit axes over its root mean square, on the grid: (draws, *shape)."""
    steps = [np.linspace(0.0, 1.0, size) for size in view.shape]
    field = places.reshape(len(places), *view.shape, places.shape[2])
    squares = sum((np.gradient(field, step, axis=1 + i) ** 2).sum(axis=-1) for i, step in enumerate(steps))
    whole = np.mean(squares, axis=tuple(range(1, squares.ndim)), keepdims=True)
    return np.sqrt(squares / np.maximum(whole, 1e-300))


def _warp_1d(view: View, grid: Values, places: Values, most: int) -> Sheet:
    whole_number("most", most)
    x, lines = view.ticks[0], []
    for i in np.unique(np.linspace(0, len(places) - 1, most).round().astype(int)):
        shift, turn = _turned(places[i], grid)
        lines.append(Line(x, ((places[i] - shift) @ turn)[:, 0], f"draw {i}", PALETTE[0], 0.8, legend=False))
    low, middle, high = np.quantile(_paces(view, places), [0.05, 0.5, 0.95], axis=0)
    band: list[Layer] = [Band(x, low, high, "90% of the draws")] if len(places) > 1 else []
    pace = [*band, Line(x, middle, "median")]
    places_panel = Panel(view.scale(0), Scale("place after the warp"), lines, "where the draws put the input", square=False)
    up_to = Scale("pace", 0.0, 1.05 * float(high.max()))
    pace_panel = Panel(view.scale(0), up_to, pace, "pace: above 1 the input is stretched", square=False)
    return Sheet([places_panel, pace_panel], columns=2)


def _warp_2d(view: View, grid: Values, places: Values, function: Any, data: Any, index: int) -> Sheet:
    shift, turn = _turned(places[index], grid)
    along = np.linspace(0.0, 1.0, 61)
    layers: list[Layer] = []
    for axis, name in enumerate(view.names):
        for value in np.linspace(0.0, 1.0, GRID_LINES):
            line = np.empty((len(along), 2))
            line[:, axis], line[:, 1 - axis] = value, along
            sent = (_places(function, line)[index] - shift) @ turn
            layers.append(Line(sent[:, 0], sent[:, 1], f"{name} constant", PALETTE[3 * axis], 1.0))
    if data is not None:
        sent = (_places(function, data.x)[index] - shift) @ turn
        layers.append(Points(sent[:, 0], sent[:, 1], "observations"))
    ends = np.concatenate([[layer.x, layer.y] for layer in layers if isinstance(layer, Line)], axis=1)
    middle = 0.5 * (ends.min(axis=1) + ends.max(axis=1))
    reach = 0.52 * float(np.ptp(ends, axis=1).max())  # both axes alike: lengths can be compared
    scales = [Scale(f"place {i + 1} after the warp", middle[i] - reach, middle[i] + reach) for i in range(2)]
    pace = np.log2(np.maximum(_paces(view, places), 2.0**-6)).mean(axis=0)
    largest = max(float(np.abs(pace).max()), 0.1)
    heat = Heat(view.ticks[0], view.ticks[1], pace, "log2 of the pace", "signed", -largest, largest, smooth=view.smooth)
    points = [] if data is None else [Points(view.place(0, data.x), view.place(1, data.x), "observations")]
    return Sheet(
        [
            Panel(scales[0], scales[1], layers, "even grid lines, as one draw sends them"),
            Panel(view.scale(0), view.scale(1), [heat, *points], "pace: above 0 the inputs are stretched"),
        ],
        columns=2,
    )
