"""Limits on outputs: their probability, what may be asked, the held rate, ramps, and what is said to those who get them wrong."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import textwrap
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import hyperleaf as hl
from hyperleaf import doors
from hyperleaf.acquisition import Admission, Limit, all_hold, resolved
from hyperleaf.acquisition.limits import from_ways
from hyperleaf.config import ConfigError, parse_toml
from hyperleaf.data import Pool
from hyperleaf.errors import InadmissibleError, InputError
from hyperleaf.mixture import Mixture
from hyperleaf.optimize import Outwards, Problem
from hyperleaf.study import Study
from hyperleaf.study.admitting import admission_now, check_limits, ramp_of, shortest_way
from hyperleaf.study.learning import Learner
from hyperleaf.study.limits import foreseen, foresight, held_risk, kept_so_far, rate_interval
from hyperleaf.surrogates.base import Surrogate
from hyperleaf.surrogates.kinds import KINDS, Kind
from hyperleaf.surrogates.named import make_surrogate

sys.path.insert(0, str(Path(__file__).parents[1]))
from reference_posterior import ReferencePosterior

NUM = 64
BOX = hl.Domain(a=hl.Real(0, 10), b=hl.Real(0, 1))
START = [{"a": 1.0, "b": 0.2}, {"a": 2.0, "b": 0.2}, {"a": 1.0, "b": 0.5}]


@dataclass(frozen=True)
class Plain(Surrogate):
    """Stationary GPs with fixed parameters: limits are what is tested, and not learning."""

    noise: str = "learned"

    def fit(self, data, *, key):
        lengths = np.exp(np.random.default_rng(0).normal(np.log(0.5), 0.3, NUM))
        noise = np.full(NUM, 1e-6 if self.noise == "none" else 1e-3)
        return PlainPosterior(data, lengths, np.full(NUM, 1.0), noise, np.full(NUM, 1 / NUM))


@dataclass(frozen=True)
class PlainPosterior(ReferencePosterior):
    surrogate = Plain()

    def predict(self, x):
        x = np.asarray(x)
        gram = self.kernel(self.data.x, self.data.x) + self.noise[:, None, None] * np.eye(len(self.data.x))
        factor, cross = np.linalg.cholesky(gram), self.kernel(self.data.x, x)
        half, white = np.linalg.solve(factor, cross), np.linalg.solve(factor, np.tile(self.data.y[:, None], (NUM, 1, 1)))
        means, var = np.sum(half * white, axis=1), self.variances[:, None] - np.sum(half**2, axis=1)
        return Mixture(self.weights, means, np.maximum(var, 0.0), self.noise)

    def left_out(self):
        return None


@dataclass(frozen=True)
class PlainKind(Kind):
    def builder(self):
        return lambda d, noise, **options: Plain(noise)


@pytest.fixture(autouse=True)
def plain(monkeypatch):
    """The surrogate of this file, by its name."""
    kind = PlainKind("plain", "plain", "", "", tellable=True, variances=True, evidence=False, updates="")
    monkeypatch.setitem(doors.opened, "rivals", lambda: {"plain": kind})
    monkeypatch.setattr(Learner, "save", lambda self: None)  # it has no tag, and what was learned is only a cache
    assert "plain" not in KINDS


def candidates(num: int = 150) -> Pool:
    rows = np.random.default_rng(0).random((num, 2))
    return Pool([*START, {"a": 3.0, "b": 0.2}, *({"a": 10 * a, "b": b} for a, b in rows)], BOX)


def make(**options) -> Study:
    """A study with a pool, which is quick; `pool=None` searches the domain."""
    settings = {
        "pool": candidates(),
        "surrogate": "plain",
        "acquisition": "variance",
        "limits": {"t": {"max": 60}},
        "safety": {"start": START},
        **options,
    }
    name, domain, outputs = settings.pop("name", "s"), settings.pop("domain", BOX), settings.pop("outputs", {"y": {}, "t": {}})
    return Study.create(name, domain, outputs, **settings)


def rig(a: float, b: float) -> dict[str, float]:
    return {"y": math.sin(a) + b, "t": 10 * a * (0.5 + b)}


def answer(study: Study, num: int) -> list:
    queries = []
    for _ in range(num):
        (query,) = study.ask()
        study.tell(query, rig(**query.point))
        queries.append(query)
    return queries


# --- the probability that limits hold


def by_counting(mixtures, limits, shared: bool) -> np.ndarray:
    """The joint probability by drawing parameters, then outputs: an independent way to the same number."""
    rng, num = np.random.default_rng(1), 200_000
    hold = np.ones((num, mixtures[0].num_candidates), dtype=bool)
    picks = rng.choice(mixtures[0].num_draws, num, p=mixtures[0].weights)
    for mixture, limit in zip(mixtures, limits, strict=True):
        own = picks if shared else rng.choice(mixture.num_draws, num, p=mixture.weights)
        y = mixture.means[own] + np.sqrt(mixture.variances[own]) * rng.standard_normal((num, mixture.num_candidates))
        hold &= (limit.low <= y) & (y <= limit.high)
    return hold.mean(axis=0)


@pytest.mark.parametrize("shared", [False, True])
def test_the_joint_probability_is_that_of_counting(shared) -> None:
    rng = np.random.default_rng(0)
    weights = rng.dirichlet(np.ones(5))
    one = Mixture(weights, rng.normal(size=(5, 4)), rng.uniform(0.1, 1, (5, 4)))
    two = Mixture(weights, rng.normal(size=(5, 4)), rng.uniform(0.1, 1, (5, 4)))
    limits = [Limit(high=0.7), Limit(low=-1.0, high=1.2)]
    found = all_hold([(one, limits[0]), (two, limits[1])], shared=shared)
    counted = by_counting([one, two], limits, shared)
    assert found == pytest.approx(counted, abs=4 * 0.5 / np.sqrt(200_000))
    other = all_hold([(one, limits[0]), (two, limits[1])], shared=not shared)
    assert np.abs(found - other).max() > 0.01  # the two cases differ, so that the test can tell them apart


def test_the_tail_is_the_mixtures_own_and_not_that_of_its_moments() -> None:
    """One draw of twenty sees danger: its weight is the risk, which a Gaussian of the same moments states four times too high or
    low, as the limit lies."""
    weights = np.full(20, 0.05)
    means = np.zeros((20, 1))
    means[0] = 10.0
    mixture = Mixture(weights, means, np.full((20, 1), 0.01))
    assert 1 - Limit(high=5.0).holds(mixture)[0] == pytest.approx(0.05, abs=1e-12)
    std = float(mixture.std()[0])
    gaussian = 0.5 * math.erfc((5.0 - float(mixture.mean()[0])) / std / math.sqrt(2))
    assert gaussian < 0.025


def test_far_tails_keep_their_digits() -> None:
    mixture = Mixture(np.ones(1), np.array([[0.0]]), np.array([[1.0]]))
    exact = 0.5 * (math.erfc(9 / math.sqrt(2)) - math.erfc(10 / math.sqrt(2)))
    assert Limit(low=9.0, high=10.0).holds(mixture)[0] == pytest.approx(exact, rel=1e-9, abs=0)


def test_so_few_draws_resolve_no_smaller_risk() -> None:
    assert resolved(0.05, 60) and not resolved(0.05, 59)
    # the rule: a danger of mass r is missed by n draws with probability (1 − r)ⁿ, which at r = 3/n is one twentieth
    assert pytest.approx(0.05, abs=0.005) == (1 - 3 / 60) ** 60


@pytest.mark.parametrize(("low", "high"), [(1.0, 1.0), (2.0, 1.0), (-math.inf, math.inf)])
def test_a_limit_that_nothing_keeps_is_refused(low, high) -> None:
    with pytest.raises(InputError, match="low < high"):
        Limit(low, high)


# --- the held rate


def test_the_held_risk_follows_the_rule_of_online_conformal_control() -> None:
    assert held_risk([], 0.1) == [0.1]
    assert held_risk([False, False], 0.1) == [0.1, 0.1, 0.1]  # luck is not spent
    risks = held_risk([True, False, False], 0.1)
    assert risks == pytest.approx([0.1, 0.1 - 0.1 * 0.9, 0.02, 0.03])


def test_whatever_a_model_believes_the_rate_is_held() -> None:
    """Against an adversary that breaks a limit whenever it may: the bound of the docstring, and below 2a after 60 runs."""
    for risk, num in ((0.05, 60), (0.05, 500), (0.1, 60)):
        violations: list[bool] = []
        while len(violations) < num:
            violations.append(held_risk(violations, risk)[-1] > 0)
        last = held_risk(violations, risk)[-1]
        rate = sum(violations) / num
        assert rate <= risk + (risk - last) / (risk * num) + 1e-12
        assert rate < 2 * risk
    assert sum(violations) >= 5  # it did break some


def test_the_interval_of_a_rate_covers_it() -> None:
    low, high = rate_interval(3, 60)
    binomial = [math.comb(60, k) for k in range(61)]
    at_least = sum(binomial[k] * low**k * (1 - low) ** (60 - k) for k in range(3, 61))
    at_most = sum(binomial[k] * high**k * (1 - high) ** (60 - k) for k in range(4))
    assert at_least == pytest.approx(0.05, abs=1e-9) and at_most == pytest.approx(0.05, abs=1e-9)
    assert rate_interval(0, 5)[0] == 0.0 and rate_interval(5, 5)[1] == 1.0


# --- what may be asked


def admission(risk: float, probability=None, **options) -> Admission:
    return Admission(probability or (lambda unit: 1.0 - 0.1 * unit[:, 0]), 0.05, risk, **options)


def test_with_risk_left_what_is_sure_enough_is_admitted() -> None:
    unit = np.array([[0.1, 0.5], [0.49, 0.5], [0.51, 0.5]])
    assert admission(0.05).admits(unit).tolist() == [True, True, False]
    assert admission(0.02).admits(unit).tolist() == [True, False, False]


def test_with_nothing_left_to_risk_only_the_neighbourhood_of_safe_runs_is() -> None:
    kept, broken = np.array([[0.2, 0.5]]), np.array([[0.24, 0.5]])
    unit = np.array([[0.2, 0.51], [0.2, 0.6], [0.21, 0.5], [0.217, 0.5], [0.6, 0.5]])
    careful = admission(-0.01, kept=kept, broken=broken)
    assert careful.admits(unit).tolist() == [True, False, True, False, False]
    assert not admission(0.0).admits(unit).any()  # no run kept the limits: nothing is
    coarse = np.array([[0.1, 0.5], [0.9, 0.5], [0.3, 0.9]])
    far = admission(-0.01, kept=kept, broken=coarse[1:2])
    assert not far.admits(coarse).any()
    assert far.among(coarse, far.probability(coarse)).tolist() == [True, False, False]  # a pool has nothing nearer


def test_the_way_between_two_safe_runs_counts_as_their_neighbourhood() -> None:
    rng = np.random.default_rng(0)
    kept, unit = rng.random((5, 3)), rng.random((40, 3))
    steps = np.linspace(0, 1, 2001)[:, None]
    ways = np.concatenate([a + steps * (b - a) for a in kept for b in kept])  # with five, all are neighbours
    plain = np.array([np.linalg.norm(ways - row, axis=1).min() for row in unit])
    assert from_ways(kept, unit) == pytest.approx(plain, abs=1e-5)
    careful = admission(0.0, kept=np.array([[0.1, 0.2], [0.4, 0.2]]), broken=np.array([[0.25, 0.4]]))
    rows = np.array([[0.25, 0.22], [0.25, 0.28], [0.49, 0.2]])
    assert careful.admits(rows).tolist() == [True, False, False]


def test_open_queries_count_for_what_they_risk() -> None:
    before = admission(0.05, debit=0.05)
    after = before.after(np.array([0.4, 0.5]))
    assert after.risk == pytest.approx(0.05 - 0.05 * 0.04)
    assert after.last.tolist() == [0.4, 0.5]


def test_a_search_stays_among_what_is_admitted_and_finds_a_small_corner() -> None:
    kept = np.array([[0.9, 0.9, 0.9, 0.9, 0.9, 0.9]])
    sure = Admission(lambda unit: np.where((np.abs(unit - 0.9) < 0.05).all(axis=1), 1.0, 0.0), 0.05, 0.05, kept=kept)
    domain = hl.Domain({f"x{i}": hl.Real(0, 1) for i in range(6)})
    trials = Outwards(sure.admits, kept).search(Problem(domain, lambda unit: unit[:, 0], None, 0))
    assert len(trials.unit) and sure.admits(trials.unit).all()
    assert 0.93 < trials.best(1).scores[0] < 0.95


# --- ramps and the order of a batch


def test_ramps_are_boxes_in_native_steps() -> None:
    domain = hl.Domain(n=hl.Integer(0, 100), p=hl.Real(1, 100, log=True), kind=hl.Choice("u", "v"))
    definition = SimpleNamespace(safety=SimpleNamespace(ramps={"n": 7.5, "p": 9.0}))
    ramp = ramp_of(definition, domain)
    (here,) = domain.to_unit([{"n": 50, "p": 10.0, "kind": "u"}])
    low, high = ramp.box_around(here)
    rows = domain.to_unit(
        [{"n": n, "p": p, "kind": k} for n, p, k in ((57, 19, "v"), (43, 1, "u"), (58, 10, "u"), (50, 19.1, "u"))]
    )
    inside = ((rows >= low - 1e-9) & (rows <= high + 1e-9)).all(axis=1)
    assert inside.tolist() == [True, True, False, False]


def test_a_batch_goes_the_shortest_way() -> None:
    unit = np.array([[0.5, 0], [0.9, 0], [0.1, 0], [0.7, 0], [0.3, 0]])
    assert shortest_way(np.zeros(2), unit, None) == [2, 4, 0, 3, 1]
    from itertools import permutations

    unit = np.random.default_rng(3).random((6, 2))

    def length(order) -> float:
        way = np.concatenate([np.zeros((1, 2)), unit[list(order)]])
        return np.linalg.norm(np.diff(way, axis=0), axis=1).sum()

    best = min(map(length, permutations(range(6))))
    assert length(shortest_way(np.zeros(2), unit, None)) <= 1.05 * best
    tight = ramp_of(SimpleNamespace(safety=SimpleNamespace(ramps={"a": 1e-6})), BOX)
    assert shortest_way(np.zeros(2), unit, tight) == list(range(6))  # no other order keeps the ramps either


def test_queries_keep_the_ramps() -> None:
    study = make(safety={"start": START, "ramps": {"a": 1.5}})
    queries = answer(study, 7)
    steps = np.abs(np.diff([query.point["a"] for query in queries]))
    assert steps.max() <= 1.5 + 1e-9 and steps[3:].max() > 1.0


def test_ramps_without_limits_bound_steps_too() -> None:
    study = make(limits=None, safety={"start": START, "ramps": {"a": 1.5}})
    queries = answer(study, 6)
    assert np.abs(np.diff([query.point["a"] for query in queries])).max() <= 1.5 + 1e-9
    assert queries[-1].note == ""


# --- studies


def test_a_study_starts_from_what_is_safe_and_grows_from_there() -> None:
    study = make()
    queries = answer(study, 14)
    assert [dict(query.point) for query in queries[:3]] == START and [query.index for query in queries[:3]] == [0, 1, 2]
    chosen = queries[3:]
    assert all(query.origin == "acquisition" and foreseen(query.note) >= 0.95 for query in chosen)
    assert max(rig(**query.point)["t"] for query in queries[:3]) < 15
    assert max(rig(**query.point)["t"] for query in chosen) > 45  # it went where it is hot
    assert sum(rig(**query.point)["t"] > 60 for query in chosen) <= 1
    safety = study.safety()
    near, far = safety.probability([{"a": 1, "b": 0.3}, {"a": 10, "b": 1}])
    assert near > 0.99 and far < 0.6
    assert safety.kept.words in repr(safety)


def test_a_violation_is_seen_and_makes_the_next_queries_careful() -> None:
    study = make()
    answer(study, 3)
    (query,) = study.ask()
    study.tell(query, y=0.0, t=1000.0)
    safety = study.safety()
    ((outcome),) = safety.violations
    assert outcome.broke == {"t": 1000.0} and outcome.foreseen == foreseen(query.note)
    assert safety.risk == pytest.approx(0.05 - 0.05 * 0.95) and safety.rate == 1.0
    assert "1 of 1 chosen queries broke a limit" in safety.kept.words
    study.correct(query, t=10.0)  # a comma lost: it never happened
    assert study.safety().risk == pytest.approx(0.05) and study.safety().rate == 0.0


def test_what_a_person_asks_is_no_violation_of_the_study() -> None:
    study = make()
    answer(study, 3)
    study.add([{"a": 9.0, "b": 0.9, "y": 1.0, "t": 126.0}])
    assert study.safety().rate is None and len(study.safety().violations) == 1


def test_a_failure_counts_and_joins_the_same_probability() -> None:
    study = make(safety={"start": [*START, {"a": 3.0, "b": 0.2}]})
    answer(study, 4)
    before = study.safety().probability([{"a": 2.5, "b": 0.6}])
    (query,) = study.ask()
    study.tell_failed(query, "it broke there")
    after = study.safety()
    assert after.rate == 1.0 and after.violations[0].failed
    expected = before * study.feasibility([{"a": 2.5, "b": 0.6}])
    assert after.probability([{"a": 2.5, "b": 0.6}]) == pytest.approx(expected)
    assert study.feasibility([dict(query.point)])[0] < 0.5


def test_where_nothing_is_admissible_the_safest_points_are_offered_and_not_asked() -> None:
    study = make(limits={"t": {"max": 6.9}})
    for point in START:
        (query,) = study.ask()
        study.tell(query, y=0.0, t=6.8 if point["b"] < 0.4 else 7.5)
    with pytest.raises(InadmissibleError, match="They are not asked") as caught:
        for _ in range(5):
            (query,) = study.ask()
            study.tell(query, y=0.0, t=8.0)
    assert len(caught.value.safest) == 3
    chances = [chance for _, chance in caught.value.safest]
    assert max(chances) < 0.98 and chances == sorted(chances, reverse=True)
    point, chance = caught.value.safest[0]
    assert study.safety().probability([point])[0] == pytest.approx(chance, abs=1e-6)
    stopped = study.run(lambda a, b: rig(a, b), queries=2)
    assert stopped.rule == "exhausted" and "safest" in stopped.reason


def test_what_uneven_weights_cannot_resolve_is_taken_off_the_risk() -> None:
    study = make()
    answer(study, 3)
    snapshot = study.snapshot(learn=True)
    model = snapshot.models["t"]
    assert admission_now(snapshot).risk == pytest.approx(0.05)
    weights = np.where(np.arange(NUM) < 40, 1 / 40, 0.0)  # as after an observation that few draws expected
    uneven = replace(model, posterior=replace(model.posterior, weights=weights))
    now = admission_now(replace(snapshot, models={**snapshot.models, "t": uneven}))
    assert now.risk == pytest.approx(0.05 - (3 / 40 - 0.05)) and now.careful
    few = ReferencePosterior(model.posterior.data, np.ones(9), np.ones(9), np.ones(9), np.full(9, 1 / 9))
    with pytest.raises(ConfigError, match=r"needs 60 effective draws.*keeps 9"):
        admission_now(replace(snapshot, models={**snapshot.models, "t": replace(model, posterior=few)}))


def test_batches_are_admitted_throughout() -> None:
    study = make(safety={"start": START, "order": "shortest"})
    answer(study, 3)
    batch = study.ask(4)
    assert len({tuple(query.point.values()) for query in batch}) == 4
    assert all(foreseen(query.note) >= 0.95 for query in batch)


def test_a_domain_is_searched_where_it_is_safe() -> None:
    study = make(pool=None)
    queries = answer(study, 5)
    assert all(foreseen(query.note) >= 0.95 for query in queries[3:])
    assert all(rig(**query.point)["t"] <= 60 for query in queries)


def test_two_workers_wait_until_the_start_is_told() -> None:
    study = make()
    study.ask(3)
    with pytest.raises(InadmissibleError, match="tell the runs that are open"):
        study.ask()


def test_foresight_is_read_from_the_note() -> None:
    assert foreseen(foresight(0.97, "repeats a finished point")) == pytest.approx(0.97)
    assert foreseen(foresight(1 - 1e-9)) == pytest.approx(1) and foreseen("") is None


# --- the record is the truth


KILLED = """
import sys
sys.path[:0] = [{tests!r}, {unit!r}]
import os, signal
import test_limits as t
from hyperleaf import doors
kind = t.PlainKind("plain", "plain", "", "", tellable=True, variances=True, evidence=False, updates="")
doors.opened["rivals"] = lambda: {{"plain": kind}}
t.Learner.save = lambda self: None
study = t.make(storage={url!r})
for i in range(8):
    (query,) = study.ask()
    if i == {die}:
        if {after}:
            study.tell(query, y=0.0, t=100.0)
        os.kill(os.getpid(), signal.SIGKILL)
    study.tell(query, y=0.0, t=100.0 if i == 4 else 10.0)
"""


@pytest.mark.parametrize(("die", "after", "told"), [(5, False, 1), (5, True, 2)])
def test_a_kill_neither_loses_nor_doubles_what_the_held_rate_knows(tmp_path, die, after, told) -> None:
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    here = Path(__file__)
    script = KILLED.format(tests=str(here.parents[1]), unit=str(here.parent), url=url, die=die, after=after)
    env = {**os.environ, "PYTHONPATH": str(Path(hl.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, env=env)
    assert done.returncode == -signal.SIGKILL, done.stderr
    study = Study.load(storage=url)
    record = study.record()
    kept = kept_so_far(study.definition, record)
    violated = [True] + ([True] if after else [])
    counted = [one.violated for one in kept.counted]
    assert sum(counted) == told and counted == [False, *violated]
    assert kept.risk == held_risk([False, *violated], 1 - 0.95)[-1]
    (query,) = study.ask()
    if not after:
        assert query.id == 6  # the one that was asked and not told is offered again, once
    assert kept_so_far(study.definition, study.record()).risks == kept.risks


# --- what is refused


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ("z = { max = 1 }", "'z', which is no output"),
        ("t = { min = 5, max = 5 }", "min < max; got min = 5 and max = 5"),
        ("t = {}", "a min, a max or both"),
        ("t = { max = 5, confidence = 1.0 }", "between 0.5 and 1, both excluded; got 1.0"),
        ("t = { max = 5, confidence = 0.2 }", "between 0.5 and 1"),
        ("t = { max = 'hot' }", "a bound must be a finite number"),
        ("t = { maximum = 5 }", "no setting"),
        ("t = { max = -3 }", "leaves out the whole range"),
    ],
)
def test_limits_that_cannot_be_meant_are_refused_with_a_sentence(limits, words) -> None:
    text = f"""
        [study]
        name = "s"
        [inputs]
        a = {{ low = 0, high = 1 }}
        [outputs]
        t = {{ range = [0, 10] }}
        [limits]
        {limits}
    """
    with pytest.raises(ConfigError, match="limits") as caught:
        parse_toml(text)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("safety", "words"),
    [
        ({"start": [{"a": 11.0, "b": 0.5}]}, "safety.start must be points of the domain"),
        ({"start": [{"a": 1.0}]}, "'b' is missing"),
        ({"start": {"a": 1.0}}, "a list of points"),
        ({"start": START, "ramps": {"c": 1.0}}, "'c', which is no input"),
        ({"start": START, "ramps": {"a": 0.0}}, "a step > 0"),
        ({"start": START, "ramps": {"a": 0.5}}, "from point 1 to point 2 one is larger"),
        ({"order": "fast"}, "worth"),
    ],
)
def test_a_start_or_ramps_that_cannot_be_meant_are_refused(safety, words) -> None:
    with pytest.raises(ConfigError) as caught:
        make(safety=safety, pool=None)
    assert words in str(caught.value)


def test_a_start_that_is_not_in_the_pool_is_refused() -> None:
    with pytest.raises(ConfigError, match="point 1 is none, the nearest is"):
        make(pool=Pool([{"a": 5.0, "b": 0.5}], BOX))


def test_without_a_safe_point_nothing_begins() -> None:
    study = make(safety=None)
    with pytest.raises(InputError, match=r"needs? points that are known to be safe"):
        study.ask()
    study.add([{"a": 1.0, "b": 0.2, "y": 0.5, "t": 7.0}, {"a": 2.0, "b": 0.3, "y": 0.5, "t": 16.0}])
    (query,) = study.ask()
    assert query.origin == "acquisition"


def test_a_surrogate_that_cannot_resolve_the_risk_is_refused() -> None:
    definition = SimpleNamespace(
        risk=0.01,
        outputs={"t": None},
        limits={"t": None},
        safety=SimpleNamespace(start=(), ramps={}),
        surrogate=SimpleNamespace(kind="hhk"),
    )
    particles = make_surrogate("hhk", 2)
    with pytest.raises(ConfigError, match=r"needs 300 effective draws.*particles = 600"):
        check_limits(definition, BOX, None, [particles])
    with pytest.raises(ConfigError, match="one set of parameters"):
        check_limits(definition, BOX, None, [make_surrogate("stationary", 2, inference="map")])
    with pytest.raises(ConfigError, match="takes its scale from the few safe values"):
        check_limits(definition, BOX, None, [make_surrogate("treed", 2)])
    definition.risk = 0.05
    check_limits(definition, BOX, None, [particles])


# --- what is shown


def facts_of(study: Study):
    from hyperleaf.report.facts import Facts

    snapshot = study.snapshot(learn=True)
    places = [dict(place) for place in snapshot.record.places().values()]
    return Facts(snapshot, study.domain.to_unit(places), (), (), np.array([0.5, 0.5]), "the centre")


def test_the_report_shows_how_the_limits_were_kept() -> None:
    from hyperleaf.report import limits

    study = make()
    queries = answer(study, 5)
    (query,) = study.ask()
    study.tell(query, y=0.0, t=1000.0)
    facts = facts_of(study)
    wanted, held = limits.words(facts)
    assert "t ≤ 60" in wanted and "95 %" in wanted and "1 of 3 chosen queries broke a limit" in held
    table = limits.violations(facts)
    ((run, where, what, foreseen_as),) = table.rows
    assert run == "run 6" and "t = 1000 (≤ 60)" in what and "a = " in where
    assert float(foreseen_as) == pytest.approx(foreseen(query.note), abs=1e-3)
    rates = limits.held(facts).figure["data"]
    (rate,) = [one for one in rates if one.get("name") == "rate so far"]
    assert np.allclose(read(rate["y"]), [0, 0, 1 / 3])
    (risk,) = [one for one in rates if one.get("name") == "risk of the next query"]
    assert np.allclose(read(risk["y"]), kept_so_far(study.definition, study.record()).risks)
    region = limits.safe_region(facts).figure
    (heat,) = [one for one in region["data"] if one["type"] == "heatmap"]
    z = read(heat["z"])
    at = {"a": 5.0, "b": 0.5}
    assert z.shape == (41, 41) and z[20, 20] == pytest.approx(study.safety().probability([at])[0], abs=1e-9)
    (ring,) = [one for one in region["data"] if one.get("name") == "broke a limit"]
    assert ring["x"] == pytest.approx([query.point["a"]])
    assert len(queries) == 5 and study.status().limits == kept_so_far(study.definition, study.record()).words


def read(values) -> np.ndarray:
    """An array as Plotly's JSON has it."""
    import base64

    if isinstance(values, dict):
        array = np.frombuffer(base64.b64decode(values["bdata"]), dtype=values["dtype"])
        return array.reshape([int(n) for n in values["shape"].split(",")]) if "shape" in values else array
    return np.array(values, dtype=float)


def test_a_study_without_limits_shows_nothing_of_them() -> None:
    from hyperleaf.report import limits

    study = make(limits=None, safety=None)
    answer(study, 5)
    facts = facts_of(study)
    assert limits.words(facts) == [] and limits.safe_region(facts) is None
    assert limits.held(facts) is None and limits.violations(facts) is None and study.status().limits == ""
