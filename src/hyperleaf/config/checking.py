"""Every mistake in a study file at once, each with its line: what `read_toml` refuses, which stops at the first."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from hyperleaf.checks import nearest
from hyperleaf.config.definition import Definition
from hyperleaf.config.places import line_of, lines_of
from hyperleaf.config.reading import SECTIONS, domain_from_inputs, from_sections, sections_of
from hyperleaf.config.sections import ConfigError
from hyperleaf.config.words import check_plain, sentences
from hyperleaf.domain.axes import from_entry
from hyperleaf.errors import HyperleafError

NEEDED = ("study", "inputs", "outputs")
NO_DOMAIN: dict[str, Any] = {"axes": []}  # in place of one that has mistakes of its own


@dataclass(frozen=True)
class Mistake:
    """What is wrong, where in the file (None if no line can be named), and what to write."""

    words: str
    line: int | None = None

    def text(self, source: str) -> str:
        return f"{source}: {self.words}" if self.line is None else f"{source}:{self.line}: {self.words}"


class Checked:
    """A text that may be a study file: its `mistakes` and, if there are none, the `definition`."""

    def __init__(self, text: str, source: str) -> None:
        self.definition: Definition | None = None
        self.mistakes: list[Mistake] = []
        try:
            values = sections_of(text, source)
        except ConfigError as error:
            words = str(error).removeprefix(f"{source} is ")
            line = re.search(r"at line (\d+)", words)
            self.mistakes = [Mistake(words, int(line[1]) if line else None)]
            return
        self._lines = lines_of(text)
        for place, words in _mistakes(values):
            self.add(place, words)
        if not self.mistakes:
            try:
                self.definition = from_sections(values)
            except ConfigError as error:
                self.add((), str(error))

    def add(self, place: tuple[str, ...], words: str) -> None:
        """A mistake that somebody found at a place; if the words name one that is more exact, that is taken."""
        line = line_of(self._lines, self._named_in(words, place) or place)
        if all(one.words != words for one in self.mistakes):
            self.mistakes.append(Mistake(words, line))

    def _named_in(self, words: str, place: tuple[str, ...]) -> tuple[str, ...] | None:
        """The first key of the file below `place` that the words name, as stop.rmse or in quotes, or None."""
        named = [tuple(one.split(".")) for one in re.findall(r"\w+(?:\.\w+)+", words)]
        named += [(*place, one) for one in re.findall(r"'(\w+)'", words)] if place else []
        if not place:
            named += [path for one in re.findall(r"'(\w+)'", words) for path in self._lines if path[1:] == (one,)]
        longest = [path for path in named if path in self._lines and path[: len(place)] == place]
        return max(longest, key=len, default=None)


def _mistakes(values: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Places and words of all that is wrong; what depends on a section that is wrong itself is left for the next time."""
    for name in values:
        if name not in SECTIONS:
            yield (name,), f"[{name}] is no section of a study; {nearest(str(name), SECTIONS)}"
    for name in NEEDED:
        if not isinstance(values.get(name), Mapping) or not values[name]:
            yield (name,), f"a study must have a section [{name}] that is not empty. See: hyperleaf new"
    inputs = values.get("inputs")
    broken = list(_of_inputs(inputs)) if isinstance(inputs, Mapping) else []
    yield from broken
    domain = NO_DOMAIN
    study = values.get("study")
    if isinstance(inputs, Mapping) and inputs and not broken:
        try:
            constraints = study.get("constraints", ()) if isinstance(study, Mapping) else ()
            domain = domain_from_inputs(inputs, constraints).to_dict()
        except ConfigError as error:
            yield ("study", "constraints"), str(error)
    sections = {}
    for name, section in values.items():
        if name not in SECTIONS or name == "inputs":
            continue
        try:
            check_plain(section, name)
            sections[name] = section
        except ConfigError as error:
            yield (name,), str(error)
    missing: dict[str, Any] = {
        name: {"name": "study"} if name == "study" else {"y": {}} for name in NEEDED if not sections.get(name)
    }
    missing.pop("inputs", None)
    try:
        Definition.model_validate({**sections, **missing, "domain": domain})
    except ValidationError as error:
        yield from sentences(error, Definition)


def _of_inputs(inputs: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], str]]:
    for name, entry in inputs.items():
        try:
            check_plain(entry, f"inputs.{name}")
            from_entry(f"inputs.{name}", entry)
        except HyperleafError as error:
            yield ("inputs", name), str(error)
