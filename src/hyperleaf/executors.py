"""Where runs are made: here, in threads, in worker processes, on a Dask cluster, or in any `concurrent.futures` Executor.

`executor` turns a number or a text into one of them. Each is a context manager whose exit cancels what has not begun and
ends what runs, also the external commands, so that nothing outlives the campaign. A worker process is a slot of its own: if
one dies, its run fails and the others go on; all die with the process that started them, even if that is killed.
"""

from __future__ import annotations

import atexit
import concurrent.futures
import multiprocessing
import os
import pickle
import re
import signal
import threading
import time
import traceback
import uuid
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from multiprocessing import connection
from types import TracebackType
from typing import Any

from hyperleaf.errors import HyperleafError, InputError
from hyperleaf.processes import end_commands, within

_MOST = 1024
_CONNECT = 10.0  # seconds a Dask scheduler has to answer
_GRACE = 3.0  # seconds a worker has to end its command and itself


class WorkerError(HyperleafError, RuntimeError):
    """A run was lost with its worker: the process died, or was ended because the executor closed."""


def executor(spec: int | str | Executor = 1) -> Executor:
    """An executor, to be used in a `with`: 1 or "serial"; N or "processes:N"; "threads:N"; "dask://host:port"; or an Executor.

    An Executor that is given stays open at the end of the `with`; what was submitted and has not begun is cancelled.
    """
    if isinstance(spec, Executor):
        return _Borrowed(spec)
    if isinstance(spec, int) and not isinstance(spec, bool):
        return SerialExecutor() if spec == 1 else ProcessExecutor(spec)
    text = spec.strip() if isinstance(spec, str) else ""
    if text == "serial":
        return SerialExecutor()
    if re.fullmatch(r"\d{1,9}", text, re.ASCII):
        return executor(int(text))
    if text.startswith("dask://"):
        return DaskExecutor(text)
    parts = re.fullmatch(r"(processes|threads)(?::(\d{1,9}))?", text, re.ASCII)
    if parts is None:
        raise InputError(
            'an executor must be a number of processes, "serial", "processes:N", "threads:N", "dask://host:port" or an Executor; '
            f"got {spec!r:.80}. Write one of these."
        )
    kind = ProcessExecutor if parts[1] == "processes" else ThreadExecutor
    return kind(int(parts[2]) if parts[2] else _num_cpus())


def num_slots(workers: Executor) -> int:
    """How many runs an executor makes at a time; 1 where it does not tell."""
    if isinstance(workers, DaskExecutor):
        return max(sum(workers._client.nthreads().values()), 1)
    owner = workers._owner if isinstance(workers, _Borrowed) else workers
    return int(getattr(owner, "_max_workers", 1))  # of the standard library's pools, and of ours


class SerialExecutor(Executor):
    """Runs each call when it is submitted, here; Ctrl-C passes through."""

    def __init__(self) -> None:
        self._closed = False

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        _check_open(self._closed)
        future: Future[Any] = Future()
        future.set_running_or_notify_cancel()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:  # of whatever kind: a future hands it to who asks for the result
            future.set_exception(error)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._closed = True


class ThreadExecutor(ThreadPoolExecutor):
    """Threads, for simulators that wait for external commands; those are ended on exit, a Python function is waited for."""

    def __init__(self, num_workers: int) -> None:
        super().__init__(_check_number(num_workers), thread_name_prefix="hyperleaf")
        self._scope = uuid.uuid4().hex

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        return super().submit(_call_within, self._scope, fn, args, kwargs)

    def end(self) -> None:
        """Cancel what has not begun, and end the commands that run."""
        self.shutdown(wait=False, cancel_futures=True)
        end_commands(self._scope)
        self.shutdown(wait=True)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> bool | None:
        self.end()
        return None


class ProcessExecutor(ThreadPoolExecutor):
    """Worker processes, started when they are needed (spawned, so that they inherit neither JAX nor threads).

    Each thread of the pool hands its calls to one worker and waits for it. What is called must be importable in the worker:
    a function of a module, or an object with picklable parts. Ctrl-C reaches this process only, which ends its workers.
    """

    def __init__(self, num_workers: int) -> None:
        super().__init__(_check_number(num_workers), thread_name_prefix="hyperleaf")
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
        deadline = time.monotonic() + _GRACE  # of all together
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
            code = worker.end(_GRACE)
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


class DaskExecutor(Executor):
    """The workers of a Dask cluster, by the address of its scheduler; on exit, commands that run there for us are ended."""

    def __init__(self, address: str) -> None:
        try:
            from distributed import Client
        except ImportError:
            raise InputError(
                f"{address!r} needs the package distributed, which is not installed. Run: pip install 'hyperleaf[dask]'."
            ) from None
        place = address.removeprefix("dask://")
        if not re.fullmatch(r"(\[[0-9a-fA-F:.]+\]|[\w.-]+):\d{1,5}", place, re.ASCII):
            raise InputError(f"a Dask address must be dask://host:port; got {address!r}. Write it like dask://localhost:8786.")
        try:
            self._client = Client(f"tcp://{place}", timeout=_CONNECT, set_as_default=False)
        except OSError as error:  # distributed's CommClosedError and a timeout are OSErrors
            raise InputError(
                f"there must be a Dask scheduler at {address!r}; it did not answer ({error}). Start it first."
            ) from None
        self._scope = uuid.uuid4().hex
        self._executor = self._client.get_executor(pure=False, retries=0)
        self._futures: list[Future[Any]] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future = self._executor.submit(_call_within, self._scope, fn, args, kwargs)
        self._futures = [*(one for one in self._futures if not one.done()), future]
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        if cancel_futures:
            for future in self._futures:
                future.cancel()
        self._executor.shutdown(wait=wait)

    def end(self) -> None:
        """Cancel what has not finished, and end the commands that run."""
        for future in self._futures:
            future.cancel()
        with suppress(OSError, TimeoutError):  # the cluster may be gone
            self._client.run(partial(end_commands, self._scope))
        self._executor.shutdown(wait=False)
        self._client.close()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> bool | None:
        self.end()
        return None


class _Borrowed(Executor):
    """Somebody's own executor: it is not ours to close."""

    def __init__(self, owner: Executor) -> None:
        self._owner = owner
        self._closed = False
        self._futures: list[Future[Any]] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        _check_open(self._closed)
        future = self._owner.submit(fn, *args, **kwargs)
        self._futures = [*(one for one in self._futures if not one.done()), future]
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._closed = True
        if cancel_futures:
            for future in self._futures:
                future.cancel()
        if wait:
            concurrent.futures.wait(self._futures)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> bool | None:
        self.shutdown(wait=False, cancel_futures=True)
        return None


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


def _call_within(scope: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    with within(scope):
        return function(*args, **kwargs)


def _check_number(number: Any) -> int:
    if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= _MOST:
        raise InputError(f"the number of workers must be a whole number from 1 to {_MOST}; got {number!r}.")
    return number


def _num_cpus() -> int:
    """The processors this process may use, which may be fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _check_open(closed: bool) -> None:
    if closed:
        raise RuntimeError("cannot schedule new futures after shutdown")  # the words of concurrent.futures
