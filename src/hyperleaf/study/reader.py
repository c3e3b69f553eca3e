"""The record of a study and what was measured, as a store gives them, checked; what was read before is not read again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hyperleaf.domain import Domain
from hyperleaf.storage.base import Query, Record, Storage
from hyperleaf.storage.checks import unknown_query
from hyperleaf.study import intact
from hyperleaf.study.snapshot import History


class Reader:
    """Reads one study."""

    def __init__(self, storage: Storage, name: str, domain: Domain, outputs: tuple[str, ...]) -> None:
        self.storage, self._name, self._domain, self._outputs = storage, name, domain, outputs
        self._seen: Record | None = None
        self._measurements: tuple[tuple[int, Mapping[str, Any]], ...] = ()  # as the store gave them, and what they mean
        self._history: History = ()

    def read(self) -> tuple[Record, History]:
        """The record and what was measured, at one moment; shared with whoever reads next, so not to be changed."""
        record, measured = self.storage.view(self._name)
        self._seen = intact.checked(record, self._domain, self._outputs, self._seen)
        if measured is not self._measurements:
            known = {id(values): accuracy for (_, values), (_, accuracy) in zip(self._measurements, self._history, strict=True)}
            self._history = tuple((num, known.get(id(values)) or intact.accuracy_of(num, values)) for num, values in measured)
            self._measurements = measured
        return record, self._history

    def record(self) -> Record:
        return self.read()[0]

    def query(self, number: int) -> Query:
        """The query of that number."""
        for query in self.record().queries:
            if query.id == number:
                return query
        raise unknown_query(self._name, number)
