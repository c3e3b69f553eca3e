"""Who holds a query: told apart by machine and process, by the store's clock, for as long as they said."""

from __future__ import annotations

import os
import time

import pytest

import hyperleaf as hl
from hyperleaf.errors import InputError
from hyperleaf.storage import State
from hyperleaf.storage.memory import MemoryStorage
from hyperleaf.study import Study, owners
from hyperleaf.study.owners import LEASE, PERSON, SILENCE, is_gone, this_process

ELSEWHERE = "elsewhere~0123456789ab/1/1"


class SkewedStore(MemoryStorage):
    """A store whose clock is its own."""

    clock = 1_000_000.0

    def now(self) -> float:
        return self.clock


def make(store: MemoryStorage | None = None, **options) -> Study:
    return Study.create("s", hl.Domain(a=hl.Real(0, 1)), "y", storage=store, design=9, surrogate="stationary", **options)


def test_a_machine_whose_clock_is_wrong_takes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    store = SkewedStore()
    study = make(store)
    (query,) = study.ask(owner=ELSEWHERE, lease=SILENCE)
    assert query.heartbeat == query.asked_at == store.clock
    monkeypatch.setattr(time, "time", lambda: store.clock + 301)  # of this machine
    assert study.ask()[0].id != query.id
    store.clock += 301
    assert study.ask()[0].id == query.id


def test_two_containers_of_one_name_are_two_machines() -> None:
    mine = this_process()
    gone = mine.rpartition("/")[0].rpartition("/")[0] + "/999999999/1"  # a number that is nobody's here
    owners._host.cache_clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "readlink", lambda path: "pid:[1]")  # another container of the same name
        assert this_process().partition("~")[0] == mine.partition("~")[0]
        assert not is_gone(gone, 0.0, 10.0, 60.0)
    owners._host.cache_clear()
    assert is_gone(gone, 0.0, 10.0, 60.0) and this_process() == mine


@pytest.mark.parametrize(
    ("owner", "lease", "silence", "gone"),
    [
        (ELSEWHERE, SILENCE, SILENCE - 1, False),
        (ELSEWHERE, SILENCE, SILENCE + 1, True),
        (ELSEWHERE, LEASE, 86400.0, False),
        (ELSEWHERE, LEASE, LEASE + 1, True),
        (ELSEWHERE, None, SILENCE + 1, True),  # asked for by an older version
        (PERSON, None, 1e9, False),
        (PERSON, 3600.0, 3599.0, False),
        (PERSON, 3600.0, 3601.0, True),
        ("a robot", None, 1e9, False),
        ("a robot", 60.0, 61.0, True),
        pytest.param(this_process(), 1.0, 1e9, False, id="this process"),  # whose name differs from worker to worker
    ],
)
def test_a_lease_is_what_was_agreed(owner: str, lease: float | None, silence: float, gone: bool) -> None:
    assert is_gone(owner, 100.0, 100.0 + silence, lease) is gone


def test_whoever_asks_chooses_the_lease() -> None:
    study = make()
    assert [
        study.ask(**options)[0].lease for options in ({}, {"owner": PERSON}, {"lease": "8h"}, {"owner": "x", "lease": 5})
    ] == [
        LEASE,
        None,
        28800.0,
        5.0,
    ]
    study.release(1)
    (again,) = study.ask(lease="2d")
    assert (again.id, again.lease) == (1, 172800.0)
    with pytest.raises(InputError, match="a lease must be"):
        study.ask(lease="soon")


@pytest.mark.parametrize("retries", [0, 2])
def test_a_failure_does_not_end_the_attempt_of_somebody_else(retries: int) -> None:
    study = make(failures={"retries": retries})
    (mine,) = study.ask(owner=ELSEWHERE, lease=SILENCE)
    study.release(mine)
    (theirs,) = study.ask(owner="other~0123456789ab/2/2", lease=SILENCE)
    assert theirs.id == mine.id
    assert not study.tell_failed(mine, "killed")
    assert not study.storage.tell_failed("s", mine.id, "killed", now=1.0, asked=mine)
    (now,) = study.record().queries
    assert (now.state, now.owner, now.attempt) == (State.RUNNING, theirs.owner, theirs.attempt)
    with pytest.raises(InputError, match="--release 1"):
        study.tell_failed(1, "says a person who is not at it")
    assert study.tell_failed(theirs, "mesh")
    assert study.tell(mine, y=1.0)  # a result is a result, whoever brings it
