"""The documentation site: every page has its place, it is built strictly, and it takes nothing from elsewhere."""

import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))


def pages(nav: Any) -> Iterator[str]:
    for entry in nav if isinstance(nav, list) else [nav]:
        if isinstance(entry, dict):
            yield from (page for value in entry.values() for page in pages(value))
        else:
            yield entry


NAV = list(pages(SETTINGS["nav"]))


def test_every_page_of_the_documentation_has_one_place_in_the_site():
    here = [page.name for page in (ROOT / "docs").glob("*.md")]
    above = {f"{name}.md" for name in ("changelog", "code_of_conduct", "contributing", "license", "notices", "security")}
    assert sorted(page for page in NAV if "/" not in page and page not in above) == sorted(here), "see nav in mkdocs.yml"
    examples = {f"examples/{readme.parent.name}.md" for readme in (ROOT / "examples").glob("*/README.md")}
    assert {page for page in NAV if page.startswith("examples/")} == {"examples/index.md", *examples}


def test_the_site_has_four_parts_and_fonts_of_its_reader():
    assert [next(iter(part)) for part in SETTINGS["nav"]] == ["Home", "Learn", "Do", "Understand", "Look up"]
    assert SETTINGS["theme"]["font"] is False


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if find_spec("material") is None:
        pytest.skip("mkdocs-material is not installed; pip install 'hyperleaf[docs]', or make docs")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-q", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


def test_the_site_is_built_strictly_and_takes_nothing_from_elsewhere(site):
    for page in NAV:
        text = (site / page).with_suffix(".html").read_text(encoding="utf-8")
        taken = re.findall(r'<(?:script|link|img|iframe|source)\b[^>]*?\b(?:src|href)="?(https?://[^"\s>]+)', text)
        assert not taken, page
        assert 'href="https://fonts' not in text
    assert (site / "search" / "search_index.js").stat().st_size > 100_000
