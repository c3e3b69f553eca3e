"""The page itself: facts, words and pictures as one HTML file that needs nothing else.

The template, page.html, escapes every text that it writes. Figures are JSON in script elements that no browser executes, drawn by
the few lines of page.js; their texts, which Plotly takes for markup, are escaped here. Plotly's own code is embedded once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from hyperleaf.report import campaign, learned, limits, tables
from hyperleaf.report.facts import Facts, Known
from hyperleaf.report.helping import helping
from hyperleaf.report.marks import Picture
from hyperleaf.report.remarks import Remark, about_output, about_study
from hyperleaf.report.times import times
from hyperleaf.report.words import count, headline, number, percent, why_stopped
from hyperleaf.storage.base import State
from hyperleaf.surrogates.kinds import kind_of
from hyperleaf.surrogates.noise import Noise

DRAWN_TEXTS = ("text", "name", "ticktext")  # keys of a figure under which Plotly takes text for markup
METHODS = {
    "smc": "sequential Monte Carlo",
    "nuts": "NUTS",
    "hmc": "Hamiltonian Monte Carlo",
    "map": "its most probable parameters",
    "ml": "maximum likelihood",
}


@dataclass(frozen=True)
class Drawing:
    """A picture as the template needs it; without a `name` there is nothing to draw."""

    title: str
    caption: str
    name: str = ""
    content: Any = None
    width: int = 0
    height: int = 0
    fluid: bool = False


@dataclass(frozen=True)
class Part:
    """What is shown or said of one output, or of the study as a whole ("")."""

    title: str
    drawings: list[Drawing]
    remarks: list[Remark]
    note: str = ""


def render(facts: Facts) -> str:
    """The whole page."""
    figures = _Figures()
    context = {name: value for content in CONTENT.values() for name, value in content(facts, figures).items()}
    context |= {
        "facts": facts,
        "about": facts.definition.study.description,
        "headline": headline(facts),
        "why_stopped": why_stopped(facts),
        "tiles": tiles(facts),
        "version": tables.version_of("hyperleaf"),
        "now": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "style": _resource("page.css"),
        "script": _resource("page.js"),
        "plotly": _plotly() if figures.num else "",
    }
    return environment().get_template("page.html").render(context)


def render_section(facts: Facts, key: str) -> str:
    """What stands under one heading of the page, by itself; figures need page.js to be drawn. "" where there is nothing."""
    context = CONTENT[key](facts, _Figures(f"{key}-"))
    if not any(context.values()):
        return ""
    return environment().get_template("section.html").render({"facts": facts, "key": key, "headline": headline(facts), **context})


def render_pictures(pictures: Sequence[Picture], prefix: str) -> str:
    """Pictures as they stand in a page, one after the other."""
    context = {"key": "queries", "queries": _Figures(prefix).of(*pictures)}
    return environment().get_template("section.html").render(context)


def environment() -> Environment:
    """Of templates, which escape what they write."""
    found = Environment(
        loader=PackageLoader("hyperleaf.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    return found


class _Figures:
    """Numbers the figures; with a prefix, so that parts that are made apart can stand on one page."""

    def __init__(self, prefix: str = "") -> None:
        self.num, self._prefix = 0, prefix

    def of(self, *pictures: Picture | None) -> list[Drawing]:
        return [self._drawing(picture) for picture in pictures if picture is not None]

    def _drawing(self, picture: Picture) -> Drawing:
        if picture.figure is None:
            return Drawing(picture.title, picture.caption)
        self.num += 1
        layout, content = picture.figure["layout"], safe_figure(picture.figure)
        name = f"{self._prefix}{self.num}"
        return Drawing(picture.title, picture.caption, name, content, layout["width"], layout["height"], picture.fluid)


def safe_figure(value: Any, key: str = "") -> Any:
    """A figure's JSON with its texts escaped: Plotly draws some markup, and a unit such as "<b>" is to be seen as it is."""
    if isinstance(value, dict):
        return {name: safe_figure(one, name) for name, one in value.items()}
    if isinstance(value, list):
        return [safe_figure(one, key) for one in value]
    return escape(value, quote=False).replace("\n", "<br>") if isinstance(value, str) and key in DRAWN_TEXTS else value


def _resource(name: str) -> Markup:
    """A file of ours, to stand in the page as it is."""
    return Markup(files("hyperleaf.report").joinpath(name).read_text(encoding="utf-8"))


def _plotly() -> Markup:
    from plotly.offline import get_plotlyjs

    return Markup(get_plotlyjs().replace("</script", "<\\/script"))


def tiles(facts: Facts) -> list[tuple[str, str, str]]:
    """What each figure is, the figure, and a word more."""
    states = ((State.FAILED,), "failed"), ((State.VOID,), "voided"), ((State.RUNNING, State.WAITING), "open")
    rest = ", ".join(f"{num} {word}" for found, word in states if (num := len(facts.in_state(*found)))) or "none failed"
    found = [("Runs", str(facts.num_done), rest)]
    for one in facts.known:
        width = f"{100 * one.accuracy.trusted_rmse / one.width:.2g} % of the range seen" if one.width > 0 else ""
        found.append((f"Expected error of {one.name}", number(one.accuracy.trusted_rmse, one.unit), width))
    if len(facts.known) == 1:
        (one,) = facts.known
        if one.accuracy.test_rmse is not None:
            found.append(("Error on test runs", number(one.accuracy.test_rmse, one.unit), "never learned from"))
        if one.accuracy.loo_coverage is not None:
            found.append(("Within their 90 % interval", percent(one.accuracy.loo_coverage), "each predicted from the others"))
        found.append(("Noise", *_noise(one.noise)))
    return found


def _noise(noise: Noise) -> tuple[str, str]:
    """The tile of the noise: its size, and where that comes from."""
    if noise.kind == "none":
        return "none", "runs are taken to repeat exactly"
    if noise.kind == "known":
        return number(noise.std, noise.unit), "given"
    several = noise.low is not None and noise.high is not None and noise.low < noise.high
    return number(noise.std, noise.unit), f"learned, 90 % {number(noise.low)} to {number(noise.high)}" if several else "learned"


def _learned(facts: Facts, known: Known, figures: _Figures) -> Part:
    alone = "There is one run only: what is shown is little more than what was assumed before it."
    drawings = figures.of(*learned.learned(facts, known), learned.leaves(facts, known))
    return Part(known.label if len(facts.known) > 1 else "", drawings, [], alone if len(known.model.y) == 1 else "")


def _remarks(facts: Facts, known: Known) -> Part:
    found = known.model.posterior.diagnostics
    kind = kind_of(facts.definition.surrogate.kind).title
    draws = f", {found.num_draws} draws" if found.num_draws > 1 else ""
    article = "a" if kind[0] not in "aeiou" else "an"
    method = f"Learned as {article} {kind}, by {METHODS.get(found.method, found.method)}{draws}."
    return Part(known.name, [], [*about_output(facts, known), Remark("note", method)])


CONTENT: dict[str, Callable[[Facts, _Figures], dict[str, Any]]] = {
    "learned": lambda facts, figures: {"learned": [_learned(facts, one, figures) for one in facts.known]},
    "queries": lambda facts, figures: {"queries": figures.of(campaign.where_and_when(facts), campaign.success(facts))},
    "limits": lambda facts, figures: {
        "limits": limits.words(facts),
        "limit_figures": figures.of(limits.safe_region(facts), limits.held(facts)),
        "violations": limits.violations(facts),
    },
    "accuracy": lambda facts, figures: {
        "accuracy": tables.accuracy(facts),
        "accuracy_figures": figures.of(*(campaign.accuracy(facts, one) for one in facts.known)),
    },
    "helping": lambda facts, figures: {
        "helping": [helping(one, len(facts.known) == 1) for one in facts.known if one.helping is not None],
        "helping_figures": figures.of(*(campaign.helping(one) for one in facts.known)),
    },
    "diagnostics": lambda facts, figures: {
        "remarks_of_parts": [Part("", [], about_study(facts)), *(_remarks(facts, one) for one in facts.known)]
    },
    "suspects": lambda facts, figures: {"suspects": tables.suspects(facts)},
    "changes": lambda facts, figures: {"changes": tables.changes(facts)},
    "time": lambda facts, figures: {"times": times(facts), "durations": figures.of(campaign.durations(facts))},
    "runs": lambda facts, figures: {"runs": tables.runs(facts), "num_runs": count(len(facts.record.queries), "run")},
    "definition": lambda facts, figures: {
        "inputs": tables.inputs(facts),
        "outputs": tables.outputs(facts),
        "settings": tables.settings(facts),
        "definition": tables.whole_definition(facts),
    },
}  # what the template needs for each section
