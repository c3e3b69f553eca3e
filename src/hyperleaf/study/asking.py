"""The next queries of a study: those that wait to be repeated first, then the design, then the acquisition.

Others may write to the same study at any moment. A query is added only if nothing has changed since the record was read on
which it was chosen; else all begins anew.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from hyperleaf.errors import InputError
from hyperleaf.simulators.durations import parse_duration
from hyperleaf.storage.base import Conflict, NewQuery, Query, Record, State
from hyperleaf.study.clock import Clock
from hyperleaf.study.defining import differences
from hyperleaf.study.insight import Figures
from hyperleaf.study.owners import LEASE, is_gone
from hyperleaf.study.snapshot import History

if TYPE_CHECKING:
    from hyperleaf.study.learning import Knowledge
    from hyperleaf.study.study import Study

log = logging.getLogger(__name__)
ATTEMPTS = 100  # to get a query in between others who write to the same study


def ask(study: Study, n: int, owner: str, seconds: float | None) -> list[Query]:
    """n queries that the owner holds for so many seconds."""
    storage, name, insight = study.storage, study.name, study._insight
    taken: list[Query] = []
    for attempt in range(ATTEMPTS):
        record, history = reclaimed(study)
        check_current(study, record)
        waiting = [query for query in record.queries if query.state == State.WAITING]
        for query in waiting[: n - len(taken)]:
            claimed = storage.claim(name, query.id, owner, now=storage.now(), lease=seconds)
            if claimed is not None:
                taken.append(claimed)
        if len(taken) == n:
            return taken
        if waiting:
            continue  # the record has changed, by us or by others
        try:
            new, known, again = _choose(study, record, history, n - len(taken), owner)
        except BaseException:
            for query in taken:  # nobody would ever see them
                storage.release(name, query.id, owner)
            raise
        epochs = {one.query_id: one.epoch for one in record.observations}
        absorbed = [i for i in known.ids if epochs[i] is None] if known is not None else []
        try:
            with Clock(study.seconds, "storing"):
                new = [replace(query, lease=seconds) for query in new]
                added = storage.append(name, new, version=record.version, absorbed=absorbed, now=storage.now())
        except Conflict:
            time.sleep(random.uniform(0.0, min(0.005 * attempt, 0.25)))  # in step with others one would lose every time
            continue
        log.info("asked for queries %s in %s", [query.id for query in added], name)
        if known is not None:
            insight.keep(again)
            if absorbed:
                insight.learner.settle(known)
                insight.measure(known)
            insight.learner.save_if_due()
        return [*taken, *added]
    for query in taken:
        storage.release(name, query.id, owner)
    raise InputError(f"no query could be placed in {ATTEMPTS} attempts: others write to this study all the time. Try again.")


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
