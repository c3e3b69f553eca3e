"""A study: the state machine of one campaign. `ask` names the next queries, `tell` keeps what they gave; nothing is ever lost.

All state is in the store; an object of this class holds only what it last learned, so any number of them, in any number of
processes, may work on one study. The queries are a function of the seed and of what was told: observations that are new when a
query is chosen are taken in as one group, in the order of their numbers, and the group is recorded with the query.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hyperleaf import doors
from hyperleaf.checks import whole_number
from hyperleaf.config import ConfigError, Definition, validate
from hyperleaf.data import Pool
from hyperleaf.domain import Domain
from hyperleaf.errors import InputError, NotFittedYetError
from hyperleaf.simulators.durations import parse_duration
from hyperleaf.storage import open_storage
from hyperleaf.storage.base import (
    Conflict,
    Kind,
    NewQuery,
    Query,
    Record,
    State,
    Storage,
    StudyExistsError,
    StudyNotFoundError,
    UnknownQueryError,
)
from hyperleaf.storage.transitions import check_same, is_of_another
from hyperleaf.study import corrections, intact, portrait, tables
from hyperleaf.study.accuracy import NUM_REFERENCES, WHOLE, Accuracy, measure
from hyperleaf.study.defining import POOL, TEST, check_acquisition, check_address, differences, kept, prepare
from hyperleaf.study.owners import LEASE, PERSON, is_gone, this_process
from hyperleaf.study.snapshot import History, Snapshot, Status
from hyperleaf.study.suspects import Suspect

if TYPE_CHECKING:
    from hyperleaf.mixture import Mixture
    from hyperleaf.study.learning import Knowledge, Learner
    from hyperleaf.surrogates.base import Posterior
    from hyperleaf.surrogates.learned import Learned

log = logging.getLogger(__name__)
ATTEMPTS = 100  # to get a query in between others who write to the same study


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
        self._test = intact.test_of(storage.artifact(name, TEST), self.domain, self.outputs)
        self._seen: Record | None = None
        self._measurements: tuple[tuple[int, Mapping[str, Any]], ...] = ()  # as the store gave them, and what they mean
        self._history: History = ()
        self._again: tuple[int, dict[int, Mapping[str, Accuracy]]] = (0, {})  # measured since the change of that number
        self.seconds = {"learning": 0.0, "choosing": 0.0, "measuring": 0.0, "storing": 0.0}

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
        simulator: Mapping[str, Any] | None = None,
        folder: str | Path = ".",
    ) -> Study:
        """A new study. `storage` is an address ("sqlite:///runs.db"), a store, or None for one in memory.

        `pool` are finite candidates (a Pool, a table, or a CSV file); `test` a table of known runs that is not learned from but
        on which accuracy is measured. `outputs` are names, or a mapping to {"noise", "range", "weight", "unit"}; "noise"
        is "learned", "none" where runs repeat exactly, or a standard deviation. A `surrogate` is
        "hhk", "stationary", "warped", "treed", "deep", or a mapping of "kind" and its options, such as {"kind": "hhk",
        "effort": "thorough"}.
        """
        if not isinstance(domain, Domain):
            raise InputError(f"domain must be a Domain; got {type(domain).__name__}. Write Domain(x=Real(0, 1), …).")
        names = [outputs] if isinstance(outputs, str) else outputs
        named = names if isinstance(names, Mapping) else {key: {} for key in names}
        values: dict[str, Any] = {
            "study": {"name": name, "seed": seed, "description": description},
            "domain": domain.to_dict(),
            "outputs": {key: dict(value) if isinstance(value, Mapping) else value for key, value in named.items()},
            "surrogate": _section(surrogate, "kind"),
            "acquisition": _section(acquisition, "kind"),
            "design": _section(design, "size"),
            "stop": dict(stop or {}),
            "failures": dict(failures or {}),
        }
        if simulator is not None:
            values["simulator"] = dict(simulator)
        return cls._make(validate(values), open_storage(storage), pool, test, folder)

    @classmethod
    def define(cls, definition: Definition, *, storage: str | Storage | None = None, folder: str | Path = ".") -> Study:
        """The study of a config: made if the store does not hold it, loaded if it does.

        While a study goes on its simulator, stop rules, handling of failures and acquisition may change; anything else would
        make its past and its future two different studies, and is refused once something was asked.
        """
        check_address(definition)
        folder = Path(folder)
        store = open_storage(_resolved(storage if storage is not None else definition.study.storage, folder))
        pool = None if definition.pool is None else folder / definition.pool.table
        test = None if definition.test is None else folder / definition.test.table
        if definition.study.name not in store.study_names():
            with suppress(StudyExistsError):  # another process was quicker
                return cls._make(definition, store, pool, test, folder)
        for _ in range(ATTEMPTS):
            record = store.read(definition.study.name)
            changed, fixed = differences(record.definition, definition.to_json())
            if fixed and record.queries:
                section = "inputs" if fixed[0] == "domain" else fixed[0]
                raise ConfigError(
                    f"[{section}] of the study {definition.study.name!r} differs from the one in the store, which has "
                    f"{len(record.queries)} queries already. Undo the change, or give the study another name."
                )
            artifacts = None  # stay as they are
            if fixed:  # nothing has been asked yet: it is as good as new
                artifacts = prepare(definition, store, pool, test)
            elif changed:
                check_acquisition(definition)
            with suppress(Conflict):  # somebody asked or told since: look again
                if changed:
                    store.redefine(definition.study.name, kept(definition), version=record.version, artifacts=artifacts)
                return cls(store, definition.study.name, folder)
        raise InputError(f"the study could not be changed in {ATTEMPTS} attempts: others write to it all the time. Try again.")

    @classmethod
    def _make(cls, definition: Definition, store: Storage, pool: Any, test: Any, folder: str | Path) -> Study:
        artifacts = prepare(definition, store, pool, test)
        store.create_study(definition.study.name, kept(definition), now=store.now(), artifacts=artifacts)
        return cls(store, definition.study.name, folder)

    @classmethod
    def load(cls, name: str | None = None, storage: str | Storage | None = None, *, folder: str | Path = ".") -> Study:
        """A study that is in a store; the only one there, if no name is given."""
        if storage is None:
            raise InputError('a study is loaded from a store; got none. Pass storage="sqlite:///runs.db".')
        store = open_storage(_resolved(storage, Path(folder)), create=False)
        if name is None:
            names = store.study_names()
            if len(names) != 1:
                found = ", ".join(repr(one) for one in names) or "none"
                raise StudyNotFoundError(f"a name is needed unless the store holds exactly one study; it holds {found}.")
            name = names[0]
        return cls(store, name, folder)

    @property
    def seed(self) -> int:
        return self.definition.study.seed

    def record(self) -> Record:
        """Everything told and asked so far, as one consistent view."""
        return intact.checked(self.storage.read(self.name), self.domain, self.outputs)

    def snapshot(self, *, learn: bool = False) -> Snapshot:
        """The study as it stands at this moment; nothing is written, whatever is read.

        With `learn` everything told is taken in and measured, as far as that is enough to learn from: quick only if it has been
        before.
        """
        record, history = self._read()
        models: Mapping[str, Learned] = {}
        success = None
        if learn:
            from hyperleaf.study.choosing import feasibility_of

            success = feasibility_of(self.definition, self.domain, record)
        if learn and self.can_learn(record):
            known, again = self._filled_in(record, history)
            models = known.models
            history = tuple(sorted((dict(history) | again | {len(known.ids): self._measured(known)}).items()))
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
            None if self._test is None else len(self._test[0]),
        )

    # --- asking and telling

    def ask(self, n: int = 1, *, owner: str | None = None, lease: float | str | None = None) -> list[Query]:
        """The next n queries, in native units: those that wait to be repeated first, then the design, then the acquisition.

        They are held by this process; should it end before they are told, they are offered again: at once on this machine, on
        others after the `lease` ("8h", or seconds; a week by itself). `owner="person"` holds them until they are told or
        released, however long that takes, unless a lease is given.
        """
        n = whole_number("n", n)
        seconds = _lease(owner, lease)
        owner = this_process() if owner is None else owner
        taken: list[Query] = []
        for _ in range(ATTEMPTS):
            record = self._reclaimed()
            self._check_current(record)
            waiting = [query for query in record.queries if query.state == State.WAITING]
            for query in waiting[: n - len(taken)]:
                claimed = self.storage.claim(self.name, query.id, owner, now=self.storage.now(), lease=seconds)
                if claimed is not None:
                    taken.append(claimed)
            if len(taken) == n:
                return taken
            if waiting:
                continue  # the record has changed, by us or by others
            try:
                new, known, again = self._choose(record, n - len(taken), owner)
            except BaseException:
                for query in taken:  # nobody would ever see them
                    self.storage.release(self.name, query.id, owner)
                raise
            epochs = {one.query_id: one.epoch for one in record.observations}
            absorbed = [i for i in known.ids if epochs[i] is None] if known is not None else []
            try:
                with _Clock(self.seconds, "storing"):
                    new = [replace(query, lease=seconds) for query in new]
                    added = self.storage.append(self.name, new, version=record.version, absorbed=absorbed, now=self.storage.now())
            except Conflict:
                continue
            log.info("asked for queries %s in %s", [query.id for query in added], self.name)
            if known is not None:
                self._keep(again)
                if absorbed:
                    self._learner.settle(known)
                    self._measure(known)
                self._learner.save_if_due()
            return [*taken, *added]
        for query in taken:
            self.storage.release(self.name, query.id, owner)
        raise InputError(f"no query could be placed in {ATTEMPTS} attempts: others write to this study all the time. Try again.")

    def tell(
        self, query: Query | int, outputs: Mapping[str, float] | None = None, /, *, seconds: float | None = None, **named: float
    ) -> bool:
        """Keep what a query gave: all outputs, by name. On disk when this returns.

        An input that was set otherwise than it was asked for may be told too: `tell(7, torque=12.5, speed=1005)`. Both are kept,
        and the surrogate learns from what was set.

        True if it is new; False if the same was told before, which changes nothing. Other outputs than before are refused: put
        them right with `correct`.
        """
        number, where = _number(query), f"query {_number(query)}"
        given, inputs = corrections.split(self, {**(outputs or {}), **named})
        values = tables.check_outputs(given, self.outputs, where)
        asked = query if isinstance(query, Query) else None
        point = corrections.made_at(self, self._query(number).point, inputs, where) if inputs else None
        with _Clock(self.seconds, "storing"):
            return self.storage.tell(self.name, number, values, now=self.storage.now(), seconds=seconds, asked=asked, point=point)

    def tell_failed(self, query: Query | int, reason: str, *, seconds: float | None = None, retry: bool | None = None) -> bool:
        """Say that a run failed. It is offered again if `failures.retries` allows another attempt (or as `retry` says).

        True if that changed anything; False if it was known, or if the query was given to somebody else since it was asked.
        """
        number = _number(query)
        current, asked = self._query(number), query if isinstance(query, Query) else None
        check_same(current, asked)
        if is_of_another(current, asked):
            return False
        if asked is None and current.state == State.RUNNING and current.owner not in (PERSON, this_process()):
            raise InputError(
                f"a run is ended by whoever is at it; query {number} runs as {current.owner}. If that is no more, give it back "
                f"first: hyperleaf ask --release {number}, in Python study.release."
            )
        again = current.attempt <= self.definition.failures.retries if retry is None else retry
        if again and current.state in (State.RUNNING, State.WAITING):
            owner = current.owner
            if current.state == State.WAITING:
                owner = this_process()
                self.storage.claim(self.name, number, owner, now=self.storage.now())
            return self.storage.release(self.name, number, owner, note=str(reason), next_attempt=True) is not None
        return self.storage.tell_failed(self.name, number, str(reason), now=self.storage.now(), seconds=seconds, asked=asked)

    def release(self, query: Query | int) -> bool:
        """Give a query back, so that it is offered again; False if nobody held it."""
        current = self._query(_number(query))
        return self.storage.release(self.name, current.id, current.owner) is not None

    def repeat(self, query: Query | int, n: int = 1, *, owner: str | None = None) -> list[Query]:
        """Ask for the setting of a query once more, n times: what differs between such runs is noise, and is taken as that."""
        n = whole_number("n", n)
        new = corrections.repeated(self._record(), _number(query), n, this_process() if owner is None else owner)
        new = [replace(one, lease=_lease(owner, None)) for one in new]
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
        """Put right what a query gave, or an input as it was set; what is not named stays. False if nothing changed.

        What stood there before is kept, with who changed it and why. Queries that were asked since stay; everything is learned
        again, and is then as if it had been told right from the start.
        """
        return bool(corrections.correct(self, {_number(query): {**(values or {}), **named}}, why=why, who=who))

    def void(self, *queries: Query | int, why: str = "", who: str | None = None) -> bool:
        """Let runs no longer count: neither learned from nor asked again by themselves. False if they did not count before."""
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
        runs = tables.read_runs(table, self.domain, self.outputs)
        if not runs:
            raise InputError("a table of runs must have at least one row; got none.")
        new = [NewQuery(point, "added", note=note, outputs=outputs) for point, outputs in runs]
        for _ in range(ATTEMPTS):
            record = self._record()
            self._check_current(record)
            with suppress(Conflict):
                return list(self.storage.append(self.name, new, version=record.version, now=self.storage.now()))
        raise InputError(f"no run could be added in {ATTEMPTS} attempts: others write to this study all the time. Try again.")

    def run(self, simulator: Any = None, **options: Any) -> Any:
        """Ask, simulate and tell until a stop rule is met. See `hyperleaf.study.running.run`."""
        from hyperleaf.study.running import run

        return run(self, simulator, **options)

    # --- what was learned

    @property
    def models(self) -> dict[str, Learned]:
        """What has been learned of each output, everything told so far taken in."""
        return dict(self._knowledge(self._record()).models)

    @property
    def posterior(self) -> Posterior:
        """That of the first output, over the unit cube and standardised outputs."""
        return self.models[self.outputs[0]].posterior

    def predict(self, points: Any, output: str | None = None, *, noisy: bool = False) -> Mixture:
        """The latent value of an output at points in native units, or with `noisy=True` a new observation."""
        mixture = self.models[self._output(output)].predict(self.domain.to_unit(points))
        return mixture.noisy() if noisy else mixture

    def accuracy(self) -> dict[str, Accuracy]:
        """How well each output is known now, everything told so far taken in."""
        return self._measured(self._knowledge(self._record()))

    def measure(self) -> dict[str, Accuracy]:
        """The accuracy now, kept in the store as that after so many observations; also after earlier epochs, where it went with
        data that were put right."""
        known, again = self._filled_in(*self._read())
        self._keep(again)
        return self._measure(known)

    def metrics(self) -> Any:
        """Accuracy as it was after each query, as a DataFrame: a row for each number of observations and output."""
        import pandas as pd

        rows = [
            {"num_observations": num, "output": name, **asdict(figures)}
            for num, values in self.history()
            for name, figures in values.items()
        ]
        fields = list(Accuracy.__dataclass_fields__)
        return pd.DataFrame(rows, columns=["num_observations", "output", *fields]).astype(dict.fromkeys(fields, "float64"))

    def table(self) -> Any:
        """All queries as a DataFrame: inputs, outputs, state, origin and times."""
        return tables.table_of(self._record(), self.domain.names, self.outputs)

    def feasibility(self, points: Any) -> NDArray[np.float64]:
        """The probability that a run at each point succeeds; 1 where nothing has failed yet."""
        from hyperleaf.study.choosing import feasibility_of

        unit = self.domain.to_unit(points)
        learned = feasibility_of(self.definition, self.domain, self._record())
        return np.ones(len(unit)) if learned is None else learned(unit)

    def status(self) -> Status:
        """How the study stands, without learning anything: quick."""
        return self.snapshot().status()

    def suspects(self) -> tuple[Suspect, ...]:
        """Outputs that do not go with the others, as after a comma lost, with what to do about them. Nothing is learned here."""
        return self.snapshot().suspects

    def history(self) -> list[tuple[int, Mapping[str, Accuracy]]]:
        """Accuracy of all outputs after each number of observations, as it was measured then."""
        return list(self._read()[1])

    def save(self) -> None:
        """Keep in the store what has been learned, so that the next process need not learn it again."""
        if "_learner" in self.__dict__:  # else nothing was
            self._learner.save()

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

    def __repr__(self) -> str:
        return portrait.as_text(self)

    def _repr_html_(self) -> str:
        return portrait.as_html(self)

    # --- within

    @cached_property
    def _learner(self) -> Learner:
        """Made when it is needed: telling and looking need no surrogate, and JAX takes a while to load."""
        from hyperleaf.study.learning import Learner

        return Learner(self.definition, self.domain, self.storage)

    def _read(self) -> tuple[Record, History]:
        """The record and what was measured, at one moment; shared with whoever reads next, so not to be changed."""
        record, measured = self.storage.view(self.name)
        self._seen = intact.checked(record, self.domain, self.outputs, self._seen)
        if measured is not self._measurements:
            known = {id(values): accuracy for (_, values), (_, accuracy) in zip(self._measurements, self._history, strict=True)}
            self._history = tuple((num, known.get(id(values)) or intact.accuracy_of(num, values)) for num, values in measured)
            self._measurements = measured
        return record, self._history

    def _record(self) -> Record:
        return self._read()[0]

    def _choose(
        self, record: Record, num: int, owner: str
    ) -> tuple[list[NewQuery], Knowledge | None, Mapping[int, Mapping[str, Accuracy]]]:
        """New queries, the knowledge they were chosen with if any was needed, and what `_filled_in` measured on the way."""
        from hyperleaf.study.choosing import blind_queries, design_queries, informed_queries

        arguments = (self.definition, self.domain, self.pool, record)
        new = design_queries(*arguments, num, owner)
        left = num - len(new)
        if not left:
            return new, None, {}
        if not self.can_learn(record):
            return new + blind_queries(*arguments, left, owner, new), None, {}
        known, again = self._filled_in(record, self._history)
        with _Clock(self.seconds, "choosing"):
            return new + informed_queries(*arguments, known, left, owner, new), known, again

    def can_learn(self, record: Record) -> bool:
        """Whether enough was told for the surrogate to say anything."""
        return len(record.observations) >= self._learner.least

    def _knowledge(
        self, record: Record, settled: Callable[[Knowledge], None] | None = None, *, afresh: bool = False
    ) -> Knowledge:
        if not self.can_learn(record):
            told, least = len(record.observations) or "no", self._learner.least
            raise NotFittedYetError(
                f"the study {self.name!r} has learned nothing yet: {told} output was told, and its surrogate needs {least}. "
                "Tell some first."
            )
        with _Clock(self.seconds, "learning"):
            return self._learner.learn(record, settled, afresh=afresh)

    def _filled_in(self, record: Record, history: History) -> tuple[Knowledge, dict[int, Mapping[str, Accuracy]]]:
        """What is known, and the accuracy after earlier epochs that went with data that were put right: all is learned again to
        measure it, once. Nothing is written."""
        if not record.changes:
            return self._knowledge(record), {}
        from hyperleaf.study.learning import counts_of

        if self._again[0] != record.changes[-1].number:
            self._again = record.changes[-1].number, {}
        again = self._again[1]
        missing = counts_of(record, self._learner.least) - {num for num, _ in history}

        def fill_in(known: Knowledge) -> None:
            if len(known.ids) in missing:
                again[len(known.ids)] = self._measured(known)

        known = self._knowledge(record, fill_in, afresh=bool(missing - again.keys()))
        return known, {num: again[num] for num in sorted(missing & again.keys())}

    def _measure(self, known: Knowledge) -> dict[str, Accuracy]:
        """Accuracy now; kept in the store, once for each number of observations."""
        found = self._measured(known)
        self._keep({len(known.ids): found})
        return found

    def _keep(self, measured: Mapping[int, Mapping[str, Accuracy]]) -> None:
        """Accuracy after numbers of observations, in the store."""
        with _Clock(self.seconds, "measuring"):
            for num, found in measured.items():
                self.storage.put_metrics(self.name, num, {name: _finite(asdict(one)) for name, one in found.items()})

    def _measured(self, known: Knowledge) -> dict[str, Accuracy]:
        with _Clock(self.seconds, "measuring"):
            references = self._references()
            found = {}
            for name, model in known.models.items():
                test = None if self._test is None else (self._test[0], self._test[1][name])
                found[name] = measure(model, references, test)
            return found

    def _references(self) -> NDArray[np.float64]:
        """Where the surrogate will be used: the pool, thinned if large, or a Sobol sample of the domain; always the same."""
        if self.pool is not None:
            if len(self.pool) <= WHOLE:
                return self.pool.unit
            return self.pool.unit[np.linspace(0, len(self.pool) - 1, NUM_REFERENCES).round().astype(int)]
        return self.domain.to_unit(self.domain.design(NUM_REFERENCES, "sobol", self.seed))

    def _check_current(self, record: Record) -> None:
        """Refuse to go on with inputs, outputs or a surrogate that the study no longer has."""
        if record.definition != self._defined:
            fixed = differences(self._defined, record.definition)[1]
            if fixed:
                raise InputError(
                    f"the study {self.name!r} was defined anew since it was opened here; {fixed[0]!r} differs. Open it again."
                )

    def _reclaimed(self) -> Record:
        """The record, after queries whose process is gone were given back."""
        record = self._record()
        now = self.storage.now()
        lost = [
            query
            for query in record.queries
            if query.state == State.RUNNING and is_gone(query.owner, query.heartbeat, now, query.lease)
        ]
        for query in lost:
            log.warning("query %d is offered again: %s is gone", query.id, query.owner)
            self.storage.release(self.name, query.id, query.owner, note="its process ended before it was told")
        return self._record() if lost else record

    def _query(self, number: int) -> Query:
        for query in self._record().queries:
            if query.id == number:
                return query
        raise UnknownQueryError(f"the study {self.name!r} has no query {number}; see its table for those it has.")

    def _output(self, name: str | None) -> str:
        if name is None:
            return self.outputs[0]
        if name not in self.outputs:
            raise InputError(f"output must be one of {list(self.outputs)}; got {name!r}.")
        return name


class _Clock:
    """Adds the seconds spent in a `with` to an entry of a dict."""

    def __init__(self, seconds: dict[str, float], name: str) -> None:
        self._seconds, self._name = seconds, name

    def __enter__(self) -> None:
        self._start = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        self._seconds[self._name] += time.perf_counter() - self._start


def _lease(owner: str | None, lease: float | str | None) -> float | None:
    """In seconds. Without one a process that gives no signs of life keeps its queries for a week, and a person for ever."""
    if lease is not None:
        return parse_duration(lease, "a lease")
    return LEASE if owner is None else None


def _section(value: Any, key: str) -> dict[str, Any]:
    return dict(value) if isinstance(value, Mapping) else {key: value}


def _number(query: Any) -> int:
    if isinstance(query, Query):
        return query.id
    if isinstance(query, bool) or not isinstance(query, int):
        raise InputError(f"a query must be a Query or its number; got {query!r}.")
    return query


def _resolved(storage: str | Storage | None, folder: Path) -> str | Storage | None:
    """Relative SQLite files are meant relative to the folder of the study."""
    if isinstance(storage, str) and storage.startswith("sqlite:///") and not storage.startswith("sqlite:////"):
        path = storage.removeprefix("sqlite:///")
        if path and path != ":memory:" and folder != Path("."):
            return f"sqlite:///{(folder / path).resolve()}"
    return storage


def _finite(values: Mapping[str, Any]) -> dict[str, Any]:
    """What JSON can hold: figures that are no number are left out."""
    return {key: value for key, value in values.items() if value is not None and np.isfinite(value)}
