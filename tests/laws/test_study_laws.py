"""Laws of ask and tell: telling again changes nothing, the order of telling does not matter, and the past can be replayed."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given, settings, strategies as st

import hyperleaf as hl
from hyperleaf.storage import State, open_storage
from hyperleaf.study import Study

DOMAIN = hl.Domain(a=hl.Real(-1, 3), k=hl.Integer(1, 40))
POOL = DOMAIN.design(80, "sobol", 1)  # the laws are those of any domain; a pool is searched in no time
ACTIONS = st.sampled_from(["ask", "tell", "fail", "release", "look"])
TREED = {"kind": "treed", "burn_in": 4, "total": 12, "warm_burn_in": 4}


def make(seed: int, storage=None) -> Study:
    settings = {"surrogate": TREED, "acquisition": "variance", "design": 3, "failures": {"avoid": False}}
    return Study.create("law", DOMAIN, "y", storage=storage, seed=seed, pool=POOL, **settings)


def system(point) -> float:
    return math.sin(point["a"]) * point["k"]


def state_of(study: Study) -> list[tuple]:
    told = {one.query_id: one.outputs for one in study.record().observations}
    return [(query.id, dict(query.point), query.origin, told.get(query.id)) for query in study.record().queries]


@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 2**32), order=st.permutations(range(5)), repeats=st.lists(st.integers(0, 4), max_size=4))
def test_the_order_of_telling_and_telling_again_change_nothing(seed, order, repeats) -> None:
    plain, mixed = make(seed), make(seed)
    asked = plain.ask(5)
    assert [query.point for query in asked] == [query.point for query in mixed.ask(5)]
    for query in asked:
        plain.tell(query, y=system(query.point))
    for i in [*order, *repeats]:
        mixed.tell(asked[i], y=system(asked[i].point))
    assert state_of(plain) == state_of(mixed)
    assert [query.point for query in plain.ask(2)] == [query.point for query in mixed.ask(2)]
    grid = DOMAIN.design(7, "sobol", 0)
    np.testing.assert_array_equal(plain.predict(grid).means, mixed.predict(grid).means)


@settings(max_examples=6, deadline=None)
@given(seed=st.integers(0, 99), groups=st.lists(st.integers(1, 3), min_size=2, max_size=4), restarts=st.sets(st.integers(0, 2)))
def test_a_replay_from_the_store_gives_the_same_queries_and_predictions(seed, groups, restarts) -> None:
    storage, again = open_storage(None), open_storage(None)
    whole, broken = make(seed, storage), make(seed, again)
    for step, size in enumerate(groups):
        for study in (whole, broken):
            for query in study.ask(size):
                study.tell(query, y=system(query.point))
        if step in restarts:
            broken = Study(again, "law")  # nothing but what is in the store
    assert state_of(whole) == state_of(broken)
    grid = DOMAIN.design(5, "sobol", 0)
    np.testing.assert_array_equal(whole.predict(grid).means, broken.predict(grid).means)


@settings(max_examples=8, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    actions=st.lists(st.tuples(ACTIONS, st.integers(0, 9)), min_size=8, max_size=16),
)
def test_whatever_happens_every_query_is_in_one_state_and_nothing_told_is_lost(seed, actions) -> None:
    study = make(seed)
    told: dict[int, float] = {}
    for action, i in actions:
        queries = study.record().queries
        running = [query for query in queries if query.state == State.RUNNING]
        if action == "ask":
            (query,) = study.ask()
            assert query.id not in told
            assert query.id not in {one.id for one in running}
        elif action == "look" and told:
            study.predict([{"a": 0.0, "k": 3}])
        elif queries and action in ("tell", "fail", "release"):
            query = queries[i % len(queries)]
            if action == "tell":
                value = told.setdefault(query.id, system(query.point))
                study.tell(query.id, y=value)
            elif query.state != State.DONE and action == "fail":
                study.tell_failed(query.id, "for the test")
            elif query.state == State.RUNNING:
                assert study.release(query.id)
    record = study.record()
    assert [query.id for query in record.queries] == list(range(1, len(record.queries) + 1))
    assert {one.query_id: one.outputs["y"] for one in record.observations} == told
    assert {query.id for query in record.queries if query.state == State.DONE} == set(told)
