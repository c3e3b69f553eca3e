"""One way to write a file, all of it or nothing, so that neither a crash nor a reader ever meets half of one; and one way to read
what people name: files, and no pipe that nobody writes to or device without end.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """A new path beside `path`, whose file takes its place, safe on disk, if all goes well; else nothing is left of it.

    It ends like `path`, since some writers choose their format by that. A link stays one: what it leads to is replaced. What is
    there and no file, such as a device, is refused with an OSError.
    """
    path = Path(os.path.realpath(path))
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "a file is written here, and this is none; name a file", str(path))
    unfinished = path.with_name(f".{path.stem}.{secrets.token_hex(4)}.part{path.suffix}")
    try:
        yield unfinished
        with open(unfinished, "rb") as file:
            os.fsync(file.fileno())
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)


def refuges(folder: Path) -> tuple[Path, ...]:
    """Where to save what would be lost: in the folder itself, or if that is gone or full, in the one for temporary files."""
    return folder, Path(tempfile.gettempdir())


def read_file(path: str | Path, most: int, *, tail: bool = False) -> bytes:
    """The bytes of a regular file; OSError for anything else, and for more than `most` bytes, unless the `tail` will do."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe without a writer does not hold us up
    with open(handle, "rb") as file:
        found = os.fstat(handle)
        if stat.S_ISDIR(found.st_mode):
            raise IsADirectoryError(errno.EISDIR, "it is a folder", str(path))
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "it is no file but a pipe or a device", str(path))
        if found.st_size > most and not tail:
            raise OSError(errno.EFBIG, f"it must have at most {most} bytes and has {found.st_size}", str(path))
        file.seek(max(0, found.st_size - most))
        return file.read(min(most, max(found.st_size, 2**16)))  # Python makes room for as much as it is asked for


def is_archive(path: Path) -> bool:
    """Whether a file begins like an NPZ file does; it may still be damaged."""
    with open(path, "rb") as file:
        return file.read(2) == b"PK"
