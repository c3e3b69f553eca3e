"""A store that lives as long as its process: for tests, notebooks and short campaigns."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from threading import RLock
from typing import Any, NoReturn

from hyperleaf.storage import checks, transitions
from hyperleaf.storage.amending import Amended, amended, num_still_measured
from hyperleaf.storage.base import Amendment, Change, NewQuery, Observation, Query, Record, State, StorageError


@dataclass
class _Study:
    definition: dict[str, Any]
    created_at: float
    version: int = 1
    epoch: int = 0
    queries: dict[int, Query] = field(default_factory=dict)
    observations: dict[int, Observation] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)
    metrics: dict[int, dict[str, Any]] = field(default_factory=dict)
    artifacts: dict[str, bytes] = field(default_factory=dict)

    @property
    def void(self) -> set[int]:
        return {query.id for query in self.queries.values() if query.state is State.VOID}

    def query(self, name: str, number: int) -> Query:
        number = checks.query_number(name, number)
        if number not in self.queries:
            raise checks.unknown_query(name, number)
        return self.queries[number]

    def keep(self, query: Query | None) -> Query | None:
        if query is not None:
            self.queries[query.id] = query
            self.version += 1
        return None if query is None else _copy(query)

    def expect(self, name: str, version: int) -> None:
        if version != self.version:
            raise checks.changed(name, version, self.version)


def _copy(query: Query) -> Query:
    return replace(query, point=deepcopy(query.point))


class MemoryStorage:
    """Studies in memory, for all threads of this process. What it gives out is a copy."""

    url = "memory://"

    def __init__(self) -> None:
        self._studies: dict[str, _Study] = {}
        self._lock = RLock()

    def close(self) -> None:
        """Nothing to do; the studies go with the object."""

    def now(self) -> float:
        return time.time()

    def __reduce__(self) -> NoReturn:
        raise StorageError("A store in memory cannot be handed to another process: use sqlite:///FILE.db for several processes.")

    def _study(self, name: str) -> _Study:
        if not checks.is_label(name) or name not in self._studies:
            raise checks.no_study(name, self.url)
        return self._studies[name]

    # --- studies

    def create_study(
        self, name: str, definition: Mapping[str, Any], *, now: float, artifacts: Mapping[str, bytes] | None = None
    ) -> None:
        study = _Study(checks.plain(definition, "A definition"), checks.finite(now, "The time"))
        study.artifacts.update(checks.artifacts(artifacts))
        with self._lock:
            if checks.label(name, "The name of a study") in self._studies:
                raise checks.study_exists(name, self.url)
            self._studies[name] = study

    def study_names(self) -> tuple[str, ...]:
        with self._lock:
            return tuple(sorted(self._studies))

    def read(self, name: str) -> Record:
        with self._lock:
            study = self._study(name)
            void = study.void
            told = [deepcopy(study.observations[number]) for number in sorted(study.observations)]
            return Record(
                name=name,
                definition=deepcopy(study.definition),
                created_at=study.created_at,
                version=study.version,
                epoch=study.epoch,
                queries=tuple(_copy(query) for query in study.queries.values()),
                observations=tuple(one for one in told if one.query_id not in void),
                voided=tuple(one for one in told if one.query_id in void),
                changes=tuple(deepcopy(study.changes)),
            )

    def view(self, name: str) -> tuple[Record, tuple[tuple[int, Mapping[str, Any]], ...]]:
        with self._lock:
            return self.read(name), self.metrics(name)

    def version(self, name: str) -> int:
        with self._lock:
            return self._study(name).version

    def redefine(
        self, name: str, definition: Mapping[str, Any], *, version: int, artifacts: Mapping[str, bytes] | None = None
    ) -> None:
        definition, kept = checks.plain(definition, "A definition"), checks.artifacts(artifacts)
        with self._lock:
            study = self._study(name)
            study.expect(name, version)
            study.definition = definition
            study.version += 1
            if artifacts is not None:
                study.artifacts, study.metrics = kept, {}

    def delete_study(self, name: str) -> None:
        with self._lock:
            self._study(name)
            del self._studies[name]

    # --- queries

    def append(
        self, name: str, queries: Sequence[NewQuery], *, version: int | None, absorbed: Sequence[int] = (), now: float
    ) -> tuple[Query, ...]:
        with self._lock:
            study = self._study(name)
            if version is not None:
                study.expect(name, version)
            group = dict.fromkeys(absorbed)
            epoch = study.epoch + bool(group)
            asked = [study.query(name, number) for number in group]
            learned = [transitions.absorbed(query, study.observations.get(query.id), epoch) for query in asked]
            first = len(study.queries) + 1
            pairs = [transitions.numbered(new, first + offset, epoch, now=now) for offset, new in enumerate(queries)]
            # everything has been checked: from here on nothing fails, so that all or nothing is kept
            study.epoch = epoch
            study.version += bool(group or pairs)
            study.queries.update((query.id, query) for query, _ in pairs)
            told = [observation for _, observation in pairs if observation is not None]
            study.observations.update((observation.query_id, observation) for observation in (*learned, *told))
            return tuple(_copy(query) for query, _ in pairs)

    def claim(self, name: str, query_id: int, owner: str, *, now: float, lease: float | None = None) -> Query | None:
        with self._lock:
            study = self._study(name)
            return study.keep(transitions.claimed(study.query(name, query_id), owner, now=now, lease=lease))

    def release(self, name: str, query_id: int, owner: str | None, *, note: str = "", next_attempt: bool = False) -> Query | None:
        with self._lock:
            study = self._study(name)
            query = study.query(name, query_id)
            return study.keep(transitions.released(query, owner, note=note, next_attempt=next_attempt))

    def beat(self, name: str, owner: str, *, now: float) -> int:
        now = checks.finite(now, "The time")
        with self._lock:
            study = self._study(name)
            mine = [query for query in study.queries.values() if query.state is State.RUNNING and query.owner == owner]
            study.queries.update((query.id, replace(query, heartbeat=now)) for query in mine)
            return len(mine)

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
        with self._lock:
            study = self._study(name)
            query = study.query(name, query_id)
            transitions.check_same(query, asked)
            known = study.observations.get(query.id)
            pair = transitions.told(query, known, outputs, now=now, seconds=seconds, point=point)
            if pair is None:
                return False
            study.observations[query.id] = pair[1]
            return study.keep(pair[0]) is not None

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
        with self._lock:
            study = self._study(name)
            query = study.query(name, query_id)
            transitions.check_same(query, asked)
            return study.keep(transitions.failed(query, reason, now=now, seconds=seconds, asked=asked)) is not None

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
        with self._lock:
            study = self._study(name)
            if version is not None:
                study.expect(name, version)
            right = replace(study, queries=dict(study.queries), observations=dict(study.observations))
            made: list[Amended] = []
            for wanted in amendments:
                query = right.query(name, wanted.query_id)
                known, number = right.observations.get(query.id), len(study.changes) + len(made) + 1
                one = amended(query, known, wanted, number=number, who=who, why=why, now=now)
                if one is None:
                    continue
                right.queries[query.id] = one.query
                if one.observation is not None:
                    right.observations[query.id] = one.observation
                made.append(one)
            # everything has been checked: from here on nothing fails
            study.queries, study.observations = right.queries, right.observations
            study.version += bool(made)
            study.changes += [one.change for one in made]
            still = num_still_measured(right.observations.values(), right.void, [one.observation for one in made])
            if still is not None:
                study.metrics = {num: values for num, values in study.metrics.items() if num <= still}
            return tuple(deepcopy(one.change) for one in made)

    # --- what goes with a study

    def put_metrics(self, name: str, num_observations: int, values: Mapping[str, Any]) -> None:
        num_observations = checks.whole(num_observations, "The number of observations", least=0)
        kept = checks.plain(values, "Metrics")
        with self._lock:
            self._study(name).metrics[num_observations] = kept

    def metrics(self, name: str) -> tuple[tuple[int, Mapping[str, Any]], ...]:
        with self._lock:
            return tuple((number, deepcopy(kept)) for number, kept in sorted(self._study(name).metrics.items()))

    def put_artifact(self, name: str, key: str, payload: bytes) -> None:
        key, payload = checks.label(key, "The key of an artifact"), bytes(payload)
        with self._lock:
            self._study(name).artifacts[key] = payload

    def artifact(self, name: str, key: str) -> bytes | None:
        with self._lock:
            kept = self._study(name).artifacts
            return kept.get(key) if checks.is_label(key) else None
