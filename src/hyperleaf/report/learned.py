"""Pictures of what was learned: curves, maps, slices, which inputs matter, and how the inputs are divided.

Maps and curves come from `hyperleaf.plots`; here the runs are laid over them. Texts are raw; the page makes them safe.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import jax.numpy as jnp
import numpy as np

from hyperleaf.analysis.sobol import Index
from hyperleaf.plots import Band, Heat, Line, Panel, Points, Scale, Sheet, draw, leaf_weight_maps, posterior_maps
from hyperleaf.plots.sheet import PALETTE, Colors
from hyperleaf.plots.view import View
from hyperleaf.precision import float64
from hyperleaf.report.facts import Facts, Known
from hyperleaf.report.marks import (
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
    point_words,
)
from hyperleaf.storage.base import State

GRID_1D, GRID_SLICE, GRID_MAP, GRID_PAIR, GRID_LEAF = 301, 81, 61, 41, 71
NEGLIGIBLE = 0.01  # mean weight of a leaf, or effect of an input, that is not worth a panel
WHOLE = 0.9  # mean weight of a leaf beside which the others hardly matter
MOST_LEAVES, MOST_SLICES = 8, 12
PERCENT = f"{100 * PROBABILITY:.0f} %"


def learned(facts: Facts, known: Known) -> list[Picture]:
    """Mean and spread of an output: a curve, maps, or slices and maps of the inputs that matter most."""
    if facts.domain.num_axes == 1:
        return [_curve(facts, known)]
    if facts.domain.num_axes == 2:
        return [_maps(facts, known), _importance(known)]
    return [_importance(known), *_slices(facts, known), *_pairs(facts, known)]


def _curve(facts: Facts, known: Known) -> Picture:
    view = View(facts.domain, facts.domain.names, facts.base, GRID_1D)
    figure = plain(
        posterior_maps(known.model.predict, facts.domain, output=known.label, probability=PROBABILITY, resolution=GRID_1D)
    )
    low, high = (view.masked(end) for end in known.model.predict(view.points()).interval(PROBABILITY))
    floor, top = float(np.nanmin([*low, *known.model.y])), float(np.nanmax([*high, *known.model.y]))
    told = facts.outputs_of
    mean = known.model.predict(facts.unit).mean() if len(facts.unit) else np.zeros(0)
    y = np.array(
        [
            told[query.id][known.name] if query.id in told else floor if query.state == State.FAILED else value
            for query, value in zip(facts.record.queries, mean, strict=True)
        ]
    )
    y = np.clip(y, floor, top)  # a voided value may be anywhere, and is not to set the scale
    figure["layout"] |= {"width": WIDTH, "height": 480}
    lay_runs(figure, facts, [(view.place(0, facts.unit), y)])
    caption = (
        f"The line is the surrogate's best guess; the true value lies in the band with a probability of {PERCENT}, as "
        "far as the surrogate can tell. Marks are runs, darker the later they were asked for."
    )
    return Picture(f"{known.name}: what was learned", caption, page_style(figure), fluid=True)


def _maps(facts: Facts, known: Known) -> Picture:
    view = View(facts.domain, facts.domain.names, facts.base, GRID_MAP)
    figure = plain(posterior_maps(known.model.predict, facts.domain, output=known.label, resolution=GRID_MAP))
    layout = figure["layout"]
    layout |= {"width": WIDTH, "height": 450}
    for title, name in zip(layout["annotations"], ("coloraxis", "coloraxis2"), strict=True):
        title["text"] = layout[name]["colorbar"].pop("title")["text"]  # above it: beside it is no room for long numbers
    lay_runs(figure, facts, [(view.place(0, facts.unit), view.place(1, facts.unit))] * 2)
    caption = (
        "Left the surrogate's best guess, right its own standard deviation: where that is large, it knows little. Marks are "
        "runs, darker the later they were asked for."
    )
    return Picture(f"{known.name}: what was learned, and where the runs went", caption, page_style(figure))


def _importance(known: Known) -> Picture:
    names = sorted(known.effects, key=lambda name: known.effects[name].total.mean)
    totals = [known.effects[name].total for name in names]
    firsts = [one for name in names if (one := known.effects[name].first) is not None]
    bars = [_bars("with all its interactions", totals, PALETTE[0])]
    if firsts:
        bars.append(_bars("by itself", firsts, PALETTE[1]))
    title = {"text": "share of the variation"}
    layout = {
        "height": 130 + (46 if firsts else 30) * len(names),
        "barmode": "group",
        "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom", "traceorder": "reversed"},
        "showlegend": bool(firsts),
        "margin": {"l": 160, "r": 40, "t": 40 if firsts else 10, "b": 60},
        "xaxis": {"title": title, "tickformat": ".0%", "rangemode": "tozero", "gridcolor": GRID_COLOR},
        "yaxis": {"tickvals": list(range(len(names))), "ticktext": names},
    }
    figure: Figure = {"data": bars, "layout": layout}
    caption = (
        f"How much of the variation of {known.name} over the whole domain goes away when the input is held fixed. Inputs that "
        "act together are counted in each of their bars, so the bars may add up to more than 100 %."
    )
    caption += " By itself is what an input explains while all others are left to vary." if firsts else ""
    caption += " Thin lines hold 95 % of what functions say that go with the runs; while little is known, shares lie too high."
    caption += "".join(f" {note[0].upper()}{note[1:]}" for note in known.effects[names[0]].notes)
    return Picture(f"{known.name}: which inputs matter", caption, page_style(figure), fluid=True)


def _bars(name: str, shares: Sequence[Index], color: str) -> dict[str, Any]:
    ends = {"array": [one.high - one.mean for one in shares], "arrayminus": [one.mean - one.low for one in shares]}
    return {
        "type": "bar",
        "name": name,
        "x": [one.mean for one in shares],
        "y": list(range(len(shares))),
        "orientation": "h",
        "marker": {"color": color},
        "error_x": {"type": "data", "symmetric": False, **ends, "thickness": 1, "width": 3, "color": "#444444"},
        "customdata": [[one.low, one.high] for one in shares],
        "hovertemplate": "%{x:.0%}, between %{customdata[0]:.0%} and %{customdata[1]:.0%}<extra>" + name + "</extra>",
    }


def _slices(facts: Facts, known: Known) -> list[Picture]:
    """Along each input through the base point; with two more to choose in the legend: the largest and smallest run."""
    names = important(facts, [known])[:MOST_SLICES]
    x, y = known.model.posterior.data.x, known.model.y
    through = [(f"through {facts.base_words}", facts.base, PALETTE[0], True)]
    if len(y) > 1 and y.max() > y.min():
        through += [
            ("through the run with the largest value", x[int(np.argmax(y))], PALETTE[3], False),
            ("through the run with the smallest value", x[int(np.argmin(y))], PALETTE[2], False),
        ]
    views = [[View(facts.domain, [name], base, GRID_SLICE) for _, base, _, _ in through] for name in names]
    flat = [view for row in views for view in row]
    mixture = known.model.predict(np.concatenate([view.points() for view in flat]))  # all at once: one shape to compile
    ends = np.cumsum([len(view.ticks[0]) for view in flat])[:-1]
    low, high = mixture.interval(PROBABILITY)
    parts = [[view.masked(one) for view, one in zip(flat, np.split(v, ends), strict=True)] for v in (mixture.mean(), low, high)]
    bottom, top = float(np.nanmin(np.concatenate(parts[1]))), float(np.nanmax(np.concatenate(parts[2])))
    margin = 0.04 * (top - bottom) or 0.5
    bottom, top = bottom - margin, top + margin
    panels = []
    for number_, row in enumerate(views):
        layers: list[Any] = []
        for i, (view, (words, base, color, _)) in enumerate(zip(row, through, strict=True)):
            place, j = np.repeat(view.place(0, base[None]), 2), number_ * len(through) + i
            layers.append(Line(place, np.array([bottom, top]), words, "#888888", 1.0, dashed=True, legend=False))
            layers += _slice_layers(view, parts[0][j], parts[1][j], parts[2][j], words, color)
        panels.append(Panel(row[0].scale(0), Scale(known.label, bottom, top), layers))
    sheet = Sheet(panels, 2 if len(panels) == 4 else min(3, len(panels)))
    figure = plain(draw(sheet))
    figure["layout"] |= {"width": WIDTH, "height": 100 + 290 * sheet.rows}
    visible = {words: shown for words, _, _, shown in through}
    for trace in figure["data"]:
        if trace.get("name") in visible:
            trace |= {"legendgroup": trace["name"], "visible": True if visible[trace["name"]] else "legendonly"}
    left_out = len(facts.domain.names) - len(names)
    caption = (
        f"Each panel moves one input and holds the others (dashed: where). Bands hold {PERCENT} of the probability; all "
        "panels share their scale. Other slices are a click on the legend away."
    )
    caption += f" The base point: {point_words(facts, facts.base)}."
    caption += f" The {left_out} inputs that matter least are left out." if left_out else ""
    return [Picture(f"{known.name}: slices", caption, page_style(figure))]


def _slice_layers(view: View, mean: Values, low: Values, high: Values, name: str, color: str) -> list[Any]:
    """A curve with its band; for a Choice a bar and a dot for each option."""
    x = view.ticks[0]
    if view.axes[0].ordered:
        return [Band(x, low, high, name, color), Line(x, mean, name, color)]
    bars = [Band(x[i] + np.array([-0.12, 0.12]), low[[i, i]], high[[i, i]], name, color) for i in range(len(x))]
    return [*bars, Points(x, mean, name, color)]


def _pairs(facts: Facts, known: Known) -> list[Picture]:
    """Maps over the pairs of the three inputs that matter most, through the base point."""
    ranked = important(facts, [known])
    top = [name for i, name in enumerate(ranked[:3]) if i < 2 or known.effects[name].total.mean >= NEGLIGIBLE]
    names = [name for name in facts.domain.names if name in top]
    views = [View(facts.domain, pair, facts.base, GRID_PAIR) for pair in pairs_of(facts, names)]
    mixture = known.model.predict(np.concatenate([view.points() for view in views]))
    ends = np.cumsum([np.prod(view.shape) for view in views])[:-1]
    shown: list[tuple[str, Colors, Values]] = [
        ("mean", "value", mixture.mean()),
        ("standard deviation", "spread", mixture.std()),
    ]
    panels = []
    for title, colors, flat in shown:
        maps = [view.masked(one) for view, one in zip(views, np.split(flat, ends), strict=True)]
        values = np.concatenate([z.ravel() for z in maps])
        low, high = 0.0 if colors == "spread" else float(np.nanmin(values)), float(np.nanmax(values))
        for view, z in zip(views, maps, strict=True):
            across, up = view.ticks
            label = f"{title} of {known.label}"
            heat = Heat(across, up, z, label, colors, low, high, contours=view.smooth, smooth=view.smooth)
            panels.append(Panel(view.scale(0), view.scale(1), [heat], title))
    figure = plain(draw(Sheet(panels, max(len(views), 2))))
    first, second = ("Above", "below") if len(views) > 1 else ("Left", "right")
    caption = (
        f"Two inputs move, the others are held as in {point_words(facts, facts.base)}. {first} the best guess, {second} the "
        "surrogate's own standard deviation."
    )
    return [Picture(f"{known.name}: maps of the inputs that matter most", caption, page_style(figure))]


def leaves(facts: Facts, known: Known) -> Picture | None:
    """How the surrogate divides the inputs, with the gates drawn; None where it does not, or over choices only."""
    partition = known.partition
    if partition is None:
        return None
    axes = [name for name in important(facts, [known]) if facts.domain.axes[name].ordered][:2]
    if not axes:
        return None
    axes = [name for name in facts.domain.names if name in axes]
    title = f"{known.name}: how the inputs are divided"
    data = SimpleNamespace(x=known.model.posterior.data.x) if facts.domain.num_axes == 2 and len(axes) == 2 else None
    resolution = GRID_LEAF if len(axes) == 2 else GRID_1D
    view = View(facts.domain, axes, facts.base, resolution)
    shares = float64(lambda: np.asarray(partition.leaf_weights(jnp.asarray(view.points()))))().mean(axis=1)
    num_shown = int(np.sum(shares >= NEGLIGIBLE))
    if num_shown == 1:
        caption = (
            f"The surrogate could divide the inputs among {len(shares)} leaves, but found no reason to: one of them holds all."
        )
        return Picture(title, caption)
    drawn = leaf_weight_maps(
        partition,
        facts.domain,
        axes=tuple(axes),
        at=facts.base,
        data=data,
        most=min(MOST_LEAVES, num_shown) if len(axes) == 2 else None,
        resolution=resolution,
    )
    figure = plain(drawn)
    if len(axes) == 1:
        figure["layout"] |= {"width": WIDTH, "height": 380}
    draws = known.model.diagnostics.num_draws
    average = f", the most probable of {draws} that the surrogate averages over" if draws > 1 else ""
    caption = (
        "The surrogate divides the inputs into leaves, each with its own roughness, so that it can be calm in one place and "
        f"lively in another. Shown is one division{average}. Dark lines are the gates between leaves; a leaf counts by "
        "its weight."
    )
    if shares.max() > WHOLE:
        caption += " Here it found little reason to divide: one leaf holds nearly everything."
    if len(axes) == 2 and num_shown < len(shares):
        caption += (
            f" Of {len(shares)} leaves {len(shares) - num_shown} hold less than {100 * NEGLIGIBLE:.0f} % here and are not shown."
        )
    if facts.domain.num_axes > len(axes):
        caption += f" The other inputs are held at {point_words(facts, facts.base, without=axes)}."
    return Picture(title, caption, page_style(figure))
