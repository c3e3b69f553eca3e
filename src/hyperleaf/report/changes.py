"""What was put right in a study, as a table of the page: nobody has to trust data that were changed without a trace."""

from __future__ import annotations

from datetime import UTC, datetime
from html import escape

from hyperleaf.report.facts import Facts
from hyperleaf.study.changes import words

INTRODUCTION = (
    "Corrected values are learned from as if they had been told so from the start, and voided runs not at all. Queries that were "
    "asked before a change stay as they are."
)


def changes_table(facts: Facts) -> str:
    """Who changed what, when and why, the latest first; "" where nothing was changed."""
    rows = []
    for change in reversed(facts.record.changes):
        when = datetime.fromtimestamp(change.at, UTC).strftime("%Y-%m-%d %H:%M UTC")
        cells = (when, change.who, f"run {change.query_id}", words(change))
        rows.append("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>")
    if not rows:
        return ""
    head = "".join(f'<th scope="col">{name}</th>' for name in ("When", "Who", "Run", "What"))
    table = f'<table class="plain"><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table>'
    return f'<p>{INTRODUCTION}</p><div class="scroll">{table}</div>'
