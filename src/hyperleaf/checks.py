"""Checks that many rooms make in the same words: a value is one of a few, a name is known, a number is a count.

Each returns the value, or raises an `InputError` with the rule, the value and the remedy.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from numbers import Integral
from typing import Any

from hyperleaf.errors import InputError


def one_of(name: str, value: Any, allowed: Iterable[str]) -> str:
    """The value, if it is one of those allowed; an InputError with the nearest of them otherwise."""
    known = list(allowed)
    if not isinstance(value, str) or value not in known:
        raise InputError(f"{name} must be one of {known}; got {value!r}.{alike(value, known)}")
    return value


def alike(value: Any, known: Iterable[str]) -> str:
    """The end of a message: " Did you mean …?" with the known word that is spelt most alike; nothing if there is none."""
    near = get_close_matches(str(value).lower(), list(known), 1) or get_close_matches(str(value), list(known), 1)
    return f" Did you mean {near[0]!r}?" if near else ""


def nearest(name: str, known: Iterable[str]) -> str:
    """What to write in place of a name that there is not: the one that is spelt most alike, or else all."""
    names = list(known)
    return alike(name, names).replace(" Did", "did") or f"there are {', '.join(names)}."


def whole_number(name: str, value: Any, least: int = 1) -> int:
    """The value as an int, if it is a whole number and not below `least`."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise InputError(f"{name} must be a whole number ≥ {least}; got {value!r}.")
    return int(value)
