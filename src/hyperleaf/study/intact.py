"""What a study reads from its store, held against its definition: a StorageError in place of a crash somewhere later."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import chain, zip_longest
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hyperleaf.config import Definition
from hyperleaf.data import Pool
from hyperleaf.domain import Domain
from hyperleaf.errors import InputError
from hyperleaf.storage.base import Record
from hyperleaf.storage.checks import damaged
from hyperleaf.study import tables
from hyperleaf.study.accuracy import Accuracy


def definition_of(record: Record) -> Definition:
    """The definition of a record that a store gave."""
    with _kept(f"the definition of the study {record.name!r}"):
        return Definition.from_json(record.definition)


def checked(record: Record, domain: Domain, outputs: tuple[str, ...], before: Record | None = None) -> Record:
    """The record, if every query has all inputs and every observation all outputs. What was in the one `before` is not checked
    again."""
    inputs, told = set(domain.names), set(outputs)
    known = () if before is None else before.queries
    for query, old in zip_longest(record.queries, known[: len(record.queries)]):
        if query is not old and query.point.keys() != inputs:
            raise damaged(f"query {query.id} must have the inputs {list(domain.names)}; got {list(query.point)}")
    before_told, before_void = ((), ()) if before is None else (before.observations, before.voided)
    pairs = [(record.observations, before_told), (record.voided, before_void)]
    for one, former in chain.from_iterable(zip_longest(now, then[: len(now)]) for now, then in pairs):
        if one is former:
            continue
        if one.point is not None and one.point.keys() != inputs:
            raise damaged(f"the run of query {one.query_id} must have the inputs {list(domain.names)}; got {list(one.point)}")
        if one.outputs.keys() != told:
            raise damaged(f"the observation of query {one.query_id} must have {list(outputs)}; got {list(one.outputs)}")
    return record


def pool_of(payload: bytes | None, domain: Domain) -> Pool | None:
    with _kept("the pool of the study"):
        return None if payload is None else tables.pool_from_bytes(payload, domain)


Test = tuple[NDArray[np.float64], dict[str, NDArray[np.float64]]]


def test_of(payload: bytes | None, domain: Domain, outputs: tuple[str, ...]) -> Test | None:
    """The inputs of the test table in the unit cube, and its outputs."""
    if payload is None:
        return None
    with _kept("the test table of the study"):
        runs = tables.runs_from_bytes(payload)
        unit = domain.to_unit([point for point, _ in runs])
        return unit, {name: np.array([values[name] for _, values in runs], dtype=np.float64) for name in outputs}


def accuracy_of(num: int, values: Mapping[str, Any]) -> dict[str, Accuracy]:
    """What was measured after so many observations."""
    with _kept(f"what was measured after {num} observations"):
        found = {name: Accuracy(**figures) for name, figures in values.items()}
        for one in found.values():
            for figure in vars(one).values():
                if figure is not None and not math.isfinite(figure):
                    raise ValueError(f"a figure must be finite; got {figure}")
        return found


@contextmanager
def _kept(what: str) -> Iterator[None]:
    try:
        yield
    except (InputError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise damaged(f"{what} cannot be read ({type(error).__name__}: {str(error).rstrip('.')})") from error
