"""Tables in and out of a study: finished runs from CSV files or tables in memory, the pool, and the table of all runs."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hyperleaf.checks import alike
from hyperleaf.data import Pool
from hyperleaf.domain import Domain, Point, read_table
from hyperleaf.errors import DataError, DomainError, InputError
from hyperleaf.simulators.base import BadOutput, as_output
from hyperleaf.simulators.table import read_csv_lines
from hyperleaf.storage.base import Record
from hyperleaf.study.accuracy import Accuracy
from hyperleaf.study.changes import asked_words, history

if TYPE_CHECKING:
    from pandas import DataFrame


def read_runs(
    table: Any, domain: Domain, outputs: tuple[str, ...], units: Mapping[str, str] | None = None
) -> list[tuple[Point, dict[str, float]]]:
    """Finished runs, checked: points of the domain with all outputs finite. From a CSV path, a DataFrame or a list of dicts.
    `units` are those of the outputs, which the header of a file must not contradict."""
    if isinstance(table, str | Path):
        points, columns, lines = read_csv_lines(table, domain, outputs, units)
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
                raise DomainError(f"{place}: {error}") from None
        raise


def check_outputs(values: Mapping[str, Any], outputs: tuple[str, ...], where: str) -> dict[str, float]:
    """All outputs of a run as finite floats, or an InputError that says which is wrong."""
    for name in values:
        if name not in outputs:
            raise InputError(f"{where}: {name!r} is no output of this study; outputs are {list(outputs)}.{alike(name, outputs)}")
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


HEAD, TAIL = ("id",), ("state", "origin", "attempt", "index", "score", "seconds", "reason", "note", "epoch")
TIMES = ("asked_at", "ended_at")


def columns_of(record: Record, inputs: tuple[str, ...], outputs: tuple[str, ...]) -> dict[str, list[Any]]:
    """All queries by columns, in the order they were asked; what is not there is None, times are seconds since 1970."""
    told = {one.query_id: one.outputs for one in record.observations}
    places, changed = record.places(), history(record.changes)
    columns: dict[str, list[Any]] = {name: [getattr(query, name) for query in record.queries] for name in HEAD}
    columns |= {name: [places[query.id][name] for query in record.queries] for name in inputs}
    columns |= {name: [told.get(query.id, {}).get(name) for query in record.queries] for name in outputs}
    columns |= {name: [getattr(query, name) for query in record.queries] for name in TAIL}
    columns["asked"] = [asked_words(query, places[query.id]) for query in record.queries]
    columns["changes"] = [changed.get(query.id, "") for query in record.queries]
    columns |= {name: [getattr(query, name) for query in record.queries] for name in TIMES}
    columns["state"] = [query.state.value for query in record.queries]
    return columns


def table_of(record: Record, inputs: tuple[str, ...], outputs: tuple[str, ...]) -> DataFrame:
    """All queries as a DataFrame, one row each, in the order they were asked. Inputs are as they were set; where that is not as
    they were asked for, `asked` says what was. A voided run has no outputs; `changes` tells what was put right."""
    import pandas as pd

    columns = columns_of(record, inputs, outputs)
    for name in outputs:
        columns[name] = [math.nan if value is None else value for value in columns[name]]
    for name in TIMES:
        columns[name] = [pd.NaT if at is None else pd.Timestamp(at, unit="s", tz="UTC") for at in columns[name]]
    table = pd.DataFrame({name: pd.Series(values, dtype=None if values else object) for name, values in columns.items()})
    return table.astype({"index": "Int64", "score": "float64", "seconds": "float64"})


def csv_of(record: Record, inputs: tuple[str, ...], outputs: tuple[str, ...]) -> str:
    """The same as text, to the letter as pandas writes it, without loading pandas."""
    columns = columns_of(record, inputs, outputs)
    for name in TIMES:
        columns[name] = _times(columns[name])
    for name in inputs:  # a column of numbers has one type
        if any(type(value) is float for value in columns[name]) and all(type(value) in (int, float) for value in columns[name]):
            columns[name] = [float(value) for value in columns[name]]
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(columns)
    rows.writerows(zip(*columns.values(), strict=True))
    return text.getvalue()


def _times(moments: Iterable[float | None]) -> list[str | None]:
    """Seconds since 1970 as dates and times of UTC, all with as many digits as the one that needs most of them."""
    split = [None if at is None else (math.floor(at), int(round(at - math.floor(at), 9) * 1e9)) for at in moments]
    size = next((size for size in (0, 3, 6) if not any(one and one[1] % 10 ** (9 - size) for one in split)), 9)

    def written(whole: int, nanoseconds: int) -> str:
        digits = f".{nanoseconds // 10 ** (9 - size):0{size}d}" if size else ""
        return f"{datetime.fromtimestamp(whole, UTC):%Y-%m-%d %H:%M:%S}{digits}+00:00"

    return [None if one is None else written(*one) for one in split]


def metrics_of(history: Iterable[tuple[int, Mapping[str, Accuracy]]]) -> DataFrame:
    """Accuracy as it was after each query, as a DataFrame: a row for each number of observations and output."""
    import pandas as pd

    rows = [
        {"num_observations": num, "output": name, **asdict(figures)}
        for num, values in history
        for name, figures in values.items()
    ]
    fields = list(Accuracy.__dataclass_fields__)
    return pd.DataFrame(rows, columns=["num_observations", "output", *fields]).astype(dict.fromkeys(fields, "float64"))
