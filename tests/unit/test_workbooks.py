"""Excel files in the place of CSV files: sheets to fill in, added runs, tables; and files that are none."""

from __future__ import annotations

import datetime
import io
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import hyperleaf as hl
from hyperleaf.cli import app
from hyperleaf.errors import DataError, InputError
from hyperleaf.simulators import workbooks
from hyperleaf.simulators.base import BadOutput
from hyperleaf.simulators.table import read_csv_table
from hyperleaf.simulators.workbooks import read_workbook, write_workbook
from hyperleaf.study import Study

openpyxl = pytest.importorskip("openpyxl")
DOMAIN = hl.Domain(speed=hl.Real(0, 3000, unit="1/min"), gear=hl.Integer(1, 6), fuel=hl.Choice("v1.5", "v2,5"))


def book(path: Path, *sheets: list[list[Any]]) -> Path:
    made = openpyxl.Workbook()
    made.remove(made.active)
    for k, rows in enumerate(sheets):
        sheet = made.create_sheet(f"sheet {k}")
        for row in rows:
            sheet.append(row)
    made.save(path)
    return path


def test_the_first_sheet_is_read_with_the_lines_that_excel_shows(tmp_path: Path) -> None:
    rows = [[], ["speed [1/min]", "gear", "fuel", "y", None], [1 / 3, 3.0, "v1.5", 1e-9], [], [1e3, 4, "v2,5", "2,5"]]
    path = book(tmp_path / "f.xlsx", rows, [["something else"]])
    points, outputs = read_csv_table(path, DOMAIN, ("y",))
    assert points == [{"speed": 0.3333333333333333, "gear": 3, "fuel": "v1.5"}, {"speed": 1000.0, "gear": 4, "fuel": "v2,5"}]
    assert [float(text) for text in outputs["y"]] == [1e-9, 2.5]  # a text with a decimal comma, as a form may leave it
    assert [line for line, _ in read_workbook(path)] == [2, 3, 5]


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (["x", 1, "v1.5", 1], "got 'x' in line 2"),
        ([None, 1, "v1.5", 1], "it is blank in line 2"),
        ([datetime.datetime(2026, 1, 2), 1, "v1.5", 1], "got '2026-01-02 00:00:00' in line 2"),
    ],
)
def test_a_cell_that_is_no_number_is_named_by_its_line(tmp_path: Path, row: list, words: str) -> None:
    path = book(tmp_path / "f.xlsx", [["speed", "gear", "fuel", "y"], row])
    with pytest.raises(DataError, match=words):
        read_csv_table(path, DOMAIN, ("y",))


def test_a_sheet_goes_out_and_comes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("study.toml").write_text('[study]\nname = "s"\n[inputs]\na = { low = 0.0, high = 1.0 }\n[outputs]\ny = {}\n')
    assert CliRunner().invoke(app, ["ask", "-n", "3", "--sheet", "today.xlsx"]).exit_code == 0
    made = openpyxl.load_workbook("today.xlsx")
    sheet = made.active
    assert [cell.value for cell in sheet[1]] == ["id", "a", "y"]
    sheet["C2"], sheet["C4"] = 1.25, "2,5"
    made.save("today.xlsx")
    told = CliRunner().invoke(app, ["tell", "--csv", "today.xlsx"])
    assert "Kept queries 1, 3." in told.stdout and "Left out 1 row" in told.stdout
    sheet["C2"] = 12.5
    made.save("today.xlsx")
    assert "1.25 → 12.5" in CliRunner().invoke(app, ["correct", "--csv", "today.xlsx"]).stdout
    write_workbook(Path("old.xlsx"), [["a", "y"], [0.5, 7]])
    assert "Added" in CliRunner().invoke(app, ["tell", "--csv", "old.xlsx"]).stdout


def test_a_study_takes_runs_from_a_workbook(tmp_path: Path) -> None:
    study = Study.create("s", DOMAIN, "y", surrogate="stationary")
    study.add(book(tmp_path / "f.xlsx", [["speed", "gear", "fuel", "y"], [1, 2, "v1.5", 3]]))
    assert study.record().observations[0].outputs == {"y": 3.0}


def zipped(**entries: bytes) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in entries.items():
            file.writestr(name, content)
    return target.getvalue()


@pytest.mark.parametrize("content", [b"", b"a,y\n1,2\n", zipped(a=b"1"), b"PK\x03\x04nothing"], ids=range(4))
def test_what_is_no_workbook_is_a_sentence(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "f.xlsx").write_bytes(content)
    with pytest.raises(DataError, match=r"f\.xlsx cannot be read \(it is no Excel file"):
        read_csv_table(tmp_path / "f.xlsx", DOMAIN, ("y",))
    with pytest.raises(DataError, match="there is none"):
        read_csv_table(tmp_path / "g.xlsx", DOMAIN, ("y",))


def test_sizes_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "f.xlsx").write_bytes(zipped(a=bytes(300 * 2**20)))
    with pytest.raises(BadOutput, match="at most"):
        read_workbook(tmp_path / "f.xlsx")
    monkeypatch.setattr(workbooks, "MOST_CELLS", 5)
    with pytest.raises(BadOutput, match="at most 5 cells"):
        read_workbook(book(tmp_path / "g.xlsx", [["a", "y"], [1, 2], [3, 4]]))


def test_without_openpyxl_the_remedy_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = book(tmp_path / "f.xlsx", [["a"]])
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"pip install 'hyperleaf\[excel\]'"):
        read_csv_table(path, DOMAIN, ("y",))
    assert "openpyxl" in sys.modules
