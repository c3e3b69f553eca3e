"""External commands that never outlive whoever started them.

Every command runs in a process group of its own, led by a guard: a shell that waits on a pipe from this process. When this
process dies, however it dies, the pipe closes and the guard kills the group; until the guard is reaped its group cannot
belong to anybody else, so the group can be ended safely at any moment. A child that leaves the group (setsid) is known by a token
in its environment, where there is a /proc. Commands belong to a scope, that of the executor whose
thread started them, so that an executor can end its own commands and no others. How this process itself is asked to end is
`ended_like_ctrl_c`.
"""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MARK = "HYPERLEAF_RUN"  # in the environment of a command and of all its children
_STRAYS = (
    f"for f in $(grep -ls {MARK}=$1 /proc/[0-9]*/environ 2>/dev/null); do p=${{f#/proc/}}; kill -s KILL ${{p%/environ}}; done"
)
_GUARD = ("/bin/sh", "-c", f"trap '' TERM INT HUP; read -r _; {_STRAYS}; kill -s KILL 0", "guard")


@dataclass(frozen=True)
class Finished:
    """How a command ended: its exit code (−s if signal s ended it), and whether it was us who ended it."""

    code: int
    seconds: float
    timed_out: bool = False
    ended: bool = False


class _Group:
    """One running command and its guard."""

    def __init__(self, guard: subprocess.Popen[bytes]) -> None:
        self.guard = guard
        self.command: subprocess.Popen[bytes] | None = None

    def signal(self, number: int) -> None:
        with suppress(ProcessLookupError, PermissionError):  # macOS says "permission" of a group of zombies
            os.killpg(self.guard.pid, number)

    def is_running(self) -> bool:
        """Whether the command still runs, without reaping it, for another thread may be waiting for it."""
        if self.command is None or self.command.returncode is not None:
            return False
        try:
            return os.waitid(os.P_PID, self.command.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
        except ChildProcessError:
            return False


@dataclass
class _Scope:
    closed: bool = False
    groups: list[_Group] = field(default_factory=list)
    lock: threading.RLock = field(default_factory=threading.RLock)  # a signal handler may interrupt its holder


_scopes: dict[str, _Scope] = {}
_here = threading.local()


@contextmanager
def within(scope: str) -> Iterator[None]:
    """Commands started in this block by this thread belong to the scope of that name."""
    before = getattr(_here, "scope", "")
    _here.scope = scope
    try:
        yield
    finally:
        _here.scope = before


def end_commands(scope: str | None = None, grace: float = 1.0) -> None:
    """End the commands of a scope, or all of this process, and start no more there: SIGTERM, and SIGKILL after the grace."""
    scopes = list(_scopes.values()) if scope is None else [_scopes.setdefault(scope, _Scope())]
    for one in scopes:
        one.closed = True
    _signal(scopes, signal.SIGTERM)
    deadline = time.monotonic() + grace
    while time.monotonic() < deadline and any(group.is_running() for one in scopes for group in list(one.groups)):
        time.sleep(0.01)
    _signal(scopes, signal.SIGKILL)


def _signal(scopes: Sequence[_Scope], number: int) -> None:
    for scope in scopes:
        with scope.lock:  # a group leaves its scope under this lock before its guard is reaped
            for group in scope.groups:
                group.signal(number)


def run_command(
    command: Sequence[str],
    *,
    cwd: str | Path,
    stdout: str | Path,
    stderr: str | Path,
    timeout: float | None = None,
    grace: float = 2.0,
) -> Finished:
    """Run a command without a shell and without input, and wait for it; both streams go to files.

    After `timeout` seconds, or when the wait is interrupted, the whole group gets SIGTERM and after the grace SIGKILL.
    Children that the command leaves behind in its group are killed as well. Raises OSError if it cannot be started.
    """
    scope = _scopes.setdefault(getattr(_here, "scope", ""), _Scope())
    start = time.monotonic()
    nowhere, token = subprocess.DEVNULL, secrets.token_hex(16)
    guard = subprocess.Popen((*_GUARD, token), stdin=subprocess.PIPE, stdout=nowhere, stderr=nowhere, process_group=0, cwd="/")
    group, timed_out = _Group(guard), False
    scope.groups.append(group)
    try:
        with open(stdout, "wb") as out, open(stderr, "wb") as err:
            process = subprocess.Popen(
                list(command),
                cwd=cwd,
                stdin=nowhere,
                stdout=out,
                stderr=err,
                process_group=guard.pid,
                env={**os.environ, MARK: token},
            )
        group.command = process
        try:
            # whoever closes the scope before the command is listed misses it; then it is ended here
            if not scope.closed:
                process.wait(timeout)
        except subprocess.TimeoutExpired:
            timed_out = True
        finally:
            if process.poll() is None:
                group.signal(signal.SIGTERM)
                with suppress(subprocess.TimeoutExpired):
                    process.wait(grace)
    finally:
        _end_strays(token)
        group.signal(signal.SIGKILL)
        with scope.lock:
            scope.groups.remove(group)
        if group.command is not None:
            group.command.wait()
        guard.wait()
        if guard.stdin is not None:
            guard.stdin.close()
    return Finished(process.returncode, time.monotonic() - start, timed_out, scope.closed and not timed_out)


def _end_strays(token: str) -> None:
    """Kill what a command left behind outside its group."""
    mark = f"{MARK}={token}".encode()
    for environment in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):  # ended meanwhile, or somebody else's
            if mark in environment.read_bytes():
                os.kill(int(environment.parent.name), signal.SIGKILL)


def at_once_next_time() -> None:
    """Whoever presses Ctrl-C once more, while all is being put away, wants the end and no traceback. What was told is on disk."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, lambda *_: os._exit(130))


@contextmanager
def ended_like_ctrl_c() -> Iterator[None]:
    """A polite request to end, as schedulers send it, is taken as Ctrl-C: what runs is given back, what is done is kept."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
