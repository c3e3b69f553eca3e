"""The figures of the paper, as sheets that Plotly or matplotlib draws: from a results frame, chosen points, kept surrogates.

Curves are medians over seeds with the quartiles as a band. Crosses below them, in the colour of a rival, mark where the chosen
method is better by a paired signed-rank test, adjusted over the rivals (`summaries.significance`). Methods keep their colour from
figure to figure, given by their place in `methods`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from hyperleaf.bench import summaries
from hyperleaf.bench.tasks import Realisation, Task
from hyperleaf.errors import InputError
from hyperleaf.plots.sheet import INK, Band, Heat, Layer, Line, Panel, Points, Scale, Sheet, color_of
from hyperleaf.plots.view import View

ORACLE = 3600.0  # seconds; the paper's yardstick for the cost of inference
CROSSES = 0.2  # of a panel's height
GRID = 101
GREY = "#888888"
Titles = Mapping[str, str]


def curves(
    frame: pd.DataFrame,
    methods: Titles,
    tasks: Titles,
    *,
    value: str = "rmse",
    label: str = "RMSE",
    against: str | None = None,
    level: float | None = None,
    log: bool = True,
    band: bool = True,
) -> Sheet:
    """A panel per task: `value` over the queries, median and quartiles of each method.

    `methods` and `tasks` map names to titles, in order. With `against`, crosses at the bottom where this method is significantly
    better than the one of their colour. `level` draws a dashed line, such as the share that an interval should cover.
    """
    shown = {name: title for name, title in methods.items() if name in set(frame["method"])}
    if not shown:
        raise InputError(f"none of the methods {list(methods)} is in the results, which have {sorted(set(frame['method']))}.")
    quartiles = summaries.quartiles(frame[frame["method"].isin(shown)], value)
    marks = None
    if against in shown and len(shown) > 1:
        marks = summaries.significance(frame[frame["method"].isin(shown)], str(against), value=value)
    panels = []
    for task, title in tasks.items():
        own = quartiles[quartiles["task"] == task]
        if len(own):
            crosses = None if marks is None else marks[(marks["task"] == task) & marks["significant"]]
            panels.append(_panel(own, shown, methods, crosses, title, label, level, log, band))
    return Sheet(panels, columns=min(3, len(panels)))


def _panel(
    own: pd.DataFrame,
    shown: Titles,
    methods: Titles,
    crosses: pd.DataFrame | None,
    title: str,
    label: str,
    level: float | None,
    log: bool,
    band: bool,
) -> Panel:
    first = int(own["n"].min())
    bands: list[Layer] = []
    lines: list[Layer] = []
    for name, words in shown.items():
        part = own[own["method"] == name].sort_values("n")
        x = part["n"].to_numpy(np.float64) - first
        low, middle, high = (part[column].to_numpy(np.float64) for column in ("low", "median", "high"))
        if band and len(x):
            bands.append(Band(x, low, high, None, _color(name, methods)))
        lines.append(Line(x, middle, words, _color(name, methods), dashed=_dashed(name, methods)))
    values = own[["low", "high"] if band else ["median"]].to_numpy(np.float64)
    values = values[np.isfinite(values) & (values > 0)] if log else values[np.isfinite(values)]
    if level is not None:
        values = np.append(values, level)
        lines.append(Line(np.array([0.0, own["n"].max() - first]), np.full(2, level), None, GREY, 1.5, dashed=True, legend=False))
    scale = np.log10(values) if log else values
    bottom, top = (float(scale.min()), float(scale.max())) if scale.size else (0.0, 1.0)
    height = max(top - bottom, 0.05)
    lowest = bottom - 0.04 * height
    if crosses is not None and len(crosses):
        rivals = [name for name in shown if name in set(crosses["method"])]
        room = CROSSES / (1.0 - CROSSES) * height
        for i, name in enumerate(rivals):
            x = crosses.loc[crosses["method"] == name, "n"].to_numpy(np.float64) - first
            place = lowest - room * (i + 0.6) / len(rivals)
            y = np.full(len(x), 10.0**place if log else place)
            lines.append(Points(x, y, None, _color(name, methods), labels=["×"] * len(x)))
        lowest -= room * 1.1
    ends = (lowest, top + 0.04 * height)
    low_end, high_end = (10.0 ** ends[0], 10.0 ** ends[1]) if log else ends
    return Panel(Scale("queries"), Scale(label, low_end, high_end, log=log), [*bands, *lines], title, square=False)


def times(frame: pd.DataFrame, methods: Titles, tasks: Titles) -> Sheet:
    """Seconds to learn and to choose, per query; the dashed line is a run of the oracle that takes an hour."""
    return curves(frame, methods, tasks, value="seconds", label="seconds per query", level=ORACLE)


def ratios(table: pd.DataFrame, methods: Titles, tasks: Titles, against: str) -> Sheet:
    """From `summaries.compare`: how many times larger each rival's RMSE is than that of `against`, with its interval."""
    panels = []
    for task, title in tasks.items():
        own = table[(table["task"] == task) & table["ratio"].notna()].set_index("method")
        names = [name for name in reversed(list(methods)) if name in own.index]
        if not names:
            continue
        layers: list[Layer] = [Line(np.ones(2), np.array([-0.6, len(names) - 0.4]), None, GREY, 1.2, dashed=True, legend=False)]
        for i, name in enumerate(names):
            row = own.loc[name]
            color = _color(name, methods)
            if np.isfinite(row["low"]):
                layers.append(Line(np.array([row["low"], row["high"]]), np.full(2, float(i)), None, color, 2.5, legend=False))
            layers.append(Points(np.array([row["ratio"]]), np.array([float(i)]), None, color))
            if row["p_holm"] < 0.05:
                layers.append(Points(np.array([row["ratio"]]), np.array([i + 0.3]), None, INK, labels=["×"]))
        ends = np.log10(own[["ratio", "low", "high"]].to_numpy(np.float64))
        low, high = min(float(np.nanmin(ends)), 0.0), max(float(np.nanmax(ends)), 0.0)
        margin = max(0.08 * (high - low), 0.02)
        x = Scale(f"RMSE ÷ RMSE of {methods[against]}", 10 ** (low - margin), 10 ** (high + margin), log=high - low > 0.7)
        y = Scale("", -0.6, len(names) - 0.4, ticks=tuple(methods[name] for name in names))
        panels.append(Panel(x, y, layers, title, square=False))
    return Sheet(panels, columns=min(2, len(panels)))


def selected_points(problem: Task, world: Realisation, chosen: pd.DataFrame, methods: Titles) -> Sheet:
    """Where methods asked, over the true surface (two inputs): a panel per method; `chosen` are designs of one task and seed."""
    if problem.domain.num_axes != 2:
        raise InputError(f"points are shown over two inputs; the task {problem.name!r} has {problem.domain.num_axes}.")
    view = View(problem.domain, problem.domain.names, resolution=GRID)
    ground: list[Layer] = []
    if problem.truth_known:
        surface = problem.truth(problem.domain.from_unit_array(view.points())).reshape(view.shape)
        ground.append(Heat(view.ticks[0], view.ticks[1], surface, "truth"))
    ground += [_border(view, gate) for gate in problem.gates]
    panels = []
    for name, title in methods.items():
        own = chosen[chosen["method"] == name].sort_values("n")
        if not len(own):
            continue
        unit = world.pool.unit[own["index"].to_numpy(dtype=int)]
        x, y = view.place(0, unit), view.place(1, unit)
        first = problem.num_first
        marks = [
            Points(x[first:], y[first:], "chosen", "#D55E00"),
            Points(x[:first], y[:first], "first points", INK, marker="star"),
        ]
        panels.append(Panel(view.scale(0), view.scale(1), [*ground, *marks], title))
    return Sheet(panels, columns=min(3, len(panels)))


def _border(view: View, gate: Any) -> Line:
    """The line of a true gate, cut to the square."""
    normal = np.array(gate.normal)
    foot, along = -gate.offset * normal, np.array([-normal[1], normal[0]])
    ends = [
        (edge - foot[axis]) / along[axis] for axis in (0, 1) for edge in (0.0, 1.0) if abs(along[axis]) > 1e-12
    ]  # where it meets the four sides
    inside = [t for t in ends if np.all(np.abs(foot + t * along - 0.5) <= 0.5 + 1e-9)]
    points = foot + np.array([min(inside), max(inside)])[:, None] * along
    return Line(view.native(0, points[:, 0]), view.native(1, points[:, 1]), "true border", INK, 1.8, halo=True)


def activation_maps(models: Mapping[int, Any], most: int = 4) -> Sheet | None:
    """The weights λⱼ(x) of the leaves that weigh most, for the most probable draw; a row per number of queries.

    `models` are kept surrogates over two inputs (`runs.read_snapshot`) by the number of queries; None if none has leaves.
    """
    found = {num: (model, model.learned.posterior.partition()) for num, model in models.items()}
    found = {num: pair for num, pair in found.items() if pair[1] is not None and pair[0].domain.num_axes == 2}
    if not found:
        return None
    columns = min(most, min(int(np.shape(partition.gates.normal)[0]) + 1 for _, partition in found.values()))
    panels = []
    for num, (model, partition) in sorted(found.items()):
        view = View(model.domain, model.domain.names, resolution=GRID)
        weights = _leaf_weights(partition, view.points())
        share = weights.mean(axis=1)
        gates: list[Layer] = [Line(x, y, None, INK, 1.4, halo=True, legend=False) for _, x, y in view.gate_lines(partition)]
        seen = model.learned.posterior.data.x
        points = Points(view.place(0, seen), view.place(1, seen), "observations")
        for j in np.argsort(-share, kind="stable")[:columns]:
            z = weights[j].reshape(view.shape)
            heat = Heat(view.ticks[0], view.ticks[1], z, "leaf weight", "share", 0.0, 1.0)
            title = f"{num} queries: leaf {j} (mean {share[j]:.2f})"
            panels.append(Panel(view.scale(0), view.scale(1), [heat, *gates, points], title))
    return Sheet(panels, columns=columns)


def _leaf_weights(partition: Any, x: Any) -> Any:
    import jax.numpy as jnp

    from hyperleaf.precision import float64

    return float64(lambda: np.asarray(partition.leaf_weights(jnp.asarray(x))))()


def effect_bars(table: pd.DataFrame, methods: Titles, tasks: Titles, against: str) -> Sheet:
    """From `outcomes.effects` at the largest n: model effect, design effect and both, as ratios of RMSEs."""
    panels = []
    kinds = (("model", "other model, same points", -0.2), ("design", "same model, other points", 0.0), ("both", "both", 0.2))
    for task, title in tasks.items():
        own = table[table["task"] == task]
        own = own[own["n"] == own["n"].max()].set_index("method") if len(own) else own
        names = [name for name in reversed(list(methods)) if name in own.index]
        if not names:
            continue
        layers: list[Layer] = [Line(np.ones(2), np.array([-0.6, len(names) - 0.4]), None, GREY, 1.2, dashed=True, legend=False)]
        for k, (kind, words, shift) in enumerate(kinds):
            x = own.loc[names, kind].to_numpy(np.float64)
            places = np.arange(len(names)) - shift
            layers += [
                Line(np.array([1.0, value]), np.full(2, place), None, color_of(k), 3.0, legend=False)
                for value, place in zip(x, places, strict=True)
                if np.isfinite(value)
            ]
            layers.append(Points(x[np.isfinite(x)], places[np.isfinite(x)], words, color_of(k)))
        values = own.loc[names, [kind for kind, _, _ in kinds]].to_numpy(np.float64)
        low, high = min(float(np.nanmin(values)), 1.0), max(float(np.nanmax(values)), 1.0)
        scale = Scale(f"RMSE ÷ RMSE of {methods[against]}", low / 1.15, high * 1.15, log=high / low > 5)
        ticks = Scale("", -0.6, len(names) - 0.4, ticks=tuple(methods[name] for name in names))
        panels.append(Panel(scale, ticks, layers, title, square=False))
    return Sheet(panels, columns=min(2, len(panels)))


def _color(name: str, methods: Titles) -> str:
    return color_of(list(methods).index(name))


def _dashed(name: str, methods: Titles) -> bool:
    """Colours repeat after eight; from then on lines are dashed."""
    return list(methods).index(name) // 8 % 2 == 1
