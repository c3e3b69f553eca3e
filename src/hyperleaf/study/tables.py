"""Tables in and out of a study: finished runs from CSV files or tables in memory, the pool, and the table of all runs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hyperleaf.data import Pool
from hyperleaf.domain import Domain, Point, read_table
from hyperleaf.errors import DataError, DomainError, InputError
from hyperleaf.simulators.base import BadOutput, as_output
from hyperleaf.simulators.table import read_csv_lines
from hyperleaf.storage.base import Record
from hyperleaf.study.changes import asked_words, history


def read_runs(table: Any, domain: Domain, outputs: tuple[str, ...]) -> list[tuple[Point, dict[str, float]]]:
    """Finished runs, checked: points of the domain with all outputs finite. From a CSV path, a DataFrame or a list of dicts."""
    if isinstance(table, str | Path):
        points, columns, lines = read_csv_lines(table, domain, outputs)
        source, column = str(table), {name: list(values) for name, values in columns.items()}
        where = [f"line {line} of {source}" for line in lines]
    else:
        if hasattr(table, "__len__") and len(table) == 0:
            return []
        names, found = read_table(table, None, DataError)
        source, by_name = "the table", dict(zip(names, found, strict=True))
        for name in (*domain.names, *outputs):
            if name not in by_name:
                raise DataError(f"a table of runs must have the columns {[*domain.names, *outputs]}; {name!r} is missing.")
        points = [dict(zip(domain.names, row, strict=True)) for row in zip(*(by_name[n] for n in domain.names), strict=True)]
        column = {name: list(by_name[name]) for name in outputs}
        where = [f"row {row} of {source}" for row in range(len(points))]
    points = _checked(points, domain, where)
    runs = []
    for row, point in enumerate(points):
        values = {name: column[name][row] for name in outputs}
        runs.append((point, check_outputs(values, outputs, where[row])))
    return runs


def _checked(points: list[Point], domain: Domain, where: list[str]) -> list[Point]:
    """Points of the domain; one that is none is named by where it stands."""
    try:
        return domain.to_dicts(points) if points else []
    except DomainError:
        for point, place in zip(points, where, strict=True):
            try:
                domain.to_dicts([point])
            except DomainError as error:
                raise DomainError(f"{place}: {str(error).replace(' in row 0', '')}") from None
        raise


def check_outputs(values: Mapping[str, Any], outputs: tuple[str, ...], where: str) -> dict[str, float]:
    """All outputs of a run as finite floats, or an InputError that says which is wrong."""
    for name in values:
        if name not in outputs:
            raise InputError(f"{where}: {name!r} is no output of this study; outputs are {list(outputs)}.")
    checked = {}
    for name in outputs:
        if name not in values:
            raise InputError(f"{where}: the output {name!r} is missing; all of {list(outputs)} are told at once.")
        try:
            checked[name] = as_output(name, values[name])
        except BadOutput as error:
            raise InputError(f"{where}: {error}. If the run failed, say so: tell_failed, or hyperleaf tell --failed.") from None
    return checked


def pool_to_bytes(pool: Pool) -> bytes:
    """The candidates of a pool with exactly their values, for a store."""
    return json.dumps(pool.points(range(len(pool)))).encode()


def pool_from_bytes(payload: bytes, domain: Domain) -> Pool:
    return Pool(json.loads(payload.decode()), domain)


def runs_to_bytes(runs: list[tuple[Point, dict[str, float]]]) -> bytes:
    return json.dumps([[point, outputs] for point, outputs in runs]).encode()


def runs_from_bytes(payload: bytes) -> list[tuple[Point, dict[str, float]]]:
    return [(point, outputs) for point, outputs in json.loads(payload.decode())]


def table_of(record: Record, inputs: tuple[str, ...], outputs: tuple[str, ...]) -> Any:
    """All queries as a DataFrame, one row each, in the order they were asked. Inputs are as they were set; where that is not as
    they were asked for, `asked` says what was. A voided run has no outputs; `changes` tells what was put right."""
    import pandas as pd

    told = {one.query_id: one.outputs for one in record.observations}
    places, changed = record.places(), history(record.changes)
    rows = []
    for query in record.queries:
        values = told.get(query.id, {})
        rows.append(
            {
                "id": query.id,
                **{name: places[query.id][name] for name in inputs},
                **{name: values.get(name, float("nan")) for name in outputs},
                "state": query.state.value,
                "origin": query.origin,
                "attempt": query.attempt,
                "index": query.index,
                "score": query.score,
                "seconds": query.seconds,
                "reason": query.reason,
                "note": query.note,
                "epoch": query.epoch,
                "asked": asked_words(query, places[query.id]),
                "changes": changed.get(query.id, ""),
                "asked_at": pd.Timestamp(query.asked_at, unit="s", tz="UTC"),
                "ended_at": pd.NaT if query.ended_at is None else pd.Timestamp(query.ended_at, unit="s", tz="UTC"),
            }
        )
    head = ["id", *inputs, *outputs, "state", "origin", "attempt", "index", "score", "seconds", "reason", "note", "epoch"]
    table = pd.DataFrame(rows, columns=[*head, "asked", "changes", "asked_at", "ended_at"])
    return table.astype({"index": "Int64", "score": "float64", "seconds": "float64"})
