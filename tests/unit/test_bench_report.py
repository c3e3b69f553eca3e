"""Figures show the numbers they are made from; reports, the command line and the page of results come out of any store."""

import importlib.util
import json
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from hyperleaf.bench import commands, figures, summaries
from hyperleaf.bench.campaign import Standing, make_campaign, run_campaign, stored_campaign
from hyperleaf.bench.methods import Method
from hyperleaf.bench.outcomes import results
from hyperleaf.bench.report import all_figures, normalised, write_bench_report
from hyperleaf.bench.tasks import task
from hyperleaf.cli import app
from hyperleaf.domain import Domain, Real
from hyperleaf.errors import InputError
from hyperleaf.kernels import RBF, Gates, Partition
from hyperleaf.plots.sheet import Band, Heat, Line, Points, color_of, draw
from hyperleaf.storage import open_storage

ROOT = Path(__file__).resolve().parents[2]
OPTIONS = {"kind": "treed", "burn_in": 5, "total": 20, "warm_burn_in": 5}
TITLES = {"hhk": "HHK", "slow": "A <slow> one", "same": "No better"}
TASKS = {"exponential": "Exponential 2-D", "jump": "Jump"}


@pytest.fixture(scope="module")
def frame():
    """8 seeds; `hhk` and `same` start alike, `slow` lags behind; the level of each seed is its own, so only pairs tell."""
    rng, rows = np.random.default_rng(0), []
    for name in TASKS:
        for seed in range(8):
            level = np.exp(rng.normal())
            for method, rate in (("hhk", 0.2), ("slow", 0.05), ("same", 0.2)):
                for n in range(5, 16):
                    rmse = level * np.exp(-rate * (n - 5) + 0.01 * rng.normal())
                    own = {"method": method, "task": name, "seed": seed, "n": n, "rmse": rmse, "nlpd": 0.0, "crps": rmse}
                    rows.append({**own, "coverage": 0.8, "seconds": 2.0 if method == "hhk" else 20.0})
    return pd.DataFrame(rows)


def layers(sheet, panel, kind):
    return [layer for layer in sheet.panels[panel].layers if isinstance(layer, kind)]


def test_curves_are_medians_with_quartiles_over_queries(frame):
    sheet = figures.curves(frame, TITLES, TASKS, against="hhk")
    assert [panel.title for panel in sheet.panels] == list(TASKS.values())
    line = next(layer for layer in layers(sheet, 0, Line) if layer.name == "A <slow> one")
    own = frame[(frame["task"] == "exponential") & (frame["method"] == "slow")].groupby("n")["rmse"]
    np.testing.assert_array_equal(line.x, np.arange(11))
    np.testing.assert_allclose(line.y, own.median())
    band = layers(sheet, 0, Band)[1]
    np.testing.assert_allclose(band.low, own.quantile(0.25))
    np.testing.assert_allclose(band.high, own.quantile(0.75))
    assert line.color == band.color == color_of(1)


def test_crosses_stand_below_the_curves_where_the_test_says_so(frame):
    sheet = figures.curves(frame, TITLES, TASKS, against="hhk")
    marks = summaries.significance(frame, "hhk")
    for number, name in enumerate(TASKS):
        crosses = [layer for layer in layers(sheet, number, Points) if layer.labels is not None]
        found = {layer.color: layer.x.tolist() for layer in crosses}
        own = marks[(marks["task"] == name) & marks["significant"]]
        for i, method in ((1, "slow"), (2, "same")):
            expected = (own.loc[own["method"] == method, "n"] - 5).tolist()
            assert found.get(color_of(i), []) == expected
        assert len(found[color_of(1)]) >= 8
        scale, panel = sheet.panels[number].y, layers(sheet, number, Band)
        lowest = min(band.low.min() for band in panel)
        assert all(scale.low < layer.y.max() < lowest for layer in crosses)


def test_values_that_are_missing_leave_a_gap_and_unknown_methods_are_refused(frame):
    holes = frame.copy()
    holes.loc[(holes["method"] == "slow") & (holes["n"] > 10), "seconds"] = np.nan
    for backend in ("plotly", "matplotlib"):
        assert draw(figures.times(holes, TITLES, TASKS), backend) is not None
    oracle = layers(figures.times(frame, TITLES, TASKS), 0, Line)[-1]
    assert set(oracle.y) == {3600.0} and oracle.dashed
    with pytest.raises(InputError, match="none of the methods"):
        figures.curves(frame, {"other": "Other"}, TASKS)


def test_ratios_show_the_comparison(frame):
    table = summaries.compare(frame, "hhk")
    sheet = figures.ratios(table, TITLES, TASKS, "hhk")
    row = table[(table["task"] == "jump") & (table["method"] == "slow")].iloc[0]
    points = [layer for layer in layers(sheet, 1, Points) if layer.labels is None and layer.color == color_of(1)]
    assert points[0].x.tolist() == [row["ratio"]] and row["ratio"] > 1.5
    ends = next(layer for layer in layers(sheet, 1, Line) if layer.color == color_of(1))
    assert ends.x.tolist() == [row["low"], row["high"]]
    assert len([layer for layer in layers(sheet, 1, Points) if layer.labels is not None]) == 1  # one of two is significant
    effect = pd.DataFrame(
        [{"task": "jump", "method": "slow", "n": 15, "num_seeds": 8, "model": 2.0, "design": np.nan, "both": 3.0}]
    )
    shown = layers(figures.effect_bars(effect, TITLES, TASKS, "hhk"), 0, Points)
    assert [layer.x.tolist() for layer in shown] == [[2.0], [], [3.0]]


def test_points_stand_where_they_were_asked_over_the_truth():
    problem = task("oblique-2d")
    world = problem.realise(3)
    rows = [*world.first, 7, 11]
    chosen = pd.DataFrame({"method": "hhk", "n": range(len(rows)), "index": rows})
    sheet = figures.selected_points(problem, world, chosen, TITLES)
    (heat,), points = layers(sheet, 0, Heat), layers(sheet, 0, Points)
    np.testing.assert_allclose(np.column_stack([points[0].x, points[0].y]), world.pool.unit[[7, 11]])
    assert len(points[1].x) == problem.num_first
    assert heat.z[30, 70] == pytest.approx(problem.truth([[heat.x[70], heat.y[30]]])[0])
    (border,) = layers(sheet, 0, Line)
    on_gate = problem.gates[0].weight(np.column_stack([border.x, border.y]))
    np.testing.assert_allclose(on_gate, 0.5, atol=1e-9)
    with pytest.raises(InputError, match="two inputs"):
        figures.selected_points(task("higdon"), task("higdon").realise(0), chosen, TITLES)


def test_activations_show_the_heaviest_leaves_after_each_number_of_queries():
    gates = Gates(np.array([-0.5, -0.3, 0.1]), np.array([[1.0, 0.2], [0.2, 0.8], [0.6, -0.9]]), np.array([12.0, 20.0, 8.0]))
    partition = Partition(gates, RBF(np.ones((4, 2)), np.ones(4)))
    posterior = SimpleNamespace(partition=lambda: partition, data=SimpleNamespace(x=np.full((3, 2), 0.5)))
    model = SimpleNamespace(learned=SimpleNamespace(posterior=posterior), domain=Domain(a=Real(0, 1), b=Real(0, 1)))
    sheet = figures.activation_maps({60: model, 10: model}, most=3)
    assert sheet.columns == 3 and [panel.title[:2] for panel in sheet.panels] == ["10"] * 3 + ["60"] * 3
    means = [layers(sheet, i, Heat)[0].z.mean() for i in range(3)]
    assert means == sorted(means, reverse=True) and means[0] > 0.25
    flat = SimpleNamespace(learned=SimpleNamespace(posterior=SimpleNamespace(partition=lambda: None)), domain=model.domain)
    assert figures.activation_maps({10: flat}) is None


# --- a store and what comes out of it


@pytest.fixture(scope="module")
def campaign():
    methods = [Method("tiny", "A <tiny> one", OPTIONS, "variance"), Method("other", "Other", OPTIONS, "random")]
    return make_campaign("small", ["exponential", "higdon"], methods, seeds=2, queries=2)


@pytest.fixture(scope="module")
def url(campaign, tmp_path_factory):
    url = f"sqlite:///{tmp_path_factory.mktemp('report') / 'small.db'}"
    assert not run_campaign(campaign, url).failed
    return url


def test_a_report_holds_tables_figures_and_one_page(campaign, url, tmp_path):
    storage = open_storage(url)
    written = write_bench_report(campaign, storage, tmp_path, cross=["tiny"], formats=["png"])
    assert all(path.is_file() for path in written) and set(tmp_path.iterdir()) == set(written)
    names = {path.name for path in written}
    assert {
        "results.csv",
        "ranking.csv",
        "ranking.md",
        "comparison.md",
        "effects.md",
        "rmse.png",
        "points-exponential.png",
    } <= names
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "results.csv"), results(campaign, storage), check_exact=False)
    effect = pd.read_csv(tmp_path / "effects.csv")  # `other` has the model of `tiny`: all that it loses is by its points
    assert effect["method"].tolist() == ["other", "other"] and effect["model"].tolist() == [1.0, 1.0]
    np.testing.assert_allclose(effect["both"], effect["design"])
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert "<tiny>" not in re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL) and "A &lt;tiny&gt; one" in page
    outside = re.sub(r"<script>.*?</script>", "", page, count=1, flags=re.DOTALL)  # without Plotly's own code
    assert not re.search(r"(src|href)=\"(?!data:)", outside)  # nothing is fetched
    with pytest.raises(InputError, match="held against one of"):
        write_bench_report(campaign, storage, tmp_path, against="hhk")
    with pytest.raises(InputError, match="no scores"):
        write_bench_report(campaign, open_storage(None), tmp_path)


def test_figures_are_in_units_of_the_task(campaign, url):
    frame = results(campaign, open_storage(url))
    scaled = normalised(campaign, frame)
    for name in campaign.tasks:
        rows = frame["task"] == name
        np.testing.assert_allclose(scaled[rows]["rmse"] * task(name).standardizer.scale, frame[rows]["rmse"])
    names = {one.name for one in all_figures(campaign, open_storage(url), frame, "tiny")}
    assert names == {"rmse", "times", "coverage", "ratios", "points-exponential"}  # no leaves, one input of higdon


def test_runs_that_are_not_complete_are_left_out_of_curves(campaign, url):
    frame = results(campaign, open_storage(url))
    cut = frame[~((frame["seed"] == 1) & (frame["method"] == "tiny") & (frame["n"] > 6) & (frame["task"] == "higdon"))]
    whole = all_figures(campaign, open_storage(url), cut, "tiny")[0]
    assert "1 to 2 seeds" in whole.caption
    line = next(layer for layer in layers(whole.sheet, 1, Line) if layer.name == "A <tiny> one")
    own = normalised(campaign, frame).set_index(["method", "task", "seed"]).loc[("tiny", "higdon", 0)]["rmse"]
    np.testing.assert_allclose(line.y, own)


def test_a_method_that_has_not_begun_does_not_keep_the_others_from_being_shown(campaign, url):
    waiting = Method("later", "Not begun", OPTIONS, "variance")
    more = replace(campaign, methods=(*campaign.methods, waiting), tasks=(*campaign.tasks, "jump"))
    shown = {one.name for one in all_figures(more, open_storage(url), results(more, open_storage(url)), "tiny")}
    assert {"rmse", "points-exponential"} <= shown and "points-jump" not in shown


def test_the_page_of_results_keeps_what_was_written_by_hand(url, tmp_path):
    spec = importlib.util.spec_from_file_location("make_results", ROOT / "docs" / "make_results.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.save = lambda figure, path: path.write_bytes(b"drawn")
    module.main([url], tmp_path)
    page = tmp_path / "results.md"
    text = page.read_text(encoding="utf-8")
    page.write_text(text.replace(module.NOTHING, "\nBy hand.\n"), encoding="utf-8")
    module.main([url], tmp_path)
    again = page.read_text(encoding="utf-8")
    assert "By hand." in again and again.replace("\nBy hand.\n", module.NOTHING) == text
    for target in re.findall(r"\]\((results/[^)]+)\)", again):
        assert (tmp_path / target).exists()
    names = [one.name for one in stored_campaign(open_storage(url)).methods]
    module.main([url, "--page", "some", "--title", "A part", "--methods", names[-1], "--seeds", "1"], tmp_path)
    part = (tmp_path / "some.md").read_text(encoding="utf-8")
    assert part.startswith("# A part\n") and f"`{names[-1]}`" in part and f"`{names[0]}`" not in part and "(results/" not in part
    assert set(pd.read_csv(tmp_path / "some" / "results.csv")["seed"]) == {0}


# --- the command line


def call(*arguments):
    return CliRunner().invoke(app, ["bench", *map(str, arguments)])


@pytest.fixture(autouse=True)
def without_a_cache(monkeypatch):
    monkeypatch.setattr(commands, "_keep_compiled", lambda: None)  # the tests have one of their own


@pytest.fixture
def file(tmp_path):
    method = '{name = "tiny", kind = "treed", options = {burn_in = 5, total = 20, warm_burn_in = 5}, acquisition = "variance"}'
    (tmp_path / "my.toml").write_text(f'tasks = ["exponential"]\nseeds = 1\nqueries = 2\nmethods = [{method}]\n')
    return tmp_path / "my.toml"


def test_list_names_what_there_is():
    shown = json.loads(call("list", "--json").stdout)
    assert shown["campaigns"]["quick"]["queries"] == 20 and "hhk" in shown["methods"] and "FILE" in shown["tasks"]["lgbb"]
    text = call("list").stdout
    assert "oblique-2d" in text and "Warped Multi-Index" in text


def test_a_path_may_be_a_file_or_a_folder():
    assert "File or folder of a task" in " ".join(call("run", "--help").stdout.split())


def test_run_then_report(file, tmp_path):
    store = f"sqlite:///{tmp_path / 'my.db'}"
    first = call("run", file, "--store", store)
    assert first.exit_code == 0 and "1 of 1 runs are complete, 2 queries" in first.stdout and "[2/2 queries]" in first.stdout
    again = call("run", file, "--store", store, "--json")
    assert json.loads(again.stdout) == {"store": store, "runs": 1, "ended": 1, "queries": 2, "failed": {}}
    shown = json.loads(call("report", "--store", store, "--out", tmp_path / "out", "--json").stdout)
    assert shown["against"] == "tiny" and "index.html" in shown["files"] and (tmp_path / "out" / "rmse.pdf").is_file()
    refused = call("report", "--store", store, "--out", tmp_path / "out", "--methods", "hhk")
    assert refused.exit_code == 1 and "no runs of 'hhk'" in refused.stderr


def test_a_failed_run_is_named_and_ctrl_c_says_how_to_go_on(file, monkeypatch, tmp_path):
    from hyperleaf.bench import campaign as campaigns

    store = f"sqlite:///{tmp_path / 'x.db'}"
    monkeypatch.setattr(campaigns, "run_campaign", lambda *_, **__: Standing(3, 9, 1, 2, {"a/b/0": "it broke"}))
    failed = call("run", file, "--store", store)
    assert failed.exit_code == 3 and "Failed: a/b/0: it broke" in failed.stdout

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(campaigns, "run_campaign", interrupted)
    stopped = call("run", file, "--store", store)
    assert stopped.exit_code == 130 and "Everything done is kept; go on with" in stopped.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["run", "papper"], 1, "Did you mean 'paper'"),
        (["run", "nowhere.toml"], 1, "there is none at"),
        (["run", "quick", "--tasks", "jmup"], 1, "Did you mean 'jump'"),
        (["run", "quick", "--methods", "hkk"], 1, "Did you mean 'hhk'"),
        (["run", "quick", "--tasks", ","], 2, "separated by commas"),
        (["run", "criteria"], 1, "engine"),
        (["run", "quick", "--path", "lgbb"], 2, "TASK=FILE"),
        (["run", "quick", "--path", "jump=x.csv"], 1, "reads no file"),
        (["run", "quick", "--store", "memory://"], 1, "a store that lasts"),
        (["run", "quick", "--seeds", "0"], 2, "--seeds"),
        (["report", "--store", "sqlite:////nowhere/at/all.db"], 1, "nowhere"),
        (["report", "--out", __file__], 1, "--out must be a folder"),
        (["quick", "--out", __file__], 1, "test_bench_report.py is a file. Name another."),
        (["walk"], 2, "walk"),
    ],
)
def test_mistakes_get_a_sentence_and_an_exit_code(arguments, code, words):
    answer = call(*arguments)
    assert answer.exit_code == code and words in answer.stderr
    assert "Traceback" not in answer.output
