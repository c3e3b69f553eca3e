"""`hyperleaf run`: the loop of a study with a display; live in a terminal, a line for each run elsewhere."""

from __future__ import annotations

import shlex
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer

from hyperleaf.cli import output
from hyperleaf.processes import ended_like_ctrl_c
from hyperleaf.simulators.durations import format_duration
from hyperleaf.study import Study

SHOWN = 5  # of the last runs


def run_study(study: Study, path: Path, *, jobs: str, queries: int | None, as_json: bool) -> tuple[Any, dict[str, Any], str]:
    """Run it; why it stopped, the same as values, and in words."""
    done = study.status().num_observations
    target = _target(study, done, queries)
    with showing(study, done, target, as_json) as progress, ended_like_ctrl_c():
        stopped = study.run(jobs=int(jobs) if jobs.isdecimal() else jobs, queries=queries, progress=progress)
    status = study.status()
    accuracy = status.accuracy
    warnings = [text for one in status.noise.values() for text in one.warnings]
    shown = {
        "study": study.name,
        "rule": stopped.rule,
        "reason": stopped.reason,
        "num_done": stopped.num_done,
        "num_failed": stopped.num_failed,
        "accuracy": accuracy,
        "warnings": warnings,
        "seconds": dict(stopped.seconds),
    }
    spent = output.time_words(stopped.seconds)
    lines = [f"Stopped: {stopped.reason.rstrip('.')}.", *(output.accuracy_words(name, one) for name, one in accuracy.items())]
    lines += [f"! {text}" for text in warnings]
    if spent:
        lines.append(f"{format_duration(stopped.seconds['all'])}: {spent}")
    command = "hyperleaf run" if path == Path("study.toml") else f"hyperleaf run {shlex.quote(str(path))}"
    if stopped.rule == "interrupted":
        lines.append(f"Everything told is kept. Go on with: {command}")
    elif stopped.rule == "failures":
        lines.append(f"See why with: hyperleaf status. Once it is repaired, go on with: {command}")
    return stopped, shown, "\n".join(lines)


def _target(study: Study, done: int, queries: int | None) -> int | None:
    """How many finished runs there will be, if nothing else ends it before."""
    limits = [study.definition.stop.queries, None if queries is None else done + queries]
    return min((limit for limit in limits if limit is not None), default=None)


@contextmanager
def showing(study: Study, done: int, target: int | None, as_json: bool) -> Iterator[Callable[[Any], None]]:
    if as_json or not sys.stdout.isatty():
        yield Lines(target, to_stderr=as_json)
        return
    from rich.live import Live

    display = Display(study, done, target)
    with Live(get_renderable=display.render, refresh_per_second=4, transient=False):
        yield display


class Lines:
    """A line for each run that ended."""

    def __init__(self, target: int | None, *, to_stderr: bool) -> None:
        self._target, self._to_stderr = target, to_stderr

    def __call__(self, event: Any) -> None:
        if event.kind == "waiting":
            output.complain(event.message)
        if event.query is None or event.kind == "asked":
            return
        count = f"{event.num_done}" if self._target is None else f"{event.num_done}/{self._target}"
        typer.echo(f"[{count}] {run_words(event)}{_errors(event)}", err=self._to_stderr)


def run_words(event: Any) -> str:
    start = f"query {event.query.id}: {output.pairs(event.query.point)}"
    if event.kind == "told":
        return f"{start} → {output.pairs(event.outputs or {})}"
    return f"{start} {event.kind}: {output.first_line(event.message)}"


def _errors(event: Any) -> str:
    words = [f"{name} ±{one.trusted_rmse:.3g}" for name, one in event.accuracy.items()]
    return f"  (expected error {', '.join(words)})" if words and event.kind == "told" else ""


class Display:
    """What a terminal shows while a study runs."""

    def __init__(self, study: Study, done: int, target: int | None) -> None:
        self._study, self._first, self._target = study, done, target
        self._started = time.monotonic()
        self._last: deque[str] = deque(maxlen=SHOWN)
        self._event: Any = None
        self._done, self._activity = done, "starting"

    def __call__(self, event: Any) -> None:
        self._event, self._done = event, event.num_done
        if event.kind == "asked":
            busy = event.num_running + 1
            self._activity = f"query {event.query.id} runs" + (f", {busy} at a time" if busy > 1 else "")
        elif event.kind == "waiting":
            self._activity = output.first_line(event.message)
        elif event.query is not None:
            self._last.append(run_words(event))
            self._activity = "learning"
        else:
            self._activity = "done"

    def render(self) -> Any:
        from rich.console import Group
        from rich.markup import escape
        from rich.progress_bar import ProgressBar
        from rich.table import Table

        bar = Table.grid(padding=(0, 1))
        total, share = self._target, self.share()
        count = f"{self._done} runs" if total is None else f"{self._done}/{total} runs"
        bar.add_row(
            f"[bold]{escape(self._study.name)}[/bold]",
            ProgressBar(total=1.0, completed=share, width=32),
            count,
            f"{format_duration(time.monotonic() - self._started)} passed",
            f"{self.remaining()} left",
            escape(self._activity),
        )
        parts: list[Any] = [bar]
        if self._last:
            parts.append("\n".join(f"  {escape(line)}" for line in self._last))
        if self._event is not None:
            parts += [f"  {escape(output.accuracy_words(name, one))}" for name, one in self._event.accuracy.items()]
            spent = output.time_words(self._event.seconds)
            if spent:
                parts.append(f"  [dim]time went to {spent}[/dim]")
        return Group(*parts)

    def share(self) -> float:
        """How far it is: by count if there is one to reach, or by the rule that is nearest."""
        if self._target:
            return min(self._done / self._target, 1.0)
        rules = self._event.rules if self._event is not None else ()
        return min(max((rule.progress for rule in rules), default=0.0), 1.0)

    def remaining(self) -> str:
        """At the pace of this run so far."""
        made = self._done - self._first
        if self._target is None or made < 1:
            return "?"
        return format_duration((time.monotonic() - self._started) / made * max(self._target - self._done, 0))
