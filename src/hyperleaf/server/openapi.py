"""OpenAPI 3.1 of the HTTP interface, written from its table of operations."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

from hyperleaf.server.operations import Operation

ERROR = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["kind", "message"],
            "properties": {
                "kind": {"type": "string", "description": "The class of the error in Python."},
                "message": {"type": "string", "description": "The rule, the value and the remedy."},
            },
        }
    },
}
STATUS = {
    "400": "The request is not whole.",
    "401": "The token is missing or wrong.",
    "403": "A link for looking, or a page of another origin.",
    "404": "No such study or query.",
    "409": "It cannot be done as the study stands.",
    "413": "Too large, or too many points.",
    "415": "Not JSON.",
    "421": "The server is not called by that name.",
    "422": "A value breaks a rule.",
    "503": "The store does not answer, or too many are connected.",
}


def describe(operations: Sequence[Operation]) -> dict[str, Any]:
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation)
    return {
        "openapi": "3.1.0",
        "info": {"title": "hyperleaf", "version": version("hyperleaf"), "summary": "Studies: ask, tell, predict."},
        "security": [{"token": []}, {"cookie": []}],
        "paths": paths,
        "components": {
            "schemas": {"Error": ERROR},
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": "As hyperleaf serve prints it."},
                "cookie": {"type": "apiKey", "in": "cookie", "name": "hyperleaf-PORT", "description": "Of a browser."},
            },
        },
    }


def _operation(operation: Operation) -> dict[str, Any]:
    name = operation.path.rpartition("/")[2].strip("{}").replace(".", "_")
    parameters: list[dict[str, Any]] = [
        {"name": part, "in": "path", "required": True, "schema": {"type": "integer" if part == "query" else "string"}}
        for part in re.findall(r"{(\w+)}", operation.path)
    ]
    parameters += [
        {"name": option, "in": "query", "description": words, "schema": {"type": "string"}}
        for option, words in operation.options.items()
    ]
    if operation.writes:
        words = "A request with a key that was answered before gets that answer again, and nothing is done twice."
        parameters.append({"name": "Idempotency-Key", "in": "header", "description": words, "schema": {"type": "string"}})
    found: dict[str, Any] = {
        "operationId": f"{operation.method.lower()}_{name}",
        "summary": operation.summary,
        "parameters": parameters,
        "responses": {
            "200": {"description": "Done.", "content": {operation.media: {}}},
            **{
                status: {
                    "description": words,
                    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
                }
                for status, words in STATUS.items()
            },
        },
    }
    if operation.method == "POST":
        schema = {"type": "object", "properties": dict(operation.body), "required": list(operation.required)}
        found["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": {**schema, "additionalProperties": False}}},
        }
    return found
