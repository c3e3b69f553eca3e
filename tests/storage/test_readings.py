"""Reading again costs what is new, and gives what reading for the first time would give, whoever has written meanwhile."""

import random

import pytest

from hyperleaf.storage.base import Amendment, Conflict, Kind, NewQuery, State
from hyperleaf.storage.sql import SqlStorage

NAMES = ("a", "b")


def change(store: SqlStorage, name: str, rng: random.Random, now: float) -> None:
    """One change at random, of a study that is there or will be."""
    if name not in store.study_names():
        store.create_study(name, {"outputs": ["y"]}, now=now)
    record = store.read(name)
    by_state = {state: [query.id for query in record.queries if query.state == state] for state in State}
    fresh = [one.query_id for one in record.observations if one.epoch is None]
    pick = {state: rng.choice(ids) if ids else None for state, ids in by_state.items()}
    match rng.randrange(15):
        case 0 | 1 | 2:
            new = [NewQuery({"x": rng.random()}, "design", owner=rng.choice([None, "p"])) for _ in range(rng.randint(1, 3))]
            store.append(name, new, version=record.version, absorbed=fresh[:2], now=now)
        case 3:
            store.append(name, [NewQuery({"x": 0.5}, "added", outputs={"y": rng.random()})], version=None, now=now)
        case 4 if pick[State.WAITING]:
            store.claim(name, pick[State.WAITING], "p", now=now)
        case 5 if pick[State.RUNNING]:
            store.release(name, pick[State.RUNNING], None, note="again", next_attempt=True)
        case 6 | 7 if pick[State.RUNNING]:
            place = rng.choice([None, {"x": rng.random()}])
            store.tell(name, pick[State.RUNNING], {"y": rng.random()}, now=now, seconds=1.5, point=place)
        case 8 if pick[State.RUNNING]:
            store.tell_failed(name, pick[State.RUNNING], "no", now=now)
        case 9:
            store.beat(name, "p", now=now)
            store.put_artifact(name, "k", b"1")
        case 10:
            store.put_metrics(name, rng.randint(1, 5), {"y": {"rmse": rng.random()}})
        case 11:
            if rng.random() < 0.3:
                store.delete_study(name)
            else:
                store.redefine(name, {"outputs": ["y"], "n": now}, version=record.version, artifacts=rng.choice([None, {}]))
        case 12 if pick[State.DONE]:
            right = Amendment(pick[State.DONE], Kind.CORRECTED, {"y": rng.random()}, rng.choice([None, {"x": rng.random()}]))
            store.amend(name, [right], who="ann", why="comma", now=now)
        case 13 if any(pick.values()):
            store.amend(name, [Amendment(rng.choice([i for i in pick.values() if i]), Kind.VOIDED)], who="ann", now=now)
        case 14 if pick[State.VOID]:
            store.amend(name, [Amendment(pick[State.VOID], Kind.RESTORED)], who="bob", now=now)
        case _:
            with pytest.raises(Conflict):
                store.append(name, [NewQuery({"x": 0.5}, "design")], version=record.version + 1, now=now)


@pytest.mark.parametrize("seed", range(4))
def test_a_store_that_has_read_before_sees_what_a_new_one_sees(tmp_path, seed):
    url, rng = f"sqlite:///{tmp_path / 's.db'}", random.Random(seed)
    stores = [SqlStorage(url), SqlStorage(url)]
    for step in range(120):
        change(rng.choice(stores), rng.choice(NAMES), rng, 1000.0 + step)
        anew = SqlStorage(url)
        for name in anew.study_names():
            for store in rng.sample(stores, rng.randint(1, 2)):  # one may have missed a few changes
                assert store.view(name) == (anew.read(name), anew.metrics(name)), f"step {step}"
        anew.close()


def test_what_did_not_change_is_not_looked_into_again(tmp_path, monkeypatch):
    store = SqlStorage(f"sqlite:///{tmp_path / 's.db'}")
    store.create_study("s", {}, now=1.0)
    store.append("s", [NewQuery({"x": 0.1 * i}, "design", outputs={"y": 1.0}) for i in range(50)], version=None, now=1.0)
    first, _ = store.view("s")
    (query,) = store.append("s", [NewQuery({"x": 3.0}, "design", owner="p")], version=None, now=2.0)
    looked = []
    monkeypatch.setattr("hyperleaf.storage.readings.from_json", lambda text: looked.append(text) or {"x": 3.0})
    second, _ = store.view("s")
    assert len(looked) == 1 and second.queries[-1].id == query.id
    assert all(one is other for one, other in zip(first.queries, second.queries, strict=False))
