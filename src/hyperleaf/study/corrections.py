"""Data put right: corrected, voided, restored; and runs told where they were really made.

What was told wrong is not overwritten silently: the store keeps who changed what, when and why. Queries that were asked in the
meantime stay, and so do the groups in which data are taken in; the posterior is then what it would have been, had the data been
right from the start.
"""

from __future__ import annotations

import getpass
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any

from hyperleaf.checks import alike
from hyperleaf.domain import Domain
from hyperleaf.errors import DomainError, InputError
from hyperleaf.storage.base import Amendment, Change, Conflict, Kind, NewQuery, Observation, Query, Record, State
from hyperleaf.storage.checks import prose, unknown_query
from hyperleaf.study.tables import check_outputs
from hyperleaf.study.turns import attempts

if TYPE_CHECKING:
    from hyperleaf.study.study import Study


def this_person() -> str:
    """Who is at the keyboard, as the operating system knows them."""
    try:
        return prose(getpass.getuser())[:100] or "unknown"
    except (OSError, KeyError, ImportError):  # a container without users
        return "unknown"


def number_of(query: Any) -> int:
    if isinstance(query, Query):
        return query.id
    if isinstance(query, bool) or not isinstance(query, int):
        raise InputError(f"a query must be a Query or its number; got {query!r}.")
    return query


def split(study: Study, values: Mapping[str, Any], where: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """What was told, as outputs and as inputs."""
    inputs = {name: value for name, value in values.items() if name in study.domain.names}
    for name in values:
        if name not in inputs and name not in study.outputs:
            hint = alike(name, [*study.outputs, *study.domain.names])
            raise InputError(f"{where}: {name!r} is no output of this study; outputs are {list(study.outputs)}.{hint}")
    return {name: value for name, value in values.items() if name not in inputs}, inputs


def made_at(study: Study, asked: Mapping[str, Any], inputs: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The whole point at which a run was made: as asked, but for the inputs that were set otherwise."""
    try:
        return study.domain.to_dicts([{**asked, **inputs}])[0]
    except DomainError as error:
        raise InputError(f"{where}: {error}") from None


def correct(study: Study, values: Mapping[int, Mapping[str, Any]], *, why: str, who: str | None) -> tuple[Change, ...]:
    """Put right what queries gave, or where they were made; what is not named stays as it was told."""
    if not values:
        raise InputError("a correction must say what is right: a query, and an output or an input of it; got nothing.")

    def wanted(record: Record) -> list[Amendment]:
        queries = {query.id: query for query in record.queries}
        told = {one.query_id: one for one in record.observations}
        return [_correction(study, number, queries.get(number), told.get(number), new) for number, new in values.items()]

    return _amend(study, wanted, why, who)


def _correction(
    study: Study, number: int, query: Query | None, known: Observation | None, values: Mapping[str, Any]
) -> Amendment:
    if query is None:
        raise unknown_query(study.name, number)
    where = f"query {number}"
    outputs, inputs = split(study, values, where)
    if not outputs and not inputs:
        raise InputError(f"{where}: a correction must name an output or an input; got nothing.")
    if known is None:
        return Amendment(number, Kind.CORRECTED)  # the store says why not
    right = check_outputs({**known.outputs, **outputs}, study.outputs, where)
    asked = dict(query.point if known.point is None else known.point)
    return Amendment(number, Kind.CORRECTED, right, made_at(study, asked, inputs, where) if inputs else asked)


def cover(study: Study, numbers: Sequence[int], kind: Kind, *, why: str, who: str | None) -> tuple[Change, ...]:
    """Void queries, restore them, or confirm what they gave."""
    if not numbers:
        raise InputError(f"at least one query must be named to be {kind.value}; got none.")

    def wanted(record: Record) -> list[Amendment]:
        known = confirmed(record) if kind is Kind.CONFIRMED else set()  # twice is once
        return [Amendment(number, kind) for number in numbers if number not in known]

    return _amend(study, wanted, why, who)


def confirmed(record: Record) -> set[int]:
    """Queries whose outputs somebody has looked at and found right, as they are now."""
    right = {change.query_id: change.after.get("outputs") for change in record.changes if change.kind is Kind.CONFIRMED}
    return {one.query_id for one in record.observations if right.get(one.query_id) == dict(one.outputs)}


def _amend(study: Study, wanted: Any, why: str, who: str | None) -> tuple[Change, ...]:
    person = this_person() if who is None else who
    store = study.storage
    with closing(attempts(store, study.name, "nothing could be changed")) as tries:
        for _ in tries:
            record = study.record()
            with suppress(Conflict):
                now, version = store.now(), record.version
                return store.amend(study.name, wanted(record), who=person, why=why, now=now, version=version)
    raise AssertionError  # `attempts` ends with an error


def repeated(record: Record, domain: Domain, number: int, num: int, owner: str) -> list[NewQuery]:
    """The setting of a run once more, for its noise to be seen: as it was set, or else the two would not lie at one point."""
    query = next((one for one in record.queries if one.id == number), None)
    if query is None:
        raise unknown_query(record.name, number)
    if query.state == State.FAILED:
        raise InputError(f"only a run that gave something is repeated on purpose; query {number} failed. See failures.retries.")
    point = dict(query.point) if query.index is not None else dict(record.places()[number])  # a pool has no other points
    if point != query.point and not domain.feasible([point])[0]:
        raise InputError(
            f"only a setting that keeps the constraints is asked for; query {number} was set beyond them, at {point}."
        )
    return [NewQuery(point, "repeat", query.index, note=f"repeats query {number}", owner=owner)] * num
