"""Runs made by the workers of a Dask cluster."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Any

from hyperleaf.errors import InputError
from hyperleaf.executors.base import call_within
from hyperleaf.processes import end_commands

CONNECT = 10.0  # seconds a scheduler has to answer


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
            self._client = Client(f"tcp://{place}", timeout=CONNECT, set_as_default=False)
        except OSError as error:  # distributed's CommClosedError and a timeout are OSErrors
            raise InputError(
                f"there must be a Dask scheduler at {address!r}; it did not answer ({error}). Start it first."
            ) from None
        self._scope = uuid.uuid4().hex
        self._executor = self._client.get_executor(pure=False, retries=0)
        self._futures: list[Future[Any]] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future = self._executor.submit(call_within, self._scope, fn, args, kwargs)
        self._futures = [*(one for one in self._futures if not one.done()), future]
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        if cancel_futures:
            for future in self._futures:
                future.cancel()
        self._executor.shutdown(wait=wait)

    @property
    def num_slots(self) -> int:
        """How many runs the cluster makes at a time."""
        return max(sum(self._client.nthreads().values()), 1)

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
