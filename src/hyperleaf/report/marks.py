"""What the pictures of a report share: their form, the runs as marks on them, and the point that slices go through."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hyperleaf.plots.sheet import INK
from hyperleaf.report.facts import Facts, Known
from hyperleaf.report.words import number, short_reason
from hyperleaf.storage.base import Query, State

Values = NDArray[np.float64]
Figure = dict[str, Any]  # Plotly's JSON: its Python objects check every property anew, which takes longer than all else here
WIDTH = 1040  # pixels of the page's column
ORDER = "coloraxis9"  # of the runs, beside those that maps use
ORDER_COLORS = [[0.0, "#ffffff"], [0.35, "#fdd0a2"], [0.7, "#f16913"], [1.0, "#7f2704"]]
IN_LEGEND = "#f16913"
FAILED, PENDING, VOID, DOUBTED = "#d6336c", "#c400c4", "#5b6470", "#e00000"
KINDS = (  # origin or state, what it is called, symbol
    ("design", "first design", "square"),
    ("acquisition", "chosen by the surrogate", "circle"),
    ("added", "added by hand", "diamond"),
    ("repeat", "repeated on purpose", "triangle-up"),
)
GRID_COLOR = "#e8ebef"
BELOW = 140  # and under them, for the legend and the colours of the order
GAP = 84  # pixels between panels that stand three in a row
CHARACTER = 7  # pixels of one, on average
TITLES, TOOLBAR = 34, 30  # pixels above the panels, for their titles and, above those, for the toolbar
PROBABILITY = 0.9


@dataclass(frozen=True)
class Picture:
    """A figure as Plotly's JSON ("data" and "layout"), its title, and a caption that says how to read it; or, without a figure,
    what there would be to see."""

    title: str
    caption: str
    figure: Figure | None = None
    fluid: bool = False  # one panel above the other: on a narrow screen it is drawn as narrow as that


def important(facts: Facts, known: Sequence[Known]) -> list[str]:
    """The inputs, those that matter most to any of the outputs first."""
    if not known:
        return list(facts.domain.names)
    shares = {name: max(one.effects[name].total.mean if one.effects else 0.0 for one in known) for name in facts.domain.names}
    return sorted(facts.domain.names, key=lambda name: -shares[name])


def pairs_of(facts: Facts, names: Sequence[str]) -> list[tuple[str, str]]:
    """All pairs, a Choice first: the names of its options need the room below a panel."""
    order = sorted(names, key=lambda name: facts.domain.axes[name].ordered)
    return list(combinations(order, 2))


def point_words(facts: Facts, base: Values, without: Sequence[str] = ()) -> str:
    (point,) = facts.domain.from_unit(base[None])
    units = facts.domain.units
    shown = [
        f"{name} = {number(value, units[name] or '') if isinstance(value, float) else value}"
        for name, value in point.items()
        if name not in without
    ]
    return ", ".join(shown)


def lay_runs(figure: Figure, facts: Facts, places: Sequence[tuple[Values, Values]]) -> None:
    """All runs as marks on the panels, each with its places: their kind by symbol, their order by colour."""
    queries = facts.record.queries
    rim = {"color": "#1a1a1a", "width": 1}
    groups: list[tuple[str, list[int], dict[str, Any], str]] = []
    for origin, words, symbol in KINDS:
        own = [i for i, query in enumerate(queries) if query.state == State.DONE and query.origin == origin]
        groups.append((words, own, {"symbol": symbol, "size": 8, "line": rim}, IN_LEGEND))
    cross = {"symbol": "x", "size": 8, "line": {"color": "white", "width": 1}}
    groups.append(("failed", [i for i, query in enumerate(queries) if query.state == State.FAILED], cross, FAILED))
    ring = {"symbol": "circle-open", "size": 11, "line": {"width": 2.5}}
    open_ = [i for i, query in enumerate(queries) if query.state in (State.RUNNING, State.WAITING)]
    groups.append(("not finished", open_, ring, PENDING))
    thin = {"symbol": "x-thin-open", "size": 7, "line": {"width": 1.5}}
    groups.append(("voided", [i for i, query in enumerate(queries) if query.state == State.VOID], thin, VOID))
    doubted = {one.query_id for one in facts.snapshot.suspects}
    halo = {"symbol": "circle-open", "size": 16, "line": {"width": 2}}
    groups.append(("to look at again", [i for i, query in enumerate(queries) if query.id in doubted], halo, DOUBTED))
    told = facts.outputs_of
    for words, members, marker, color in groups:
        if not members:
            continue
        texts = [_hover(queries[i], told.get(queries[i].id, {})) for i in members]
        ordered = {"coloraxis": ORDER, "color": [queries[i].id for i in members]}
        common: dict[str, Any] = {"type": "scatter", "mode": "markers", "name": words, "legendgroup": words}
        for number_, (x, y) in enumerate(places):
            end = str(number_ + 1) if number_ else ""
            paint = ordered if "line" in marker and marker["line"] is rim else {"color": color}
            where = {"x": x[members].tolist(), "y": y[members].tolist(), "xaxis": f"x{end}", "yaxis": f"y{end}"}
            shown = {"hovertext": texts, "hoverinfo": "text", "cliponaxis": False, "showlegend": False}
            figure["data"].append({**common, **where, **shown, "marker": {**marker, **paint}})
        # A trace of its own for the legend, which cannot show a colour that differs from mark to mark.
        figure["data"].append({**common, "x": [None], "y": [None], "marker": {**marker, "color": color}})
    last = max((query.id for query in queries), default=1)
    layout = figure["layout"]
    layout["height"] += 60
    layout["margin"] = {**layout.get("margin", {}), "b": BELOW}
    inside = layout["height"] - TITLES - BELOW  # the toolbar's place is added by `page_style`
    bar = {"orientation": "h", "thickness": 10, "len": 0.25, "x": 1.0, "xanchor": "right", "yanchor": "top", "y": -80 / inside}
    bar |= {"title": {"text": "number of the run", "side": "top", "font": {"size": 12}}, "nticks": 5}
    bar |= {"outlinewidth": 1, "outlinecolor": "#888888"}
    layout["legend"] = {**layout.get("legend", {}), "y": -55 / inside}
    layout[ORDER] = {"colorscale": ORDER_COLORS, "cmin": 1, "cmax": max(last, 2), "colorbar": bar}


def _hover(query: Query, outputs: Mapping[str, float]) -> str:
    """Lines about a run, safe to show."""
    lines = [f"<b>run {query.id}</b>, {escape(query.origin)}, {query.state.value}"]
    lines += [f"{escape(str(name))} = {escape(_short(value))}" for name, value in {**query.point, **outputs}.items()]
    if query.state == State.FAILED:
        lines.append(escape(short_reason(query)))
    return "<br>".join(lines)


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def plain(drawn: Any) -> Figure:
    """A Plotly figure as JSON. Its template, which sets more than the page needs, is left out."""
    figure = json.loads(drawn.to_json())
    figure["layout"].pop("template", None)
    return {"data": figure["data"], "layout": figure["layout"]}


def page_style(figure: Figure, height: int | None = None) -> Figure:
    """As wide as the page at most, in its type, with room between panels and few marks on logarithmic axes."""
    layout = figure["layout"]
    width = layout.get("width", WIDTH)
    layout["height"] = height or (round(layout["height"] * WIDTH / width) if width > WIDTH else layout["height"])
    layout["width"] = min(width, WIDTH)
    top = TITLES + TOOLBAR if layout.get("annotations") else TITLES
    layout["height"] += top - TITLES
    layout["margin"] = {**layout.get("margin", {}), "t": top}
    if "legend" in layout and ORDER not in layout:
        layout["legend"]["y"] = -54 / (layout["height"] - top - layout["margin"].get("b", 80))
    family = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
    layout |= {"font": {"family": family, "size": 12, "color": INK}, "paper_bgcolor": "#ffffff", "plot_bgcolor": "#ffffff"}
    layout |= {"hoverlabel": {"align": "left"}, "hovermode": "closest"}
    _make_room(layout)
    inside = layout["width"] - layout["margin"].get("l", 70) - layout["margin"].get("r", 100)
    for name, part in layout.items():
        if name.startswith("coloraxis") and name != ORDER:
            part["colorbar"] |= {"nticks": 6, "exponentformat": "power"}
        elif name[1:5] == "axis":
            part["exponentformat"] = "power"
            if part.get("type") == "log" and "range" in part:
                ticks = log_ticks(*(10.0**end for end in part["range"]))
                part |= {"tickvals": ticks, "ticktext": [number(tick) for tick in ticks]}
            elif name[0] == "x" and part.get("ticktext"):
                low, high = part.get("domain", (0.0, 1.0))
                room = int((high - low) * inside / len(part["ticktext"]) / CHARACTER)
                part |= {"ticktext": [fitted(text, room) for text in part["ticktext"]], "tickangle": 0}
            elif part.get("ticktext"):
                part["ticktext"] = [shortened(text, 24) for text in part["ticktext"]]
    return figure


def shortened(text: str, room: int) -> str:
    """At most so many characters, but at least three; what is left out is in the middle, since ends tell names apart."""
    room = max(room, 3)
    return text if len(text) <= room else f"{text[: room // 2]}…{text[len(text) - (room - 1) // 2 :]}"


def fitted(text: str, room: int) -> str:
    """The same in up to two lines."""
    lines = textwrap.wrap(text, max(room, 3), break_long_words=False) or [""]
    lines = lines if len(lines) <= 2 else [lines[0], f"…{lines[-1]}"]
    return "\n".join(shortened(line, room) for line in lines)


def log_ticks(low: float, high: float) -> list[float]:
    """1, 2 and 5 times powers of ten, or where that would be many, powers of ten."""
    decades = np.log10(high / low)
    steps = (1.0, 2.0, 5.0) if decades < 2.0 else (1.0,)
    powers = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1, max(int(np.ceil(decades / 6)), 1))
    found = [step * 10.0**power for power in powers for step in steps]
    return [tick for tick in found if low * 0.999 <= tick <= high * 1.001]


def _make_room(layout: dict[str, Any]) -> None:
    """Where three panels stand side by side, a gap between them that holds the labels of an axis; titles move along."""
    places = {name: axis["domain"] for name, axis in layout.items() if name.startswith("xaxis") and "domain" in axis}
    starts = sorted({round(domain[0], 6) for domain in places.values()})
    if len(starts) != 3:
        return
    gap = GAP / (layout["width"] - layout["margin"].get("l", 70) - layout["margin"].get("r", 100))
    panel = (1.0 - 2 * gap) / 3
    moved: dict[float, float] = {}
    for name, (low, high) in places.items():
        column = starts.index(round(low, 6))
        layout[name]["domain"] = [column * (panel + gap), column * (panel + gap) + panel]
        moved[round((low + high) / 2, 3)] = column * (panel + gap) + panel / 2
    for title in layout.get("annotations", []):
        title["x"] = moved.get(round(title["x"], 3), title["x"])
