"""Laws of putting data right: void then restore is the identity, and a corrected study is one that was told right at once."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import hyperleaf as hl
from hyperleaf.storage import NewQuery, State, open_storage
from hyperleaf.study import Study

DOMAIN = hl.Domain(a=hl.Real(-1, 3), k=hl.Integer(1, 40))
POOL = DOMAIN.design(80, "sobol", 1)
TREED = {"kind": "treed", "burn_in": 4, "total": 12, "warm_burn_in": 4}
GRID = DOMAIN.design(5, "sobol", 0)
SHORT = {"max_examples": 4, "deadline": None}
LONG = {"max_examples": 60, "deadline": None, "derandomize": False}
VALUES = st.floats(-1e6, 1e6).map(lambda value: value if abs(value) > 1e-3 else 0.0)


def make(seed: int, storage=None) -> Study:
    options = {"surrogate": TREED, "acquisition": "variance", "design": 3, "failures": {"avoid": False}}
    return Study.create("law", DOMAIN, "y", storage=storage, seed=seed, pool=POOL, **options)


def system(point) -> float:
    return math.sin(point["a"]) * point["k"]


def begun(seed: int, num: int, wrong: dict[int, float]) -> Study:
    """So many runs asked and told one after the other, some of them wrong."""
    study = make(seed)
    for _ in range(num):
        (query,) = study.ask()
        study.tell(query, y=wrong.get(query.id, system(query.point)))
    return study


def told_right(study: Study) -> Study:
    """A study of the same queries in the same groups, in which every run was told as it stands there now."""
    record, again = study.record(), open_storage(None)
    fresh = make(study.seed, again)
    told, voided = {one.query_id: one for one in record.observations}, {one.query_id for one in record.voided}
    epoch = 0
    for query in record.queries:
        absorbed = [one.query_id for one in told.values() if query.epoch > epoch and one.epoch == query.epoch]
        if query.epoch > epoch and not absorbed:  # all of the group was voided: the epoch is there all the same
            again._studies["law"].epoch += 1
        epoch = query.epoch
        again.append(
            "law", [NewQuery(query.point, query.origin, query.index, owner="me")], version=None, absorbed=absorbed, now=1.0
        )
        if query.id in told:
            again.tell("law", query.id, told[query.id].outputs, now=2.0, point=told[query.id].point)
        elif query.id in voided:
            again._studies["law"].queries[query.id] = replace(again.read("law").queries[-1], state=State.VOID, was=State.DONE)
    return fresh


def same(one: Study, other: Study) -> None:
    """To the last bit: predictions, and the queries that come next."""
    np.testing.assert_array_equal(one.predict(GRID).means, other.predict(GRID).means)
    np.testing.assert_array_equal(one.predict(GRID).variances, other.predict(GRID).variances)
    assert [query.point for query in one.ask(2)] == [query.point for query in other.ask(2)]


@settings(**SHORT)
@given(seed=st.integers(0, 99), number=st.integers(1, 6), value=VALUES, looks=st.booleans())
def test_a_corrected_study_is_one_told_right_from_the_start(seed, number, value, looks) -> None:
    study = begun(seed, 6, {number: value})
    if looks:
        study.predict(GRID)
    asked = [query.point for query in study.record().queries]
    study.correct(number, y=system(study.record().queries[number - 1].point))
    assert [query.point for query in study.record().queries] == asked
    same(study, told_right(study))


@settings(**SHORT)
@given(seed=st.integers(0, 99), value=VALUES)
def test_corrected_before_the_next_query_it_is_the_same_study(seed, value) -> None:
    right, study = begun(seed, 4, {}), begun(seed, 4, {4: value})
    study.correct(4, y=system(study.record().queries[3].point))
    same(right, study)


@settings(**SHORT)
@given(seed=st.integers(0, 99), numbers=st.lists(st.integers(1, 6), min_size=1, max_size=5, unique=True), looks=st.booleans())
def test_voided_and_restored_is_the_identity(seed, numbers, looks) -> None:
    study = begun(seed, 6, {})
    study.measure()
    before, measured, known = study.record(), study.history(), study.predict(GRID).means
    study.void(*numbers, why="for the law")
    if looks and study._insight.can_learn(study.record()):
        study.predict(GRID)
    for number in reversed(numbers):
        study.restore(number)
    after = study.record()
    assert (after.queries, after.observations, after.epoch) == (before.queries, before.observations, before.epoch)
    np.testing.assert_array_equal(study.predict(GRID).means, known)
    study.measure()
    assert study.history() == measured


@settings(**SHORT)
@given(seed=st.integers(0, 99), numbers=st.sets(st.integers(1, 6), min_size=1, max_size=3))
def test_voided_is_as_if_it_had_never_been_told(seed, numbers) -> None:
    study = begun(seed, 6, dict.fromkeys(numbers, 1e6))
    study.void(*numbers)
    same(study, told_right(study))
    assert len(study.models["y"].y) == 6 - len(numbers)


@settings(**SHORT)
@given(seed=st.integers(0, 99), number=st.integers(1, 5), a=st.floats(-1, 3), k=st.integers(1, 40))
def test_what_was_set_is_learned_from_and_not_what_was_asked(seed, number, a, k) -> None:
    study = begun(seed, 5, {})
    study.correct(number, a=a, k=k)
    record = study.record()
    assert record.places()[number] == {"a": a, "k": k}
    unit = DOMAIN.to_unit([dict(record.places()[i]) for i in study._insight.knowledge(record).ids])
    np.testing.assert_array_equal(np.asarray(study.posterior.data.x), unit)
    same(study, told_right(study))


# --- any sequence of changes, and many more examples


CHANGE = st.one_of(
    st.tuples(st.just("correct"), st.integers(1, 7), VALUES),
    st.tuples(st.just("set"), st.integers(1, 7), st.floats(-1, 3)),
    st.tuples(st.just("void"), st.integers(1, 7)),
    st.tuples(st.just("restore"), st.integers(1, 7)),
    st.tuples(st.just("look")),
    st.tuples(st.just("run")),
)


def after(seed: int, changes: list) -> Study:
    study = begun(seed, 5, {})
    for what, *arguments in changes:
        record = study.record()
        queries = {query.id: query for query in record.queries}
        query = queries.get(arguments[0]) if arguments else None
        if what == "run":
            (query,) = study.ask()
            study.tell(query, y=system(query.point))
        elif what == "look":
            if study._insight.can_learn(record):
                study.predict(GRID)
        elif query is None or (query.state == State.VOID) != (what == "restore"):
            continue
        elif what == "void":
            study.void(query)
        elif what == "restore":
            study.restore(query)
        else:
            study.correct(query, **{"y" if what == "correct" else "a": arguments[1]})
    return study


def check_any(seed: int, changes: list) -> None:
    study = after(seed, changes)
    if not study._insight.can_learn(study.record()):
        return
    same(study, told_right(study))
    again = after(seed, changes)
    np.testing.assert_array_equal(again.predict(GRID).means, Study.load("law", study.storage).predict(GRID).means)


@settings(**SHORT)
@given(seed=st.integers(0, 99), changes=st.lists(CHANGE, min_size=2, max_size=8))
def test_any_sequence_of_changes_is_one_that_was_told_right(seed, changes) -> None:
    check_any(seed, changes)


@pytest.mark.long
@settings(**LONG)
@given(seed=st.integers(0, 9999), changes=st.lists(CHANGE, min_size=2, max_size=12))
def test_very_many_sequences_of_changes_are_ones_that_were_told_right(seed, changes) -> None:
    check_any(seed, changes)
