"""Numbers, durations and the headline of a study, in words an engineer understands. Plain text, which the page escapes."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np

from hyperleaf.report.facts import Facts, Known
from hyperleaf.storage.base import Query, State


def number(value: float | None, unit: str = "") -> str:
    """Three digits and the unit."""
    if value is None or not np.isfinite(value):
        return "–"
    shown = f"{value:.3g}".replace("e+0", "e").replace("e-0", "e-").replace("e+", "e").replace("-", "−")
    return f"{shown} {unit}" if unit else shown


def duration(seconds: float) -> str:
    """As a person says it."""
    if seconds < 0.095:
        return f"{1000 * seconds:.2g} ms"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = seconds / 60
    if minutes < 120:
        return f"{minutes:.0f} min"
    hours, rest = divmod(round(minutes), 60)
    return f"{hours} h {rest:02d} min" if hours < 48 else f"{hours / 24:.1f} days"


def count(num: int, noun: str) -> str:
    return f"{num} {noun}{'' if num == 1 else 's'}"


def share_of_range(known: Known) -> str:
    """The expected error as a share of the values seen, in brackets; nothing where they are all the same."""
    return f" ({100 * known.accuracy.trusted_rmse / known.width:.2g} % of the range seen)" if known.width > 0 else ""


def headline(facts: Facts) -> str:
    """What was learned, in a sentence."""
    failed, open_ = len(facts.in_state(State.FAILED)), len(facts.in_state(State.RUNNING, State.WAITING))
    if not facts.record.queries:
        return "Nothing has been run yet."
    if not facts.known:
        if failed and not open_:
            return f"Nothing has been learned: {'the only run' if failed == 1 else f'all {failed} runs'} failed."
        rest = f", {count(failed, 'run')} failed" if failed else ""
        out = f"{count(open_, 'run')} {'is' if open_ == 1 else 'are'} open"
        return f"Nothing has been learned yet: no run has finished, {out}{rest}."
    parts = [f"{one.name} to about {number(one.accuracy.trusted_rmse, one.unit)}{share_of_range(one)}" for one in facts.known]
    listed = parts[0] if len(parts) == 1 else ", ".join(parts[:-1]) + " and " + parts[-1]
    doubted = {query for one in facts.known for query in one.doubtful}
    first = f" Look at {count(len(doubted), 'run')} first that {'do' if len(doubted) > 1 else 'does'} not go with the others."
    return f"From {count(facts.num_done, 'run')} the surrogate knows {listed}.{first if doubted else ''}"


def why_stopped(facts: Facts) -> str:
    """The stop rule that is met, or how far the nearest one is."""
    open_ = len(facts.in_state(State.RUNNING, State.WAITING))
    still = f" {count(open_, 'run')} {'is' if open_ == 1 else 'are'} still open." if open_ else ""
    met = next((rule for rule in facts.rules if rule.met), None)
    if met is not None:
        return f"The campaign stopped: {met.words}.{still}"
    if not facts.record.queries:
        return "Ask for a first query, or start the campaign with hyperleaf run."
    ahead = max(facts.rules, key=lambda rule: rule.progress, default=None)
    if ahead is not None:
        return f"No stop rule is met yet: {ahead.words}.{still}"
    return f"The study has no stop rule; it goes on for as long as runs are asked for.{still}"


def short_reason(query: Query) -> str:
    """The first line of why a run failed."""
    lines = query.reason.strip().splitlines() or ["no reason was given"]
    return lines[0] if len(lines[0]) <= 160 else lines[0][:157] + "…"


def when(seconds: float) -> str:
    """A time of the clock."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.0f} %"
