"""Which queries come next: first the design, then what the acquisition asks for, given all that runs, failed and was told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from hyperleaf.acquisition import as_goal
from hyperleaf.config import Definition
from hyperleaf.data import Pool
from hyperleaf.domain import Domain, Point
from hyperleaf.errors import ExhaustedError, InadmissibleError
from hyperleaf.storage.base import NewQuery, Query, Record, State
from hyperleaf.study.admitting import admission_of, check_start, shortest_way, start_queries
from hyperleaf.study.feasibility import Feasibility, OnlyFailures, learn_feasibility
from hyperleaf.study.learning import Knowledge
from hyperleaf.study.limits import foresight
from hyperleaf.suggestion import suggest
from hyperleaf.surrogates.noise import SAME


def design_queries(
    definition: Definition, domain: Domain, pool: Pool | None, record: Record, num: int, owner: str
) -> list[NewQuery]:
    """What is left of the first design, at most `num`. Data that were added count as design points. Under limits it is the points
    that are known to be safe, as they were given."""
    asked = sum(query.origin == "design" for query in record.queries)
    added = sum(query.origin == "added" and query.state != State.VOID for query in record.queries)
    if definition.limits or definition.safety.start:
        check_start(definition, record)
        start = start_queries(definition, domain, pool)[asked : max(len(definition.safety.start) - added, 0)][:num]
        return [NewQuery(point, "design", index=row, owner=owner) for point, row in start]
    wanted = max(definition.design.size - added, 0)
    num = min(num, wanted - asked)
    if num <= 0:
        return []
    if pool is not None:
        order = _pool_design(definition, pool)
        taken = {query.index for query in record.queries}
        rows = [row for row in order if row not in taken][:num]
        return [NewQuery(pool.points(row)[0], "design", index=row, owner=owner) for row in rows]
    points = _design(domain, definition.design.size, definition.design.kind, definition.study.seed)[asked : asked + num]
    return [NewQuery(point, "design", owner=owner) for point in points]


@lru_cache(maxsize=4)
def _design(domain: Domain, size: int, kind: str, seed: int) -> Sequence[Point]:
    """The whole of it, which is asked for at every query of it."""
    return domain.design(size, kind, seed)


def _pool_design(definition: Definition, pool: Pool) -> list[int]:
    """Rows of a pool for the first design: at random, or the ones nearest to a design of the domain, each once."""
    rng = np.random.default_rng(definition.study.seed)
    order = [int(row) for row in rng.permutation(len(pool))]
    if definition.design.kind == "uniform":
        return order
    wanted = pool.domain.to_unit(pool.domain.design(definition.design.size, definition.design.kind, definition.study.seed))
    chosen: list[int] = []
    for point in wanted[: len(pool)]:
        distance = np.sum((pool.unit - point) ** 2, axis=1)
        distance[chosen] = np.inf
        chosen.append(int(np.argmin(distance)))
    return chosen + [row for row in order if row not in set(chosen)]


def blind_queries(
    definition: Definition,
    domain: Domain,
    pool: Pool | None,
    record: Record,
    num: int,
    owner: str,
    besides: Sequence[NewQuery] = (),
) -> list[NewQuery]:
    """Beyond the design while too little has been told yet: more workers than design points, or all of them failed. `besides`
    are those that are chosen already and not yet in the record. Under limits nothing is asked blindly."""
    if definition.limits:
        raise InadmissibleError(
            f"under limits every query is chosen with what was learned; {len(record.observations)} runs have been told, which is "
            "not enough for the surrogate yet. Ask for fewer, tell the runs that are open, or name more points in safety.start."
        )
    if pool is not None:
        taken = {query.index for query in record.queries} | {query.index for query in besides}
        rows = [row for row in _pool_design(definition, pool) if row not in taken][:num]
        _check_left(len(rows), num, pool)
        return [NewQuery(pool.points(row)[0], "design", index=row, owner=owner) for row in rows]
    first = len(record.queries) + len(besides)
    seeds = [_seed(definition, first + i, "blind") for i in range(num)]
    return [NewQuery(domain.design(1, "uniform", seed)[0], "design", owner=owner) for seed in seeds]


def informed_queries(
    definition: Definition,
    domain: Domain,
    pool: Pool | None,
    record: Record,
    known: Knowledge,
    num: int,
    owner: str,
    besides: Sequence[NewQuery] = (),
) -> list[NewQuery]:
    """What the acquisition asks for. Queries without an output, also failed ones and those `besides` that are chosen already and
    not yet in the record, count as observations still to come; so do those that were voided before they had one, for else they
    would be asked for again at once. Where a value was set aside, the first thing to ask is whether it is right."""
    success = feasibility_of(definition, domain, record)
    admission = admission_of(definition, domain, record, known.models, success)
    looks = second_looks(domain, pool, record, known, owner, besides)[:num]
    if admission is not None:
        looks = [one for one in looks if admission.admits(domain.to_unit([dict(one.point)])).all()]
    if looks:
        arguments = (definition, domain, pool, record, known, num - len(looks), owner)
        return looks + (informed_queries(*arguments, [*besides, *looks]) if num > len(looks) else [])
    unmade = (State.RUNNING, State.WAITING)
    without = [query for query in record.queries if query.state in (*unmade, State.FAILED) or query.was in unmade]
    open_: list[Query | NewQuery] = [*without, *besides]
    weights = [output.weight for output in definition.outputs.values()]
    where: Domain | Pool = domain
    pending: Any = [dict(query.point) for query in open_]
    if pool is not None:
        asked: list[Query | NewQuery] = [*record.queries, *besides]
        where = pool.without([query.index for query in asked if query.index is not None])
        _check_left(len(where.remaining), num, pool)
        pending = [query.index for query in open_ if query.index is not None]
    goal = definition.acquisition
    found = suggest(
        list(known.models.values()),
        where,
        acquisition=as_goal(goal.kind, goal.level, goal.minimize),
        n=num,
        pending=pending,
        optimizer=definition.acquisition.optimizer,
        seed=_seed(definition, len(record.queries), "choose"),
        weights=weights,
        feasibility=None if definition.limits else success,
        admission=admission,
    )
    if definition.limits and admission is not None:
        chances = admission.probability(np.stack([one.unit for one in found]))
        found = [replace(one, note=foresight(float(p), one.note)) for one, p in zip(found, chances, strict=True)]
    if definition.safety.order == "shortest":
        start = domain.to_unit([dict(record.places()[record.queries[-1].id])])[0] if record.queries else None
        ramp = None if admission is None else admission.ramp
        found = [found[i] for i in shortest_way(start, np.stack([one.unit for one in found]), ramp)]
    return [NewQuery(one.point, "acquisition", one.index, _finite(one.score), one.note, owner) for one in found]


def second_looks(
    domain: Domain, pool: Pool | None, record: Record, known: Knowledge, owner: str, besides: Sequence[NewQuery] = ()
) -> list[NewQuery]:
    """Each setting whose value was set aside, once more; of a pool the nearest candidate. None where that was asked before."""
    aside = {known.ids[k] for model in known.models.values() for k in model.aside}
    if not aside:
        return []
    asked: list[Query | NewQuery] = [*record.queries, *besides]
    places, looks = record.places(), []
    if pool is not None:
        taken = {query.index for query in asked}
        for number in sorted(aside):
            distance = np.sum((pool.unit - domain.to_unit([dict(places[number])])) ** 2, axis=1)
            order = np.argsort(distance, kind="stable")
            own = next(query.index for query in record.queries if query.id == number)
            row = next((int(row) for row in order if row != own), None)
            if row is not None and row not in taken:
                looks.append(NewQuery(pool.points(row)[0], "acquisition", row, note=_look(number), owner=owner))
                taken.add(row)
        return looks
    others = domain.to_unit([dict(query.point) for query in asked])
    for number in sorted(aside):
        unit = domain.to_unit([dict(places[number])])
        if np.sum((np.abs(others - unit) <= SAME).all(axis=1)) < 2 and domain.feasible_unit(unit)[0]:
            looks.append(NewQuery(dict(places[number]), "acquisition", note=_look(number), owner=owner))
    return looks


def _look(number: int) -> str:
    return f"as query {number}, whose value does not go with the others"


def feasibility_of(definition: Definition, domain: Domain, record: Record) -> Feasibility | OnlyFailures | None:
    """The learned probability of success, or None where nothing failed or failures are not to be avoided."""
    if not definition.failures.avoid:
        return None
    places = record.places()
    failed = [dict(query.point) for query in record.queries if query.state == State.FAILED]
    done = [dict(places[query.id]) for query in record.queries if query.state == State.DONE]
    nothing = np.zeros((0, domain.num_dims))
    return learn_feasibility(domain.to_unit(done) if done else nothing, domain.to_unit(failed) if failed else nothing)


def _seed(definition: Definition, number: int, purpose: str) -> int:
    sequence = np.random.SeedSequence((definition.study.seed, number, *purpose.encode()))
    return int(sequence.generate_state(1, np.uint32)[0])


def _finite(score: float) -> float | None:
    return float(score) if np.isfinite(score) else None


def _check_left(left: int, num: int, pool: Pool) -> None:
    if left < num:
        raise ExhaustedError(
            f"a pool must have as many candidates left as are asked for; {left} of {len(pool)} are left and {num} are asked for. "
            "Ask for fewer, or start a study with a larger pool."
        )
