"""The live page of a study with many inputs, of names that a form or a script could stumble over: tablets that are turned, tabs
that nobody sees, a table that somebody filters while runs go on."""

import os
import shutil

import pytest

from hyperleaf.domain import Choice, Domain, Integer, Real
from hyperleaf.server.serving import Server, Settings
from hyperleaf.storage import open_storage
from hyperleaf.study import Study

pytestmark = pytest.mark.long  # a browser and a server that learns

MANY = Domain(  # more inputs than stand in a row
    length=Real(1, 100, log=True), why=Integer(1, 5), item_=Choice("steel <b>", "brass"), action=Real(0, 1), width=Real(0, 1)
)
LIGHT = {"kind": "stationary", "inference": {"kind": "map", "restarts": 1}}


@pytest.fixture(scope="module")
def browser():
    def absent(what: str) -> None:
        if os.environ.get("CI"):
            pytest.fail(f"{what} is absent, and CI must look at the page; .ci/run installs Debian's chromium")
        pytest.skip(f"{what} is absent; the page is not opened in a browser here")

    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        absent("Chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        absent("Playwright")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-dev-shm-usage"])
        yield started
        started.close()


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    folder = tmp_path_factory.mktemp("many")
    patch = pytest.MonkeyPatch()
    patch.setenv("XDG_STATE_HOME", str(folder / "state"))
    url = f"sqlite:///{folder / 's.db'}"
    study = Study.create("many", MANY, {"item": {"unit": "kN"}}, storage=url, surrogate=LIGHT, design=12)
    study.add([{**p, "item": p["length"] + p["why"]} for p in MANY.design(10, "sobol", 0)])
    with Server(open_storage(url), Settings(port=0)).in_background() as server:
        yield server, study, url
    patch.undo()


@pytest.fixture
def many(browser, served):
    """The page of the study with many inputs, on a desk."""
    server, _, url = served
    page = browser.new_page(viewport={"width": 1200, "height": 900})
    page.set_default_timeout(240_000)
    trouble: list[str] = []
    page.on("console", lambda message: trouble.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: trouble.append(str(error)))
    page.goto(server.url)
    page.locator(".study", has_text="many").click()
    page.locator("#mean").wait_for()
    yield page, trouble, Study.load("many", storage=url)
    page.close()


def test_many_inputs_of_any_name(many, served):
    page, trouble, study = many
    drawn_all = "() => [...document.querySelectorAll('.slice')].filter(one => one.querySelector('.main-svg')).length === 5"
    page.wait_for_function(drawn_all)
    places = page.evaluate(
        "() => [...document.querySelectorAll('.slice')].map(one => [one.clientWidth, one.querySelector('.main-svg').clientWidth])"
    )
    assert all(abs(drawn - place) < 5 for place, drawn in places)  # none lies over its neighbour
    page.locator("#learned .main-svg").first.wait_for()
    fits = """() => [...document.querySelectorAll('.drawing.fluid')].every(one => {
        const drawn = one.querySelector('.main-svg')?.clientWidth ?? 0;
        return Math.abs(drawn - Math.min(one.dataset.width, one.parentElement.clientWidth)) < 3; })"""
    for width in (1200, 700, 1200):  # a tablet is turned, and turned back
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_function(fits)
    page.screenshot(full_page=True)
    page.locator("#number").fill("3")
    page.get_by_role("button", name="Look at it").click()
    form = page.locator("#chosen form")
    form.get_by_label("length").fill("50")
    form.get_by_label("Why", exact=True).fill("read again")
    form.get_by_role("button", name="Correct").click()
    page.locator(".note.good", has_text="run 3 corrected: length = 50").first.wait_for()
    (change,) = study.record().changes
    assert change.why == "read again" and change.after["point"]["length"] == 50.0
    page.locator("#ask").click()
    card = page.locator(".card[data-query]").last
    card.get_by_label("item [kN]").fill("12.5")
    card.get_by_text("An input was set otherwise").click()
    card.get_by_label("action").fill("0.25")
    page.reload()  # what was typed is there again
    card = page.locator(".card[data-query]").last
    card.wait_for()
    assert card.get_by_label("item [kN]").input_value() == "12.5" and card.get_by_label("action").input_value() == "0.25"
    card.get_by_role("button", name="Tell").click()
    page.locator(".note.good", has_text="item = 12.5, action = 0.25: kept").first.wait_for()
    told = study.record().observations[-1]
    assert told.outputs == {"item": 12.5} and told.point["action"] == 0.25
    assert trouble == []


def test_a_page_that_nobody_sees_does_not_listen(many, served):
    """A browser has six connections to a server: with seven tabs open that listen, none could do anything any more."""
    page, _, study = many
    server, _, _ = served
    listeners = server.application.watcher._listeners

    def turn(hidden: bool) -> None:
        page.evaluate(
            """hidden => { Object.defineProperty(document, 'hidden', {configurable: true, value: hidden});
                           document.dispatchEvent(new Event('visibilitychange')); }""",
            hidden,
        )

    def until(there: bool) -> None:
        for _ in range(300):
            if ("many" in listeners) == there:
                return
            page.wait_for_timeout(100)
        raise AssertionError(f"it {'does not listen' if there else 'goes on listening'}")

    until(True)
    turn(True)
    until(False)
    (query,) = study.ask(owner="rig 7 0123456789abcdef0123456789abcdef", lease=600)
    study.tell(query, item=33.25)
    (other,) = study.ask(owner="rig 7 0123456789abcdef0123456789abcdef", lease=600)
    turn(False)
    until(True)
    page.locator("#events li", has_text="item = 33.25").wait_for()  # what happened meanwhile is made up for, once
    assert page.locator("#events li", has_text="item = 33.25").count() == 1
    running = page.locator("#open li", has_text=f"query {other.id}")
    running.wait_for()
    assert "rig 7, for" in running.inner_text() and "0123456789" not in running.inner_text()
    study.release(other)


def test_who_filters_the_table_is_not_interrupted(many):
    page, _, study = many
    page.locator("#table th button", has_text="length").click()
    page.locator("#filter").click()
    page.keyboard.type("do")
    rows = page.locator("#table tbody tr")
    before = rows.count()
    study.add([{"length": 1.5, "why": 1, "item_": "brass", "action": 0.5, "width": 0.5, "item": 2.5}])
    page.wait_for_function("n => document.querySelectorAll('#table tbody tr').length > n", arg=before)
    page.keyboard.type("ne")
    assert page.locator("#filter").input_value() == "done"
    assert page.locator('#table th[aria-sort="ascending"]').inner_text().startswith("length")
    lengths = [float(text) for text in page.locator("#table tbody tr td:nth-child(2)").all_inner_texts()]
    assert lengths == sorted(lengths)
