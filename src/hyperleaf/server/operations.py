"""What the HTTP interface offers: one table from which requests are routed and checked, and from which OpenAPI is written.

Names of studies may hold any character, so a path is cut at its slashes before it is decoded.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import unquote

from hyperleaf.checks import nearest
from hyperleaf.errors import InputError
from hyperleaf.server.studies import Warm

ROOT = "/api/v1"
Schema = Mapping[str, Any]
TEXT: Schema = {"type": "string", "maxLength": 20_000}
NAME: Schema = {"type": "string", "maxLength": 100}
COUNT: Schema = {"type": "integer", "minimum": 1, "maximum": 1000}
NUMBER: Schema = {"type": "number"}
SECONDS: Schema = {"type": "number", "minimum": 0}
FLAG: Schema = {"type": "boolean"}
VALUES: Schema = {"type": "object", "description": "Values by name; a text is read as the command line reads it."}
POINTS: Schema = {
    "description": "Points in native units: a list of objects, or an object of columns.",
    "oneOf": [{"type": "array", "items": {"type": "object"}}, {"type": "object", "additionalProperties": {"type": "array"}}],
}
_TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "object": (dict,),
    "array": (list,),
}


@dataclass(frozen=True)
class Call:
    """One request: what its path, its query and its body say, and who sent it."""

    role: str
    number: int
    body: Mapping[str, Any]
    options: Mapping[str, str]
    key: str | None
    most_points: int
    names: Callable[[], tuple[str, ...]] = tuple
    get: Callable[[str], Warm] | None = None


@dataclass(frozen=True)
class Operation:
    """`answer` is called in a thread: for what is "quick", for what may learn ("slow"), or with the store as a whole ("store").
    A "stream" is answered by the application itself. `writes` needs more than a link for looking."""

    method: Literal["GET", "POST"]
    path: str
    kind: Literal["quick", "slow", "store", "stream"]
    summary: str
    answer: Callable[..., Any] | None = None
    body: Mapping[str, Schema] = field(default_factory=dict)
    required: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    writes: bool = False
    media: str = "application/json"

    @property
    def parts(self) -> list[str]:
        return self.path.strip("/").split("/")


def matched(operation: Operation, parts: list[str]) -> dict[str, str] | None:
    """What stands at the places of a path that are in braces; None if it is another path."""
    own = operation.parts
    if len(own) != len(parts):
        return None
    found = {}
    for pattern, part in zip(own, parts, strict=True):
        if pattern.startswith("{"):
            found[pattern.strip("{}")] = part
        elif pattern != part:
            return None
    return found


def split(raw_path: str) -> list[str]:
    return [unquote(part, errors="replace") for part in raw_path.strip("/").split("/")]


def read_json(content: bytes) -> dict[str, Any]:
    """An object, without numbers that JSON does not know."""

    def refuse(constant: str) -> Any:
        raise InputError(f"numbers must be finite; got {constant}.")

    try:
        values = json.loads(content.decode("utf-8") or "{}", parse_constant=refuse)
    except (ValueError, RecursionError) as error:  # not UTF-8, not JSON, or a number of more digits than can be read
        raise InputError(f"a request must be JSON in UTF-8; this is not ({error}).") from None
    if not isinstance(values, dict):
        raise InputError(f"a request must be a JSON object; got {type(values).__name__}.")
    return values


def check_body(operation: Operation, values: Mapping[str, Any]) -> None:
    """Refuse names that an operation does not have, and values of other types than it takes."""
    for name, value in values.items():
        if name not in operation.body:
            hint = f" For {name[:40]!r} {nearest(name[:40], operation.body)}" if operation.body else ""
            raise InputError(f"{operation.path} takes {list(operation.body) or 'nothing'}; got {name!r:.80}.{hint}")
        _check(name, value, operation.body[name])
    for name in operation.required:
        if name not in values:
            raise InputError(f"{operation.path} needs {name!r}; it is missing.")


def _check(name: str, value: Any, schema: Schema) -> None:
    kinds = schema.get("oneOf", [schema])
    types = tuple(one for kind in kinds for one in _TYPES[kind["type"]])
    if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
        wanted = " or ".join(kind["type"] for kind in kinds)
        raise InputError(f"{name} must be of the type {wanted}; got {type(value).__name__}.")
    if isinstance(value, str) and len(value) > schema.get("maxLength", len(value)):
        raise InputError(f"{name} may have up to {schema['maxLength']} characters; got {len(value)}.")
    if isinstance(value, int | float) and not schema.get("minimum", value) <= value <= schema.get("maximum", value):
        wanted = f"from {schema['minimum']} to {schema['maximum']}" if "maximum" in schema else f"{schema['minimum']} or more"
        raise InputError(f"{name} must be {wanted}; got {value!r:.40}.")
