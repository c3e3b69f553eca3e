"""A store that lives as long as its process: for tests, notebooks and short campaigns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from threading import RLock
from typing import Any, NoReturn

from hyperleaf.storage import checks, transitions
from hyperleaf.storage.base import NewQuery, Observation, Query, Record, State, StorageError


@dataclass
class _Study:
    definition: dict[str, Any]
    created_at: float
    version: int = 1
    epoch: int = 0
    queries: dict[int, Query] = field(default_factory=dict)
    observations: dict[int, Observation] = field(default_factory=dict)
    metrics: dict[int, dict[str, Any]] = field(default_factory=dict)
    artifacts: dict[str, bytes] = field(default_factory=dict)

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
            observations = [study.observations[number] for number in sorted(study.observations)]
            return Record(
                name=name,
                definition=deepcopy(study.definition),
                created_at=study.created_at,
                version=study.version,
                epoch=study.epoch,
                queries=tuple(_copy(query) for query in study.queries.values()),
                observations=tuple(replace(known, outputs=dict(known.outputs)) for known in observations),
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
            learned = [
                transitions.absorbed(number, study.observations.get(study.query(name, number).id), epoch) for number in group
            ]
            first = len(study.queries) + 1
            pairs = [transitions.numbered(new, first + offset, epoch, now=now) for offset, new in enumerate(queries)]
            # everything has been checked: from here on nothing fails, so that all or nothing is kept
            study.epoch = epoch
            study.version += bool(group or pairs)
            study.queries.update((query.id, query) for query, _ in pairs)
            told = [observation for _, observation in pairs if observation is not None]
            study.observations.update((observation.query_id, observation) for observation in (*learned, *told))
            return tuple(_copy(query) for query, _ in pairs)

    def claim(self, name: str, query_id: int, owner: str, *, now: float) -> Query | None:
        with self._lock:
            study = self._study(name)
            return study.keep(transitions.claimed(study.query(name, query_id), owner, now=now))

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
    ) -> bool:
        with self._lock:
            study = self._study(name)
            query = study.query(name, query_id)
            transitions.check_same(query, asked)
            pair = transitions.told(query, study.observations.get(query.id), outputs, now=now, seconds=seconds)
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
            return study.keep(transitions.failed(query, reason, now=now, seconds=seconds)) is not None

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
