"""Parts of a study's page that change with it, as HTML: those of the report, and what only a page that is alive can show.

What needs nothing to be learned is made apart from what does, so that a new result is seen at once and the maps follow. Each part
is made once for a version of the study, however many look at it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from hyperleaf.errors import HyperleafError, InputError
from hyperleaf.server.operations import Call
from hyperleaf.server.studies import Warm
from hyperleaf.storage.base import State
from hyperleaf.study import asking
from hyperleaf.study.owners import PERSON
from hyperleaf.study.snapshot import Snapshot

QUICK = ("queries", "suspects", "changes", "time", "runs", "definition")
LEARNED = ("learned", "limits", "accuracy", "diagnostics")
STEPS = 41  # places along each input of a slice
PROBABILITY = 0.9


def quick_parts(warm: Warm, call: Call) -> dict[str, Any]:
    found = _public(warm.snapshot())
    return dict(warm.once("quick parts", _state_of(found), lambda: _rendered(found, QUICK)))


def learned_parts(warm: Warm, call: Call) -> dict[str, Any]:
    found = _public(warm.learned())
    return dict(warm.once("learned parts", found.record.version, lambda: _learned(warm, found)))


def _public(snapshot: Snapshot) -> Snapshot:
    """Without the simulator, whose command is for those who started it."""
    return replace(snapshot, definition=snapshot.definition.model_copy(update={"simulator": None}))


def _state_of(snapshot: Snapshot) -> tuple[int, int]:
    return snapshot.record.version, len(snapshot.history)


def _rendered(snapshot: Snapshot, keys: Sequence[str]) -> dict[str, Any]:
    from hyperleaf.report.facts import gather
    from hyperleaf.report.page import render_section, tiles
    from hyperleaf.report.words import headline, why_stopped

    facts = gather(snapshot, helping=False)
    shown = {key: render_section(facts, key) for key in keys}
    words = {"headline": headline(facts), "why_stopped": why_stopped(facts)} if facts.known or not snapshot.num_done else {}
    rows = [{"what": what, "value": value, "more": more} for what, value, more in tiles(facts)]
    return {"version": snapshot.record.version, "parts": shown, "tiles": rows, **words}


def _learned(warm: Warm, snapshot: Snapshot) -> dict[str, Any]:
    if not snapshot.models:
        return {"version": snapshot.record.version, "parts": dict.fromkeys((*LEARNED, "next"), ""), "tiles": [], "point": None}
    found = _rendered(snapshot, LEARNED)
    suggestion = _next_point(warm)
    try:
        found["parts"]["next"] = _next_picture(snapshot, suggestion)
    except HyperleafError:  # a criterion that cannot be drawn is no reason to show nothing
        found["parts"]["next"] = ""
    return {**found, "point": suggestion}


def _next_point(warm: Warm) -> dict[str, Any] | None:
    """What would be asked for next; None where everything was."""

    def suggested(study: Any) -> dict[str, Any] | None:
        record, history = study._reader.read()
        waiting = next((one for one in record.queries if one.state is State.WAITING), None)
        if waiting is not None:
            return dict(waiting.point)
        return dict(asking._choose(study, record, history, 1, PERSON)[0][0].point)

    try:
        return warm.slow(suggested)
    except HyperleafError:
        return None


def _next_picture(snapshot: Snapshot, point: Mapping[str, Any] | None) -> str:
    """What a run would be worth at each place, with the next one marked."""
    from hyperleaf.plots import acquisition_maps
    from hyperleaf.report.marks import WIDTH, Picture, page_style, plain
    from hyperleaf.report.page import render_pictures

    pictures = []
    for name in snapshot.definition.outputs:
        drawn = acquisition_maps(snapshot, output=name, chosen=None if point is None else [dict(point)], resolution=41)
        figure = plain(drawn)
        figure["layout"].setdefault("width", WIDTH)
        figure["layout"].setdefault("height", 460)
        title = "Where the next run is worth most"
        caption = "The star is where the next run will be asked for; rings are open queries, which count as if they were known."
        several = len(snapshot.definition.outputs) > 1
        pictures.append(Picture(f"{title}: {name}" if several else title, caption, page_style(figure)))
    return render_pictures(pictures, "next-")


def slices(warm: Warm, call: Call) -> dict[str, Any]:
    """The prediction at a point, as `predict` gives it, and along each input with the others held: of what was learned last if
    `wait` is false."""
    from hyperleaf.plots.view import View

    learned = warm.learned() if call.body.get("wait", True) else warm.last_learned or warm.learned()
    name = call.body.get("output", next(iter(learned.definition.outputs)))
    domain = learned.domain
    if name not in learned.definition.outputs:
        raise InputError(f"output must be one of {list(learned.definition.outputs)}; got {name!r:.80}.")
    if name not in learned.models:
        return {"output": name, "point": None, "slices": [], "words": "Nothing has been learned yet."}
    given = call.body.get("point")
    unit = domain.to_unit([dict(given)]) if given is not None else View(domain, domain.names[:1]).base[None]
    views = [View(domain, [axis], unit[0], STEPS) for axis in domain.names]
    rows = np.concatenate([unit, *(view.points() for view in views)])
    mixture = learned.models[name].predict(rows)
    mean, std = mixture.mean(), mixture.std()
    low, high = mixture.interval(PROBABILITY)
    found, start = [], 1
    for axis, view in zip(domain.names, views, strict=True):
        ticks = view.ticks[0]
        part = slice(start, start + len(ticks))
        start += len(ticks)
        scale = view.scale(0)
        found.append(
            {
                "input": axis,
                "label": scale.label,
                "log": scale.log,
                "names": None if scale.ticks is None else list(scale.ticks),
                "here": float(view.place(0, unit)[0]),
                "x": ticks.tolist(),
                **{key: _finite(view.masked(values[part])) for key, values in (("mean", mean), ("low", low), ("high", high))},
            }
        )
    (point,) = domain.from_unit(unit)
    here = {"mean": float(mean[0]), "std": float(std[0]), "low": float(low[0]), "high": float(high[0])}
    unit_words = learned.definition.outputs[name].unit
    num = len(learned.record.observations)
    allowed = bool(domain.feasible_unit(unit)[0])
    return {
        "output": name,
        "unit": unit_words,
        "num_observations": num,
        "point": point,
        "allowed": allowed,
        **here,
        "slices": found,
    }


def _finite(values: Any) -> list[float | None]:
    return [float(value) if np.isfinite(value) else None for value in values]
