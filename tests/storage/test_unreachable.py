"""Stores that go away while they are used: noticed, waited for, and nothing that is in hand is lost."""

import csv
import os
import re
import shutil
import socket
import sqlite3
import threading
import time
from pathlib import Path

import pytest

import hyperleaf as hl
from hyperleaf.storage import LostStoreError, NewQuery, StorageError, UnreachableError, open_storage
from hyperleaf.storage.memory import MemoryStorage
from hyperleaf.study import Study
from hyperleaf.study.patience import write_untold


def make(address: str, folder: Path, **options) -> Study:
    domain = hl.Domain(a=hl.Real(0, 1))
    return Study.create("s", domain, "y", storage=address, folder=folder, design=9, surrogate="stationary", **options)


# --- a file that is deleted


@pytest.mark.parametrize("how", ["deleted", "replaced"])
def test_a_file_that_is_gone_is_noticed_and_what_it_held_is_saved(tmp_path: Path, how: str) -> None:
    file = tmp_path / "s.db"
    store = open_storage(f"sqlite:///{file}")
    store.create_study("s", {}, now=1.0)
    store.append("s", [NewQuery({"x": 1.0}, "added", outputs={"y": 2.0})], version=None, now=1.0)
    for part in tmp_path.glob("s.db*"):
        part.unlink()
    if how == "replaced":
        sqlite3.connect(file).close()
    for _ in range(2):
        with pytest.raises(LostStoreError, match=r"deleted or replaced.*s-saved-1\.db: move it"):
            store.tell("s", 1, {"y": 3.0}, now=2.0)
    store.close()
    saved = open_storage(f"sqlite:///{tmp_path}/s-saved-1.db")
    assert saved.read("s").observations[0].outputs == {"y": 2.0}
    assert how == "replaced" or not file.exists()  # nothing is made in its place


def test_a_store_that_was_deleted_is_not_made_anew_after_a_fork(tmp_path: Path) -> None:
    file = tmp_path / "s.db"
    store = open_storage(f"sqlite:///{file}")
    store.create_study("s", {}, now=1.0)
    store._database._engine.dispose()  # as before a fork
    for part in tmp_path.glob("s.db*"):
        part.unlink()
    with pytest.raises(LostStoreError, match="Restore it from a copy"):
        store.read("s")
    assert not file.exists()


def test_a_run_whose_file_is_deleted_says_so_and_writes_down_what_it_has(tmp_path: Path) -> None:
    study = make(f"sqlite:///{tmp_path}/s.db", tmp_path)
    made = []

    def simulate(a: float) -> float:
        made.append(a)
        if len(made) == 3:
            for part in tmp_path.glob("s.db*"):
                part.unlink()
        return 2 * a

    with pytest.raises(LostStoreError, match=r"s-saved-1\.db.*1 result that it did not take.*untold-s-1\.csv"):
        study.run(simulate, queries=5)
    assert len(Study.load("s", f"sqlite:///{tmp_path}/s-saved-1.db").record().observations) == 2
    with open(tmp_path / "untold-s-1.csv", newline="") as file:
        (row,) = csv.DictReader(file)
    assert row["id"] == "3" and float(row["a"]) == made[2] and float(row["y"]) == 2 * made[2]


def test_a_run_whose_folder_is_deleted_saves_its_store_and_what_it_has_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    folder = tmp_path / "study"
    folder.mkdir()
    study = make(f"sqlite:///{folder}/s.db", folder)

    def simulate(a: float) -> float:
        if len(study.record().observations) == 1:
            shutil.rmtree(folder)
        return 2 * a

    with pytest.raises(LostStoreError, match=r"temporary/s-saved-1\.db.*1 result.* --csv .*temporary/untold-s-1\.csv"):
        study.run(simulate, queries=3)
    assert len(Study.load("s", f"sqlite:///{tmp_path}/temporary/s-saved-1.db").record().observations) == 1
    assert (tmp_path / "temporary" / "untold-s-1.csv").read_text().startswith("id,a,y\n2,")


def test_where_nothing_can_be_written_the_results_are_in_the_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "none"))
    (query,) = make("memory://", tmp_path).ask()
    words = write_untold(tmp_path / "gone", "s", [(query, {"y": 2.5})])
    assert "no file could be written for them: query 1 gave {'y': 2.5}" in words


# --- a server that is away


def test_a_run_goes_on_when_the_server_is_back(server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hyperleaf.study.patience.FIRST", 0.05)
    monkeypatch.setattr("hyperleaf.study.patience.LONGEST", 0.3)
    study = make(server.new_database(), tmp_path)
    made: list[float] = []
    waits: list[str] = []

    def simulate(a: float) -> float:
        made.append(a)
        if len(made) in (2, 4):
            server.crash()
        return 2 * a

    def progress(event) -> None:
        if event.kind == "waiting":
            waits.append(event.message)
            if len(waits) % 3 == 0:
                server.start()

    study.run(simulate, queries=6, progress=progress)
    assert len(waits) >= 6 and "Tried again" in waits[0]
    record = study.record()
    assert [one.outputs["y"] for one in record.observations] == [2 * a for a in made] and len(made) == 6
    assert {query.state.value for query in record.queries} == {"done"}


@pytest.mark.long
def test_a_run_goes_on_when_the_server_was_away_for_a_minute(server, tmp_path: Path) -> None:
    study = make(server.new_database(), tmp_path)
    made: list[float] = []
    away: list[float] = []

    def simulate(a: float) -> float:
        made.append(a)
        if len(made) == 3:
            server.crash()
            away.append(time.monotonic())
        return 2 * a

    def progress(event) -> None:
        if event.kind == "waiting" and len(away) == 1 and time.monotonic() - away[0] > 60:
            server.start()
            away.append(time.monotonic())

    started = time.monotonic()
    study.run(simulate, queries=8, progress=progress)
    assert time.monotonic() - started > 60
    record = study.record()
    assert [one.outputs["y"] for one in record.observations] == [2 * a for a in made] and len(made) == 8


def test_patience_ends_and_what_is_in_hand_is_written_down(server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hyperleaf.study.patience.FIRST", 0.05)
    study = make(server.new_database(), tmp_path)
    made = []

    def simulate(a: float) -> float:
        made.append(a)
        if len(made) == 2:
            server.crash()
        return 2 * a

    try:
        with pytest.raises(UnreachableError, match=r"untold-s-1\.csv"):
            study.run(simulate, queries=4, patience=0.5)
    finally:
        server.start()
    with open(tmp_path / "untold-s-1.csv", newline="") as file:
        (row,) = csv.DictReader(file)
    assert float(row["y"]) == 2 * made[1] and study.tell(int(row["id"]), y=row["y"])


class Flaky(MemoryStorage):
    """A store that does not answer to every other call, whichever it is."""

    away = False

    def __getattribute__(self, name: str):
        found = super().__getattribute__(name)
        if name.startswith("_") or not callable(found) or name in ("close", "now") or not Flaky.away:
            return found
        state = super().__getattribute__("__dict__")

        def call(*arguments, **options):
            if state.get("answering"):  # a part of what is answered
                return found(*arguments, **options)
            state["called"] = state.get("called", 0) + 1
            if state["called"] % 2:
                raise UnreachableError(f"The store cannot be used: {name}.")
            state["answering"] = True
            try:
                return found(*arguments, **options)
            finally:
                state["answering"] = False

        return call


def test_a_run_waits_for_its_store_at_every_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where it reads, learns, and keeps what it measured."""
    monkeypatch.setattr("hyperleaf.study.patience.FIRST", 0.001)
    monkeypatch.setattr("hyperleaf.study.learning.KEEP_AFTER", 0.0)
    surrogate = {"kind": "stationary", "inference": {"kind": "map", "restarts": 1}}
    study = Study.create("s", hl.Domain(a=hl.Real(0, 1)), "y", storage=Flaky(), folder=tmp_path, design=4, surrogate=surrogate)
    waited: list[str] = []

    def progress(event) -> None:
        Flaky.away = True  # from the first query on
        if event.kind == "waiting":
            waited.append(event.message)

    try:
        stopped = study.run(lambda a: a * a, queries=6, progress=progress)
    finally:
        Flaky.away = False
    assert stopped.num_done == 6 and len(study.record().observations) == 6
    steps = {message.partition("used: ")[2].partition(".")[0] for message in waited}
    assert {"view", "tell", "append", "put_metrics", "put_artifact", "artifact"} <= steps


def test_a_run_leaves_alone_what_its_process_was_asked_before(tmp_path: Path) -> None:
    study = make("memory://", tmp_path)
    (mine,) = study.ask()
    study.run(lambda a: a, queries=2)
    (query,) = [one for one in study.record().queries if one.id == mine.id]
    assert query.state.value == "running" and query.owner == mine.owner


class Proxy:
    """A socket in front of the server's that can fall silent: it takes everything and answers nothing."""

    def __init__(self, behind: Path, folder: Path) -> None:
        self.silent, self._behind = False, str(behind / ".s.PGSQL.5432")
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(folder / ".s.PGSQL.5432"))
        self._listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            far = socket.socket(socket.AF_UNIX)
            far.connect(self._behind)
            for one, other, answers in ((near, far, False), (far, near, True)):
                threading.Thread(target=self._pass, args=(one, other, answers), daemon=True).start()

    def _pass(self, one: socket.socket, other: socket.socket, answers: bool) -> None:
        try:
            while data := one.recv(65536):
                if not (self.silent and answers):
                    other.sendall(data)
            other.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def close(self) -> None:
        self._listener.close()


def test_a_proxy_that_goes_silent_is_hung_up_on(server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Path(os.path.realpath(os.path.dirname(server.folder))) / f"hl-px-{os.getpid()}"
    folder.mkdir()
    proxy = Proxy(server.folder, folder)
    try:
        address = re.sub(r"host=[^&]*", f"host={folder}", server.new_database())
        store = open_storage(address)
        store.create_study("s", {}, now=1.0)
        monkeypatch.setattr("hyperleaf.storage.engines.ANSWER_TIMEOUT", 0.5)
        proxy.silent = True
        started = time.monotonic()
        with pytest.raises(UnreachableError):
            store.read("s")
        assert time.monotonic() - started < 15  # the connection that is tried next has 10 s
        proxy.silent = False
        monkeypatch.setattr("hyperleaf.storage.engines.ANSWER_TIMEOUT", 60.0)
        deadline = time.monotonic() + 10
        while True:
            try:
                assert store.read("s").name == "s"
                break
            except UnreachableError:
                assert time.monotonic() < deadline
    finally:
        proxy.close()
        (folder / ".s.PGSQL.5432").unlink()
        folder.rmdir()


def test_a_statement_that_takes_too_long_is_ended_by_the_server(server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hyperleaf.storage.engines.ANSWER_TIMEOUT", 5.0)
    store = open_storage(server.new_database())
    with store._database.reading() as connection:
        assert connection.exec_driver_sql("SHOW statement_timeout").scalar() == "5s"
        assert connection.exec_driver_sql("SHOW idle_in_transaction_session_timeout").scalar() == "5s"


def test_the_clock_is_that_of_the_server(server, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_storage(server.new_database())
    before = time.time()
    monkeypatch.setattr(time, "time", lambda: before + 3600)
    assert abs(store.now() - before) < 60


def test_a_database_that_does_not_exist_is_not_waited_for(server) -> None:
    with pytest.raises(StorageError) as caught:
        open_storage(server.url("there_is_no_such_database"))
    assert not isinstance(caught.value, UnreachableError)
