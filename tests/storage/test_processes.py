"""Several processes at one store, and processes that are killed."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from hyperleaf.storage import NewQuery, StorageError, open_storage

PROGRAM = Path(__file__).with_name("processes.py")


def run(what: str, address: str, number: int, timeout: float = 300):
    done = subprocess.run([sys.executable, PROGRAM, what, address, str(number)], capture_output=True, text=True, timeout=timeout)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_four_processes_tell_25_each_and_all_are_there_once(address: str) -> None:
    found = run("tells", address, 25)
    assert found["ids"] == list(range(1, 126)) and found["states"] == ["done"]
    told = dict(found["observations"])
    assert len(found["observations"]) == len(told) == 125
    for result in found["results"]:
        assert len(result["own"]) == 25 and all(told[int(number)] == value for number, value in result["own"].items())
    first = [number for result in found["results"] for number in result["first"]]
    assert sorted(first) == list(range(1, 26)), "a query that all tell is told by one of them"


def test_every_query_is_claimed_by_one_of_four_processes(address: str) -> None:
    claimed = [number for mine in run("claims", address, 40) for number in mine]
    assert sorted(claimed) == list(range(1, 41))


def test_of_two_that_append_to_the_same_version_one_has_a_conflict(address: str) -> None:
    assert [sorted(conflicts) for conflicts in run("conflicts", address, 10)] == [[False, True]] * 10


def test_a_store_is_used_on_both_sides_of_a_fork(address: str) -> None:
    assert run("forked", address, 10) == list(range(1, 64))


def test_processes_open_a_new_store_at_once(tmp_path: Path) -> None:
    assert run("openings", f"sqlite:///{tmp_path}/new {{}}.db", 5) == [[f"study {k}" for k in range(4)]] * 5


def test_processes_open_a_new_database_at_once(server) -> None:
    assert run("openings", server.new_database(), 1) == [[f"study {k}" for k in range(4)]]


def test_50_kills_lose_and_double_nothing(tmp_path: Path) -> None:
    found = run("crashes", f"sqlite:///{tmp_path}/store.db", 50)
    assert found["acknowledged"] >= 50 and found["interrupted"] >= 5, "the kills are to hit a working process"


def test_15_kills_of_a_client_of_postgresql_lose_and_double_nothing(server) -> None:
    assert run("crashes", server.new_database(), 15)["acknowledged"] >= 15


@pytest.mark.long
def test_700_kills_lose_and_double_nothing(tmp_path: Path) -> None:
    assert run("crashes", f"sqlite:///{tmp_path}/store.db", 700, 7200)["acknowledged"] >= 700


@pytest.mark.long
def test_300_kills_of_a_client_of_postgresql_lose_and_double_nothing(server) -> None:
    assert run("crashes", server.new_database(), 300, 7200)["acknowledged"] >= 300


@pytest.mark.long
def test_eight_processes_ask_and_tell_50_each_and_all_are_there_once(address: str) -> None:
    found = run("studies", address, 50, 7200)
    assert found["told"] == found["asked"] == list(range(1, 401))
    assert found["different"] == 400 and found["states"] == ["done"]


def test_a_store_survives_a_crash_of_its_server(server) -> None:
    store = open_storage(server.new_database())
    store.create_study("s", {}, now=1.0)
    store.append("s", [NewQuery({}, "design")] * 20, version=None, now=1.0)
    for number in range(1, 21):
        store.tell("s", number, {"y": float(number)}, now=2.0)
    server.crash()
    server.start()
    assert len(store.read("s").observations) == 20, "a connection that went stale unnoticed is replaced"
    server.crash()
    try:
        with pytest.raises(StorageError, match="Check that the server runs"):
            store.read("s")
    finally:
        server.start()
    assert [o.outputs["y"] for o in store.read("s").observations] == [float(k) for k in range(1, 21)]
    store.close()
