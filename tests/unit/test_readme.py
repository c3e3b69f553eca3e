"""What the README promises: its code prints what stands below it, its links lead somewhere, and it decides in a minute."""

import contextlib
import io
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = ["README.md", "CONTRIBUTING.md", "NOTICES.md", "SECURITY.md", "CODE_OF_CONDUCT.md"]
PAGE = (ROOT / "README.md").read_text(encoding="utf-8")


def numbers(text: str) -> list[float]:
    return [float(one) for one in re.findall(r"-?\d+\.\d*", text)]


def test_the_code_prints_what_stands_below_it():
    ((code, shown),) = re.findall(r"```python\n(.*?)```\s+```text\n(.*?)```", PAGE, re.DOTALL)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "README.md", "exec"), {})
    assert re.sub(r"-?\d+\.\d*", "#", printed.getvalue()).split() == re.sub(r"-?\d+\.\d*", "#", shown).split()
    found, promised = numbers(printed.getvalue()), numbers(shown)
    assert max(abs(one - other) for one, other in zip(found, promised, strict=True)) < 0.25  # another machine rounds otherwise
    means, stds = found[:2], found[2:]
    assert all(abs(mean - truth) < 4 * std for mean, std, truth in zip(means, stds, [2.14, 0.0], strict=True))


def test_links_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#\s]+)", (ROOT / page).read_text(encoding="utf-8")):
            assert "://" in target or (ROOT / target).exists(), f"{page} leads to {target}"


def test_it_decides_in_a_minute():
    """Up to the table of what it is for and what not, at 240 words a minute and with code at a glance."""
    words = re.sub(r"```.*?```|\|[-|]+\||!\[.*?\)", " ", PAGE.partition("Not sure whether")[0], flags=re.DOTALL)
    first = words.partition("## What it is for")[0]
    assert len(first.split()) < 130 and len(words.split()) < 250
