"""What was read of studies before, so that reading one again costs what is new in it and not what is in it.

A study's version grows with every change. If it is the one that was read last, or the one to which our own writes since then have
brought it, nobody else has changed anything: only rows that we wrote ourselves, new ones, and those of running queries, whose
heartbeats change no version, are fetched. Otherwise all rows are, but only those that differ from what they were are looked into.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import SimpleNamespace
from typing import Any, Generic, TypeVar

from sqlalchemy import JSON, ColumnElement, Connection, Row, Table, Text, cast, or_, select

from hyperleaf.storage.base import Change, Observation, Query, Record, State
from hyperleaf.storage.rows import change_of, from_json, metrics_of, observation_of, query_of
from hyperleaf.storage.schema import changes, metrics, observations, queries

Kept = TypeVar("Kept")
MOST_AT_ONCE = 200  # rows that are named one by one in a statement; beyond that all are looked at


class Rows(Generic[Kept]):
    """The rows of a table that belong to one study: as they came, and what they mean, by their number."""

    def __init__(self, table: Table, number: str, meaning: Callable[[Any], Kept]) -> None:
        self._table, self._number, self._meaning = table, table.c[number], meaning
        self._texts = [column.name for column in table.c if isinstance(column.type, JSON)]  # parsed only where they are new
        self._columns = [cast(one, Text).label(one.name) if one.name in self._texts else one for one in table.c]
        self._raw: dict[int, tuple[Any, ...]] = {}
        self._kept: dict[int, Kept] = {}
        self._ordered: tuple[Kept, ...] | None = None

    def all(self, connection: Connection, study: Row[Any]) -> tuple[Kept, ...]:
        """After a look at every row."""
        self._look(connection, study)
        return self.kept()

    def some(self, connection: Connection, study: Row[Any], numbers: Iterable[int], *others: ColumnElement[bool]) -> None:
        """Look at these rows, at those beyond the last one, and at others that meet a condition."""
        last = max(self._raw, default=0)
        self._look(connection, study, or_(self._number > last, self._number.in_(list(numbers)), *others))

    def kept(self) -> tuple[Kept, ...]:
        """By their numbers; the same tuple as long as nothing has changed."""
        if self._ordered is None:
            self._ordered = tuple(self._kept[number] for number in sorted(self._kept))
        return self._ordered

    def _look(self, connection: Connection, study: Row[Any], *conditions: ColumnElement[bool]) -> None:
        rows = connection.execute(select(*self._columns).where(self._table.c.study_id == study.id, *conditions)).all()
        for row in rows:
            raw = tuple(row)
            number = row._mapping[self._number.name]
            if self._raw.get(number) != raw:
                values = dict(row._mapping)
                texts = [name for name in self._texts if values[name] is not None or not self._table.c[name].nullable]
                self._kept[number] = self._meaning(SimpleNamespace(**values | {name: from_json(values[name]) for name in texts}))
                self._raw[number], self._ordered = raw, None
        if not conditions and len(rows) < len(self._raw):  # some are gone
            left = {row._mapping[self._number.name] for row in rows}
            for number in self._raw.keys() - left:
                del self._raw[number], self._kept[number]
            self._ordered = None


class Reading:
    """One study, as it was read last, or as our own writes have left it since."""

    def __init__(self, study: Row[Any]) -> None:
        self._identity = study.id, study.created_at
        self._queries: Rows[Query] = Rows(queries, "number", query_of)
        self._observations: Rows[Observation] = Rows(observations, "query_number", observation_of)
        self._changes: Rows[Change] = Rows(changes, "number", change_of)
        self._metrics: Rows[tuple[int, Mapping[str, Any]]] = Rows(metrics, "num_observations", metrics_of)
        self._version: int | None = None  # None: all has to be looked at
        self._touched: set[int] = set()
        self._mark: tuple[Any, int] | None = None  # of the moment at which all that was measured was looked at
        self._measured: set[int] = set()

    def of(self, study: Row[Any]) -> bool:
        """Whether it is of this very study, and not of one of the same name that was deleted."""
        return self._identity == (study.id, study.created_at)

    def record(self, connection: Connection, study: Row[Any]) -> Record:
        if self._version == study.version and len(self._touched) <= MOST_AT_ONCE:
            self._queries.some(connection, study, self._touched, queries.c.state == State.RUNNING.value)
            self._observations.some(connection, study, self._touched)
        else:
            self._queries.all(connection, study)
            self._observations.all(connection, study)
            self._changes.all(connection, study)  # a write of our own that puts data right has all looked at, too
        self._version, self._touched = study.version, set()
        asked, told = self._queries.kept(), self._observations.kept()
        void = {query.id for query in asked if query.state is State.VOID}
        return Record(
            name=study.name,
            definition=study.definition,
            created_at=study.created_at,
            version=study.version,
            epoch=study.epoch,
            queries=asked,
            observations=tuple(one for one in told if one.query_id not in void) if void else told,
            voided=tuple(one for one in told if one.query_id in void),
            changes=self._changes.kept(),
        )

    def metrics(self, connection: Connection, study: Row[Any]) -> tuple[tuple[int, Mapping[str, Any]], ...]:
        """What is measured changes no version. SQLite tells whether anybody else has written; elsewhere all is looked at."""
        mark = _mark(connection)
        if mark is not None and self._mark is not None and mark[0] is self._mark[0] and mark[1] == self._mark[1]:
            if self._measured:
                self._metrics.some(connection, study, self._measured)
        else:
            self._metrics.all(connection, study)
        self._mark, self._measured = mark, set()
        return self._metrics.kept()

    def wrote(self, before: int, after: int, touched: Iterable[int] | None, measured: Iterable[int] = ()) -> None:
        """Take note of a write of our own that brought the study from one version to another, and of the queries it touched or
        the numbers of observations at which it measured."""
        self._measured |= set(measured)
        if touched is None:
            self._mark = None
        if self._version == before and touched is not None:
            self._version = after
            self._touched |= set(touched)
        elif before != after or touched is None:
            self._version = None


def _mark(connection: Connection) -> tuple[Any, int] | None:
    """A connection to SQLite and a number that changes when anybody but this connection has written to the file."""
    if connection.dialect.name != "sqlite":
        return None
    return connection.connection.dbapi_connection, connection.exec_driver_sql("PRAGMA data_version").scalar_one()
