"""Text of the code as Markdown that shows it as it is: nothing in it is taken for markup but `code`."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence


def plain(text: str) -> str:
    """Words in which `code` is code and nothing else is markup; also good in a table."""
    parts = re.split(r"`([^`\n]+)`", text)
    words = [code(part) if number % 2 else _escaped(part) for number, part in enumerate(parts)]
    return "".join(words)


def code(text: str) -> str:
    return f"<code>{_escaped(text)}</code>"


def paragraphs(text: str) -> str:
    """A docstring: paragraphs, and what is indented or a table as it stands."""
    found = []
    for block in re.split(r"\n\s*\n", text.strip()):
        lines = block.splitlines()
        as_it_is = any(line.startswith(("    ", "|", "- ")) for line in lines)
        found.append(f"<pre>{_escaped(block)}</pre>" if as_it_is else plain(" ".join(line.strip() for line in lines)))
    return "\n\n".join(found)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("\n", " ") for cell in line) + " |" for line in lines) + "\n"


def _escaped(text: str) -> str:
    """As HTML entities, so that neither HTML, Markdown nor a table takes offence."""
    return re.sub(r"[|*_\[\]`\\{}#~^=]", lambda one: f"&#{ord(one[0])};", html.escape(text, quote=False))
