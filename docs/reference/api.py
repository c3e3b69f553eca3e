"""Every public name with its signature and docstring, by the room it comes from; shapes stand in the signatures."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

import hyperleaf
from reference.markup import paragraphs

INTRODUCTION = """# Python

Every public name, `import hyperleaf as hl`, with its signature and docstring. Anything else is not promised: it may change
between two releases. [Notation](../notation.md) has the symbols and the names of shapes, [Estimators](../estimators.md) and
[Campaigns](../campaigns.md#in-python) say how things go together.
"""
ROOMS: dict[str, str] = {
    "estimators": "Estimators",
    "study": "Studies",
    "domain": "Domains",
    "data": "Data",
    "suggestion": "Suggestions",
    "acquisition": "Limits",
    "analysis": "Questions to a surrogate",
    "exports": "Exports",
    "simulators": "Simulators",
    "executors": "Executors",
    "surrogates": "Surrogates",
    "inference": "Inference",
    "mixture": "Mixtures",
    "gp": "Gaussian processes",
    "priors": "Priors",
    "theory": "Theory",
    "compilation": "Compiled code",
    "errors": "Errors",
}
FIRST = "HHKRegressor"
PACKAGES = ("kernels", "plots")  # public as a whole


def api_page() -> str:
    parts, shown = [INTRODUCTION], dict[int, str]()
    for room, title in {**ROOMS, **{name: name for name in _rooms() if name not in ROOMS}}.items():
        names = [name for name in hyperleaf.__all__ if name not in PACKAGES and _room(name) == room]
        if names:
            ordered = sorted(names, key=lambda name: name != FIRST)
            parts += [f"## {title}\n", *(_entry(f"hl.{name}", getattr(hyperleaf, name), shown) for name in ordered)]
    for package in PACKAGES:
        module = getattr(hyperleaf, package)
        parts += [f"## hl.{package}\n\n{paragraphs(inspect.getdoc(module) or '')}\n"]
        parts += [_entry(f"hl.{package}.{name}", getattr(module, name), shown) for name in sorted(module.__all__)]
    return "\n".join(parts)


def members(cls: type) -> Iterator[tuple[str, Any]]:
    """Public methods and properties that hyperleaf gives a class, each once."""
    seen = set[str]()
    for one in cls.__mro__:
        if one.__module__.startswith("hyperleaf"):
            for name, value in vars(one).items():
                is_member = isinstance(value, property | classmethod | staticmethod) or inspect.isfunction(value)
                if not name.startswith("_") and is_member and name not in seen:
                    seen.add(name)
                    yield name, value


def documented(cls: type, name: str, value: Any) -> str:
    """The docstring of a member, of its own or of what it overrides."""
    return inspect.getdoc(value if isinstance(value, property) else getattr(cls, name)) or ""


def _rooms() -> list[str]:
    return [_room(name) for name in hyperleaf.__all__ if name not in PACKAGES]


def _room(name: str) -> str:
    return hyperleaf._HOME[name].split(".")[1]


def _entry(name: str, value: Any, shown: dict[int, str]) -> str:
    """A heading, a signature, a docstring, and the members; what a class inherits from one that was shown is only named. `shown`
    remembers by the identity of a member where it stands."""
    lines = [f"### {name}", "", _signature(name, value), "", paragraphs(_own_docstring(value)), ""]
    if inspect.isclass(value) and not issubclass(value, BaseException):
        as_before: dict[str, list[str]] = {}
        for member, one in members(value):
            if (where := shown.setdefault(id(one), name)) != name:
                as_before.setdefault(where, []).append(member)
                continue
            kind = "" if not isinstance(one, property) else " (property)"
            signature = "" if isinstance(one, property) else _signature(member, getattr(value, member)) + "\n\n"
            lines += [
                f"#### {name.removeprefix('hl.')}.{member}{kind}",
                "",
                signature + paragraphs(documented(value, member, one)),
                "",
            ]
        for where, names in as_before.items():
            lines += [f"As in {where}: {', '.join(f'`{one}`' for one in names)}.", ""]
    return "\n".join(lines)


def _own_docstring(value: Any) -> str:
    docstring = inspect.getdoc(value) or ""
    return "" if re.match(r"\w+\([^)]*\)\Z", docstring) else docstring  # what dataclass writes is the signature again


def _signature(name: str, value: Any) -> str:
    if not callable(value):
        return ""
    try:
        found = inspect.signature(value)
    except (TypeError, ValueError):
        return ""
    parameters = [_parameter(one) for one in found.parameters.values() if one.name not in ("self", "cls")]
    if found.return_annotation is not inspect.Signature.empty and not inspect.isclass(value):
        result = f" -> {_annotation(found.return_annotation)}"
    else:
        result = ""
    line = f"{name.rpartition('.')[2]}({', '.join(parameters)}){result}"
    if len(line) > 100:
        line = f"{name.rpartition('.')[2]}(\n    " + ",\n    ".join(parameters) + f",\n){result}"
    return f"```text\n{line}\n```"


def _parameter(one: inspect.Parameter) -> str:
    star = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}.get(one.kind, "")
    kind = "" if one.annotation is inspect.Parameter.empty else f": {_annotation(one.annotation)}"
    default = "" if one.default is inspect.Parameter.empty else f" = {_default(one.default)}"
    return f"{star}{one.name}{kind}{default}"


def _annotation(value: Any) -> str:
    text = value if isinstance(value, str) else value.__name__ if inspect.isclass(value) else str(value)
    return text.replace("hyperleaf.", "").replace("typing.", "").replace("collections.abc.", "")


def _default(value: Any) -> str:
    text = repr(value)
    return "…" if len(text) > 60 or " at 0x" in text else text
