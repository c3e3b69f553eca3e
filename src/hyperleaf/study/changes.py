"""What was put right, in words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from hyperleaf.storage.base import Change, Kind, Query


def words(change: Change) -> str:
    """What was changed, without who and when."""
    why = " ".join("".join(one if one.isprintable() else " " for one in change.why).split())  # a line, whatever was typed
    if change.kind is not Kind.CORRECTED:
        return f"{change.kind.value}{f': {why}' if why else ''}"
    parts = []
    for part in ("point", "outputs"):
        before, after = change.before.get(part), change.after.get(part)
        if before is None or after is None:
            parts += [] if before == after else [_moved(before, after)]
        else:
            names = [name for name in after if before.get(name) != after[name]]
            parts += [f"{name} {_short(before.get(name))} → {_short(after[name])}" for name in names]
    return f"corrected: {', '.join(parts)}{f' ({why})' if why else ''}"


def _moved(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> str:
    if after is None:
        return "made where it was asked for"
    return "made at " + " ".join(f"{name}={_short(value)}" for name, value in after.items())


def history(changes: Iterable[Change]) -> dict[int, str]:
    """What happened to each query since it was told, one sentence after the other."""
    found: dict[int, list[str]] = {}
    for change in changes:
        when = datetime.fromtimestamp(change.at, UTC).strftime("%Y-%m-%d %H:%M")
        found.setdefault(change.query_id, []).append(f"{when} {change.who} {words(change)}")
    return {number: "; ".join(entries) for number, entries in found.items()}


def asked_words(query: Query, place: Mapping[str, Any]) -> str:
    """The inputs that were set otherwise than they were asked for, as asked; "" if none."""
    return " ".join(f"{name}={_short(value)}" for name, value in query.point.items() if place[name] != value)


def _short(value: Any) -> str:
    return f"{value:.10g}" if isinstance(value, float) else str(value)
