"""Campaigns: paired, resumable after any crash, the same in however many processes, and clear about what goes wrong."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from hyperleaf.bench import campaign as campaigns
from hyperleaf.bench.campaign import (
    Campaign,
    Run,
    absolute_url,
    do_run,
    make_campaign,
    measure,
    preset,
    run_campaign,
    stored_campaign,
)
from hyperleaf.bench.methods import METHODS, Method
from hyperleaf.bench.outcomes import cross_scores, designs, effects, results
from hyperleaf.bench.runs import ABOUT, SCORES, WORKER, BusyError, read_scores, read_snapshot
from hyperleaf.bench.tasks import task
from hyperleaf.errors import HyperleafError, InputError
from hyperleaf.storage import open_storage
from hyperleaf.study.owners import this_process

OPTIONS = {"kind": "treed", "burn_in": 5, "total": 20, "warm_burn_in": 5}
TINY = Method("tiny", "A tiny treed GP", OPTIONS, "variance")
OTHER = Method("other", "The same, at random", OPTIONS, "random")
KEYS = ["method", "task", "seed", "n"]


def same_outcome(campaign, one, other):
    """Whether two stores hold the same scores (seconds apart) and the same points."""
    a, b = (results(campaign, store).drop(columns="seconds") for store in (one, other))
    pd.testing.assert_frame_equal(a, b, check_exact=True)
    pd.testing.assert_frame_equal(designs(campaign, one), designs(campaign, other), check_exact=True)
    return a


@pytest.fixture(scope="module")
def small():
    return make_campaign("small", ["exponential"], [TINY, OTHER], seeds=2, queries=3)


@pytest.fixture(scope="module")
def done(small, tmp_path_factory):
    """The store of the small campaign, undisturbed."""
    url = f"sqlite:///{tmp_path_factory.mktemp('campaign') / 'done.db'}"
    heard = []
    standing = run_campaign(small, url, progress=heard.append)
    assert standing.done == standing.total == 12 and standing.ended == standing.runs == 4 and not standing.failed
    assert [one.done for one in heard] == sorted(one.done for one in heard) and {one.done for one in heard} == set(range(13))
    return open_storage(url)


def test_results_are_tidy_and_complete(small, done):
    frame = results(small, done)
    assert frame[KEYS].drop_duplicates().shape[0] == len(frame) == 4 * 4
    assert set(frame["n"]) == {5, 6, 7, 8} and np.isfinite(frame.drop(columns=["method", "task", "crps"])).all(axis=None)
    assert (np.isfinite(frame["crps"]) == (frame["n"] == 5)).all()  # at every tenth query
    assert (frame["seconds"] > 0).all()


def test_methods_meet_the_same_world(small, done):
    points = designs(small, done)
    for seed in small.seeds:
        world = task("exponential").realise(seed)
        for _, own in points[points["seed"] == seed].groupby("method"):
            assert own["index"].tolist()[:5] == world.first.tolist()  # the same first points
            assert own["y"].tolist() == [world.output(i) for i in own["index"]]  # and the same noise wherever they ask
            assert own["index"].is_unique
    frame = results(small, done).set_index(KEYS)["rmse"]
    for seed in small.seeds:  # one surrogate on the same first points scores the same, whatever it will choose
        assert frame["tiny", "exponential", seed, 5] == frame["other", "exponential", seed, 5]
        assert frame["tiny", "exponential", seed, 8] != frame["other", "exponential", seed, 8]


def test_what_is_done_is_not_done_again(small, done, monkeypatch):
    monkeypatch.setattr(campaigns, "do_run", lambda *_: pytest.fail("a complete run was begun again"))
    before = results(small, done)
    assert run_campaign(small, done.url).ended == 4
    pd.testing.assert_frame_equal(before, results(small, done))


def test_more_queries_go_on_where_fewer_ended(small, done, tmp_path):
    url = f"sqlite:///{tmp_path / 'more.db'}"
    short = Campaign("short", small.tasks, (TINY,), (0,), 1)
    run_campaign(short, url)
    assert results(short, open_storage(url))["n"].tolist() == [5, 6]
    run_campaign(Campaign("long", small.tasks, (TINY,), (0,), 3), url)
    same_outcome(Campaign("long", small.tasks, (TINY,), (0,), 3), open_storage(url), done)
    assert results(short, open_storage(url))["n"].tolist() == [5, 6]  # and the short one is still itself


class Crash(BaseException):
    """As if the process was killed."""


class Crashing:
    """A store whose process dies right after each change, once for each kind of change at each number of observations."""

    def __init__(self, store, seen):
        self._store, self._seen, self._dead = store, seen, False

    def __getattr__(self, name):
        found = getattr(self._store, name)
        if not callable(found):
            return found

        def call(*args, **kwargs):
            if self._dead:
                raise Crash
            answer = found(*args, **kwargs)
            if name not in ("read", "artifact", "version", "study_names", "metrics", "now", "view"):
                try:
                    num = len(self._store.read(args[0]).observations)
                except HyperleafError:
                    num = -1
                what = (name, args[1] if name == "put_artifact" else "", num)
                if what not in self._seen:
                    self._seen.add(what)
                    self._dead = True
                    raise Crash
            return answer

        return call


def test_a_crash_after_any_change_of_the_store_leaves_no_trace(small, done):
    store, seen, lives = open_storage(None), set(), 0
    run = next(run for run in small.runs() if run.study == "exponential/tiny/0")
    while True:
        try:
            do_run(run, Crashing(store, seen))
            break
        except Crash:
            lives += 1
            assert lives < 100
    kinds = {what[:2] for what in seen}
    assert {("create_study", ""), ("put_artifact", ABOUT), ("put_artifact", SCORES)} <= kinds
    assert {("append", ""), ("tell", ""), ("put_artifact", WORKER), ("put_artifact", "model-8")} <= kinds
    same_outcome(Campaign("one", small.tasks, (TINY,), (0,), 3), store, done)


LIFE = """
import json, sys
import hyperleaf.bench.campaign as c
import hyperleaf.study, hyperleaf.surrogates.named, hyperleaf.suggestion
from hyperleaf.bench.methods import Method

methods = [Method(*one) for one in json.loads(sys.argv[2])]
print("ready", flush=True)
c.run_campaign(c.make_campaign("small", ["exponential"], methods, 2, 3), sys.argv[1])
"""


def killed_and_resumed(tmp_path, seed, kills):
    """A store whose campaign was killed so many times, each time at a random moment after it began."""
    url = f"sqlite:///{tmp_path / f'killed{seed}.db'}"
    parts = json.dumps([[one.name, one.title, dict(one.surrogate), one.acquisition] for one in (TINY, OTHER)])
    chance, killed = np.random.default_rng(seed), 0
    while True:
        with subprocess.Popen([sys.executable, "-c", LIFE, url, parts], stdout=subprocess.PIPE) as process:
            process.stdout.readline()
            try:
                code = process.wait(chance.uniform(0.0, 1.5) if killed < kills else 300)
                assert code == 0 and killed > 0, "it failed, or was not killed even once"
                return open_storage(url)
            except subprocess.TimeoutExpired:
                process.kill()
                killed += 1


def test_killed_at_random_moments_and_resumed_the_table_is_the_same(small, done, tmp_path):
    same_outcome(small, killed_and_resumed(tmp_path, 1, kills=1), done)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2, 6))
def test_killed_at_more_random_moments(small, done, tmp_path, seed):
    same_outcome(small, killed_and_resumed(tmp_path, seed, kills=6), done)


def test_two_processes_give_the_same_table_and_a_failing_run_stops_nobody(small, done, tmp_path):
    url = f"sqlite:///{tmp_path / 'two.db'}"
    broken = Method("broken", "No such option", {"kind": "treed", "sweeps": 3}, "variance")
    both = Campaign("both", small.tasks, (broken, TINY), (0, 1), 3)
    standing = run_campaign(both, url, jobs=2, every=0.5)
    assert standing.ended == 2 and set(standing.failed) == {"exponential/broken/0", "exponential/broken/1"}
    assert "no option 'sweeps'" in standing.failed["exponential/broken/0"]
    same_outcome(Campaign("tiny", small.tasks, (TINY,), (0, 1), 3), open_storage(url), done)


def test_a_dask_cluster_gives_the_same_table(small, done, tmp_path):
    from distributed import LocalCluster

    url = f"sqlite:///{tmp_path / 'cluster.db'}"
    place = {"host": "127.0.0.1", "dashboard_address": None, "local_directory": str(tmp_path)}
    with LocalCluster(n_workers=2, threads_per_worker=1, processes=True, **place) as cluster:
        address = cluster.scheduler_address.replace("tcp://", "dask://")
        standing = run_campaign(small, url, jobs=address, every=0.5)
    assert standing.ended == standing.runs == 4 and not standing.failed
    same_outcome(small, open_storage(url), done)


def test_an_interrupt_ends_a_campaign_that_can_go_on(small, done, tmp_path):
    url = f"sqlite:///{tmp_path / 'stopped.db'}"

    def stop(standing):
        if standing.done == 2:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        run_campaign(small, url, progress=stop)
    assert measure(small, open_storage(url)).done == 2
    run_campaign(small, url)
    same_outcome(small, open_storage(url), done)


def test_a_run_of_the_same_name_with_other_settings_is_refused(small, done):
    changed = Method("tiny", "Not the same", {**OPTIONS, "total": 30}, "variance")
    with pytest.raises(InputError, match="another surrogate"):
        do_run(Run("exponential", None, changed, 0, 3), done)
    with pytest.raises(InputError, match="another acquisition"):
        do_run(Run("exponential", None, Method("tiny", "", OPTIONS, "random"), 0, 3), done)


def test_a_run_that_another_process_is_at_is_left_alone(small):
    store, run = open_storage(None), small.runs()[0]
    do_run(run, store)
    host = this_process().rpartition("/")[0].rpartition("/")[0]
    me = json.dumps({"owner": f"{host}/{os.getppid()}/0", "at": 0.0}).encode()
    store.put_artifact(run.study, WORKER, me)
    with pytest.raises(BusyError, match="another process"):
        do_run(run, store)
    store.put_artifact(run.study, WORKER, me.replace(str(os.getppid()).encode(), b"999999999"))  # one that is gone
    do_run(run, store)


def test_seconds_of_a_resumed_run_are_those_of_its_queries(small):
    store, run = open_storage(None), small.runs()[0]
    do_run(Run(run.task, None, run.method, run.seed, 1), store)
    first = read_scores(store, run.study)
    do_run(run, store)
    again = read_scores(store, run.study)
    assert again["6"]["seconds"] == first["6"]["seconds"]  # everything was learned anew, which is not counted


def test_more_queries_than_candidates_are_refused_before_anything_is_done():
    with pytest.raises(InputError, match="too few"):
        do_run(Run("exponential", None, TINY, 0, 996), store := open_storage(None))
    assert not store.study_names()


def test_the_surrogate_is_kept_for_the_maps(small, done):
    model = read_snapshot(done, "exponential/tiny/0", 8)
    world = task("exponential").realise(0)
    rmse = np.sqrt(np.mean((model.predict(world.test_x).mean() - world.test_y) ** 2))
    assert rmse == pytest.approx(read_scores(done, "exponential/tiny/0")["8"]["rmse"], rel=1e-12)
    assert read_snapshot(done, "exponential/tiny/1", 8) is None


def test_a_store_tells_what_campaign_it_holds(small, done):
    found = stored_campaign(done)
    assert found.tasks == small.tasks and found.seeds == small.seeds and found.queries == 3
    assert {one.name: one for one in found.methods} == {"tiny": TINY, "other": OTHER}
    pd.testing.assert_frame_equal(results(found, done), results(small, done))
    with pytest.raises(InputError, match="no run of a campaign"):
        stored_campaign(open_storage(None))


def test_cross_scores_part_model_and_design(small, done):
    heard = []
    cross = cross_scores(
        small, done, ["tiny", Method("wide", "", {**OPTIONS, "chains": 2})], [8], lambda *said: heard.append(said)
    )
    assert len(cross) == 2 * 2 * 2 and [said[:2] for said in heard] == [(i, 8) for i in range(8)]
    again = cross_scores(small, done, ["tiny"], [8])  # from the store
    pd.testing.assert_frame_equal(again, cross[cross["model"] == "tiny"].reset_index(drop=True))
    own = cross.set_index(["model", "design", "seed"])["rmse"]
    assert own["tiny", "tiny", 0] != own["tiny", "other", 0] and own["tiny", "tiny", 0] != own["wide", "tiny", 0]
    with pytest.raises(InputError, match="points ≥ 2"):
        cross_scores(small, done, ["tiny"], [1])


def test_effects_are_ratios_against_one_method():
    rows = [("a", "a", 1.0), ("a", "b", 2.0), ("b", "a", 3.0), ("b", "b", 6.0), ("a", "c", 5.0)]
    cross = pd.DataFrame(
        [
            {"model": model, "design": design, "task": "t", "seed": seed, "n": 8, "rmse": scale * value}
            for seed, scale in ((0, 1.0), (1, 7.0))
            for model, design, value in rows
        ]
    )
    table = effects(cross, "a").set_index("method")
    np.testing.assert_allclose(table.loc["b", ["model", "design", "both"]].astype(float), [3.0, 2.0, 6.0])
    assert table.loc["c", "design"] == pytest.approx(5.0) and np.isnan(table.loc["c", "model"])


# --- what is compared


@pytest.mark.parametrize("name", campaigns.PRESETS)
def test_presets_are_campaigns_of_known_methods(name, tmp_path):
    if name == "criteria":
        with pytest.raises(InputError, match="path"):
            preset(name)
        return
    found = preset(name, seeds=2)
    assert len(found.runs()) == 2 * len(found.tasks) * len(found.methods)
    assert [run.seed for run in found.runs()] == sorted(run.seed for run in found.runs())  # pairs first
    assert all(METHODS[one.name] == one for one in found.methods)


FILE = """
tasks = ["oblique_2d", "exponential"]
seeds = [3, 1]
queries = 7
methods = ["stationary", {name = "mine", kind = "stationary", options = {kernel = "matern52"}, acquisition = "variance"}]
"""


def test_a_file_adds_a_row(tmp_path):
    (tmp_path / "my.toml").write_text(FILE)
    found = preset(str(tmp_path / "my.toml"))
    assert found.name == "my" and found.tasks == ("oblique-2d", "exponential") and found.seeds == (3, 1) and found.queries == 7
    assert found.methods == (
        METHODS["stationary"],
        Method("mine", "mine", {"kind": "stationary", "kernel": "matern52"}, "variance"),
    )
    assert preset(str(tmp_path / "my.toml"), methods=["mine", "hhk"]).methods == (found.methods[1], METHODS["hhk"])


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('tasks = ["oblique_2d", "exponential"]', "", "must have 'tasks'"),
        ("queries", "querys", "did you mean 'queries'"),
        ("queries = 7", "queries = 0", "whole number ≥ 1"),
        ("queries = 7", "queries = true", "whole number ≥ 1"),
        ("[3, 1]", '"many"', "seeds of .* must be"),
        ("[3, 1]", "[3, 3]", "3 is named twice"),
        ("[3, 1]", "[-1]", "a seed must be"),
        ('"exponential"', '"exponentail"', "Did you mean 'exponential'"),
        ('"stationary",', '"stationery",', "Did you mean 'stationary'"),
        ("kernel =", "kernal =", "the method 'mine' in .*did you mean 'kernel'"),
        ('"variance"', '"varience"', "the method 'mine' in .*acquisition must be"),
        ('name = "mine", ', "", "must have 'name'"),
        ("acquisition =", "criterion =", "unknown key 'criterion'"),
        ('name = "mine"', 'name = "a/b"', "the name of a method"),
        ("queries = 7", "queries = ", "must be TOML"),
        ("queries = 7", 'paths = {exponential = "x.csv"}', "reads no file"),
        ("queries = 7", "paths = [1]", "a table of files"),
    ],
)
def test_a_file_with_a_mistake_says_which(tmp_path, old, new, words):
    assert old in FILE
    (tmp_path / "my.toml").write_text(FILE.replace(old, new, 1))
    with pytest.raises(InputError, match=words):
        preset(str(tmp_path / "my.toml"))


def test_files_of_tables_are_meant_relative_to_the_campaign_file(tmp_path):
    (tmp_path / "my.toml").write_text('tasks = ["lgbb"]\nmethods = ["hhk"]\npaths = {lgbb = "data/lgbb.txt"}\n')
    assert preset(str(tmp_path / "my.toml")).paths == {"lgbb": str(tmp_path / "data" / "lgbb.txt")}
    assert preset(str(tmp_path / "my.toml"), paths={"lgbb": "/x.txt"}).paths == {"lgbb": "/x.txt"}


def test_a_name_that_is_no_campaign_gets_a_hint():
    with pytest.raises(InputError, match="Did you mean 'paper'"):
        preset("papper")
    with pytest.raises(InputError, match="there is none at"):
        preset("nowhere.toml")


def test_addresses_of_files_are_absolute():
    assert absolute_url("sqlite:///bench.db") == f"sqlite:///{Path.cwd() / 'bench.db'}"
    assert absolute_url("sqlite:////tmp/bench.db") == "sqlite:////tmp/bench.db"
    assert absolute_url("postgresql://host/name") == "postgresql://host/name"
