"""A study as its users meet it: what is asked, told, kept, learned and refused."""

from __future__ import annotations

import math
import threading
import time

import numpy as np
import pytest

import hyperleaf as hl
from hyperleaf.config import ConfigError, parse_toml
from hyperleaf.errors import InputError, NotFittedYetError
from hyperleaf.storage import AlreadyToldError, State, StudyExistsError, StudyNotFoundError, UnknownQueryError, open_storage
from hyperleaf.study import Accuracy, ExhaustedError, Study, load_model
from hyperleaf.study.stopping import View, verdicts

DOMAIN = hl.Domain(a=hl.Real(-1, 3), b=hl.Real(10, 1000, log=True))
TREED = {"kind": "treed", "burn_in": 10, "total": 40, "warm_burn_in": 10}  # a real surrogate that needs no compilation


def bowl(a: float, b: float) -> float:
    return (a - 1) ** 2 + math.log10(b)


def make(name: str = "s", storage=None, **options) -> Study:
    settings = {"surrogate": TREED, "acquisition": "variance", "design": 3, "seed": 5, **options}
    return Study.create(name, settings.pop("domain", DOMAIN), settings.pop("outputs", "y"), storage=storage, **settings)


def queries_of(study: Study) -> list[tuple]:
    return [(query.id, dict(query.point), query.origin, query.score) for query in study.record().queries]


# --- asking


def test_the_design_comes_first_then_the_acquisition() -> None:
    study = make()
    for i in range(5):
        (query,) = study.ask()
        assert query.id == i + 1
        assert query.origin == ("design" if i < 3 else "acquisition")
        assert (query.score is None) == (i < 3)
        study.tell(query, y=bowl(**query.point))
    assert len(study.table()) == 5
    assert study.record().epoch == 2  # the design as one group, then one observation; the last was not needed yet


def test_a_query_is_never_given_to_two() -> None:
    study = make()
    first, second = study.ask(2)
    (third,) = study.ask()
    assert len({first.id, second.id, third.id}) == 3
    assert len({tuple(query.point.values()) for query in (first, second, third)}) == 3


def test_more_workers_than_design_points_get_points_too() -> None:
    study = make(design=2)
    asked = study.ask(5)
    assert len({tuple(query.point.values()) for query in asked}) == 5
    assert all(query.origin == "design" for query in asked)


def test_pending_queries_keep_the_next_one_away() -> None:
    study = make(design=4)
    for query in study.ask(4):
        study.tell(query, y=bowl(**query.point))
    asked = study.ask(3)
    unit = DOMAIN.to_unit([dict(query.point) for query in asked])
    gaps = np.linalg.norm(unit[:, None] - unit[None], axis=-1)[~np.eye(3, dtype=bool)]
    assert gaps.min() > 0.05


def test_a_query_that_was_given_back_is_offered_first() -> None:
    study = make()
    first, second = study.ask(2)
    assert study.release(first)
    assert not study.release(first)
    (again,) = study.ask()
    assert (again.id, again.point) == (first.id, first.point)
    assert study.record().queries[1].owner == second.owner


def test_a_query_whose_process_is_gone_is_offered_again(monkeypatch) -> None:
    study = make()
    (query,) = study.ask(owner="elsewhere/1/1")  # another machine: its silence is not old enough
    assert study.ask()[0].id != query.id
    monkeypatch.setattr("hyperleaf.study.asking.is_gone", lambda owner, *_: owner == "elsewhere/1/1")
    (again,) = study.ask()
    assert again.id == query.id
    assert again.owner != query.owner


def test_a_person_may_take_a_week() -> None:
    study = make()
    (query,) = study.ask(owner="person")
    assert study.ask()[0].id != query.id
    assert study.tell(query, y=1.0)


# --- telling


def test_telling_twice_is_once_and_differently_is_refused() -> None:
    study = make()
    (query,) = study.ask()
    assert study.tell(query, y=1.5)
    assert not study.tell(query, {"y": 1.5})
    with pytest.raises(AlreadyToldError):
        study.tell(query, y=1.6)
    assert [one.outputs for one in study.record().observations] == [{"y": 1.5}]


@pytest.mark.parametrize(
    ("outputs", "words"),
    [
        ({}, "the output 'y' is missing"),
        ({"z": 1.0}, "'z' is no output of this study"),
        ({"y": 1.0, "z": 2.0}, "'z' is no output"),
        ({"y": math.nan}, "finite"),
        ({"y": math.inf}, "finite"),
        ({"y": None}, "must be a number"),
        ({"y": "abc"}, "number"),
        ({"y": True}, "must be a number"),
        ({"y": 1e155}, r"between 1e-140 and 1e\+140.*got 1e\+155.*another unit or its logarithm"),
        ({"y": -1e155}, r"got -1e\+155"),
        ({"y": "1e-300"}, r"got 1e-300.*or 0 where it stands for nothing"),
        ({"y": 5e-324}, "got 4.94.*e-324"),
    ],
)
def test_outputs_that_cannot_be_are_refused(outputs, words) -> None:
    study = make()
    (query,) = study.ask()
    with pytest.raises(InputError, match=words):
        study.tell(query, outputs)
    assert not study.record().observations


@pytest.mark.parametrize("query", [99, 0, -1])
def test_an_unknown_query_is_refused(query) -> None:
    with pytest.raises(UnknownQueryError):
        make().tell(query, y=1.0)


@pytest.mark.parametrize("query", ["1", 1.0, True, None])
def test_what_is_no_query_is_refused(query) -> None:
    with pytest.raises(InputError, match="must be a Query or its number"):
        make().tell(query, y=1.0)


def test_a_failure_is_repeated_as_often_as_configured() -> None:
    study = make(failures={"retries": 2})
    (query,) = study.ask()
    for attempt in (1, 2, 3):
        if attempt > 1:
            (query,) = study.ask()
        assert (query.id, query.attempt) == (1, attempt)
        assert study.tell_failed(query, "mesh did not converge")
    stored = study.record().queries[0]
    assert (stored.state, stored.reason) == (State.FAILED, "mesh did not converge")
    assert not study.tell_failed(query, "mesh did not converge", retry=False)
    assert study.ask()[0].id == 2


def test_a_failed_query_can_still_be_told() -> None:
    study = make()
    (query,) = study.ask()
    study.tell_failed(query, "out of memory")
    assert study.tell(query, y=2.0)
    assert study.record().queries[0].state == State.DONE


def test_outputs_at_the_ends_of_what_can_be_squared_are_learned_from() -> None:
    for unit in (1e139, 1e-139):
        study = make()
        for query in study.ask(4):
            study.tell(query, y=unit * bowl(**query.point))
        (query,) = study.ask()
        assert query.origin == "acquisition" and query.score is not None
        one = study.accuracy()["y"]
        assert all(math.isfinite(figure) for figure in vars(one).values() if figure is not None)
        assert 0.01 * unit < one.trusted_rmse < 100 * unit
        study.tell(query, y=0.0)


def test_a_run_whose_output_cannot_be_squared_has_failed_with_the_reason() -> None:
    study = make(failures={"limit": 2})
    study.run(lambda a, b: 1e200, queries=2)
    assert all("another unit" in reason for reason in study.table()["reason"])


def test_failures_are_avoided_nearby() -> None:
    domain = hl.Domain(a=hl.Real(0, 1), b=hl.Real(0, 1))
    study = make(domain=domain, design=12)
    for query in study.ask(12):
        if query.point["a"] > 0.5:
            study.tell_failed(query, "crashed")
        else:
            study.tell(query, y=query.point["b"])
    probability = study.feasibility([{"a": 0.1, "b": 0.5}, {"a": 0.9, "b": 0.5}])
    assert probability[0] > 0.7
    assert probability[1] < 0.3
    careful = [query.point["a"] for query in study.ask(4)]
    assert np.mean(np.array(careful) < 0.6) >= 0.75


# --- data from elsewhere


def test_a_sign_of_life_comes_while_a_run_takes_its_time(monkeypatch) -> None:
    monkeypatch.setattr("hyperleaf.study.owners.HEARTBEAT", 0.02)
    study = make()
    seen = []

    def slow(a: float, b: float) -> float:
        for _ in range(2):
            time.sleep(0.2)
            seen.append(study.record().queries[-1].heartbeat)
        return a

    study.run(slow, queries=1)
    assert seen[1] > seen[0]
    assert not [thread for thread in threading.enumerate() if thread.name == "hyperleaf-heartbeat"]  # and none after the run


def test_more_workers_than_outputs_a_surrogate_needs() -> None:
    """A deep GP needs two outputs; with one told and all of the design given out, the next query is drawn blindly."""
    deep = {"kind": "deep", "sweeps": 20, "draws": 5}
    study = make(surrogate=deep, design=2)
    first, second = study.ask(2)
    study.tell(first, y=1.0)
    (third,) = study.ask()
    assert third.origin == "design" and dict(third.point) not in (dict(first.point), dict(second.point))
    with pytest.raises(NotFittedYetError, match="needs 2"):
        study.predict([{"a": 0, "b": 10}])
    study.tell(second, y=2.0)
    assert study.ask()[0].origin == "acquisition"


def test_added_runs_are_learned_from_and_count_as_design() -> None:
    study = make(design=3)
    table = [{"a": 0.0, "b": 10.0, "y": 2.0}, {"a": 1.0, "b": 100.0, "y": 2.0}, {"a": 2.0, "b": 1000.0, "y": 4.0}]
    added = study.add(table, note="from last year")
    assert [query.state for query in added] == [State.DONE] * 3
    assert study.ask()[0].origin == "acquisition"
    assert set(study.table()["origin"]) == {"added", "acquisition"}


def test_a_wrong_row_adds_nothing() -> None:
    study = make()
    for bad in ({"a": 9.0, "b": 10.0, "y": 1.0}, {"a": 0.0, "b": 10.0, "y": math.nan}, {"a": 0.0, "y": 1.0}):
        with pytest.raises(InputError):
            study.add([{"a": 0.0, "b": 10.0, "y": 2.0}, bad])
    with pytest.raises(InputError, match="at least one row"):
        study.add([])
    assert not study.record().queries


# --- a pool


def test_a_pool_is_asked_row_by_row_until_nothing_is_left() -> None:
    pool = [{"a": float(i), "b": 100.0} for i in (-1, 0, 1, 2, 3)]
    study = make(pool=pool, design=2)
    stopped = study.run(bowl, queries=50)
    assert stopped.rule == "exhausted"
    indices = [query.index for query in study.record().queries]
    assert sorted(indices) == [0, 1, 2, 3, 4]
    assert all(dict(query.point) == pool[query.index] for query in study.record().queries)
    with pytest.raises(ExhaustedError):
        study.ask()


def test_a_design_larger_than_the_pool_asks_each_row_once() -> None:
    pool = [{"a": float(a), "b": 100.0} for a in (-1, 0, 1, 2, 3, 2.5)]
    study = make(pool=pool, design=10)
    with pytest.raises(ExhaustedError):
        study.ask(9)
    assert sorted(query.index for query in study.ask(6)) == [0, 1, 2, 3, 4, 5]


def test_a_batch_that_ends_the_design_and_goes_on_has_no_row_twice() -> None:
    pool = [{"a": a, "b": 100.0} for a in np.linspace(-1, 3, 9).tolist()]
    study = make(pool=pool, design=4)
    for query in study.ask(3):
        study.tell(query, y=bowl(**query.point))
    batch = study.ask(6)
    assert [query.origin for query in batch] == ["design"] + 5 * ["acquisition"]
    assert len({query.index for query in study.record().queries}) == 9


def test_a_query_is_not_held_by_somebody_who_was_not_given_it() -> None:
    study = make(pool=[{"a": float(a), "b": 100.0} for a in (0, 1, 2)], design=3)
    queries = study.ask(3)
    study.tell(queries[0], y=1.0)
    study.release(queries[1])
    with pytest.raises(ExhaustedError):
        study.ask(2, owner="person")  # one is there, two are not
    assert study.record().queries[1].state == State.WAITING


def test_a_finite_domain_that_is_used_up_ends_a_run(monkeypatch) -> None:
    monkeypatch.setattr("hyperleaf.suggestion._noise", lambda posterior: 0.0)  # or it would measure them again
    stopped = make(domain=hl.Domain(k=hl.Integer(1, 4)), design=3).run(lambda k: float(k), queries=9)
    assert stopped.rule == "exhausted" and stopped.num_done == 4


def test_the_expected_error_of_a_pool_is_that_of_all_its_candidates() -> None:
    pool = [{"a": a, "b": b} for a in np.linspace(-1, 3, 12).tolist() for b in (10.0, 100.0, 1000.0)]
    study = make(pool=pool)
    study.run(bowl, queries=5)
    spread = study.predict(pool).std()
    assert study.accuracy()["y"].expected_rmse == pytest.approx(np.sqrt(np.mean(spread**2)))


def test_a_large_pool_is_thinned_from_end_to_end(monkeypatch) -> None:
    monkeypatch.setattr("hyperleaf.study.insight.WHOLE", 20)
    monkeypatch.setattr("hyperleaf.study.insight.NUM_REFERENCES", 7)
    study = make(pool=[{"a": a, "b": 100.0} for a in np.linspace(-1, 3, 37).tolist()])
    np.testing.assert_array_equal(study._insight.references(), study.pool.unit[[0, 6, 12, 18, 24, 30, 36]])


# --- what was learned


def test_nothing_is_known_before_anything_was_told() -> None:
    study = make()
    with pytest.raises(NotFittedYetError):
        study.predict([{"a": 0, "b": 10}])
    assert study.table().empty
    assert study.status().num_observations == 0


def test_looking_does_not_change_what_comes_next() -> None:
    curious, plain = make(), make()
    for study in (curious, plain):
        for query in study.ask(3):
            study.tell(query, y=bowl(**query.point))
            if study is curious:
                study.predict([{"a": 0.0, "b": 10.0}])
                study.accuracy()
    assert queries_of(curious) == queries_of(plain)
    assert curious.ask()[0].point == plain.ask()[0].point


def test_a_saved_surrogate_predicts_the_same_without_the_study(tmp_path) -> None:
    study = make()
    study.run(bowl, queries=5)
    points = [{"a": 0.5, "b": 50.0}, {"a": 2.5, "b": 800.0}]
    model = load_model(study.save_model(tmp_path / "model.npz"))
    assert model.output == "y"
    np.testing.assert_array_equal(model.predict(points).mean(), study.predict(points).mean())
    np.testing.assert_array_equal(model.predict(points, noisy=True).std(), study.predict(points, noisy=True).std())


def test_several_outputs_are_told_at_once_and_weighed() -> None:
    def both(a: float, b: float) -> dict[str, float]:
        return {"left": math.exp(-20 * (a + 0.5) ** 2), "right": math.exp(-20 * (a - 2.5) ** 2)}

    study = make(outputs={"left": {"weight": 1.0}, "right": {"weight": 0.0}}, design=6)
    study.run(both, queries=8)
    assert set(study.models) == {"left", "right"}
    only_left = [query.score for query in study.record().queries[6:]]
    other = make("t", outputs={"left": {"weight": 0.0}, "right": {"weight": 1.0}}, design=6)
    other.run(both, queries=8)
    assert only_left != [query.score for query in other.record().queries[6:]]
    assert other.record().queries[:6][0].point == study.record().queries[:6][0].point
    with pytest.raises(InputError, match="one of"):
        study.predict([{"a": 0, "b": 10}], output="middle")


def test_accuracy_is_kept_for_every_number_of_observations() -> None:
    test = [{"a": a, "b": 100.0, "y": bowl(a, 100.0)} for a in np.linspace(-1, 3, 9)]
    study = make(test=test)
    study.run(bowl, queries=6)
    metrics = study.metrics()
    assert metrics["num_observations"].tolist() == [3, 4, 5, 6]
    assert np.isfinite(metrics[["expected_rmse", "loo_rmse", "calibration", "test_rmse", "test_nlpd"]]).all(axis=None)
    assert ((metrics["loo_coverage"] >= 0) & (metrics["loo_coverage"] <= 1)).all()
    predicted = study.predict([{"a": row["a"], "b": row["b"]} for row in test]).mean()
    expected = np.sqrt(np.mean((predicted - [row["y"] for row in test]) ** 2))
    assert metrics["test_rmse"].iloc[-1] == pytest.approx(expected, rel=1e-9)


# --- replay


def test_a_study_goes_on_after_a_restart_as_if_nothing_had_happened(tmp_path) -> None:
    whole = make()
    whole.run(bowl, queries=6)
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    make(storage=url).run(bowl, queries=3)
    for more in (1, 2):
        Study.load("s", url).run(bowl, queries=more)
    again = Study.load(storage=url)
    assert queries_of(again) == queries_of(whole)
    points = [{"a": 0.3, "b": 30.0}]
    np.testing.assert_array_equal(again.predict(points).means, whole.predict(points).means)


def test_a_lost_memory_is_learned_again(tmp_path) -> None:
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    study = make(storage=url)
    study.run(bowl, queries=6)
    study.storage.put_artifact("s", "learned", b"what another version wrote")
    again = Study.load("s", url)
    points = [{"a": 0.3, "b": 30.0}]
    np.testing.assert_array_equal(again.predict(points).means, study.predict(points).means)


# --- stopping


def test_the_number_of_queries_counts_all_finished_runs() -> None:
    study = make(stop={"queries": 6})
    stopped = study.run(bowl)
    assert (stopped.rule, stopped.num_done) == ("queries", 6)
    assert study.run(bowl).num_done == 6  # nothing more to do


def test_time_ends_a_run() -> None:
    ticks = iter(range(1000))

    def slow(a: float, b: float) -> float:
        import time

        next(ticks)
        time.sleep(0.05)
        return a

    stopped = make(stop={"time": 0.2}).run(slow)
    assert stopped.rule == "time"


def test_failures_in_a_row_end_a_run() -> None:
    def broken(a: float, b: float) -> float:
        raise RuntimeError("licence server is down")

    study = make(stop={"queries": 50}, failures={"limit": 4})
    stopped = study.run(broken)
    assert (stopped.rule, stopped.num_failed) == ("failures", 4)
    assert "licence server is down" in study.table()["reason"].iloc[0]


def test_a_small_expected_error_ends_a_run_and_a_large_one_does_not() -> None:
    loose = make(design=4, stop={"queries": 25, "rmse": 100.0}).run(bowl)
    strict = make(design=4, stop={"queries": 10, "rmse": 1e-9}).run(bowl)
    assert (loose.rule, loose.num_done) == ("rmse", 10)  # the tenth was asked with what nine had taught
    assert strict.rule == "queries"


def test_stagnation_ends_a_run() -> None:
    rng = np.random.default_rng(0)
    stopped = make(stop={"queries": 60, "stagnation": 5}).run(lambda a, b: float(rng.normal()))
    assert stopped.rule == "stagnation"
    assert stopped.num_done < 60


def test_rules_judge_what_was_learned_and_not_what_was_merely_added() -> None:
    study = make(stop={"rmse": 0.5, "stagnation": 3, "queries": 99})
    flat = Accuracy(expected_rmse=1e-6, trusted_rmse=1e-6, scale=1.0)
    after = {rule.rule: rule for rule in verdicts(View(study.definition, 33, history=[(3, {"y": flat})]))}
    assert not after["rmse"].met and not after["stagnation"].met
    after = {rule.rule: rule for rule in verdicts(View(study.definition, 33, history=[(3, {"y": flat}), (33, {"y": flat})]))}
    assert after["rmse"].met and after["stagnation"].met


def test_a_relative_error_is_relative_to_the_spread_of_the_outputs() -> None:
    study = make(design=1)
    (query,) = study.ask()
    study.tell(query, y=1000.0)
    study.ask()  # learns from this one alone
    study.add([{"a": float(i % 4) - 1, "b": 10.0 + i, "y": 1000.0 + i % 3} for i in range(9)])
    y = [observation.outputs["y"] for observation in study.record().observations]
    assert study.accuracy()["y"].scale == pytest.approx(np.std(y))
    given = make(outputs={"y": {"range": [0.0, 40.0]}})
    given.add([{"a": float(i), "b": 10.0, "y": 1.0 + i} for i in range(3)])
    assert given.accuracy()["y"].scale == pytest.approx(10.0)


@pytest.mark.parametrize("stop", [{"querys": 5}, {"queries": 0}, {"rmse": {"typo": 0.1}}])
def test_a_stop_rule_that_is_none_is_refused_at_once(stop) -> None:
    with pytest.raises(ConfigError, match=r"querys|queries|typo"):
        make().run(bowl, stop=stop)


def test_a_run_needs_an_end_and_a_simulator() -> None:
    with pytest.raises(InputError, match="needs an end"):
        make().run(bowl)
    with pytest.raises(InputError, match="needs a simulator"):
        make().run(queries=1)


def test_an_interrupt_gives_back_what_was_running() -> None:
    study = make()

    def interrupted(a: float, b: float) -> float:
        if len(study.record().queries) == 3:
            raise KeyboardInterrupt
        return a

    stopped = study.run(interrupted, queries=5)
    assert stopped.rule == "interrupted"
    assert [query.state for query in study.record().queries] == [State.DONE, State.DONE, State.WAITING]
    assert study.run(bowl, queries=1).num_done == 3
    assert len(study.record().queries) == 3


def test_events_tell_what_happens() -> None:
    events = []
    make().run(bowl, queries=4, progress=events.append)
    assert [event.kind for event in events] == ["asked", "told"] * 4 + ["stopped"]
    assert events[-1].seconds["all"] > 0
    assert events[-1].num_done == 4


def test_workers_run_side_by_side() -> None:
    study = make(design=4)
    stopped = study.run(bowl, queries=8, jobs="threads:3")
    assert stopped.num_done == 8
    assert sorted(query.id for query in study.record().queries) == list(range(1, 9))


# --- definitions


TOML = """
[study]
name = "t"
seed = 5
[inputs]
a = {{ low = -1.0, high = 3.0 }}
b = {{ low = 10.0, high = 1000.0, log = true }}
[outputs]
y = {{}}
[surrogate]
kind = "treed"
total = {total}
burn_in = 10
[stop]
queries = {queries}
"""


def test_a_config_makes_a_study_once_and_finds_it_again() -> None:
    store = open_storage(None)
    first = Study.define(parse_toml(TOML.format(total=40, queries=5)), storage=store)
    first.run(bowl)
    again = Study.define(parse_toml(TOML.format(total=40, queries=7)), storage=store)
    assert again.definition.stop.queries == 7  # may change
    assert again.run(bowl).num_done == 7
    with pytest.raises(ConfigError, match=r"\[surrogate\].*differs"):
        Study.define(parse_toml(TOML.format(total=50, queries=7)), storage=store)


def test_a_config_may_change_until_something_was_asked() -> None:
    store = open_storage(None)
    first = Study.define(parse_toml(TOML.format(total=40, queries=5)), storage=store)
    again = Study.define(parse_toml(TOML.format(total=50, queries=5)), storage=store)
    assert again.definition.surrogate.options["total"] == 50 != first.definition.surrogate.options["total"]
    again.ask()
    with pytest.raises(ConfigError, match=r"\[surrogate\].*differs"):
        Study.define(parse_toml(TOML.format(total=60, queries=5)), storage=store)


def test_a_study_of_python_goes_on_from_a_file_with_the_same_constraints() -> None:
    store = open_storage(None)
    domain = hl.Domain(DOMAIN.axes, constraints=["a < 2"])
    surrogate = {"kind": "treed", "total": 40, "burn_in": 10}
    begun = Study.create("t", domain, "y", storage=store, seed=5, surrogate=surrogate)
    begun.ask()
    text = TOML.format(total=40, queries=5).replace("seed = 5", 'seed = 5\nconstraints = ["a < 2"]')
    assert len(Study.define(parse_toml(text), storage=store).record().queries) == 1
    with pytest.raises(ConfigError, match=r"\[inputs\].*differs"):
        Study.define(parse_toml(text.replace("a < 2", "a < 1")), storage=store)


def test_two_processes_may_begin_a_study_at_the_same_moment(monkeypatch) -> None:
    store = open_storage(None)
    first = Study.define(parse_toml(TOML.format(total=40, queries=5)), storage=store)
    first.ask()
    monkeypatch.setattr(store, "study_names", lambda: ())  # as the second saw it just before
    assert len(Study.define(parse_toml(TOML.format(total=40, queries=5)), storage=store).record().queries) == 1


def test_a_search_that_is_none_is_refused_before_anything_is_run() -> None:
    with pytest.raises(InputError, match="optimizer must be one of"):
        make(acquisition={"kind": "variance", "optimizer": "foo"})


def test_names_of_studies() -> None:
    store = open_storage(None)
    make("one", store)
    with pytest.raises(StudyExistsError):
        make("one", store)
    assert Study.load(storage=store).name == "one"
    make("two", store)
    with pytest.raises(StudyNotFoundError, match="exactly one"):
        Study.load(storage=store)
    with pytest.raises(StudyNotFoundError):
        Study.load("three", store)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"surrogate": "hkk"}, "surrogate.kind"),
        ({"surrogate": {"kind": "hhk", "leafs": 4}}, "did you mean 'leaves'"),
        ({"surrogate": {"kind": "stationary", "inference": "nutz"}}, "Did you mean 'nuts'"),
        ({"surrogate": {"kind": "treed"}, "outputs": {"y": {"noise": 0.1}}}, "learns its noise"),
        ({"acquisition": "entropi"}, "entropy"),
        ({"design": 0}, "design.size"),
        ({"stop": {"querys": 5}}, "did you mean 'queries'"),
        ({"stop": {"rmse": {"z": 1.0}}}, "no output"),
        ({"failures": {"retries": -1}}, "failures.retries"),
        ({"outputs": []}, "at least one output"),
        ({"outputs": "a"}, "different names"),
        ({"outputs": "id"}, "column of the table"),
        ({"outputs": "a b"}, "Python name"),
        ({"outputs": {"y": {"weight": 0.0}}}, "weight > 0"),
        ({"outputs": {"y": {"range": [2, 1]}}}, "low < high"),
        ({"domain": "abc"}, "must be a Domain"),
        ({"seed": -1}, "study.seed"),
        ({"pool": [{"a": 99.0, "b": 100.0}]}, "99"),
        ({"test": [{"a": 0.0, "b": 100.0}]}, "missing"),
    ],
)
def test_what_cannot_be_a_study_is_refused_with_the_reason(options, words) -> None:
    store = open_storage(None)
    with pytest.raises(InputError, match=words):
        make(storage=store, **options)
    assert store.study_names() == ()


def test_a_draw_that_an_observation_ruled_out_does_not_speak_for_it() -> None:
    from hyperleaf.data import Dataset
    from hyperleaf.mixture import Mixture
    from hyperleaf.surrogates import base

    class Posterior(base.Posterior):
        data = Dataset(np.array([[0.1], [0.5], [0.9]]), np.array([0.0, 1.0, 0.0]))
        joint = update = None

        def predict(self, x):
            means = np.array([[0.0, 0.5, 0.0], [0.0, 0.9, 0.0], [0.0, 0.95, 0.0]])
            return Mixture([0.0, 0.5, 0.5], means, np.full((3, 3), [[1e-6], [0.01], [0.01]]), np.array([1e-5, 0.02, 0.02]))

    left_out = Posterior().left_out()
    assert np.isfinite(left_out.means).all() and (np.asarray(left_out.variances) > 1e-3).all()


def test_leave_one_out_equals_refits_without_each_observation() -> None:
    """One draw, fixed parameters: predicting each observation from the others by refitting must agree."""
    import jax
    import numpyro.distributions as dist

    from hyperleaf.data import Dataset
    from hyperleaf.inference.map import Map
    from hyperleaf.kernels import RBF
    from hyperleaf.surrogates.gp import surrogate

    rng = np.random.default_rng(1)
    x, noise = rng.random((9, 2)), 0.05 * np.ones(9)
    y = np.sin(5 * x[:, 0]) + 0.2 * rng.normal(size=9)
    variance = dist.LogNormal(np.log(1.3), 1e-7)  # as good as fixed, but something must be left to learn
    model = surrogate(RBF(np.array([0.3, 0.6]), variance), noise="known", inference=Map(restarts=1))
    posterior = model.fit(Dataset(x, y, noise), key=jax.random.key(0))
    # known noise that is the same everywhere is that of the next observation too; noise that differs says nothing of it
    assert posterior.noise() == pytest.approx(0.05)
    assert posterior.predict(x).noisy().var() == pytest.approx(posterior.predict(x).var() + 0.05)
    assert model.fit(Dataset(x, y, noise * np.linspace(1, 2, 9)), key=jax.random.key(0)).noise() == 0.0
    whole = posterior.left_out()
    for i in range(9):
        rest = np.arange(9) != i
        fit = model.fit(Dataset(x[rest], y[rest], noise[rest]), key=jax.random.key(0)).predict(x[[i]])
        assert whole.mean()[i] == pytest.approx(fit.mean()[0], rel=1e-6, abs=1e-8)
        assert whole.var()[i] == pytest.approx(fit.var()[0] + noise[i], rel=1e-6)


def test_a_snapshot_is_one_moment_and_taking_it_writes_nothing(tmp_path) -> None:
    study = make(storage=f"sqlite:///{tmp_path / 'a.db'}")
    study.run(bowl, queries=5)
    query = study.ask()[0]
    before = study.snapshot()
    content = (study.storage.read(study.name), study.storage.metrics(study.name), study.storage.artifact(study.name, "learned"))
    study.tell(query, y=bowl(**query.point))
    assert before.counts["running"] == 1 and before.num_done == 5 and not before.models
    other = Study.load(storage=f"sqlite:///{tmp_path / 'a.db'}")
    told = (other.storage.read(study.name), *content[1:])
    learned = other.snapshot(learn=True)
    other.accuracy(), other.predict([{"a": 0.0, "b": 10.0}]), other.status(), other.report(tmp_path / "r.html")
    found = (other.storage.read(study.name), other.storage.metrics(study.name), other.storage.artifact(study.name, "learned"))
    assert found == told
    assert list(learned.models) == ["y"] and learned.history[-1][0] == 6 == learned.num_done
    assert learned.accuracy["y"] == other.accuracy()["y"]
    assert learned.status().accuracy == learned.accuracy
