"""The live page as people use it: a real Chromium, at a desk and on a telephone, with others at work on the same study."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

import pytest

from hyperleaf.domain import Choice, Domain, Integer, Real
from hyperleaf.server.serving import Server, Settings
from hyperleaf.storage import open_storage
from hyperleaf.study import Study

pytestmark = pytest.mark.long  # a browser and a server that learns, at two widths: minutes on a busy machine

NAME = "bench <script>throw 'harm'</script>"
DOMAIN = Domain(speed=Real(1, 10, unit="<b>1/min</b>"), gear=Integer(1, 5))
LIGHT = {"kind": "stationary", "inference": {"kind": "map", "restarts": 1}}
AXE = Path(__file__).parent / "vendor" / "axe.min.js"
OTHER = """
import sys, time
from hyperleaf.study import Study
study = Study.load(storage=sys.argv[1])
for _ in range(3):
    query, = study.ask()
    study.tell(query, torque=20 + query.point["speed"])
"""


def torque(point) -> float:
    return float(20 + point["speed"] + 0.1 * point["gear"])


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
    folder = tmp_path_factory.mktemp("live")
    patch = pytest.MonkeyPatch()
    patch.setenv("XDG_STATE_HOME", str(folder / "state"))
    url = f"sqlite:///{folder / 's.db'}"
    study = Study.create(
        NAME, DOMAIN, {"torque": {"unit": "N m"}}, storage=url, surrogate=LIGHT, design=24, stop={"queries": 40},
        description="<img src=x onerror=\"throw 'harm'\">",
    )  # fmt: skip
    study.add([{**p, "torque": torque(p)} for p in DOMAIN.design(8, "sobol", 0)])
    Study.create("other", Domain(a=Real(0, 1), c=Choice("x", "y")), "y", storage=url, surrogate=LIGHT)
    with Server(open_storage(url), Settings(port=0)).in_background() as server:
        yield server, study, url
    patch.undo()


@pytest.fixture(params=[1200, 390])
def opened(request, browser, served):
    """The page of the study, reached as a person does, and what goes wrong on it."""
    server, _, _ = served
    context = browser.new_context(viewport={"width": request.param, "height": 900}, has_touch=request.param < 500)
    page = context.new_page()
    page.set_default_timeout(240_000)
    trouble: list[str] = []
    page.on(
        "console",
        lambda message: trouble.append(f"{message.type}: {message.text}") if message.type in ("error", "warning") else None,
    )
    page.on("pageerror", lambda error: trouble.append(f"error: {error}"))
    page.on(
        "request",
        lambda sent: (
            trouble.append(f"request: {sent.url}")
            if server.address not in sent.url[:40] and sent.url[:5] not in ("data:", "blob:")
            else None
        ),
    )
    page.goto(server.url)
    page.locator(f'a.study[href="/studies/{quote(NAME, safe="")}"]').click()
    page.locator("#learned .main-svg").first.wait_for()
    yield page, trouble, context
    context.close()


def shot(page, name: str) -> None:
    folder = os.environ.get("HYPERLEAF_SCREENSHOTS")
    if folder:
        page.screenshot(path=f"{folder}/{name}-{page.viewport_size['width']}.png", full_page=True)


def test_a_person_watches_moves_a_slider_answers_and_puts_right(opened, served):
    page, trouble, _ = opened
    _, study, url = served
    assert page.locator("h1").inner_text() == NAME and page.url.endswith(quote(NAME, safe="")) and "token" not in page.url

    # three queries arrive from another process
    done = study.status().counts["done"]
    subprocess.run([sys.executable, "-c", OTHER.replace("storage=", f"{NAME!r}, storage="), url], check=True)
    page.wait_for_function("n => document.querySelectorAll('#runs tr.done').length >= n", arg=done + 3)
    assert page.locator("#events li").count() >= 3
    page.wait_for_function("n => document.querySelector('#expected')?.textContent.includes(`from ${n} runs`)", arg=done + 3)

    # a slider moves, and numbers with it, as the library predicts them
    before = page.locator("#mean").inner_text()
    slider = page.locator('input[type="range"][data-input="speed"]')
    slider.evaluate("(range) => { range.value = 833; range.dispatchEvent(new Event('input', {bubbles: true})); }")
    page.wait_for_function("before => document.getElementById('mean').textContent !== before", arg=before)
    shown, expected = {}, None
    for _ in range(300):  # the numbers of the last movement may be under way
        speed, gear = page.locator(".exact").first.input_value(), page.locator(".exact").last.input_value()
        point = {"speed": float(speed), "gear": int(gear)}
        mixture = study.predict([point])
        low, high = mixture.interval(0.9)
        values = (("mean", mixture.mean()), ("std", mixture.std()), ("low", low), ("high", high))
        expected = {name: pytest.approx(float(f"{value[0]:.5g}"), rel=1e-12) for name, value in values}
        shown = {name: float(page.locator(f"#{name}").inner_text()) for name in expected}
        if shown == expected:
            break
        page.wait_for_timeout(200)
    assert shown == expected
    assert page.locator(".slice .main-svg").count() >= 2

    # a query is asked for, answered with a letter for a digit, then with a comma lost, then put right
    page.locator("#who").fill("Ada")
    page.locator("#ask").click()
    card = page.locator(".card[data-query]").last
    card.wait_for()
    number = int(card.get_attribute("data-query"))
    right = round(torque(study.record().queries[number - 1].point), 2)
    card.get_by_label("torque").fill("2O.5")
    card.get_by_role("button", name="Tell").click()
    refused = page.locator("#kept .refused")
    refused.wait_for()
    assert "must be a number; got '2O.5'" in refused.inner_text()
    refused.get_by_role("button").click()
    card = page.locator(f'.card[data-query="{number}"]')
    card.get_by_label("torque").fill(str(right * 1000))
    card.get_by_role("button", name="Tell").click()
    warning = page.locator(".note.warning", has_text=f"Look again at query {number}")
    warning.first.wait_for()
    warning.first.get_by_role("button").click()
    form = page.locator("#chosen form")
    form.wait_for()
    form.get_by_label("torque").fill(str(right))
    form.get_by_label("Why").fill("comma lost")
    shot(page, "correct")
    form.get_by_role("button", name="Correct").click()
    page.locator(".note.good", has_text=f"run {number} corrected").first.wait_for()
    (change,) = [one for one in study.record().changes if one.query_id == number]
    assert (change.who, change.why, change.after["outputs"]) == ("Ada", "comma lost", {"torque": right})
    shot(page, "study")
    # what the server refuses, on purpose here, Chromium notes by itself
    assert [one for one in trouble if "status of 422" not in one] == [] and len(trouble) == 1


def test_what_is_typed_in_a_cellar_is_told_once(opened, served):
    page, trouble, context = opened
    _, study, _ = served
    page.locator("#ask").click()
    card = page.locator(".card[data-query]").last
    card.wait_for()
    number = int(card.get_attribute("data-query"))
    assert trouble == []
    context.set_offline(True)
    card.get_by_label("torque").fill("25.5")
    card.get_by_role("button", name="Tell").click()
    page.locator("#kept li", has_text="is kept").wait_for()
    assert "what you type is kept" in page.locator("#state").inner_text()
    shot(page, "cellar")
    assert study.record().queries[number - 1].state.value == "running"
    context.set_offline(False)
    page.locator("#kept li").wait_for(state="detached")
    told = [one for one in study.record().observations if one.query_id == number]
    assert [one.outputs for one in told] == [{"torque": 25.5}]
    assert page.evaluate("Object.keys(JSON.parse(localStorage.getItem(KEPT) ?? '[]')).length") == 0


def test_an_answer_whose_reply_was_lost_is_told_once(opened, served):
    """The server has kept it, and the connection broke before it could say so: it is sent again, and is no error."""
    page, _, _ = opened
    _, study, _ = served
    page.locator("#ask").click()
    card = page.locator(".card[data-query]").last
    card.wait_for()
    number = int(card.get_attribute("data-query"))
    lost = []

    def lose(route) -> None:
        route.fetch()  # it arrives
        lost.append(number)
        route.abort()  # and nobody hears of it

    page.route("**/tell", lose, times=1)
    card.get_by_label("torque").fill("24.5")
    card.get_by_role("button", name="Tell").click()
    page.locator(".note.good", has_text=f"query {number}: torque = 24.5").first.wait_for()
    assert lost == [number] and page.locator("#kept li").count() == 0
    assert [one.outputs for one in study.record().observations if one.query_id == number] == [{"torque": 24.5}]


def test_nobody_is_shut_out(opened):
    """No serious fault of accessibility, nothing wider than the screen, and what is touched is large enough."""
    page, trouble, _ = opened
    page.locator("#ask").click()
    page.locator(".card[data-query]").last.wait_for()
    page.wait_for_timeout(1000)
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found = page.evaluate(
        "async () => (await axe.run()).violations.map(v => [v.impact, v.id, v.nodes.slice(0, 3).map(n => n.target.join(' '))])"
    )
    assert [one for one in found if one[0] in ("serious", "critical")] == []
    width = page.viewport_size["width"]
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    small = page.evaluate(
        """() => [...document.querySelectorAll('button, input, select, summary')]
            .filter(one => one.checkVisibility() && !one.closest('thead, .modebar') && one.getBoundingClientRect().height < 43)
            .map(one => one.outerHTML.slice(0, 80))"""
    )
    assert small == []
    page.locator(".card[data-query]").last.get_by_role("button", name="Give it back").click()
    page.locator(".note.good", has_text="given back").first.wait_for()
    shot(page, "access")
    assert trouble == []


def test_the_list_of_studies_and_a_link_for_looking(browser, served):
    server, _, _ = served
    page = browser.new_page(viewport={"width": 390, "height": 800})
    trouble: list[str] = []
    page.on("console", lambda message: trouble.append(message.text) if message.type == "error" else None)
    page.goto(server.view_url)
    page.locator("#state", has_text="2 studies").wait_for(timeout=30_000)
    assert page.locator(".study").count() == 2 and "done" in page.locator(".study .said").first.inner_text()
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found = page.evaluate("async () => (await axe.run()).violations.map(v => [v.impact, v.id])")
    assert [one for one in found if one[0] in ("serious", "critical")] == []
    shot(page, "list")
    page.locator(".study", has_text="other").click()
    page.locator("#definition .part table").first.wait_for(timeout=30_000)
    assert page.locator("#ask, #put-right").count() == 0 and page.locator("#learned").is_hidden()
    assert page.locator("#surrogate, #sliders, #share").filter(visible=True).count() == 0  # nothing of what is not there yet
    assert "Nothing has been learned yet" in page.locator("#expected").inner_text()
    assert trouble == []
    page.close()
