"""Choosing under limits: where a study starts, which points may be asked now, in which order, and which are the safest."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from hyperleaf.acquisition import Admission, Limit, Ramp, all_hold, effective_draws, resolved
from hyperleaf.acquisition.limits import RESOLUTION
from hyperleaf.config import ConfigError, Definition
from hyperleaf.data import Pool
from hyperleaf.domain import Domain, Point
from hyperleaf.errors import DomainError, InputError
from hyperleaf.optimize import Outwards, Problem
from hyperleaf.storage.base import Record, State
from hyperleaf.study.limits import kept_so_far
from hyperleaf.study.snapshot import Snapshot
from hyperleaf.suggestion import refusal
from hyperleaf.surrogates.base import Surrogate
from hyperleaf.surrogates.learned import Learned

SAME = 1e-6  # of the width of an axis, within which a start point is a row of the pool


# --- beginning


def check_limits(definition: Definition, domain: Domain, pool: Pool | None, surrogates: Sequence[Surrogate]) -> None:
    """Refuse start points, ramps or a surrogate with which limits cannot be kept."""
    safety = definition.safety
    try:
        unit = domain.to_unit([dict(point) for point in safety.start]) if safety.start else np.zeros((0, domain.num_dims))
        if safety.start and not domain.feasible_unit(unit).all():
            row = int(np.flatnonzero(~domain.feasible_unit(unit))[0])
            raise DomainError(f"point {row + 1} breaks the constraints {list(domain.constraints)}")
    except DomainError as error:
        raise ConfigError(f"safety.start must be points of the domain: {error}") from error
    for name in safety.ramps:
        if name not in domain.names:
            raise ConfigError(f"safety.ramps names {name!r}, which is no input; inputs are {list(domain.names)}.")
        if domain.axes[name].bounds is None:
            raise ConfigError(f"safety.ramps needs an input with numbers; {name!r} is a choice. Leave it out.")
    ramp = ramp_of(definition, domain)
    for i in range(1, len(unit)):
        if ramp is not None:
            low, high = ramp.box_around(unit[i - 1])
            if ((unit[i] < low - 1e-9) | (unit[i] > high + 1e-9)).any():
                raise ConfigError(
                    f"safety.start must go in steps that ramps allow; from point {i} to point {i + 1} one is larger. Put points "
                    "between them, or another order."
                )
    if pool is not None:
        rows_of_start(unit, pool)
    if surrogates:
        for name, surrogate in zip(definition.outputs, surrogates, strict=True):
            if name in definition.limits:
                if surrogate.scale_free:
                    raise ConfigError(
                        f"limits need a surrogate that can be told how far an output may go before it has gone there; "
                        f"{definition.surrogate.kind!r} takes its scale from the few safe values it begins with. Use "
                        '"hhk" or "stationary".'
                    )
                _check_resolution(name, definition, surrogate.least_draws)


def _check_resolution(name: str, definition: Definition, draws: float | None) -> None:
    if draws is None or resolved(definition.risk, draws):
        return
    need = int(np.ceil(RESOLUTION / definition.risk - 1e-9))
    if draws <= 1:
        remedy = 'one set of parameters does not say how far it may err. Use inference = "smc"'
    else:
        particles = f'inference = {{ kind = "smc", particles = {2 * need} }}'
        remedy = f"write [surrogate] {particles}, or a confidence of at most {1 - RESOLUTION / draws:.3g}"
    raise ConfigError(
        f"a confidence of {1 - definition.risk:.4g} needs {need} effective draws, for a danger that fewer do not show may be "
        f"larger than {definition.risk:.3g}; the surrogate of {name!r} keeps {draws:.0f}: {remedy}."
    )


def rows_of_start(unit: NDArray[np.float64], pool: Pool) -> list[int]:
    """The rows of the pool that the start points are."""
    rows = []
    for i, point in enumerate(unit):
        distance = np.abs(pool.unit - point).max(axis=1)
        row = int(np.argmin(distance))
        if distance[row] > SAME:
            (nearest,) = pool.points(row)
            raise ConfigError(f"safety.start must be candidates of the pool; point {i + 1} is none, the nearest is {nearest}.")
        rows.append(row)
    return rows


def start_queries(definition: Definition, domain: Domain, pool: Pool | None) -> list[tuple[Point, int | None]]:
    """The points with which a study under limits begins, and their rows in the pool."""
    points = [dict(point) for point in definition.safety.start]
    if not points:
        return []
    if pool is None:
        return [(point, None) for point in domain.to_dicts(points)]
    rows = rows_of_start(domain.to_unit(points), pool)
    return [(pool.points(row)[0], row) for row in rows]


def check_start(definition: Definition, record: Record) -> None:
    """Refuse to begin without any point that is known to be safe."""
    if definition.safety.start or not definition.limits:
        return
    if not any(not one.violated for one in kept_so_far(definition, record).outcomes):
        raise InputError(
            "limits need points that are known to be safe to begin with; the study has none. Name some in [safety], "
            "start = [{ … }], in Python safety={'start': [{…}]}, or add finished runs that kept the limits (study.add)."
        )


# --- choosing


def ramp_of(definition: Definition, domain: Domain) -> Ramp | None:
    """The largest steps, as a box around a point; None where inputs may jump."""
    steps = definition.safety.ramps
    if not steps:
        return None

    def box_around(unit: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        low, high = np.zeros(domain.num_dims), np.ones(domain.num_dims)
        (here,) = domain.from_unit(unit[None])
        column = 0
        for name, axis in domain.axes.items():
            if name in steps and axis.bounds is not None:
                ends = [max(here[name] - steps[name], axis.bounds[0]), min(here[name] + steps[name], axis.bounds[1])]
                if isinstance(here[name], int):
                    ends = [int(np.ceil(ends[0])), int(np.floor(ends[1]))]
                low[column], high[column] = domain.to_unit([{**here, name: end} for end in ends])[:, column]
            column += axis.num_columns
        return low, high

    return Ramp(box_around)


def admission_of(
    definition: Definition,
    domain: Domain,
    record: Record,
    models: Mapping[str, Learned],
    success: Callable[[NDArray[np.float64]], NDArray[np.float64]] | None = None,
) -> Admission | None:
    """Which points may be asked now; None where there are neither limits nor ramps."""
    ramp = ramp_of(definition, domain)
    if not definition.limits and ramp is None:
        return None
    limits = {name: Limit(one.low, one.high) for name, one in definition.limits.items()}
    places = record.places()
    asked = [query for query in record.queries if query.state is not State.VOID]
    last = domain.to_unit([dict(places[asked[-1].id])])[0] if asked else None
    if not limits:
        return Admission(lambda unit: np.ones(len(unit)), 1.0, 1.0, ramp=ramp, last=last)
    unresolved = max(_unresolved(name, definition, models[name]) for name in limits)

    def probability(unit: NDArray[np.float64]) -> NDArray[np.float64]:
        if not len(unit):
            return np.zeros(0)
        hold = all_hold([(models[name].predict(unit).noisy(), limit) for name, limit in limits.items()])
        return hold if success is None else hold * success(unit)

    kept = kept_so_far(definition, record)
    found = {True: np.zeros((0, domain.num_dims)), False: np.zeros((0, domain.num_dims))}
    for violated in found:
        points = [dict(places[one.query.id]) for one in kept.outcomes if one.violated is violated]
        found[violated] = domain.to_unit(points) if points else found[violated]
    debit = definition.risk if definition.safety.held else 0.0
    risk = kept.risk - unresolved
    admission = Admission(probability, definition.risk, risk, debit, found[False], found[True], ramp, last)
    for query in record.queries:  # open ones count half: what they risk, and nothing of what they may earn
        if query.state in (State.RUNNING, State.WAITING) and query.origin == "acquisition" and debit:
            admission = admission.after(domain.to_unit([dict(query.point)])[0])
    return replace(admission, last=last)


def _unresolved(name: str, definition: Definition, model: Learned) -> float:
    """By how much the mass that the draws cannot tell from none is more than what may be risked.

    For a while, until they are moved again, weights may leave fewer effective draws than it takes; so few draws altogether are
    refused.
    """
    mixture = model.predict(model.posterior.data.x[:1])
    _check_resolution(name, definition, mixture.num_draws)
    return max(RESOLUTION / effective_draws(mixture) - definition.risk, 0.0)


def shortest_way(start: NDArray[np.float64] | None, unit: NDArray[np.float64], ramp: Ramp | None) -> list[int]:
    """The order of rows (q, d) that makes the way from the start through all of them short: nearest first, then parts of it
    turned round as long as that helps. Where ramps forbid every shorter order, the order stays."""
    q = len(unit)
    if q < 2:
        return list(range(q))
    begin = unit[0] if start is None else start

    def length(order: Sequence[int]) -> float:
        way = np.concatenate([begin[None], unit[list(order)]])
        return float(np.linalg.norm(np.diff(way, axis=0), axis=1).sum())

    def allowed(order: Sequence[int]) -> bool:
        if ramp is None:
            return True
        way = np.concatenate([begin[None], unit[list(order)]])
        boxes = [ramp.box_around(row) for row in way[:-1]]
        return all(((row >= low - 1e-9) & (row <= high + 1e-9)).all() for (low, high), row in zip(boxes, way[1:], strict=True))

    best, shortest = list(range(q)), length(range(q))
    nearest: list[int] = []
    here = begin
    while len(nearest) < q:
        left = [i for i in range(q) if i not in nearest]
        nearest.append(left[int(np.argmin(np.linalg.norm(unit[left] - here, axis=1)))])
        here = unit[nearest[-1]]
    for order in (best, nearest):
        order, better = list(order), True
        while better:
            better = False
            for i in range(q - 1):
                for j in range(i + 1, q):
                    turned = order[:i] + order[i : j + 1][::-1] + order[j + 1 :]
                    if length(turned) < length(order) - 1e-12:
                        order, better = turned, True
        if length(order) < shortest - 1e-12 and allowed(order):
            best, shortest = order, length(order)
    return best


# --- looking


def admission_now(snapshot: Snapshot) -> Admission | None:
    """Which points may be asked, as a snapshot that has learned knows it; None where it has not, or nothing limits them."""
    if not snapshot.models or not snapshot.definition.limits:
        return None
    return admission_of(snapshot.definition, snapshot.domain, snapshot.record, snapshot.models, snapshot.success)


def safest(snapshot: Snapshot, num: int = 3) -> list[tuple[Point, float]]:
    """The points that are most probable to keep all limits, of those that nobody asked for yet; each with that probability."""
    admission = admission_now(snapshot)
    if admission is None:
        raise InputError("the safest points are those of a study with limits that has learned something; this one has not.")
    places = [dict(place) for place in snapshot.record.places().values()]
    domain = snapshot.domain
    rows = snapshot.candidates
    if rows is None:
        rows = Outwards(admission.admits, admission.kept).shots(Problem(domain, admission.probability, None, 0))
    return refusal(admission, rows, admission.probability(rows), domain.to_unit(places), domain, num)[1]
