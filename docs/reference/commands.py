"""Every command of the command line with its arguments, options, defaults and ranges, from the signatures of the commands."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from enum import Enum
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import typer
from typer.models import ArgumentInfo, OptionInfo

from hyperleaf.bench.commands import app as bench
from hyperleaf.cli.app import EPILOG, app
from reference.markup import code, paragraphs, plain, table

INTRODUCTION = f"""# Commands

Every command and option, out of the code that reads them; `hyperleaf COMMAND --help` says the same in a terminal.
[Campaigns](../campaigns.md) says how they go together.

{plain(EPILOG)}
"""
HEAD = ("", "what it says", "what it may be", "default")
Parameter = tuple[str, Any, ArgumentInfo | OptionInfo, Any]  # name, type, what typer is told, default


def commands_page() -> str:
    parts = [INTRODUCTION]
    for name, function, epilog in commands():
        rows = [_row(*one) for one in parameters(function)]
        parts += [f"## {name}\n", paragraphs(inspect.getdoc(function) or ""), "", table(HEAD, rows) if rows else ""]
        parts += [f"{plain(epilog)}\n"] if epilog else []
    return "\n".join(parts)


def commands() -> Iterator[tuple[str, Callable[..., Any], str]]:
    """Full names, functions and examples; options of all commands first."""
    for prefix, group in (("hyperleaf", app), ("hyperleaf bench", bench)):
        if group.registered_callback and (function := group.registered_callback.callback):
            yield prefix, function, ""
        for one in group.registered_commands:
            function = one.callback
            if function is not None and not any(kind is typer.Context for kind in get_type_hints(function).values()):
                yield f"{prefix} {one.name or function.__name__.replace('_', '-')}", function, str(one.epilog or "")


def parameters(function: Callable[..., Any]) -> list[Parameter]:
    hints = get_type_hints(function, include_extras=True)
    found: list[Parameter] = []
    for name, one in inspect.signature(function).parameters.items():
        kind, *told = get_args(hints[name])
        found += [(name, kind, info, one.default) for info in told if isinstance(info, ArgumentInfo | OptionInfo)]
    return found


def _row(name: str, kind: Any, info: Any, default: Any) -> tuple[str, ...]:
    if isinstance(info, ArgumentInfo):
        shown = code(info.metavar or name.upper())
    else:
        first = [info.default] if isinstance(info.default, str) else []  # so typer takes the names of an annotated option
        names = [*first, *(info.param_decls or ())] or [f"--{name.replace('_', '-')}"]
        shown = ", ".join(map(code, sorted(names, key=len, reverse=True))) + (f" {plain(info.metavar)}" if info.metavar else "")
    return shown, plain(info.help or ""), _range(kind, info), _default(default)


def _range(kind: Any, info: Any) -> str:
    """What a value may be, in words."""
    several = get_origin(kind) is list or any(get_origin(one) is list for one in get_args(kind))
    kinds = [one for one in get_args(kind) if one is not type(None)] or [kind]
    kinds = [inner for one in kinds for inner in (get_args(one) or (one,))]
    if isinstance(kinds[0], type) and issubclass(kinds[0], Enum):
        return ", ".join(code(str(one.value)) for one in kinds[0])
    if kinds[0] is bool:
        return "a flag"
    if getattr(info, "count", False):
        return "a flag, several times for more"
    words = {int: "whole number", float: "number", str: "text", Path: "path"}[kinds[0]]
    words += f" ≥ {info.min}" if info.min is not None else ""
    words += f" ≤ {info.max}" if info.max is not None else ""
    return words + (", several" if several else "")


def _default(value: Any) -> str:
    if value is inspect.Parameter.empty:
        return "must be there"
    value = value.value if isinstance(value, Enum) else value
    if value is None or value is False or value in (0, ()):
        return ""
    return code(value.as_posix() if isinstance(value, Path) else str(value))
