"""A store that does not answer for a while: what a run has in hand is kept, and the store is tried again and again.

Every operation of a store may be repeated: telling the same twice is telling it once, and queries are only added to a study that
is as it was read. When the store stays away, or is gone for good, results that could not be told are written to a sheet.
"""

from __future__ import annotations

import csv
import io
import logging
import os
import random
import shlex
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from hyperleaf.io import refuges, replacing
from hyperleaf.storage.base import Query, Storage, UnreachableError

if TYPE_CHECKING:
    from hyperleaf.study.study import Study

log = logging.getLogger(__name__)
FIRST, LONGEST = 0.5, 30.0  # seconds between two attempts


class PatientStorage:
    """A store whose operations wait until it answers, for up to `patience` seconds each; `say` is told what is waited for."""

    def __init__(self, store: Storage, patience: float, say: Callable[[str], None]) -> None:
        self.within, self.patience, self._say = store, patience, say

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.within, name)
        return self._patient(found) if callable(found) and name != "close" else found

    def _patient(self, operation: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            since, pause = time.monotonic(), FIRST
            while True:
                try:
                    answer = operation(*arguments, **options)
                except UnreachableError as error:
                    waited = time.monotonic() - since
                    if waited + pause > self.patience:
                        raise
                    log.warning("%s", error)
                    self._say(f"{error} Tried again in {pause:.0f} s; given up in {self.patience - waited:.0f} s.")
                    time.sleep(pause * random.uniform(0.8, 1.2))
                    pause = min(2 * pause, LONGEST)
                else:
                    return answer

        return call


@contextmanager
def patient(study: Study, patience: float, say: Callable[[str], None]) -> Iterator[PatientStorage]:
    """Within, whatever a study does waits for its store."""
    store = study.storage
    waiting = PatientStorage(store, patience, say)
    _through(study, cast("Storage", waiting))
    try:
        yield waiting
    finally:
        _through(study, store)


def _through(study: Study, store: Storage) -> None:
    """Let whatever belongs to a study use this store."""
    study.storage = study._reader.storage = store
    study._insight.use(store)


def write_untold(folder: Path, study: str, results: Sequence[tuple[Query, Mapping[str, float]]]) -> str:
    """Results that no store took, as a sheet for `hyperleaf tell --csv`; where they are, in words. On a full disk, or where the
    folder was deleted too, they go elsewhere, and at last into the words themselves."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    inputs, outputs = list(results[0][0].point), list(results[0][1])
    rows.writerow(["id", *inputs, *outputs])
    for query, values in results:
        rows.writerow([query.id, *(query.point[name] for name in inputs), *(repr(values[name]) for name in outputs)])
    safe = "".join(mark if mark.isalnum() or mark in "-_." else "_" for mark in study)
    num = f"{len(results)} result{'' if len(results) == 1 else 's'} that it did not take"
    for place in refuges(folder):
        path = next(p for k in range(1, 10000) if not os.path.exists(p := place / f"untold-{safe}-{k}.csv"))
        with suppress(OSError):
            with replacing(path) as unfinished:
                unfinished.write_text(text.getvalue(), encoding="utf-8")
            named = path.name if place == folder else path
            return f"{num}: {path}. Tell them later: hyperleaf tell --csv {shlex.quote(str(named))}"
    told = "; ".join(f"query {query.id} gave {dict(values)}" for query, values in results)
    return f"{num}, and no file could be written for them: {told}. Tell them later: hyperleaf tell ID NAME=VALUE"
