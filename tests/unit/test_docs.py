"""The code of the pages runs, and the pictures they show are there, small, and made by that code."""

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "docs").glob("*.md"))
IMAGE = re.compile(r"!\[[^\]]*\]\((?P<target>[^)\s]+)\)")
LINK = re.compile(r"(?<!!)\[[^\]]+\]\((?P<target>[^)#\s]+)(?:#[^)]*)?\)")
MAX_BYTES = 150_000

_spec = importlib.util.spec_from_file_location("make_figures", ROOT / "docs" / "make_figures.py")
make_figures = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(make_figures)


@pytest.mark.parametrize("page", [p for p in [*PAGES, ROOT / "README.md"] if make_figures.blocks(p)], ids=lambda page: page.name)
def test_code_of_the_page_runs_and_makes_its_pictures(page):
    made = make_figures.figures(page, make_figures.run(page))
    shown = {Path(m["target"]).name for m in IMAGE.finditer(page.read_text(encoding="utf-8"))}
    assert set(made) <= shown, "a figure that the page makes is not shown on it"
    assert {name for name in shown if name.startswith(f"{page.stem}-")} <= set(made), "a picture is not made by the page's code"


NEEDED = [(page, package) for page in PAGES for package in make_figures.needed(page)]


@pytest.mark.parametrize(("page", "package"), NEEDED, ids=lambda one: getattr(one, "name", one))
def test_packages_that_blocks_of_the_page_need_are_here(page, package, needs):
    """A notice of what the test above has left out, and a failure where it should not have been left out."""
    needs(package)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pictures_and_links_lead_somewhere(page):
    text = page.read_text(encoding="utf-8")
    targets = [m["target"] for m in [*IMAGE.finditer(text), *LINK.finditer(text)]]
    for target in targets:
        assert "://" in target or (page.parent / target).exists(), f"{page.name} leads to {target}, which does not exist"


@pytest.mark.parametrize("picture", sorted((ROOT / "docs" / "img").glob("*.png")), ids=lambda path: path.name)
def test_pictures_are_small(picture):
    assert picture.stat().st_size < MAX_BYTES


def test_blocks_marked_no_run_are_left_out_and_lines_are_counted(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "# A\n```python\na = 1\n```\n```python no-run\na = 2\n```\ntext\n```python\nb = a\n1 / 0\n```\n```sh\nls\n```\n"
    )
    assert make_figures.blocks(page) == [(2, "a = 1\n"), (9, "b = a\n1 / 0\n")]
    with pytest.raises(ZeroDivisionError) as failure:
        make_figures.run(page)
    assert failure.traceback[-1].lineno + 1 == 11  # the line of the page
    page.write_text("```python needs=no_such_package\na = 1\n```\n```python needs=json\na = 2\n```\n")
    assert make_figures.blocks(page) == [(4, "a = 2\n")]
    assert make_figures.needed(page) == ["json", "no_such_package"]
    page.write_text("```python norun\na = 1\n```\n")
    with pytest.raises(ValueError, match="no-run"):
        make_figures.blocks(page)
