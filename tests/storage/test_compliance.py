"""What every store does. A store joins by being listed in conftest.KINDS."""

import math
import sys
from collections.abc import Callable
from dataclasses import replace
from threading import Thread

import numpy as np
import pytest

from hyperleaf.errors import InputError
from hyperleaf.storage import (
    AlreadyToldError,
    Conflict,
    NewQuery,
    Observation,
    Query,
    State,
    Storage,
    StudyExistsError,
    StudyNotFoundError,
    UnknownQueryError,
)

NASTY_FLOATS = [0.1, -0.0, 1 / 3, 5e-324, sys.float_info.max, -sys.float_info.min, 1e22, 123456789.12345679, 2.0**53 + 2]


def asked(store: Storage, number: int = 1, **fields) -> None:
    """A study named s with that many queries."""
    store.create_study("s", {"seed": 1}, now=1.0)
    store.append("s", [NewQuery({"x": float(k)}, "design", **fields) for k in range(number)], version=None, now=2.0)


def query(store: Storage, number: int = 1) -> Query:
    return store.read("s").queries[number - 1]


# --- studies


def test_a_new_study_is_read_as_it_was_created(store: Storage) -> None:
    definition = {"inputs": {"größe": [0.5, None, True, {"deep": []}], "nul": "\0", "lone": "\ud800"}, "big": 10**30}
    store.create_study("s", definition, now=12.5)
    record = store.read("s")
    assert record.name == "s" and record.definition == definition and record.created_at == 12.5
    assert record.epoch == 0 and record.queries == () and record.observations == ()
    assert store.version("s") == record.version


def test_a_study_comes_with_its_artifacts_or_not_at_all(store: Storage) -> None:
    store.create_study("s", {}, now=1.0, artifacts={"pool": b"\0rows", "test": b""})
    assert [store.artifact("s", key) for key in ("pool", "test", "other")] == [b"\0rows", b"", None]
    with pytest.raises(StudyExistsError):
        store.create_study("s", {}, now=2.0, artifacts={"pool": b"others"})
    assert store.artifact("s", "pool") == b"\0rows"
    with pytest.raises(InputError, match="key of an artifact"):
        store.create_study("t", {}, now=2.0, artifacts={"": b"nameless"})
    assert store.study_names() == ("s",)


def test_a_name_is_taken_once(store: Storage) -> None:
    store.create_study("s", {"first": 1}, now=1.0)
    with pytest.raises(StudyExistsError, match="'s'"):
        store.create_study("s", {"second": 2}, now=2.0)
    assert store.read("s").definition == {"first": 1}


@pytest.mark.parametrize("name", ["", "a\0b", "\ud800", "n" * 201, 7, None])
def test_a_name_that_cannot_be_kept_is_refused(store: Storage, name) -> None:
    with pytest.raises(InputError, match="name of a study"):
        store.create_study(name, {}, now=1.0)
    with pytest.raises(StudyNotFoundError):
        store.read(name)


def test_names_are_in_alphabetical_order(store: Storage) -> None:
    for name in ("b", "ä", "a c", "B", "n" * 200, "'; DROP TABLE"):
        store.create_study(name, {}, now=1.0)
    assert store.study_names() == tuple(sorted(("b", "ä", "a c", "B", "n" * 200, "'; DROP TABLE")))


MISSING: dict[str, Callable[[Storage], object]] = {
    "read": lambda store: store.read("none"),
    "version": lambda store: store.version("none"),
    "redefine": lambda store: store.redefine("none", {}, version=1),
    "delete": lambda store: store.delete_study("none"),
    "append": lambda store: store.append("none", [], version=None, now=1.0),
    "claim": lambda store: store.claim("none", 1, "me", now=1.0),
    "release": lambda store: store.release("none", 1, "me"),
    "beat": lambda store: store.beat("none", "me", now=1.0),
    "tell": lambda store: store.tell("none", 1, {"y": 1.0}, now=1.0),
    "tell_failed": lambda store: store.tell_failed("none", 1, "", now=1.0),
    "put_metrics": lambda store: store.put_metrics("none", 1, {}),
    "metrics": lambda store: store.metrics("none"),
    "put_artifact": lambda store: store.put_artifact("none", "key", b""),
    "artifact": lambda store: store.artifact("none", "key"),
}


def test_a_study_that_is_not_there_is_said_so(store: Storage) -> None:
    for operation, call in MISSING.items():
        with pytest.raises(StudyNotFoundError, match="'none'"):
            call(store)
            pytest.fail(operation)


def test_redefine_replaces_the_definition_unless_the_study_changed(store: Storage) -> None:
    asked(store)
    version = store.version("s")
    store.redefine("s", {"seed": 2}, version=version)
    with pytest.raises(Conflict):
        store.redefine("s", {"seed": 3}, version=version)
    assert store.read("s").definition == {"seed": 2} and store.version("s") > version


def test_redefine_with_artifacts_leaves_nothing_of_the_former_ones(store: Storage) -> None:
    store.create_study("s", {"seed": 1}, now=1.0, artifacts={"pool": b"old", "test": b"old"})
    store.put_metrics("s", 3, {"y": 1.0})
    with pytest.raises(Conflict):
        store.redefine("s", {"seed": 2}, version=store.version("s") + 1, artifacts={})
    assert store.artifact("s", "pool") == b"old" and store.metrics("s")
    store.redefine("s", {"seed": 2}, version=store.version("s"))
    assert store.artifact("s", "pool") == b"old"
    store.redefine("s", {"seed": 3}, version=store.version("s"), artifacts={"pool": b"new"})
    assert store.artifact("s", "pool") == b"new" and store.artifact("s", "test") is None
    assert store.metrics("s") == () and store.read("s").definition == {"seed": 3}


def test_a_deleted_study_leaves_nothing_behind(store: Storage) -> None:
    store.create_study("other", {}, now=1.0)
    asked(store, outputs={"y": 1.0})
    store.put_metrics("s", 1, {"rmse": 1.0})
    store.put_artifact("s", "k", b"x")
    store.delete_study("s")
    assert store.study_names() == ("other",)
    store.create_study("s", {}, now=1.0)
    assert store.read("s").queries == () and store.read("s").observations == ()
    assert store.metrics("s") == () and store.artifact("s", "k") is None


def test_studies_do_not_mix(store: Storage) -> None:
    asked(store, 3)
    store.create_study("t", {}, now=1.0)
    (other,) = store.append("t", [NewQuery({}, "design", owner="me")], version=None, now=2.0)
    before = store.read("s")
    assert other.id == 1
    store.tell("t", 1, {"y": 1.0}, now=3.0)
    store.put_metrics("t", 1, {"rmse": 1.0})
    store.put_artifact("t", "k", b"x")
    assert store.beat("t", "me", now=9.0) == 0
    assert store.read("s") == before and store.metrics("s") == () and store.artifact("s", "k") is None


# --- values


def test_floats_come_back_bit_for_bit(store: Storage) -> None:
    named = {f"v{k}": value for k, value in enumerate(NASTY_FLOATS)}
    store.create_study("s", {"floats": NASTY_FLOATS}, now=NASTY_FLOATS[0])
    for value in NASTY_FLOATS:
        store.append("s", [NewQuery(named, "design", score=value)], version=None, now=abs(value))
    store.tell("s", 1, named, now=1 / 3, seconds=0.1)
    store.put_metrics("s", 0, named)
    record = store.read("s")
    found = [
        record.definition["floats"],
        *[list(q.point.values()) for q in record.queries],
        list(record.observations[0].outputs.values()),
        list(store.metrics("s")[0][1].values()),
    ]
    assert [list(map(repr, values)) for values in found] == [list(map(repr, NASTY_FLOATS))] * len(found)
    assert [q.score for q in record.queries] == NASTY_FLOATS  # SQLite's own floats lose the sign of zero, which == ignores
    assert record.created_at == 0.1 and record.observations[0].told_at == 1 / 3 and record.queries[0].seconds == 0.1


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_numbers_that_are_not_finite_are_refused_everywhere(store: Storage, bad: float) -> None:
    asked(store)
    before = store.read("s")
    new = NewQuery({"x": 1.0}, "design")
    attempts: list[Callable[[], object]] = [
        lambda: store.create_study("t", {"a": [bad]}, now=1.0),
        lambda: store.create_study("t", {}, now=bad),
        lambda: store.redefine("s", {"a": {"b": bad}}, version=before.version),
        lambda: store.append("s", [replace(new, point={"x": bad})], version=None, now=1.0),
        lambda: store.append("s", [replace(new, score=bad)], version=None, now=1.0),
        lambda: store.append("s", [replace(new, outputs={"y": bad})], version=None, now=1.0),
        lambda: store.append("s", [new], version=None, now=bad),
        lambda: store.claim("s", 1, "me", now=bad),
        lambda: store.beat("s", "me", now=bad),
        lambda: store.tell("s", 1, {"y": bad}, now=1.0),
        lambda: store.tell("s", 1, {"y": 1.0}, now=bad),
        lambda: store.tell("s", 1, {"y": 1.0}, now=1.0, seconds=bad),
        lambda: store.tell_failed("s", 1, "", now=bad),
        lambda: store.put_metrics("s", 1, {"rmse": bad}),
    ]
    for attempt in attempts:
        with pytest.raises(InputError, match="finite"):
            attempt()
    assert store.read("s") == before and store.study_names() == ("s",) and store.metrics("s") == ()


@pytest.mark.parametrize("bad", [{1: 2.0}, {"x": object()}, {"x": {2.0}}, {"x": np.zeros(2)}, [1.0], "x", None])
def test_what_json_cannot_say_is_refused(store: Storage, bad) -> None:
    asked(store)
    with pytest.raises(InputError):
        store.append("s", [NewQuery(bad, "design")], version=None, now=1.0)
    with pytest.raises(InputError):
        store.create_study("t", bad, now=1.0)
    assert len(store.read("s").queries) == 1


@pytest.mark.parametrize("bad", [{}, {"y": "1.0"}, {"y": None}, {"y": True}, {"y": [1.0]}, {2: 1.0}, [1.0], {"": 1.0}])
def test_outputs_are_numbers_under_names(store: Storage, bad) -> None:
    asked(store)
    with pytest.raises(InputError):
        store.tell("s", 1, bad, now=1.0)
    assert query(store).state is State.WAITING


def test_numpy_scalars_and_tuples_become_plain(store: Storage) -> None:
    store.create_study("s", {"a": np.float32(0.5), "b": (np.int64(3), np.bool_(True), np.str_("c"))}, now=np.float64(1.5))
    (new,) = store.append("s", [NewQuery({"x": np.float64(0.1)}, "pool", index=np.int64(7))], version=None, now=2)
    store.tell("s", np.int64(1), {"y": np.float64(0.1), "z": 3}, now=2)
    record = store.read("s")
    assert record.definition == {"a": 0.5, "b": [3, True, "c"]}
    assert new.index == 7 and type(new.point["x"]) is float
    assert record.observations[0].outputs == {"y": 0.1, "z": 3.0}


def test_what_is_given_out_shares_nothing_with_the_store(store: Storage) -> None:
    definition, point, outputs = {"a": [1]}, {"x": [1.0]}, {"y": 1.0}
    store.create_study("s", definition, now=1.0)
    (new,) = store.append("s", [NewQuery(point, "design", outputs=outputs)], version=None, now=1.0)
    store.put_metrics("s", 1, definition)
    for handed in (definition, store.read("s").definition, store.metrics("s")[0][1]):
        handed["a"].append(2)
    for handed in (point, new.point, query(store).point):
        handed["x"].append(2.0)
    for handed in (outputs, store.read("s").observations[0].outputs):
        handed["y"] = 2.0
    record = store.read("s")
    assert record.definition == {"a": [1]} and record.queries[0].point == {"x": [1.0]}
    assert record.observations[0].outputs == {"y": 1.0} and store.metrics("s") == ((1, {"a": [1]}),)


# --- append


def test_queries_are_numbered_from_one_in_order(store: Storage) -> None:
    store.create_study("s", {}, now=1.0)
    first = store.append(
        "s",
        [NewQuery({"x": 0.5}, "design", index=4, score=-1.5, note="näh"), NewQuery({"x": 0.7}, "acquisition", owner="me")],
        version=store.version("s"),
        now=2.0,
    )
    second = store.append("s", [NewQuery({"x": 0.1}, "added", outputs={"y": 3.0})], version=None, now=3.0)
    assert first == (
        Query(1, {"x": 0.5}, "design", State.WAITING, epoch=0, asked_at=2.0, index=4, score=-1.5, note="näh"),
        Query(2, {"x": 0.7}, "acquisition", State.RUNNING, epoch=0, asked_at=2.0, owner="me", heartbeat=2.0),
    )
    assert second == (Query(3, {"x": 0.1}, "added", State.DONE, epoch=0, asked_at=3.0, ended_at=3.0),)
    record = store.read("s")
    assert record.queries == first + second
    assert record.observations == (Observation(3, {"y": 3.0}, told_at=3.0),)


def test_append_to_a_study_that_changed_is_a_conflict(store: Storage) -> None:
    asked(store)
    version = store.version("s")
    store.claim("s", 1, "me", now=3.0)
    before = store.read("s")
    with pytest.raises(Conflict, match="Read it again"):
        store.append("s", [NewQuery({}, "design")], version=version, now=3.0)
    assert store.read("s") == before
    store.append("s", [NewQuery({}, "design")], version=before.version, now=3.0)


def test_append_keeps_all_or_none(store: Storage) -> None:
    asked(store, 2, outputs={"y": 1.0})
    before = store.read("s")
    good, bad = NewQuery({"x": 1.0}, "design", outputs={"y": 2.0}), NewQuery({"x": math.nan}, "design")
    with pytest.raises(InputError):
        store.append("s", [good, bad], version=None, absorbed=[1, 2], now=3.0)
    with pytest.raises(UnknownQueryError):
        store.append("s", [good], version=None, absorbed=[1, 9], now=3.0)
    assert store.read("s") == before


def test_nothing_appended_is_no_change(store: Storage) -> None:
    asked(store)
    before = store.read("s")
    assert store.append("s", [], version=before.version, now=3.0) == ()
    assert store.read("s") == before
    with pytest.raises(Conflict):
        store.append("s", [], version=before.version - 1, now=3.0)


def test_absorbed_observations_become_the_next_epoch(store: Storage) -> None:
    asked(store, 3, outputs={"y": 1.0})
    (fourth,) = store.append("s", [NewQuery({}, "acquisition")], version=None, absorbed=[3, 1, 1], now=3.0)
    assert fourth.epoch == 1
    (fifth,) = store.append("s", [NewQuery({}, "acquisition")], version=None, now=3.0)
    assert fifth.epoch == 1, "nothing new was taken in"
    assert store.append("s", [], version=None, absorbed=[2], now=3.0) == ()
    record = store.read("s")
    assert record.epoch == 2 and [o.epoch for o in record.observations] == [1, 2, 1]
    assert [q.epoch for q in record.queries] == [0, 0, 0, 1, 1]


def test_an_observation_is_absorbed_once_and_only_if_it_is_there(store: Storage) -> None:
    asked(store, 2)
    store.tell("s", 1, {"y": 1.0}, now=2.0)
    store.append("s", [], version=None, absorbed=[1], now=3.0)
    before = store.read("s")
    for absorbed, error in (([1], Conflict), ([2], InputError), ([3], UnknownQueryError), ([0], UnknownQueryError)):
        with pytest.raises(error):
            store.append("s", [NewQuery({}, "design")], version=None, absorbed=absorbed, now=3.0)
    assert store.read("s") == before


# --- the life of a query


def test_a_query_is_claimed_once(store: Storage) -> None:
    asked(store)
    mine = store.claim("s", 1, "me", now=5.0)
    assert mine == query(store) and mine is not None
    assert (mine.state, mine.owner, mine.heartbeat) == (State.RUNNING, "me", 5.0)
    version = store.version("s")
    assert store.claim("s", 1, "you", now=6.0) is None and store.claim("s", 1, "me", now=6.0) is None
    assert query(store) == mine and store.version("s") == version
    store.tell("s", 1, {"y": 1.0}, now=7.0)
    assert store.claim("s", 1, "you", now=8.0) is None


def test_a_released_query_can_be_claimed_again(store: Storage) -> None:
    asked(store, owner="me")
    assert store.release("s", 1, "you") is None and query(store).owner == "me"
    back = store.release("s", 1, "me", note="gave up")
    assert back == query(store) and back is not None
    assert (back.state, back.owner, back.heartbeat, back.attempt, back.reason) == (State.WAITING, None, None, 1, "gave up")
    version = store.version("s")
    assert store.release("s", 1, "me") is None and store.release("s", 1, None) is None and store.version("s") == version
    again = store.claim("s", 1, "you", now=6.0)
    assert again is not None and again.attempt == 1
    once_more = store.release("s", 1, None, next_attempt=True)
    assert once_more is not None and (once_more.attempt, once_more.reason) == (2, "")


def test_beat_touches_the_running_queries_of_the_owner_and_not_the_version(store: Storage) -> None:
    asked(store, 4, owner="me")
    store.release("s", 1, "me")
    store.claim("s", 1, "you", now=3.0)
    store.tell("s", 2, {"y": 1.0}, now=3.0)
    version = store.version("s")
    assert store.beat("s", "me", now=9.0) == 2 and store.beat("s", "nobody", now=9.0) == 0
    assert [q.heartbeat for q in store.read("s").queries] == [3.0, 2.0, 9.0, 9.0]
    assert store.version("s") == version


@pytest.mark.parametrize("start", ["waiting", "running", "failed"])
def test_tell_makes_a_query_done_from_any_other_state(store: Storage, start: str) -> None:
    asked(store, owner="me" if start == "running" else None)
    if start == "failed":
        store.tell_failed("s", 1, "mesh", now=2.5, seconds=1.0)
    assert store.tell("s", 1, {"y": 0.1, "z": 2}, now=3.0, seconds=4.5) is True
    record = store.read("s")
    assert record.observations == (Observation(1, {"y": 0.1, "z": 2.0}, told_at=3.0),)
    done = record.queries[0]
    assert (done.state, done.ended_at, done.seconds, done.reason) == (State.DONE, 3.0, 4.5, "")
    assert done.owner == ("me" if start == "running" else None)


def test_telling_the_same_again_changes_nothing_and_something_else_is_refused(store: Storage) -> None:
    asked(store)
    store.tell("s", 1, {"y": 0.1, "z": 2.0}, now=3.0, seconds=1.0)
    before = store.read("s")
    assert store.tell("s", 1, {"z": 2, "y": 0.1}, now=9.0, seconds=9.0) is False
    for other in ({"y": 0.1}, {"y": 0.1, "z": math.nextafter(2.0, 3.0)}, {"y": 0.1, "z": 2.0, "w": 0.0}):
        with pytest.raises(AlreadyToldError, match="query 1"):
            store.tell("s", 1, other, now=9.0)
    with pytest.raises(AlreadyToldError):
        store.tell_failed("s", 1, "late", now=9.0)
    assert store.read("s") == before


@pytest.mark.parametrize("owner", [None, "me"])
def test_a_failure_is_kept_with_its_reason(store: Storage, owner: str | None) -> None:
    asked(store, owner=owner)
    assert store.tell_failed("s", 1, "solver said \0 and \udcff, größer", now=3.0, seconds=2.0) is True
    failed = query(store)
    assert (failed.state, failed.ended_at, failed.seconds, failed.owner) == (State.FAILED, 3.0, 2.0, owner)
    assert failed.reason == "solver said \ufffd and \ufffd, größer"
    version = store.version("s")
    assert store.tell_failed("s", 1, "again", now=9.0) is False
    assert query(store) == failed and store.version("s") == version and store.read("s").observations == ()


@pytest.mark.parametrize("number", [0, 2, -1, 10**30, "1", None, 1.5])
def test_a_query_that_is_not_there_is_said_so(store: Storage, number) -> None:
    asked(store)
    attempts: list[Callable[[], object]] = [
        lambda: store.claim("s", number, "me", now=1.0),
        lambda: store.release("s", number, "me"),
        lambda: store.tell("s", number, {"y": 1.0}, now=1.0),
        lambda: store.tell_failed("s", number, "", now=1.0),
    ]
    for attempt in attempts:
        with pytest.raises(UnknownQueryError):
            attempt()


def test_the_version_grows_with_every_change(store: Storage) -> None:
    asked(store, 3)
    versions = [store.version("s")]
    changes: list[Callable[[], object]] = [
        lambda: store.append("s", [NewQuery({}, "design")], version=None, now=1.0),
        lambda: store.claim("s", 1, "me", now=1.0),
        lambda: store.release("s", 1, "me"),
        lambda: store.tell("s", 1, {"y": 1.0}, now=1.0),
        lambda: store.tell_failed("s", 2, "", now=1.0),
        lambda: store.append("s", [], version=None, absorbed=[1], now=1.0),
        lambda: store.redefine("s", {}, version=versions[-1]),
    ]
    for change in changes:
        change()
        versions.append(store.version("s"))
        assert store.read("s").version == versions[-1]
    assert versions == sorted(set(versions))


# --- what goes with a study


def test_metrics_are_kept_by_number_of_observations(store: Storage) -> None:
    asked(store)
    version = store.version("s")
    store.put_metrics("s", 12, {"rmse": 0.5, "coverage": {"95": 0.9}})
    store.put_metrics("s", 2, {"rmse": 0.7})
    store.put_metrics("s", 12, {"rmse": 0.4})
    assert store.metrics("s") == ((2, {"rmse": 0.7}), (12, {"rmse": 0.4}))
    assert store.version("s") == version
    for bad in (-1, 2**31, 1.5, "1"):
        with pytest.raises(InputError, match="number of observations"):
            store.put_metrics("s", bad, {})


def test_artifacts_are_kept_byte_for_byte(store: Storage) -> None:
    asked(store)
    version = store.version("s")
    large = bytes(range(256)) * 8192
    for payload in (b"old", large, b""):
        store.put_artifact("s", "posterior", payload)
        assert store.artifact("s", "posterior") == payload
    store.put_artifact("s", "other", bytearray(b"1"))
    assert store.artifact("s", "posterior") == b"" and store.artifact("s", "other") == b"1"
    assert store.artifact("s", "none") is None and store.artifact("s", "a\0") is None
    assert store.version("s") == version
    with pytest.raises(InputError, match="key"):
        store.put_artifact("s", "", b"")


def test_threads_share_a_store(store: Storage) -> None:
    asked(store, 40)
    kept: list[bool] = []

    def work() -> None:
        kept.extend(store.tell("s", number, {"y": float(number)}, now=3.0) for number in range(1, 41))

    threads = [Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert kept.count(True) == 40 and kept.count(False) == 80
    assert [o.outputs["y"] for o in store.read("s").observations] == [float(k) for k in range(1, 41)]
