"""Results of external commands: JSON, CSV or patterns in text. Whatever a file holds, a reader returns outputs or a BadOutput."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from hyperleaf.io import read_file
from hyperleaf.simulators.base import BadOutput, as_output, collect

_LARGEST = 64 * 2**20  # bytes of a file that are looked at
LARGEST_TABLE = 512 * 2**20
_DELIMITERS = (",", ";", "\t")


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


def read_rows(text: str, names: Sequence[str]) -> tuple[list[str], list[list[str]]]:
    """Header and rows of a CSV, stripped, without blank lines; the delimiter is the first with which the header has `names`."""
    first = next((line for line in text.splitlines() if line.strip()), "")
    try:
        headers = {mark: [cell.strip() for cell in next(csv.reader([first], delimiter=mark), [])] for mark in _DELIMITERS}
        mark = max(_DELIMITERS, key=lambda mark: sum(name in headers[mark] for name in names))
        table = [[cell.strip() for cell in row] for row in csv.reader(text.splitlines(), delimiter=mark)]
    except csv.Error as error:
        raise BadOutput(f"the file is not CSV: {error}") from None
    filled = [row for row in table if any(row)]
    return (filled[0], filled[1:]) if filled else ([], [])


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
