"""Draws a sheet with Plotly, for the browser: values under the pointer, zoom, and one file of HTML."""

from __future__ import annotations

from typing import Any

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from hyperleaf.plots.sheet import Band, Heat, Layer, Line, Points, Scale, Sheet, color_of, tint

COLORSCALES = {"value": "Viridis", "spread": "Cividis", "signed": "RdBu_r", "share": "Blues"}
MARKERS: dict[str, dict[str, Any]] = {
    "dot": {"size": 7, "symbol": "circle", "line": {"color": "white", "width": 1}},
    "speck": {"size": 3, "symbol": "circle"},
    "ring": {"size": 9, "symbol": "circle-open", "line": {"width": 2}},
    "star": {"size": 15, "symbol": "star", "line": {"color": "white", "width": 1}},
}
PANEL = 320  # pixels
BAR = 90  # pixels that a colour bar needs beside its panel


def render(sheet: Sheet) -> go.Figure:
    groups = _bars(sheet)
    # Bars that belong to single panels of a row stand between the panels; one shared by whole rows stands at the right rim.
    between = any(len(members) < sheet.columns for members in groups.values()) and sheet.columns > 1
    wide = 1.0 if all(panel.square for panel in sheet.panels) else 1.35
    width = sheet.columns * (wide * PANEL + (BAR if between else 30)) + 130
    height = sheet.rows * (PANEL + 70) + 70
    figure = make_subplots(
        rows=sheet.rows,
        cols=sheet.columns,
        subplot_titles=[panel.title for panel in sheet.panels],
        horizontal_spacing=min((BAR + 60 if between else 70) / width, 1.0 / sheet.columns),
        vertical_spacing=min(95 / height, 1.0 / sheet.rows),
    )
    named: set[str] = set()
    for number, panel in enumerate(sheet.panels):
        place = {"row": number // sheet.columns + 1, "col": number % sheet.columns + 1}
        figure.update_xaxes(**_scale(panel.x), **place)
        figure.update_yaxes(**_scale(panel.y), **place)
        for layer in panel.layers:
            for trace in _traces(layer):
                if trace.name and trace.showlegend is None:
                    trace.update(legendgroup=trace.name, showlegend=trace.name not in named)
                    named.add(trace.name)
                if isinstance(layer, Heat) and isinstance(trace, go.Heatmap):
                    trace.coloraxis = _coloraxis(list(groups).index(_key(layer)))
                figure.add_trace(trace, **place)
    for number, ((label, limits, colors), members) in enumerate(groups.items()):
        figure.update_layout({_coloraxis(number): _coloraxis_layout(figure, label, limits, colors, members)})
    figure.update_layout(
        template="plotly_white",
        width=width,
        height=height,
        title=sheet.title or None,
        font={"size": 13},
        legend={"orientation": "h", "yanchor": "top", "y": -70 / height, "xanchor": "left", "x": 0.0},
        margin={"l": 70, "r": 100, "t": 80 if sheet.title else 50, "b": 80},
    )
    figure.update_annotations(font_size=14, yshift=6)  # clear of marks on the upper edge
    return figure


def _key(heat: Heat) -> tuple:
    return heat.label, heat.limits, heat.colors


def _bars(sheet: Sheet) -> dict[tuple, list[int]]:
    groups: dict[tuple, list[int]] = {}
    for number, panel in enumerate(sheet.panels):
        for layer in panel.layers:
            if isinstance(layer, Heat):
                groups.setdefault(_key(layer), []).append(number)
    return groups


def _coloraxis(number: int) -> str:
    return f"coloraxis{number + 1 if number else ''}"


def _coloraxis_layout(figure: go.Figure, label: str, limits: tuple[float, float], colors: str, members: list[int]) -> dict:
    """Colours, and a bar right of the panels that share it, as high as they are together."""
    suffixes = [str(number + 1) if number else "" for number in members]
    right = max(figure.layout[f"xaxis{suffix}"].domain[1] for suffix in suffixes)
    bottom = min(figure.layout[f"yaxis{suffix}"].domain[0] for suffix in suffixes)
    top = max(figure.layout[f"yaxis{suffix}"].domain[1] for suffix in suffixes)
    title = {"text": label, "side": "right"}
    bar = {"title": title, "x": right + 0.005, "xanchor": "left", "y": (bottom + top) / 2, "len": top - bottom, "thickness": 12}
    return {"colorscale": COLORSCALES[colors], "cmin": limits[0], "cmax": limits[1], "colorbar": bar | {"outlinewidth": 0}}


def _scale(scale: Scale) -> dict[str, Any]:
    options: dict[str, Any] = {"title": {"text": scale.label, "standoff": 8}, "showgrid": False, "zeroline": False}
    options |= {"ticks": "outside", "showline": True, "linecolor": "#888888"}
    if scale.log:
        options["type"] = "log"
    if scale.low is not None and scale.high is not None:
        options["range"] = [float(v) for v in (np.log10([scale.low, scale.high]) if scale.log else (scale.low, scale.high))]
    if scale.ticks is not None:
        options |= {"tickvals": list(range(len(scale.ticks))), "ticktext": list(scale.ticks)}
    return options


def _outline(band: Band) -> tuple[np.ndarray, np.ndarray]:
    """The rim of a band: one closed shape for each stretch of finite values, with NaN between them."""
    finite = np.isfinite(band.low) & np.isfinite(band.high)
    ends = np.flatnonzero(np.diff(np.concatenate([[False], finite, [False]])))
    x: list[np.ndarray] = []
    y: list[np.ndarray] = []
    for start, stop in zip(ends[::2], ends[1::2], strict=True):
        part = slice(start, stop)
        gap = [np.full(1, np.nan)] if x else []
        x += [*gap, band.x[part], band.x[part][::-1]]
        y += [*gap, band.high[part], band.low[part][::-1]]
    return (np.concatenate(x), np.concatenate(y)) if x else (np.zeros(0), np.zeros(0))


def _traces(layer: Layer) -> list[Any]:
    if isinstance(layer, Line):
        style = {"color": layer.color, "width": layer.width, "dash": "dash" if layer.dashed else "solid"}
        shown = None if layer.legend and layer.name else False
        line = go.Scatter(x=layer.x, y=layer.y, mode="lines", line=style, name=layer.name or "", showlegend=shown)
        if not layer.halo:
            return [line]
        rim = {"color": "white", "width": layer.width + 2.5}
        return [go.Scatter(x=layer.x, y=layer.y, mode="lines", line=rim, hoverinfo="skip", showlegend=False), line]
    if isinstance(layer, Band):
        x, y = _outline(layer)
        style = {"fill": "toself", "fillcolor": layer.color, "opacity": 0.2, "line": {"width": 0}, "hoverinfo": "skip"}
        return [go.Scatter(x=x, y=y, mode="lines", name=layer.name or "", showlegend=None if layer.name else False, **style)]
    if isinstance(layer, Points) and layer.labels is not None:
        text = {"text": list(layer.labels), "textfont": {"color": layer.color, "size": 13}}
        return [go.Scatter(x=layer.x, y=layer.y, mode="text", hoverinfo="skip", showlegend=False, **text)]
    if isinstance(layer, Points):
        marker = {"color": layer.color, **MARKERS[layer.marker]}
        shown = None if layer.name else False
        return [go.Scatter(x=layer.x, y=layer.y, mode="markers", marker=marker, name=layer.name or "", showlegend=shown)]
    if isinstance(layer, Heat):
        hover = f"(%{{x:.4g}}, %{{y:.4g}}): %{{z:.4g}}<extra>{layer.label}</extra>"
        heat = go.Heatmap(x=layer.x, y=layer.y, z=layer.z, zsmooth="best" if layer.smooth else False, hovertemplate=hover)
        if not layer.contours:
            return [heat]
        style = {"coloring": "none", "showlabels": False}
        line = {"color": "rgba(255,255,255,0.7)", "width": 0.7}
        lines = go.Contour(x=layer.x, y=layer.y, z=layer.z, ncontours=8, contours=style, line=line, hoverinfo="skip")
        return [heat, lines.update(showlegend=False, showscale=False)]
    count = int(np.nanmax(layer.index, initial=0)) + 1
    edges = np.repeat(np.arange(count + 1) / count, 2)[1:-1]
    colors = [[float(edge), tint(color_of(i // 2))] for i, edge in enumerate(edges)]
    hover = f"(%{{x:.4g}}, %{{y:.4g}})<extra>{layer.name} %{{z}}</extra>"
    options = {"colorscale": colors, "zmin": -0.5, "zmax": count - 0.5, "showscale": False, "hovertemplate": hover}
    return [go.Heatmap(x=layer.x, y=layer.y, z=layer.index, **options)]
