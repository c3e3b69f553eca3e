"""Turns at a study that many write to: whoever has lost to others a few times is let by.

A change that was decided on what was read is kept only if nothing was written since; else its maker reads and decides anew. With
enough others about, somebody slow would lose every time. So after a few losses they leave a note in the store that it is their
turn, and whoever begins an attempt waits while such a note of somebody else stands. The note is a courtesy that ends by itself:
what is kept is right without it.
"""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Generator
from contextlib import suppress

from hyperleaf.storage.base import Storage, StorageError

ATTEMPTS = 100
LOSSES = 3  # before a turn is taken
ARTIFACT = "turn"
SHORTEST = 5.0  # seconds that a turn lasts if nobody ends it


def attempts(store: Storage, name: str, what: str) -> Generator[int, None, None]:
    """Numbers from 0, one for each attempt to change the study: leave when it has worked, and close it, as `contextlib.closing`
    does. StorageError if it never does."""
    mine, noted, seconds = uuid.uuid4().hex, False, 0.0
    try:
        for attempt in range(ATTEMPTS):
            _let_by(store, name, mine)
            if attempt >= LOSSES:
                store.put_artifact(name, ARTIFACT, f"{mine} {store.now() + max(SHORTEST, 4 * seconds)!r}".encode())
                noted = True
            started = time.monotonic()
            yield attempt
            seconds = time.monotonic() - started
            time.sleep(random.uniform(0.0, min(0.005 * attempt, 0.05)))  # in step with others one would lose every time
    finally:
        with suppress(StorageError):  # what was wanted has worked, or whoever wanted it learns why it has not
            if noted and _turn(store, name)[0] == mine:
                store.put_artifact(name, ARTIFACT, b"")
    raise StorageError(f"{what} in {ATTEMPTS} attempts: others write to this study all the time. Try again.")


def _let_by(store: Storage, name: str, mine: str) -> None:
    """Wait while it is the turn of somebody else, no longer than the note said at first."""
    whose, until = _turn(store, name)
    while whose not in ("", mine) and store.now() < until:
        time.sleep(random.uniform(0.01, 0.05))
        whose, later = _turn(store, name)
        until = min(until, later)


def _turn(store: Storage, name: str) -> tuple[str, float]:
    """Whose turn it is, and until when by the store's clock; "" for nobody's, which a damaged note is too."""
    with suppress(ValueError, UnicodeDecodeError):
        whose, until = (store.artifact(name, ARTIFACT) or b"").decode().split()
        return whose, float(until)
    return "", 0.0
