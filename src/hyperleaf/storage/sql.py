"""A store in a SQL database. Every change is one transaction that is alone with its study: SQLite has one writer at a time, in
PostgreSQL the study's row is locked first. What a change does to a query is said in `transitions`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import replace
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, and_, delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from hyperleaf.storage import checks, transitions
from hyperleaf.storage.amending import Amended, amended, num_still_measured
from hyperleaf.storage.base import Amendment, Change, NewQuery, Observation, Query, Record, State
from hyperleaf.storage.database import Database
from hyperleaf.storage.readings import Reading
from hyperleaf.storage.rows import change_row, check_study, observation_of, observation_row, payload_of, query_of, query_row
from hyperleaf.storage.schema import artifacts as artifact_table, changes, metrics, observations, queries as query_table, studies


class SqlStorage:
    """Studies in a SQLite file (`sqlite:///FILE.db`) or on a PostgreSQL server (`postgresql://USER@HOST/DATABASE`).

    May be used by many processes and threads at once; can be handed to another process, which opens it anew.
    """

    def __init__(self, url: str, *, create: bool = True) -> None:
        self._database = Database(url, create=create)
        self._readings: dict[str, Reading] = {}  # used within transactions only, of which there is one at a time

    @property
    def url(self) -> str:
        return self._database.url

    def close(self) -> None:
        self._database.close()

    def now(self) -> float:
        return self._database.now()

    def __reduce__(self) -> tuple[type[SqlStorage], tuple[str]]:
        return SqlStorage, (self._database.address,)

    # --- studies

    def create_study(
        self, name: str, definition: Mapping[str, Any], *, now: float, artifacts: Mapping[str, bytes] | None = None
    ) -> None:
        kept = checks.artifacts(artifacts)
        row = {
            "name": checks.label(name, "The name of a study"),
            "definition": checks.plain(definition, "A definition"),
            "created_at": checks.finite(now, "The time"),
            "version": 1,
            "epoch": 0,
        }
        with self._database.writing() as connection:
            try:
                connection.execute(insert(studies), row)
            except IntegrityError:
                raise checks.study_exists(name, self.url) from None
            _put_artifacts(connection, self._found(connection, name), kept)

    def study_names(self) -> tuple[str, ...]:
        with self._database.reading() as connection:
            return tuple(sorted(connection.scalars(select(studies.c.name))))  # a database may sort differently

    def read(self, name: str) -> Record:
        with self._database.reading() as connection:
            study = self._found(connection, name)
            record = self._reading(study).record(connection, study)
        return replace(
            record,
            queries=tuple(replace(query, point=deepcopy(query.point)) for query in record.queries),
            observations=tuple(_copy(one) for one in record.observations),
            voided=tuple(_copy(one) for one in record.voided),
            changes=deepcopy(record.changes),
        )

    def view(self, name: str) -> tuple[Record, tuple[tuple[int, Mapping[str, Any]], ...]]:
        with self._database.reading() as connection:
            study = self._found(connection, name)
            reading = self._reading(study)
            return reading.record(connection, study), reading.metrics(connection, study)

    def version(self, name: str) -> int:
        with self._database.reading() as connection:
            return self._found(connection, name).version

    def redefine(
        self, name: str, definition: Mapping[str, Any], *, version: int, artifacts: Mapping[str, bytes] | None = None
    ) -> None:
        definition, kept = checks.plain(definition, "A definition"), checks.artifacts(artifacts)
        with self._alone(name) as (connection, study):
            _expect(study, name, version)
            _changed(connection, study, definition=definition)
            if artifacts is not None:
                for table in (artifact_table, metrics):
                    connection.execute(delete(table).where(table.c.study_id == study.id))
                _put_artifacts(connection, study, kept)

    def delete_study(self, name: str) -> None:
        with self._alone(name) as (connection, study):
            connection.execute(delete(studies).where(studies.c.id == study.id))  # the rest goes with it, by its foreign keys

    # --- queries

    def append(
        self, name: str, queries: Sequence[NewQuery], *, version: int | None, absorbed: Sequence[int] = (), now: float
    ) -> tuple[Query, ...]:
        with self._alone(name, absorbed) as (connection, study):
            if version is not None:
                _expect(study, name, version)
            group = dict.fromkeys(absorbed)
            epoch = study.epoch + bool(group)
            for number in group:
                query = self._query(connection, study, name, number)
                learned = transitions.absorbed(query, _known(connection, study, query.id), epoch)
                connection.execute(update(observations).where(_told(study, query.id)).values(epoch=learned.epoch))
            last = connection.scalar(select(func.max(query_table.c.number)).where(query_table.c.study_id == study.id)) or 0
            pairs = [transitions.numbered(query, last + 1 + offset, epoch, now=now) for offset, query in enumerate(queries)]
            told = [observation for _, observation in pairs if observation is not None]
            if pairs:
                connection.execute(insert(query_table), [query_row(study, query) for query, _ in pairs])
            if told:
                connection.execute(insert(observations), [observation_row(study, observation) for observation in told])
            if pairs or group:
                _changed(connection, study, epoch=epoch)
            return tuple(query for query, _ in pairs)

    def claim(self, name: str, query_id: int, owner: str, *, now: float, lease: float | None = None) -> Query | None:
        with self._alone(name, (query_id,)) as (connection, study):
            query = self._query(connection, study, name, query_id)
            return _keep(connection, study, transitions.claimed(query, owner, now=now, lease=lease))

    def release(self, name: str, query_id: int, owner: str | None, *, note: str = "", next_attempt: bool = False) -> Query | None:
        with self._alone(name, (query_id,)) as (connection, study):
            query = self._query(connection, study, name, query_id)
            return _keep(connection, study, transitions.released(query, owner, note=note, next_attempt=next_attempt))

    def beat(self, name: str, owner: str, *, now: float) -> int:
        now = checks.finite(now, "The time")
        with self._alone(name, ()) as (connection, study):
            running = and_(query_table.c.state == State.RUNNING.value, query_table.c.voided.is_(False))
            mine = and_(query_table.c.study_id == study.id, running, query_table.c.owner == owner)
            return connection.execute(update(query_table).where(mine).values(heartbeat=now)).rowcount

    def tell(
        self,
        name: str,
        query_id: int,
        outputs: Mapping[str, float],
        *,
        now: float,
        seconds: float | None = None,
        asked: Query | None = None,
        point: Mapping[str, Any] | None = None,
    ) -> bool:
        with self._alone(name, (query_id,)) as (connection, study):
            query = self._query(connection, study, name, query_id)
            transitions.check_same(query, asked)
            known = _known(connection, study, query.id)
            pair = transitions.told(query, known, outputs, now=now, seconds=seconds, point=point)
            if pair is None:
                return False
            connection.execute(insert(observations), observation_row(study, pair[1]))
            return _keep(connection, study, pair[0]) is not None

    def tell_failed(
        self,
        name: str,
        query_id: int,
        reason: str,
        *,
        now: float,
        seconds: float | None = None,
        asked: Query | None = None,
    ) -> bool:
        with self._alone(name, (query_id,)) as (connection, study):
            query = self._query(connection, study, name, query_id)
            transitions.check_same(query, asked)
            return _keep(connection, study, transitions.failed(query, reason, now=now, seconds=seconds, asked=asked)) is not None

    def amend(
        self,
        name: str,
        amendments: Sequence[Amendment],
        *,
        who: str,
        why: str = "",
        now: float,
        version: int | None = None,
    ) -> tuple[Change, ...]:
        with self._alone(name) as (connection, study):
            if version is not None:
                _expect(study, name, version)
            last = connection.scalar(select(func.max(changes.c.number)).where(changes.c.study_id == study.id)) or 0
            made: list[Amended] = []
            for wanted in amendments:
                query = self._query(connection, study, name, wanted.query_id)
                known, number = _known(connection, study, query.id), last + len(made) + 1
                right = amended(query, known, wanted, number=number, who=who, why=why, now=now)
                if right is None:
                    continue
                connection.execute(update(query_table).where(_asked(study, query.id)).values(query_row(study, right.query)))
                if right.observation is not None:
                    row = observation_row(study, right.observation)
                    connection.execute(update(observations).where(_told(study, query.id)).values(row))
                connection.execute(insert(changes), change_row(study, right.change))
                made.append(right)
            if made:
                void = [query.id for query in _queries(connection, study) if query.state is State.VOID]
                told = _observations(connection, study)
                still = num_still_measured(told, void, [one.observation for one in made])
                if still is not None:
                    stale = and_(metrics.c.study_id == study.id, metrics.c.num_observations > still)
                    connection.execute(delete(metrics).where(stale))
                _changed(connection, study)
            return tuple(one.change for one in made)

    # --- what goes with a study

    def put_metrics(self, name: str, num_observations: int, values: Mapping[str, Any]) -> None:
        key = {"num_observations": checks.whole(num_observations, "The number of observations", least=0)}
        measured = checks.plain(values, "Metrics")
        with self._alone(name, (), (key["num_observations"],)) as (connection, study):
            place = and_(metrics.c.study_id == study.id, metrics.c.num_observations == key["num_observations"])
            connection.execute(delete(metrics).where(place))
            connection.execute(insert(metrics), {"study_id": study.id, **key, "measured": measured})

    def metrics(self, name: str) -> tuple[tuple[int, Mapping[str, Any]], ...]:
        with self._database.reading() as connection:
            study = self._found(connection, name)
            return deepcopy(self._reading(study).metrics(connection, study))

    def put_artifact(self, name: str, key: str, payload: bytes) -> None:
        key, payload = checks.label(key, "The key of an artifact"), bytes(payload)
        with self._alone(name, ()) as (connection, study):
            connection.execute(delete(artifact_table).where(artifact_table.c.study_id == study.id, artifact_table.c.key == key))
            connection.execute(insert(artifact_table), {"study_id": study.id, "key": key, "payload": payload})

    def artifact(self, name: str, key: str) -> bytes | None:
        with self._database.reading() as connection:
            study = self._found(connection, name)
            kept = select(artifact_table.c.payload).where(artifact_table.c.study_id == study.id, artifact_table.c.key == key)
            return payload_of(key, connection.scalar(kept)) if checks.is_label(key) else None

    # --- finding things

    @contextmanager
    def _alone(
        self, name: str, touches: Sequence[int] | None = None, measures: Sequence[int] = ()
    ) -> Iterator[tuple[Connection, Row[Any]]]:
        """A transaction in which nobody else changes the study. `touches` are the queries whose rows, or whose observations, it
        changes, new ones aside; None if that cannot be told, and then all are looked at when they are read next. `measures` are
        the numbers of observations whose metrics it writes."""
        versions: list[int] = []

        def note() -> None:
            if name in self._readings:
                if versions:
                    self._readings[name].wrote(versions[0], versions[1], touches, measures)
                else:
                    del self._readings[name]

        with self._database.writing(note) as connection:
            study = self._found(connection, name, alone=True)
            yield connection, study
            after = connection.scalar(select(studies.c.version).where(studies.c.id == study.id))
            if after is not None:
                versions += [study.version, after]

    def _reading(self, study: Row[Any]) -> Reading:
        """What was read of this study before, within a transaction."""
        if study.name not in self._readings or not self._readings[study.name].of(study):
            self._readings[study.name] = Reading(study)
        return self._readings[study.name]

    def _found(self, connection: Connection, name: str, *, alone: bool = False) -> Row[Any]:
        statement = select(studies).where(studies.c.name == name)
        statement = statement.with_for_update() if alone else statement  # says nothing to SQLite, which has no need of it
        study = connection.execute(statement).one_or_none() if checks.is_label(name) else None
        if study is None:
            raise checks.no_study(name, self.url)
        check_study(study)
        return study

    def _query(self, connection: Connection, study: Row[Any], name: str, number: int) -> Query:
        number = checks.query_number(name, number)
        row = connection.execute(select(query_table).where(_asked(study, number))).one_or_none()
        if row is None:
            raise checks.unknown_query(name, number)
        return query_of(row)


def _expect(study: Row[Any], name: str, version: int) -> None:
    if study.version != version:
        raise checks.changed(name, version, study.version)


def _changed(connection: Connection, study: Row[Any], **columns: Any) -> None:
    connection.execute(update(studies).where(studies.c.id == study.id).values(version=study.version + 1, **columns))


def _keep(connection: Connection, study: Row[Any], query: Query | None) -> Query | None:
    if query is not None:
        connection.execute(update(query_table).where(_asked(study, query.id)).values(query_row(study, query)))
        _changed(connection, study)
    return query


def _put_artifacts(connection: Connection, study: Row[Any], artifacts: Mapping[str, bytes]) -> None:
    rows = [{"study_id": study.id, "key": key, "payload": payload} for key, payload in artifacts.items()]
    if rows:
        connection.execute(insert(artifact_table), rows)


def _queries(connection: Connection, study: Row[Any]) -> tuple[Query, ...]:
    asked = select(query_table).where(query_table.c.study_id == study.id).order_by(query_table.c.number)
    return tuple(query_of(row) for row in connection.execute(asked))


def _observations(connection: Connection, study: Row[Any]) -> tuple[Observation, ...]:
    told = select(observations).where(observations.c.study_id == study.id).order_by(observations.c.query_number)
    return tuple(observation_of(row) for row in connection.execute(told))


def _copy(known: Observation) -> Observation:
    return replace(known, outputs=dict(known.outputs), point=deepcopy(known.point))


def _known(connection: Connection, study: Row[Any], number: int) -> Observation | None:
    row = connection.execute(select(observations).where(_told(study, number))).one_or_none()
    return None if row is None else observation_of(row)


def _asked(study: Row[Any], number: int) -> ColumnElement[bool]:
    return and_(query_table.c.study_id == study.id, query_table.c.number == number)


def _told(study: Row[Any], number: int) -> ColumnElement[bool]:
    return and_(observations.c.study_id == study.id, observations.c.query_number == number)
