"""Where runs are made: here, in threads, in worker processes, on a Dask cluster, or in any `concurrent.futures` Executor.

`executor` turns a number or a text into one of them. Each is a context manager whose exit cancels what has not begun and
ends what runs, also the external commands, so that nothing outlives the campaign.
"""

from __future__ import annotations

import os
import re
from concurrent.futures import Executor

from hyperleaf.errors import InputError
from hyperleaf.executors.base import WorkerError
from hyperleaf.executors.dask import DaskExecutor
from hyperleaf.executors.local import Borrowed, SerialExecutor, ThreadExecutor
from hyperleaf.executors.processes import ProcessExecutor

__all__ = ["DaskExecutor", "ProcessExecutor", "SerialExecutor", "ThreadExecutor", "WorkerError", "executor", "num_slots"]


def executor(spec: int | str | Executor = 1) -> Executor:
    """An executor, to be used in a `with`: 1 or "serial"; N or "processes:N"; "threads:N"; "dask://host:port"; or an Executor.

    An Executor that is given stays open at the end of the `with`; what was submitted and has not begun is cancelled.
    """
    if isinstance(spec, Executor):
        return Borrowed(spec)
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
        return workers.num_slots
    owner = workers.owner if isinstance(workers, Borrowed) else workers
    return int(getattr(owner, "_max_workers", 1))  # of the standard library's pools, and of ours


def _num_cpus() -> int:
    """The processors this process may use, which may be fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
