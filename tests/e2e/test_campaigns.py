"""Whole campaigns in processes of their own: killed, interrupted, resumed, and answered by hand; and the examples."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 240.0  # seconds for anything to happen on a machine that is busy with other tests
STUDY = """
[study]
name = "killed"
seed = 5
[inputs]
x = { low = 0.0, high = 1.0 }
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
queries = 6
"""
# Each call is noted before it takes its time; the first one while there is a file "slow" takes for ever.
MODEL = """
import math, pathlib, time

def simulate(x):
    with open("calls.txt", "a") as file:
        file.write(f"{x}\\n")
    if pathlib.Path("slow").exists():
        time.sleep(600)
    time.sleep(0.05)
    return math.sin(7 * x)
"""


def write_study(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "study.toml").write_text(STUDY)
    (folder / "model.py").write_text(MODEL)
    (folder / "pool.csv").write_text("x\n" + "".join(f"{i / 9}\n" for i in range(10)))
    return folder


def start(folder: Path, *arguments: Any) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "hyperleaf.cli", *map(str, arguments)]
    env = os.environ | {"PYTHONPATH": str(ROOT / "src"), "PYTHONUNBUFFERED": "1"}
    return subprocess.Popen(command, cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def values(folder: Path, *arguments: Any) -> dict[str, Any]:
    process = start(folder, *arguments, "--json")
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, err
    return json.loads(out)


def wait_for(condition: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, "nothing happened"
        time.sleep(0.01)


def calls(folder: Path) -> int:
    path = folder / "calls.txt"
    return len(path.read_text().splitlines()) if path.exists() else 0


def told(folder: Path) -> list[tuple[Any, ...]]:
    from hyperleaf.study import Study

    table = Study.load("killed", "sqlite:///study.db", folder=folder).table()
    return [
        tuple(row) for row in table[["id", "x", "y", "state", "origin", "epoch", "score"]].astype(object).fillna("").to_numpy()
    ]


def test_killed_at_any_moment_and_continued_it_asks_the_same(tmp_path: Path) -> None:
    undisturbed, killed = write_study(tmp_path / "undisturbed"), write_study(tmp_path / "killed")
    process = start(undisturbed, "run")
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, err
    assert "Stopped: 6 of 6 runs finished." in out
    for count in (2, 5):  # within a run of the first design; and later, within a run that the surrogate asked for
        process = start(killed, "run")
        wait_for(lambda count=count: calls(killed) >= count, process)
        process.kill()
        process.communicate()
        assert process.returncode == -signal.SIGKILL
    assert values(killed, "run")["num_done"] == 6
    assert told(killed) == told(undisturbed)
    assert calls(killed) <= 6 + 2  # what was told is not run again


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_ends_a_run_cleanly_and_its_query_is_offered_again(tmp_path: Path, how: signal.Signals) -> None:
    folder = write_study(tmp_path / "study")
    (folder / "slow").touch()
    process = start(folder, "run")
    wait_for(lambda: calls(folder) == 1, process)
    process.send_signal(how)
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130, err
    assert "Everything told is kept. Go on with: hyperleaf run" in out
    assert "Traceback" not in err
    from hyperleaf.study import Study

    study = Study.load("killed", "sqlite:///study.db", folder=folder)
    (waiting,) = study.record().queries
    assert waiting.state.value == "waiting"
    (again,) = study.ask()
    assert (again.id, dict(again.point)) == (waiting.id, dict(waiting.point))


# --- the examples, on small budgets


def copied(example: str, tmp_path: Path, *changes: tuple[str, str]) -> Path:
    """The files of an example in a folder of their own, with a surrogate that learns at once."""
    folder = tmp_path / example
    folder.mkdir()
    for path in (ROOT / "examples" / example).iterdir():
        if path.suffix in (".py", ".toml"):
            (folder / path.name).write_text(path.read_text(encoding="utf-8"), encoding="utf-8")
    text = (folder / "study.toml").read_text(encoding="utf-8")
    for before, after in (
        ('kind = "hhk"\nleaves = 4', 'kind = "stationary"\ninference = { kind = "map", restarts = 2 }'),
        *changes,
    ):
        assert before in text
        text = text.replace(before, after)
    (folder / "study.toml").write_text(text, encoding="utf-8")
    return folder


def test_example_of_a_solver_as_an_external_command(tmp_path: Path) -> None:
    folder = copied("external_solver", tmp_path, ("size = 8", "size = 3"))
    shown = values(folder, "run", "--queries", 4)
    assert shown["num_done"] == 4
    assert len(list((folder / "runs/column").glob("query-*/attempt-1-*/output.json"))) == 4
    from hyperleaf.study import Study

    table = Study.load("column", "sqlite:///column.db", folder=folder).table()
    sys.path.insert(0, str(folder))
    try:
        from solver import deflection
    finally:
        sys.path.remove(str(folder))
    assert all(abs(deflection(row.load, row.crookedness) - row.deflection) < 1e-12 for row in table.itertuples())


def test_example_of_a_bench_where_a_person_answers(tmp_path: Path) -> None:
    """Every ask, tell and status is a process of its own."""
    folder = copied("test_bench", tmp_path)
    env = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, str(folder / "session.py"), "--rounds", "2"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] in ("2 done, 0 failed", "1 done, 1 failed")


def run_engine(*arguments: Any) -> str:
    command = [sys.executable, str(ROOT / "examples" / "engine" / "engine.py"), *map(str, arguments)]
    env = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_example_on_engine_data(shared: Path) -> None:
    out = run_engine(shared / "data" / "pengines", "--queries", 8, "--surrogate", "stationary")
    assert "8 of 600 rows: error " in out
    assert "test_rmse" in out


def test_example_on_engine_data_says_so_where_there_are_none(tmp_path: Path) -> None:
    assert run_engine(tmp_path).startswith("skipped: there is no engine1.csv")
