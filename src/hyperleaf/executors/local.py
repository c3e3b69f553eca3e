"""Runs made in this process: one after the other, in threads, or in somebody's own executor."""

from __future__ import annotations

import concurrent.futures
import uuid
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any

from hyperleaf.executors.base import call_within, check_number, check_open
from hyperleaf.processes import end_commands


class SerialExecutor(Executor):
    """Runs each call when it is submitted, here; Ctrl-C passes through."""

    def __init__(self) -> None:
        self._closed = False

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        check_open(self._closed)
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
        super().__init__(check_number(num_workers), thread_name_prefix="hyperleaf")
        self._scope = uuid.uuid4().hex

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        return super().submit(call_within, self._scope, fn, args, kwargs)

    def end(self) -> None:
        """Cancel what has not begun, and end the commands that run."""
        self.shutdown(wait=False, cancel_futures=True)
        end_commands(self._scope)
        self.shutdown(wait=True)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> bool | None:
        self.end()
        return None


class Borrowed(Executor):
    """Somebody's own executor: it is not ours to close."""

    def __init__(self, owner: Executor) -> None:
        self.owner = owner
        self._closed = False
        self._futures: list[Future[Any]] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        check_open(self._closed)
        future = self.owner.submit(fn, *args, **kwargs)
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
