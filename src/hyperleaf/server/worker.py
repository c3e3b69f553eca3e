"""A run whose study is on a server: ask there, simulate here, tell there, until a stop rule of the study is met.

The simulator is this machine's own; nothing that a server says is started. While runs are out the server gets signs of life, and
a run that was stopped gives back what it had. A server that is away is waited for, with what was found kept in hand.
"""

from __future__ import annotations

import logging
import socket
import time
import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from contextlib import suppress
from pathlib import Path
from typing import Any

from hyperleaf.checks import whole_number
from hyperleaf.errors import ExhaustedError, HyperleafError, InputError
from hyperleaf.executors import executor, num_slots
from hyperleaf.server.client import RemoteStudy
from hyperleaf.simulators import Outcome, Success, as_simulator
from hyperleaf.storage.base import AlreadyToldError, Query, StorageError
from hyperleaf.study.owners import HEARTBEAT, SILENCE, beating
from hyperleaf.study.patience import write_untold
from hyperleaf.study.running import Stopped, _outcome

log = logging.getLogger(__name__)
LOOK = 2.0  # seconds between two looks at the stop rules while nothing can be asked


def run(
    study: RemoteStudy,
    simulator: Any,
    *,
    queries: int | None = None,
    jobs: int | str | Executor = 1,
    slots: int | None = None,
    folder: str | Path = ".",
    progress: Callable[[str, Query, Any], Any] | None = None,
) -> Stopped:
    """Make runs for a served study. `simulator` and `jobs` are those of `Study.run`; `queries` more runs are made at most.

    `progress` is called with what happened ("asked", "told", "failed", "retried"), the query, and outputs or a reason.
    """
    if simulator is None:
        raise InputError("a run needs a simulator on this machine; a server does not send one. Pass a function or a command.")
    if queries is not None:
        whole_number("queries", queries)
    simulate = as_simulator(simulator, study.outputs, domain=study.domain, folder=Path(folder), study=study.name)
    with executor(jobs) as workers:
        loop = _Loop(study, simulate, workers, slots or num_slots(workers), queries, progress or (lambda *_: None), Path(folder))
        return loop.run()


class _Loop:
    def __init__(
        self, study: RemoteStudy, simulate: Any, workers: Executor, slots: int, budget: int | None, say: Any, folder: Path
    ) -> None:
        self.study, self.simulate, self.workers, self.slots = study, simulate, workers, slots
        self.budget, self.say, self.folder = budget, say, folder
        self.owner = f"{socket.gethostname().replace('/', '_')[:40]} {uuid.uuid4().hex[:8]}"
        self.running: dict[Future[Outcome], Query] = {}
        self.told = self.failed = 0
        self.failed_before = 0
        self.started = time.monotonic()
        self.simulating = 0.0
        self.untold: list[tuple[Query, Mapping[str, float]]] = []

    def run(self) -> Stopped:
        stopped: tuple[str, str] | None = None
        try:
            with beating(self._beat):
                while True:
                    if stopped is None:
                        stopped = self._fill()
                    if not self.running:
                        if stopped is not None:
                            break
                        time.sleep(LOOK)  # what others have in hand may be the last ones, or may come back
                        continue
                    self._collect()
        except KeyboardInterrupt:
            self.study.connection.patience = min(self.study.connection.patience, 10.0)
            stopped = "interrupted", "interrupted; what was running is offered again to whoever asks"
        except StorageError as error:
            self.study.connection.patience = 0.1
            raise self._saved(error) from error
        finally:
            for future, query in self.running.items():
                future.cancel()
                with suppress(HyperleafError):
                    self.study.release(query)
        seconds = {"simulating": self.simulating, "all": time.monotonic() - self.started}
        return Stopped(*stopped, self._num_done(), self.failed, seconds)

    def _num_done(self) -> int:
        with suppress(StorageError):
            return int(self.study.snapshot()["num_done"])
        return self.told

    def _beat(self) -> None:
        owners = [query.owner for query in list(self.running.values()) if query.owner is not None]
        if owners:
            self.study.beat(owners)

    def _fill(self) -> tuple[str, str] | None:
        """Start queries until all slots are busy; why not, if it is enough."""
        while len(self.running) < self.slots:
            now = self.study.snapshot()
            met = next((rule for rule in now["rules"] if rule["met"]), None)
            if met is not None:
                return met["rule"], met["words"]
            if self.budget is not None and self.told + self.failed + len(self.running) >= self.budget:
                return None if self.running else ("queries", f"{self.budget} more runs were asked for")
            limit = self.study.definition.get("stop", {}).get("queries")
            if limit is not None and now["num_done"] + now["counts"]["running"] >= limit:
                return None  # those that run will do, unless one fails
            try:
                (query,) = self.study.ask(1, owner=self.owner, lease=SILENCE)
            except ExhaustedError as error:
                return None if self.running else ("exhausted", str(error))
            self.say("asked", query, None)
            future = self.workers.submit(self.simulate, dict(query.point), query_id=query.id, attempt=query.attempt)
            self.running[future] = query
            if future.done():  # a serial executor has run it
                return None
        return None

    def _collect(self) -> None:
        done, _ = wait(self.running, timeout=HEARTBEAT, return_when=FIRST_COMPLETED)
        for future in sorted(done, key=lambda one: self.running[one].id):
            query = self.running[future]
            outcome = _outcome(future)
            self.simulating += outcome.seconds
            if isinstance(outcome, Success):
                self.untold.append((query, outcome.outputs))
            del self.running[future]
            self._tell(query, outcome)

    def _tell(self, query: Query, outcome: Outcome) -> None:
        try:
            if isinstance(outcome, Success):
                self.study.tell(query, outcome.outputs, seconds=outcome.seconds)
                self.untold.pop()
                self.told += 1
                self.say("told", query, outcome.outputs)
            elif outcome.interrupted:
                self.study.release(query)
            else:
                reason = outcome.reason if not outcome.log else f"{outcome.reason}\n{outcome.log}"
                again = self.study._failed(query, reason, seconds=outcome.seconds)["retried"]
                self.failed += not again
                self.say("retried" if again else "failed", query, outcome.reason)
        except AlreadyToldError as error:  # somebody else told it meanwhile: theirs stands
            self.untold = [one for one in self.untold if one[0].id != query.id]
            self.say("failed", query, str(error))

    def _saved(self, error: StorageError) -> StorageError:
        """The error, and where the results are that the server did not take."""
        if not self.untold:
            return error
        return type(error)(f"{error} {write_untold(self.folder, self.study.name, self.untold)}")
