"""What a study would do, before it does anything: everything that its definition leads to is looked at, and nothing is written.

`look` finds mistakes that a study file alone does not show (options of the surrogate, files, programs, the store), each with the
place in the file; the plan says in a few lines what is asked, of whom, and when it ends.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hyperleaf.config import Definition
from hyperleaf.errors import HyperleafError
from hyperleaf.simulators import as_simulator
from hyperleaf.simulators.durations import format_duration
from hyperleaf.storage import NoStoreError, StudyNotFoundError, open_storage
from hyperleaf.storage.memory import MemoryStorage
from hyperleaf.study import tables
from hyperleaf.study.defining import (
    candidates_of,
    check_address,
    check_criterion,
    differences,
    differs,
    resolved,
)


@dataclass(frozen=True)
class Foreseen:
    """The plan in words, by subject, and the mistakes that were found, each with its place in the file."""

    plan: dict[str, str]
    mistakes: tuple[tuple[str, str], ...]


def look(definition: Definition, storage: str, folder: Path) -> Foreseen:
    """`storage` is where the study is or will be; relative paths are meant from `folder`."""
    mistakes: list[tuple[str, str]] = []
    facts: dict[str, Any] = {}
    for place, name, find in _looks(definition, storage, folder):
        try:
            facts[name] = find()
        except (HyperleafError, OSError) as error:
            mistakes.append((place, str(error)))
    return Foreseen(_plan(definition, storage, facts), tuple(mistakes))


def _looks(definition: Definition, storage: str, folder: Path) -> Iterator[tuple[str, str, Any]]:
    """(place, name, function) of everything to be looked at; a function raises what is wrong, or gives a fact."""
    from hyperleaf.optimize import check_optimizer
    from hyperleaf.study.admitting import check_limits
    from hyperleaf.study.learning import Learner

    domain, outputs = definition.make_domain(), tuple(definition.outputs)
    held: dict[str, Any] = {"pool": None, "surrogates": ()}

    def surrogate() -> None:
        held["surrogates"] = Learner(definition, domain, MemoryStorage()).surrogates

    def pool() -> int:
        assert definition.pool is not None
        held["pool"] = candidates_of(folder / definition.pool.table, domain)
        return len(held["pool"])

    def test() -> int:
        assert definition.test is not None
        return len(tables.read_runs(folder / definition.test.table, domain, outputs))

    def simulator() -> None:
        assert definition.simulator is not None
        as_simulator(definition.simulator, outputs, domain=domain, folder=folder, study=definition.study.name)

    yield "study.storage", "address", lambda: check_address(definition)
    yield "surrogate", "surrogate", surrogate
    yield "acquisition.kind", "acquisition", lambda: check_criterion(definition)
    yield "acquisition.optimizer", "optimizer", lambda: check_optimizer(definition.acquisition.optimizer)
    if definition.pool is not None:
        yield "pool.table", "candidates", pool
    if definition.test is not None:
        yield "test.table", "test", test
    yield "safety", "limits", lambda: check_limits(definition, domain, held["pool"], held["surrogates"])
    if definition.simulator is not None:
        yield "simulator", "simulator", simulator
    yield "study", "begun", lambda: _begun(definition, storage, folder)


def _begun(definition: Definition, storage: str, folder: Path) -> str:
    """How far the study is in its store; an error if the file says something else of it than can still be changed."""
    if storage.startswith("sqlite:///") and not Path(str(resolved(storage, folder)).removeprefix("sqlite:///")).exists():
        return "not begun"
    try:
        record = open_storage(resolved(storage, folder), create=False).read(definition.study.name)
    except (NoStoreError, StudyNotFoundError):
        return "not begun"
    changed, fixed = differences(record.definition, definition.to_json())
    if fixed and record.queries:
        raise differs(fixed[0], definition.study.name, len(record.queries))
    done = f"begun, {len(record.observations)} finished of {len(record.queries)} asked"
    return done + (f"; changed since: {', '.join(f'[{name}]' for name in changed)}" if changed else "")


def _plan(definition: Definition, storage: str, facts: dict[str, Any]) -> dict[str, str]:
    study, domain = definition.study, definition.make_domain()
    axes = [f"{name} {axis.describe()} {axis.unit or ''}".rstrip() for name, axis in domain.axes.items()]
    plan = {
        "study": f"{study.name!r} in {storage}, seed {study.seed}, {facts.get('begun', 'store not read')}",
        "inputs": "; ".join([*axes, *(f"only where {one}" for one in study.constraints)]),
        "outputs": "; ".join(_output_words(name, one) for name, one in definition.outputs.items()),
        "surrogate": ", ".join([definition.surrogate.kind, *(_pair(*one) for one in definition.surrogate.options.items())]),
        "queries": f"{definition.design.size} by {definition.design.kind}, then by {definition.acquisition.kind}, "
        + (
            f"out of the {facts.get('candidates', '?')} rows of {definition.pool.table}"
            if definition.pool
            else "anywhere in the domain"
        ),
        "answers": _answers(definition),
        "stops": _stops(definition),
    }
    if definition.test is not None:
        plan["tested on"] = f"{facts.get('test', '?')} rows of {definition.test.table}, which are not learned from"
    if definition.limits:
        words = "; ".join(f"{name} {one.words}" for name, one in definition.limits.items())
        plan["limits"] = f"{words}; a query keeps all with a probability of {1 - definition.risk:g}"
    return plan


def _output_words(name: str, output: Any) -> str:
    noise = f"noise {output.noise}" if isinstance(output.noise, str) else f"noise with standard deviation {output.noise:g}"
    return f"{name}{f' in {output.unit}' if output.unit else ''}, {noise}"


def _pair(name: str, value: Any) -> str:
    return f"{name} = {json.dumps(value, ensure_ascii=False)}"


def _answers(definition: Definition) -> str:
    if definition.simulator is None:
        return "a person, by hyperleaf ask and hyperleaf tell"
    return ", ".join(_pair(*one) for one in definition.simulator.items())


def _stops(definition: Definition) -> str:
    stop = definition.stop
    rules = [f"after {stop.queries} finished runs"] if stop.queries else []
    rules += [f"after {format_duration(stop.time)} of one run"] if stop.time else []
    if isinstance(stop.rmse, dict):
        rules += [f"when the expected error of {name} is {value:g}" for name, value in stop.rmse.items()]
    elif stop.rmse:
        rules += [f"when the expected errors are {stop.rmse:g} standard deviations"]
    rules += [f"after {stop.stagnation} runs without progress"] if stop.stagnation else []
    return ", or ".join(rules) or "never by itself: give hyperleaf run --queries, or a rule in [stop]"
