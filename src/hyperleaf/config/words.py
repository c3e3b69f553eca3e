"""What is wrong with the values of a study, in a person's words."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from hyperleaf.checks import nearest
from hyperleaf.config.sections import Broken, ConfigError, Output

# pydantic's kinds of errors in a person's words, where its own are a programmer's
_RULES = {
    "model_type": "must be a table of settings",
    "dict_type": "must be a table of settings",
    "string_type": "must be text",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "bool_type": "must be true or false",
}
_DEEPEST = 20


def check_plain(value: Any, place: str = "", depth: int = 0) -> None:
    """What any store can keep: texts, truth values, finite numbers, lists and tables of them, not nested for its own sake."""
    where = place or "a study"
    if depth > _DEEPEST:
        raise ConfigError(f"{place.partition('.')[0]} must not be nested more than {_DEEPEST} deep.")
    if isinstance(value, Mapping):
        for key, entry in value.items():
            check_plain(str(key), f"a key of {where}", depth + 1)
            check_plain(entry, f"{place}.{key}" if place else str(key), depth + 1)
    elif isinstance(value, list | tuple):
        for entry in value:
            check_plain(entry, place, depth + 1)
    elif isinstance(value, str):
        if "\0" in value:
            raise ConfigError(f"{where} must be text without NUL characters; got {value[:60]!r}.")
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise ConfigError(f"{where} must be finite; got {value}. Leave it out for no limit.")
    elif isinstance(value, int):
        if not -(2**63) <= value < 2**63:
            raise ConfigError(f"{where} must be a number below 2**63; got one of {value.bit_length()} bits.")
    elif value is not None:
        raise ConfigError(
            f"{where} must be text, a number, true or false, a list or a table; got {type(value).__name__} {value!s:.60}."
        )


def sentence(error: ValidationError, model: type[BaseModel]) -> str:
    """The first thing pydantic found, in a person's words."""
    count = error.error_count()
    return sentences(error, model, f" ({count - 1} more)" if count > 1 else "")[0][1]


def sentences(error: ValidationError, model: type[BaseModel], more: str = "") -> list[tuple[tuple[str, ...], str]]:
    """All that pydantic found, in a person's words, each with its place and with `more` at its end."""
    return [_place_and_words(one, model, more) for one in error.errors(include_url=False)]


def _place_and_words(found: Any, model: type[BaseModel], more: str) -> tuple[tuple[str, ...], str]:
    parts = tuple(str(part) for part in found["loc"] if part not in ("float", "dict[str,float]", "literal['learned','none']"))
    place = ".".join(parts)
    value = found.get("input")
    if found["type"] == "extra_forbidden":
        section: Any = model
        for part in found["loc"][:-1]:
            field = section.model_fields.get(str(part)) if isinstance(section, type) and issubclass(section, BaseModel) else None
            section = _model_of(field.annotation) if field is not None else Output if section is None else section
        known = tuple(section.model_fields) if isinstance(section, type) and issubclass(section, BaseModel) else ()
        return parts, f"{place} is no setting; {nearest(str(found['loc'][-1]), known)}"
    if found["type"] == "missing":
        return parts, f"{place} is missing. See: hyperleaf new"
    shown = repr(value)
    shown = shown if len(shown) <= 80 else shown[:77] + "…"
    rule = found["msg"].removeprefix("Value error, ").replace("Input should be", "must be").replace("String should", "must")
    rule = _RULES.get(found["type"], rule)
    if isinstance(found.get("ctx", {}).get("error"), Broken):
        return parts, f"{place}: {rule}{more}"
    mark = "" if rule.startswith("must") else ":"
    return parts, f"{place}{mark} {rule}; got {shown}{more}." if place else f"{rule}{more}."


def _model_of(annotation: Any) -> Any:
    """The section model in an annotation such as `PoolSection | None` or `dict[str, Output]`; None where it holds Outputs."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for part in getattr(annotation, "__args__", ()):
        if isinstance(part, type) and issubclass(part, BaseModel):
            return None if part is Output else part
    return None
