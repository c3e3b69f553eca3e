"""The next queries of a study: those that wait to be repeated first, then the design, then the acquisition.

Others may write to the same study at any moment. A query is added only if nobody has asked, or put data right, since the record
was read on which it was chosen; else all begins anew. What others have told meanwhile changes nothing: it is learned next time.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from hyperleaf.errors import InputError
from hyperleaf.simulators.durations import parse_duration
from hyperleaf.storage.base import Conflict, NewQuery, Query, Record, State, StorageError
from hyperleaf.study.clock import Clock
from hyperleaf.study.defining import differences
from hyperleaf.study.insight import Figures
from hyperleaf.study.owners import LEASE, is_gone
from hyperleaf.study.snapshot import History
from hyperleaf.study.turns import attempts

if TYPE_CHECKING:
    from hyperleaf.study.learning import Knowledge
    from hyperleaf.study.study import Study

log = logging.getLogger(__name__)


def ask(study: Study, n: int, owner: str, seconds: float | None) -> list[Query]:
    """n queries that the owner holds for so many seconds."""
    taken: list[Query] = []
    try:
        with closing(attempts(study.storage, study.name, "no query could be placed")) as tries:
            for _ in tries:
                if _asked(study, n, owner, seconds, taken):
                    break
    except BaseException:
        with suppress(StorageError):
            for query in taken:  # nobody would ever see them
                study.storage.release(study.name, query.id, owner)
        raise
    return taken


def _asked(study: Study, n: int, owner: str, seconds: float | None, taken: list[Query]) -> bool:
    """One attempt to have n queries in `taken`; whether it did."""
    storage, name, insight = study.storage, study.name, study._insight
    record, history = reclaimed(study)
    check_current(study, record)
    waiting = [query for query in record.queries if query.state == State.WAITING]
    for query in waiting[: n - len(taken)]:
        claimed = storage.claim(name, query.id, owner, now=storage.now(), lease=seconds)
        if claimed is not None:
            taken.append(claimed)
    if len(taken) == n or waiting:
        return len(taken) == n  # if not, the record has changed, by us or by others
    new, known, again = _choose(study, record, history, n - len(taken), owner)
    new = [replace(query, lease=seconds) for query in new]
    epochs = {one.query_id: one.epoch for one in record.observations}
    absorbed = [i for i in known.ids if epochs[i] is None] if known is not None else []
    with Clock(study.seconds, "storing"):
        added = _appended(study, record, new, absorbed)
    if added is None:
        return False
    taken += added
    log.info("asked for queries %s in %s", [query.id for query in added], name)
    if known is not None:
        insight.keep(again)
        if absorbed:
            insight.learner.settle(known)
            insight.measure(known)
        insight.learner.save_if_due()
    return True


def _appended(study: Study, record: Record, new: Sequence[NewQuery], absorbed: Sequence[int]) -> Sequence[Query] | None:
    """The queries as they were kept; None if those that were chosen no longer suit what the study has become."""
    storage = study.storage
    while True:
        try:
            return storage.append(study.name, new, version=record.version, absorbed=absorbed, now=storage.now())
        except Conflict:
            before, record = record, study._reader.record()
            if not _only_told(before, record):
                return None


def _only_told(before: Record, after: Record) -> bool:
    """Whether a choice still holds: nobody has asked, given back, put right or learned anything since."""
    if (before.definition, before.epoch, before.changes) != (after.definition, after.epoch, after.changes):
        return False
    began_to_wait = any(
        new is not old and new.state == State.WAITING for old, new in zip(before.queries, after.queries, strict=False)
    )
    return len(before.queries) == len(after.queries) and not began_to_wait


def _choose(
    study: Study, record: Record, history: History, num: int, owner: str
) -> tuple[list[NewQuery], Knowledge | None, Mapping[int, Figures]]:
    """New queries, the knowledge they were chosen with if any was needed, and what `filled_in` measured on the way."""
    from hyperleaf.study.choosing import blind_queries, design_queries, informed_queries

    arguments = (study.definition, study.domain, study.pool, record)
    new = design_queries(*arguments, num, owner)
    left = num - len(new)
    if not left:
        return new, None, {}
    if not study._insight.can_learn(record):
        return new + blind_queries(*arguments, left, owner, new), None, {}
    known, again = study._insight.filled_in(record, history)
    with Clock(study.seconds, "choosing"):
        return new + informed_queries(*arguments, known, left, owner, new), known, again


def reclaimed(study: Study) -> tuple[Record, History]:
    """The record and what was measured, after queries whose process is gone were given back."""
    record, history = study._reader.read()
    now = study.storage.now()
    lost = [
        query
        for query in record.queries
        if query.state == State.RUNNING and is_gone(query.owner, query.heartbeat, now, query.lease)
    ]
    for query in lost:
        log.warning("query %d is offered again: %s is gone", query.id, query.owner)
        study.storage.release(study.name, query.id, query.owner, note="its process ended before it was told")
    return study._reader.read() if lost else (record, history)


def check_current(study: Study, record: Record) -> None:
    """Refuse to go on with inputs, outputs or a surrogate that the study no longer has."""
    if record.definition != study._defined:
        fixed = differences(study._defined, record.definition)[1]
        if fixed:
            raise InputError(
                f"the study {study.name!r} was defined anew since it was opened here; {fixed[0]!r} differs. Open it again."
            )


def lease_of(owner: str | None, lease: float | str | None) -> float | None:
    """In seconds. Without one a process that gives no signs of life keeps its queries for a week, and a person for ever."""
    if lease is not None:
        return parse_duration(lease, "a lease")
    return LEASE if owner is None else None
