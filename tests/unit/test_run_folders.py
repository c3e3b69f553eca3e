"""A run's folder belongs to one study and one attempt, and a result is kept only by the study whose run gave it."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import pytest

import hyperleaf as hl
from hyperleaf.simulators import CommandSimulator, Success
from hyperleaf.storage import UnknownQueryError, open_storage
from hyperleaf.study import Study

TREED = {"kind": "treed", "burn_in": 10, "total": 40, "warm_burn_in": 10}
SOLVER = """
import json, sys, time
x = json.load(open(sys.argv[1]))["x"]
time.sleep(0.05 + 0.2 * (x % 0.5))
json.dump({"y": x}, open(sys.argv[2], "w"))
"""


def campaign(folder: Path, name: str, file: str, low: float, design: int) -> Study:
    """Told apart by their domains: what a study is told must lie within its own."""
    return Study.create(
        name,
        hl.Domain(x=hl.Real(low, low + 1)),
        "y",
        storage=f"sqlite:///{folder / file}",
        surrogate=TREED,
        acquisition="variance",
        design=design,
        simulator={"command": f"{sys.executable} solver.py {{input}} {{output}}"},
        stop={"queries": design},
        folder=folder,
    )


@pytest.mark.parametrize("names", [("north", "south"), ("same", "same")], ids=["two names", "one name in two stores"])
def test_two_studies_in_one_folder_with_four_workers_keep_their_results_apart(names: tuple[str, str], tmp_path: Path) -> None:
    (tmp_path / "solver.py").write_text(SOLVER)
    studies = [campaign(tmp_path, name, f"{i}.db", 10.0 * i, 12) for i, name in enumerate(names)]
    threads = [threading.Thread(target=study.run, kwargs={"jobs": "threads:2"}) for study in studies]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for study in studies:
        table = study.table()
        assert list(table["state"]) == ["done"] * 12
        assert list(table["y"]) == list(table["x"]), "each result is that of its own run"


def test_a_folder_is_never_taken_from_a_run_that_is_in_it(tmp_path: Path) -> None:
    """Two attempts that carry the same number, as after a claim that was taken over."""
    script = 'sleep "$0"; echo "{{\\"y\\": $0}}" > "$1"'
    simulators = [
        CommandSimulator(["sh", "-c", script, wait, "{output}"], ["y"], folder=tmp_path, study="s") for wait in ("0.6", "0.1")
    ]
    outcomes: list = [None, None]

    def run(i: int) -> None:
        outcomes[i] = simulators[i]({}, query_id=1)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
        thread.join(0.2)
    for thread in threads:
        thread.join()
    assert all(isinstance(outcome, Success) for outcome in outcomes)
    assert [outcome.outputs["y"] for outcome in outcomes] == [0.6, 0.1]
    assert outcomes[0].folder != outcomes[1].folder
    assert all(Path(outcome.folder).parent == tmp_path / "runs" / "s" / "query-0001" for outcome in outcomes)


@pytest.mark.parametrize("name", ["..", "a/b", ".hidden", "größe 1", "x" * 200, "a\\b", "{x}"])
def test_any_name_of_a_study_is_a_folder_inside_runs(name: str, tmp_path: Path) -> None:
    simulator = CommandSimulator(["sh", "-c", 'echo "{{\\"y\\": 1}}" > "$0"', "{output}"], ["y"], folder=tmp_path, study=name)
    outcome = simulator({}, query_id=1)
    assert isinstance(outcome, Success)
    assert Path(outcome.folder).resolve().parents[2] == (tmp_path / "runs").resolve()


def test_names_that_look_alike_as_folders_are_two_folders(tmp_path: Path) -> None:
    command = ["sh", "-c", 'echo "{{\\"y\\": 1}}" > "$0"', "{output}"]
    made = {
        Path(CommandSimulator(command, ["y"], folder=tmp_path, study=name)({}, query_id=1).folder or "").parents[1].name
        for name in ("a/b", "a_b", "a b", "A_B")
    }
    assert len(made) == 4


def test_a_result_is_not_kept_by_a_study_that_was_made_anew_meanwhile() -> None:
    store = open_storage(None)

    def make(seed: int) -> Study:
        return Study.create("s", hl.Domain(x=hl.Real(0, 1)), "y", storage=store, surrogate=TREED, seed=seed)

    (query,) = make(0).ask()
    store.delete_study("s")
    second = make(1)
    (other,) = second.ask()
    assert other.id == query.id and other.point != query.point
    with pytest.raises(UnknownQueryError, match="another query 1"):
        second.tell(query, y=1.0)
    with pytest.raises(UnknownQueryError, match="another query 1"):
        second.tell_failed(query, "it broke")
    assert not second.record().observations
    assert second.tell(other.id, y=2.0), "a person who says the number means the query of that number"
