"""Templates of code in other languages, and how they are filled in."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any


def template(name: str) -> str:
    return (Path(__file__).parent / "templates" / name).read_text(encoding="utf-8")


def filled(text: str, values: Mapping[str, Any]) -> str:
    """Each @key@ replaced by its value, the longest value first: it may hold the keys of others."""
    for key, value in sorted(values.items(), key=lambda pair: -len(str(pair[1]))):
        text = text.replace(f"@{key}@", str(value))
    return text


def lines_of(text: str, start: str) -> str:
    """A text as lines of a comment."""
    return "\n".join(f"{start}{line}".rstrip() for line in text.splitlines())
