"""The tables of the page: accuracy, what was put right, what to look at again, all runs, and the study itself.

Each is rows of plain values; the template writes them, and escapes what it writes.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from hyperleaf.report.facts import Facts
from hyperleaf.report.words import number, percent, when
from hyperleaf.study.changes import asked_words, history, words
from hyperleaf.surrogates.kinds import kind_of

MOST_ROWS = 5000  # of the table of runs
LONG, CUT = 30, 120  # characters of a text that may take two lines, and of one that is cut


@dataclass(frozen=True)
class Table:
    head: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Cell:
    """What is shown, and in `exact` the whole value, for sorting and saving."""

    shown: str
    exact: str
    css: str = ""


@dataclass(frozen=True)
class Runs:
    """All runs: names of columns, and for each run its classes and cells; `left_out` of the first are not shown."""

    head: Sequence[str]
    rows: Sequence[tuple[str, Sequence[Cell]]]
    left_out: int


def accuracy(facts: Facts) -> Table | None:
    """How well each output is known; columns that say nothing are left out."""
    head = ["Output", "Expected error", "as the surrogate sees it", "at runs left out", "on test runs"]
    head += ["Within 90 % (left out)", "Within 90 % (test)", "Errors ÷ predicted", "Error wanted"]
    rows = []
    for one in facts.known:
        found = one.accuracy
        errors = (found.trusted_rmse, found.expected_rmse, found.loo_rmse, found.test_rmse)
        covered = [percent(found.loo_coverage), percent(found.test_coverage)]
        rows.append([one.label, *map(number, errors), *covered, number(found.calibration), number(one.target)])
    keep = [i for i in range(len(head)) if i < 2 or any(row[i] != "–" for row in rows)]
    return Table([head[i] for i in keep], [[row[i] for i in keep] for row in rows]) if rows else None


def changes(facts: Facts) -> Table | None:
    """Who changed what, when and why, the latest first."""
    rows = [[when(one.at), one.who, f"run {one.query_id}", words(one)] for one in reversed(facts.record.changes)]
    return Table(["When", "Who", "Run", "What"], rows) if rows else None


def suspects(facts: Facts) -> Table | None:
    """Runs to look at again, with the commands for either case."""
    units = {name: output.unit for name, output in facts.definition.outputs.items()}
    rows = [
        [
            f"run {one.query_id}",
            f"{one.output} = {one.value:.6g}{f' {units[one.output]}' if units[one.output] else ''}",
            f"{one.expected:.4g} ± {one.spread:.2g}",
            one.slip or "nothing comes to mind",
            f"If it is wrong: {one.remedy}. If it is right: {one.confirmation}",
        ]
        for one in facts.snapshot.suspects
    ]
    return Table(["Run", "Told", "The others let expect", "Perhaps", "What to do"], rows) if rows else None


def runs(facts: Facts) -> Runs:
    queries = facts.record.queries[-MOST_ROWS:]
    units, told = facts.domain.units, facts.outputs_of
    places, changed = facts.record.places(), history(facts.record.changes)
    doubted: dict[int, list[str]] = {}
    for one in facts.snapshot.suspects:
        guess = f"; {one.slip}" if one.slip else ""
        doubted.setdefault(one.query_id, []).append(f"{one.output}: {one.expected:.4g} ± {one.spread:.2g} expected{guess}")
    columns: list[tuple[str, list[Any]]] = [("run", [query.id for query in queries])]
    for name in facts.domain.names:
        columns.append((f"{name} [{units[name]}]" if units[name] else name, [places[query.id][name] for query in queries]))
    for name, output in facts.definition.outputs.items():
        columns.append((f"{name} [{output.unit}]" if output.unit else name, [told.get(q.id, {}).get(name) for q in queries]))
    columns.append(("state", [query.state.value for query in queries]))
    columns.append(("origin", [query.origin for query in queries]))
    optional: list[tuple[str, list[Any]]] = [
        ("look again", ["; ".join(doubted[query.id]) if query.id in doubted else None for query in queries]),
        ("attempt", [query.attempt if query.attempt > 1 else None for query in queries]),
        ("score", [query.score for query in queries]),
        ("seconds", [None if query.seconds is None else float(f"{query.seconds:.3g}") for query in queries]),
        ("ended (UTC)", [None if query.ended_at is None else when(query.ended_at)[:-4] for query in queries]),
        ("reason", [query.reason or None for query in queries]),
        ("note", [query.note or None for query in queries]),
        ("asked at", [asked_words(query, places[query.id]) or None for query in queries]),
        ("put right", [changed.get(query.id) for query in queries]),
    ]
    columns += [(name, values) for name, values in optional if any(value is not None for value in values)]
    rows = []
    for i, query in enumerate(queries):
        css = f"{query.state.value} suspect" if query.id in doubted else query.state.value
        rows.append((css, [cell(values[i]) for _, values in columns]))
    return Runs([name for name, _ in columns], rows, len(facts.record.queries) - len(queries))


def cell(value: Any) -> Cell:
    if value is None:
        return Cell("", "")
    if isinstance(value, bool) or not isinstance(value, int | float):
        text = str(value)
        return Cell(text if len(text) <= CUT else text[: CUT - 3] + "…", text, "long" if len(text) > LONG else "")
    shown = str(value) if isinstance(value, int) else f"{value:.6g}"
    return Cell(shown.replace("-", "−") if value < 0 else shown, repr(value), "number")


def inputs(facts: Facts) -> Table:
    return Table(
        ["Name", "Range", "Unit"], [[name, axis.describe(), axis.unit or ""] for name, axis in facts.domain.axes.items()]
    )


def outputs(facts: Facts) -> Table:
    rows = []
    for name, output in facts.definition.outputs.items():
        noise = number(output.noise) if isinstance(output.noise, float) else str(output.noise)
        rows.append([name, output.unit, noise, f"{output.weight:g}"])
    return Table(["Name", "Unit", "Noise", "Weight"], rows)


def settings(facts: Facts) -> dict[str, str]:
    definition = facts.definition
    options = _options(definition.surrogate.options)
    kind = f"{definition.surrogate.kind}: {kind_of(definition.surrogate.kind).title}"
    return {
        "Surrogate": f"{kind} ({options})" if options else kind,
        "Choice of queries": f"{definition.acquisition.kind}, optimised by {definition.acquisition.optimizer}",
        "First design": (
            f"{len(definition.safety.start)} points known to be safe"
            if definition.safety.start
            else f"{definition.design.size} points, {definition.design.kind}"
        ),
        "Candidates": "the whole domain" if facts.snapshot.pool_size is None else f"a table of {facts.snapshot.pool_size} rows",
        "Constraints": "; ".join(facts.domain.constraints) or "none",
        "Stop": _options(definition.stop.model_dump(exclude_none=True)) or "no rule",
        "Failures": _options(definition.failures.model_dump()),
        "Limits": "; ".join(f"{name} {limit.words}" for name, limit in definition.limits.items()) or "none",
        "Seed": str(definition.study.seed),
        "Begun": when(facts.record.created_at),
        "Versions": ", ".join(
            [*(f"{name} {version_of(name)}" for name in ("hyperleaf", "jax", "numpy")), f"Python {platform.python_version()}"]
        ),
    }


def whole_definition(facts: Facts) -> str:
    """As JSON, without the store: an address may hold a password."""
    whole = facts.definition.to_json()
    whole["study"].pop("storage", None)
    return json.dumps(whole, indent=2, ensure_ascii=False)


def _options(values: dict[str, Any]) -> str:
    return ", ".join(f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in values.items())


def version_of(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "(not installed)"
