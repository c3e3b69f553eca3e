"""Between rows of the tables and the records of the contract. What comes out of a row is checked like what goes in: SQLite takes
any value in any column, and files get damaged; whatever hyperleaf cannot have written is a StorageError that says where it lies.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Row

from hyperleaf.errors import InputError
from hyperleaf.storage import checks
from hyperleaf.storage.base import Change, Kind, Observation, Query, State

_SAME = (
    "origin",
    "epoch",
    "asked_at",
    "attempt",
    "score",
    "note",
    "owner",
    "heartbeat",
    "ended_at",
    "seconds",
    "reason",
    "lease",
)
_TEXTS = ("origin", "note", "reason")
_TIMES = ("score", "heartbeat", "ended_at", "seconds", "lease")


def from_json(text: Any) -> Any:
    """What `checks.to_json` wrote."""
    try:
        return json.loads(text)
    except (ValueError, TypeError, RecursionError) as error:
        raise checks.damaged(f"a value that must be JSON begins with {str(text)[:40]!r} ({error})") from error


def check_study(row: Row[Any]) -> None:
    with _row(f"the study {row.name!r}"):
        if not isinstance(row.definition, dict):
            raise InputError(f"its definition must be a mapping; got a {type(row.definition).__name__}")
        checks.finite(row.created_at, "its time")
        checks.whole(row.version, "its version", least=1)
        checks.whole(row.epoch, "its epoch", least=0)


def query_row(study: Row[Any], query: Query) -> dict[str, Any]:
    same = {column: getattr(query, column) for column in _SAME}
    own = {"study_id": study.id, "number": query.id, "pool_index": query.index, "state": (query.was or query.state).value}
    return {**own, "point": dict(query.point), "voided": query.state is State.VOID, **same}


def query_of(row: Row[Any]) -> Query:
    with _row(f"query {row.number}"):
        same = {column: getattr(row, column) for column in _SAME}
        for name in _TEXTS:
            if not isinstance(same[name], str):
                raise InputError(f"{name} must be text; got {same[name]!r:.40}")
        for name in _TIMES:
            checks.optional_finite(same[name], name)
        checks.finite(row.asked_at, "asked_at")
        checks.whole(row.epoch, "epoch", least=0)
        checks.whole(row.attempt, "attempt", least=1)
        if row.owner is not None:
            checks.label(row.owner, "owner")
        if row.pool_index is not None:
            checks.whole(row.pool_index, "pool_index", least=0, most=2**63 - 1)
        point = checks.plain(row.point, "point")
        state, was = (State.VOID, State(row.state)) if row.voided else (State(row.state), None)
        return Query(id=row.number, index=row.pool_index, state=state, was=was, point=point, **same)


def observation_row(study: Row[Any], known: Observation) -> dict[str, Any]:
    own = {"study_id": study.id, "query_number": known.query_id, "outputs": dict(known.outputs)}
    point = None if known.point is None else dict(known.point)
    return {**own, "told_at": known.told_at, "epoch": known.epoch, "point": point}


def observation_of(row: Row[Any]) -> Observation:
    with _row(f"the observation of query {row.query_number}"):
        if row.epoch is not None:
            checks.whole(row.epoch, "epoch", least=1)
        outputs, told_at = checks.outputs(row.outputs), checks.finite(row.told_at, "told_at")
        point = None if row.point is None else checks.plain(row.point, "point")
        return Observation(row.query_number, outputs, told_at=told_at, epoch=row.epoch, point=point)


def change_row(study: Row[Any], change: Change) -> dict[str, Any]:
    own = {"study_id": study.id, "number": change.number, "query_number": change.query_id, "kind": change.kind.value}
    said = {"who": change.who, "at": change.at, "why": change.why}
    return {**own, **said, "before": dict(change.before), "after": dict(change.after)}


def change_of(row: Row[Any]) -> Change:
    with _row(f"change {row.number}"):
        who, at = checks.label(row.who, "who"), checks.finite(row.at, "at")
        if not isinstance(row.why, str):
            raise InputError(f"why must be text; got {row.why!r:.40}")
        before, after = checks.plain(row.before, "before"), checks.plain(row.after, "after")
        return Change(row.number, row.query_number, Kind(row.kind), who, at, row.why, before, after)


def metrics_of(row: Row[Any]) -> tuple[int, Mapping[str, Any]]:
    with _row(f"what was measured after {row.num_observations} observations"):
        num = checks.whole(row.num_observations, "the number of observations", least=0)
        return num, checks.plain(row.measured, "measured")


def payload_of(key: str, payload: Any) -> bytes | None:
    if payload is None or isinstance(payload, bytes):
        return payload
    raise checks.damaged(f"the artifact {key!r} must be bytes; got a {type(payload).__name__}")


@contextmanager
def _row(what: str) -> Iterator[None]:
    try:
        yield
    except (InputError, ValueError, RecursionError) as error:
        raise checks.damaged(f"{what}: {error}") from error
