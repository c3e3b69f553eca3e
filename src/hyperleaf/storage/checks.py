"""What goes into a store, checked and made plain at its door, so that every store keeps, refuses and compares alike."""

from __future__ import annotations

import json
import math
import operator
from collections.abc import Mapping
from typing import Any

from hyperleaf.errors import InputError
from hyperleaf.storage.base import Conflict, StorageError, StudyExistsError, StudyNotFoundError, UnknownQueryError

LONGEST_LABEL = 200
LARGEST_NUMBER = 2**31 - 1  # of a query or a count: what an INTEGER holds in every database


def plain(values: Mapping[str, Any], what: str) -> dict[str, Any]:
    """A copy that shares nothing with the original and is the same after a trip through JSON (a tuple becomes a list)."""
    if not isinstance(values, Mapping):
        raise InputError(f"{what} must be a mapping of names to values; got {values!r}")
    return _plain(values, what)


def _plain(value: Any, what: str) -> Any:
    if getattr(value, "shape", None) == () and hasattr(value, "item"):  # a NumPy scalar, without importing NumPy
        value = value.item()
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return finite(value, what)
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise InputError(f"{what}: keys must be strings; got {key!r}. Use str(…).")
        return {key: _plain(part, f"{what}[{key!r}]") for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part, f"{what}[{number}]") for number, part in enumerate(value)]
    raise InputError(f"{what} must be made of numbers, strings, booleans, None, lists and mappings; got a {type(value).__name__}")


def finite(value: Any, what: str) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number) or isinstance(value, str | bytes | bool):
        raise InputError(f"{what} must be a finite number; got {value!r}")
    return number


def optional_finite(value: Any, what: str) -> float | None:
    return None if value is None else finite(value, what)


def outputs(values: Mapping[str, float]) -> dict[str, float]:
    """At least one finite number, each under its name."""
    if not isinstance(values, Mapping) or not values:
        raise InputError(f"Outputs must be a mapping with at least one name; got {values!r}")
    for name in values:
        label(name, "The name of an output")
    return {name: finite(value, f"Output {name!r}") for name, value in values.items()}


def whole(value: Any, what: str, *, least: int, most: int = LARGEST_NUMBER) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        number = least - 1
    if not least <= number <= most:
        raise InputError(f"{what} must be a whole number from {least} to {most}; got {value!r}")
    return number


def is_label(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value) <= LONGEST_LABEL and value == prose(value)


def label(value: Any, what: str) -> str:
    """A name or a key: something to find things by, hence never changed to fit."""
    if not is_label(value):
        raise InputError(f"{what} must be a string of 1 to {LONGEST_LABEL} characters without NUL; got {value!r}")
    return str(value)


def artifacts(values: Mapping[str, bytes] | None) -> dict[str, bytes]:
    """Artifacts by their keys."""
    return {label(key, "The key of an artifact"): bytes(payload) for key, payload in (values or {}).items()}


def prose(value: str) -> str:
    """Text for people, such as what a solver said at its end: what a database cannot hold is replaced, the rest is kept."""
    text = str(value).replace("\0", "\ufffd")
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")  # lone surrogates, from undecodable bytes


def to_json(value: Any) -> str:
    """Floats as their shortest exact form; ASCII only, so that no encoding of a database matters."""
    return json.dumps(value, allow_nan=False, separators=(",", ":"))


def damaged(what: str) -> StorageError:
    return StorageError(f"The store is damaged: {what.rstrip('.')}. Restore it from a copy, or begin the study anew.")


def query_number(study: str, number: Any) -> int:
    try:
        return whole(number, "The number of a query", least=1)
    except InputError:
        raise unknown_query(study, number) from None


def no_study(name: Any, url: str) -> StudyNotFoundError:
    return StudyNotFoundError(f"There is no study {name!r} in {url}. Create it first, or see the store's study_names().")


def study_exists(name: str, url: str) -> StudyExistsError:
    return StudyExistsError(f"The study {name!r} is in {url} already. Load it, or choose another name.")


def unknown_query(study: str, number: Any) -> UnknownQueryError:
    return UnknownQueryError(
        f"The study {study!r} has no query {number!r}. Queries are numbered from 1, in the order they were asked."
    )


def changed(study: str, expected: int, found: int) -> Conflict:
    return Conflict(f"The study {study!r} changed since it was read: version {expected} then, {found} now. Read it again.")
