"""A study: the state machine of one campaign. `ask` names the next queries, `tell` keeps what they gave; nothing is ever lost.

All state is in the store; an object of this class holds only what it last learned, so any number of them, in any number of
processes, may work on one study. The queries are a function of the seed and of what was told: observations that are new when a
query is chosen are taken in as one group, in the order of their numbers, and the group is recorded with the query.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hyperleaf import doors
from hyperleaf.checks import whole_number
from hyperleaf.config import Definition, validate
from hyperleaf.data import Pool
from hyperleaf.domain import Domain
from hyperleaf.errors import InputError
from hyperleaf.storage import open_storage
from hyperleaf.storage.base import Kind, Query, Record, Storage
from hyperleaf.study import asking, corrections, intact, portrait, tables, telling
from hyperleaf.study.accuracy import Accuracy
from hyperleaf.study.clock import Clock
from hyperleaf.study.corrections import number_of as _number
from hyperleaf.study.defining import POOL, TEST, check_address, make, make_or_change, only_name, resolved, values_of
from hyperleaf.study.insight import Insight
from hyperleaf.study.owners import this_process
from hyperleaf.study.reader import Reader
from hyperleaf.study.safety import Safety
from hyperleaf.study.snapshot import Snapshot, Status
from hyperleaf.study.suspects import Suspect

if TYPE_CHECKING:
    from pandas import DataFrame

    from hyperleaf.mixture import Mixture
    from hyperleaf.surrogates.base import Posterior
    from hyperleaf.surrogates.learned import Learned


class Study:
    """One campaign. Make it with `create`, `define` (from a config) or `load`."""

    def __init__(self, storage: Storage, name: str, folder: str | Path = ".") -> None:
        record = storage.read(name)
        self.storage, self.name, self.folder = storage, name, Path(folder)
        self._defined = record.definition
        self.definition = intact.definition_of(record)
        self.domain: Domain = self.definition.make_domain()
        self.outputs: tuple[str, ...] = tuple(self.definition.outputs)
        self.pool: Pool | None = intact.pool_of(storage.artifact(name, POOL), self.domain)
        test = intact.test_of(storage.artifact(name, TEST), self.domain, self.outputs)
        self._insight = Insight(name, self.definition, self.domain, storage, self.pool, test)
        self._reader = Reader(storage, name, self.domain, self.outputs)

    # --- beginning

    @classmethod
    def create(
        cls,
        name: str,
        domain: Domain,
        outputs: str | Sequence[str] | Mapping[str, Any],
        *,
        storage: str | Storage | None = None,
        seed: int = 0,
        description: str = "",
        surrogate: str | Mapping[str, Any] = "hhk",
        acquisition: str | Mapping[str, Any] = "entropy",
        design: int | Mapping[str, Any] = 5,
        pool: Any = None,
        test: Any = None,
        stop: Mapping[str, Any] | None = None,
        failures: Mapping[str, Any] | None = None,
        limits: Mapping[str, Any] | None = None,
        safety: Mapping[str, Any] | None = None,
        simulator: Mapping[str, Any] | None = None,
        folder: str | Path = ".",
    ) -> Study:
        """A new study. `storage` is an address ("sqlite:///runs.db"), a store, or None for one in memory.

        `pool` are finite candidates (a Pool, a table, or a CSV file); `test` a table of known runs that is not learned from but
        on which accuracy is measured. `outputs` are names, or a mapping to {"noise", "range", "weight", "unit"}; "noise"
        is "learned", "per leaf" where it differs by region, "auto" (which of these two), "robust" where some values may be wild,
        "none" where runs repeat exactly, or a standard deviation. A `surrogate` is "hhk", "stationary", "warped", "treed" or
        "deep", or a mapping of "kind" and its options, such as {"kind": "hhk", "effort": "thorough"}. `limits` are what outputs
        must keep to, {"temperature": {"max": 900}}; `safety` how, {"start": […], "ramps": {…}}: see docs/limits.md.
        """
        sections = values_of(name, domain, outputs, surrogate, acquisition, design, seed=seed, description=description)
        more = {"stop": stop, "failures": failures, "limits": limits, "safety": safety}
        values = {**sections, **{section: dict(given or {}) for section, given in more.items()}}
        if simulator is not None:
            values["simulator"] = dict(simulator)
        definition, store = validate(values), open_storage(storage)
        make(definition, store, pool, test)
        return cls(store, name, folder)

    @classmethod
    def define(cls, definition: Definition, *, storage: str | Storage | None = None, folder: str | Path = ".") -> Study:
        """The study of a config: made if the store does not hold it, loaded if it does.

        While a study goes on its simulator, stop rules, handling of failures, acquisition and safety may change; anything else
        would make its past and its future two different studies, and is refused once something was asked.
        """
        check_address(definition)
        address = storage if storage is not None else definition.study.storage
        store = open_storage(resolved(address, Path(folder)))
        make_or_change(definition, store, Path(folder))
        return cls(store, definition.study.name, folder)

    @classmethod
    def load(cls, name: str | None = None, storage: str | Storage | None = None, *, folder: str | Path = ".") -> Study:
        """A study that is in a store; the only one there, if no name is given."""
        if storage is None:
            raise InputError('a study is loaded from a store; got none. Pass storage="sqlite:///runs.db".')
        store = open_storage(resolved(storage, Path(folder)), create=False)
        return cls(store, only_name(store) if name is None else name, folder)

    @property
    def seed(self) -> int:
        """From which all chance of the study comes."""
        return self.definition.study.seed

    @property
    def seconds(self) -> dict[str, float]:
        """Where the time went: learning, choosing, measuring, storing."""
        return self._insight.seconds

    def record(self) -> Record:
        """Everything told and asked so far, as one consistent view."""
        return intact.checked(self.storage.read(self.name), self.domain, self.outputs)

    def snapshot(self, *, learn: bool = False) -> Snapshot:
        """The study as it stands at this moment; nothing is written, whatever is read.

        With `learn`, everything told is learned from and measured first, if there is enough of it; that is quick only if it was
        done before.
        """
        record, history = self._reader.read()
        models: Mapping[str, Learned] = {}
        success = self._insight.success(record) if learn else None
        if learn and self._insight.can_learn(record):
            known, again = self._insight.filled_in(record, history)
            models = known.models
            history = tuple(sorted((dict(history) | again | {len(known.ids): self._insight.measured(known)}).items()))
        return Snapshot(
            record,
            self.definition,
            self.domain,
            self.storage.url,
            history,
            None if self.pool is None else len(self.pool),
            models,
            dict(self.seconds),
            success,
            None if self.pool is None else self.pool.unit,
            None if self._insight.test is None else len(self._insight.test[0]),
        )

    # --- asking and telling

    def ask(self, n: int = 1, *, owner: str | None = None, lease: float | str | None = None) -> list[Query]:
        """The next n queries, in native units: those that wait to be repeated first, then the design, then the acquisition.

        They are held by this process; should it end before they are told, they are offered again: at once on this machine, on
        others after the `lease` ("8h", or seconds; a week by itself). `owner="person"` holds them until they are told or
        released, however long that takes, unless a lease is given.
        """
        held_by = this_process() if owner is None else owner
        return asking.ask(self, whole_number("n", n), held_by, asking.lease_of(owner, lease))

    def tell(
        self, query: Query | int, outputs: Mapping[str, float] | None = None, /, *, seconds: float | None = None, **named: float
    ) -> bool:
        """Keep what a query gave: all outputs, by name. On disk when this returns.

        If an input was not set as asked, tell that too: `tell(7, torque=12.5, speed=1005)`. Both values are kept, and the
        surrogate learns from the one that was set.

        True if it is new; False if the same was told before, which changes nothing. Different outputs are refused: change them
        with `correct`.
        """
        asked = query if isinstance(query, Query) else None
        with Clock(self.seconds, "storing"):
            return telling.tell(self, _number(query), asked, {**(outputs or {}), **named}, seconds)

    def tell_failed(self, query: Query | int, reason: str, *, seconds: float | None = None, retry: bool | None = None) -> bool:
        """Say that a run failed. It is offered again if `failures.retries` allows another attempt (or as `retry` says).

        True if that changed anything; False if it was known already, or if somebody else holds the query by now.
        """
        return telling.tell_failed(self, _number(query), query if isinstance(query, Query) else None, reason, seconds, retry)

    def release(self, query: Query | int) -> bool:
        """Give a query back, so that it is offered again; False if nobody held it."""
        current = self._reader.query(_number(query))
        return self.storage.release(self.name, current.id, current.owner) is not None

    def repeat(
        self, query: Query | int, n: int = 1, *, owner: str | None = None, lease: float | str | None = None
    ) -> list[Query]:
        """Ask for the setting of a run n times more, as it was really set: how such runs differ shows the noise. Held as by
        `ask`."""
        record, held_by = self._reader.record(), this_process() if owner is None else owner
        new = corrections.repeated(record, self.domain, _number(query), whole_number("n", n), held_by)
        new = [replace(one, lease=asking.lease_of(owner, lease)) for one in new]
        return list(self.storage.append(self.name, new, version=None, now=self.storage.now()))

    # --- putting data right

    def correct(
        self,
        query: Query | int,
        values: Mapping[str, Any] | None = None,
        /,
        *,
        why: str = "",
        who: str | None = None,
        **named: Any,
    ) -> bool:
        """Correct what a query gave, or an input as it was really set; what is not named stays. False if nothing changed.

        The old values are kept, with who changed them and why. Queries asked in the meantime stay. Everything is learned
        again, and is then as if the right values had been told in the first place.
        """
        return bool(corrections.correct(self, {_number(query): {**(values or {}), **named}}, why=why, who=who))

    def void(self, *queries: Query | int, why: str = "", who: str | None = None) -> bool:
        """Set runs aside: they are not learned from, and not asked for again. False if they were set aside already."""
        return bool(corrections.cover(self, [_number(query) for query in queries], Kind.VOIDED, why=why, who=who))

    def restore(self, *queries: Query | int, why: str = "", who: str | None = None) -> bool:
        """Let voided runs count again, exactly as they did before."""
        return bool(corrections.cover(self, [_number(query) for query in queries], Kind.RESTORED, why=why, who=who))

    def confirm(self, *queries: Query | int, why: str = "", who: str | None = None) -> bool:
        """Say that what runs gave is right: they are no longer suspects. False if that was said before."""
        return bool(corrections.cover(self, [_number(query) for query in queries], Kind.CONFIRMED, why=why, who=who))

    def add(self, table: Any, *, note: str = "") -> list[Query]:
        """Learn from runs that were not asked for: a DataFrame, a list of dicts or a CSV file with all inputs and outputs.

        All rows are kept, or none if one is wrong. Added runs count towards the first design.
        """
        return telling.add(self, table, note)

    def run(self, simulator: Any = None, **options: Any) -> Any:
        """Ask, simulate and tell until a stop rule is met. See `hyperleaf.study.running.run`."""
        from hyperleaf.study.running import run

        return run(self, simulator, **options)

    # --- what was learned

    @property
    def models(self) -> dict[str, Learned]:
        """What has been learned of each output from everything told so far."""
        return dict(self._insight.knowledge(self._reader.record()).models)

    @property
    def posterior(self) -> Posterior:
        """The posterior of the first output, over the unit cube and standardised outputs."""
        return self.models[self.outputs[0]].posterior

    def predict(self, points: Any, output: str | None = None, *, noisy: bool = False) -> Mixture:
        """The latent value of an output at points in native units, or with `noisy=True` a new observation."""
        mixture = self.models[self._output(output)].predict(self.domain.to_unit(points))
        return mixture.noisy() if noisy else mixture

    def accuracy(self) -> dict[str, Accuracy]:
        """How well each output is known now, from everything told so far."""
        return self._insight.measured(self._insight.knowledge(self._reader.record()))

    def measure(self) -> dict[str, Accuracy]:
        """Measure the accuracy now, and keep it in the store beside the number of observations. Where data were corrected, the
        accuracy after earlier epochs is measured again too."""
        known, again = self._insight.filled_in(*self._reader.read())
        self._insight.keep(again)
        return self._insight.measure(known)

    def metrics(self) -> DataFrame:
        """Accuracy as it was after each query, as a DataFrame: a row for each number of observations and output."""
        return tables.metrics_of(self.history())

    def table(self) -> DataFrame:
        """All queries as a DataFrame: inputs, outputs, state, origin and times."""
        return tables.table_of(self._reader.record(), self.domain.names, self.outputs)

    def feasibility(self, points: Any) -> NDArray[np.float64]:
        """The probability that a run at each point succeeds; 1 where nothing has failed yet."""
        unit, learned = self.domain.to_unit(points), self._insight.success(self._reader.record())
        return np.ones(len(unit)) if learned is None else learned(unit)

    def safety(self) -> Safety:
        """How the limits were kept so far, how probable it is that points keep them, and which points are safest."""
        return Safety(self.snapshot)

    def status(self) -> Status:
        """How the study stands, without learning anything: quick."""
        return self.snapshot().status()

    def suspects(self) -> tuple[Suspect, ...]:
        """Outputs that do not fit the others, as when a comma was lost, and what to do about them. Nothing is learned here."""
        return self.snapshot().suspects

    def history(self) -> list[tuple[int, Mapping[str, Accuracy]]]:
        """Accuracy of all outputs after each number of observations, as it was measured then."""
        return list(self._reader.read()[1])

    def save(self) -> None:
        """Keep in the store what has been learned, so that the next process need not learn it again."""
        self._insight.save()

    def save_model(self, path: str | Path, output: str | None = None) -> Path:
        """Write the surrogate of one output to a file that `hyperleaf predict` and `hyperleaf.load_model` read."""
        from hyperleaf.study.files import save_model

        name = self._output(output)
        return save_model(path, self.models[name], self.domain, name, self.definition.outputs[name].unit)

    def report(self, path: str | Path) -> Path:
        """Write a page about this study: one HTML file that opens anywhere."""
        return doors.report(self.snapshot(learn=True), path)

    def plot(self, output: str | None = None, **options: Any) -> Any:
        """Mean and spread of an output, the first if none is named, as a figure: see `hyperleaf.plots.posterior_maps`."""
        return doors.plot(self, output=output, **options)

    export, sensitivity, optimum, level_set, propagate, derivatives = map(doors.method, doors.USES)
    connect, live = staticmethod(doors.connect), doors.live  # at a server, and in a notebook

    def __repr__(self) -> str:
        return portrait.as_text(self)

    def _repr_html_(self) -> str:
        return portrait.as_html(self)

    # --- within

    def _output(self, name: str | None) -> str:
        if name is None:
            return self.outputs[0]
        if name not in self.outputs:
            raise InputError(f"output must be one of {list(self.outputs)}; got {name!r}.")
        return name
