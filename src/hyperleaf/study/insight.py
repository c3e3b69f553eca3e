"""What a study has made of its record: what was learned of each output, and how well it is known.

Everything here follows from the record and can be found again, so that nothing of it need be kept; what is kept saves time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hyperleaf.config import Definition
from hyperleaf.data import Pool
from hyperleaf.domain import Domain
from hyperleaf.errors import NotFittedYetError
from hyperleaf.storage.base import Record, Storage
from hyperleaf.study.accuracy import NUM_REFERENCES, WHOLE, Accuracy, measure
from hyperleaf.study.clock import Clock
from hyperleaf.study.snapshot import History

if TYPE_CHECKING:
    from hyperleaf.study.learning import Knowledge, Learner

Figures = Mapping[str, Accuracy]  # by output
Test = tuple[NDArray[np.float64], Mapping[str, NDArray[np.float64]]]


class Insight:
    """Learns from records of one study and measures what was learned."""

    def __init__(
        self, name: str, definition: Definition, domain: Domain, storage: Storage, pool: Pool | None, test: Test | None
    ) -> None:
        self.name = name
        self.definition, self.domain, self.storage, self.pool, self.test = definition, domain, storage, pool, test
        self.seconds = {"learning": 0.0, "choosing": 0.0, "measuring": 0.0, "storing": 0.0}
        self._again: tuple[int, dict[int, Figures]] = (0, {})  # measured since the change of that number

    @cached_property
    def learner(self) -> Learner:
        """Made when it is needed: telling and looking need no surrogate, and JAX takes a while to load."""
        from hyperleaf.study.learning import Learner

        return Learner(self.definition, self.domain, self.storage)

    def use(self, storage: Storage) -> None:
        """From now on."""
        self.storage = storage
        if "learner" in self.__dict__:
            self.learner.storage = storage

    def save(self) -> None:
        """Keep in the store what has been learned, if anything was."""
        if "learner" in self.__dict__:
            self.learner.save()

    def can_learn(self, record: Record) -> bool:
        """Whether enough was told for the surrogate to say anything."""
        return len(record.observations) >= self.learner.least

    def success(self, record: Record) -> Callable[[Any], Any] | None:
        """The learned probability that a run succeeds; None where none failed, or failures are not to be avoided."""
        from hyperleaf.study.choosing import feasibility_of

        return feasibility_of(self.definition, self.domain, record)

    def knowledge(self, record: Record, settled: Callable[[Knowledge], None] | None = None, *, afresh: bool = False) -> Knowledge:
        """What is known with everything of the record taken in."""
        if not self.can_learn(record):
            told, least = len(record.observations), self.learner.least
            raise NotFittedYetError(
                f"the study {self.name!r} has learned nothing yet: its surrogate needs {least} "
                f"{'run' if least == 1 else 'runs'}, and {told or 'none'} {'was' if told <= 1 else 'were'} told. Tell some first."
            )
        with Clock(self.seconds, "learning"):
            return self.learner.learn(record, settled, afresh=afresh)

    def filled_in(self, record: Record, history: History) -> tuple[Knowledge, dict[int, Figures]]:
        """What is known, and the accuracy after earlier epochs that went with data that were put right: all is learned again to
        measure it, once. Nothing is written."""
        if not record.changes:
            return self.knowledge(record), {}
        from hyperleaf.study.learning import counts_of

        if self._again[0] != record.changes[-1].number:
            self._again = record.changes[-1].number, {}
        again = self._again[1]
        missing = counts_of(record, self.learner.least) - {num for num, _ in history}

        def fill_in(known: Knowledge) -> None:
            if len(known.ids) in missing:
                again[len(known.ids)] = self.measured(known)

        known = self.knowledge(record, fill_in, afresh=bool(missing - again.keys()))
        return known, {num: again[num] for num in sorted(missing & again.keys())}

    def measured(self, known: Knowledge) -> dict[str, Accuracy]:
        """How well each output is known."""
        with Clock(self.seconds, "measuring"):
            references = self.references()
            found = {}
            for name, model in known.models.items():
                test = None if self.test is None else (self.test[0], self.test[1][name])
                found[name] = measure(model, references, test)
            return found

    def keep(self, measured: Mapping[int, Figures]) -> None:
        """Accuracy after numbers of observations, in the store."""
        with Clock(self.seconds, "measuring"):
            for num, found in measured.items():
                values = {name: _finite(asdict(one)) for name, one in found.items()}
                self.storage.put_metrics(self.name, num, values)

    def measure(self, known: Knowledge) -> dict[str, Accuracy]:
        """Accuracy now; kept in the store, once for each number of observations."""
        found = self.measured(known)
        self.keep({len(known.ids): found})
        return found

    def references(self) -> NDArray[np.float64]:
        """Where the surrogate will be used: the pool, thinned if large, or a Sobol sample of the domain; always the same."""
        if self.pool is not None:
            if len(self.pool) <= WHOLE:
                return self.pool.unit
            return self.pool.unit[np.linspace(0, len(self.pool) - 1, NUM_REFERENCES).round().astype(int)]
        return self.domain.to_unit(self.domain.design(NUM_REFERENCES, "sobol", self.definition.study.seed))


def _finite(values: Mapping[str, Any]) -> dict[str, Any]:
    """What JSON can hold: figures that are no number are left out."""
    return {key: value for key, value in values.items() if value is not None and np.isfinite(value)}
