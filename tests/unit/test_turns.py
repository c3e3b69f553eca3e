"""Many at one study: whoever is slow gets their turn, and what others tell in the meantime undoes no choice."""

from __future__ import annotations

import time

import pytest

import hyperleaf as hl
from hyperleaf.storage import NewQuery, State, StorageError
from hyperleaf.storage.memory import MemoryStorage
from hyperleaf.study import Study, asking, turns
from hyperleaf.study.turns import ARTIFACT, LOSSES, attempts


class Busy(MemoryStorage):
    """A store in which others write whenever somebody has looked; they let others by, unless they are `rude`."""

    def __init__(self) -> None:
        super().__init__()
        self.rude, self.busy, self.reads = False, False, 0

    def read(self, name: str):
        seen = super().read(name)
        self.reads += 1
        if self.busy and (self.rude or not self.artifact(name, ARTIFACT)):
            self.append(name, [NewQuery({"a": 0.5}, "added", outputs={"y": 1.0})], version=None, now=1.0)
        return seen


class Told(MemoryStorage):
    """Whenever somebody has looked, another worker tells what it was asked for."""

    def read(self, name: str):
        seen = super().read(name)
        running = [query for query in seen.queries if query.owner == "another" and query.state is State.RUNNING]
        if running:
            self.tell(name, running[0].id, {"y": 1.0}, now=1.0)
        return seen


def make(store: MemoryStorage) -> Study:
    return Study.create("s", hl.Domain(a=hl.Real(0, 1)), "y", storage=store, design=99, surrogate="stationary")


@pytest.mark.parametrize("change", ["ask", "add", "void"])
def test_whoever_has_lost_a_few_times_is_let_by(change: str) -> None:
    store = Busy()
    study = make(store)
    study.add([{"a": 0.1, "y": 2.0}])
    store.busy, store.reads = True, 0
    if change == "ask":
        assert study.ask()[0].state is State.RUNNING
    elif change == "add":
        assert len(study.add([{"a": 0.2, "y": 2.0}])) == 1
    else:
        assert study.void(1)
    assert LOSSES < store.reads <= 2 * LOSSES + 3
    assert store.artifact("s", ARTIFACT) == b"", "a turn ends when it has been used"


def test_nobody_tries_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "ATTEMPTS", 6)
    store = Busy()
    study = make(store)
    store.busy = store.rude = True
    with pytest.raises(StorageError, match="no query could be placed in 6 attempts: others write"):
        study.ask()
    assert store.artifact("s", ARTIFACT) == b""
    assert all(query.state is State.DONE for query in study.record().queries), "nothing is left behind"


def test_what_others_tell_undoes_no_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Told()
    study = make(store)
    study.ask(3, owner="another")
    chosen: list[int] = []
    choose = asking._choose
    monkeypatch.setattr(asking, "_choose", lambda *arguments: (chosen.append(1), choose(*arguments))[1])
    (query,) = study.ask()
    assert (query.id, len(chosen)) == (4, 1)
    assert [one.state for one in study.record().queries][:3] == [State.DONE] * 3  # all told while it was chosen


def test_what_others_give_back_is_asked_first(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStorage()
    study = make(store)
    (other,) = study.ask(owner="another")
    choose = asking._choose

    def released_meanwhile(*arguments):
        store.release("s", other.id, "another")
        return choose(*arguments)

    monkeypatch.setattr(asking, "_choose", released_meanwhile)
    assert study.ask()[0].id == other.id


def test_a_turn_of_somebody_who_is_gone_ends_by_itself() -> None:
    store = MemoryStorage()
    make(store)
    store.put_artifact("s", ARTIFACT, f"somebody {store.now() + 0.4!r}".encode())
    started = time.monotonic()
    assert next(attempts(store, "s", "nothing worked")) == 0
    assert 0.3 < time.monotonic() - started < 3
    for damaged in (b"\xff\xfe", b"somebody soon", b"somebody", b"somebody nan"):
        store.put_artifact("s", ARTIFACT, damaged)
        assert next(attempts(store, "s", "nothing worked")) == 0
