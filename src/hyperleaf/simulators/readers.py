"""Results of external commands: JSON, CSV or patterns in text. Whatever a file holds, a reader returns outputs or a BadOutput."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hyperleaf.io import read_file
from hyperleaf.simulators.base import BadOutput, as_output, collect
from hyperleaf.simulators.workbooks import DECIMAL_COMMA, is_workbook, read_workbook

_LARGEST = 64 * 2**20  # bytes of a file that are looked at
LARGEST_TABLE = 512 * 2**20
_DELIMITERS = (",", ";", "\t")
_WITH_UNIT = re.compile(r"(?P<name>.*\S)\s*(?:\[(?P<unit>[^\[\]]*)\]|\((?P<other>[^()]*)\))")
_THOUSANDS = re.compile(r"[+-]?\d{1,3}(?:[.,' \u00a0\u202f]\d{3})+(?:[.,]\d*)?", re.ASCII)
_POINTED = re.compile(r"[+-]?\d+\.\d+(?:[eEdD][+-]?\d+)?", re.ASCII)


def read_text(path: str | Path, *, tail: bool = False) -> str:
    """A file as text, whatever bytes it holds; with `tail` only the end of a file that is too large, else a BadOutput."""
    try:
        return read_file(path, _LARGEST, tail=tail).decode("utf-8-sig", errors="replace")
    except FileNotFoundError:
        raise BadOutput(f"the results file {Path(path).name} was not written") from None
    except OSError as error:
        raise BadOutput(f"the results file {Path(path).name} could not be read ({error.strerror})") from None


def check_not_failed(text: str, columns: Sequence[str] = ()) -> None:
    """A BadOutput if the results begin with "fail", in any case; unless the first line is a header that has the columns."""
    start = text.lstrip()
    if start[:4].lower() == "fail":
        line = start.splitlines()[0]
        if not columns or not set(columns) <= {*read_rows(line, columns)[0]}:
            raise BadOutput(f"the results file says {line[:200]!r}")


def read_json(text: str, outputs: Sequence[str]) -> dict[str, float]:
    """Outputs from a flat JSON object."""
    try:
        values = json.loads(text)
    except RecursionError:
        raise BadOutput("the results file is not usable JSON: it is nested too deeply") from None
    except ValueError as error:
        raise BadOutput(
            f"the results file is not JSON: {str(error)[:200]}" if text.strip() else "the results file is empty"
        ) from None
    if not isinstance(values, dict):
        raise BadOutput(f'the results file must hold a JSON object like {{"{outputs[0]}": 1.5}}; got a {_kind(values)}')
    return collect(values, outputs)


def read_csv(text: str, outputs: Sequence[str]) -> dict[str, float]:
    """Outputs from the last row of a CSV with a header; comma, semicolon or tab, whichever finds the names."""
    header, rows = read_rows(text, outputs)
    if not rows:
        raise BadOutput("the results file has a header but no row" if header else "the results file is empty")
    if len(rows[-1]) != len(header):
        raise BadOutput(f"the last row of the results file must have {len(header)} values like its header; got {len(rows[-1])}")
    row = dict(zip(header, rows[-1], strict=True))
    missing = [name for name in outputs if name not in row]
    if missing:
        raise BadOutput(
            f"the output {missing[0]!r} is missing in the results file; its columns are {', '.join(header[:20])[:200]!r}"
        )
    return {name: as_output(name, row[name]) for name in outputs}


@dataclass(frozen=True)
class Sheet:
    """A table as people write it: cells stripped, no blank rows, decimal points, and of each column its bare name and its unit.
    `lines` are those on which a spreadsheet shows the rows, from 1: a text over several lines is one."""

    header: list[str]
    units: list[str]
    rows: list[list[str]]
    lines: list[int]


def read_rows(text: str, names: Sequence[str]) -> tuple[list[str], list[list[str]]]:
    """Header and rows of a CSV, as `read_sheet` reads them."""
    sheet = read_sheet(text, names)
    return sheet.header, sheet.rows


def read_file_as_sheet(path: str | Path, names: Sequence[str]) -> Sheet:
    """A CSV or Excel file of which `names` are wanted; OSError, ValueError or BadOutput for what is neither."""
    if is_workbook(path):
        return _sheet(read_workbook(path), names, decimals=False)
    return read_sheet(read_file(path, LARGEST_TABLE).decode("utf-8-sig"), names)


def read_sheet(text: str, names: Sequence[str]) -> Sheet:
    """A CSV of which `names` are wanted. The delimiter is the first with which the header has them, also with a unit behind, as
    in "speed [1/min]". Where that is no comma, numbers may have decimal commas; marks between thousands are refused."""
    first = next((line for line in text.splitlines() if line.strip()), "")
    try:
        headers = {mark: [cell.strip() for cell in next(csv.reader([first], delimiter=mark), [])] for mark in _DELIMITERS}
        mark = max(_DELIMITERS, key=lambda mark: sum(name in names for name, _ in _named(headers[mark], names)))
        records = csv.reader(text.splitlines(), delimiter=mark)
        table = [(line, [cell.strip() for cell in row]) for line, row in enumerate(records, 1)]
    except csv.Error as error:
        raise BadOutput(f"the file is not CSV: {error}") from None
    return _sheet(table, names, decimals=mark != ",")


def _sheet(table: list[tuple[int, list[str]]], names: Sequence[str], decimals: bool) -> Sheet:
    """Rows with their lines, put in order; with `decimals` a comma may stand in a number."""
    filled = [(line, row) for line, row in table if any(row)]
    if not filled:
        return Sheet([], [], [], [])
    named = _named(filled[0][1], names)
    header, rows, lines = [name for name, _ in named], [row for _, row in filled[1:]], [line for line, _ in filled[1:]]
    if decimals:
        _point_decimals(header, rows, lines, names)
    return Sheet(header, [unit for _, unit in named], rows, lines)


def _named(header: Sequence[str], names: Sequence[str]) -> list[tuple[str, str]]:
    """Each column by its bare name and its unit, if the name is one of those that are wanted and the whole is not."""
    found = []
    for cell in header:
        match = None if cell in names else _WITH_UNIT.fullmatch(cell)
        bare = match is not None and match["name"] in names and match["name"] not in header
        unit = "" if match is None else match["unit"] or match["other"] or ""
        found.append((match["name"], unit.strip()) if match is not None and bare else (cell, ""))
    return found


def _point_decimals(header: list[str], rows: list[list[str]], lines: list[int], names: Sequence[str]) -> None:
    """Turn decimal commas into points, in the columns that are wanted; a BadOutput where a mark may be either."""
    wanted = [k for k, name in enumerate(header) if name in names]
    commas: list[tuple[int, int]] = []
    for i, row in enumerate(rows):
        for k in wanted:
            if k < len(row) and "," in row[k]:
                if DECIMAL_COMMA.fullmatch(row[k]):
                    commas.append((i, k))
                elif _THOUSANDS.fullmatch(row[k]):
                    raise BadOutput(f"line {lines[i]}: {row[k]!r} has marks between thousands. Take them out")
    if commas:
        for i, row in enumerate(rows):
            for k in wanted:
                if k < len(row) and _POINTED.fullmatch(row[k]):
                    j, m = commas[0]
                    raise BadOutput(
                        f"line {lines[i]}: {row[k]!r} has a point where line {lines[j]} has a decimal comma ({rows[j][m]!r}), so "
                        "it may mark thousands. Write all numbers in one way"
                    )
    for i, k in commas:
        rows[i][k] = rows[i][k].replace(",", ".")


def read_patterns(text: str, patterns: Mapping[str, re.Pattern[str]]) -> dict[str, float]:
    """Outputs from the one group of the last match of each pattern."""
    found: dict[str, float] = {}
    for name, pattern in patterns.items():
        last = None
        for last in pattern.finditer(text):  # noqa: B007
            pass
        if last is None or last[1] is None:
            raise BadOutput(f"the pattern of the output {name!r}, {pattern.pattern!r}, was not found")
        found[name] = as_output(name, last[1])
    return found


def _kind(value: object) -> str:
    return {list: "list", str: "text", int: "number", float: "number", bool: "truth value"}.get(type(value), "null")
