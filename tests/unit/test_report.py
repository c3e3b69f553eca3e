"""A report says what is known of a study, shows it, and lets nothing that a user wrote become part of the page."""

import json
import re
from base64 import b64decode
from dataclasses import replace
from html.parser import HTMLParser
from types import SimpleNamespace

import numpy as np
import pytest

from hyperleaf.data import Standardizer
from hyperleaf.domain import Choice, Domain, Integer, Real
from hyperleaf.errors import InputError
from hyperleaf.report import write_report
from hyperleaf.report.facts import _base, gather
from hyperleaf.report.helping import helping
from hyperleaf.report.marks import fitted, important, log_ticks, shortened
from hyperleaf.report.page import safe_figure
from hyperleaf.report.remarks import about_output, about_study
from hyperleaf.report.times import busy
from hyperleaf.report.words import duration, headline, number, why_stopped
from hyperleaf.study import Study
from hyperleaf.study.accuracy import Accuracy
from hyperleaf.surrogates.base import Diagnostics
from hyperleaf.surrogates.gp import Agreement
from hyperleaf.surrogates.learned import Rescaled
from hyperleaf.surrogates.noise import Noise, Repeats

QUICK = {"kind": "stationary", "inference": {"kind": "map", "restarts": 2}}
LINE = Domain(speed=Real(1.0, 100.0, log=True, unit="1/min"))
PLANE = Domain(x1=Real(-2, 5, unit="mm"), x2=Real(-2, 5, unit="mm"), constraints=["x1 + x2 <= 8"])
MIXED = Domain(a=Real(0, 1), k=Integer(1, 5), m=Choice("x<y", "y&z", 'q"'), b=Real(0, 1, unit="<b>"))


class Reader(HTMLParser):
    """Reads a page as a browser does: its tags, its visible text, and the JSON of its figures."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags, self.shown, self.figures, self.scripts, self.attributes = [], [], [], [], []
        self._inside = None
        self.feed(text)
        self.text = " ".join(" ".join(self.shown).split())

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        self._inside = (
            ("figure" if dict(attrs).get("type") == "application/json" else tag) if tag in ("script", "style") else None
        )

    def handle_endtag(self, tag):
        self._inside = None

    def handle_data(self, data):
        if self._inside == "figure":
            self.figures.append(json.loads(data))
        elif self._inside == "script":
            self.scripts.append(data)
        elif self._inside is None:
            self.shown.append(data)


def page_of(study, tmp_path, **options):
    return Reader(write_report(study, tmp_path / "report.html", **options).read_text(encoding="utf-8"))


def traces(page, **wanted):
    found = [trace for figure in page.figures for trace in figure["data"]]
    return [trace for trace in found if all(trace.get(key) == value for key, value in wanted.items())]


@pytest.fixture(scope="module")
def line():
    study = Study.create(
        "bench", LINE, {"torque": {"unit": "N m"}}, surrogate=QUICK, design=11, stop={"queries": 9, "rmse": 1e-9}
    )
    speed = np.geomspace(1, 100, 9)
    study.add([{"speed": s, "torque": 10 + np.sin(3 * np.log(s))} for s in speed])
    failed, pending = study.ask(2, owner="person")
    study.tell_failed(failed, "mesh did not converge\nand more", seconds=2.0)
    assert pending.id == 11
    return study


@pytest.fixture(scope="module")
def mixed():
    study = Study.create("fan", MIXED, ["lift", "drag"], surrogate=QUICK, design=2, description="A <b>fan</b>.")
    points = MIXED.design(12, "sobol", 1)
    level = {"x<y": 0.0, "y&z": 1.0, 'q"': 2.0}
    study.add([{**p, "lift": p["a"] + 0.01 * p["k"], "drag": level[p["m"]] + 0.1 * p["b"]} for p in points], note="<i>old</i>")
    return study


@pytest.fixture(scope="module")
def hhk():
    surrogate = {"kind": "hhk", "leaves": 3, "inference": {"kind": "map", "restarts": 1}}
    study = Study.create("gates", PLANE, ["y"], surrogate=surrogate, design=2, test=[{"x1": 0, "x2": 0, "y": 0.0}])
    points = PLANE.design(12, "sobol", 0)
    study.add([{**p, "y": 5 * p["x1"] * np.exp(-(p["x1"] ** 2) - p["x2"] ** 2)} for p in points])
    return study


def test_the_page_over_one_input_shows_curve_runs_failure_and_pending_in_native_units(line, tmp_path):
    page = page_of(line, tmp_path)
    assert "From 9 runs the surrogate knows torque to about" in page.text and "N m" in page.text
    assert "The campaign stopped: 9 of 9 runs finished. 1 run is still open." in page.text
    assert "1 of 10 runs failed (10 %): mesh did not converge." in page.text
    assert "The error that was wanted" in page.text and "is not reached" in page.text
    curve = page.figures[0]
    assert curve["layout"]["xaxis"]["title"]["text"] == "speed [1/min]" and curve["layout"]["xaxis"]["type"] == "log"
    runs = next(t for t in curve["data"] if t.get("name") == "added by hand" and t["x"] != [None])
    np.testing.assert_allclose(runs["x"], np.geomspace(1, 100, 9), rtol=1e-9)
    np.testing.assert_allclose(runs["y"], 10 + np.sin(3 * np.log(np.geomspace(1, 100, 9))), rtol=1e-9)
    assert runs["marker"]["color"] == list(range(1, 10))  # by order
    for name in ("failed", "not finished"):
        assert any(t["x"] != [None] for t in curve["data"] if t.get("name") == name)
    assert any(figure["layout"].get("yaxis", {}).get("type") == "log" for figure in page.figures)  # the accuracy curve
    assert "Where runs fail" in page.text


def test_the_page_needs_nothing_from_elsewhere(line, tmp_path):
    path = write_report(line, tmp_path / "r.html")
    text = path.read_text(encoding="utf-8")
    page = Reader(text)
    assert sum("Plotly.newPlot" in script and len(script) < 10_000 for script in page.scripts) == 1
    assert sum(len(script) > 1_000_000 for script in page.scripts) == 1  # plotly.js, once
    links = [value for key, value in page.attributes if key in ("src", "href") and not value.startswith("#")]
    assert links == ["data:,"]
    assert "@import" not in text.split("</style>")[0] and "url(" not in text.split("</style>")[0]
    assert path.stat().st_size < 8e6


def test_several_outputs_and_choices_are_shown_with_which_inputs_matter(mixed, tmp_path):
    page = page_of(mixed, tmp_path)
    for name in ("lift", "drag"):
        assert f"{name}: which inputs matter" in page.text and f"{name}: slices" in page.text
        assert f"{name}: maps of the inputs that matter most" in page.text and f"{name}: how accuracy grew" in page.text
    facts = gather(mixed.snapshot(learn=True))
    assert important(facts, facts.known[:1])[0] == "a" and important(facts, facts.known[1:])[0] == "m"
    assert "how the inputs are divided" not in page.text  # a stationary surrogate has no gates
    slices = next(f for f in page.figures if any("largest" in (t.get("name") or "") for t in f["data"]))
    hidden = {t["name"] for t in slices["data"] if t.get("visible") == "legendonly"}
    assert hidden == {"through the run with the largest value", "through the run with the smallest value"}


def test_effects_are_those_of_a_linear_function_and_have_intervals(mixed, tmp_path):
    effects = gather(mixed.snapshot(learn=True)).known[0].effects  # lift = a + 0.01 k: Var 1/12 and 0.01² · 2
    total = {name: one.total for name, one in effects.items()}
    assert total["a"].mean == pytest.approx(1.0, abs=0.1) and total["k"].mean < 0.05 and total["m"].mean < 0.05
    assert effects["a"].first.mean == pytest.approx(1.0, abs=0.1)
    bars = next(f for f in page_of(mixed, tmp_path).figures if f["data"][0].get("orientation") == "h")
    assert [trace["name"] for trace in bars["data"]] == ["with all its interactions", "by itself"]
    for trace in bars["data"]:
        ends = trace["error_x"]
        assert min(ends["array"]) >= 0 and min(ends["arrayminus"]) >= 0 and max(ends["array"]) > 0
    assert total["a"].low <= total["a"].mean <= total["a"].high and total["a"].high > total["a"].low


def test_what_users_wrote_never_becomes_part_of_the_page(tmp_path):
    name = "<script>alert('x')</script>"
    domain = Domain({"</script><b>a": Real(0, 1, unit="<u>")})
    surrogate = QUICK
    study = Study.create(
        name, domain, {"y": {"unit": "<img src=x onerror=alert(1)>"}}, surrogate=surrogate, description=name, design=4
    )
    study.add([{"</script><b>a": v, "y": v} for v in (0.0, 0.3, 1.0)], note="<svg onload=alert(2)>")
    (query,) = study.ask(owner="person")
    study.tell_failed(query, "</td><script>alert(3)</script>\n<b>")
    page = page_of(study, tmp_path)
    assert set(page.tags) & {"img", "svg", "b", "u"} == set()
    assert page.tags.count("script") == 2 + len(page.figures)
    assert name in page.text and "<svg onload=alert(2)>" in page.text and "alert(3)" in page.text
    assert not any(script.lstrip().startswith("alert") for script in page.scripts)
    title = page.figures[0]["layout"]["xaxis"]["title"]["text"]
    assert title == "&lt;/script&gt;&lt;b&gt;a [&lt;u&gt;]"  # Plotly shows it as it was written
    hover = next(t for t in page.figures[0]["data"] if t.get("name") == "added by hand" and t.get("hovertext"))["hovertext"][0]
    assert "<b>run 1</b>" in hover and "&lt;/script&gt;" in hover and "</script" not in hover


def test_nothing_run_one_open_and_failures_only_are_said_in_words(tmp_path):
    study = Study.create("empty", PLANE, ["y"], surrogate=QUICK)
    page = page_of(study, tmp_path)
    assert "Nothing has been run yet." in page.text and "There are no runs yet." in page.text and not page.figures
    assert not any(len(script) > 100_000 for script in page.scripts)  # no figure, no plotly.js
    first, second = study.ask(2, owner="person")
    assert "no run has finished, 2 runs are open" in headline(gather(study.snapshot(learn=True)))
    study.tell_failed(first, "no licence")
    assert "1 run is open, 1 run failed" in headline(gather(study.snapshot(learn=True)))
    study.tell_failed(second, "no licence")
    page = page_of(study, tmp_path)
    assert "Nothing has been learned: all 2 runs failed." in page.text and "always because: no licence" in page.text
    assert "Look into the cause before more runs are spent." in page.text
    assert traces(page, name="failed")


def test_one_observation_is_enough_for_a_page(tmp_path):
    study = Study.create("one", LINE, ["y"], surrogate=QUICK)
    study.add([{"speed": 3.0, "y": 2.0}])
    page = page_of(study, tmp_path)
    assert "From 1 run the surrogate knows y" in page.text and "There is one run only" in page.text
    assert "fewer than three runs" in page.text


def test_gates_are_drawn_where_the_surrogate_divides_and_told_where_it_finds_no_reason(hhk, tmp_path):
    facts = gather(hhk.snapshot(learn=True))
    partition = facts.known[0].partition
    assert partition is not None and np.shape(partition.gates.normal) == (2, 2)
    assert set(facts.known[0].effects) == {"x1", "x2"}  # over two inputs too
    for one in facts.known[0].effects.values():  # under a constraint there are totals only
        assert one.first is None and 0 <= one.total.low < one.total.mean < one.total.high <= 1
    page = page_of(hhk, tmp_path)
    assert "y: how the inputs are divided" in page.text
    drawn = [t for t in traces(page) if re.fullmatch(r"gate \d", t.get("name") or "")]
    assert drawn or "found no reason" in page.text
    from hyperleaf.kernels import Gates
    from hyperleaf.report.learned import leaves

    gates = Gates(np.array([-0.5, -0.3]), np.array([[1.0, 0.0], [0.0, 1.0]]), np.full(2, 50.0))
    picture = leaves(replace(facts, known=(known := replace(facts.known[0], partition=replace(partition, gates=gates)),)), known)
    assert picture.figure is not None and {t.get("name") for t in picture.figure["data"]} >= {"gate 0", "gate 1"}
    assert "On 1 test run, which it has never seen" in page.text


def test_constraints_blank_the_maps(hhk, tmp_path):
    heat = next(t for t in traces(page_of(hhk, tmp_path)) if t["type"] == "heatmap")
    assert heat["z"]["dtype"] == "f8"
    z = np.frombuffer(b64decode(heat["z"]["bdata"])).reshape(61, 61)
    x = np.linspace(-2, 5, 61)
    np.testing.assert_array_equal(np.isnan(z), x[None, :] + x[:, None] > 8 + 1e-9)


def test_bands_have_gaps_where_constraints_forbid_and_voided_runs_and_suspects_are_shown(tmp_path):
    domain = Domain(x=Real(0, 10, unit="s"), constraints=["abs(x - 5) >= 1"])
    study = Study.create("gap", domain, ["y"], surrogate=QUICK)
    study.add([{**p, "y": 20 + 10 * np.sin(p["x"])} for p in domain.design(12, "sobol", 0)])
    study.correct(4, y=1e6, who="ann", why="<b>")
    study.void(3, why="sensor off", who="ann")
    page = page_of(study, tmp_path)
    band = next(t for t in page.figures[0]["data"] if t.get("fill") == "toself")
    x, y = (np.frombuffer(b64decode(band[name]["bdata"]), band[name]["dtype"]) for name in ("x", "y"))
    (gap,) = np.flatnonzero(np.isnan(y))
    assert x[:gap].max() <= 4.0 and x[gap + 1 :].min() >= 6.0 and np.isfinite(np.delete(y, gap)).all()
    for name in ("voided", "to look at again"):
        assert any(t["x"] != [None] for t in page.figures[0]["data"] if t.get("name") == name)
    assert "1 run was voided (3)" in page.text and "ann run 3 voided: sensor off" in page.text
    assert "What to look at again" in page.text and "hyperleaf void 4. If it is right: hyperleaf confirm 4" in page.text
    doubt = "Run 4 does not go with the others, and counts in every figure here."
    assert doubt in page.text and "Look at 1 run first that does not go with the others." in page.text
    facts = gather(study.snapshot(learn=True))
    assert {one.level for one in about_output(facts, facts.known[0])} <= {"warning", "note"}, "nothing is ticked on a mistake"
    study.confirm(4)
    assert "What to look at again" not in page_of(study, tmp_path).text and doubt not in page_of(study, tmp_path).text


def test_what_random_runs_would_have_taught_is_said_with_its_interval(hhk, tmp_path):
    facts = gather(hhk.snapshot(learn=True))
    found = facts.known[0].helping
    assert found.num_runs == 12 and found.equal[0] <= found.equal[1] <= found.equal[2] <= found.limit
    assert len(found.own) == 12 and found.random.shape == (found.limit, 3) and found.plain[-1][0] == 12
    page = page_of(hhk, tmp_path)
    assert "Is it helping?" in page.text and f"12 runs taught what about {round(found.equal[1])} random ones" in page.text

    def told(low, middle, high):
        return helping(replace(facts.known[0], helping=replace(found, equal=(low, middle, high))))

    assert told(20.0, 31.4, 40.0).short == told(20.0, 31.4, 40.0).claim == "12 runs taught what about 31 random ones would have."
    assert told(8.0, 14.0, 40.0).short == "" and "cannot be told from random" in told(8.0, 14.0, 40.0).claim
    assert "random runs would have done better" in told(5.0, 7.0, 9.0).claim
    beyond = told(20.0, float(found.limit), float(found.limit))
    assert f"more than {found.limit} random ones" in beyond.claim and f"and more than {found.limit}" in beyond.more


@pytest.mark.parametrize(
    "surrogate",
    [
        {"kind": "warped"},
        {"kind": "treed", "total": 40, "burn_in": 20},
        {"kind": "deep", "sweeps": 40, "draws": 5, "layers": 1},
        {"kind": "hhk", "choose_leaves": [1, 2], "inference": {"kind": "smc", "particles": 8}},
    ],
    ids=lambda value: value["kind"],
)
@pytest.mark.long
def test_every_kind_of_surrogate_has_a_page(surrogate, tmp_path):
    study = Study.create("kind", PLANE, ["y"], surrogate=surrogate)
    study.add([{**p, "y": p["x1"] * p["x2"]} for p in PLANE.design(8, "sobol", 0)])
    page = page_of(study, tmp_path)
    assert "From 8 runs" in page.text and len(page.figures) >= 3
    assert (gather(study.snapshot(learn=True)).known[0].partition is None) == (
        surrogate["kind"] != "hhk" or study.posterior.partition() is None
    )


def test_the_table_holds_every_run_with_exact_values(line, tmp_path):
    text = write_report(line, tmp_path / "r.html").read_text(encoding="utf-8")
    rows = re.findall(r'<tr class="(\w+)">(.*?)</tr>', text, re.DOTALL)
    assert [state for state, _ in rows] == ["done"] * 9 + ["failed", "running"]
    values = re.findall(r'data-v="([^"]*)"', rows[3][1])
    told = line.table().iloc[3]
    assert int(values[0]) == 4 and float(values[1]) == told["speed"] and float(values[2]) == told["torque"]


def test_the_definition_is_complete_and_holds_no_address(tmp_path):
    study = Study.create("kept", LINE, ["y"], surrogate=QUICK, seed=7, storage=f"sqlite:///{tmp_path}/secret-place.db")
    study.add([{"speed": v, "y": v} for v in (1.0, 5.0)])
    text = write_report(study, tmp_path / "r.html").read_text(encoding="utf-8")
    assert "secret-place" not in text
    from html import unescape

    from hyperleaf.config import Definition

    found = json.loads(unescape(re.search(r"<pre>(.*?)</pre>", text, re.DOTALL)[1]))
    assert Definition.from_json(found).study.seed == 7 and Definition.from_json(found).surrogate == study.definition.surrogate


def test_slices_go_through_the_point_asked_for_and_around_forbidden_centres(mixed, tmp_path):
    at = {"a": 0.25, "k": 2, "m": "y&z", "b": 0.5}
    assert "through the point that was asked for" in json.dumps(page_of(mixed, tmp_path, at=at).figures)
    domain = Domain(a=Real(0, 1), b=Real(0, 1), c=Real(0, 1), constraints=["a + b <= 0.8"])
    done = domain.to_unit(domain.design(5, "sobol", 0))
    base, words = _base(domain, done, None)
    assert words == "the finished run nearest to the centre" and any(np.array_equal(base, row) for row in done)


def test_a_page_is_written_whole_or_not_at_all(line, tmp_path, monkeypatch):
    path = write_report(line, str(tmp_path / "r.html"))
    before = path.read_bytes()

    def broken(*_):
        raise OSError("no space left")

    monkeypatch.setattr("os.replace", broken)
    with pytest.raises(OSError, match="no space"):
        write_report(line, path)
    assert path.read_bytes() == before and [p.name for p in tmp_path.iterdir()] == ["r.html"]
    with pytest.raises(InputError, match="is a folder"):
        write_report(line, tmp_path)
    with pytest.raises(InputError, match="there is no"):
        write_report(line, tmp_path / "nowhere" / "r.html")


@pytest.mark.parametrize(("noise", "tile"), [("none", "Noise none runs are taken to repeat exactly"), ("learned", "learned")])
def test_the_page_says_what_noise_there_is_and_never_ticks_it(noise, tile, tmp_path):
    study = Study.create("a", LINE, {"torque": {"unit": "N m", "noise": noise}}, surrogate=QUICK)
    study.add([{"speed": s, "torque": 10 + np.sin(3 * np.log(s))} for s in [*np.geomspace(1, 100, 9), 1.0, 10.0]])
    path = write_report(study, tmp_path / "report.html")
    text = path.read_text(encoding="utf-8")
    assert tile in Reader(text).text
    assert "2 points were run more than once; torque differs there by 0 N m (2 degrees of freedom)." in Reader(text).text
    ticked = re.findall(r'<li class="good">.*?</li>', text)
    assert ticked and not [one for one in ticked if "oise" in one or "epeat" in one]


def test_the_study_writes_it_too(line, tmp_path):
    assert line.report(tmp_path / "r.html") == tmp_path / "r.html"


# --- words


def known_of(**fields):
    accuracy = Accuracy(0.1, 0.1, 1.0, loo_rmse=0.2, loo_coverage=0.9, loo_nlpd=0.0, calibration=1.0)
    given = {
        "accuracy": accuracy,
        "noise": Noise("lift", "N", "learned", 0.3, 0.01, 0.005, 0.02),
        "unit": "N",
        "target": None,
        "diagnostics": {},
        "rescaled": None,
        "curve": (),
        "doubtful": (),
        "aside": (),
    }
    given |= fields
    diagnostics = Diagnostics("smc", 128, 1.0, **{"ess_bulk": {"particles": 100.0}, **given.pop("diagnostics")})
    told = {"rescaled": given.pop("rescaled")}
    y = np.linspace(0.0, 1.0, 20)
    posterior = SimpleNamespace(diagnostics=diagnostics)
    model = SimpleNamespace(y=y, scale=Standardizer(0.0, 1.0), posterior=posterior, **told)
    return SimpleNamespace(name="lift", label="lift [N]", model=model, width=1.0, **given)


def said(known, test_size=None):
    return {r.text: r for r in about_output(SimpleNamespace(snapshot=SimpleNamespace(test_size=test_size)), known)}


def test_nothing_is_ticked_and_no_advice_is_given_on_a_mistake():
    repeats = Repeats(points=1, std=1e-6, freedom=1)
    noise = Noise("lift", "N", "learned", 0.3, 0.1, 0.05, 0.2, repeats=repeats)
    sound, doubted = said(known_of(noise=noise)), said(known_of(noise=noise, doubtful=(7,)))
    assert any(one.level == "good" for one in sound.values()) and any("far less" in text for text in sound)
    assert not any(one.level == "good" for one in doubted.values()) and not any("far less" in text for text in doubted)
    rising = [(n, SimpleNamespace(trusted_rmse=1.0 if n < 27 else 50.0)) for n in range(20, 28)]
    assert remark(said(known_of(curve=rising)), "it rose").advice
    assert not remark(said(known_of(doubtful=(7,), curve=rising)), "it rose").advice
    assert "set aside" in "".join(said(known_of(aside=(7, 9))))
    assert remark(doubted, "Run 7 does not go with the others").level == next(iter(doubted.values())).level == "warning"
    assert "Runs 7, 9 do not go with the others, and count" in "".join(said(known_of(doubtful=(7, 9))))


def remark(found, part):
    (text,) = [text for text in found if part in text]
    return found[text]


@pytest.mark.parametrize(
    ("calibration", "words", "level"),
    [
        (1.4, "a little too sure of itself: errors are 1.4 times", "note"),
        (3.0, "much too sure of itself: errors are 3.0 times", "warning"),
        (0.5, "too wide: errors are only 0.5 times", "note"),
        (1.1, "can be trusted", "good"),
    ],
)
def test_calibration_in_words_with_what_to_do(calibration, words, level):
    accuracy = Accuracy(0.1, 0.1, 1.0, loo_coverage=0.85, calibration=calibration)
    found = remark(said(known_of(accuracy=accuracy)), words)
    assert found.level == level and (calibration < 1.2 or f"{calibration:.1f} times as wide" in found.advice)


@pytest.mark.parametrize(
    ("coverage", "num", "words", "level"),
    [
        (0.99, 200, "99 % lie within their 90 % interval: its error bars are too wide there", "note"),
        (1.0, 5, "100 % lie within their 90 % interval.", "good"),  # five say nothing
        (0.7, 200, "70 % lie within their 90 % interval: its error bars are too narrow there", "warning"),
        (0.91, 200, "91 % lie within their 90 % interval.", "good"),
    ],
)
def test_coverage_on_test_runs_is_said_as_it_is(coverage, num, words, level):
    accuracy = Accuracy(0.1, 0.1, 1.0, test_rmse=0.09, test_coverage=coverage)
    found = remark(said(known_of(accuracy=accuracy), num), f"On {num} test runs")
    assert words in found.text and found.level == level


def test_error_bars_that_test_runs_contradict_are_not_ticked():
    accuracy = Accuracy(0.1, 0.1, 1.0, loo_coverage=0.9, calibration=1.0, test_rmse=0.02, test_coverage=0.99)
    found = said(known_of(accuracy=accuracy), 100)
    assert not [one for one in found.values() if one.level == "good" and "error bars" in one.text]


def test_error_bars_that_are_right_on_average_only_are_not_ticked():
    accuracy = Accuracy(0.1, 0.1, 1.0, loo_coverage=1.0, calibration=1.0)
    known = known_of(accuracy=accuracy)
    known.model.y = np.linspace(0.0, 1.0, 200)
    found = remark(said(known), "100 % of the runs lie within the 90 % interval")
    assert found.level == "note" and "most error bars are too wide" in found.text


def test_trouble_of_the_method_is_said_plainly():
    again = Rescaled(12, 1.07, 0.483)
    assert again.note == "at 12 observations the output scale was estimated anew: 1.07 in place of 0.483."
    guard = Agreement(1.0, 0.5)
    trouble = {"ess_bulk": {"particles": 7.2}, "failed_draws": 3, "messages": ("more draws help.",), "extra": {"guard": guard}}
    found = said(known_of(diagnostics=trouble, rescaled=again))
    assert "about 7 count" in remark(found, "few opinions").text
    assert remark(found, "At 12 runs lift turned out to spread by 1.07 N; the first had suggested 0.483 N.").level == "note"
    assert remark(found, "3 of 128 candidate surrogates").advice
    assert remark(found, "A fresh run on the same data agrees").level == "good"
    assert remark(found, "More draws help.").level == "note" and sum("carry no weight" in text for text in found) == 0
    drifted = said(known_of(diagnostics={"extra": {"guard": Agreement(9.0, 0.5)}}))
    assert remark(drifted, "A fresh run on the same data disagrees").level == "note"
    assert "nearly repeat each other" in " ".join(said(known_of(diagnostics={"jitter": 1e-4})))


def test_learned_noise_is_never_ticked_and_has_its_interval():
    words = "Noise of lift (one standard deviation): learned, 0.01 N (90 % between 0.005 and 0.02), 3.3 % of the spread."
    assert said(known_of())[words].level == "note"
    large = said(known_of(noise=Noise("lift", "N", "learned", 0.3, 0.09, 0.05, 0.12)))
    warning = remark(large, "30 % of the spread of lift is taken for noise. If your simulator repeats exactly, say noise")
    assert warning.level == "warning" and "repeat a few runs" in warning.advice
    assert remark(large, "learned, 0.09 N").level == "note"
    assert not [r for found in (said(known_of()), large) for r in found.values() if r.level == "good" and "oise" in r.text]


def test_noise_that_was_said_is_said_again_and_repeated_runs_speak_for_themselves():
    assert remark(said(known_of(noise=Noise("lift", "N", "known", 0.3, 0.01))), "noise was given").level == "note"
    none = Noise("lift", "N", "none", 0.3, 0.0003, 0.0003, 0.0003)
    assert remark(said(known_of(noise=none)), "Runs are taken to repeat exactly; noise: none (a nugget of 0.1 %").level == "note"
    found = said(known_of(noise=replace(none, repeats=Repeats(3, 0.02, 7))))
    assert remark(found, "3 points were run more than once; lift differs there by 0.02 N (7 degrees of freedom)").level == "note"
    assert remark(found, 'Runs at the same point differ by 0.02 N in lift; noise = "none" is wrong').level == "warning"


@pytest.mark.parametrize(("errors", "words"), [([3, 2, 1], "still falling"), ([1, 1, 1], "levelled off"), ([1, 1, 2], "it rose")])
def test_progress_is_judged_from_the_last_third(errors, words):
    curve = tuple((i + 1, Accuracy(e, e, 1.0)) for i, e in enumerate(np.repeat(np.array(errors, dtype=float), 3)))
    assert words in " ".join(said(known_of(curve=curve)))


def test_why_it_stopped_or_has_not(line):
    facts = gather(line.snapshot(learn=True))
    assert "9 of 9 runs finished" in why_stopped(facts)
    assert "no stop rule" in why_stopped(replace(facts, rules=()))
    assert why_stopped(replace(facts, rules=(facts.rules[1],))).startswith("No stop rule is met yet: ")
    assert [r.level for r in about_study(facts)] == ["note"]


def test_numbers_and_durations_as_people_write_them():
    assert [number(v) for v in (0.012345, -2.0, 1e-7, 3.2e12, None, float("nan"))] == ["0.0123", "−2", "1e−7", "3.2e12", "–", "–"]
    assert number(1.5, "mm") == "1.5 mm"
    shown = [duration(s) for s in (0.0004, 0.05, 3.21, 61, 600, 7500, 4 * 86400)]
    assert shown == ["0.4 ms", "50 ms", "3.2 s", "61 s", "10 min", "2 h 05 min", "4.0 days"]


def test_time_with_something_running_is_counted_once():
    assert busy([(0.0, 2.0), (1.0, 3.0), (5.0, 6.0), (5.2, 5.4)]) == 4.0


def test_marks_of_logarithmic_axes():
    assert log_ticks(1, 10) == [1, 2, 5, 10] and log_ticks(1, 1000) == [1, 10, 100, 1000]
    assert len(log_ticks(1e-12, 1e12)) <= 8


def test_names_of_options_are_cut_where_they_do_not_tell_apart():
    assert fitted("option number 3", 7) == "option\n…3" and fitted("steel", 8) == "steel" and fitted("", 8) == ""
    assert shortened("a-very-long-name-1", 8) == "a-ve…e-1" and len(shortened("abcdef", 0)) == 3


def test_texts_of_a_figure_are_shown_as_they_were_written():
    assert safe_figure({"layout": {"title": {"text": "<b>"}}})["layout"]["title"]["text"] == "&lt;b&gt;"
