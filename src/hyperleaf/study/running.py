"""The loop: ask, simulate, tell, until a rule says that it is enough.

Runs are asynchronous: a finished one is told at once and another is asked for, with the rest pending. Whatever ends the loop, a
rule, Ctrl-C or an error, what was told stays told, and what was running is given back to be offered again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, CancelledError, Executor, Future, wait
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from hyperleaf.checks import whole_number
from hyperleaf.config import Definition, validate
from hyperleaf.errors import ExhaustedError, HyperleafError, InputError
from hyperleaf.executors import WorkerError, executor, num_slots
from hyperleaf.simulators import Failure, Outcome, Simulator, Success, as_simulator
from hyperleaf.simulators.durations import parse_duration
from hyperleaf.storage.base import AlreadyToldError, Query, State, StorageError
from hyperleaf.study.accuracy import Accuracy
from hyperleaf.study.owners import HEARTBEAT, SILENCE, beating, this_process
from hyperleaf.study.patience import PatientStorage, patient, write_untold
from hyperleaf.study.stopping import Verdict
from hyperleaf.study.study import Study

HASTE = 10.0  # seconds that somebody who pressed Ctrl-C waits for a store


@dataclass(frozen=True)
class Event:
    """Something that happened in a run: "asked", "told", "failed", "retried", "waiting" (for a store that does not answer) or
    "stopped".

    `seconds` is where the time went so far: learning, choosing, measuring, storing, simulating (of all workers together).
    """

    kind: str
    query: Query | None
    outputs: Mapping[str, float] | None
    num_done: int
    num_running: int
    rules: tuple[Verdict, ...]
    accuracy: Mapping[str, Accuracy]
    seconds: Mapping[str, float]
    message: str = ""


@dataclass(frozen=True)
class Stopped:
    """Why a run ended: the rule ("queries", "time", "rmse", "stagnation", "failures", "exhausted", "interrupted") in words."""

    rule: str
    reason: str
    num_done: int
    num_failed: int
    seconds: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class _Sight:
    """The study at one moment: finished runs, how the rules stand, the accuracy that was last measured."""

    num_done: int
    rules: tuple[Verdict, ...]
    accuracy: Mapping[str, Accuracy]


Progress = Callable[[Event], None]


def run(
    study: Study,
    simulator: Any = None,
    *,
    queries: int | None = None,
    jobs: int | str | Executor = 1,
    slots: int | None = None,
    stop: Mapping[str, Any] | None = None,
    progress: Progress | bool | None = None,
    patience: float | str = "15m",
) -> Stopped:
    """Run a study until one of its stop rules is met.

    `simulator` is a function, "module:name", a command, a table of finished runs, a mapping as in [simulator], or a Simulator;
    without one the study's own. `queries` more runs are made at most; `stop` replaces the study's stop rules. `jobs` says where:
    a number of processes, "threads:4", "dask://host:port", or an Executor, then with `slots` runs at a time. `progress` is a
    function that is called with each `Event`, or True for a line of progress in the terminal. A store that does not answer is
    waited for with `patience`; results that it does not take by then are written to a sheet beside the study.
    """
    spec = study.definition.simulator if simulator is None else simulator
    if spec is None:
        remedy = "Write a section [simulator], pass one, or answer by hand: hyperleaf ask."
        raise InputError(f"a run needs a simulator; the study has none. {remedy}")
    units = study.definition.units
    simulate = as_simulator(spec, study.outputs, domain=study.domain, folder=study.folder, study=study.name, units=units)
    if queries is not None:
        whole_number("queries", queries)
    definition = study.definition
    if stop is not None:
        definition = validate({**definition.to_json(), "stop": dict(stop)})
    if queries is None and not any(value is not None for _, value in definition.stop):
        remedy = "Write [stop], or say how many: --queries 60, in Python queries=60."
        raise InputError(f"a run needs an end; got neither queries nor a stop rule. {remedy}")
    from hyperleaf.study.showing import as_progress

    waits = parse_duration(patience, "patience")
    with executor(jobs) as workers, as_progress(progress) as report:
        loop = _Loop(study, simulate, workers, slots or num_slots(workers), definition, queries, report)
        with patient(study, waits, loop.wait) as store:
            return loop.run(store)


class _Loop:
    def __init__(
        self,
        study: Study,
        simulate: Simulator,
        workers: Executor,
        slots: int,
        definition: Definition,
        budget: int | None,
        report: Progress,
    ) -> None:
        self.study, self.simulate, self.workers, self.slots = study, simulate, workers, slots
        self.definition, self.budget, self.report = definition, budget, report
        self.owner = this_process()
        self.running: dict[Future[Outcome], Query] = {}
        self.started = time.monotonic()
        self.simulating = 0.0
        self.told = self.failed = 0
        self.before = dict(study.seconds)
        self.sight, self.waited = _Sight(0, (), {}), False
        self.untold: dict[int, tuple[Query, Mapping[str, float]]] = {}
        # failures of earlier runs do not end this one: the reason may have been repaired
        queries = study.record().queries
        self.failed_before = {query.id for query in queries if query.state == State.FAILED}
        self.held_before = {query.id for query in queries if query.state == State.RUNNING and query.owner == self.owner}

    def run(self, store: PatientStorage) -> Stopped:
        stopped: Verdict | None = None
        try:
            with beating(lambda: store.within.beat(self.study.name, self.owner, now=store.within.now())):
                while True:
                    if stopped is None:
                        stopped = self._fill()
                    if not self.running:
                        break
                    self._collect()
        except KeyboardInterrupt:
            store.patience = min(store.patience, HASTE)
            stopped = Verdict("interrupted", 1.0, "interrupted; what was running is offered again by the next run")
        except StorageError as error:
            store.patience = 0.0
            raise self._saved(error) from error
        finally:
            try:
                self._give_back()
                self.study.save()
            except StorageError as error:
                if stopped is not None:  # else it is said already
                    raise self._saved(error) from error
        assert stopped is not None
        if stopped.rule != "interrupted" and self.study._insight.can_learn(self.study.record()):
            self.study.measure()  # of everything told, also what no query was chosen with
        num_done = self._say("stopped", None, message=stopped.words)
        return Stopped(stopped.rule, stopped.words, num_done, self.failed, self._seconds())

    def _saved(self, error: StorageError) -> StorageError:
        """The error, and where the results are that the store did not take."""
        for future, query in self.running.items():
            if future.done() and not future.cancelled() and isinstance(outcome := _outcome(future), Success):
                self.untold[query.id] = query, outcome.outputs
        if not self.untold:
            return error
        words = write_untold(self.study.folder, self.study.name, list(self.untold.values()))
        self.untold.clear()
        return type(error)(f"{error} {words}")

    def _adopted(self) -> list[Query]:
        """A query that the store gave us without our hearing of it, because the line was cut before its answer came."""
        if not self.waited:
            return []
        known = {query.id for query in self.running.values()} | self.held_before
        ours = [query for query in self.study.record().queries if query.state == State.RUNNING and query.owner == self.owner]
        return [query for query in ours if query.id not in known][:1]

    def wait(self, message: str) -> None:
        """Say that the store does not answer, without asking it."""
        now, self.waited = self.sight, True
        seconds = self._seconds()
        self.report(Event("waiting", None, None, now.num_done, len(self.running), now.rules, now.accuracy, seconds, message))

    def _fill(self) -> Verdict | None:
        """Start queries until all slots are busy; why not, if it is enough."""
        while len(self.running) < self.slots:
            now = self._look()
            met = next((rule for rule in now.rules if rule.met), None)
            if met is not None:
                return met
            if self.budget is not None and self.told + len(self.running) >= self.budget:
                return Verdict("queries", 1.0, f"{self.budget} more runs were asked for") if not self.running else None
            limit = self.definition.stop.queries
            if limit is not None and now.num_done + len(self.running) >= limit:
                return None  # those that run will do, unless one fails
            try:
                (query,) = self._adopted() or self.study.ask(1, owner=self.owner, lease=SILENCE)
            except ExhaustedError as error:
                return None if self.running else Verdict("exhausted", 1.0, str(error))
            self._say("asked", query)
            extra = {"row": query.index} if query.index is not None and _takes_rows(self.simulate, self.study) else {}
            future = self.workers.submit(self.simulate, dict(query.point), query_id=query.id, attempt=query.attempt, **extra)
            self.running[future] = query
            if future.done():  # a serial executor has run it: learn from it before asking again
                return None
        return None

    def _collect(self) -> None:
        """Wait for a run to end, and tell it."""
        done, _ = wait(self.running, timeout=HEARTBEAT, return_when=FIRST_COMPLETED)
        for future in sorted(done, key=lambda one: self.running[one].id):
            query = self.running.pop(future)
            self._tell(query, _outcome(future))

    def _tell(self, query: Query, outcome: Outcome) -> None:
        self.simulating += outcome.seconds
        try:
            if isinstance(outcome, Success):
                self.untold[query.id] = query, outcome.outputs
                self.study.tell(query, outcome.outputs, seconds=outcome.seconds)
                del self.untold[query.id]
                self.told += 1
                self._say("told", query, outcome.outputs)
                return
            if outcome.interrupted:
                self.study.release(query)
                return
            reason = outcome.reason if not outcome.log else f"{outcome.reason}\n{outcome.log}"
            self.study.tell_failed(query, reason, seconds=outcome.seconds)
            again = self.study._reader.query(query.id).state != State.FAILED
            self.failed += not again
            self._say("retried" if again else "failed", query, message=outcome.reason)
        except AlreadyToldError as error:  # somebody else told it meanwhile: theirs stands
            self.untold.pop(query.id, None)
            self._say("failed", query, message=str(error))

    def _give_back(self) -> None:
        for future, query in self.running.items():
            future.cancel()
            if future.done() and not future.cancelled():
                outcome = _outcome(future)
                if isinstance(outcome, Success):  # finished while we were stopping
                    with suppress(InputError):
                        self.study.tell(query, outcome.outputs, seconds=outcome.seconds)
                    continue
            self.study.storage.release(self.study.name, query.id, self.owner, note="the run was stopped")
        for query in self.study.record().queries:  # one that was asked for but not yet submitted when Ctrl-C came
            if query.state == State.RUNNING and query.owner == self.owner and query.id not in self.held_before:
                self.study.storage.release(self.study.name, query.id, self.owner, note="the run was stopped")

    def _look(self) -> _Sight:
        """How the study stands, from one reading of the store."""
        now = self.study.snapshot()
        found = now.rules(self.definition, time.monotonic() - self.started, self.failed_before)
        if self.budget is not None:
            made = Verdict("budget", min(self.told / self.budget, 0.999), f"{self.told} of {self.budget} more runs")
            found = (*found, made)
        self.sight = _Sight(now.num_done, found, now.accuracy)
        return self.sight

    def _seconds(self) -> dict[str, float]:
        spent = {name: value - self.before[name] for name, value in self.study.seconds.items()}
        return {**spent, "simulating": self.simulating, "all": time.monotonic() - self.started}

    def _say(self, kind: str, query: Query | None, outputs: Mapping[str, float] | None = None, message: str = "") -> int:
        """Report an event; how many runs are finished."""
        now = self._look()
        running = len(self.running)
        self.report(Event(kind, query, outputs, now.num_done, running, now.rules, now.accuracy, self._seconds(), message))
        return now.num_done


def _outcome(future: Future[Outcome]) -> Outcome:
    """What a run gave; a worker that died, or code that raised where it must not, is a failed run."""
    try:
        return future.result()
    except CancelledError:
        return Failure("cancelled", 0.0, interrupted=True)
    except WorkerError as error:
        return Failure(str(error), 0.0)
    except HyperleafError:
        raise
    except Exception as error:  # of a simulator of the user's own
        return Failure(f"{type(error).__name__}: {error}", 0.0)


def _takes_rows(simulate: Simulator, study: Study) -> bool:
    """Whether the simulator is a table whose rows are those of the study's pool, so that replicates are told apart."""
    return study.pool is not None and hasattr(simulate, "pool") and len(simulate.pool()) == len(study.pool)
