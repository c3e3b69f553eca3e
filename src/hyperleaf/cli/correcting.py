"""`hyperleaf correct`, `void` and `restore`: what was told is put right, one query at a time or by a sheet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hyperleaf.cli import sheets
from hyperleaf.cli.answering import parsed
from hyperleaf.errors import DataError
from hyperleaf.storage.base import Change, Kind
from hyperleaf.study import Study, corrections
from hyperleaf.study.changes import words


def correct(study: Study, query: Any, given: Mapping[str, str], why: str, who: str | None) -> tuple[Change, ...]:
    return corrections.correct(study, {query: parsed(study, given, f"query {query}")}, why=why, who=who)


def correct_file(study: Study, path: Path, why: str, who: str | None) -> tuple[Change, ...]:
    """The rows of a sheet, by their ids: cells that differ from what was told are right, and empty ones say nothing. All rows
    are taken, or none if one is wrong."""
    header, rows = sheets.read_sheet(path, study)
    sheets.check_columns(path, header, ["id"])
    names = [name for name in (*study.domain.names, *study.outputs) if name in header]
    sheets.check_columns(path, header, ["id", *names])
    record = study.record()
    places, told = record.places(), {one.query_id: one.outputs for one in record.observations}
    right: dict[int, dict[str, Any]] = {}
    for where, row in sheets.named_rows(path, header, rows):
        given = {name: row[name] for name in names if row[name]}
        if not any(name in study.outputs for name in given):
            continue  # not filled in
        number = sheets.number_of(row["id"], where)
        if number not in told:
            raise DataError(f"{where}: only what was told can be corrected, and query {number} was not. Tell it, or restore it.")
        if number in right:
            raise DataError(f"{where}: query {number} is corrected twice in this file. Keep one row.")
        inputs = sheets.moved(study, places[number], sheets.inputs_of(study, row, where), where)
        outputs = {name: value for name, value in parsed(study, given, where).items() if name in study.outputs}
        right[number] = {**outputs, **inputs}
    return corrections.correct(study, right, why=why or f"from {path.name}", who=who) if right else ()


def cover(study: Study, queries: Sequence[int], kind: str, why: str, who: str | None) -> tuple[Change, ...]:
    return corrections.cover(study, queries, Kind(kind), why=why, who=who)


def values(study: Study, changes: Sequence[Change]) -> dict[str, Any]:
    return {"study": study.name, "changes": list(changes)}


def text(changes: Sequence[Change]) -> str:
    """What was changed; and what becomes of what was learned, if it was from that."""
    if not changes:
        return "Nothing changed."
    lines = [f"Query {change.query_id} {words(change)}." for change in changes]
    if any(change.kind is Kind.CORRECTED or "done" in (*change.before.values(), *change.after.values()) for change in changes):
        lines.append("What was asked since stays; the rest is learned again when it is needed.")
    return "\n".join(lines)
