"""Texts with {placeholders}: {name}, {name:.3f} with a format, and {{ and }} for the braces themselves."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

from hyperleaf.checks import alike
from hyperleaf.errors import InputError

_TOKEN = re.compile(r"\{\{|\}\}|\{([^{}\n]*)\}|[{}]")


def placeholders(text: str, where: str) -> list[str]:
    """What stands between the braces, in order; an InputError for a brace without a partner."""
    found = []
    for token in _TOKEN.finditer(text):
        if token[0] in "{}":
            line = text.count("\n", 0, token.start()) + 1
            raise InputError(
                f"braces in {where} must enclose a name; got a single {token[0]!r} in line {line}. "
                "Write {{ and }} for braces that are meant literally."
            )
        if token[1] is not None:
            found.append(token[1])
    return found


def check(text: str, known: Collection[str], where: str) -> None:
    """An InputError for the first placeholder that is not known."""
    for inside in placeholders(text, where):
        name, _ = _split(inside, known)
        if name not in known:
            raise InputError(
                f"a placeholder in {where} must be one of {sorted(known)}; got {{{inside}}}.{alike(name, known)} "
                "Correct it, or write {{ and }} for braces that are meant literally."
            )


def fill(text: str, values: Mapping[str, Any], where: str) -> str:
    """The text with values in place of placeholders; floats in full, so that nothing is lost."""

    def one(token: re.Match[str]) -> str:
        if token[1] is None:
            return token[0][0]
        name, form = _split(token[1], values)
        try:
            value = values[name]
            value = value.item() if hasattr(value, "item") else value
            return format(value, form) if form else repr(value) if isinstance(value, float) else str(value)
        except KeyError:
            raise InputError(f"a placeholder in {where} must be one of {sorted(values)}; got {{{token[1]}}}.") from None
        except (ValueError, TypeError) as error:
            raise InputError(
                f"the format of {{{token[1]}}} in {where} must suit its value; got {values[name]!r} ({error}). "
                "Write it like {name:.3f} for a number, {name} for anything else."
            ) from None

    return _TOKEN.sub(one, text)


def _split(inside: str, known: Collection[str]) -> tuple[str, str]:
    if inside in known:  # a name may hold a colon
        return inside, ""
    name, _, form = inside.partition(":")
    return name, form
