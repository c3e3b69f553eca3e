"""What runs gave, on its way into the store: outputs of a query, a failure, runs that nobody asked for."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any

from hyperleaf.errors import InputError
from hyperleaf.storage.base import Conflict, NewQuery, Query, State
from hyperleaf.storage.transitions import check_same, is_of_another
from hyperleaf.study import corrections, tables
from hyperleaf.study.asking import check_current
from hyperleaf.study.owners import PERSON, this_process
from hyperleaf.study.turns import attempts

if TYPE_CHECKING:
    from hyperleaf.study.study import Study


def tell(study: Study, number: int, asked: Query | None, values: Mapping[str, Any], seconds: float | None) -> bool:
    where = f"query {number}"
    given, inputs = corrections.split(study, values, where)
    outputs = tables.check_outputs(given, study.outputs, where)
    point = corrections.made_at(study, study._reader.query(number).point, inputs, where) if inputs else None
    store = study.storage
    return store.tell(study.name, number, outputs, now=store.now(), seconds=seconds, asked=asked, point=point)


def tell_failed(study: Study, number: int, asked: Query | None, reason: str, seconds: float | None, retry: bool | None) -> bool:
    store, current = study.storage, study._reader.query(number)
    check_same(current, asked)
    if is_of_another(current, asked):
        return False
    if asked is None and current.state == State.RUNNING and current.owner not in (PERSON, this_process()):
        raise InputError(
            f"a run is ended by whoever is at it; query {number} runs as {current.owner}. If that is no more, give it back "
            f"first: hyperleaf ask --release {number}, in Python study.release."
        )
    again = current.attempt <= study.definition.failures.retries if retry is None else retry
    if again and current.state in (State.RUNNING, State.WAITING):
        owner = current.owner
        if current.state == State.WAITING:
            owner = this_process()
            store.claim(study.name, number, owner, now=store.now())
        return store.release(study.name, number, owner, note=str(reason), next_attempt=True) is not None
    return store.tell_failed(study.name, number, str(reason), now=store.now(), seconds=seconds, asked=asked)


def add(study: Study, table: Any, note: str) -> list[Query]:
    runs = tables.read_runs(table, study.domain, study.outputs, study.definition.units)
    if not runs:
        raise InputError("a table of runs must have at least one row; got none.")
    new = [NewQuery(point, "added", note=note, outputs=outputs) for point, outputs in runs]
    with closing(attempts(study.storage, study.name, "no run could be added")) as tries:
        for _ in tries:
            record = study._reader.record()
            check_current(study, record)
            with suppress(Conflict):
                return list(study.storage.append(study.name, new, version=record.version, now=study.storage.now()))
    raise AssertionError  # `attempts` ends with an error
