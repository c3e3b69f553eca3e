"""What commands print: text for people, JSON for programs. Nothing here knows how anything was computed."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import typer

from hyperleaf.values import (
    noise_values as noise_values,
    plain,
    query_values as query_values,
    status_values as status_values,
    suspect_values as suspect_values,
)

if TYPE_CHECKING:
    from hyperleaf.surrogates.noise import Noise


SHOWN = 5  # of the changes that were made last


def result(as_json: bool, values: Mapping[str, Any], text: str) -> None:
    """The result of a command on stdout: the values as JSON, or the text."""
    typer.echo(json.dumps(plain(values), indent=2, ensure_ascii=False, allow_nan=False) if as_json else text)


def complain(text: str) -> None:
    typer.echo(f"hyperleaf: {text}", err=True)


def number(value: Any) -> str:
    """Short, but a whole number in full."""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def pairs(values: Mapping[str, Any]) -> str:
    return " ".join(f"{name}={number(value)}" for name, value in values.items())


def columns(rows: Iterable[Iterable[str]], indent: str = "  ") -> str:
    """Rows with their cells under each other."""
    table = [list(row) for row in rows]
    widths = [max((len(row[i]) for row in table if i < len(row)), default=0) for i in range(max(map(len, table), default=0))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=False)).rstrip() for row in table]
    return "\n".join(indent + line for line in lines)


def accuracy_words(name: str, one: Any) -> str:
    """How well an output is known, in a line."""
    parts = [f"expected error {one.trusted_rmse:.3g}"]
    if one.loo_rmse is not None:
        parts.append(f"leaving one out {one.loo_rmse:.3g}")
    if one.loo_coverage is not None:
        parts.append(f"{one.loo_coverage:.0%} within their 90 % interval")
    if one.test_rmse is not None:
        parts.append(f"on the test table {one.test_rmse:.3g}")
    return f"{name}: " + ", ".join(parts)


def noise_lines(one: Noise) -> list[str]:
    """What is known of the noise of an output, what its repeated runs say, and what is wrong with it."""
    repeated = [f"{one.name}: {one.repeated}"] if one.repeats else []
    return [f"{one.name}: {one.words}", *repeated, *(f"! {text}" for text in one.warnings)]


def time_words(seconds: Mapping[str, float]) -> str:
    """Where the time went, the largest part first; "" if there was none."""
    parts = {name: value for name, value in seconds.items() if name != "all" and value > 0}
    whole = sum(parts.values())
    shares = sorted(parts.items(), key=lambda item: -item[1])
    return ", ".join(f"{name} {value / whole:.0%}" for name, value in shares if value >= 0.005 * whole)


def suspect_lines(one: Any) -> list[str]:
    return [f"! {one.words}", f"  If it is wrong: {one.remedy}", f"  If it is right: {one.confirmation}"]


def status_text(status: Any) -> str:
    from hyperleaf.study.changes import words

    counts = ", ".join(f"{count} {state}" for state, count in status.counts.items() if count) or "no queries yet"
    lines = [f"{status.name}: {counts}", f"  in {status.storage}"]
    for title, rows in (
        ("Look again", [[line] for one in status.suspects for line in suspect_lines(one)]),
        ("Accuracy", [[accuracy_words(name, one)] for name, one in status.accuracy.items()]),
        ("Noise", [[line] for one in status.noise.values() for line in noise_lines(one)] if status.accuracy else []),
        ("Limits", [[status.limits]] if status.limits else []),
        ("Stops when", [[rule.rule, f"{min(rule.progress, 1.0):.0%}", rule.words] for rule in status.rules]),
        ("Open", [[str(query.id), pairs(query.point), _held(query)] for query in status.open]),
        ("Last", [_ended(query, status.told.get(query.id)) for query in status.last]),
        ("Put right", [[str(one.query_id), words(one), f"{one.who}, {ago(one.at)}"] for one in status.changes[-SHOWN:]]),
    ):
        if rows:
            lines += [title, columns(rows)]
    return "\n".join(lines)


def _held(query: Any) -> str:
    if query.owner == "person" and query.state.value == "running":
        return f"waits for an answer, asked {ago(query.asked_at)}"
    if query.state.value == "waiting":
        return "waiting" + (f" ({first_line(query.reason)})" if query.reason else "")
    return f"running ({query.owner})"


def _ended(query: Any, told: Any) -> list[str]:
    state, place = query.state.value, query.point if told is None or told.point is None else told.point
    words = state if state in ("done", "void") else f"failed: {first_line(query.reason)}"
    asked = pairs({name: value for name, value in query.point.items() if place[name] != value})
    return [str(query.id), pairs(place), pairs(told.outputs) if told else "", words + (f", asked at {asked}" if asked else "")]


def ago(moment: float) -> str:
    from hyperleaf.simulators.durations import format_duration

    return f"{format_duration(max(time.time() - moment, 0.0))} ago"


def first_line(text: str, size: int = 120) -> str:
    line = text.strip().partition("\n")[0]
    return line if len(line) <= size else line[: size - 1] + "…"
