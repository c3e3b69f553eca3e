"""How data are put right: what an amendment makes of a query and its observation, free of any store.

Voiding lays a cover over a query: everything about it stays underneath, so that restoring gives back exactly what was there. A
correction changes what was told and nothing else. The observation keeps its epoch in either case: the groups in which data are
taken in stay those with which the queries were chosen.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from hyperleaf.errors import InputError
from hyperleaf.storage import checks
from hyperleaf.storage.base import Amendment, Change, Kind, Observation, Query, State
from hyperleaf.storage.transitions import made_at


@dataclass(frozen=True)
class Amended:
    """A query and its observation, put right, and the entry about it; `observation` is None if there is none."""

    query: Query
    observation: Observation | None
    change: Change


def amended(
    query: Query, known: Observation | None, wanted: Amendment, *, number: int, who: str, why: str, now: float
) -> Amended | None:
    """What becomes of a query; None if nothing changes. `number` is that of the entry."""
    kind = Kind(wanted.kind)
    new, before, after = _APPLY[kind](query, known, wanted)
    if before == after:
        return None
    who, why, now = checks.label(who, "Who changes data"), checks.prose(why), checks.finite(now, "The time")
    return Amended(*new, Change(number, query.id, kind, who, now, why, before, after))


_Outcome = tuple[tuple[Query, Observation | None], dict[str, Any], dict[str, Any]]


def _corrected(query: Query, known: Observation | None, wanted: Amendment) -> _Outcome:
    if query.state is not State.DONE or known is None:
        remedy = f"Restore it first: hyperleaf restore {query.id}." if query.state is State.VOID else "Tell it."
        raise InputError(f"Only what was told can be corrected; query {query.id} is {query.state.value}. {remedy}")
    outputs, point = checks.outputs(wanted.outputs or {}), made_at(query, wanted.point)
    if outputs.keys() != known.outputs.keys():
        raise InputError(f"A correction must have the outputs {list(known.outputs)}; got {list(outputs)}")
    before = {"outputs": dict(known.outputs), "point": None if known.point is None else dict(known.point)}
    right = replace(known, outputs=outputs, point=point)
    return (query, right), before, {"outputs": dict(outputs), "point": point}


def _voided(query: Query, known: Observation | None, _: Amendment) -> _Outcome:
    if query.state is State.VOID:
        return (query, known), {}, {}
    return (replace(query, state=State.VOID, was=query.state), known), {"state": query.state.value}, {"state": "void"}


def _restored(query: Query, known: Observation | None, _: Amendment) -> _Outcome:
    if query.state is not State.VOID or query.was is None:
        raise InputError(f"Only what was voided can be restored; query {query.id} is {query.state.value}.")
    return (replace(query, state=query.was, was=None), known), {"state": "void"}, {"state": query.was.value}


def _confirmed(query: Query, known: Observation | None, _: Amendment) -> _Outcome:
    if query.state is not State.DONE or known is None:
        raise InputError(f"Only what was told can be confirmed; query {query.id} is {query.state.value}.")
    return (query, None), {}, {"outputs": dict(known.outputs)}  # nothing about it changes


_APPLY = {Kind.CORRECTED: _corrected, Kind.VOIDED: _voided, Kind.RESTORED: _restored, Kind.CONFIRMED: _confirmed}


def num_still_measured(
    observations: Iterable[Observation], void: Iterable[int], changed: Iterable[Observation | None]
) -> int | None:
    """Up to how many observations metrics are still true: those taken in before the first that `changed`. None: all are."""
    epochs = [one.epoch for one in changed if one is not None]
    if not epochs:
        return None
    first, not_counted = min((epoch for epoch in epochs if epoch is not None), default=None), set(void)
    settled = [one.epoch for one in observations if one.query_id not in not_counted and one.epoch is not None]
    return sum(first is None or epoch < first for epoch in settled)
