"""The report as its reader meets it: opened from disk in a real Chromium, without a network."""

import csv
import os
import shutil

import numpy as np
import pytest

from hyperleaf.domain import Choice, Domain, Real
from hyperleaf.study import Study

MAP = {"kind": "map", "restarts": 1}
PLANE = Domain(x1=Real(-2, 5, unit="mm"), x2=Real(-2, 5, unit="<b>mm</b>"))
MIXED = Domain(pressure=Real(1, 100, log=True, unit="bar"), angle=Real(-10, 10), material=Choice("steel", "titanium"))


def plane() -> Study:
    """Over two inputs, with leaves, failures, one pending, and names that would do harm if they could."""
    surrogate = {"kind": "hhk", "leaves": 3, "inference": MAP}
    study = Study.create("<script>throw 'harm'</script>", PLANE, ["y"], surrogate=surrogate, design=14)
    study.add([{**p, "y": 5 * p["x1"] * np.exp(-(p["x1"] ** 2) - p["x2"] ** 2)} for p in PLANE.design(12, "sobol", 0)])
    failed, _ = study.ask(2, owner="person")
    study.tell_failed(failed, "<img src=x onerror=\"throw 'harm'\">", seconds=3.0)
    return study


def mixed() -> Study:
    """Over three inputs, one of them a choice, with two outputs."""
    study = Study.create("fan", MIXED, ["lift", "drag"], surrogate={"kind": "stationary", "inference": MAP})
    points = MIXED.design(9, "sobol", 0)
    study.add([{**p, "lift": np.log(p["pressure"]) + p["angle"], "drag": p["angle"] ** 2} for p in points])
    return study


def bench() -> Study:
    """Over one input with a forbidden middle, with a run that was voided and one to look at again."""
    domain = Domain(speed=Real(0, 10, unit="1/min"), constraints=["abs(speed - 5) >= 1"])
    study = Study.create("bench", domain, ["torque"], surrogate={"kind": "stationary", "inference": MAP})
    study.add([{**p, "torque": 20 + 10 * np.sin(p["speed"])} for p in domain.design(12, "sobol", 0)])
    study.correct(4, torque=1e4, why="comma lost")
    study.void(3, why="sensor off")
    return study


@pytest.fixture(scope="module")
def browser():
    def absent(what: str) -> None:
        if os.environ.get("CI"):
            pytest.fail(f"{what} is absent, and CI must look at the report; .ci/run installs Debian's chromium")
        pytest.skip(f"{what} is absent; the report is not opened in a browser here")

    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        absent("Chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        absent("Playwright")
    with sync_playwright() as playwright:
        # Chromium's sandbox does not start as root, nor in most containers; the page is our own.
        started = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-dev-shm-usage"])
        yield started
        started.close()


@pytest.fixture(scope="module", params=[plane, mixed, bench], ids=["plane", "mixed", "bench"])
def opened(request, browser, tmp_path_factory):
    """A page, and what went wrong on it."""
    path = request.param().report(tmp_path_factory.mktemp("report") / "report.html")
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    trouble: list[str] = []
    page.on("console", lambda message: trouble.append(f"console {message.type}: {message.text}"))
    page.on("pageerror", lambda error: trouble.append(f"error: {error}"))
    page.on(
        "request",
        lambda sent: trouble.append(f"request: {sent.url}") if sent.url[:5] not in ("file:", "data:", "blob:") else None,
    )
    page.goto(path.as_uri())
    yield page, trouble
    page.close()


def test_no_error_and_no_request_and_every_figure_is_drawn(opened):
    page, trouble = opened
    count = page.locator("script[data-for]").count()
    assert count >= 4
    page.wait_for_function("n => document.querySelectorAll('.drawing .main-svg').length >= n", arg=count, timeout=60_000)
    drawn = page.evaluate(
        """() => [...document.querySelectorAll('.drawing')].map(div => {
            const svg = div.querySelector('svg.main-svg');
            const box = svg ? svg.getBoundingClientRect() : {width: 0, height: 0};
            const shown = div.querySelectorAll('.trace, .heatmaplayer image, .contour, .point, .scatterlayer path').length;
            return [div.id, box.width, box.height, shown];
        })"""
    )
    assert len(drawn) == count
    for name, width, height, shown in drawn:
        assert width > 300 and height > 100 and shown > 0, f"{name} is not drawn: {width} × {height}, {shown} parts"
    assert trouble == []


def test_texts_are_shown_as_they_were_written(opened):
    page, _ = opened
    title = page.locator("h1").inner_text()
    assert title in ("<script>throw 'harm'</script>", "fan", "bench")
    if title.startswith("<"):
        assert page.locator(".drawing text", has_text="x2 [<b>mm</b>]").count() > 0
        assert page.locator("#table img").count() == 0


def test_the_table_sorts_filters_and_saves(opened, tmp_path):
    page, _ = opened
    names = page.locator("#table th").all_inner_texts()
    column = next(i for i, name in enumerate(names) if name.startswith(("x1", "pressure", "speed")))

    def values() -> list[float]:
        cells = page.locator(f"#table tbody tr td:nth-child({column + 1})")
        return [float(v) for v in cells.evaluate_all("cells => cells.map(cell => cell.dataset.v)")]

    before = values()
    head = page.locator("#table th").nth(column)
    head.locator("button").click()
    assert values() == sorted(before) and head.get_attribute("aria-sort") == "ascending"
    head.locator("button").click()
    assert values() == sorted(before, reverse=True) and head.get_attribute("aria-sort") == "descending"
    page.locator("#filter").fill("done")
    done = page.locator("#table tbody tr.done").count()
    assert page.locator("#table tbody tr:visible").count() == done
    assert page.locator("#shown").inner_text() == f"{done} of {len(before)} runs"
    page.locator("#filter").fill("")
    with page.expect_download() as download:
        page.locator("#save").click()
    download.value.save_as(tmp_path / "runs.csv")
    with open(tmp_path / "runs.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(before) and float(rows[0][list(rows[0])[column]]) == max(before)


def test_the_toolbar_lies_over_nothing(opened):
    page, _ = opened
    hidden = page.evaluate(
        """() => [...document.querySelectorAll('.drawing')].flatMap(div => {
            const bar = div.querySelector('.modebar').getBoundingClientRect();
            return [...div.querySelectorAll('.annotation-text, .xtitle, .ytitle, .point')].filter(text => {
                const box = text.getBoundingClientRect();
                return box.right > bar.left && box.left < bar.right && box.bottom > bar.top && box.top < bar.bottom;
            }).map(text => div.id + ' ' + text.textContent);
        })"""
    )
    assert hidden == []


def test_it_fits_narrow_screens_and_dark_rooms(opened):
    page, trouble = opened
    page.emulate_media(color_scheme="dark")
    light = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    page.emulate_media(color_scheme="light")
    assert light != page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    assert page.locator(".hint:visible").count() <= 1  # on a wide screen at most the table of runs is wider than its place
    page.set_viewport_size({"width": 390, "height": 800})
    page.wait_for_timeout(300)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390  # figures and tables scroll by themselves
    silent = page.evaluate(
        """() => [...document.querySelectorAll('.scroll')].filter(box => box.scrollWidth > box.clientWidth + 1 &&
            (box.previousElementSibling?.className !== 'hint' || box.previousElementSibling.hidden)).length"""
    )
    assert silent == 0 and page.locator(".hint:visible").count() > 0  # nothing is cut off without a word
    for drawing in page.locator(".drawing.fluid").all():
        assert drawing.bounding_box()["width"] <= 390
    page.set_viewport_size({"width": 1280, "height": 900})
    page.emulate_media(media="print")
    assert page.locator(".hint:visible, nav:visible, .modebar:visible").count() == 0
    page.emulate_media(media="screen")
    assert trouble == []
