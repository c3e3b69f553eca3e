"""The page itself: facts, words and pictures as one HTML file that needs nothing else.

Every text that comes from a study goes through `html.escape`, or, inside a figure, through `_safe_figure`; figures are JSON in
script elements that no browser executes, drawn by the few lines of page.js. Plotly's own code is embedded once.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from html import escape
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from typing import Any

import numpy as np

from hyperleaf.report import campaign, learned
from hyperleaf.report.changes import changes_table
from hyperleaf.report.facts import Facts, Known
from hyperleaf.report.marks import Picture
from hyperleaf.report.words import Remark, about_output, about_study, count, duration, headline, number, why_stopped
from hyperleaf.storage.base import State
from hyperleaf.study.changes import asked_words, history
from hyperleaf.surrogates.kinds import kind_of
from hyperleaf.surrogates.noise import Noise

MOST_ROWS = 5000  # of the table of runs
ICONS = {"good": ("✓", "good"), "note": ("i", "note"), "warning": ("!", "warning")}
DRAWN_TEXTS = ("text", "name", "ticktext")  # keys of a figure under which Plotly takes text for markup


def render(facts: Facts) -> str:
    """The whole page."""
    page = _Page()
    sections = [
        ("learned", "What was learned", _learned(facts, page)),
        ("queries", "Where the runs went", _queries(facts, page)),
        ("accuracy", "How accurate it is", _accuracy(facts, page)),
        ("diagnostics", "What to know", _diagnostics(facts)),
        ("changes", "What was put right", changes_table(facts)),
        ("time", "Time", _time(facts, page)),
        ("runs", "All runs", _table(facts)),
        ("definition", "The study", _definition(facts)),
    ]
    sections = [(key, title, body) for key, title, body in sections if body]
    links = "".join(f'<a href="#{key}">{title}</a>' for key, title, _ in sections)
    bodies = "".join(f'<section id="{key}"><h2>{title}</h2>{body}</section>' for key, title, body in sections)
    resources = files("hyperleaf.report")
    plotly = ""
    if page.num_figures:
        from plotly.offline import get_plotlyjs

        plotly = f"<script>{get_plotlyjs().replace('</script', chr(60) + chr(92) + '/script')}</script>"
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta name="generator" content="hyperleaf {_version("hyperleaf")}">\n<meta name="color-scheme" content="light dark">\n'
        f'<title>{escape(facts.name)} · hyperleaf</title>\n<link rel="icon" href="data:,">\n'
        f"<style>\n{resources.joinpath('page.css').read_text(encoding='utf-8')}</style>\n</head>\n<body>\n"
        f"{_header(facts)}<nav>{links}</nav>\n<main>\n{bodies}\n</main>\n"
        f"<footer>Written by hyperleaf {_version('hyperleaf')} on {now}.</footer>\n{plotly}\n"
        f"<script>\n{resources.joinpath('page.js').read_text(encoding='utf-8')}</script>\n</body>\n</html>\n"
    )


class _Page:
    """Numbers the figures."""

    def __init__(self) -> None:
        self.num_figures = 0

    def figure(self, picture: Picture | None) -> str:
        if picture is None:
            return ""
        caption = f"<p>{escape(picture.caption)}</p>" if picture.caption else ""
        above = f"<figcaption><h3>{escape(picture.title)}</h3>{caption}</figcaption>"
        if picture.figure is None:
            return f"<figure>{above}</figure>"
        self.num_figures += 1
        layout = picture.figure["layout"]
        content = _safe_figure(picture.figure)
        size = f"width:{layout['width']}px;height:{layout['height']}px"
        return (
            f'<figure>{above}<div class="scroll">'
            f'<div class="drawing" id="figure-{self.num_figures}" role="img" aria-label="{escape(picture.title)}" style="{size}">'
            f'</div></div><script type="application/json" data-for="figure-{self.num_figures}">{_script_json(content)}</script>'
            "</figure>"
        )


def _safe_figure(value: Any, key: str = "") -> Any:
    """A figure's JSON with its texts escaped: Plotly draws some markup, and a unit such as "<b>" is to be seen as it is."""
    if isinstance(value, dict):
        return {name: _safe_figure(one, name) for name, one in value.items()}
    if isinstance(value, list):
        return [_safe_figure(one, key) for one in value]
    return escape(value, quote=False).replace("\n", "<br>") if isinstance(value, str) and key in DRAWN_TEXTS else value


def _script_json(value: Any) -> str:
    """JSON that cannot end the script element it stands in."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _header(facts: Facts) -> str:
    about = facts.definition.study.description
    described = f'<p class="about">{escape(about)}</p>' if about else ""
    failed, open_ = len(facts.in_state(State.FAILED)), len(facts.in_state(State.RUNNING, State.WAITING))
    void = len(facts.in_state(State.VOID))
    parts = ((failed, "failed"), (void, "voided"), (open_, "open"))
    rest = ", ".join(f"{num} {word}" for num, word in parts if num) or "none failed"
    tiles = [("Runs", str(facts.num_done), rest)]
    for one in facts.known:
        width = f"{100 * one.accuracy.trusted_rmse / one.width:.2g} % of the range seen" if one.width > 0 else ""
        tiles.append((f"Expected error of {one.name}", number(one.accuracy.trusted_rmse, one.unit), width))
    if len(facts.known) == 1:
        (one,) = facts.known
        if one.accuracy.test_rmse is not None:
            tiles.append(("Error on test runs", number(one.accuracy.test_rmse, one.unit), "never learned from"))
        if one.accuracy.loo_coverage is not None:
            tiles.append(
                ("Within their 90 % interval", f"{100 * one.accuracy.loo_coverage:.0f} %", "each predicted from the others")
            )
        tiles.append(("Noise", *_noise(one.noise)))
    shown = "".join(
        f'<div class="tile"><span class="what">{escape(what)}</span><span class="value">{escape(value)}</span>'
        f'<span class="more">{escape(more)}</span></div>'
        for what, value, more in tiles
    )
    return (
        f'<header><p class="kind">hyperleaf report</p><h1>{escape(facts.name)}</h1>{described}'
        f'<p class="headline">{escape(headline(facts))} {escape(why_stopped(facts))}</p>'
        f'<div class="tiles">{shown}</div></header>\n'
    )


def _noise(noise: Noise) -> tuple[str, str]:
    """The tile of the noise: its size, and where that comes from."""
    if noise.kind == "none":
        return "none", "runs are taken to repeat exactly"
    if noise.kind == "known":
        return number(noise.std, noise.unit), "given"
    several = noise.low is not None and noise.high is not None and noise.low < noise.high
    return number(noise.std, noise.unit), f"learned, 90 % {number(noise.low)} to {number(noise.high)}" if several else "learned"


def _learned(facts: Facts, page: _Page) -> str:
    if not facts.known:
        return f"<p>{escape(headline(facts))}</p>"
    parts = []
    for one in facts.known:
        if len(facts.known) > 1:
            parts.append(f'<h3 class="output">{escape(one.label)}</h3>')
        if len(one.model.y) == 1:
            parts.append("<p>There is one run only: what is shown is little more than what was assumed before it.</p>")
        parts += [page.figure(picture) for picture in [*learned.learned(facts, one), learned.leaves(facts, one)]]
    return "".join(parts)


def _queries(facts: Facts, page: _Page) -> str:
    return page.figure(campaign.where_and_when(facts)) + page.figure(campaign.success(facts))


def _accuracy(facts: Facts, page: _Page) -> str:
    if not facts.known:
        return ""
    rows = []
    for one in facts.known:
        found = one.accuracy
        rows.append(
            [
                one.label,
                number(found.trusted_rmse),
                number(found.expected_rmse),
                number(found.loo_rmse),
                number(found.test_rmse),
                _percent(found.loo_coverage),
                _percent(found.test_coverage),
                number(found.calibration),
                number(one.target),
            ]
        )
    head = ["Output", "Expected error", "as the surrogate sees it", "at runs left out", "on test runs"]
    head += ["Within 90 % (left out)", "Within 90 % (test)", "Errors ÷ predicted", "Error wanted"]
    keep = [i for i in range(len(head)) if i < 2 or any(row[i] != "–" for row in rows)]
    small = _plain_table([head[i] for i in keep], [[row[i] for i in keep] for row in rows])
    note = (
        "<p>Errors are root mean squares. The expected error is the surrogate's own, averaged over the domain, and raised where "
        "runs left out say that it is too sure of itself.</p>"
    )
    return note + small + "".join(page.figure(campaign.accuracy(facts, one)) for one in facts.known)


def _diagnostics(facts: Facts) -> str:
    parts = [_remarks(about_study(facts))]
    for one in facts.known:
        parts.append(f"<h3>{escape(one.name)}</h3>{_remarks([*about_output(facts, one), Remark('note', _method(facts, one))])}")
    return "".join(parts)


def _remarks(remarks: Sequence[Remark]) -> str:
    items = []
    for remark in remarks:
        icon, css = ICONS[remark.level]
        advice = f' <span class="advice">{escape(remark.advice)}</span>' if remark.advice else ""
        text = remark.text if remark.text.endswith((".", "!", "?", "…")) else remark.text + "."
        items.append(
            f'<li class="{css}"><span class="icon" role="img" aria-label="{css}">{icon}</span>'
            f"<span>{escape(text)}{advice}</span></li>"
        )
    return f'<ul class="remarks">{"".join(items)}</ul>' if items else ""


def _method(facts: Facts, known: Known) -> str:
    found = known.model.diagnostics
    kind = kind_of(facts.definition.surrogate.kind).title
    how = {
        "smc": "sequential Monte Carlo",
        "nuts": "NUTS",
        "hmc": "Hamiltonian Monte Carlo",
        "map": "its most probable parameters",
    }
    how |= {"ml": "maximum likelihood"}
    draws = f", {found.num_draws} draws" if found.num_draws > 1 else ""
    article = "a" if kind[0] not in "aeiou" else "an"
    return f"Learned as {article} {kind}, by {how.get(found.method, found.method)}{draws}"


def _time(facts: Facts, page: _Page) -> str:
    queries = [query for query in facts.record.queries if query.ended_at is not None]
    if not queries:
        return ""
    timed = [query.seconds for query in queries if query.seconds is not None]
    first, last = min(query.asked_at for query in queries), max(query.ended_at or 0.0 for query in queries)
    said = [
        f"From the first query to the last result {duration(max(last - first, 0.0))} passed ({_when(first)} to {_when(last)})."
    ]
    if timed:
        each = f"{duration(float(np.mean(timed)))} on average, {duration(max(timed))} at most"
        said.append(f"The runs took {duration(sum(timed))} in all: {each}.")
        busy = _busy(
            [(max((q.ended_at or 0.0) - q.seconds, q.asked_at), q.ended_at or 0.0) for q in queries if q.seconds is not None]
        )
        idle = max(last - first - busy, 0.0)
        if len(timed) == len(queries) and last > first:
            said.append(
                f"For {duration(idle)} of the whole nothing was running ({100 * idle / (last - first):.0f} %): that is learning, "
                "choosing the next query, and waiting."
            )
    else:
        said.append("How long the runs took was not recorded.")
    spent = {name: value for name, value in facts.snapshot.seconds.items() if value >= 0.05}
    if spent:
        listed = ", ".join(f"{name} {duration(value)}" for name, value in sorted(spent.items(), key=lambda item: -item[1]))
        said.append(f"The process that wrote this page has spent: {listed}.")
    return "<p>" + escape(" ".join(said)) + "</p>" + page.figure(campaign.durations(facts))


def _busy(intervals: Iterable[tuple[float, float]]) -> float:
    """Seconds in which at least one of them was on."""
    total, until = 0.0, -np.inf
    for start, end in sorted(intervals):
        total += max(end - max(start, until), 0.0)
        until = max(until, end)
    return float(total)


def _table(facts: Facts) -> str:
    queries = facts.record.queries[-MOST_ROWS:]
    if not queries:
        return "<p>There are no runs yet.</p>"
    units, told, outputs = facts.domain.units, facts.outputs_of, facts.definition.outputs
    places, changed = facts.record.places(), history(facts.record.changes)
    columns: list[tuple[str, list[Any]]] = [("run", [query.id for query in queries])]
    for name in facts.domain.names:
        columns.append((f"{name} [{units[name]}]" if units[name] else name, [places[query.id][name] for query in queries]))
    for name, output in outputs.items():
        columns.append((f"{name} [{output.unit}]" if output.unit else name, [told.get(q.id, {}).get(name) for q in queries]))
    columns.append(("state", [query.state.value for query in queries]))
    columns.append(("origin", [query.origin for query in queries]))
    optional: list[tuple[str, list[Any]]] = [
        ("attempt", [query.attempt if query.attempt > 1 else None for query in queries]),
        ("score", [query.score for query in queries]),
        ("seconds", [None if query.seconds is None else float(f"{query.seconds:.3g}") for query in queries]),
        ("ended (UTC)", [None if query.ended_at is None else _when(query.ended_at)[:-4] for query in queries]),
        ("reason", [query.reason or None for query in queries]),
        ("note", [query.note or None for query in queries]),
        ("asked at", [asked_words(query, places[query.id]) or None for query in queries]),
        ("put right", [changed.get(query.id) for query in queries]),
    ]
    columns += [(name, values) for name, values in optional if any(value is not None for value in values)]
    head = "".join(f'<th scope="col"><button type="button">{escape(name)}</button></th>' for name, _ in columns)
    rows = []
    for i, query in enumerate(queries):
        cells = "".join(_cell(values[i]) for _, values in columns)
        rows.append(f'<tr class="{query.state.value}">{cells}</tr>')
    left_out = len(facts.record.queries) - len(queries)
    note = f"<p>The first {left_out} runs are left out here.</p>" if left_out else ""
    return (
        f'{note}<p class="tools"><label>Show only rows with <input type="search" id="filter" placeholder="failed"></label> '
        f'<span id="shown">{count(len(queries), "run")}</span> <button type="button" id="save">Save as CSV</button></p>'
        f'<div class="scroll tall"><table id="table" data-name="{escape(facts.name)}"><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _cell(value: Any) -> str:
    """A cell; its exact value stands in data-v, for sorting and saving."""
    if value is None:
        return '<td data-v=""></td>'
    if isinstance(value, bool) or not isinstance(value, int | float):
        text = str(value)
        short = text if len(text) <= 120 else text[:117] + "…"
        long = ' class="long"' if len(text) > 30 else ""
        return f'<td{long} data-v="{escape(text)}">{escape(short)}</td>'
    shown = str(value) if isinstance(value, int) else f"{value:.6g}"
    return f'<td class="number" data-v="{value!r}">{shown.replace("-", "−") if value < 0 else shown}</td>'


def _definition(facts: Facts) -> str:
    definition = facts.definition
    inputs = []
    for name, axis in facts.domain.axes.items():
        inputs.append([name, axis.describe(), axis.unit or ""])
    outputs = []
    for name, output in definition.outputs.items():
        noise = number(output.noise) if isinstance(output.noise, float) else output.noise
        outputs.append([name, output.unit, noise, f"{output.weight:g}"])
    options = {"surrogate": definition.surrogate.options, "acquisition": {}}
    values = {
        "Surrogate": f"{definition.surrogate.kind}: {kind_of(definition.surrogate.kind).title}{_options(options['surrogate'])}",
        "Choice of queries": f"{definition.acquisition.kind}, optimised by {definition.acquisition.optimizer}",
        "First design": f"{definition.design.size} points, {definition.design.kind}",
        "Candidates": "the whole domain" if facts.snapshot.pool_size is None else f"a table of {facts.snapshot.pool_size} rows",
        "Constraints": "; ".join(facts.domain.constraints) or "none",
        "Stop": _options(definition.stop.model_dump(exclude_none=True), "no rule"),
        "Failures": _options(definition.failures.model_dump()),
        "Seed": str(definition.study.seed),
        "Begun": _when(facts.record.created_at),
        "Versions": ", ".join(
            [*(f"{name} {_version(name)}" for name in ("hyperleaf", "jax", "numpy")), f"Python {platform.python_version()}"]
        ),
    }
    listed = "".join(f"<dt>{escape(key)}</dt><dd>{escape(value)}</dd>" for key, value in values.items())
    whole = definition.to_json()
    whole["study"].pop("storage", None)  # an address may hold a password
    text = json.dumps(whole, indent=2, ensure_ascii=False)
    return (
        "<p>The same definition, seed and results give the same queries again.</p>"
        f'<div class="columns"><div><h3>Inputs</h3>{_plain_table(["Name", "Range", "Unit"], inputs)}</div>'
        f"<div><h3>Outputs</h3>{_plain_table(['Name', 'Unit', 'Noise', 'Weight'], outputs)}</div></div>"
        f"<h3>Settings</h3><dl>{listed}</dl>"
        f"<details><summary>The whole definition (JSON)</summary><pre>{escape(text)}</pre></details>"
    )


def _plain_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    top = "".join(f'<th scope="col">{escape(one)}</th>' for one in head)
    body = "".join("<tr>" + "".join(f"<td>{escape(str(one))}</td>" for one in row) + "</tr>" for row in rows)
    return f'<div class="scroll"><table class="plain"><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'


def _options(values: dict[str, Any], nothing: str = "") -> str:
    listed = ", ".join(f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in values.items())
    return (f" ({listed})" if nothing == "" else listed) if listed else nothing


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.0f} %"


def _when(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "(not installed)"
