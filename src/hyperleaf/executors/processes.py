"""Runs made in worker processes. Each is a slot of its own: if one dies, its run fails and the others go on; all die with the
process that started them, even if that is killed."""

from __future__ import annotations

import atexit
import multiprocessing
import os
import pickle
import signal
import threading
import time
import traceback
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from multiprocessing import connection
from types import TracebackType
from typing import Any

from hyperleaf.errors import InputError
from hyperleaf.executors.base import WorkerError, check_number
from hyperleaf.processes import end_commands

GRACE = 3.0  # seconds a worker has to end its command and itself


class ProcessExecutor(ThreadPoolExecutor):
    """Worker processes, started when they are needed (spawned, so that they inherit neither JAX nor threads).

    Each thread of the pool hands its calls to one worker and waits for it. What is called must be importable in the worker:
    a function of a module, or an object with picklable parts. Ctrl-C reaches this process only, which ends its workers.
    """

    def __init__(self, num_workers: int) -> None:
        super().__init__(check_number(num_workers), thread_name_prefix="hyperleaf")
        self._idle: list[_Worker] = []
        self._workers: set[_Worker] = set()
        self._lock = threading.Lock()
        self._ended = False
        atexit.register(self.end)  # runs before multiprocessing would wait for the workers, in vain

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        try:
            call = pickle.dumps((fn, args, kwargs))
        except (pickle.PicklingError, AttributeError, TypeError, RecursionError) as error:
            raise InputError(
                f"what runs in a worker process must be picklable; got {fn!r:.80} ({error}). "
                'Define the function at the top of a module, or use "threads:N" or "serial".'
            ) from None
        return super().submit(self._call, call)

    def end(self) -> None:
        """Cancel what has not begun, and end the workers with whatever they run."""
        super().shutdown(wait=False, cancel_futures=True)
        with self._lock:
            self._ended = True
            workers = list(self._workers)
        for worker in workers:
            worker.ask_to_end()
        deadline = time.monotonic() + GRACE  # of all together
        for worker in workers:
            worker.end(max(0.0, deadline - time.monotonic()))
        super().shutdown(wait=True)
        atexit.unregister(self.end)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """As the standard library: what was submitted is finished first, unless cancelled; then the workers end."""
        super().shutdown(wait=wait, cancel_futures=cancel_futures)
        if wait:
            self.end()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> bool | None:
        self.end()
        return None

    def _call(self, call: bytes) -> Any:
        worker = self._take()
        try:
            answer = worker.ask(call)
        except EOFError:
            with self._lock:
                self._workers.discard(worker)
            code = worker.end(GRACE)
            if self._ended:
                raise WorkerError("the run was ended because its executor was closed.") from None
            raise WorkerError(worker.last_words(code)) from None
        with self._lock:
            self._idle.append(worker)
        failed, value = pickle.loads(answer)
        if failed:
            raise value
        return value

    def _take(self) -> _Worker:
        with self._lock:
            if self._ended:
                raise WorkerError("the run was ended because its executor was closed.")
            if self._idle:
                return self._idle.pop()
            worker = _Worker()  # under the lock, so that `end` sees every worker there is
            self._workers.add(worker)
            return worker


class _Worker:
    """One spawned process and the pipe to it; used by one thread at a time, ended from any."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        held, self._leash = context.Pipe(duplex=False)
        self._process = context.Process(target=_serve, args=(theirs, held), name="hyperleaf-worker")
        # Ctrl-C is held back until the worker has a handler for it, or it would die with a traceback while it starts
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            self._process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        theirs.close()
        held.close()
        self._is_ready = False
        self._ending = threading.Lock()

    def ask(self, call: bytes) -> bytes:
        """The answer of the worker; an EOFError if it died."""
        try:
            if not self._is_ready:
                self._pipe.recv_bytes()
                self._is_ready = True
            self._pipe.send_bytes(call)
            return self._pipe.recv_bytes()
        except OSError as error:
            raise EOFError from error

    def ask_to_end(self) -> None:
        self._leash.close()

    def end(self, grace: float) -> int | None:
        """Its exit code, once it has ended; it is killed after the grace."""
        with self._ending:
            self._process.join(grace)
            if self._process.is_alive():  # in a long computation that does not return to Python
                self._process.kill()
                self._process.join()
            return self._process.exitcode

    def last_words(self, code: int | None) -> str:
        how = f"killed by signal {-code}" if code is not None and code < 0 else f"exit code {code}"
        if not self._is_ready:
            return (
                f"a worker process could not start ({how}); its message is on stderr. A script that starts workers must do so "
                'below `if __name__ == "__main__":`.'
            )
        return f"the worker process died during the run ({how}). Memory may have run out, or compiled code crashed."


def _serve(pipe: connection.Connection, leash: connection.Connection) -> None:
    """The life of a worker: calls in, answers out, until one of the pipes closes or its parent dies."""
    signal.signal(signal.SIGINT, lambda *_: None)  # not SIG_IGN, which external commands would inherit
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    threading.Thread(target=_hold, args=(leash,), daemon=True).start()
    with suppress(EOFError, OSError):  # the parent closed the pipe, or is gone
        pipe.send_bytes(b"ready")
        while True:
            pipe.send_bytes(_answer(pipe.recv_bytes()))


def _hold(leash: connection.Connection) -> None:
    """Wait for the end and bring it about. Not by a signal: the thread that gets one may not be the one that waits."""
    parent = multiprocessing.parent_process()
    connection.wait([leash] if parent is None else [leash, parent.sentinel])
    end_commands()
    os._exit(1)  # at once: the run may never return


def _answer(call: bytes) -> bytes:
    try:
        function, args, kwargs = pickle.loads(call)
        return pickle.dumps((False, function(*args, **kwargs)))
    except BaseException as error:  # whatever it is belongs to the caller, who waits for it
        error.add_note("In the worker process:\n" + traceback.format_exc())
        try:
            answer = pickle.dumps((True, error))
            pickle.loads(answer)
        except Exception:  # an exception that does not survive the way is told in words
            return pickle.dumps((True, RuntimeError(f"{type(error).__name__}: {error}")))
        return answer
