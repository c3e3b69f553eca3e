"""The command line, called in this process: what each command prints and writes, and the sentence and exit code of each error."""

import csv
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from hyperleaf.cli import app
from hyperleaf.config import read_toml
from hyperleaf.errors import InputError

STUDY = """
[study]
name = "tiny"
storage = "sqlite:///tiny.db"
seed = 3

[inputs]
x = { low = 0.0, high = 1.0, unit = "m" }

[outputs]
y = { noise = 0.01 }

[surrogate]
kind = "stationary"
inference = { kind = "map", restarts = 2 }

[design]
size = 3

[pool]
table = "pool.csv"

[simulator]
function = "model:simulate"

[stop]
queries = 5
"""
MODEL = """
import math

def simulate(x):
    if x > 0.95:
        raise ValueError("too far right")
    return math.sin(6 * x)
"""
POOL = "x\n" + "\n".join(f"{i / 10:.1f}" for i in range(10)) + "\n"


def call(*arguments: Any) -> Any:
    return CliRunner().invoke(app, [str(one) for one in arguments])


def good(*arguments: Any) -> str:
    result = call(*arguments)
    assert result.exit_code == 0, result.stderr or result.exception
    return result.stdout


def values(*arguments: Any) -> dict[str, Any]:
    return json.loads(good(*arguments, "--json"))


def write_study(folder: Path, change: Callable[[str], str] = lambda text: text) -> Path:
    (folder / "study.toml").write_text(change(STUDY))
    (folder / "model.py").write_text(MODEL)
    (folder / "pool.csv").write_text(POOL)
    return folder


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return write_study(tmp_path)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study that was run to its end, with its surrogate."""
    folder = write_study(tmp_path_factory.mktemp("finished"))
    good("run", folder / "study.toml")
    good("export", folder / "s.npz", "--study", folder / "study.toml")
    return folder


# --- the front


def test_help_is_light_and_names_all_commands_and_exit_codes() -> None:
    code = "import sys\nsys.argv = ['hyperleaf', '--help']\nfrom hyperleaf.cli import main\ntry:\n    main()\nfinally:\n"
    code += "    sys.stderr.write(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in done.stderr.split()}
    assert loaded & {"jax", "numpy", "scipy", "pandas", "pydantic", "sqlalchemy", "rich", "xarray", "matplotlib"} == set()
    for command in (
        "new",
        "run",
        "ask",
        "tell",
        "correct",
        "void",
        "restore",
        "confirm",
        "status",
        "export",
        "predict",
        "sensitivity",
        "compare",
        "report",
        "doctor",
    ):
        assert f"\n  {command} " in done.stdout
    assert "130 interrupted" in " ".join(done.stdout.split())


@pytest.mark.parametrize(
    "command", ["new", "check", "run", "ask", "tell", "correct", "void", "status", "export", "predict", "compare", "report"]
)
def test_every_command_explains_itself_and_can_speak_json(command: str) -> None:
    text = good(command, "--help")
    assert "--json" in text
    assert len(text.splitlines()) < 40


@pytest.mark.parametrize("group", [(), ("bench",)])
def test_no_line_of_the_list_of_commands_is_cut_off(group: tuple[str, ...]) -> None:
    commands = good(*group, "--help").partition("Commands:")[2]
    assert commands and "..." not in commands


def test_version() -> None:
    assert good("--version").startswith("hyperleaf 0.")


# --- new


def test_new_writes_a_study_that_can_be_read(here: Path) -> None:
    text = good("new", "other.toml")
    assert "[inputs], [outputs] and [simulator], then: hyperleaf run other.toml" in text
    assert "hyperleaf ask other.toml" in text
    assert read_toml(here / "other.toml").study.name == "booster"
    (here / "folder").mkdir()
    shown = values("new", "folder")
    assert shown == {"study": str(Path("folder/study.toml")), "schema": str(Path("folder/.study.schema.json"))}
    assert all((here / path).is_file() for path in shown.values())


def test_new_writes_the_effort_that_was_asked_for(here: Path) -> None:
    good("new", "a.toml")
    good("new", "b.toml", "--effort", "fast")
    assert read_toml(here / "a.toml").surrogate.options["effort"] == "standard"
    assert read_toml(here / "b.toml").surrogate.options["effort"] == "fast"
    usual, fast = ((here / name).read_text().splitlines() for name in ("a.toml", "b.toml"))
    ((before, after),) = [(one, other) for one, other in zip(usual, fast, strict=True) if one != other]
    assert before.index("#") == after.index("#")  # comments stay under each other


def test_demo_hands_its_effort_on_and_is_fast_by_itself(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []

    def stop(name: str, surrogate: dict[str, Any]) -> None:
        made.append(surrogate)
        raise InputError("enough.")

    monkeypatch.setattr("hyperleaf.cli.demo._study", stop)
    assert call("demo").exit_code == call("demo", "--effort", "thorough").exit_code == 1
    assert [one["effort"] for one in made] == ["fast", "thorough"]


def test_new_then_run_says_what_is_missing_and_begins_nothing(here: Path) -> None:
    good("new", "--force")
    result = call("run")
    assert result.exit_code == 1
    assert "a run needs a simulator; study.toml has none. Write a section [simulator], or answer by hand" in result.stderr
    assert not (here / "booster.db").exists()


def test_new_writes_over_a_file_only_when_told(here: Path) -> None:
    assert call("new").exit_code == 1
    assert "tiny" in (here / "study.toml").read_text()
    good("new", "--force")
    assert "booster" in (here / "study.toml").read_text()


# --- ask, tell, status: nothing is learned here


def test_a_person_asks_and_tells(here: Path) -> None:
    text = good("ask", "-n", 2)
    assert "query 1  x = " in text and " m" in text
    assert "hyperleaf tell 1 y=…" in text
    asked = values("ask", "--again")["queries"]
    assert [query["id"] for query in asked] == [1, 2]
    assert {query["owner"] for query in asked} == {"person"}
    assert "waits for an answer" in good("status")

    assert values("tell", 1, "y=0.25") == {
        "study": "tiny", "told": [1], "known": [], "failed": [], "retried": [], "added": [], "skipped": 0, "suspects": [],
    }  # fmt: skip
    assert values("tell", 1, "y=0.25")["known"] == [1]
    assert "Marked as failed: query 2." in good("tell", 2, "--failed", "the sensor broke")
    status = values("status")
    assert status["counts"] == {"waiting": 0, "running": 0, "done": 1, "failed": 1, "void": 0}
    assert status["last"][-1]["reason"] == "the sensor broke"
    assert "failed: the sensor broke" in good("status")
    assert "No query waits" in good("ask", "--again")
    assert values("ask", "--again")["queries"] == []


def test_a_failed_run_is_offered_again_if_the_study_says_so(here: Path) -> None:
    write_study(here, lambda text: text + "[failures]\nretries = 1\n")
    (query,) = values("ask")["queries"]
    assert values("tell", 1, "--failed", "again")["retried"] == [1]
    (repeated,) = values("ask")["queries"]
    assert repeated["point"] == query["point"]
    assert repeated["attempt"] == 2
    assert values("tell", 1, "--failed", "again")["failed"] == [1]


def test_sheet_is_filled_in_and_told(here: Path) -> None:
    good("ask", "-n", 3, "--sheet", "sheet.csv")
    with open("sheet.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [list(row) for row in rows] == [["id", "x", "y"]] * 3
    rows[0]["y"], rows[2]["y"] = "1.5", " 2.5 "
    with open("sheet.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, ["id", "x", "y"])
        writer.writeheader()
        writer.writerows(rows)
    told = values("tell", "--csv", "sheet.csv")
    assert told["told"] == [1, 3]
    assert told["skipped"] == 1
    assert "nothing changed: queries 1, 3" in good("tell", "--csv", "sheet.csv")


def test_lines_of_a_sheet_are_counted_as_a_spreadsheet_does(here: Path) -> None:
    good("ask", "-n", 2)
    for body, line in (("id,y\n1,1\n2,x\n", 3), ("\nid,y\n\n1,1\n,\n2,x\n", 6), ("x,y\n0.1,1\n\n0.2,x\n", 4)):
        Path("sheet.csv").write_text(body)
        assert f"line {line} of sheet.csv: the output 'y' must be a number" in call("tell", "--csv", "sheet.csv").stderr
    Path("sheet.csv").write_text('id,remark,y\n1,"a\nb",1\n2,c,x\n')
    assert "line 3 of sheet.csv" in call("tell", "--csv", "sheet.csv").stderr  # a spreadsheet's third, though the file's fourth
    Path("sheet.csv").write_text("id,x,y\n1,0.1,1\n2,0.2\n")
    assert "line 3 has 2" in call("tell", "--csv", "sheet.csv").stderr
    assert values("status")["num_observations"] == 0


def test_rows_without_ids_are_added_as_runs(here: Path) -> None:
    Path("runs.csv").write_text("x,y,remark\n0.15,1.0,a\n0.25,2.0,b\n0.35,3.0,c\n0.45,4.0,d\n")
    assert "Added queries 1 to 4." in good("tell", "--csv", "runs.csv")
    assert values("status")["num_observations"] == 4


def test_exported_table_can_be_told_again_without_effect(here: Path) -> None:
    good("ask", "-n", 2)
    good("tell", 1, "y=0.1")
    good("export", "table.csv")
    told = values("tell", "--csv", "table.csv")
    assert (told["told"], told["known"], told["skipped"]) == ([], [1], 1)


def test_numbers_are_read_as_solvers_write_them(here: Path) -> None:
    good("ask")
    good("tell", 1, "y=1.5D-03")
    good("export", "table.csv")
    assert "0.0015" in Path("table.csv").read_text()


def test_study_is_kept_beside_its_file_wherever_the_command_is_called(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = here / "50% load, räume"
    folder.mkdir()
    write_study(folder, lambda text: text.replace('storage = "sqlite:///tiny.db"\n', ""))
    good("ask", folder / "study.toml")
    assert (folder / "study.db").is_file()
    monkeypatch.chdir(folder)
    assert values("status")["counts"]["running"] == 1
    assert values("status", "--study", "study.toml")["counts"]["running"] == 1


# --- run, export, predict


def test_run_goes_to_its_end_and_says_how_it_went(finished: Path) -> None:
    result = call("run", finished / "study.toml", "--json")  # nothing left to do
    assert result.exit_code == 0
    shown = json.loads(result.stdout)
    assert (shown["rule"], shown["num_done"]) == ("queries", 5)
    assert shown["accuracy"]["y"]["expected_rmse"] > 0
    assert "y: expected error" in good("status", finished / "study.toml")


def noisy(folder: Path, noise: str) -> None:
    """A study of a simulator whose outputs are nothing but noise, and that is told what noise it has."""
    write_study(folder, lambda text: text.replace("noise = 0.01", f'noise = "{noise}"').replace("queries = 5", "queries = 9"))
    jumping = "def simulate(x):\n    return (-1.0) ** round(10 * x) * (1.0 + x)\n"
    (folder / "model.py").write_text(jumping)


def test_noise_is_in_the_status_and_a_large_one_is_pointed_out_at_the_end_of_a_run(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hyperleaf.study import accuracy
    from hyperleaf.surrogates.noise import Figures

    monkeypatch.setattr(
        accuracy, "noise_figures", lambda posterior: Figures(0.4, 0.3, 0.5)
    )  # whatever this surrogate makes of it
    noisy(here, "learned")
    warning = 'of the spread of y is taken for noise. If your simulator repeats exactly, say noise = "none".'
    assert warning in good("run").partition("Stopped")[2]
    text, found = good("status"), values("status")["noise"]["y"]
    assert "Noise\n  y: learned, " in text and "(90 % between " in text and f"% {warning}" in text
    assert found["kind"] == "learned" and found["low"] < found["std"] < found["high"] and len(found["warnings"]) == 1


def test_without_noise_the_status_says_so_and_repeats_that_differ_are_pointed_out(here: Path) -> None:
    noisy(here, "none")
    assert "noise" not in good("run").partition("Stopped")[2]
    assert "Noise\n  y: none (a nugget of 0.1 % of the spread)\nStops when" in good("status")
    (here / "again.csv").write_text("x,y\n0.55,1.0\n0.55,1.5\n")
    good("tell", "--csv", "again.csv")
    text = good("status")
    assert "y: 1 point was run more than once; y differs there by 0.354 (1 degree of freedom)" in text
    assert '! runs at the same point differ by 0.354 in y; noise = "none" is wrong.' in text
    assert values("status")["noise"]["y"]["repeats"] == {"points": 1, "std": pytest.approx(0.125**0.5), "freedom": 1}


def test_run_prints_a_line_for_each_run_and_leaves_out_what_failed(here: Path) -> None:
    write_study(here, lambda text: text.replace("queries = 5", "queries = 2"))
    (here / "pool.csv").write_text("x\n0.96\n0.5\n0.7\n0.2\n")
    out = good("run")
    lines = [line for line in out.splitlines() if line.startswith("[")]
    assert any("→ y=" in line for line in lines)
    assert any("failed: ValueError: too far right" in line for line in lines) or len(lines) == 2
    assert "Stopped: 2 of 2 runs finished." in out
    assert "simulating" in out or "storing" in out


def test_json_of_a_run_is_alone_on_stdout(here: Path) -> None:
    result = call("run", "--queries", 2, "--json")
    assert json.loads(result.stdout)["num_done"] == 2
    assert "query 1:" in result.stderr


def test_run_that_fails_too_often_ends_with_code_3_and_goes_on_when_repaired(here: Path) -> None:
    (here / "model.py").write_text("def simulate(x):\n    raise ValueError('no licence')\n")
    write = lambda text: text.replace("queries = 5", "queries = 2") + "[failures]\nlimit = 2\n"  # noqa: E731
    (here / "study.toml").write_text(write(STUDY))
    result = call("run")
    assert result.exit_code == 3
    assert "go on with: hyperleaf run" in result.stdout
    assert "no licence" in good("status")
    (here / "repaired.py").write_text("def simulate(x):\n    return x\n")
    (here / "study.toml").write_text(write(STUDY).replace("model:simulate", "repaired:simulate"))
    assert call("run", "--json").exit_code == 0
    assert values("status")["num_observations"] == 2


def test_table_is_exported(finished: Path, tmp_path: Path) -> None:
    shown = values("export", tmp_path / "table.csv", "--study", finished / "study.toml")
    assert shown["rows"] == 5
    with open(tmp_path / "table.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["state"] for row in rows] == ["done"] * 5
    assert [path.name for path in tmp_path.iterdir()] == ["table.csv"]  # nothing unfinished is left


def test_parquet_without_its_package_says_how_to_get_it(finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pandas as pd

    def missing(*_: Any, **__: Any) -> None:
        raise ImportError("no pyarrow")

    monkeypatch.setattr(pd.DataFrame, "to_parquet", missing)
    result = call("export", tmp_path / "table.parquet", "--study", finished / "study.toml")
    assert result.exit_code == 1
    assert "pip install 'hyperleaf[export]'" in result.stderr


def test_table_is_exported_as_parquet(finished: Path, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    import pandas as pd

    good("export", tmp_path / "table.parquet", "--study", finished / "study.toml")
    assert len(pd.read_parquet(tmp_path / "table.parquet")) == 5


def test_posterior_is_exported_for_arviz(finished: Path, tmp_path: Path) -> None:
    xarray = pytest.importorskip("xarray")
    shown = values("export", tmp_path / "posterior.nc", "--study", finished / "study.toml")
    assert {"posterior", "observed_data"} <= set(shown["groups"])
    with xarray.open_datatree(tmp_path / "posterior.nc", engine="h5netcdf") as tree:
        assert tree["posterior"].sizes["chain"] == 1
        assert tree["observed_data"]["y"].size == 5
        assert tree["posterior"].attrs["output"] == "y"


def test_weighted_draws_are_resampled_by_their_weights() -> None:
    import numpy as np

    from hyperleaf.exports.netcdf import equally_weighted

    assert list(equally_weighted(np.full(3, 1 / 3))) == [0, 1, 2]
    counts = np.bincount(equally_weighted(np.array([0.1, 0.6, 0.3, 0.0])), minlength=4)
    assert list(counts) == [0, 3, 1, 0] or list(counts) == [1, 2, 1, 0]


def test_surrogate_predicts_as_the_study_does(finished: Path, tmp_path: Path) -> None:
    import numpy as np

    from hyperleaf.study import Study

    (tmp_path / "points.csv").write_text("x;remark\n0.05;a\n0.85;b\n")
    shown = values("predict", finished / "s.npz", tmp_path / "points.csv")
    study = Study.load("tiny", "sqlite:///tiny.db", folder=finished)
    expected = study.predict([{"x": 0.05}, {"x": 0.85}])
    assert np.allclose([row["y_mean"] for row in shown["points"]], expected.mean(), rtol=1e-12)
    assert np.allclose([row["y_std"] for row in shown["points"]], expected.std(), rtol=1e-9)
    assert all(row["y_low"] < row["y_mean"] < row["y_high"] for row in shown["points"])
    good("predict", finished / "s.npz", tmp_path / "points.csv", "-o", tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_text() == good("predict", finished / "s.npz", tmp_path / "points.csv")


def test_a_table_in_the_place_of_a_surrogate_is_no_reason_to_trust_it(tmp_path: Path) -> None:
    """NumPy takes it for a pickle and would advise to load it unsafely."""
    from hyperleaf.errors import InputError
    from hyperleaf.study import load_model

    (tmp_path / "points.csv").write_text("x\n0.5\n")
    with pytest.raises(InputError, match="it is not an NPZ file, which save_posterior and export write") as caught:
        load_model(tmp_path / "points.csv")
    assert "pickle" not in str(caught.value)


def test_report_is_written(finished: Path, tmp_path: Path) -> None:
    pytest.importorskip("hyperleaf.report")
    shown = values("report", finished / "study.toml", "-o", tmp_path / "page.html")
    assert "<html" in Path(shown["file"]).read_text(encoding="utf-8")


def test_several_runs_at_a_time(here: Path) -> None:
    assert values("run", "--jobs", "threads:2", "--queries", 3)["num_done"] == 3


def test_live_display_shows_progress_last_runs_accuracy_and_where_the_time_went(here: Path) -> None:
    import io
    import time

    from rich.console import Console

    from hyperleaf.cli.running import Display, Lines
    from hyperleaf.storage.base import Query, State
    from hyperleaf.study import Accuracy, Study, Verdict
    from hyperleaf.study.running import Event

    good("ask")
    study = Study.load("tiny", "sqlite:///tiny.db")
    display = Display(study, 10, 20)
    display._started = time.monotonic() - 100.0

    def shown() -> str:
        console = Console(file=io.StringIO(), width=140)
        console.print(display.render())
        return console.file.getvalue()

    assert "10/20 runs" in shown() and "? left" in shown()
    query = Query(12, {"x": 0.25}, "acquisition", State.DONE, 3, 0.0)
    known = {"y": Accuracy(0.1, 0.2, 1.0, loo_rmse=0.3, loo_coverage=0.875)}
    spent = {"learning": 30.0, "simulating": 10.0, "all": 40.0}
    event = Event("told", query, {"y": 0.5}, 12, 0, (Verdict("queries", 0.6, ""),), known, spent)
    display(event)
    text = shown()
    assert "12/20 runs" in text
    assert "6m40s left" in text  # two runs took 100 s, eight are left
    assert "query 12: x=0.25 → y=0.5" in text
    assert "y: expected error 0.2, leaving one out 0.3, 88% within their 90 % interval" in text
    assert "time went to learning 75%, simulating 25%" in text
    display(Event("failed", query, None, 12, 0, (), known, spent, message="[red]no[/red] convergence\nmore"))
    assert "query 12: x=0.25 failed: [red]no[/red] convergence" in shown()
    unbounded = Display(study, 0, None)
    unbounded(event)
    assert unbounded.share() == 0.6
    assert unbounded.remaining() == "?"
    Lines(None, to_stderr=True)(event)


# --- errors

USAGE: dict[str, tuple[tuple[Any, ...], str]] = {
    "unknown command": (("rnu",), "No such command 'rnu'"),
    "unknown option": (("run", "--fast"), "No such option"),
    "study named twice": (("run", "a.toml", "--study", "b.toml"), "name the study file once"),
    "no runs": (("run", "--queries", 0), "--queries"),
    "runs that are no number": (("run", "--queries", "many"), "--queries"),
    "no queries": (("ask", "-n", 0), "-n"),
    "nothing to tell": (("tell",), "tell either a query"),
    "a query and a file": (("tell", 1, "--csv", "a.csv"), "tell either a query"),
    "a file and a failure": (("tell", "--csv", "a.csv", "--failed", "x"), "--csv takes everything from the file"),
    "a query without outputs": (("tell", 1), "say either what the run gave"),
    "outputs and a failure": (("tell", 1, "y=1", "--failed", "x"), "say either what the run gave"),
    "a number that is no number": (("tell", "first", "y=1"), "Invalid value for 'ID'"),
    "query zero": (("tell", 0, "y=1"), "Invalid value for 'ID'"),
    "an output without a value": (("tell", 1, "y"), "told as NAME=VALUE, without spaces; got 'y'"),
    "a value without an output": (("tell", 1, "=5"), "told as NAME=VALUE"),
    "an output twice": (("tell", 1, "y=1", "y=2"), "'y' is told twice"),
    "export of nothing": (("export",), "Missing argument"),
    "prediction of nothing": (("predict", "s.npz"), "Missing argument"),
    "unknown jobs": (("run", "--jobs", "many"), "processes, threads:N or dask://host:port; got 'many'"),
    "unknown effort": (("new", "--effort", "fats"), "'fats' is not one of 'fast', 'standard', 'thorough'"),
    "a demo of few runs": (("demo", "--queries", 3), "--queries"),
}


@pytest.mark.parametrize("name", USAGE)
def test_wrong_usage_is_explained(here: Path, name: str) -> None:
    arguments, words = USAGE[name]
    _check(call(*arguments), 2, words)
    assert sorted(path.name for path in here.iterdir()) == ["model.py", "pool.csv", "study.toml"]


TEXT = b"x,y\n0.1,1\n"
# Arguments, files to write first (a function changes study.toml), and a part of the sentence.
WRONG: dict[str, tuple[tuple[Any, ...], dict[str, Any], str]] = {
    "no study file": (("run", "none.toml"), {}, "there is no study file none.toml. Write one with: hyperleaf new none.toml"),
    "a folder for a study": (("run", "."), {}, "is a folder"),
    "a config that is wrong": (("run",), {"study.toml": b"[study]\n"}, "must have a section [study]"),
    "a file that is there": (("new",), {}, "is there already"),
    "a folder that is not": (("new", "nowhere/study.toml"), {}, "No such file or directory"),
    "memory": (("run",), {"change": ("sqlite:///tiny.db", "memory://")}, "memory is gone when the command ends"),
    "another kind of store": (("run",), {"change": ("sqlite:///tiny.db", "mysql://a@b/c")}, "begins with mysql://"),
    "a path for a store": (("run",), {"change": ("sqlite:///tiny.db", "tiny.db")}, "For a file: sqlite:///tiny.db"),
    "a store in no folder": (("run",), {"change": ("sqlite:///tiny.db", "sqlite:///nowhere/tiny.db")}, "nowhere"),
    "a store that is no database": (("status",), {"tiny.db": b"no database, but long enough to be looked at" * 99}, "tiny.db"),
    "another seed": (("run",), {"change": ("seed = 3", "seed = 4")}, "[study] of the study 'tiny' differs"),
    "other inputs": (("ask",), {"change": ("high = 1.0", "high = 2.0")}, "[inputs] of the study 'tiny' differs"),
    "other outputs": (("ask",), {"change": ("noise = 0.01", "noise = 0.1")}, "[outputs] of the study 'tiny' differs"),
    "another surrogate": (("ask",), {"change": ('"stationary"', '"hhk"')}, "[surrogate] of the study 'tiny' differs"),
    "unknown option of a surrogate": (
        ("run",), {"change": ("restarts = 2 }", "restarts = 2 }\nleafs = 2"), "fresh": True}, "has no option 'leafs'"),
    "misspelt effort": (
        ("run",), {"change": ("restarts = 2 }", 'restarts = 2 }\neffort = "fats"'), "fresh": True}, "Did you mean 'fast'?"),
    "unknown inference": (("run",), {"change": ('"map"', '"mpa"'), "fresh": True}, "Did you mean 'map'?"),
    "inference without a kind": (
        ("run",), {"change": ('kind = "map", restarts', "restarts"), "fresh": True}, "inference as a table must have a kind"),
    "unknown acquisition": (("run",), {"append": "[acquisition]\nkind = 'entropie'", "fresh": True}, "entropy"),
    "changed to an unknown acquisition": (("run",), {"append": "[acquisition]\nkind = 'entropie'"}, "entropy"),
    "no pool": (("ask",), {"change": ("pool.csv", "candidates.csv"), "fresh": True}, "candidates.csv"),
    "a pool of other inputs": (("ask",), {"pool.csv": b"z\n1\n2\n", "fresh": True}, "has no 'x'"),
    "a pool outside the domain": (("ask",), {"pool.csv": b"x\n5\n", "fresh": True}, "x"),
    "a test table without outputs": (
        ("ask",), {"append": "[test]\ntable = 'pool.csv'", "fresh": True}, "has no 'y'"),
    "no simulator": (("run",), {"change": ('[simulator]\nfunction = "model:simulate"', "")}, "a run needs a simulator"),
    "no such module": (("run",), {"change": ("model:simulate", "modell:simulate")}, "the module 'modell' must be"),
    "no such function": (("run",), {"change": ("model:simulate", "model:simulat")}, "Did you mean 'simulate'?"),
    "a module that does not load": (("run",), {"change": ("model:", "broken:"), "broken.py": b"1 / 0"}, "ZeroDivisionError"),
    "a function of other inputs": (
        ("run",), {"change": ("model:", "other:"), "other.py": b"def simulate(z): return z"}, "must take the inputs ['x']"),
    "no such program": (
        ("run",), {"change": ('function = "model:simulate"', 'command = "./solver {input}"')}, "there is none at"),
    "unknown placeholder": (
        ("run",), {"change": ('function = "model:simulate"', 'command = "python {inputs}"')}, "Did you mean 'input'?"),
    "unknown key of a simulator": (("run",), {"change": ("function = ", "functions = ")}, "Did you mean 'function'?"),
    "no end": (("run",), {"change": ("queries = 5", "")}, "a run needs an end"),
    "no jobs": (("run", "--jobs", "0"), {}, "got 0"),
    "a study that has not begun": (("status",), {"fresh": True}, "has not begun. Begin with: hyperleaf run"),
    "an answer to a study that has gone": (("tell", 1, "y=1"), {"fresh": True}, "moved or deleted: there is no tiny.db"),
    "answers to a study that has gone": (("tell", "--csv", "a.csv"), {"fresh": True, "a.csv": b"id,y\n1,2\n"}, "has not begun"),
    "a query of a study that has gone": (("ask", "--release", "1"), {"fresh": True}, "has not begun"),
    "a table of nothing": (("export", "a.csv"), {"fresh": True}, "has not begun"),
    "a study that is not in the store": (("status",), {"change": ('"tiny"', '"other"')}, "'other' has not begun"),
    "no such query": (("tell", 99, "y=1"), {}, "99"),
    "no such output": (("tell", 2, "z=1"), {}, "'z' is no output of this study"),
    "misspelt output": (("tell", 2, "yy=1"), {}, "Did you mean 'y'?"),
    "decimal comma": (("tell", 2, "y=1,5"), {}, "Write a decimal point."),
    "an output that is text": (("tell", 2, "y=high"), {}, "must be a number; got 'high'"),
    "an output that is blank": (("tell", 2, "y="), {}, "the output 'y' is empty"),
    "an output that is not a number": (("tell", 2, "y=nan"), {}, "must be finite; got nan"),
    "an output that overflows": (("tell", 2, "y=1e999"), {}, "must be finite; got inf"),
    "an output in another notation": (("tell", 2, "y=0,83"), {}, "must be a number; got '0,83'"),
    "told differently before": (("tell", 1, "y=0.5"), {}, "uery 1"),
    "failed after it was told": (("tell", 1, "--failed", "x"), {}, "Query 1 has been told already"),
    "a sheet in no folder": (("ask", "--sheet", "nowhere/a.csv"), {}, "into a folder that exists; nowhere does not"),
    "no such sheet": (("tell", "--csv", "a.csv"), {}, "there is none at a.csv"),
    "a sheet that is a folder": (("tell", "--csv", "."), {}, "cannot be read"),
    "a sheet of bytes": (("tell", "--csv", "a.csv"), {"a.csv": b"\xff\xfe\x00x"}, "in UTF-8"),
    "an empty sheet": (("tell", "--csv", "a.csv"), {"a.csv": b""}, "must have the columns"),
    "a sheet with a header only": (("tell", "--csv", "a.csv"), {"a.csv": b"x,y\n"}, "at least one row"),
    "a sheet without an output": (("tell", "--csv", "a.csv"), {"a.csv": b"x,z\n0.1,1\n"}, "has no 'y'"),
    "a sheet of ids without an output": (("tell", "--csv", "a.csv"), {"a.csv": b"id,x\n1,0.1\n"}, "'y' is missing"),
    "a column twice": (("tell", "--csv", "a.csv"), {"a.csv": b"id,y,y\n1,1,1\n"}, "'y' is there twice"),
    "an input that is text": (("tell", "--csv", "a.csv"), {"a.csv": b"x,y\nleft,1\n"}, "must be a finite number in every row"),
    "an input outside the domain": (("tell", "--csv", "a.csv"), {"a.csv": b"x,y\n0.1,1\n7.0,1\n"}, "x"),
    "a run without an output": (("tell", "--csv", "a.csv"), {"a.csv": b"x,y\n0.1,1\n0.2,\n"}, "line 3 of a.csv: the output"),
    "a row that is too short": (("tell", "--csv", "a.csv"), {"a.csv": b"x,y\n0.1\n"}, "must have 2 values like its header"),
    "an id that is no number": (("tell", "--csv", "a.csv"), {"a.csv": b"id,y\nfirst,1\n"}, "an id must be the number of a query"),
    "a blank id": (("tell", "--csv", "a.csv"), {"a.csv": b"id,y\n,1\n"}, "an id must be the number of a query; got ''"),
    "an id that is not there": (("tell", "--csv", "a.csv"), {"a.csv": b"id,y\n99,1\n"}, "the study has no query 99"),
    "an id twice": (("tell", "--csv", "a.csv"), {"a.csv": b"id,y\n2,1\n2,2\n"}, "query 2 is answered twice"),
    "an id at another point": (("tell", "--csv", "a.csv"), {"a.csv": b"id,x,y\n2,0.123,1\n"}, "query 2 was asked at x="),
    "an id told differently": (("tell", "--csv", "a.csv"), {"a.csv": b"id,y\n2,1\n1,9\n"}, "query 1 was told as y=0.25"),
    "an id with a short row": (("tell", "--csv", "a.csv"), {"a.csv": b"id,y\n2\n"}, "must have 2 values"),
    "export to an unknown format": (("export", "a.pmml"), {}, "what is exported follows from the name of the file"),
    "export into no folder": (("export", "nowhere/a.csv"), {}, "into a folder that exists; nowhere does not"),
    "export to a folder": (("export", "a.csv"), {"a.csv": None}, "a.csv is a folder"),
    "export of no such output": (("export", "s.npz", "--output", "z"), {}, "output must be one of ['y']"),
    "a table of no such output": (("export", "a.csv", "--output", "z"), {}, "output must be one of ['y']; got 'z'"),
    "prediction without a surrogate": (("predict", "s.npz", "a.csv"), {"a.csv": TEXT}, "there is none at 's.npz'"),
    "prediction from a folder": (("predict", ".", "a.csv"), {"a.csv": TEXT}, "is a folder"),
    "prediction from a table": (("predict", "a.csv", "a.csv"), {"a.csv": TEXT}, "hyperleaf export wrote; a.csv is none"),
    "prediction with its files swapped": (("predict", "a.csv", "S"), {"a.csv": TEXT}, "hyperleaf predict surrogate.npz points"),
    "prediction at no points": (("predict", "S", "b.csv"), {}, "there is none at b.csv"),
    "prediction at points of others": (("predict", "S", "a.csv"), {"a.csv": b"z\n1\n"}, "has no 'x'"),
    "prediction at a header": (("predict", "S", "a.csv"), {"a.csv": b"x\n"}, "must have at least one row"),
    "prediction outside the domain": (("predict", "S", "a.csv"), {"a.csv": b"x\n9\n"}, "x"),
    "prediction into no folder": (("predict", "S", "a.csv", "-o", "nowhere/a.csv"), {"a.csv": TEXT}, "nowhere does not"),
}  # fmt: skip


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study of which query 1 is told and query 2 is open."""
    folder = write_study(tmp_path_factory.mktemp("begun"))
    good("ask", folder / "study.toml", "-n", 2)
    good("tell", 1, "y=0.25", "--study", folder / "study.toml")
    return folder


@pytest.mark.parametrize("name", WRONG)
def test_error_is_a_sentence_and_changes_nothing(
    begun: Path, finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    arguments, how, words = WRONG[name]
    folder = tmp_path / "study"
    shutil.copytree(begun, folder)
    monkeypatch.chdir(folder)
    how = dict(how)
    fresh = how.pop("fresh", False)
    if fresh:
        for path in folder.glob("tiny.db*"):
            path.unlink()
    text = STUDY
    if "change" in how:
        before, after = how.pop("change")
        assert before in text
        text = text.replace(before, after)
    Path("study.toml").write_text(text + how.pop("append", ""))
    for file, content in how.items():
        if content is None:
            Path(file).mkdir()
        else:
            Path(file).write_bytes(content)
    _check(call(*(finished / "s.npz" if one == "S" else one for one in arguments)), 1, words)
    write_study(folder)
    if fresh:
        assert "has not begun" in call("status").stderr
    elif "tiny.db" not in how:
        assert values("status")["counts"] == {"waiting": 0, "running": 1, "done": 1, "failed": 0, "void": 0}


def _check(result: Any, code: int, words: str) -> None:
    assert result.exit_code == code, (result.stderr, result.exception)
    assert words in result.stderr
    assert "Traceback" not in result.stderr
    assert result.stdout == ""
    assert "secret" not in result.stderr


def test_errors_are_many() -> None:
    assert len(USAGE) + len(WRONG) >= 40


def test_output_that_nobody_reads_is_no_error(here: Path) -> None:
    """`hyperleaf status | head -1`"""
    good("ask", "-n", 3)
    script = f"{sys.executable} -m hyperleaf.cli status --json | head -c 1"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, env=dict(os.environ))
    assert done.stderr == ""
