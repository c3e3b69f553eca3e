"""Whether the file of a store is still there.

SQLite goes on writing to a file that was deleted, and all of it is lost at the end; but as long as the connection is open,
everything is still in it and can be saved beside.
"""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

from hyperleaf.io import refuges
from hyperleaf.storage.base import LostStoreError

Identity = tuple[int, int]


def identity_of(file: Path) -> Identity | None:
    """What tells a file from another one of its name; None if there is none."""
    try:
        found = os.stat(file)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def lost(file: Path, connection: sqlite3.Connection | None) -> LostStoreError:
    """What to say when the file of an open store is gone, after saving what the connection still sees of it."""
    saved = None if connection is None else _saved(file, connection)
    remedy = "Restore it from a copy, or begin the study anew."
    if saved is not None:
        remedy = f"Everything told up to now was saved as {saved}: move it to {file} and go on."
    return LostStoreError(f"{file} was deleted or replaced while it was in use. {remedy}")


def _saved(file: Path, connection: sqlite3.Connection) -> Path | None:
    for folder in refuges(file.parent):  # which may have been deleted with all that was in it
        names = (folder / f"{file.stem}-saved-{k}{file.suffix}" for k in range(1, 1000))
        target = next(path for path in names if not os.path.exists(path))
        try:
            copy = sqlite3.connect(target)
            try:
                connection.backup(copy)
            finally:
                copy.close()
        except sqlite3.Error:
            target.unlink(missing_ok=True)
            continue
        return target
    return None
