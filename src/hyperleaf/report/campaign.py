"""Pictures of the campaign: where runs went and when, how the error fell, where runs fail, how long they took."""

from __future__ import annotations

from typing import Any

import numpy as np

from hyperleaf.plots import Band, Heat, Line, Panel, Points, Scale, Sheet, draw
from hyperleaf.plots.sheet import INK, PALETTE
from hyperleaf.plots.view import View
from hyperleaf.report.facts import Facts, Known
from hyperleaf.report.marks import (
    FAILED,
    GRID_COLOR,
    PROBABILITY,
    WIDTH,
    Figure,
    Picture,
    Values,
    important,
    lay_runs,
    page_style,
    pairs_of,
    plain,
)
from hyperleaf.storage.base import State

GRID_1D, GRID_2D = 101, 41
MOST_PAIRED = 4  # inputs whose pairs are shown
QUICK = 0.01  # seconds; the times of such runs are not worth a picture


def where_and_when(facts: Facts) -> Picture | None:
    """All runs in projections on pairs of inputs; over one or two inputs, each input against the order."""
    if not len(facts.unit):
        return None
    names = important(facts, facts.known)[:MOST_PAIRED]
    names = [name for name in facts.domain.names if name in names]
    order = np.array([query.id for query in facts.record.queries], dtype=np.float64)
    panels, places = [], []
    if facts.domain.num_axes <= 2:
        for name in names:
            view = View(facts.domain, [name], facts.base, 2)
            scale = Scale("number of the run" if name == names[-1] else "", 0.0, float(order.max()) + 1)
            panels.append(Panel(scale, view.scale(0), [], square=False))
            places.append((order, view.place(0, facts.unit)))
        columns = 1
    else:
        for pair in pairs_of(facts, names):
            view = View(facts.domain, pair, facts.base, 2)
            panels.append(Panel(view.scale(0), view.scale(1), []))
            places.append((_jittered(view, 0, facts), _jittered(view, 1, facts)))
        columns = min(3, len(panels))
    figure = plain(draw(Sheet(panels, columns)))
    if columns == 1:
        figure["layout"] |= {"width": WIDTH, "height": 170 + 200 * len(panels)}
    lay_runs(figure, facts, places)
    caption = "Every run, by its inputs; darker is later. Crosses failed, thin ones were voided, open rings are not finished."
    if len(names) < facts.domain.num_axes:
        caption += f" Shown are the {len(names)} inputs that matter most."
    if facts.domain.num_axes > 2 and not all(facts.domain.axes[name].ordered for name in names):
        caption += " Runs with the same choice are drawn a little apart."
    return Picture("Where the runs went, and when", caption, page_style(figure), fluid=columns == 1)


def accuracy(facts: Facts, known: Known) -> Picture | None:
    """The error as it fell, the coverage, and each run as predicted from the others."""
    curve = known.curve
    if not curve:
        return None
    nums = np.array([num for num, _ in curve], dtype=np.float64)

    def line(field: str, name: str, color: str, **style: Any) -> list[Any]:
        values = np.array([np.nan if (v := getattr(one, field)) is None or v <= 0 else v for _, one in curve])
        if not np.isfinite(values).any():
            return []
        return [Line(nums, values, name, color, **style), Points(nums, values, None, color, marker="speck")]

    reach = Scale("finished runs", float(nums.min()) - 0.5, float(nums.max()) + 0.5)
    errors = line("loo_rmse", "at runs left out", PALETTE[1], width=1.5)
    errors += line("test_rmse", "on test runs", PALETTE[2]) + line("expected_rmse", "expected", PALETTE[0])
    if known.target is not None:
        errors.append(Line(np.array([reach.low, reach.high]), np.full(2, known.target), "wanted", INK, 1.2, dashed=True))
    drawn = np.concatenate([layer.y for layer in errors if isinstance(layer, Line)] or [np.ones(1)])
    scale = Scale(f"error of {known.label}", float(np.nanmin(drawn)) / 1.2, float(np.nanmax(drawn)) * 1.2, log=True)
    panels = [Panel(reach, scale, errors, "error (root mean square)")]
    covered: list[Any] = [Line(np.array([reach.low, reach.high]), np.full(2, 0.9), "as promised: 90 %", INK, 1.2, dashed=True)]
    covered += line("loo_coverage", "at runs left out", PALETTE[1], width=1.5) + line("test_coverage", "on test runs", PALETTE[2])
    if len(covered) > 1:
        panels.append(Panel(reach, Scale("share within their 90 % interval", -0.02, 1.02), covered, "coverage"))
    if known.left_out is not None:
        panels.append(_left_out_panel(known))
    caption = (
        "The expected error is the surrogate's own judgement, averaged over the whole domain. Leaving a run out and predicting "
        "it from the others checks it; that error is usually larger, because runs are made where little is known."
    )
    figure = page_style(plain(draw(Sheet(panels, len(panels)))), height=430)
    figure["layout"]["yaxis"] |= {"gridcolor": GRID_COLOR, "showgrid": True}
    return Picture(f"{known.name}: how accuracy grew", caption, figure)


def helping(known: Known) -> Picture | None:
    """The error of random runs beside that of the study's, and what a plain process makes of the same runs."""
    found = known.helping
    if found is None:
        return None
    num, shown = found.num_runs, min(found.limit, max(round(1.15 * found.equal[2]), 2 * found.num_runs))
    x, random = np.arange(1, shown + 1, dtype=np.float64), found.random[:shown]
    layers: list[Any] = [
        Band(x, random[:, 0], random[:, 2], "random runs, eight in ten", PALETTE[3]),
        Line(x, random[:, 1], "random runs", PALETTE[3]),
        Line(np.arange(1, num + 1, dtype=np.float64), found.own, "the runs of this study", PALETTE[0]),
    ]
    if not found.beyond:
        same = Line(np.array([num, found.equal[1]]), np.full(2, found.own[-1]), "the same error", INK, 1.2, dashed=True)
        layers.append(same)
    heights = np.concatenate([random.ravel(), found.own])
    scale = Scale(f"error of {known.label}", float(heights.min()) / 1.2, float(heights.max()) * 1.2, log=True)
    panels = [Panel(Scale("runs", 0.0, shown + 1.0), scale, layers, "as the functions that fit the runs say", square=False)]
    panels += _plain_panel(known)
    figure = page_style(plain(draw(Sheet(panels, len(panels)))), height=430)
    figure["layout"]["width"] = WIDTH
    caption = (
        "Functions that fit all runs are learned again, from the study's runs in their order and from random ones, both with the "
        "kernel that is known now: so the first runs look better than they were."
    )
    if len(panels) > 1:
        caption += " Right: runs left out, as this surrogate and as a plain stationary Gaussian process predict them."
    return Picture(f"{known.name}: these runs and random ones", caption, figure, fluid=len(panels) == 1)


def _plain_panel(known: Known) -> list[Panel]:
    """Errors at runs left out, of the surrogate as it was at each number of runs and of the plain process."""
    assert known.helping is not None
    curve = [(num, one.loo_rmse) for num, one in known.curve if one.loo_rmse]
    if not known.helping.plain or not curve:
        return []
    first = known.helping.plain[0][0]
    curve = [pair for pair in curve if pair[0] >= first] or curve[-1:]
    layers: list[Any] = []
    for pairs, name, color in ((curve, "this surrogate", PALETTE[0]), (known.helping.plain, "a plain process", PALETTE[2])):
        nums, errors = np.array(pairs, dtype=np.float64).T
        layers += [Line(nums, errors, name, color), Points(nums, errors, None, color, marker="speck")]
    heights = np.concatenate([layer.y for layer in layers])
    scale = Scale(f"error of {known.label}", float(heights.min()) / 1.3, float(heights.max()) * 1.3, log=True)
    reach = Scale("finished runs", first - 0.5, float(max(known.helping.num_runs, curve[-1][0])) + 0.5)
    return [Panel(reach, scale, layers, "at runs left out", square=False)]


def _left_out_panel(known: Known) -> Panel:
    assert known.left_out is not None
    y, predicted = known.model.y, known.left_out.mean()
    low, high = known.left_out.interval(PROBABILITY)
    nothing = np.full(len(y), np.nan)
    bars = Line(np.repeat(y, 3), np.column_stack([low, high, nothing]).ravel(), "90 % interval", "#7aa7c7", 1.2)
    ends = np.array([min(y.min(), predicted.min()), max(y.max(), predicted.max())])
    ends = ends + np.array([-0.05, 0.05]) * (ends[1] - ends[0] or 1.0)
    equal = Line(ends, ends, "exact", "#888888", 1.2, dashed=True)
    across = Scale(f"{known.label} observed", float(ends[0]), float(ends[1]))
    other = Scale("predicted from the others", float(ends[0]), float(ends[1]))
    return Panel(across, other, [equal, bars, Points(y, predicted, None, PALETTE[0])], "each run predicted from the others")


def success(facts: Facts) -> Picture | None:
    """The probability that a run succeeds, over one or two inputs; None where nothing failed."""
    if facts.success is None or facts.domain.num_axes > 2:
        return None
    view = View(facts.domain, facts.domain.names, facts.base, GRID_1D if facts.domain.num_axes == 1 else GRID_2D)
    chance = facts.success(view.points())
    if facts.domain.num_axes == 1:
        layers: list[Any] = [Line(view.ticks[0], view.masked(chance), "probability of success")]
        panel = Panel(view.scale(0), Scale("probability of success", -0.05, 1.05), layers, square=False)
        figure = plain(draw(Sheet([panel], 1)))
        figure["layout"] |= {"width": WIDTH, "height": 380}
        y = np.array([{State.FAILED: 0.0, State.DONE: 1.0}.get(query.state, 0.5) for query in facts.record.queries])
        lay_runs(figure, facts, [(view.place(0, facts.unit), y)])
    else:
        across, up = view.ticks
        heat = Heat(across, up, view.masked(chance), "probability of success", "share", 0.0, 1.0, smooth=view.smooth)
        figure = plain(draw(Sheet([Panel(view.scale(0), view.scale(1), [heat])], 1)))
        figure["layout"] |= {"width": 760, "height": 540}
        lay_runs(figure, facts, [(view.place(0, facts.unit), view.place(1, facts.unit))])
    caption = "Learned from the runs that failed and those that did not; queries keep away from where it is low."
    return Picture("Where runs fail", caption, page_style(figure))


def durations(facts: Facts) -> Picture | None:
    """How long each run took."""
    timed = [query for query in facts.record.queries if query.seconds is not None]
    if len(timed) < 2 or max(query.seconds or 0.0 for query in timed) < QUICK:
        return None
    data = []
    for state, name, color in ((State.DONE, "finished", PALETTE[0]), (State.FAILED, "failed", FAILED)):
        own = [query for query in timed if query.state == state]
        bars = {"type": "bar", "name": name, "marker": {"color": color}, "hovertemplate": "run %{x}: %{y:.3g} s<extra></extra>"}
        data += [{**bars, "x": [query.id for query in own], "y": [query.seconds for query in own]}] if own else []
    layout = {
        "height": 260,
        "margin": {"l": 70, "r": 30, "t": 10, "b": 50},
        "bargap": 0.15,
        "xaxis": {"title": {"text": "number of the run"}},
        "yaxis": {"title": {"text": "seconds"}, "gridcolor": GRID_COLOR, "exponentformat": "power"},
        "showlegend": len(data) > 1,
    }
    figure: Figure = {"data": data, "layout": layout}
    return Picture("How long each run took", "", page_style(figure), fluid=True)


def _jittered(view: View, i: int, facts: Facts) -> Values:
    """Places along an axis; of a Choice a little apart, by the number of the run, so that all can be seen."""
    places = view.place(i, facts.unit)
    if not view.axes[i].ordered:
        numbers = np.array([query.id for query in facts.record.queries])
        places = places + 0.5 * ((numbers * 0.618034) % 1.0 - 0.5)
    return places
