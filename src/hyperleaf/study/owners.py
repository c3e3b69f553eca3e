"""Who is at a query, and whether they still are.

An owner is a process, written "host/pid/start" so that a number that was given to another process is not mistaken for it, or
"person": somebody with a pen, who may take a week. A query whose process is gone is offered again: at once if it ran on this
machine, and after `SILENCE` without a heartbeat if it ran on another.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from threading import Event, Thread
from typing import Any

from hyperleaf.errors import HyperleafError

PERSON = "person"
HEARTBEAT = 20.0  # seconds between two signs of life of a run
SILENCE = 300.0


def this_process() -> str:
    """The owner that stands for the calling process."""
    pid = os.getpid()
    return f"{_host()}/{pid}/{_start(pid) or 0}"


def is_gone(owner: str | None, heartbeat: float | None, now: float) -> bool:
    """Whether the process behind `owner` is known to have ended."""
    if owner is None or owner == PERSON:
        return False
    host, _, rest = owner.rpartition("/")[0].rpartition("/")
    start = owner.rpartition("/")[2]
    if not rest.isdigit() or not host:
        return False  # somebody else's name for themselves
    if host != _host():
        return heartbeat is not None and now - heartbeat > SILENCE
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
    return socket.gethostname().replace("/", "_")


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
