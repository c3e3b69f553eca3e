"""Every key of study.toml, from the schema that ships: what it means, what it may be, and what holds without it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from hyperleaf.config.keys import KEYS
from hyperleaf.config.schema import FILE
from reference.markup import code, plain, table

HEAD = ("key", "what it says", "what it may be", "left out")
INTRODUCTION = """# study.toml

Every section and key, out of the code that reads them. [Campaigns](../campaigns.md) says how they go together, `hyperleaf new`
writes a file to begin with, and `hyperleaf check` says what it would do, or what is wrong with it. An unknown key is an error.
"""


def study_file_page() -> str:
    sections = json.loads(FILE.read_text(encoding="utf-8"))["properties"]
    return "\n".join([INTRODUCTION, *(_section(name, schema) for name, schema in sections.items())])


def _section(name: str, schema: Mapping[str, Any]) -> str:
    lines = [f"## [{name}]", "", plain(schema["description"]), ""]
    if name == "surrogate":
        return "\n".join([*lines, *_surrogates(schema)])
    named = isinstance(schema.get("additionalProperties"), dict)
    inner = schema["additionalProperties"] if named else schema
    rows: dict[str, tuple[str, ...]] = {}
    for part in inner.get("anyOf", [inner]):
        for key, said in part["properties"].items():
            rows.setdefault(
                key, _row(f"{name}.*.{key}" if named else f"{name}.{key}", key, said, key in part.get("required", ()))
            )
    return "\n".join([*lines, table(HEAD, rows.values())])


def _row(place: str, key: str, said: Mapping[str, Any], needed: bool) -> tuple[str, ...]:
    known = KEYS.get(place)
    means = known.means if known else said.get("description", "")
    if "default" in said and said["default"] not in ("", [], {}):
        without = code(json.dumps(said["default"], ensure_ascii=False))
    else:
        without = plain(known.left_out) if known and known.left_out else "must be there" if needed else "none"
    return code(key), plain(means), _range(said), without


def _surrogates(schema: Mapping[str, Any]) -> Iterator[str]:
    """A table for each kind, and one for each method of inference, which most kinds share."""
    methods: dict[str, Mapping[str, Any]] = {}
    for part in schema["anyOf"]:
        properties = dict(part["properties"])
        kind = properties.pop("kind")
        yield f'### kind = "{kind["const"]}"\n\n{plain(kind["description"].removeprefix(KEYS["surrogate.kind"].means).strip())}\n'
        rows = []
        for key, said in properties.items():
            if key == "inference":
                methods |= {one["properties"]["kind"]["const"]: one["properties"] for one in said["anyOf"] if "properties" in one}
            rows.append(_row(f"surrogate.{key}", key, said, False))
        yield table((HEAD[0], *HEAD[2:]), ((row[0], *row[2:]) for row in rows)) if rows else "No further keys.\n"
    for name, properties in methods.items():
        yield f'### inference of kind "{name}"\n'
        rows = [_row(f"inference.{key}", key, said, False) for key, said in properties.items() if key != "kind"]
        yield table((HEAD[0], *HEAD[2:]), ((row[0], *row[2:]) for row in rows))


def _range(said: Mapping[str, Any]) -> str:
    """What a value may be, in words."""
    if "anyOf" in said:
        return ", or ".join(dict.fromkeys(filter(None, map(_range, said["anyOf"]))))
    if "enum" in said:
        return ", ".join(code(json.dumps(one)) for one in said["enum"])
    if "properties" in said:
        return "a table, see below"
    kinds = {"string": "text", "integer": "whole number", "number": "number", "boolean": "true or false"}
    if said.get("type") == "array":
        items = said.get("items") or {}
        size = "two numbers" if said.get("maxItems") == 2 else f"a list of {_plural(items)}"
        return size + (f", at least {said['minItems']}" if said.get("minItems", 0) > 0 and size != "two numbers" else "")
    if said.get("type") == "object":
        inner = said.get("additionalProperties")
        return f"a table, each {_range(inner)}" if isinstance(inner, dict) else "a table"
    words = kinds.get(str(said.get("type")), "")
    for key, sign in (("minimum", "≥"), ("exclusiveMinimum", "&gt;"), ("maximum", "≤"), ("exclusiveMaximum", "&lt;")):
        if key in said:
            words += f" {sign} {said[key] if said[key] < 2**62 else '2⁶³'}"
    for key, sign in (("minLength", "at least"), ("maxLength", "at most")):
        if key in said:
            words += f", {sign} {said[key]} characters" if said[key] != 1 else ", not empty"
    examples = ", ".join(code(one) for one in said.get("examples", ()))
    return words + (f" such as {examples}" if examples else "")


def _plural(items: Mapping[str, Any]) -> str:
    words = {"string": "texts", "integer": "whole numbers", "number": "numbers", "object": "tables"}
    return words.get(str(items.get("type")), "texts, numbers or truth values")
