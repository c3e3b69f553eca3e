"""A campaign in a folder: tables as CSV and Markdown, figures for print as PDF and PNG, and one page for the browser.

`write_bench_report` is what `hyperleaf bench report` calls. Figures whose parts are missing (no method with leaves, no task over
two inputs, fewer than two seeds) are left out; RMSEs in figures are divided by the fixed scale of their task, as in the paper,
those in tables are in native units.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import Any

import pandas as pd

from hyperleaf.bench import figures, summaries
from hyperleaf.bench.campaign import Campaign, measure
from hyperleaf.bench.outcomes import cross_scores, designs, effects, results
from hyperleaf.bench.runs import KEEP_SEED, SNAPSHOTS, Run, read_snapshot, the_task
from hyperleaf.errors import InputError
from hyperleaf.plots.sheet import Sheet, draw
from hyperleaf.storage import Storage

TREES = ("hhk", "hhk-4", "hhk-2", "hhk-1", "hhk-evidence")
INFERENCE = ("hhk", "hhk-map", "hhk-nuts", "hhk-hmc")
FORMATS = ("png", "pdf")
STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #222; max-width: 1340px; margin: 2rem auto; padding: 0 1rem; }
h1, h2 { font-weight: 600; } h2 { margin-top: 2.5rem; border-top: 1px solid #ddd; padding-top: 1rem; }
.scroll { overflow-x: auto; } p { max-width: 60rem; }
table { border-collapse: collapse; font-size: 14px; }
td, th { padding: 3px 10px; border-bottom: 1px solid #e5e5e5; text-align: left; }
td.number { text-align: right; font-variant-numeric: tabular-nums; }
"""


@dataclass(frozen=True)
class Figure:
    """A sheet with what there is to say about it."""

    name: str
    title: str
    caption: str
    sheet: Sheet


def tables(campaign: Campaign, frame: pd.DataFrame, against: str) -> dict[str, pd.DataFrame]:
    """The tables of a campaign by name, with what they show in `TABLE_WORDS`."""
    several = frame["method"].nunique() > 1
    found = {"ranking": summaries.rankings(frame), "runs": summaries.runs(frame)}
    if several:
        found["comparison"] = summaries.compare(frame, against)
        found["significance"] = summaries.significance(frame, against)
    targets = _targets(found["runs"], against)
    if targets:
        found["queries-to-reach"] = summaries.reach_table(frame, targets)
    return found


TABLE_WORDS = {
    "ranking": "Per task and method over complete runs, the best first: mean rank of the area under the log-RMSE curve, the "
    "geometric mean of the RMSE along the curve, and medians of the last scores and of the seconds per query.",
    "comparison": "The area of each method against the chosen one, paired by seed: ratio above 1 says how many times larger its "
    "RMSE is, averaged along the curve, with a 95 % bootstrap interval; p of the signed-rank test, p_holm adjusted for all "
    "methods of the task, smallest_p what so few pairs could show at best.",
    "queries-to-reach": "Queries until the RMSE is as small as the best rival's at its end (median over seeds); quartiles by "
    "Kaplan and Meier, inf where too few runs got there.",
    "effects": "How many times larger the RMSE is than that of the chosen method on its own points, at n observations: with the "
    "rival's model on the same points (model), with the same model on the rival's points (design), and with both.",
}


def _targets(runs: pd.DataFrame, against: str) -> dict[str, float]:
    """Per task the smallest median RMSE that a rival has at the end."""
    rivals = runs[runs["complete"].astype(bool) & (runs["method"] != against)]
    last = rivals.groupby(["task", "method"])["rmse"].median().groupby("task").min()
    return {str(task): float(value) for task, value in last.items() if value > 0}


def normalised(campaign: Campaign, frame: pd.DataFrame) -> pd.DataFrame:
    """RMSE and CRPS in units of the fixed output scale of each task."""
    scale = frame["task"].map({name: the_task(name, campaign.paths.get(name)).standardizer.scale for name in campaign.tasks})
    return frame.assign(rmse=frame["rmse"] / scale, crps=frame["crps"] / scale)


def all_figures(
    campaign: Campaign, storage: Storage, frame: pd.DataFrame, against: str, effect: pd.DataFrame | None = None
) -> list[Figure]:
    """Every figure that the results allow."""
    methods = {one.name: one.title for one in campaign.methods}
    tasks = {name: the_task(name, campaign.paths.get(name)).title for name in campaign.tasks}
    frame = _whole(frame)
    scaled = normalised(campaign, frame)
    counts = frame.groupby(["task", "method"])["seed"].nunique()
    seeds = int(counts.max())
    number = f"{counts.min()} to {seeds}" if counts.min() < seeds else str(seeds)
    how = f"Median over {number} seeds, the band from quartile to quartile."
    crosses = f"Crosses: {methods[against]} is significantly better than the method of that colour (Wilcoxon, Holm, 5 %)."
    found = [
        Figure("rmse", "RMSE", f"{how} {crosses}", figures.curves(scaled, methods, tasks, against=against)),
        Figure(
            "times",
            "Seconds per query",
            f"{how} Learning and choosing; dashed, for scale, an oracle that takes 1 h.",
            figures.times(frame, methods, tasks),
        ),
        Figure(
            "coverage",
            "Coverage",
            "The share of test points inside the central 90 % interval, median over seeds; dashed what it should be.",
            figures.curves(frame, methods, tasks, value="coverage", label="coverage", level=0.9, log=False, band=False),
        ),
    ]
    for name, title, members in (("trees", "Tree sizes", TREES), ("inference", "Inference", INFERENCE)):
        own = {key: methods[key] for key in methods if key in members}
        if len(own) > 1:
            some = scaled[scaled["method"].isin(own)]
            best = against if against in own else None
            found.append(Figure(name, title, f"{how} {crosses if best else ''}", figures.curves(some, own, tasks, against=best)))
    if len(methods) > 1 and seeds > 1:
        compared = summaries.compare(frame, against)
        caption = "Geometric mean along the curve and over seeds, with a 95 % bootstrap interval; × significant after Holm."
        found.append(Figure("ratios", "Against its rivals", caption, figures.ratios(compared, methods, tasks, against)))
    if effect is not None and len(effect):
        caption = TABLE_WORDS["effects"]
        found.append(Figure("effects", "Model and design apart", caption, figures.effect_bars(effect, methods, tasks, against)))
    found += _maps(campaign, storage, methods)
    return [one for one in found if one.sheet.panels]


def _whole(frame: pd.DataFrame) -> pd.DataFrame:
    """Complete runs, or a curve would jump where one ends; all runs of a method that has no complete one on a task."""
    runs = summaries.runs(frame)
    complete = runs["complete"].astype(bool)
    begun = runs.assign(ended=complete).groupby(["task", "method"])["ended"].transform("any")
    kept = runs[complete | ~begun][["task", "method", "seed"]]
    return frame.merge(kept, on=["task", "method", "seed"])


def _maps(campaign: Campaign, storage: Storage, methods: Mapping[str, str]) -> list[Figure]:
    """Chosen points and activations of the first seed, for tasks over two inputs."""
    seed = KEEP_SEED if KEEP_SEED in campaign.seeds else campaign.seeds[0]
    flat = [name for name in campaign.tasks if the_task(name, campaign.paths.get(name)).domain.num_axes == 2]
    chosen, begun = designs(campaign, storage), set(storage.study_names())
    found = []
    for name in flat:
        problem = the_task(name, campaign.paths.get(name))
        own = chosen[(chosen["task"] == name) & (chosen["seed"] == seed)]
        sheet = figures.selected_points(problem, problem.realise(seed), own, methods)
        found.append(Figure(f"points-{name}", f"{problem.title}: chosen points", f"Seed {seed}, over the true surface.", sheet))
        for one in campaign.methods:
            run = Run(name, campaign.paths.get(name), one, seed, campaign.queries)
            first, last = run.ends
            if run.study not in begun:
                continue
            numbers = sorted({*(num for num in SNAPSHOTS if num < last - first), last - first})
            models = {num: read_snapshot(storage, run.study, first + num) for num in numbers}
            drawn = figures.activation_maps({num: model for num, model in models.items() if model is not None})
            if drawn is not None:
                title = f"{problem.title}: leaf weights of {one.title}"
                caption = f"The leaves that weigh most, for the most probable draw, seed {seed}; lines are the gates."
                found.append(Figure(f"leaves-{name}-{one.name}", title, caption, drawn))
    return found


def write_bench_report(
    campaign: Campaign,
    storage: Storage,
    folder: str | Path,
    *,
    against: str | None = None,
    cross: Sequence[str] = (),
    formats: Iterable[str] = FORMATS,
    page: bool = True,
    progress: Callable[[int, int, str], None] | None = None,
) -> list[Path]:
    """Tables, figures and a page about what a campaign gave so far; the files written.

    `against` is the method that the others are held against, the first of the campaign by default. `cross` names models that are
    fitted to the final points of every method, which takes as long as those fits do, once.
    """
    frame = results(campaign, storage)
    if not len(frame):
        raise InputError(f"the store {storage.url} holds no scores of this campaign yet. Run it first: hyperleaf bench run")
    names = [one.name for one in campaign.methods if one.name in set(frame["method"])]
    against = names[0] if against is None else against
    if against not in names:
        raise InputError(f"methods are held against one of {names}; got {against!r}.")
    found = tables(campaign, frame, against)
    effect = None
    if cross:
        parts = []
        for name in campaign.tasks:
            own = frame.loc[frame["task"] == name, "n"]
            part = replace(campaign, tasks=(name,))
            if len(own):
                parts.append(cross_scores(part, storage, cross, [int(own.max())], progress))
        crossed = pd.concat(parts, ignore_index=True)
        # methods that differ from `against` in nothing but their points have its model, and need no fits of their own
        model = next(one.surrogate for one in campaign.methods if one.name == against)
        alike = [one.name for one in campaign.methods if one.surrogate == model and one.name not in set(crossed["model"])]
        own = crossed[crossed["model"] == against]
        found["cross-scores"] = crossed = pd.concat([crossed, *(own.assign(model=name) for name in alike)], ignore_index=True)
        effect = found["effects"] = effects(crossed, against)
    folder = Path(folder)
    written = summaries.write_tables(folder, {"results": frame, **found, "designs": designs(campaign, storage)})
    for long in ("results.md", "designs.md", "significance.md", "cross-scores.md"):  # nobody reads thousands of rows
        if folder / long in written:
            (folder / long).unlink()
            written.remove(folder / long)
    drawn = all_figures(campaign, storage, frame, against, effect)
    for one in drawn:
        picture = draw(one.sheet, "matplotlib")
        for suffix in formats:
            written.append(folder / f"{one.name}.{suffix}")
            picture.savefig(written[-1], dpi=150, metadata={"CreationDate": None} if suffix == "pdf" else None)
    if page:
        written.append(folder / "index.html")
        written[-1].write_text(_page(campaign, storage, found, drawn), encoding="utf-8")
    return written


def _page(campaign: Campaign, storage: Storage, found: Mapping[str, pd.DataFrame], drawn: Sequence[Figure]) -> str:
    """One HTML file that needs nothing else; every text of a campaign is escaped."""
    from plotly.offline import get_plotlyjs

    standing = measure(campaign, storage)
    open_ = standing.runs - standing.ended
    whole = f" {open_} of {standing.runs} runs are not complete." if open_ else ""
    methods = "; ".join(one.title for one in campaign.methods)
    parts = [
        f"<h1>{escape(campaign.name)}</h1><p>{standing.runs} runs: {len(campaign.methods)} methods ({escape(methods)}) on "
        f"{len(campaign.tasks)} tasks with {len(campaign.seeds)} seeds, {standing.done} queries.{whole}</p>"
    ]
    for one in drawn:
        body = draw(one.sheet, "plotly").to_html(full_html=False, include_plotlyjs=False)
        parts.append(f'<h2>{escape(one.title)}</h2><p>{escape(one.caption)}</p><div class="scroll">{body}</div>')
    for name, words in TABLE_WORDS.items():
        if name in found:
            parts.append(f'<h2>{escape(name)}</h2><p>{escape(words)}</p><div class="scroll">{_html_table(found[name])}</div>')
    script = get_plotlyjs().replace("</script", "<\\/script")
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f'<title>{escape(campaign.name)} · hyperleaf bench</title><link rel="icon" href="data:,"><style>{STYLE}</style>'
        f"<script>{script}</script></head>\n<body>\n" + "\n".join(parts) + "\n</body>\n</html>\n"
    )


def _html_table(table: pd.DataFrame) -> str:
    def cell(value: Any) -> str:
        if isinstance(value, float):
            return f'<td class="number">{"" if value != value else f"{value:.3g}"}</td>'
        return f"<td>{escape(str(value))}</td>"

    head = "".join(f"<th>{escape(str(name))}</th>" for name in table.columns)
    rows = "".join(f"<tr>{''.join(cell(value) for value in row)}</tr>" for row in table.itertuples(index=False, name=None))
    return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
