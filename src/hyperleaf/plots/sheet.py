"""What a figure shows, whoever draws it: a sheet of panels, each with two scales and a few layers.

A figure is written once in these words; `draw` hands it to Plotly or matplotlib. Data are in the units of the scales. The colours
are those of Okabe and Ito for things that are told apart, and perceptually even or two-sided maps for numbers: all can be read
without colour vision for red and green.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hyperleaf.errors import InputError

Backend = Literal["plotly", "matplotlib"]
Colors = Literal["value", "spread", "signed", "share"]  # a number; a standard deviation; around zero; between zero and one
Marker = Literal["dot", "speck", "ring", "star"]
Values = NDArray[np.float64]

PALETTE = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#F0E442", "#999999")
INK = "#222222"


@dataclass(frozen=True)
class Scale:
    """One axis of a panel; with `ticks`, the positions 0, 1, 2 … carry names."""

    label: str = ""
    low: float | None = None
    high: float | None = None
    log: bool = False
    ticks: tuple[str, ...] | None = None


@dataclass(frozen=True, eq=False)
class Line:
    x: Values
    y: Values
    name: str | None = None
    color: str = PALETTE[0]
    width: float = 2.0
    dashed: bool = False
    halo: bool = False  # a white rim, for a line over a map
    legend: bool = True


@dataclass(frozen=True, eq=False)
class Band:
    x: Values
    low: Values
    high: Values
    name: str | None = None
    color: str = PALETTE[0]


@dataclass(frozen=True, eq=False)
class Points:
    x: Values
    y: Values
    name: str | None = None
    color: str = INK
    labels: Sequence[str] | None = None  # texts instead of markers
    marker: Marker = "dot"


@dataclass(frozen=True, eq=False)
class Heat:
    """z (ny, nx) over x (nx,) and y (ny,). Panels with the same `label`, limits and `colors` share a colour bar."""

    x: Values
    y: Values
    z: Values
    label: str
    colors: Colors = "value"
    low: float | None = None
    high: float | None = None
    contours: bool = False
    smooth: bool = True  # between the points; not over whole numbers and choices

    @property
    def limits(self) -> tuple[float, float]:
        finite = self.z[np.isfinite(self.z)]
        low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
        low, high = low if self.low is None else self.low, high if self.high is None else self.high
        return (low, high) if high > low else (low - 0.5, high + 0.5)  # a constant is shown in the middle of the colours


@dataclass(frozen=True, eq=False)
class Regions:
    """Which of several numbered things holds at each point: index (ny, nx), a colour of the palette for each; NaN where none."""

    x: Values
    y: Values
    index: NDArray[Any]
    name: str = "leaf"


Layer = Line | Band | Points | Heat | Regions


@dataclass(frozen=True, eq=False)
class Panel:
    x: Scale
    y: Scale
    layers: Sequence[Layer]
    title: str = ""
    square: bool = True


@dataclass(frozen=True, eq=False)
class Sheet:
    panels: Sequence[Panel]
    columns: int
    title: str = ""

    @property
    def rows(self) -> int:
        return -(-len(self.panels) // self.columns)


def draw(sheet: Sheet, backend: Backend = "plotly") -> Any:
    """The sheet as a plotly.graph_objects.Figure or a matplotlib.figure.Figure."""
    if backend == "plotly":
        from hyperleaf.plots.with_plotly import render
    elif backend == "matplotlib":
        from hyperleaf.plots.with_matplotlib import render
    else:
        raise InputError(f'backend must be "plotly" or "matplotlib"; got {backend!r}.')
    return render(sheet)


def color_of(number: int) -> str:
    """The colour of a numbered thing; after eight they repeat, so figures also write the number."""
    return PALETTE[number % len(PALETTE)]


def tint(color: str, strength: float = 0.45) -> str:
    """A colour mixed with white, for a background on which lines and points can be seen."""
    channels = [int(color[i : i + 2], 16) for i in (1, 3, 5)]
    return "#" + "".join(f"{round(255 + strength * (c - 255)):02x}" for c in channels)
