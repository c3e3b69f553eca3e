"""A run as a line in the terminal, for those who call `Study.run(progress=True)`; the command line shows more."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hyperleaf.errors import InputError


@contextmanager
def as_progress(progress: Any) -> Iterator[Any]:
    """A function of events: the given one, a progress bar if True, nothing if None or False."""
    if progress is None or progress is False:
        yield lambda event: None
    elif progress is True:
        with _bar() as report:
            yield report
    elif callable(progress):
        yield progress
    else:
        raise InputError(f"progress must be True, False or a function of events; got {type(progress).__name__}.")


@contextmanager
def _bar() -> Iterator[Any]:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns) as bar:
        task = bar.add_task("runs", total=None)

        def report(event: Any) -> None:
            rule = next((rule for rule in event.rules if rule.rule == "queries" and rule.progress > 0), None)
            total = None if rule is None else round(event.num_done / rule.progress)
            errors = [f"{name} ±{one.trusted_rmse:.3g}" for name, one in event.accuracy.items()]
            bar.update(task, completed=event.num_done, total=total, description=" ".join(["runs", *errors]))
            if event.kind == "waiting":
                bar.console.print(event.message)
            if event.kind in ("failed", "retried"):
                bar.console.print(f"query {event.query.id} {event.kind}: {event.message}")

        yield report
