"""The reference leaves nothing out: every key of study.toml, every option of every command, every public name, every error."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import hyperleaf as hl
from hyperleaf.bench.commands import app as bench
from hyperleaf.cli import app
from hyperleaf.config.keys import KEYS, SECTIONS
from hyperleaf.surrogates.kinds import KINDS

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "src" / "hyperleaf"


@pytest.fixture(scope="module")
def reference():
    """The package docs/reference, which is found from docs, as by the site."""
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        import reference

        yield reference
    finally:
        sys.path.remove(str(ROOT / "docs"))


@pytest.fixture(scope="module")
def pages(reference):
    return {name.removeprefix("reference/"): page() for name, page in reference.PAGES.items()}


def section(page: str, heading: str) -> str:
    """What stands under a heading, up to the next of its level or a higher one."""
    level = heading.count("#")
    found = re.search(rf"^{re.escape(heading)}$\n(.*?)(?=^#{{1,{level}}} |\Z)", page, re.MULTILINE | re.DOTALL)
    assert found, f"{heading} is missing"
    return found[1]


@pytest.mark.parametrize("place", KEYS)
def test_every_key_of_a_study_is_there_with_what_it_means_and_may_be(pages, place):
    name, _, key = place.replace(".*", "").partition(".")
    inner = section(pages["study-file.md"], f"## [{name}]")
    if name == "surrogate":
        return  # the kinds are headings, see below
    (row,) = re.findall(rf"^\| <code>{key.replace('_', '&#95;')}</code> \|(.*)\|$", inner, re.MULTILINE)
    means, may_be, left_out = (cell.strip() for cell in re.split(r"\|", row))
    assert len(means) > 10 and may_be and left_out


def test_every_section_and_every_option_of_every_surrogate_is_there(pages):
    for name in SECTIONS:
        section(pages["study-file.md"], f"## [{name}]")
    for kind in KINDS.values():
        inner = section(pages["study-file.md"], f'### kind = "{kind.name}"')
        for name in kind.options:
            assert f"<code>{name}</code>".replace("_", "&#95;") in inner


def helps() -> dict[str, str]:
    """What each command says of itself in a terminal."""
    found = {}
    for prefix, group in (("hyperleaf", app), ("hyperleaf bench", bench)):
        text = CliRunner().invoke(group, ["--help"]).stdout
        names = re.findall(r"^  (\w[\w-]*)  +\S", text.partition("Commands:")[2], re.MULTILINE)
        assert len(names) > 3
        for name in names:
            if (prefix, name) != ("hyperleaf", "bench"):
                found[f"{prefix} {name}"] = CliRunner().invoke(group, [name, "--help"]).stdout
    return found


def test_every_option_that_a_terminal_shows_is_there(pages):
    shown = helps()
    assert len(shown) > 20
    for name, text in shown.items():
        inner = section(pages["commands.md"], f"## {name}")
        for option in set(re.findall(r"^ +(?:-\w, )?(--[a-z][a-z-]*)", text.partition("Options:")[2], re.MULTILINE)) - {"--help"}:
            assert f"<code>{option}</code>" in inner, f"{option} of {name}"
    assert "<code>--version</code>" in section(pages["commands.md"], "## hyperleaf")


def test_every_public_name_is_there_with_a_docstring(pages, reference):
    for name in hl.__all__:
        value = getattr(hl, name)
        inner = section(pages["api.md"], f"{'##' if name in ('kernels', 'plots') else '###'} hl.{name}")
        assert len(re.sub(r"```.*?```", "", inner, flags=re.DOTALL).strip()) > 20, f"hl.{name} has no docstring"
        if isinstance(value, type) and not issubclass(value, BaseException):
            nameless = [m for m, one in reference.api.members(value) if not reference.api.documented(value, m, one)]
            assert not nameless, f"hl.{name} has members without a docstring"
    for package in (hl.kernels, hl.plots):
        for name in package.__all__:
            section(pages["api.md"], f"### {package.__name__.replace('hyperleaf', 'hl')}.{name}")


def test_every_error_is_there_with_its_messages_and_what_to_do(pages, reference):
    raised = set()
    for path in SOURCES.rglob("*.py"):
        raised |= set(
            re.findall(r"^class (\w+)\([^)]*(?:Error|Conflict)\b[^)]*\):", path.read_text(encoding="utf-8"), re.MULTILINE)
        )
    classes, _ = reference.errors.found()
    own = {"Broken", "BadOutput", "Unsupported"}  # never reach a caller: they become one of the others
    assert {name for name in raised if name.endswith("Error")} - own <= {*classes}
    assert set(classes) == set(reference.errors.REMEDIES), "docs/reference/errors.py says of every error what to do"
    code = "import hyperleaf.cli.app, hyperleaf.study, hyperleaf.server.wire, hyperleaf.bench.runs, hyperleaf.executors.base\n"
    code += "def all(c): return [c, *(d for s in c.__subclasses__() for d in all(s))]\n"
    code += "from hyperleaf.errors import HyperleafError; print(*{c.__name__ for c in all(HyperleafError)})"
    known = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert {*known} <= {*classes} and len(known) > 15
    for name in classes:
        assert "**What to do:**" in section(pages["errors.md"], f"## {name}")
    assert "Swap them, or drop a fixed axis" in section(pages["errors.md"], "## DomainError")


def test_words_of_the_code_are_no_markup(reference):
    markup = sys.modules["reference.markup"]
    assert markup.plain("a <b> | *c* `d_e`") == "a &lt;b&gt; &#124; &#42;c&#42; <code>d&#95;e</code>"
