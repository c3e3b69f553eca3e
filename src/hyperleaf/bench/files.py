"""Campaign files: a comparison of one's own in TOML, checked before anything runs."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from hyperleaf.bench.methods import Method
from hyperleaf.checks import nearest
from hyperleaf.errors import InputError

_KEYS = ("name", "tasks", "methods", "seeds", "queries", "paths")
_METHOD_KEYS = ("name", "title", "kind", "options", "acquisition")


def read_campaign(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The parts of a campaign from a TOML file, as `make_campaign` takes them; files are meant relative to its folder.

    `methods` are names or tables with `name`, `kind`, and if wanted `title`, `options` (of the surrogate) and `acquisition`.
    """
    path = Path(path)
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"a campaign file must exist; there is none at {path}. Correct the path.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"a campaign file must be TOML in UTF-8; {path} is not ({error}).") from None
    _check_keys(values, _KEYS, ("tasks", "methods"), str(path))
    rules: dict[str, tuple[str, Callable[[Any], bool]]] = {
        "name": ("a text", lambda value: isinstance(value, str)),
        "tasks": ("a list of names", lambda value: _is_list(value, str)),
        "methods": ("a list of names and tables", lambda value: _is_list(value, (str, dict))),
        "seeds": ("a number, or a list of whole numbers", lambda value: _is_count(value) or _is_list(value, int)),
        "queries": ("a whole number ≥ 1", _is_count),
        "paths": ("a table of files by task", lambda value: isinstance(value, dict) and _is_list(list(value.values()), str)),
    }
    for key, (rule, holds) in rules.items():
        if key in values and not holds(values[key]):
            raise InputError(f"{key} of {path} must be {rule}; got {values[key]!r:.80}.")
    parts = {"name": path.stem, **values}
    parts["methods"] = [one if isinstance(one, str) else _method(one, str(path)) for one in values["methods"]]
    if "paths" in values:
        parts["paths"] = {key: str(path.parent / Path(file).expanduser()) for key, file in values["paths"].items()}
    return parts


def _method(values: Mapping[str, Any], where: str) -> Method:
    """A method of one's own; its surrogate and acquisition are tried, so that a mistake shows before anything runs."""
    from hyperleaf.acquisition import as_acquisition
    from hyperleaf.surrogates.named import make_surrogate

    name = str(values.get("name", "?"))
    place = f"the method {name!r} in {where}"
    _check_keys(values, _METHOD_KEYS, ("name", "kind"), place)
    options, acquisition = values.get("options", {}), values.get("acquisition", "entropy")
    if not isinstance(options, dict):
        raise InputError(f"options of {place} must be a table, as {{ leaves = 4 }}; got {options!r:.80}.")
    try:
        make_surrogate(values["kind"], 2, **options)
        as_acquisition(acquisition)
    except InputError as error:
        raise InputError(f"{place}: {error}") from None
    return Method(name, str(values.get("title", name)), {"kind": values["kind"], **options}, acquisition)


def _check_keys(values: Mapping[str, Any], known: tuple[str, ...], needed: tuple[str, ...], where: str) -> None:
    for key in values:
        if key not in known:
            raise InputError(f"{where} has an unknown key {key!r}; {nearest(key, known)}")
    for key in needed:
        if key not in values:
            raise InputError(f"{where} must have {key!r}; it is missing.")


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _is_list(value: Any, kinds: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, kinds) and not isinstance(one, bool) for one in value)
