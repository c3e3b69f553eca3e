"""A study as it shows itself: a line in a terminal, a small table in a notebook. Nothing is learned for it or written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hyperleaf.errors import HyperleafError
from hyperleaf.storage.base import State

if TYPE_CHECKING:
    from hyperleaf.study.snapshot import Snapshot
    from hyperleaf.study.study import Study

STATES = (State.DONE, State.WAITING, State.RUNNING, State.FAILED, State.VOID)
TEMPLATE = """<div><strong>{{ name }}</strong> · {{ counts }}
{% if rows %}<table><thead><tr><th>output</th><th>expected error</th><th>at runs left out</th></tr></thead><tbody>
{% for row in rows %}<tr>{% for cell in row %}<td>{{ cell }}</td>{% endfor %}</tr>{% endfor %}</tbody></table>{% endif %}
{% if suspects %}<p>To look at again: {{ suspects }}.</p>{% endif %}
{% if about %}<p>{{ about }} <code>.plot()</code> shows what was learned, <code>.table()</code> the runs,
<code>.report("page.html")</code> writes a page.</p>{% endif %}</div>"""


def as_text(study: Study) -> str:
    """On one line; also where its store does not answer."""
    try:
        snapshot = study.snapshot()
    except HyperleafError:
        return f"<Study {study.name!r}, whose store does not answer>"
    errors = [f"{name} ±{one.trusted_rmse:.3g}" for name, one in snapshot.accuracy.items()]
    return f"<Study {study.name!r}: {', '.join([_counts(snapshot), *errors])}>"


def as_html(study: Study) -> str:
    from jinja2 import Environment

    template = Environment(autoescape=True).from_string(TEMPLATE)
    try:
        snapshot = study.snapshot()
    except HyperleafError as error:
        return template.render(name=study.name, counts=str(error))
    definition = snapshot.definition
    rows = []
    for name, one in snapshot.accuracy.items():
        unit = f" {definition.outputs[name].unit}" if definition.outputs[name].unit else ""
        left_out = "" if one.loo_rmse is None else f"{one.loo_rmse:.3g}{unit}"
        rows.append((name, f"{one.trusted_rmse:.3g}{unit}", left_out))
    return template.render(
        name=snapshot.name,
        counts=_counts(snapshot),
        rows=rows,
        suspects=", ".join(f"query {one.query_id}" for one in snapshot.suspects),
        about=f"{', '.join(snapshot.domain.names)} → {', '.join(definition.outputs)}, in {snapshot.storage}.",
    )


def _counts(snapshot: Snapshot) -> str:
    found = [f"{snapshot.counts[state.value]} {state.value}" for state in STATES if snapshot.counts[state.value]]
    return ", ".join(found) or "nothing asked yet"
