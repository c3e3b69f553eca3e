"""How long it all took, in sentences."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from hyperleaf.report.facts import Facts
from hyperleaf.report.words import duration, when


def times(facts: Facts) -> str:
    """From the first query to the last result, the runs, and what was neither; "" before any has ended."""
    queries = [query for query in facts.record.queries if query.ended_at is not None]
    if not queries:
        return ""
    timed = [query.seconds for query in queries if query.seconds is not None]
    first, last = min(query.asked_at for query in queries), max(query.ended_at or 0.0 for query in queries)
    said = [f"From the first query to the last result {duration(max(last - first, 0.0))} passed ({when(first)} to {when(last)})."]
    if timed:
        each = f"{duration(float(np.mean(timed)))} on average, {duration(max(timed))} at most"
        said.append(f"The runs took {duration(sum(timed))} in all: {each}.")
        ends = [(query.asked_at, query.ended_at or 0.0, query.seconds) for query in queries if query.seconds is not None]
        idle = max(last - first - busy((max(end - seconds, asked), end) for asked, end, seconds in ends), 0.0)
        if len(timed) == len(queries) and last > first:
            said.append(
                f"For {duration(idle)} of the whole nothing was running ({100 * idle / (last - first):.0f} %): that is learning, "
                "choosing the next query, and waiting."
            )
    else:
        said.append("How long the runs took was not recorded.")
    spent = {name: value for name, value in facts.snapshot.seconds.items() if value >= 0.05}
    if spent:
        listed = ", ".join(f"{name} {duration(value)}" for name, value in sorted(spent.items(), key=lambda item: -item[1]))
        said.append(f"The process that wrote this page has spent: {listed}.")
    return " ".join(said)


def busy(intervals: Iterable[tuple[float, float]]) -> float:
    """Seconds in which at least one of them was on."""
    total, until = 0.0, -np.inf
    for start, end in sorted(intervals):
        total += max(end - max(start, until), 0.0)
        until = max(until, end)
    return float(total)
