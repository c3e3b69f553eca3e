"""`correct`, `void`, `restore`, and what goes with them, as typed."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from hyperleaf.cli import app
from hyperleaf.study import Study

STUDY = """
[study]
name = "bench"
[inputs]
speed = { low = 500.0, high = 3000.0, unit = "1/min" }
gear = { options = ["low", "high"] }
[outputs]
torque = {}
[surrogate]
kind = "stationary"
inference = { kind = "map", restarts = 1 }
[design]
size = 4
"""


def call(*arguments: Any) -> Any:
    return CliRunner().invoke(app, [str(one) for one in arguments])


def good(*arguments: Any) -> str:
    result = call(*arguments)
    assert result.exit_code == 0, result.stderr or result.exception
    return result.stdout


def bad(*arguments: Any, code: int = 1) -> str:
    result = call(*arguments)
    assert result.exit_code == code, result.stdout
    return result.stderr


def table() -> list[dict[str, str]]:
    good("export", "t.csv")
    with open("t.csv", newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A study with three queries: 1 and 2 told, 3 open."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "study.toml").write_text(STUDY)
    good("ask", "-n", 3)
    good("tell", 1, "torque=125")
    good("tell", 2, "torque=11")
    return tmp_path


def test_a_mistyped_value_is_put_right(here: Path) -> None:
    assert "Query 1 corrected: torque 125 → 12.5 (comma lost)." in good("correct", 1, "torque=12.5", "--why", "comma lost")
    assert good("correct", 1, "torque=12.5") == "Nothing changed.\n"
    assert float(table()[0]["torque"]) == 12.5 and "corrected: torque 125 → 12.5 (comma lost)" in table()[0]["changes"]
    shown = good("status")
    assert "Put right" in shown and "torque 125 → 12.5" in shown
    (change,) = json.loads(good("status", "--json"))["changes"]
    assert change["before"]["outputs"] == {"torque": 125.0} and change["who"]


def test_a_run_is_voided_and_restored(here: Path) -> None:
    assert "Query 1 voided: sensor off." in good("void", 1, "--why", "sensor off", "--who", "ann")
    assert "1 void" in good("status") and table()[0]["torque"] == ""
    assert "hyperleaf restore 1" in bad("correct", 1, "torque=1")
    assert good("void", 1) == "Nothing changed.\n"
    assert "Query 1 restored." in good("restore", 1)
    assert float(table()[0]["torque"]) == 125.0 and "ann voided: sensor off" in table()[0]["changes"]
    assert "query 1 is done" in bad("restore", 1)


def test_a_reason_over_several_lines_is_shown_in_one(here: Path) -> None:
    assert "Query 1 voided: sensor off [31mtwice." in good("void", 1, "--why", "sensor\noff\x1b[31mtwice")
    assert "voided: sensor off [31mtwice" in next(line for line in good("status").splitlines() if "voided" in line)


def test_a_run_is_confirmed(here: Path) -> None:
    assert good("confirm", 1, "--why", "measured twice") == "Query 1 confirmed: measured twice.\n"
    assert good("confirm", 1) == "Nothing changed.\n" and "confirmed: measured twice" in good("status")


def test_what_was_set_is_told_with_what_it_gave(here: Path) -> None:
    asked = json.loads(good("ask", "--again", "--json"))["queries"][0]["point"]
    assert "Kept query 3" in good("tell", 3, "speed=1005", "torque=9.5")
    row = table()[2]
    assert float(row["speed"]) == 1005.0 and row["asked"] == f"speed={asked['speed']:.10g}" and row["gear"] == asked["gear"]
    last = next(line for line in good("status").splitlines() if line.split()[:2] == ["3", "speed=1005"])
    assert "torque=9.5" in last and f"asked at speed={asked['speed']:.6g}" in last
    seen = next(one for one in json.loads(good("status", "--json"))["last"] if one["id"] == 3)
    assert (seen["point"], seen["made_at"]["speed"], seen["outputs"]) == (asked, 1005.0, {"torque": 9.5})
    assert "3000" in bad("correct", 3, "speed=9999")
    assert "finite number" in bad("correct", 3, "speed=fast")
    assert "'high'" in bad("correct", 3, "gear=third")
    assert "Query 3 corrected: speed 1005 → 1010" in good("correct", 3, "speed=1010")


def test_a_sheet_puts_right_what_differs_in_it(here: Path) -> None:
    (here / "s.csv").write_text("id,torque\n1,12.5\n2,11\n3,\n")
    said = good("correct", "--csv", "s.csv")
    assert "Query 1 corrected: torque 125 → 12.5 (from s.csv)." in said and "Query 2" not in said
    assert good("correct", "--csv", "s.csv") == "Nothing changed.\n"
    (here / "s.csv").write_text("id,speed,torque\n1,1234,99\n3,,5\n")
    assert "line 3 of s.csv" in bad("correct", "--csv", "s.csv")
    assert float(table()[0]["torque"]) == 12.5  # all or nothing
    (here / "s.csv").write_text("id,speed,torque\n1,1234,\n2,1234,11\n")
    assert "Query 2 corrected: made at speed=1234" in good("correct", "--csv", "s.csv", "--why", "read off")


def test_a_sheet_says_where_runs_were_made_only_when_told(here: Path) -> None:
    good("ask", "--again", "--sheet", "s.csv")
    with open("s.csv", newline="") as file:
        (row,) = csv.DictReader(file)
    row |= {"speed": "1005", "torque": "7"}
    (here / "s.csv").write_text(",".join(row) + "\n" + ",".join(row.values()) + "\n")
    assert "--achieved" in bad("tell", "--csv", "s.csv")
    assert "Kept query 3" in good("tell", "--csv", "s.csv", "--achieved")
    assert "Known before" in good("tell", "--csv", "s.csv", "--achieved")
    assert float(table()[2]["speed"]) == 1005.0


def test_a_query_is_given_back_and_offered_again(here: Path) -> None:
    point = json.loads(good("ask", "--again", "--json"))["queries"][0]["point"]
    assert "Query 3 is offered again" in good("ask", "--release", 3)
    assert "held by nobody" in good("ask", "--release", 3)
    assert "No query waits" in good("ask", "--again")
    assert json.loads(good("ask", "--json"))["queries"][0]["point"] == point
    assert "no query 77" in bad("ask", "--release", 77)


def test_a_setting_is_repeated_on_purpose(here: Path) -> None:
    first = json.loads(good("status", "--json"))["last"][0]["point"]
    queries = json.loads(good("ask", "--repeat", 1, "-n", 2, "--json"))["queries"]
    assert [query["point"] for query in queries] == [first, first] and queries[0]["note"] == "repeats query 1"
    good("tell", 4, "torque=12.4")
    assert "Kept query 5" in good("tell", 5, "torque=12.6")
    good("tell", 3, "speed=1005", "torque=9.5")
    again = json.loads(good("ask", "--repeat", 3, "--lease", "8h", "--json"))["queries"][0]
    assert again["point"]["speed"] == 1005.0  # as it was set, or the two would not lie at one point
    assert Study.load("bench", "sqlite:///study.db").record().queries[-1].lease == 8 * 3600.0


def test_a_setting_beyond_a_constraint_is_kept_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "study.toml").write_text(STUDY.replace('name = "bench"', 'name = "bench"\nconstraints = ["speed <= 2500"]'))
    good("ask", "-n", 2)
    told = call("tell", 1, "speed=2600", "torque=3")
    assert told.exit_code == 0 and "Kept query 1" in told.stdout
    assert told.stderr == "hyperleaf: note: query 1 breaks the constraint speed <= 2500.\n"
    assert "keeps the constraints" in bad("ask", "--repeat", 1)
    assert call("correct", 1, "speed=2400").stderr == "" == call("tell", 2, "torque=4").stderr
    assert "query 2 breaks the constraint" in call("correct", 2, "speed=2700").stderr


def test_wrong_usage_is_explained(here: Path) -> None:
    assert "correct either" in bad("correct", 1, code=2)
    assert "correct either" in bad("correct", code=2)
    assert "three different things" in bad("ask", "--again", "--repeat", 1, code=2)
    for more in (("-n", 2), ("--lease", "8h"), ("--sheet", "s.csv")):
        assert "--release gives one query back" in bad("ask", "--release", 3, *more, code=2)
    assert "--again shows" in bad("ask", "--again", "-n", 2, code=2)
    assert "--achieved goes with --csv" in bad("tell", 3, "torque=1", "--achieved", code=2)
    assert "no query 9" in bad("void", 9)
