"""What commands and servers say to programs: queries, suspects and a whole study as plain values that JSON can hold."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from typing import Any


def plain(value: Any) -> Any:
    """What JSON can hold; NaN and infinity become null."""
    if is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def query_values(query: Any) -> dict[str, Any]:
    """A query as programs see it."""
    return {
        "id": query.id,
        "point": dict(query.point),
        "state": query.state.value,
        "origin": query.origin,
        "attempt": query.attempt,
        "score": query.score,
        "note": query.note,
        "reason": query.reason,
        "owner": query.owner,
        "asked_at": query.asked_at,
        "ended_at": query.ended_at,
        "seconds": query.seconds,
    }


def noise_values(one: Any) -> dict[str, Any]:
    figures = {"kind": one.kind, "std": one.std, "low": one.low, "high": one.high}
    places = {"least": one.least, "most": one.most} if one.least is not None else {}
    return {**figures, **places, "repeats": one.repeats, "warnings": list(one.warnings)}


def suspect_values(one: Any) -> dict[str, Any]:
    return {**asdict(one), "words": one.words, "remedy": one.remedy, "confirmation": one.confirmation}


def status_values(status: Any) -> dict[str, Any]:
    return {
        "study": status.name,
        "storage": status.storage,
        "num_observations": status.num_observations,
        "counts": dict(status.counts),
        "rules": [{"rule": rule.rule, "progress": rule.progress, "met": rule.met, "words": rule.words} for rule in status.rules],
        "accuracy": {name: asdict(one) for name, one in status.accuracy.items()},
        "noise": {name: noise_values(one) for name, one in status.noise.items()},
        "open": [query_values(query) for query in status.open],
        "last": [{**query_values(query), **_told(status.told.get(query.id))} for query in status.last],
        "changes": [asdict(change) for change in status.changes],
        "suspects": [suspect_values(one) for one in status.suspects],
        "limits": status.limits,
    }


def _told(one: Any) -> dict[str, Any]:
    """What a query gave, and where its run was made; nothing if it gave nothing, or does not count."""
    return {} if one is None else {"outputs": dict(one.outputs), "made_at": None if one.point is None else dict(one.point)}
