"""Who is at a query, and whether they still are.

An owner is a process, written "host~machine/pid/start", or "person": somebody with a pen, who may take a week. The machine is
told apart by its boot and its space of process numbers, since two containers may have one name; the start, so that a number that
was given to another process is not mistaken for it. A query whose process is gone is offered again: at once if it ran on this
machine. Of another machine one sees only silence: the query is offered again when its lease has passed without a sign of life, by
the store's clock. A run gives signs of life and takes a short lease; whoever asks otherwise chooses one.
"""

from __future__ import annotations

import hashlib
import os
import socket
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from threading import Event, Thread
from typing import Any

from hyperleaf.errors import HyperleafError

PERSON = "person"
HEARTBEAT = 20.0  # seconds between two signs of life of a run
SILENCE = 300.0  # seconds: the lease of a run, and of queries that an older version asked for
LEASE = 7 * 86400.0  # that of a process that asks by itself and gives no signs of life


def this_process() -> str:
    """The owner that stands for the calling process."""
    pid = os.getpid()
    return f"{_host()}/{pid}/{_start(pid) or 0}"


def is_gone(owner: str | None, heartbeat: float | None, now: float, lease: float | None = None) -> bool:
    """Whether `owner` is known to have ended, or to have let the lease pass."""
    silent = heartbeat is not None and now - heartbeat > (SILENCE if lease is None else lease)
    if owner is None or owner == PERSON:
        return lease is not None and silent
    host, _, rest = owner.rpartition("/")[0].rpartition("/")
    start = owner.rpartition("/")[2]
    if not rest.isdigit() or not host:
        return lease is not None and silent  # somebody else's name for themselves
    if host != _host():
        return silent
    pid = int(rest)
    if not _exists(pid):
        return True
    found = _start(pid)
    return found is not None and start != "0" and str(found) != start


@contextmanager
def beating(beat: Callable[[], Any]) -> Iterator[None]:
    """Give a sign of life every `HEARTBEAT` seconds, however long whoever is within simulates or learns."""
    ended = Event()

    def live() -> None:
        while not ended.wait(HEARTBEAT):
            with suppress(HyperleafError, OSError):  # a store that does not answer now may do so the next time
                beat()

    thread = Thread(target=live, name="hyperleaf-heartbeat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@cache
def _host() -> str:
    """The machine, or the container, as far as process numbers go."""
    marks = [socket.gethostname()]
    try:
        marks += [Path("/proc/sys/kernel/random/boot_id").read_text().strip(), os.readlink("/proc/self/ns/pid")]
    except OSError:  # no Linux: its network card tells it apart
        marks.append(str(uuid.getnode()))
    digest = hashlib.sha256("\0".join(marks).encode(errors="replace")).hexdigest()[:12]
    return f"{marks[0].replace('/', '_')[:100]}~{digest}"


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return _state(pid) != "Z"  # killed, but its parent has not looked yet


def _stat(pid: int) -> list[str]:
    """The fields of /proc/pid/stat after the name, which may itself hold brackets and spaces; empty where there is no /proc."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _state(pid: int) -> str | None:
    fields = _stat(pid)
    return fields[0] if fields else None


def _start(pid: int) -> str | None:
    """When the process began, in the kernel's ticks since boot."""
    fields = _stat(pid)
    return fields[19] if len(fields) > 19 else None
