"""A person answers: `hyperleaf ask` and `hyperleaf tell`, one query at a time or by sheets in CSV files."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hyperleaf.cli import output, sheets
from hyperleaf.domain import Domain
from hyperleaf.errors import DataError, DomainError
from hyperleaf.simulators.table import read_csv_lines, read_input
from hyperleaf.storage.base import AlreadyToldError, Query, State
from hyperleaf.study import Study
from hyperleaf.study.owners import PERSON
from hyperleaf.study.suspects import Suspect, find_suspects
from hyperleaf.study.tables import check_outputs

write_sheet = sheets.write_sheet


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


def ask(study: Study, num: int, lease: str | None = None) -> list[Query]:
    queries = study.ask(num, owner=PERSON, lease=lease)
    study.save()
    return queries


def repeat(study: Study, query: int, num: int, lease: str | None = None) -> list[Query]:
    return study.repeat(query, num, owner=PERSON, lease=lease)


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


def tell(study: Study, query: Any, values: Mapping[str, str]) -> Told:
    return Told(told=(query,)) if study.tell(query, parsed(study, values, f"query {query}")) else Told(known=(query,))


def parsed(study: Study, values: Mapping[str, str], where: str) -> dict[str, Any]:
    """Texts as values: those of inputs by their axes; outputs are parsed where they are checked."""
    axes = study.domain.names
    return {name: read_input(name, study.domain, text, where) if name in axes else text for name, text in values.items()}


def suspects(study: Study, told: Told) -> list[Suspect]:
    """What was told just now and does not go with the rest; it is kept all the same."""
    new = {*told.told, *told.added}
    return list(find_suspects(study.snapshot().record, study.domain, study.definition.outputs, new)) if new else []


def tell_failed(study: Study, query: Any, reason: str) -> Told:
    if not study.tell_failed(query, reason):
        return Told(known=(query,))
    again = next(one for one in study.record().queries if one.id == query).state != State.FAILED
    return Told(retried=(query,)) if again else Told(failed=(query,))


def tell_file(study: Study, path: Path, achieved: bool = False) -> Told:
    """The rows of a sheet: those with an id answer that query, and a file without the column adds runs that nobody asked for.

    Everything is checked before anything is told. With `achieved` inputs that differ from those asked for were set so.
    """
    header, rows = sheets.read_sheet(path, study)
    if "id" not in header:
        if set(study.outputs) <= {*header}:  # else the columns are complained of when they are added
            for where, row in sheets.named_rows(path, header, rows):
                check_outputs({name: row[name] for name in study.outputs}, study.outputs, where)
        for note in _odd_rows(study, path):
            output.complain(f"note: {note}.")
        return Told(added=tuple(query.id for query in study.add(path, note=f"from {path.name}")))
    answers, skipped = _answers(study, path, header, rows, achieved)
    told: list[int] = []
    known: list[int] = []
    for number, values in answers.items():
        (told if study.tell(number, values) else known).append(number)
    return Told(told=tuple(told), known=tuple(known), skipped=skipped)


def _odd_rows(study: Study, path: Path) -> list[str]:
    """Rows of runs to be added that break a constraint or repeat another run; they may be right, so they are only named."""
    points, _, lines = read_csv_lines(path, study.domain, study.outputs)
    try:
        unit = study.domain.to_unit(points) if points else None
    except DomainError:
        return []  # refused when they are added, with the line
    if unit is None:
        return []
    notes = _broken(study.domain, {f"line {line} of {path}": point for line, point in zip(lines, points, strict=True)})
    record = study.record()
    places = [dict(place) for place in record.places().values()]
    known: dict[bytes, str] = {}
    for number, row in zip(record.places(), _unit(study, places), strict=True):
        known.setdefault(row.tobytes(), f"query {number}")
    for line, row in zip(lines, unit, strict=True):
        other = known.setdefault(row.tobytes(), f"line {line}")
        notes += [f"line {line} of {path} repeats {other}"] if other != f"line {line}" else []
    return notes


def beyond_constraints(study: Study, queries: Sequence[int]) -> list[str]:
    """What was set otherwise than asked, and breaks a constraint; it happened, so it is kept, but it may be a slip."""
    record = study.record()
    asked, places = {query.id: query.point for query in record.queries}, record.places()
    moved = {f"query {number}": dict(places[number]) for number in queries if dict(places[number]) != dict(asked[number])}
    return _broken(study.domain, moved)


def _broken(domain: Domain, points: Mapping[str, dict[str, Any]]) -> list[str]:
    """Which of the points, by where they stand, break which constraint."""
    notes = []
    for constraint in domain.constraints if points else ():
        alone = Domain(domain.axes, constraints=[constraint])
        fine = alone.feasible([*points.values()])
        notes += [f"{where} breaks the constraint {constraint}" for where, kept in zip(points, fine, strict=True) if not kept]
    return notes


def _unit(study: Study, points: list[dict[str, Any]]) -> Any:
    return study.domain.to_unit(points) if points else []


def _answers(
    study: Study, path: Path, header: list[str], rows: Mapping[int, list[str]], achieved: bool
) -> tuple[dict[int, dict[str, Any]], int]:
    sheets.check_columns(path, header, ["id", *study.outputs])
    named = list(sheets.named_rows(path, header, rows))
    record = study.record()
    queries, places = {query.id: query for query in record.queries}, record.places()
    before = {one.query_id: dict(one.outputs) for one in record.observations}
    answers: dict[int, dict[str, Any]] = {}
    skipped = 0
    for where, row in named:
        if not any(row[name] for name in study.outputs):
            skipped += 1
            continue
        number = sheets.number_of(row["id"], where)
        if number not in queries:
            raise DataError(f"{where}: the study has no query {number}. Runs that nobody asked for go in a file without ids.")
        if number in answers:
            raise DataError(f"{where}: query {number} is answered twice in this file. Keep one row.")
        outputs = check_outputs({name: row[name] for name in study.outputs}, study.outputs, where)
        elsewhere = sheets.moved(study, queries[number].point, sheets.inputs_of(study, row, where), where)
        if elsewhere and not achieved:
            asked, point = queries[number].point, {**queries[number].point, **elsewhere}
            raise DataError(
                f"{where}: query {number} was asked at {output.pairs(asked)}; the row says {output.pairs(point)}. If it was "
                "really set there, say so with --achieved. Else correct it, or take out its id to add it as a run of its own."
            )
        moved = elsewhere and sheets.moved(study, places[number], elsewhere, where)
        if number in before and (before[number] != outputs or moved):
            raise AlreadyToldError(
                f"{where}: query {number} was told as {output.pairs(before[number])}, and differently now; what was told stays. "
                f"If that was wrong, put it right: hyperleaf correct --csv {shlex.quote(str(path))}. Else take the row out."
            )
        answers[number] = {**outputs, **elsewhere}
    return answers, skipped


def _listed(ids: Sequence[int]) -> str:
    if len(ids) > 3 and list(ids) == list(range(ids[0], ids[0] + len(ids))):
        return f"queries {ids[0]} to {ids[-1]}"
    return ("query " if len(ids) == 1 else "queries ") + ", ".join(map(str, ids))
