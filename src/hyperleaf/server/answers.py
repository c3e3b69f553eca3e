"""What each operation of the HTTP interface does: calls of `Study`, with the checks and the words of the command line.

Whatever makes a query leaves the key of its request in the store, as the owner of that query and in the same transaction. So a
request that is sent again finds what the first one made, also when the server was killed before it could answer.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from hyperleaf.errors import InputError
from hyperleaf.server.operations import Call
from hyperleaf.server.progress import progress_of
from hyperleaf.server.studies import Warm
from hyperleaf.simulators.table import read_input
from hyperleaf.storage.base import AlreadyToldError, Kind, NewQuery, Query, State
from hyperleaf.storage.checks import unknown_query
from hyperleaf.study import Study, asking, corrections
from hyperleaf.study.owners import PERSON, SILENCE, is_gone
from hyperleaf.study.snapshot import Snapshot
from hyperleaf.values import query_values, status_values, suspect_values

KEY = re.compile(r"[\w.:-]{1,80}", re.ASCII)
INTERVAL = 0.9


# --- looking


def listed(call: Call) -> dict[str, Any]:
    """All studies with a line about each."""
    assert call.get is not None
    found = []
    for name in call.names():
        snapshot = call.get(name).snapshot()
        found.append({"name": name, "description": snapshot.definition.study.description, **progress_of(snapshot)})
    return {"studies": found}


def described(warm: Warm, call: Call) -> dict[str, Any]:
    """What a study is: without its store, whose address is nobody's business, and without its simulator."""
    snapshot = warm.snapshot()
    definition = snapshot.definition.to_json()
    definition["study"].pop("storage", None)
    definition.pop("simulator", None)
    return {"name": warm.name, "domain": snapshot.domain.to_dict(), "outputs": list(snapshot.definition.outputs), **definition}


def snapshot(warm: Warm, call: Call) -> dict[str, Any]:
    found = warm.snapshot()
    return dict(warm.once("snapshot", (found.record.version, id(found)), lambda: _snapshot_values(found)))


def _snapshot_values(found: Snapshot) -> dict[str, Any]:
    values = status_values(found.status())
    values.pop("storage")
    return {**values, "version": found.record.version, "num_queries": len(found.record.queries), **progress_of(found)}


def query(warm: Warm, call: Call) -> dict[str, Any]:
    record = warm.snapshot().record
    told = {one.query_id: one for one in (*record.observations, *record.voided)}.get(call.number)
    changes = [asdict(change) for change in record.changes if change.query_id == call.number]
    found = _found(warm.name, record.queries, call.number)
    outputs = None if told is None else dict(told.outputs)
    return {**query_values(found), "outputs": outputs, "place": record.places()[call.number], "changes": changes}


def history(warm: Warm, call: Call) -> dict[str, Any]:
    found = warm.snapshot().history
    rows = [{"num_observations": num, "output": name, **asdict(one)} for num, values in found for name, one in values.items()]
    return {"study": warm.name, "history": rows}


def _found(name: str, queries: Sequence[Query], number: int) -> Query:
    found = next((one for one in queries if one.id == number), None)
    if found is None:
        raise unknown_query(name, number)
    return found


# --- asking


def ask(warm: Warm, call: Call) -> dict[str, Any]:
    num, owner = call.body.get("n", 1), _owner(call)
    lease = call.body.get("lease", SILENCE if owner is not None else None)
    if owner is None:
        queries = warm.slow(lambda study: study.ask(num, owner=PERSON, lease=lease))
        return _queries(warm, queries)
    if call.key is not None:
        owner = f"{owner} {call.key}"

    def asked(study: Study) -> list[Query]:
        before = [] if call.key is None else [one for one in study._reader.record().queries if one.owner == owner]
        left = num - len(before)
        return before[:num] + (study.ask(left, owner=owner, lease=lease) if left > 0 else [])

    return _queries(warm, warm.slow(asked))


def repeat(warm: Warm, call: Call) -> dict[str, Any]:
    num, owner = call.body.get("n", 1), _owner(call)
    name = PERSON if owner is None else owner if call.key is None else f"{owner} {call.key}"

    def repeated(study: Study) -> list[Query]:
        before = [one for one in study._reader.record().queries if one.owner == name] if " " in name else []
        return before[:num] or study.repeat(call.number, num, owner=name)

    return _queries(warm, warm.quick(repeated))


def suggest(warm: Warm, call: Call) -> dict[str, Any]:
    """What `ask` would give, without asking for it: those that wait first, and those whose owner is gone."""
    num = call.body.get("n", 1)

    def suggested(study: Study) -> list[dict[str, Any]]:
        record, past = study._reader.read()
        asking.check_current(study, record)
        now = study.storage.now()
        gone = [one.id for one in record.queries if is_gone(one.owner, one.heartbeat, now, one.lease)]
        free = [one for one in record.queries if one.state is State.WAITING or (one.state is State.RUNNING and one.id in gone)]
        waiting = free[:num]
        new = asking._choose(study, record, past, num - len(waiting), PERSON)[0] if len(waiting) < num else []
        found: list[Query | NewQuery] = [*waiting, *new]
        return [{"point": dict(one.point), "origin": one.origin, "score": one.score, "note": one.note} for one in found]

    return {"study": warm.name, "suggestions": warm.slow(suggested)}


def beat(warm: Warm, call: Call) -> dict[str, Any]:
    """Signs of life of those who hold queries."""
    owners = [_label(one) for one in call.body["owners"]]
    store = warm.storage
    return {"alive": sum(store.beat(warm.name, one, now=store.now()) for one in owners)}


def release(warm: Warm, call: Call) -> dict[str, Any]:
    owner = call.body.get("owner")

    def given(study: Study) -> bool:
        if owner is None:
            return study.release(call.number)
        note = "given back by who held it"
        return warm.storage.release(warm.name, call.number, owner, note=note) is not None

    return {"study": warm.name, "released": warm.quick(given)}


def _owner(call: Call) -> str | None:
    """Who asks; None for a person, who keeps a query until it is told."""
    owner = call.body.get("owner")
    return None if owner is None or owner == PERSON else _label(owner)


def _label(owner: Any) -> str:
    if not isinstance(owner, str) or not owner.strip() or "/" in owner or len(owner) > 190 or not owner.isprintable():
        raise InputError(f"an owner must be a name of 1 to 100 characters without a slash; got {owner!r:.120}.")
    return owner


def _queries(warm: Warm, queries: Sequence[Query]) -> dict[str, Any]:
    return {"study": warm.name, "queries": [query_values(one) for one in queries]}


# --- telling


def tell(warm: Warm, call: Call) -> dict[str, Any]:
    where = f"query {call.number}"

    def told(study: Study) -> bool:
        values = _read(study, call.body["values"], where)
        asked = None
        if "point" in call.body:  # as it was given out: the study may have been made anew since
            asked = replace(study._reader.query(call.number), point=call.body["point"])
        return study.tell(asked or call.number, values, seconds=call.body.get("seconds"))

    new = warm.quick(told)
    return {"study": warm.name, "told": new, "suspects": _suspects(warm, call) if call.body.get("look", False) else []}


def tell_failed(warm: Warm, call: Call) -> dict[str, Any]:
    """`attempt` and `owner`, as a worker got the query, make that it fails once, however often it is sent."""

    def failed(study: Study) -> tuple[bool, bool]:
        current = study._reader.query(call.number)
        changed = call.body.get("attempt", current.attempt) == current.attempt
        if changed:
            owner = call.body.get("owner")
            asked = call.number if owner is None else replace(current, owner=owner)
            options = {"seconds": call.body.get("seconds"), "retry": call.body.get("retry")}
            changed = study.tell_failed(asked, call.body["reason"], **options)
        return changed, study._reader.query(call.number).state is not State.FAILED

    changed, again = warm.quick(failed)
    return {"study": warm.name, "failed": changed, "retried": changed and again}


def add(warm: Warm, call: Call) -> dict[str, Any]:
    """Runs that nobody asked for. With a key they are added once: it stays with them in their note."""
    note = call.body.get("note", "")
    if call.key is not None:
        note = f"{note} (sent as {call.key})".strip()

    def added(study: Study) -> list[Query]:
        before = [one for one in study._reader.record().queries if one.origin == "added" and one.note == note]
        if call.key is not None and before:
            return before
        runs = call.body["runs"]
        if not all(isinstance(run, dict) for run in runs):
            raise InputError("runs must be a list of objects, each with all inputs and outputs.")
        return study.add([_read(study, run, f"run {i}") for i, run in enumerate(runs)], note=note)

    return _queries(warm, warm.quick(added))


def correct(warm: Warm, call: Call) -> dict[str, Any]:
    def corrected(study: Study) -> bool:
        values = _read(study, call.body["values"], f"query {call.number}")
        if not _is_latest(study, call):
            return False
        return study.correct(call.number, values, why=call.body.get("why", ""), who=_who(call))

    return _changed(warm, call, warm.quick(corrected))


def cover(kind: Kind) -> Any:
    """An operation that voids a query, restores it or confirms it."""

    def covered(warm: Warm, call: Call) -> dict[str, Any]:
        def change(study: Study) -> bool:
            if not _is_latest(study, call):
                return False
            return bool(corrections.cover(study, [call.number], kind, why=call.body.get("why", ""), who=_who(call)))

        return _changed(warm, call, warm.quick(change))

    return covered


def _is_latest(study: Study, call: Call) -> bool:
    """Whether nobody changed the query after whoever changes it now has `seen` it. The same change by the same person, sent again
    because its answer was lost, is no other; one that somebody else made is, and is not to be overruled unseen."""
    seen = call.body.get("seen")
    if seen is None:
        return True
    later = [one for one in study._reader.record().changes if one.query_id == call.number and one.number > seen]
    if later and (later[-1].who, later[-1].why) == (_who(call), call.body.get("why", "")):
        return False
    if later:
        raise AlreadyToldError(
            f"what is changed must be seen first; query {call.number} was changed meanwhile by {later[-1].who}. Look at it again."
        )
    return True


def _who(call: Call) -> str:
    return str(call.body.get("who", "")).strip()[:100] or "somebody by HTTP"


def _changed(warm: Warm, call: Call, changed: bool) -> dict[str, Any]:
    return {"study": warm.name, "changed": changed, "suspects": _suspects(warm, call)}


def _suspects(warm: Warm, call: Call) -> list[dict[str, Any]]:
    return [suspect_values(one) for one in warm.snapshot().suspects if one.query_id == call.number]


def _read(study: Study, values: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Texts as values: those of inputs by their axes; outputs are read where they are checked."""
    axes = study.domain.names
    return {
        name: read_input(name, study.domain, value.strip(), where) if name in axes and isinstance(value, str) else value
        for name, value in values.items()
    }


# --- what was learned


def predict(warm: Warm, call: Call) -> dict[str, Any]:
    """With `wait`, everything told is learned from first; else the answer is what was learned last, and says from how much."""
    points = call.body["points"]
    columns = list(points.values()) if isinstance(points, dict) else []
    if not all(isinstance(column, list) for column in columns):
        raise InputError("points must be a list of objects, or an object of columns that are lists; got a column that is none.")
    if any(len(column) != len(columns[0]) for column in columns):
        raise InputError(f"columns of points must be equally long; got {[len(column) for column in columns]}.")
    num = len(columns[0]) if columns else len(points)
    if not 1 <= num <= call.most_points:
        raise TooManyPointsError(
            f"a prediction is made at 1 to {call.most_points} points at a time; got {num}. Send them in parts."
        )
    levels = call.body.get("quantiles", [(1 - INTERVAL) / 2, (1 + INTERVAL) / 2])
    if not all(isinstance(one, int | float) and 0 < one < 1 for one in levels) or len(levels) > 32:
        raise InputError(f"quantiles must be up to 32 numbers between 0 and 1; got {levels!r:.200}.")
    learned = warm.learned() if call.body.get("wait", True) else warm.last_learned or warm.learned()
    name = call.body.get("output", next(iter(learned.definition.outputs)))
    if name not in learned.definition.outputs:
        raise InputError(f"output must be one of {list(learned.definition.outputs)}; got {name!r:.80}.")
    if name not in learned.models:
        warm.slow(lambda study: study.models)  # says why not
    mixture = learned.models[name].predict(learned.domain.to_unit(_rows(points, learned.domain.names)))
    mixture = mixture.noisy() if call.body.get("noisy", False) else mixture
    ends: Any = mixture.quantile(np.array(levels, dtype=np.float64)) if levels else []
    quantiles = {f"{level:.12g}": row.tolist() for level, row in zip(levels, ends, strict=True)}
    figures = {"mean": mixture.mean().tolist(), "std": mixture.std().tolist(), "quantiles": quantiles}
    unit = learned.definition.outputs[name].unit
    return {"study": warm.name, "output": name, "unit": unit, "num_observations": len(learned.record.observations), **figures}


def _rows(points: Any, names: Sequence[str]) -> Any:
    """Points as a domain reads them; columns of plain values go in as they are."""
    if not isinstance(points, dict):
        return points
    if set(points) == set(names) and not any(isinstance(value, list | dict) for column in points.values() for value in column):
        return np.array([points[name] for name in names], dtype=object).T
    return [dict(zip(points, row, strict=True)) for row in zip(*points.values(), strict=True)]


class TooManyPointsError(InputError):
    """More points at a time than a server predicts."""
