"""Limits in a report: where they are kept, which runs broke one, and how the rate was held."""

from __future__ import annotations

from typing import Any

import numpy as np

from hyperleaf.plots import Band, Heat, Line, Panel, Points, Scale, Sheet, draw
from hyperleaf.plots.sheet import INK, PALETTE
from hyperleaf.plots.view import View
from hyperleaf.report.facts import Facts
from hyperleaf.report.marks import FAILED, WIDTH, Picture, important, lay_runs, page_style, plain, point_words
from hyperleaf.report.tables import Table
from hyperleaf.report.words import number
from hyperleaf.study.admitting import admission_now
from hyperleaf.study.limits import Kept, kept_so_far, rate_interval

GRID_1D, GRID_2D = 101, 41


def kept(facts: Facts) -> Kept | None:
    """How the limits were kept; None where there are none."""
    return kept_so_far(facts.definition, facts.record) if facts.definition.limits else None


def words(facts: Facts) -> list[str]:
    """What was asked for, and how it stands, a sentence each."""
    found = kept(facts)
    if found is None:
        return []
    limits = facts.definition.limits
    units = {name: output.unit for name, output in facts.definition.outputs.items()}
    names = ", ".join(f"{name} {limit.words} {units[name]}".rstrip() for name, limit in limits.items())
    wanted = f"Limits: {names}; all of them with a probability of at least {100 * (1 - found.asked):.4g} %."
    held = f"{found.words[0].upper()}{found.words[1:]}."
    sure = "" if facts.definition.safety.held else "The rate was not held: every query might risk what was asked for."
    return [one for one in (wanted, held, sure) if one]


def safe_region(facts: Facts) -> Picture | None:
    """The probability that all limits are kept, over the two inputs that matter most; runs darken as they are later, which shows
    when a part of it was reached."""
    admission = admission_now(facts.snapshot)
    if admission is None:
        return None
    names = important(facts, facts.known)[:2]
    names = [name for name in facts.domain.names if name in names]
    view = View(facts.domain, names, facts.base, GRID_1D if len(names) == 1 else GRID_2D)
    chance, title = view.masked(admission.probability(view.points())), "probability of keeping all limits"
    if len(names) == 1:
        need = np.full(len(view.ticks[0]), 1 - facts.definition.risk)
        layers: list[Any] = [Line(view.ticks[0], chance, title)]
        layers.append(Line(view.ticks[0], need, "needed", INK, 1.2, dashed=True))
        figure = plain(draw(Sheet([Panel(view.scale(0), Scale(title, -0.05, 1.05), layers, square=False)], 1)))
        figure["layout"] |= {"width": WIDTH, "height": 380}
        told = {one.query.id: one for one in kept_so_far(facts.definition, facts.record).outcomes}
        y = np.array([0.0 if query.id in told and told[query.id].violated else 1.0 for query in facts.record.queries])
        lay_runs(figure, facts, [(view.place(0, facts.unit), y)])
    else:
        across, up = view.ticks
        heat = Heat(across, up, chance, title, "share", 0.0, 1.0, contours=True, smooth=view.smooth)
        figure = plain(draw(Sheet([Panel(view.scale(0), view.scale(1), [heat])], 1)))
        figure["layout"] |= {"width": 760, "height": 540}
        _mark_violations(figure, facts, view)
        lay_runs(figure, facts, [(view.place(0, facts.unit), view.place(1, facts.unit))])
    caption = f"What may be asked is where it is at least {1 - facts.definition.risk:.4g}. Darker runs are later ones."
    if facts.domain.num_axes > len(names):
        caption += f" A slice at {point_words(facts, facts.base, names)}; runs are drawn wherever they lie beside it."
    return Picture("Where all limits are kept", caption, page_style(figure))


def _mark_violations(figure: dict[str, Any], facts: Facts, view: View) -> None:
    broke = {one.query.id for one in kept_so_far(facts.definition, facts.record).violations}
    rows = [i for i, query in enumerate(facts.record.queries) if query.id in broke]
    if rows:
        ring = {"symbol": "square-open", "size": 15, "color": FAILED, "line": {"width": 2}}
        x, y = view.place(0, facts.unit)[rows].tolist(), view.place(1, facts.unit)[rows].tolist()
        common = {"type": "scatter", "mode": "markers", "name": "broke a limit", "hoverinfo": "skip", "cliponaxis": False}
        figure["data"].append({**common, "x": x, "y": y, "xaxis": "x", "yaxis": "y", "marker": ring})


def held(facts: Facts) -> Picture | None:
    """The rate of violations with its interval, and what a query might risk, over the queries that the study chose."""
    found = kept(facts)
    if found is None or not found.counted:
        return None
    broke = np.array([one.violated for one in found.counted])
    nums = np.arange(1, len(broke) + 1, dtype=np.float64)
    low, high = np.array([rate_interval(int(total), int(num)) for total, num in zip(np.cumsum(broke), nums, strict=True)]).T
    ends = np.array([0.5, len(broke) + 0.5])
    rates: list[Any] = [
        Band(nums, low, high, "90 % interval", PALETTE[0]),
        Line(nums, np.cumsum(broke) / nums, "rate so far", PALETTE[0]),
        Line(ends, np.full(2, found.asked), "asked for", INK, 1.2, dashed=True),
    ]
    if broke.any():
        rates.append(Points(nums[broke], np.zeros(int(broke.sum())), "broke a limit", FAILED))
    across = Scale("queries chosen under the limits", 0.5, len(broke) + 0.5)
    panels = [Panel(across, Scale("share that broke a limit", -0.02, min(1.0, 1.1 * float(high.max()))), rates, square=False)]
    if facts.definition.safety.held:
        risks = np.array(found.risks)
        bounds = min(0.0, float(risks.min())) - 0.1 * found.asked, 1.15 * found.asked
        layer = Line(np.arange(len(risks), dtype=np.float64) + 0.5, risks, "risk of the next query", PALETTE[1])
        panels.append(Panel(across, Scale("what a query may risk", *bounds), [layer], square=False))
    figure = page_style(plain(draw(Sheet(panels, 1))), height=150 + 250 * len(panels))
    figure["layout"]["width"] = WIDTH
    caption = "The interval is that of independent runs (Clopper and Pearson)."
    if facts.definition.safety.held:
        caption += (
            " A run that breaks a limit costs the ones after it what they may risk; while that is less than was asked for, the "
            "neighbourhood of safe runs is asked too, and at zero and below nothing else."
        )
    return Picture("How the limits were held", caption, figure, fluid=True)


def violations(facts: Facts) -> Table | None:
    """Every run that broke a limit or failed, with the probability it was asked with."""
    found = kept(facts)
    if found is None or not found.violations:
        return None
    limits, units = facts.definition.limits, {name: output.unit for name, output in facts.definition.outputs.items()}
    rows = []
    for one in found.violations:
        what = "; ".join(f"{name} = {value:.6g} {units[name]} ({limits[name].words})" for name, value in one.broke.items())
        point = ", ".join(f"{key} = {number(v) if isinstance(v, float) else v}" for key, v in one.query.point.items())
        asked = "by hand" if one.foreseen is None else f"{one.foreseen:.4g}"
        rows.append([f"run {one.query.id}", point, "the run failed" if one.failed else what.replace("  ", " "), asked])
    return Table(["Run", "Where", "What it broke", "Keeping all limits had probability"], rows)
