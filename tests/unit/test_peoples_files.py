"""CSV files as people write them: decimal commas, units in headers, marks between thousands, and lines as spreadsheets count."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

import hyperleaf as hl
from hyperleaf.cli import app
from hyperleaf.config import read_toml
from hyperleaf.errors import DataError, InputError
from hyperleaf.simulators.base import BadOutput
from hyperleaf.simulators.readers import read_sheet
from hyperleaf.simulators.table import read_csv_table
from hyperleaf.study import Study

DOMAIN = hl.Domain(speed=hl.Real(0, 3000, unit="1/min"), fuel=hl.Choice("v1.5", "v2,5"))


def read(folder: Path, text: str, encoding: str = "utf-8") -> tuple[list[dict], dict]:
    (folder / "f.csv").write_text(text, encoding=encoding)
    return read_csv_table(folder / "f.csv", DOMAIN, ("y",))


@pytest.mark.parametrize("mark", [";", "\t"])
def test_decimal_commas_are_read_where_the_separator_is_another(tmp_path: Path, mark: str) -> None:
    text = "speed;fuel;y\n1000,5;v1.5;-1,5e3\n20;v2,5;,25\n".replace(";", mark)
    points, outputs = read(tmp_path, text, "utf-8-sig")
    assert points == [{"speed": 1000.5, "fuel": "v1.5"}, {"speed": 20.0, "fuel": "v2,5"}]
    assert [float(text) for text in outputs["y"]] == [-1500.0, 0.25]


def test_decimal_points_are_read_with_any_separator(tmp_path: Path) -> None:
    for mark in ",;\t":
        assert read(tmp_path, f"speed{mark}fuel{mark}y\n1.5{mark}v1.5{mark}2.5\n")[0] == [{"speed": 1.5, "fuel": "v1.5"}]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("speed;fuel;y\n1;v1.5;1,5\n\n1.234,5;v1.5;2\n", r"line 4: '1\.234,5' has marks between thousands"),
        ("speed;fuel;y\n1 234,5;v1.5;1\n", "line 2: '1 234,5' has marks between thousands"),
        ("speed;fuel;y\n1;v1.5;1,5\n1.234;v1.5;2\n", r"line 3: '1\.234' has a point where line 2 has a decimal comma"),
        ('speed,fuel,y\n"1,234",v1.5,1\n', "got '1,234' in line 2"),
        ("speed [rpm];fuel;y\n1;v1.5;1\n", "'speed' must be in 1/min; its header says rpm"),
        ("speed,fuel,y\n\n1,v1.5,2\nx,v1.5,2\n", "got 'x' in line 4"),
        ("speed,fuel,y\n1,v1.5\n", "line 2 has 2"),
    ],
)
def test_what_may_mean_two_things_is_refused_with_its_line(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(DataError, match=words):
        read(tmp_path, text)


def test_units_in_headers_are_understood() -> None:
    sheet = read_sheet("speed [1/min];y (N m);other [x]\n1;2;3\n", ("speed", "y"))
    assert sheet.header == ["speed", "y", "other [x]"] and sheet.units == ["1/min", "N m", ""]
    assert read_sheet("y [m],y\n1,2\n", ("y",)).header == ["y [m]", "y"]  # the bare one is meant
    assert read_sheet("y [m]\n1\n", ("y [m]",)).header == ["y [m]"]  # a name of its own


def test_a_text_over_several_lines_does_not_upset_the_count() -> None:
    sheet = read_sheet('y,note\n1,"two\nlines"\n2,\n', ("y",))
    assert sheet.lines == [2, 3]  # as a spreadsheet shows it
    with pytest.raises(BadOutput, match="not CSV"):
        read_sheet("y\n" + "x" * 200_000 + "\n", ("y",))


def test_a_value_out_of_bounds_is_named_by_its_line(tmp_path: Path) -> None:
    study = Study.create("s", DOMAIN, "y", surrogate="stationary")
    (tmp_path / "f.csv").write_text("speed,fuel,y\n1,v1.5,2\n\n9999,v1.5,2\n")
    with pytest.raises(InputError, match=r"line 4 of .*f\.csv: speed must be in \[0.*got 9999.0\.") as caught:
        study.add(tmp_path / "f.csv")
    assert "row" not in str(caught.value)


def test_rows_that_break_a_constraint_or_repeat_a_run_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    inputs = "[inputs]\na = { low = 0.0, high = 1.0 }\nb = { low = 0.0, high = 1.0 }\n[outputs]\ny = {}\n"
    Path("study.toml").write_text(f'[study]\nname = "s"\nconstraints = ["a + b < 1"]\n{inputs}')
    Path("old.csv").write_text("a,b,y\n0.1,0.2,1\n0.9,0.9,2\n0.1,0.2,1\n")
    result = CliRunner().invoke(app, ["tell", "--csv", "old.csv"])
    assert result.exit_code == 0 and "Added queries 1, 2, 3" in result.stdout
    assert "line 3 of old.csv breaks the constraint a + b < 1" in result.stderr
    assert "line 4 of old.csv repeats line 2" in result.stderr
    again = CliRunner().invoke(app, ["tell", "--csv", "old.csv"])
    assert "line 2 of old.csv repeats query 1" in again.stderr


def test_added_runs_are_complained_of_by_their_lines(tmp_path: Path) -> None:
    study = Study.create("s", DOMAIN, "y", surrogate="stationary")
    (tmp_path / "f.csv").write_text("speed;fuel;y\n\n1,5;v1.5;2,5\n1,5;v1.5;\n")
    with pytest.raises(InputError, match=r"line 4 of .*f\.csv"):
        study.add(tmp_path / "f.csv")
    (tmp_path / "f.csv").write_text("speed [1/min];fuel;y [Nm]\n1,5;v1.5;2,5\n")
    study.add(tmp_path / "f.csv")
    assert study.record().observations[0].outputs == {"y": 2.5}


def test_an_output_in_another_unit_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = '[study]\nname = "s"\n[inputs]\na = { low = 0, high = 1, unit = "µm" }\n[outputs]\ny = { unit = "°C" }\n'
    Path("study.toml").write_text(text)
    Path("f.csv").write_text("a,y [K]\n0.5,300\n")
    Path("sheet.csv").write_text("id,y (K)\n1,300\n")
    for command in (("tell", "--csv", "f.csv"), ("tell", "--csv", "sheet.csv"), ("correct", "--csv", "sheet.csv")):
        CliRunner().invoke(app, ["ask"])
        result = CliRunner().invoke(app, command)
        assert result.exit_code == 1 and "'y' must be in °C; its header says K. Convert it." in result.stderr
    study = Study.define(read_toml("study.toml"), storage="sqlite:///study.db")
    with pytest.raises(DataError, match="must be in °C"):
        study.add("f.csv")
    with pytest.raises(DataError, match="must be in °C"):
        study.run("f.csv", queries=1)
    with pytest.raises(DataError, match="must be in °C"):
        Study.create("t", study.domain, {"y": {"unit": "°C"}}, test="f.csv")
    Path("f.csv").write_text("a (μm);y [° C]\n0,5;300\n")  # the other µ
    assert "Added query" in CliRunner().invoke(app, ["tell", "--csv", "f.csv"]).stdout


def test_a_long_table_with_decimal_commas_is_read_in_no_time() -> None:
    rows = "".join(f"0,{k:05d};{k % 9 + 1};1,5\n" for k in range(20_000))
    started = time.process_time()
    sheet = read_sheet("a;k;y\n" + rows, ("a", "k", "y"))
    assert sheet.rows[-1] == ["0.19999", "2", "1.5"] and len(sheet.rows) == 20_000
    assert time.process_time() - started < 2.0
