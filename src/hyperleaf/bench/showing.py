"""How far a campaign is, while it runs: a bar in a terminal, lines in a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import typer


class Pace:
    """How long it will still take, at the pace so far."""

    def __init__(self) -> None:
        self._first: tuple[float, int] | None = None

    def remaining(self, done: int, total: int) -> str:
        from hyperleaf.simulators.durations import format_duration

        now = time.monotonic()
        if self._first is None:
            self._first = (now, done)
        since, before = self._first
        if done >= total or done <= before:
            return "nothing" if done >= total else "?"
        return format_duration((now - since) / (done - before) * (total - done))


class Lines:
    """A line whenever a run has ended, for logs."""

    def __init__(self, to_stderr: bool) -> None:
        self._pace, self._said, self._to_stderr = Pace(), -1, to_stderr

    def __call__(self, standing: Any) -> None:
        left = self._pace.remaining(standing.done, standing.total)
        if standing.ended + len(standing.failed) != self._said:
            self._said = standing.ended + len(standing.failed)
            failed = f", {len(standing.failed)} failed" if standing.failed else ""
            words = f"[{standing.done}/{standing.total} queries] {standing.ended}/{standing.runs} runs{failed}, {left} left"
            typer.echo(words, err=self._to_stderr)


@contextmanager
def display(name: str, as_json: bool) -> Iterator[Callable[[Any], None]]:
    if as_json or not sys.stdout.isatty():
        yield Lines(to_stderr=as_json)
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("[bold]{task.description}"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total} queries, {task.fields[runs]}"),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]} left  [dim]{task.fields[at_work]}"),
    )
    pace = Pace()
    with Progress(*columns) as bar:
        shown = bar.add_task(name, total=1, runs="", left="?", at_work="")

        def progress(standing: Any) -> None:
            failed = f", {len(standing.failed)} failed" if standing.failed else ""
            bar.update(
                shown,
                total=standing.total,
                completed=standing.done,
                runs=f"{standing.ended}/{standing.runs} runs{failed}",
                left=pace.remaining(standing.done, standing.total),
                at_work=", ".join(standing.at_work[:2]) + ("…" if len(standing.at_work) > 2 else ""),
            )

        yield progress


class Told:
    """Fits of `--cross`, a line each on stderr: they may take long."""

    def __init__(self, silent: bool) -> None:
        self._silent = silent

    def __call__(self, done: int, total: int, what: str) -> None:
        if not self._silent:
            typer.echo(f"[{done}/{total} fits] {what}", err=True)
