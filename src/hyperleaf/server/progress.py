"""How far a study is, and for how long it will still go on at its present pace."""

from __future__ import annotations

import time
from typing import Any

from hyperleaf.storage.base import State
from hyperleaf.study.snapshot import Snapshot
from hyperleaf.values import query_values

RECENT = 20  # runs from which the pace is taken


def progress_of(snapshot: Snapshot) -> dict[str, Any]:
    """Counts, the share that is done (None without a stop rule), what is open since when, and the seconds that are left: None if
    no rule counts runs, or before there is a pace."""
    rules = snapshot.rules()
    shares = [min(rule.progress, 1.0) for rule in rules if rule.rule != "failures"]  # failing is no progress
    stop = next((rule for rule in rules if rule.met), None)
    return {
        "counts": dict(snapshot.counts),
        "num_done": snapshot.num_done,
        "share": max(shares, default=None),
        "stopped": None if stop is None else stop.words,
        "seconds_left": 0.0 if stop is not None else _seconds_left(snapshot),
        "open": [query_values(query) for query in snapshot.in_state(State.RUNNING, State.WAITING)],
        "last_ended_at": snapshot.ended[-1].ended_at if snapshot.ended else None,
    }


def _seconds_left(snapshot: Snapshot) -> float | None:
    limit = snapshot.definition.stop.queries
    ends = [query.ended_at for query in snapshot.ended[-RECENT:] if query.ended_at is not None and query.seconds is not None]
    if limit is None or len(ends) < 2 or ends[-1] <= ends[0]:
        return None
    pace = (ends[-1] - ends[0]) / (len(ends) - 1)
    since = max(time.time() - ends[-1], 0.0)
    if since > 10 * pace:  # nobody is at it
        return None
    return float(max(limit - snapshot.num_done, 0) * pace)
