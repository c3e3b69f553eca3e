"""The studies of a store, kept warm: what was learned of each, and code that is compiled, stay in this process.

Whatever reads or tells is quick and takes turns under one lock; whatever learns has an object of its own and another lock, so
that nobody who only looks waits for it. Both are called in threads, never in the event loop.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar, cast

from hyperleaf.errors import HyperleafError
from hyperleaf.storage.base import Record, Storage, StorageError, StudyNotFoundError
from hyperleaf.study import Study
from hyperleaf.study.snapshot import Snapshot

log = logging.getLogger(__name__)
Result = TypeVar("Result")
MOST_WARM = 16  # studies; the one that was not used for longest is forgotten
QUICK_THREADS, LEARNING_THREADS = 8, 2


class Warm:
    """One study. `quick` and `slow` call a function with it, in the thread that calls them."""

    def __init__(self, storage: Storage, name: str, folder: Path) -> None:
        self.storage, self.name, self.folder = storage, name, folder
        self._quick, self._slow = threading.RLock(), threading.RLock()
        self._open()
        self.turn = asyncio.Lock()  # of those who wait for learning, so that they do not fill its threads

    def _open(self) -> None:
        self._reads = Study(self.storage, self.name, self.folder)
        self._learns = Study(self.storage, self.name, self.folder)
        self._snapshot: Snapshot | None = None
        self._learned: Snapshot | None = None
        self._kept: dict[Any, tuple[Any, Any]] = {}  # results by what they are, with what they were made from

    def quick(self, function: Callable[[Study], Result]) -> Result:
        with self._quick:
            return function(self._reads)

    def slow(self, function: Callable[[Study], Result]) -> Result:
        with self._slow:
            return function(self._learns)

    def snapshot(self) -> Snapshot:
        """As it is now; the same object as long as nothing changes."""
        with self._quick:
            found = self._reads.snapshot()
            if self._is_another(found.record):
                with self._slow:
                    self._open()
                    found = self._reads.snapshot()
            last = self._snapshot
            same = last is not None and last.record.version == found.record.version and last.history is found.history
            if last is not None and same and last.record.queries is found.record.queries:
                return last
            self._snapshot = found
            return found

    def learned(self) -> Snapshot:
        """With everything that is told by now learned from; learned once, whoever asks."""
        with self._slow:
            last = self._learned
            if last is not None and last.record.version == self.storage.version(self.name):
                return last
            self._learned = self._learns.snapshot(learn=True)
            return self._learned

    @property
    def last_learned(self) -> Snapshot | None:
        """What was learned last, perhaps not from everything: for those who cannot wait."""
        return self._learned

    def once(self, what: Any, version: Any, make: Callable[[], Result]) -> Result:
        """What `make` gives, made once for each version; only the latest is kept."""
        found = self._kept.get(what)
        if found is not None and found[0] == version:
            return cast(Result, found[1])
        result = make()
        self._kept[what] = version, result
        return result

    @property
    def is_learning(self) -> bool:
        free = self._slow.acquire(blocking=False)
        if free:
            self._slow.release()
        return not free

    def save(self) -> None:
        """Keep what was learned in the store, unless something is being learned just now."""
        if self._slow.acquire(blocking=False):
            try:
                with suppress(HyperleafError):
                    self._learns.save()
            finally:
                self._slow.release()

    def _is_another(self, record: Record) -> bool:
        """Whether the study was defined anew, or deleted and made again, since it was opened here."""
        before = self._snapshot
        again = before is not None and before.record.created_at != record.created_at
        return record.definition != self._reads._defined or again


class Studies:
    """Those of a store, or only those of `names`."""

    def __init__(self, storage: Storage, folder: Path | str = ".", names: tuple[str, ...] | None = None) -> None:
        self.storage, self.folder, self._names = storage, Path(folder), names
        self._warm: OrderedDict[str, Warm] = OrderedDict()
        self._lock = threading.Lock()
        self._threads = ThreadPoolExecutor(QUICK_THREADS, "hyperleaf-quick")
        self._learning = ThreadPoolExecutor(LEARNING_THREADS, "hyperleaf-learning")

    def names(self) -> tuple[str, ...]:
        there = self.storage.study_names()
        return there if self._names is None else tuple(name for name in there if name in self._names)

    def get(self, name: str) -> Warm:
        """Opened when it is first asked for."""
        with self._lock:
            found = self._warm.get(name)
            if found is not None:
                self._warm.move_to_end(name)
                return found
            if self._names is not None and name not in self._names:
                raise StudyNotFoundError(f"no study {name!r:.80} is served here; there are {list(self.names())}.")
            found = self._warm[name] = Warm(self.storage, name, self.folder)
            while len(self._warm) > MOST_WARM:
                self._warm.popitem(last=False)
            return found

    def words_of(self, error: HyperleafError) -> str:
        """What an error says, without where the store is: its address names machines, users and folders."""
        if isinstance(error, StorageError):
            log.warning("%s", error)
            return "the store of this server cannot be used just now; its log says why. Everything told is kept. Try again later."
        return str(error).replace(self.storage.url, "the store")

    async def quickly(self, function: Callable[[], Result]) -> Result:
        """In a thread for what is soon done."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, function)

    async def in_turn(self, warm: Warm, function: Callable[[], Result]) -> Result:
        """In a thread for what may learn; of one study one after the other."""
        async with warm.turn:
            return await asyncio.get_running_loop().run_in_executor(self._learning, function)

    @property
    def is_learning(self) -> bool:
        return any(warm.is_learning for warm in list(self._warm.values()))

    def close(self) -> None:
        """Keep what was learned for the next start."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._learning.shutdown(wait=False, cancel_futures=True)
        for warm in list(self._warm.values()):
            warm.save()
