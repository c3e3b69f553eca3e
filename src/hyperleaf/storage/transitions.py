"""How queries change: one function for each arrow of the contract, free of any store.

Each takes a query as it stands and gives what it becomes, or None where the contract says that nothing changes. Stores look up,
call, and keep the result.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hyperleaf.errors import InputError
from hyperleaf.storage import checks
from hyperleaf.storage.base import AlreadyToldError, Conflict, NewQuery, Observation, Query, State, UnknownQueryError


def numbered(new: NewQuery, number: int, epoch: int, *, now: float) -> tuple[Query, Observation | None]:
    """The new query under its number, with its observation if it came with outputs."""
    now = checks.finite(now, "The time")
    state = State.WAITING if new.owner is None else State.RUNNING
    owner = None if new.owner is None else checks.label(new.owner, "An owner")
    query = Query(
        id=checks.whole(number, "The number of a query", least=1),
        point=checks.plain(new.point, "A point"),
        origin=checks.label(new.origin, "The origin of a query"),
        state=state,
        epoch=epoch,
        asked_at=now,
        index=None if new.index is None else checks.whole(new.index, "The index of a query", least=0, most=2**63 - 1),
        score=checks.optional_finite(new.score, "The score of a query"),
        note=checks.prose(new.note),
        owner=owner,
        heartbeat=None if owner is None else now,
        lease=None if owner is None else checks.optional_finite(new.lease, "A lease"),
    )
    return (query, None) if new.outputs is None else _done(query, checks.outputs(new.outputs), now, None)


def check_same(query: Query, asked: Query | None) -> None:
    """Refuse a result that was got for another query of the same number: the study was deleted and made anew meanwhile. One at
    the same place is no other, whoever asked for it: its result is right here too."""
    if asked is not None and (query.point, query.index) != (asked.point, asked.index):
        raise UnknownQueryError(
            f"A result is kept by the query that asked for it; there is another query {query.id} now, at {dict(query.point)} "
            f"and not at {dict(asked.point)}: the study was made anew since. Add the result as a run of its own."
        )


def claimed(query: Query, owner: str, *, now: float, lease: float | None) -> Query | None:
    owner, now, lease = checks.label(owner, "An owner"), checks.finite(now, "The time"), checks.optional_finite(lease, "A lease")
    if query.state is not State.WAITING:
        return None
    return replace(query, state=State.RUNNING, owner=owner, heartbeat=now, lease=lease)


def released(query: Query, owner: str | None, *, note: str, next_attempt: bool) -> Query | None:
    if query.state is not State.RUNNING or owner not in (None, query.owner):
        return None
    attempt = query.attempt + bool(next_attempt)
    free = replace(query, state=State.WAITING, owner=None, heartbeat=None, lease=None)
    return replace(free, reason=checks.prose(note), attempt=attempt)


def told(
    query: Query,
    known: Observation | None,
    outputs: Mapping[str, float],
    *,
    now: float,
    seconds: float | None,
    point: Mapping[str, Any] | None = None,
) -> tuple[Query, Observation] | None:
    """`known` is the observation that the query has already."""
    new, now, seconds = checks.outputs(outputs), checks.finite(now, "The time"), checks.optional_finite(seconds, "Seconds")
    made = made_at(query, point)
    _check_counts(query)
    if known is None:
        done, kept = _done(query, new, now, seconds)
        return done, replace(kept, point=made)
    if known.outputs == new and known.point == made:
        return None
    raise AlreadyToldError(
        f"A query is told once: query {query.id} gave {_words(known.outputs, known.point)} before, now {_words(new, made)}. "
        f"If the first was wrong, put it right: hyperleaf correct {query.id}, in Python study.correct. "
        "Or add the second as a run of its own."
    )


def made_at(query: Query, point: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Where a run was made, or None if that is where it was asked for."""
    made = None if point is None else checks.plain(point, "A point")
    if made is not None and made.keys() != query.point.keys():
        raise InputError(f"A point must have the inputs {list(query.point)}; got {list(made)}")
    return None if made == query.point else made


def _check_counts(query: Query) -> None:
    if query.state is State.VOID:
        raise AlreadyToldError(
            f"Query {query.id} was voided and takes no result. Restore it first: hyperleaf restore {query.id}, in Python "
            "study.restore."
        )


def _words(outputs: Mapping[str, float], point: Mapping[str, Any] | None) -> str:
    return f"{dict(outputs)}" if point is None else f"{dict(outputs)} at {dict(point)}"


def failed(query: Query, reason: str, *, now: float, seconds: float | None, asked: Query | None = None) -> Query | None:
    now, seconds = checks.finite(now, "The time"), checks.optional_finite(seconds, "Seconds")
    _check_counts(query)
    if query.state is State.DONE:
        raise AlreadyToldError(f"Query {query.id} has been told already: it is done and cannot fail any more.")
    if query.state is State.FAILED or is_of_another(query, asked):
        return None
    return replace(query, state=State.FAILED, reason=checks.prose(reason), ended_at=now, seconds=seconds)


def is_of_another(query: Query, asked: Query | None) -> bool:
    """Whether somebody else is at the query now than when it was `asked`."""
    return asked is not None and asked.owner is not None and query.state is State.RUNNING and query.owner != asked.owner


def absorbed(query: Query, known: Observation | None, epoch: int) -> Observation:
    """The observation of that query as one of the group `epoch`."""
    if known is None:
        raise InputError(f"Only what was told can be learned from: query {query.id} has no observation.")
    if query.state is State.VOID:
        raise Conflict(f"The observation of query {query.id} was voided.")
    if known.epoch is not None:
        raise Conflict(f"The observation of query {query.id} was taken in before, in group {known.epoch}.")
    return replace(known, epoch=epoch)


def _done(query: Query, outputs: dict[str, float], now: float, seconds: float | None) -> tuple[Query, Observation]:
    done = replace(query, state=State.DONE, ended_at=now, seconds=seconds, reason="")
    return done, Observation(query.id, outputs, told_at=now)
