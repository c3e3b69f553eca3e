"""Where to ask next, as a picture: the surface of a criterion, with the points that are finished, pending and chosen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hyperleaf.domain import Domain
from hyperleaf.errors import InputError
from hyperleaf.plots.sheet import INK, PALETTE, Backend, Band, Heat, Layer, Line, Panel, Points, Scale, Sheet, Values, draw
from hyperleaf.plots.subject import read_subject
from hyperleaf.plots.view import View, base_point

if TYPE_CHECKING:
    from hyperleaf.acquisition import Acquisition, Belief
    from hyperleaf.data import Pool

GRID_1D, GRID_2D, GRID_SLICE = 301, 61, 101
CHOSEN, PENDING = PALETTE[3], PALETTE[4]
ORDINALS = {1: "1st", 2: "2nd", 3: "3rd"}


def acquisition_maps(
    model: Any,
    where: Domain | Pool | None = None,
    acquisition: str | Acquisition | None = None,
    *,
    output: str | None = None,
    chosen: Any = None,
    pending: Any = None,
    each: bool = False,
    axes: tuple[str, ...] | None = None,
    at: Any = None,
    seed: int = 0,
    resolution: int | None = None,
    backend: Backend = "plotly",
) -> Any:
    """The surface that `suggest` climbs: a curve over one input, a map over two, a slice along each of more; in native units.

    `model`, `where`, `acquisition`, `pending` and `seed` are those of `suggest`, `chosen` is what it returned, or points in
    native units. Of a study they are its own, pending queries too, and `output` names one of several. Without an `acquisition` it
    is the entropy. Dots are finished points, rings pending ones, stars the chosen; over one input they sit on the curve, below
    what is believed. The surface is the one that the first choice was made on; with `each`, there is one for every choice, given
    the earlier ones. Over more than two inputs slices go through `at` (a dict in native units, or numbers in the unit cube), by
    default the first choice or else the centre, and the other points are projected; name two `axes` for a map of that slice.
    Where constraints do not hold it is blank.
    """
    from hyperleaf.acquisition import as_acquisition
    from hyperleaf.data import Pool
    from hyperleaf.suggestion import read_model, read_pending, with_references

    held = read_subject(model, output)
    if held is not None:
        where = (held.pool or held.domain) if where is None else where
        acquisition = acquisition or held.criterion
        pending = held.pending if pending is None else pending
        model = held.learned or held.posterior
    belief, place = read_model(model, where)
    posterior = belief.posterior
    domain = place.domain if isinstance(place, Pool) else place
    if domain.num_dims != posterior.data.num_dims:
        raise InputError(
            f"the domain must have as many unit columns as the data the model was fitted to; got {domain.num_dims} and "
            f"{posterior.data.num_dims}. Pass the domain with which the data were scaled."
        )
    names = _shown(domain, axes)
    waiting, _ = read_pending(pending, place)
    picked, _ = read_pending(chosen, place)
    criterion = with_references(as_acquisition(acquisition or "entropy").at_hand(belief.data), place, seed)
    belief = belief.given(waiting)
    surfaces = []
    for i in range(max(len(picked), 1) if each else 1):
        stars = picked[i : i + 1] if each else picked
        title = f"{ORDINALS.get(i + 1, f'{i + 1}th')} choice" if each and len(picked) > 1 else ""
        surfaces.append(_Surface(criterion, belief, stars, waiting, place, title, seed))
        if i + 1 < len(picked) and each:
            belief = belief.given(picked[i : i + 1])
    through = (picked[0] if len(picked) else None) if at is None else at
    if len(names) == 2 and (axes is not None or domain.num_axes == 2):
        panels = _maps(surfaces, View(domain, names, through, resolution or GRID_2D))
        return draw(Sheet(panels, _columns(len(panels))), backend)
    if len(names) == 1:
        view = View(domain, names, through, resolution or (GRID_1D if domain.num_axes == 1 else GRID_SLICE))
        panels = [_curve(surface, view, exact=domain.num_axes == 1) for surface in surfaces]
        label = "f" if held is None else held.label
        believed = [_believed(belief, view, label)] if domain.num_axes == 1 else []
        return draw(Sheet([*believed, *panels], columns=1), backend)
    views = [View(domain, [name], through, resolution or GRID_SLICE) for name in names]
    panels = [panel for surface in surfaces for panel in _slices(surface, views, base_point(domain, through))]
    return draw(Sheet(panels, _columns(len(names))), backend)


class _Surface:
    """A criterion under a belief, and the points to be seen on it."""

    def __init__(
        self, criterion: Any, belief: Any, chosen: Values, pending: Values, place: Domain | Pool, title: str, seed: int
    ) -> None:
        self.criterion, self.belief, self.title, self.seed = criterion, belief, title, seed
        self.label = criterion.label or type(criterion).__name__
        self.candidates = np.zeros((0, belief.data.num_dims)) if isinstance(place, Domain) else place.unit[place.remaining]
        earlier = belief.points[len(pending) :]
        self.groups: list[tuple[Values, dict[str, Any]]] = [
            (self.candidates, {"name": "candidates", "color": "#bbbbbb", "marker": "speck"}),
            (belief.data.x, {"name": "finished", "color": INK, "marker": "dot"}),
            (np.concatenate([pending, earlier]), {"name": "pending", "color": PENDING, "marker": "ring"}),
            (chosen, {"name": "chosen", "color": CHOSEN, "marker": "star"}),
        ]

    def score(self, unit: Values) -> Values:
        import jax

        return np.asarray(self.criterion.score(self.belief, unit, key=jax.random.key(self.seed)))

    def points(self, x: Any, y: Any) -> list[Layer]:
        """A layer for each kind of points; x and y tell where unit-cube points go."""
        return [Points(x(unit), y(unit), **style) for unit, style in self.groups if len(unit)]


def _maps(surfaces: list[_Surface], view: View) -> list[Panel]:
    """A map of each surface, all in the same colours, so that one sees by how much an earlier choice lowers it."""
    heights = [view.masked(surface.score(view.points())) for surface in surfaces]
    finite = np.concatenate([z[np.isfinite(z)] for z in heights])
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    panels = []
    for surface, z in zip(surfaces, heights, strict=True):
        x, y = view.ticks
        heat = Heat(x, y, z, surface.label, low=low, high=high, contours=view.smooth, smooth=view.smooth)
        points = surface.points(lambda unit: view.place(0, unit), lambda unit: view.place(1, unit))
        panels.append(Panel(view.scale(0), view.scale(1), [heat, *points], surface.title))
    return panels


def _curve(surface: _Surface, view: View, exact: bool) -> Panel:
    """The score along one axis. With `exact`, it is the only one, and every point has its place on the curve."""
    values = view.masked(surface.score(view.points()))
    low, high = _limits([values])
    floor = np.full(1, low)
    points = surface.points(
        lambda unit: view.place(0, unit), (lambda unit: surface.score(unit)) if exact else (lambda unit: floor.repeat(len(unit)))
    )
    scale = Scale(surface.label) if exact else Scale(surface.label, low, high)
    return Panel(view.scale(0), scale, [*_line(view, values), *points], surface.title, square=False)


def _slices(surface: _Surface, views: list[View], base: Values) -> list[Panel]:
    """The score along each axis through `base`, on one scale; other points are projected to the lower rim."""
    curves = [view.masked(surface.score(view.points())) for view in views]
    low, high = _limits(curves)
    here = surface.score(base[None])[0]
    panels = []
    for view, values in zip(views, curves, strict=True):

        def height(unit: Values) -> Values:
            on_it = np.all(np.abs(unit - base) < 1e-9, axis=1)
            return np.where(on_it, here, low)

        points = surface.points(lambda unit, view=view: view.place(0, unit), height)
        through = Line(np.repeat(view.place(0, base[None]), 2), np.array([low, high]), "the point", "#888888", 1.2, dashed=True)
        layers = [through, *_line(view, values), *points]
        panels.append(Panel(view.scale(0), Scale(surface.label, low, high), layers, surface.title))
    return panels


def _line(view: View, values: Values) -> list[Layer]:
    """A curve; for a Choice, where nothing lies between, a bar for each option."""
    if view.axes[0].ordered:
        return [Line(view.ticks[0], values)]
    return [Line(x + np.array([-0.3, 0.3]), np.repeat(v, 2)) for x, v in zip(view.ticks[0], values, strict=True)]


def _believed(belief: Belief, view: View, label: str) -> Panel:
    """Mean and 95 % of the latent f over the one input, in native units if the model knows them."""
    posterior, scale = belief.posterior, belief.scale
    mixture, y = posterior.predict(view.points()), posterior.data.y
    if scale is not None:
        mixture, y = belief.native(mixture), scale.inverse(y)
    low, high = mixture.interval(0.95)
    band = Band(view.ticks[0], view.masked(low), view.masked(high), "95% of the probability")
    points = Points(view.place(0, posterior.data.x), np.asarray(y), "finished")
    label = label if scale is not None else "f (standardised)"
    return Panel(
        view.scale(0), Scale(label), [band, Line(view.ticks[0], view.masked(mixture.mean()), "mean"), points], square=False
    )


def _shown(domain: Domain, axes: Any) -> tuple[str, ...]:
    names = domain.names if axes is None else (axes,) if isinstance(axes, str) else tuple(axes)
    if axes is not None and not 1 <= len(names) <= 2:
        raise InputError(f"axes must name one or two axes, of {list(domain.names)}; got {list(names)}.")
    return names


def _limits(curves: list[NDArray[np.float64]]) -> tuple[float, float]:
    finite = np.concatenate([values[np.isfinite(values)] for values in curves])
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    margin = 0.06 * (high - low) or 0.5
    return low - margin, high + margin


def _columns(panels: int) -> int:
    return 2 if panels == 4 else min(3, panels)
