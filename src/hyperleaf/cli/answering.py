"""A person answers: `hyperleaf ask` and `hyperleaf tell`, one query at a time or by sheets in CSV files."""

from __future__ import annotations

import csv
import io
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hyperleaf.cli import output
from hyperleaf.cli.files import replace_file
from hyperleaf.errors import DataError
from hyperleaf.simulators.base import BadOutput
from hyperleaf.simulators.readers import read_rows
from hyperleaf.simulators.table import read_csv_table
from hyperleaf.storage.base import AlreadyToldError, Query, State
from hyperleaf.study import Study
from hyperleaf.study.owners import PERSON
from hyperleaf.study.tables import check_outputs

_SAME = 1e-6  # in the unit cube: rounding in a sheet, not another point


@dataclass(frozen=True)
class Told:
    """What became of answers, by the numbers of queries; `skipped` rows of a sheet were not filled in."""

    told: tuple[int, ...] = ()
    known: tuple[int, ...] = ()
    failed: tuple[int, ...] = ()
    retried: tuple[int, ...] = ()
    added: tuple[int, ...] = ()
    skipped: int = 0

    def values(self) -> dict[str, Any]:
        return dict(self.__dict__)

    def text(self) -> str:
        words = [
            ("Kept", self.told),
            ("Known before, nothing changed:", self.known),
            ("Marked as failed:", self.failed),
            ("Failed and offered again:", self.retried),
            ("Added", self.added),
        ]
        lines = [f"{word} {_listed(ids)}." for word, ids in words if ids]
        if self.skipped:
            lines.append(f"Left out {self.skipped} row{'s' if self.skipped > 1 else ''} without outputs.")
        return "\n".join(lines) or "Nothing to tell."


def ask(study: Study, num: int) -> list[Query]:
    queries = study.ask(num, owner=PERSON)
    study.save()
    return queries


def open_queries(study: Study) -> list[Query]:
    """Those that a person holds."""
    return [query for query in study.record().queries if query.state == State.RUNNING and query.owner == PERSON]


def asked_text(study: Study, queries: Sequence[Query], path: Path, sheet: Path | None) -> str:
    if not queries:
        return "No query waits for an answer. Ask for one with: hyperleaf ask"
    units = {name: axis.unit or "" for name, axis in study.domain.axes.items()}
    rows = []
    for query in queries:
        values = [f"{name} = {output.number(value)} {units[name]}".rstrip() for name, value in query.point.items()]
        rows.append([f"query {query.id}", *values])
    option = "" if path == Path("study.toml") else f" --study {shlex.quote(str(path))}"
    outputs = " ".join(f"{name}=…" for name in study.outputs)
    what = f"{queries[0].id} {outputs}" if sheet is None else f"--csv {shlex.quote(str(sheet))}"
    return f"{output.columns(rows, indent='')}\nAnswer with: hyperleaf tell {what}{option}"


def write_sheet(path: Path, study: Study, queries: Sequence[Query]) -> None:
    """Queries as a CSV file with empty columns for the outputs."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(["id", *study.domain.names, *study.outputs])
    rows.writerows(
        [query.id, *(query.point[name] for name in study.domain.names), *("" for _ in study.outputs)] for query in queries
    )
    with replace_file(path) as unfinished:
        unfinished.write_text(text.getvalue(), encoding="utf-8")


def tell(study: Study, query: Any, values: Mapping[str, str]) -> Told:
    checked = check_outputs(values, study.outputs, f"query {query}")
    return Told(told=(query,)) if study.tell(query, checked) else Told(known=(query,))


def tell_failed(study: Study, query: Any, reason: str) -> Told:
    if not study.tell_failed(query, reason):
        return Told(known=(query,))
    again = next(one for one in study.record().queries if one.id == query).state != State.FAILED
    return Told(retried=(query,)) if again else Told(failed=(query,))


def tell_file(study: Study, path: Path) -> Told:
    """The rows of a sheet: those with an id answer that query, and a file without the column adds runs that nobody asked for.

    Everything is checked before anything is told.
    """
    header, rows = _read(path, study)
    if "id" not in header:
        if set(study.outputs) <= {*header}:  # else the columns are complained of when they are added
            for where, row in _named(path, header, rows):
                check_outputs({name: row[name] for name in study.outputs}, study.outputs, where)
        return Told(added=tuple(query.id for query in study.add(path, note=f"from {path.name}")))
    answers, skipped = _answers(study, path, header, rows)
    told: list[int] = []
    known: list[int] = []
    for number, values in answers.items():
        (told if study.tell(number, values) else known).append(number)
    return Told(told=tuple(told), known=tuple(known), skipped=skipped)


def _read(path: Path, study: Study) -> tuple[list[str], dict[int, list[str]]]:
    """The header, and the rows by the lines on which a spreadsheet shows them."""
    try:
        text = path.read_text(encoding="utf-8-sig")
        header, rows = read_rows(text, ("id", *study.domain.names, *study.outputs))
        filled = [number for number, line in enumerate(text.splitlines(), 1) if line.strip(' \t,;"')]
        lines = filled[1:] if len(filled) == len(rows) + 1 else range(2, len(rows) + 2)  # a quoted text may span lines
        return header, dict(zip(lines, rows, strict=True))
    except FileNotFoundError:
        raise DataError(f"a table must be a CSV file; there is none at {path}. Correct the path.") from None
    except (OSError, ValueError, BadOutput) as error:
        raise DataError(f"a table must be a CSV file in UTF-8; {path} cannot be read ({error}).") from None


def _named(path: Path, header: list[str], rows: Mapping[int, list[str]]) -> Iterator[tuple[str, dict[str, str]]]:
    """Each row by its columns, and where it stands, for messages."""
    for line, cells in rows.items():
        if len(cells) != len(header):
            raise DataError(f"every row of {path} must have {len(header)} values like its header; line {line} has {len(cells)}.")
        yield f"line {line} of {path}", dict(zip(header, cells, strict=True))


def _answers(
    study: Study, path: Path, header: list[str], rows: Mapping[int, list[str]]
) -> tuple[dict[int, dict[str, float]], int]:
    for name in ("id", *study.outputs):
        if header.count(name) != 1:
            how = "is missing" if name not in header else "is there twice"
            raise DataError(f"a sheet must have the columns {['id', *study.outputs]}, each once; in {path} {name!r} {how}.")
    named = list(_named(path, header, rows))
    record = study.record()
    queries = {query.id: query for query in record.queries}
    before = {one.query_id: dict(one.outputs) for one in record.observations}
    with_inputs = all(name in header for name in study.domain.names)
    points = read_csv_table(path, study.domain, ())[0] if with_inputs else None
    answers: dict[int, dict[str, float]] = {}
    skipped = 0
    for row, (where, values) in enumerate(named):
        if not any(values[name] for name in study.outputs):
            skipped += 1
            continue
        number = _number(values["id"], where)
        if number not in queries:
            raise DataError(f"{where}: the study has no query {number}. Runs that nobody asked for go in a file without ids.")
        if number in answers:
            raise DataError(f"{where}: query {number} is answered twice in this file. Keep one row.")
        answers[number] = check_outputs({name: values[name] for name in study.outputs}, study.outputs, where)
        if points is not None:
            _check_point(study, queries[number], points[row], where)
        if number in before and before[number] != answers[number]:
            raise AlreadyToldError(
                f"{where}: query {number} was told as {output.pairs(before[number])}, and differently now; what was told stays. "
                "Take the row out."
            )
    return answers, skipped


def _number(text: str, where: str) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > 18:
        raise DataError(f"{where}: an id must be the number of a query; got {text!r}.")
    return int(text)


def _check_point(study: Study, query: Query, point: Mapping[str, Any], where: str) -> None:
    asked, given = study.domain.to_unit([dict(query.point)]), study.domain.to_unit([dict(point)])
    if abs(asked - given).max() > _SAME:
        raise DataError(
            f"{where}: query {query.id} was asked at {output.pairs(query.point)}; the row says {output.pairs(point)}. "
            "Correct it, or take out its id to add it as a run of its own."
        )


def _listed(ids: Sequence[int]) -> str:
    if len(ids) > 3 and list(ids) == list(range(ids[0], ids[0] + len(ids))):
        return f"queries {ids[0]} to {ids[-1]}"
    return ("query " if len(ids) == 1 else "queries ") + ", ".join(map(str, ids))
