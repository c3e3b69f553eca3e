"""One consistent reading of a study: what status, the loop, reports and whatever else watches it look at.

A snapshot is taken by `Study.snapshot()` and never changes; taking one writes nothing. With `learn=True` it also holds what was
learned from everything told at that moment, and how good that is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hyperleaf.config import Definition
from hyperleaf.domain import Domain
from hyperleaf.storage.base import Change, Observation, Query, Record, State
from hyperleaf.study.accuracy import Accuracy, noise_of_outputs
from hyperleaf.study.limits import kept_so_far
from hyperleaf.study.stopping import Verdict, View, verdicts
from hyperleaf.study.suspects import Suspect, find_suspects

if TYPE_CHECKING:
    from hyperleaf.surrogates.learned import Learned
    from hyperleaf.surrogates.noise import Noise

SHOWN = 5  # of the runs that ended last
History = tuple[tuple[int, Mapping[str, Accuracy]], ...]


@dataclass(frozen=True)
class Status:
    """How a study stands. `told` is what the `last` queries gave, and where their runs were made if not where they were asked."""

    name: str
    storage: str
    num_observations: int
    counts: Mapping[str, int]
    rules: tuple[Verdict, ...]
    accuracy: Mapping[str, Accuracy]
    last: tuple[Query, ...]
    open: tuple[Query, ...]
    noise: Mapping[str, Noise]
    changes: tuple[Change, ...]
    suspects: tuple[Suspect, ...]
    told: Mapping[int, Observation]
    limits: str = ""  # how they were kept, in words; "" where there are none


@dataclass(frozen=True)
class Snapshot:
    """A study at one moment. `history` is the accuracy after each number of observations, as it was measured then.

    `models` is what was learned of each output; empty if that was not asked for, or if too little has been told. `success` gives
    the probability that a run succeeds at rows of the unit cube; None where none failed, or failures are not to be avoided.
    `seconds` is what the study's process has spent on it.
    """

    record: Record
    definition: Definition
    domain: Domain
    storage: str
    history: History
    pool_size: int | None = None
    models: Mapping[str, Learned] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    success: Callable[[Any], Any] | None = None
    candidates: NDArray[np.float64] | None = None  # of a pool, in the unit cube
    test_size: int | None = None

    @property
    def name(self) -> str:
        return self.record.name

    @property
    def accuracy(self) -> Mapping[str, Accuracy]:
        """As it was measured last; empty before it was."""
        return self.history[-1][1] if self.history else {}

    @cached_property
    def counts(self) -> Mapping[str, int]:
        """How many queries are in each state."""
        counts = dict.fromkeys((state.value for state in State), 0)
        for query in self.record.queries:
            counts[query.state.value] += 1
        return counts

    @property
    def num_done(self) -> int:
        return self.counts[State.DONE.value]

    def in_state(self, *states: State) -> list[Query]:
        return [query for query in self.record.queries if query.state in states]

    @cached_property
    def ended(self) -> tuple[Query, ...]:
        """Those that are done, have failed, or were voided after that, in the order in which they ended."""
        over = [query for query in self.record.queries if query.ended_at is not None]
        return tuple(sorted(over, key=lambda query: (query.ended_at, query.id)))

    def rules(
        self, definition: Definition | None = None, seconds: float = 0.0, without: Collection[int] = ()
    ) -> tuple[Verdict, ...]:
        """How the stop rules stand, those of the study or of another definition, after so many seconds of a run.

        Queries `without` do not count as failures, nor do those that were voided.
        """
        counted = [query for query in self.ended if query.id not in without and query.state is not State.VOID]
        failures = failures_in_a_row(counted)
        return tuple(verdicts(View(definition or self.definition, self.num_done, failures, seconds, self.history)))

    def noise(self) -> dict[str, Noise]:
        """What is known of the noise of each output."""
        return noise_of_outputs(self.definition, self.domain, self.record, self.accuracy)

    @cached_property
    def suspects(self) -> tuple[Suspect, ...]:
        """Outputs that do not go with the others, as after a comma lost, with what to do about them."""
        return find_suspects(self.record, self.domain, self.definition.outputs)

    def status(self) -> Status:
        """The figures that `hyperleaf status` shows."""
        shown = {query.id for query in self.ended[-SHOWN:]}
        return Status(
            self.name,
            self.storage,
            self.num_done,
            dict(self.counts),
            self.rules(),
            self.accuracy,
            self.ended[-SHOWN:],
            tuple(self.in_state(State.RUNNING, State.WAITING)),
            self.noise(),
            self.record.changes,
            self.suspects,
            {one.query_id: one for one in self.record.observations if one.query_id in shown},
            kept_so_far(self.definition, self.record).words if self.definition.limits else "",
        )


def failures_in_a_row(ended: Sequence[Query]) -> int:
    """How many of these runs, in the order in which they ended, have failed since the last that did not."""
    count = 0
    for query in reversed(ended):
        if query.state != State.FAILED:
            break
        count += 1
    return count
