"""Draws a sheet with matplotlib, for paper: no pyplot, so no window, no global state, nothing to close."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import numpy as np
from matplotlib import patheffects
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure as PlainFigure

from hyperleaf.plots.sheet import Band, Heat, Layer, Line, Panel, Points, Regions, Scale, Sheet, color_of, tint

COLORMAPS = {"value": "viridis", "spread": "cividis", "signed": "RdBu_r", "share": "Blues"}
WHITE_RIM = {"edgecolors": "white", "linewidths": 0.7}
MARKERS: dict[str, dict[str, Any]] = {
    "dot": {"s": 18, "marker": "o", **WHITE_RIM},
    "speck": {"s": 3, "marker": "o", "linewidths": 0},
    "ring": {"s": 30, "marker": "o", "linewidths": 1.5, "facecolors": "none"},
    "star": {"s": 110, "marker": "*", **WHITE_RIM},
}
PANEL = 3.1  # inches


class Figure(PlainFigure):
    """A figure that a notebook shows, which it does of itself only for those of pyplot."""

    def _repr_png_(self) -> bytes:
        file = BytesIO()
        self.savefig(file, format="png", dpi=120)
        return file.getvalue()


def render(sheet: Sheet) -> Figure:
    size = (sheet.columns * PANEL * (1.0 if all(p.square for p in sheet.panels) else 1.35) + 0.9, sheet.rows * PANEL + 0.4)
    figure = Figure(figsize=size, layout="constrained")
    grid = figure.subplots(sheet.rows, sheet.columns, squeeze=False)
    for spare in grid.flat[len(sheet.panels) :]:
        spare.remove()
    bars: dict[tuple, tuple] = {}  # what panels share a colour bar by → (mappable, axes)
    for axes, panel in zip(grid.flat, sheet.panels, strict=False):
        _frame(axes, panel)
        for layer in panel.layers:
            mappable = _draw(axes, layer)
            if isinstance(layer, Heat):
                bars.setdefault((layer.label, layer.limits, layer.colors), (mappable, []))[1].append(axes)
    for (label, _, _), (mappable, members) in bars.items():
        bar = figure.colorbar(mappable, ax=members, label=label, shrink=0.9, aspect=25)
        bar.outline.set_visible(False)
    _legend(figure, grid)
    if sheet.title:
        figure.suptitle(sheet.title, fontsize=11)
    return figure


def _frame(axes: Axes, panel: Panel) -> None:
    axes.set_title(panel.title, fontsize=9.5)
    axes.tick_params(labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    if panel.square:
        axes.set_box_aspect(1)
    _scale(axes, "x", panel.x)
    _scale(axes, "y", panel.y)


def _scale(axes: Axes, which: str, scale: Scale) -> None:
    getattr(axes, f"set_{which}label")(scale.label, fontsize=9)
    if scale.log:
        getattr(axes, f"set_{which}scale")("log")
    if scale.low is not None or scale.high is not None:
        getattr(axes, f"set_{which}lim")(scale.low, scale.high)
    if scale.ticks is not None:
        getattr(axes, f"set_{which}ticks")(range(len(scale.ticks)), scale.ticks)


def _draw(axes: Axes, layer: Layer) -> Any:
    if isinstance(layer, Line):
        effects = [patheffects.withStroke(linewidth=layer.width + 2.0, foreground="white")] if layer.halo else None
        name = (layer.name if layer.legend else None) or "_"
        dash = "--" if layer.dashed else "-"
        axes.plot(layer.x, layer.y, dash, color=layer.color, lw=0.8 * layer.width, label=name, path_effects=effects)
    elif isinstance(layer, Band):
        axes.fill_between(layer.x, layer.low, layer.high, color=layer.color, alpha=0.2, lw=0, label=layer.name or "_")
    elif isinstance(layer, Points) and layer.labels is not None:
        for x, y, text in zip(layer.x, layer.y, layer.labels, strict=True):
            axes.text(x, y, text, ha="center", va="center", fontsize=9, color=layer.color, clip_on=True)
    elif isinstance(layer, Points):
        paint = {"edgecolors": layer.color} if layer.marker == "ring" else {"color": layer.color}
        style: dict[str, Any] = {**paint, **MARKERS[layer.marker], "zorder": 3, "clip_on": False}
        axes.scatter(layer.x, layer.y, label=layer.name or "_", **style)
    elif isinstance(layer, Heat):
        low, high = layer.limits
        shading = "gouraud" if layer.smooth and np.isfinite(layer.z).all() else "nearest"
        z = np.ma.masked_invalid(layer.z)
        options: dict[str, Any] = {
            "cmap": COLORMAPS[layer.colors],
            "vmin": low,
            "vmax": high,
            "shading": shading,
            "rasterized": True,
        }
        mesh = axes.pcolormesh(layer.x, layer.y, z, **options)
        if layer.contours and min(layer.z.shape) > 1 and z.max() > z.min():
            axes.contour(layer.x, layer.y, z, levels=7, colors="white", linewidths=0.5, alpha=0.7)
        return mesh
    elif isinstance(layer, Regions):
        count = int(np.nanmax(layer.index, initial=0)) + 1
        colors = ListedColormap([tint(color_of(j)) for j in range(count)])
        options = {"cmap": colors, "vmin": -0.5, "vmax": count - 0.5, "shading": "nearest", "rasterized": True}
        axes.pcolormesh(layer.x, layer.y, layer.index, **options)
    return None


def _legend(figure: Figure, grid: np.ndarray) -> None:
    """One entry for each name of the whole sheet, below the panels."""
    entries: dict = {}
    for axes in figure.axes:
        for handle, name in zip(*axes.get_legend_handles_labels(), strict=True):
            entries.setdefault(name, handle)
    if entries:
        widest = 0.6 + 0.068 * max(map(len, entries))  # inches, of a mark and a name in this size
        columns = max(1, min(len(entries), 2 * grid.shape[1], int(figure.get_figwidth() / widest)))
        figure.legend(entries.values(), entries.keys(), loc="outside lower center", ncols=columns, frameon=False, fontsize=8.5)
