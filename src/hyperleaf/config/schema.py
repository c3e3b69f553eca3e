"""The JSON schema of study.toml, out of the models and tables that read it, for completion in editors and for the reference.

`study.schema.json` beside this file is what `generate` gives, and ships; `python -m hyperleaf.config.schema` writes it anew.
`generate` asks rooms that load JAX; whoever only wants the schema reads the file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from hyperleaf import doors
from hyperleaf.config.definition import Definition
from hyperleaf.config.keys import KEYS, SECTIONS
from hyperleaf.config.limits import LimitSection
from hyperleaf.config.sections import Output, Section
from hyperleaf.domain.axes import KINDS as AXES
from hyperleaf.inference import method
from hyperleaf.io import replacing
from hyperleaf.simulators.config import FURTHER_KEYS
from hyperleaf.surrogates.kinds import KINDS, NUMBER, PAIR, TRUTH, WHOLE, WORD, Option

FILE = Path(__file__).with_name("study.schema.json")
BY_NAME: dict[str, type[BaseModel]] = {"outputs": Output, "limits": LimitSection}  # sections with a table for each name
PLAIN: dict[str, dict[str, Any]] = {
    WHOLE: {"type": "integer"},
    NUMBER: {"type": "number"},
    TRUTH: {"type": "boolean"},
    WORD: {"type": "string"},
    PAIR: {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2},
    "name of a kernel": {"type": "string"},
    "list of whole numbers": {"type": "array", "items": {"type": "integer"}},
}


def written() -> str:
    """What the file must hold."""
    return json.dumps(generate(), indent=1, ensure_ascii=False) + "\n"


def generate() -> dict[str, Any]:
    special = {"inputs": _inputs, "surrogate": _surrogate, "simulator": _simulator}
    sections: dict[str, Any] = {}
    for name, means in SECTIONS.items():
        if name in special:
            schema = special[name]()
        elif name in BY_NAME:
            schema = {"type": "object", "additionalProperties": _of_model(f"{name}.*", BY_NAME[name])}
        else:
            schema = _of_model(name, _model(name))
        sections[name] = {"description": means, **schema}
    sections["acquisition"]["properties"] |= _acquisition(sections["acquisition"]["properties"])
    for name in ("inputs", "outputs"):
        sections[name]["minProperties"] = 1
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "A study of hyperleaf",
        "type": "object",
        "required": ["study", "inputs", "outputs"],
        "additionalProperties": False,
        "properties": sections,
    }


def _model(section: str) -> type[BaseModel]:
    """The model of a section, which may be wrapped in `… | None`."""
    annotation = Definition.model_fields[section].annotation
    parts = [annotation, *getattr(annotation, "__args__", ())]
    return next(part for part in parts if isinstance(part, type) and issubclass(part, Section))


def _of_model(place: str, model: type[BaseModel]) -> dict[str, Any]:
    found = model.model_json_schema()
    properties = {}
    for name, said in found["properties"].items():
        properties[name] = _described(f"{place}.{name}", _without_null(said))
    needed = {"required": found["required"]} if "required" in found else {}
    return {"type": "object", "properties": properties, **needed, "additionalProperties": False}


def _without_null(said: Mapping[str, Any]) -> dict[str, Any]:
    """TOML has no null: a key that may be left out is left out."""
    plain = {key: value for key, value in said.items() if key not in ("title", "anyOf") and value is not None}
    kinds = [one for one in said.get("anyOf", ()) if one.get("type") != "null"]
    return {**kinds[0], **plain} if len(kinds) == 1 else {**plain, "anyOf": kinds} if kinds else plain


def _described(place: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """With what the key means, and with what it may be where that is said of it."""
    key = KEYS.get(place)
    if key is None:
        return dict(schema)
    left_out = f" Left out: {key.left_out}." if key.left_out else ""
    return {"description": key.means + left_out, **(schema if key.schema is None else key.schema)}


def _inputs() -> dict[str, Any]:
    """A table for each input, of one of the shapes that the axes read; those with the same keys are one shape."""
    shapes = {axis.keys: axis for axis in AXES.values()}
    tables = []
    for keys in shapes:
        properties = {key: _described(f"inputs.*.{key}", {}) for key in keys}
        needed = [key for key in ("low", "high", "options") if key in keys]
        tables.append({"type": "object", "properties": properties, "required": needed, "additionalProperties": False})
    return {"type": "object", "additionalProperties": {"anyOf": tables}}


def _simulator() -> dict[str, Any]:
    """Exactly one of three keys, and what goes with it."""
    tables = []
    for kind, further in FURTHER_KEYS.items():
        properties = {key: _described(f"simulator.{key}", {}) for key in (kind, *further)}
        tables.append({"type": "object", "properties": properties, "required": [kind], "additionalProperties": False})
    return {"type": "object", "anyOf": tables}


def _acquisition(known: Mapping[str, Any]) -> dict[str, Any]:
    from hyperleaf.acquisition import ACQUISITIONS
    from hyperleaf.optimize import OPTIMIZERS

    kinds, searches = {"enum": [*ACQUISITIONS]}, {"enum": ["auto", *OPTIMIZERS]}
    return {"kind": {**known["kind"], **kinds}, "optimizer": {**known["optimizer"], **searches}}


def _surrogate() -> dict[str, Any]:
    """A shape for each kind, with its options; without a kind it is the first."""
    tables = []
    for number, kind in enumerate([*KINDS.values(), *doors.rivals().values()]):
        named = {"description": f"{KEYS['surrogate.kind'].means} {kind.title}.", "const": kind.name}
        options = {name: _option(name, option) for name, option in kind.options.items()}
        properties = {"kind": {**named, "default": kind.name} if number == 0 else named, **options}
        needed = {} if number == 0 else {"required": ["kind"]}
        tables.append({"type": "object", "properties": properties, **needed, "additionalProperties": False})
    return {"type": "object", "anyOf": tables}


def _option(name: str, option: Option) -> dict[str, Any]:
    default = {} if option.default is None else {"default": json.loads(json.dumps(option.default))}
    if name == "inference":
        return {"anyOf": [{"enum": list(option.choices)}, *map(_settings, option.choices)], **default}
    if option.choices:
        return {"enum": list(option.choices), **default}
    return {**PLAIN.get(option.type, {"description": f"A {option.type}."}), **default}


def _settings(name: str) -> dict[str, Any]:
    """A method of inference as a table; what is no plain value cannot be said in a file."""
    made = method(name)()
    found: dict[str, Any] = {"kind": {"const": name}}
    for one in fields(made):
        value = getattr(made, one.name)
        kind = {bool: TRUTH, int: WHOLE, float: NUMBER, str: WORD}.get(type(value))
        said = {} if kind is None else {**PLAIN[kind], "default": value}
        found[one.name] = said or {"description": "Left out: chosen by the method."}
    return {"type": "object", "properties": found, "required": ["kind"], "additionalProperties": False}


if __name__ == "__main__":
    with replacing(FILE) as unfinished:
        unfinished.write_text(written(), encoding="utf-8")
