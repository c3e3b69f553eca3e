"""One way to write a file: all of it or nothing, so that neither a crash nor a reader ever meets half of one."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """A new path beside `path`, whose file takes its place, safe on disk, if all goes well; else nothing is left of it.

    It ends like `path`, since some writers choose their format by that.
    """
    path = Path(path)
    unfinished = path.with_name(f".{path.stem}.{secrets.token_hex(4)}.part{path.suffix}")
    try:
        yield unfinished
        with open(unfinished, "rb") as file:
            os.fsync(file.fileno())
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)
