"""What a report is about, gathered once: the runs, and for each output what is known and how well.

Nothing here knows of pages or pictures. `gather` takes a snapshot; a study that has learned nothing has facts too, only fewer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hyperleaf.config import Definition
from hyperleaf.domain import Domain
from hyperleaf.kernels import Partition
from hyperleaf.mixture import Mixture
from hyperleaf.plots.view import base_point
from hyperleaf.report.effects import Effect, effects_of
from hyperleaf.storage.base import Query, Record, State
from hyperleaf.study.accuracy import Accuracy, noise_of_outputs
from hyperleaf.study.helping import Helping, find_helping
from hyperleaf.study.snapshot import History, Snapshot
from hyperleaf.study.stopping import Verdict, targets
from hyperleaf.surrogates.learned import Learned
from hyperleaf.surrogates.noise import Noise

Values = NDArray[np.float64]


@dataclass(frozen=True)
class Known:
    """One output as it was learned. `left_out` are its observations, each predicted from all others, in native units.

    `noise` is what is known of the noise; `effects` the shares of the variation that are due to each input, where there are
    several; `partition` the most probable division of the inputs, where the surrogate makes one; `target` the error that was
    wanted; `helping` what random runs would have taught.
    """

    name: str
    unit: str
    model: Learned
    accuracy: Accuracy
    left_out: Mixture | None
    noise: Noise
    effects: Mapping[str, Effect]
    partition: Partition | None
    target: float | None
    helping: Helping | None = None
    curve: tuple[tuple[int, Accuracy], ...] = ()  # after each number of runs, as it was measured then
    doubtful: tuple[int, ...] = ()  # queries whose value does not go with the others, and counts all the same
    aside: tuple[int, ...] = ()  # those whose value a robust output does not learn from

    @property
    def label(self) -> str:
        return f"{self.name} [{self.unit}]" if self.unit else self.name

    @property
    def width(self) -> float:
        """Largest less smallest value seen."""
        return float(np.ptp(self.model.y))


@dataclass(frozen=True)
class Facts:
    """A study at one moment. `unit` are all queries in the unit cube, ordered as in the record; slices go through `base`."""

    snapshot: Snapshot
    unit: Values
    known: tuple[Known, ...]
    rules: tuple[Verdict, ...]
    base: Values
    base_words: str

    @property
    def name(self) -> str:
        return self.snapshot.name

    @property
    def record(self) -> Record:
        return self.snapshot.record

    @property
    def definition(self) -> Definition:
        return self.snapshot.definition

    @property
    def domain(self) -> Domain:
        return self.snapshot.domain

    @property
    def history(self) -> History:
        return self.snapshot.history

    @property
    def success(self) -> Callable[[Values], Values] | None:
        """Unit-cube points to the probability that a run succeeds there; None where none failed."""
        return self.snapshot.success

    @property
    def has_test(self) -> bool:
        return any(one.test_rmse is not None for one in self.snapshot.accuracy.values())

    def in_state(self, *states: State) -> list[Query]:
        return self.snapshot.in_state(*states)

    @property
    def num_done(self) -> int:
        return self.snapshot.num_done

    @property
    def outputs_of(self) -> dict[int, Mapping[str, float]]:
        """What each run gave, voided ones too."""
        return {one.query_id: one.outputs for one in (*self.record.observations, *self.record.voided)}


def gather(snapshot: Snapshot, at: Mapping[str, Any] | None = None, *, helping: bool = True) -> Facts:
    """The facts of a study, from a snapshot that has learned; `at` is the point that slices go through, in native units. What
    random runs would have taught takes a while, and is left out without `helping`."""
    record, domain, definition = snapshot.record, snapshot.domain, snapshot.definition
    accuracy = snapshot.accuracy if snapshot.models else {}
    places = [dict(place) for place in record.places().values()]
    unit = domain.to_unit(places) if places else np.zeros((0, domain.num_dims))
    noise = noise_of_outputs(definition, domain, record, accuracy)
    wanted = targets(definition, accuracy) if accuracy else {}
    known = []
    for name, output in definition.outputs.items():
        if name in snapshot.models and name in accuracy:
            model = snapshot.models[name]
            left_out = model.posterior.left_out()
            known.append(
                Known(
                    name,
                    output.unit,
                    model,
                    accuracy[name],
                    None if left_out is None else left_out.affine(model.scale.loc, model.scale.scale),
                    noise[name],
                    effects_of(model, domain, definition.study.seed),
                    model.posterior.partition(),
                    wanted.get(name),
                    _helping(model, snapshot) if helping else None,
                    tuple((num, values[name]) for num, values in snapshot.history if name in values),
                    () if output.noise == "robust" else tuple(s.query_id for s in snapshot.suspects if s.output == name),
                    _aside(model, record),
                )
            )
    base, words = _base(domain, unit[[query.state == State.DONE for query in record.queries]], at)
    return Facts(snapshot, unit, tuple(known), snapshot.rules(), base, words)


def _aside(model: Learned, record: Record) -> tuple[int, ...]:
    """The queries whose values were set aside; they were taken in by epochs, and within one by their numbers."""
    taken = sorted(record.observations, key=lambda one: (one.epoch is None, one.epoch or 0, one.query_id))
    return tuple(sorted(taken[i].query_id for i in model.aside))


def _helping(model: Learned, snapshot: Snapshot) -> Helping | None:
    definition = snapshot.definition
    plain = definition.surrogate.kind != "stationary"
    return find_helping(model, snapshot.domain, snapshot.candidates, seed=definition.study.seed, plain=plain)


def _base(domain: Domain, done: Values, at: Mapping[str, Any] | None) -> tuple[Values, str]:
    """Where slices cross: where the reader wants, else the centre, or the finished run nearest to it if that is forbidden."""
    if at is not None:
        return base_point(domain, at), "the point that was asked for"
    centre = base_point(domain, None)
    if len(done) and domain.constraints and not bool(domain.feasible_unit(centre[None])[0]):
        return done[int(np.argmin(np.sum((done - centre) ** 2, axis=1)))], "the finished run nearest to the centre"
    return centre, "the centre of the domain"
