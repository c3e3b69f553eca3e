"""A table of finished runs as a simulator: what a campaign would have measured, without measuring."""

from __future__ import annotations

import time
import unicodedata
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hyperleaf.checks import alike
from hyperleaf.data import Pool
from hyperleaf.domain import Domain, read_table
from hyperleaf.errors import DataError, DomainError, InputError
from hyperleaf.simulators.base import BadOutput, Failure, Outcome, Success, as_output, check_outputs, parse_number
from hyperleaf.simulators.readers import Sheet, read_file_as_sheet

_CLOSE = 1e-9  # in the unit cube: rounding on the way through text or a database, not another point


class TableSimulator:
    """Looks runs up: by the index of a row if given, else by equal inputs, to 1e-9 in the unit cube.

    `table` is the path of a CSV, a DataFrame or a list of dicts; further columns are ignored. A point that is not in the
    table, and a row whose output is blank or no number, is a failed run. Rows with equal inputs are replicates, served in
    their order to attempts 1, 2, ….
    """

    outputs: tuple[str, ...]

    def __init__(
        self,
        table: Any,
        domain: Domain,
        outputs: Iterable[str] | str,
        *,
        folder: str | Path | None = None,
        units: Mapping[str, str] | None = None,
    ) -> None:
        self.outputs = check_outputs(outputs)
        if not isinstance(domain, Domain):
            raise InputError(f"a table needs the Domain of its inputs; got {domain!r:.80}. Pass domain=Domain(…).")
        if isinstance(table, str | Path):
            path = Path(folder or ".") / table
            inputs, columns = read_csv_table(path, domain, self.outputs, units)
        else:
            names, found = read_table(table, None, DataError)
            by_name = dict(zip(names, found, strict=True))
            _check_columns(list(by_name), (*domain.names, *self.outputs), "the table")
            inputs = [dict(zip(domain.names, row, strict=True)) for row in zip(*(by_name[n] for n in domain.names), strict=True)]
            columns = {name: list(by_name[name]) for name in self.outputs}
        self._pool = Pool(inputs, domain)
        self._values = {name: tuple(columns[name]) for name in self.outputs}

    def __len__(self) -> int:
        return len(self._pool)

    def __repr__(self) -> str:
        return f"TableSimulator({len(self)} runs, outputs={list(self.outputs)})"

    def pool(self) -> Pool:
        """The inputs of all rows as candidates, in the order of the table."""
        return self._pool

    def __call__(self, point: Mapping[str, Any], *, query_id: int, attempt: int = 1, row: int | None = None) -> Outcome:
        start = time.monotonic()
        try:
            index = self._find(point, attempt) if row is None else self._checked(row)
            outputs = {name: self._number(name, index) for name in self.outputs}
        except (BadOutput, DomainError) as error:
            return Failure(f"{str(error).rstrip('.')}.", time.monotonic() - start)
        return Success(outputs, time.monotonic() - start)

    def rows(self, point: Mapping[str, Any]) -> NDArray[np.intp]:
        """Indices of the rows whose inputs are those of the point."""
        u = self._pool.domain.to_unit([dict(point)])
        return np.flatnonzero((np.abs(self._pool.unit - u) <= _CLOSE).all(axis=1))

    def _find(self, point: Mapping[str, Any], attempt: int) -> int:
        rows = self.rows(point)
        if len(rows) == 0:
            raise BadOutput(f"the table must hold the point; no row of {len(self)} has the inputs {dict(point)!r:.200}")
        if not 1 <= attempt <= len(rows):
            raise BadOutput(f"the table holds {len(rows)} run(s) of this point, for as many attempts; this is attempt {attempt}")
        return int(rows[attempt - 1])

    def _checked(self, row: int) -> int:
        if isinstance(row, bool) or not isinstance(row, int | np.integer) or not 0 <= row < len(self):
            raise InputError(f"a row of the table must be a whole number from 0 to {len(self) - 1}; got {row!r}.")
        return int(row)

    def _number(self, name: str, row: int) -> float:
        value = self._values[name][row]
        try:
            return as_output(name, value)
        except BadOutput as error:
            raise BadOutput(f"row {row} of the table is a failed run: {error}") from None


def read_csv_table(
    path: str | Path, domain: Domain, outputs: Iterable[str], units: Mapping[str, str] | None = None
) -> tuple[list[dict[str, Any]], dict[str, list[str]]]:
    """Inputs, as points of the domain's kinds of values, and the texts of outputs, from a CSV with a header. `units` are those of
    the outputs, where they are known."""
    points, columns, _ = read_csv_lines(path, domain, outputs, units)
    return points, columns


def read_csv_lines(
    path: str | Path, domain: Domain, outputs: Iterable[str], units: Mapping[str, str] | None = None
) -> tuple[list[dict[str, Any]], dict[str, list[str]], list[int]]:
    """The same, and the lines on which a spreadsheet shows the rows."""
    outputs = tuple(outputs)
    sheet = read_runs(path, (*domain.names, *outputs))
    check_units(str(path), sheet, units or {})
    return points_of_sheet(sheet, path, domain, outputs)


def read_runs(path: str | Path, names: Iterable[str]) -> Sheet:
    """The sheet of a file, with the rule and the remedy if it is none; these names are looked for in its header."""
    try:
        return read_file_as_sheet(path, tuple(names))
    except FileNotFoundError:
        raise DataError(f"a table must be a CSV or Excel file; there is none at {path}. Correct the path.") from None
    except InputError:
        raise
    except (OSError, ValueError, BadOutput) as error:
        raise DataError(f"a table must be a CSV file in UTF-8 or an .xlsx; {path} cannot be read ({error}).") from None


def points_of_sheet(
    sheet: Sheet, path: str | Path, domain: Domain, outputs: tuple[str, ...], skipped: int = 0
) -> tuple[list[dict[str, Any]], dict[str, list[str]], list[int]]:
    """The same of what was read from a file, or from a part of it after so many lines."""
    header, rows, lines = sheet.header, sheet.rows, [line + skipped for line in sheet.lines]
    _check_columns(header, (*domain.names, *outputs), str(path))
    check_units(str(path), sheet, domain.units)
    for line, cells in zip(lines, rows, strict=True):
        if len(cells) != len(header):
            raise DataError(
                f"every row of {path} must have {len(header)} values like its header; line {line} has {len(cells)}. "
                "Repair it, and put texts with commas in quotes."
            )
    columns = {name: [row[header.index(name)] for row in rows] for name in (*domain.names, *outputs)}
    read = [
        [read_input(name, domain, text, f"line {line}") for line, text in zip(lines, columns[name], strict=True)]
        for name in domain.names
    ]
    points = [dict(zip(domain.names, values, strict=True)) for values in zip(*read, strict=True)]
    return points, {name: columns[name] for name in outputs}, lines


def check_units(where: str, sheet: Sheet, units: Mapping[str, str | None]) -> None:
    """Refuse a column in another unit than the study's."""
    for name, found in zip(sheet.header, sheet.units, strict=True):
        unit = units.get(name)
        if found and unit and _plain(found) != _plain(unit):
            raise DataError(f"{where}: the column {name!r} must be in {unit}; its header says {found}. Convert it.")


def _plain(unit: str) -> str:
    """Without spaces, and with the one of two signs that look alike, as µ and μ."""
    return unicodedata.normalize("NFKC", unit).replace(" ", "")


def _check_columns(found: list[Any], wanted: tuple[str, ...], where: str) -> None:
    doubled = [name for name in wanted if found.count(name) > 1]
    if doubled:
        raise DataError(f"the columns of a table must have different names; {where} has {doubled[0]!r} twice. Rename one.")
    for name in wanted:
        if name not in found:
            raise DataError(
                f"a table must have the columns {list(wanted)}; {where} has no {name!r}.{alike(name, map(str, found))} "
                f"Its columns are {found[:30]}. Rename or add it."
            )


def read_input(name: str, domain: Domain, text: str, where: str) -> Any:
    """The value of an input from its text; what it may be is for the domain to say."""
    value = domain.axes[name].parse(text)
    if value is not None:
        return value
    try:
        return parse_number(name, text)
    except BadOutput:
        what = f"got {text!r}" if text else "it is blank"
        raise DataError(
            f"the input {name!r} must be a finite number in every row; {what} in {where}. Repair or drop it."
        ) from None
