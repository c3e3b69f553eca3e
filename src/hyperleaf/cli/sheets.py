"""Sheets: CSV or Excel files that people fill in, with a row for each query and its number in the column id."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from hyperleaf.cli.files import replace_file
from hyperleaf.errors import DataError
from hyperleaf.simulators.base import BadOutput
from hyperleaf.simulators.readers import read_file_as_sheet
from hyperleaf.simulators.table import check_units, read_input, read_runs
from hyperleaf.simulators.workbooks import is_workbook, write_workbook
from hyperleaf.storage.base import Query
from hyperleaf.study import Study

_SAME = 1e-6  # in the unit cube: rounding in a sheet, not another point


def write_sheet(path: Path, study: Study, queries: Sequence[Query]) -> None:
    """Queries as a CSV or Excel file with empty columns for the outputs."""
    names = study.domain.names
    rows: list[list[Any]] = [["id", *names, *study.outputs]]
    rows += [[query.id, *(query.point[name] for name in names), *("" for _ in study.outputs)] for query in queries]
    with replace_file(path) as unfinished:
        if is_workbook(path):
            write_workbook(unfinished, rows)
            return
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(rows)
        unfinished.write_text(text.getvalue(), encoding="utf-8")


def read_sheet(path: Path, study: Study) -> tuple[list[str], dict[int, list[str]]]:
    """The header, and the rows by the lines on which a spreadsheet shows them."""
    sheet = read_runs(path, ("id", *study.domain.names, *study.outputs))
    check_units(str(path), sheet, {**study.domain.units, **study.definition.units})
    return sheet.header, dict(zip(sheet.lines, sheet.rows, strict=True))


def has_ids(path: Path) -> bool:
    """Whether the rows of a file answer queries, which a study that has not begun has none of."""
    with suppress(OSError, ValueError, BadOutput):  # said when it is read in earnest
        return "id" in read_file_as_sheet(path, ("id",)).header
    return False


def named_rows(path: Path, header: list[str], rows: Mapping[int, list[str]]) -> Iterator[tuple[str, dict[str, str]]]:
    """Each row by its columns, and where it stands, for messages."""
    for line, cells in rows.items():
        if len(cells) != len(header):
            raise DataError(f"every row of {path} must have {len(header)} values like its header; line {line} has {len(cells)}.")
        yield f"line {line} of {path}", dict(zip(header, cells, strict=True))


def check_columns(path: Path, header: list[str], wanted: Sequence[str]) -> None:
    for name in wanted:
        if header.count(name) != 1:
            how = "is missing" if name not in header else "is there twice"
            raise DataError(f"a sheet must have the columns {list(wanted)}, each once; in {path} {name!r} {how}.")


def number_of(text: str, where: str) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > 18:
        raise DataError(f"{where}: an id must be the number of a query; got {text!r}.")
    return int(text)


def inputs_of(study: Study, row: Mapping[str, str], where: str) -> dict[str, Any]:
    """The inputs that a row names, as values of the domain."""
    return {name: read_input(name, study.domain, row[name], where) for name in study.domain.names if row.get(name)}


def moved(study: Study, place: Mapping[str, Any], inputs: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The inputs that are not as they are at `place`, but for the rounding of a sheet."""
    from hyperleaf.study.corrections import made_at

    found = {}
    here = study.domain.to_unit([dict(place)])
    for name, value in inputs.items():
        there = study.domain.to_unit([made_at(study, place, {name: value}, where)])
        if abs(here - there).max() > _SAME:
            found[name] = value
    return found
