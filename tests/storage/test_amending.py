"""Data are put right in every store: corrected, voided and restored, with a history and in one step."""

from dataclasses import replace

import pytest

from hyperleaf.errors import InputError
from hyperleaf.storage import AlreadyToldError, Amendment, Change, Conflict, Kind, NewQuery, Observation, State, Storage


def begun(store: Storage) -> None:
    """Four queries: two told and taken in, one told since, one that runs; metrics of 1 and 2 observations."""
    store.create_study("s", {}, now=1.0)
    store.append("s", [NewQuery({"x": float(k)}, "design", owner="me") for k in range(2)], version=None, now=2.0)
    store.tell("s", 1, {"y": 0.1, "z": 5.0}, now=3.0)
    store.append("s", [NewQuery({"x": 2.0}, "acquisition", owner="me")], version=None, absorbed=[1], now=4.0)
    store.tell("s", 2, {"y": 0.2, "z": 6.0}, now=5.0)
    store.append("s", [NewQuery({"x": 3.0}, "acquisition", owner="me")], version=None, absorbed=[2], now=6.0)
    store.tell("s", 3, {"y": 0.3, "z": 7.0}, now=7.0)
    for num in (1, 2, 3):
        store.put_metrics("s", num, {"rmse": float(num)})


def corrected(number: int, **outputs: float) -> Amendment:
    return Amendment(number, Kind.CORRECTED, outputs)


def test_a_correction_changes_what_was_told_and_nothing_else(store: Storage) -> None:
    begun(store)
    before = store.read("s")
    (change,) = store.amend("s", [corrected(2, y=-0.2, z=6.0)], who="ann", why="sign", now=9.0)
    after = store.read("s")
    old, new = {"outputs": {"y": 0.2, "z": 6.0}, "point": None}, {"outputs": {"y": -0.2, "z": 6.0}, "point": None}
    assert change == Change(1, 2, Kind.CORRECTED, "ann", 9.0, "sign", old, new)
    right = replace(before.observations[1], outputs={"y": -0.2, "z": 6.0})
    assert after.observations == (before.observations[0], right, before.observations[2])
    assert (after.queries, after.epoch) == (before.queries, before.epoch)
    assert after.version == before.version + 1 and after.changes == (change,)


def test_a_correction_to_the_same_changes_nothing(store: Storage) -> None:
    begun(store)
    before = store.read("s")
    assert store.amend("s", [corrected(1, y=0.1, z=5.0)], who="ann", now=9.0) == ()
    assert store.read("s") == before and len(store.metrics("s")) == 3


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_voided_and_restored_is_as_if_nothing_had_been(store: Storage, number: int) -> None:
    begun(store)
    before = store.read("s")
    (voided,) = store.amend("s", [Amendment(number, Kind.VOIDED)], who="ann", why="sensor off", now=9.0)
    between = store.read("s")
    state = before.queries[number - 1].state
    assert between.queries[number - 1] == replace(before.queries[number - 1], state=State.VOID, was=state)
    assert (voided.before, voided.after) == ({"state": state.value}, {"state": "void"})
    assert number not in [one.query_id for one in between.observations]
    assert sorted([*between.observations, *between.voided], key=lambda one: one.query_id) == list(before.observations)
    assert store.amend("s", [Amendment(number, Kind.VOIDED)], who="bob", now=9.5) == ()
    store.amend("s", [Amendment(number, Kind.RESTORED)], who="bob", now=10.0)
    after = store.read("s")
    assert (after.queries, after.observations, after.voided) == (before.queries, before.observations, ())
    assert [(one.kind, one.who, one.at, one.why) for one in after.changes] == [
        (Kind.VOIDED, "ann", 9.0, "sensor off"),
        (Kind.RESTORED, "bob", 10.0, ""),
    ]


def test_all_amendments_are_made_or_none(store: Storage) -> None:
    begun(store)
    before = store.read("s")
    for wrong in (corrected(4, y=1.0, z=1.0), corrected(2, y=1.0), corrected(2, y=float("nan"), z=1.0), corrected(9, y=1.0)):
        with pytest.raises(InputError):
            store.amend("s", [corrected(1, y=9.0, z=9.0), wrong], who="ann", now=9.0)
    with pytest.raises(InputError, match="voided can be restored; query 1 is done"):
        store.amend("s", [Amendment(2, Kind.VOIDED), Amendment(1, Kind.RESTORED)], who="ann", now=9.0)
    assert store.read("s") == before and len(store.metrics("s")) == 3


def test_what_is_void_is_neither_told_nor_corrected_nor_taken_in(store: Storage) -> None:
    begun(store)
    store.amend("s", [Amendment(3, Kind.VOIDED), Amendment(4, Kind.VOIDED)], who="ann", now=9.0)
    with pytest.raises(AlreadyToldError, match="hyperleaf restore 4"):
        store.tell("s", 4, {"y": 1.0, "z": 1.0}, now=10.0)
    with pytest.raises(AlreadyToldError, match="hyperleaf restore 4"):
        store.tell_failed("s", 4, "mesh", now=10.0)
    with pytest.raises(InputError, match="hyperleaf restore 3"):
        store.amend("s", [corrected(3, y=1.0, z=1.0)], who="ann", now=10.0)
    with pytest.raises(Conflict):
        store.append("s", [], version=None, absorbed=[3], now=10.0)
    assert store.claim("s", 4, "you", now=10.0) is None and store.release("s", 4, "me") is None
    assert store.beat("s", "me", now=10.0) == 0


@pytest.mark.parametrize(("number", "left"), [(1, []), (2, [1]), (3, [1, 2]), (4, [1, 2, 3])])
def test_metrics_measured_with_a_wrong_value_are_dropped(store: Storage, number: int, left: list[int]) -> None:
    begun(store)
    store.amend("s", [Amendment(number, Kind.VOIDED)], who="ann", now=9.0)
    assert [num for num, _ in store.metrics("s")] == left


def test_where_a_run_was_really_made_is_kept_with_what_it_gave(store: Storage) -> None:
    begun(store)
    assert store.tell("s", 4, {"y": 1.0, "z": 2.0}, now=8.0, point={"x": 3.25})
    assert not store.tell("s", 4, {"y": 1.0, "z": 2.0}, now=8.5, point={"x": 3.25})
    with pytest.raises(AlreadyToldError, match=r"3\.25.*hyperleaf correct 4"):
        store.tell("s", 4, {"y": 1.0, "z": 2.0}, now=8.5)
    record = store.read("s")
    assert record.observations[-1] == Observation(4, {"y": 1.0, "z": 2.0}, told_at=8.0, point={"x": 3.25})
    assert record.queries[3].point == {"x": 3.0} and record.places()[4] == {"x": 3.25} and record.places()[1] == {"x": 0.0}
    (change,) = store.amend("s", [Amendment(4, Kind.CORRECTED, {"y": 1.0, "z": 2.0}, {"x": 3.0})], who="ann", now=9.0)
    assert change.before["point"] == {"x": 3.25} and change.after["point"] is None
    assert store.read("s").observations[-1].point is None
    with pytest.raises(InputError, match="must have the inputs"):
        store.amend("s", [Amendment(4, Kind.CORRECTED, {"y": 1.0, "z": 2.0}, {"w": 3.0})], who="ann", now=9.0)


def test_what_is_given_out_is_a_copy(store: Storage) -> None:
    begun(store)
    store.amend("s", [corrected(1, y=9.0, z=9.0)], who="ann", now=9.0)
    first = store.read("s")
    first.changes[0].before["outputs"]["y"] = 7.0  # type: ignore[index]
    first.observations[0].outputs["y"] = 7.0  # type: ignore[index]
    assert store.read("s").changes[0].before["outputs"]["y"] == 0.1 and store.read("s").observations[0].outputs["y"] == 9.0
