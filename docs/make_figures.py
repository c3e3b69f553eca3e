"""Runs the code of the pages and keeps the pictures it makes: `python docs/make_figures.py [page …]`.

All ```python blocks of a page run in order in one namespace; a block fenced as ```python no-run does not, and one fenced as
```python needs=package only where that package is installed, or HYPERLEAF_EXPECT names it. Each variable named figure_<name>
that a page leaves behind is a matplotlib figure and becomes docs/img/<page>-<name>.png.
"""

from __future__ import annotations

import os
import re
import sys
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parent
FENCE = re.compile(r"^```python[ \t]*(?P<flag>[^\n]*)\n(?P<code>.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)


def blocks(page: Path) -> list[tuple[int, str]]:
    """The blocks that run, each with the number of lines before its first."""
    text = page.read_text(encoding="utf-8")
    found = []
    for match in FENCE.finditer(text):
        flag = match["flag"].strip()
        package = flag.removeprefix("needs=")
        if flag not in ("", "no-run") and (package == flag or not package.isidentifier()):
            raise ValueError(
                f"{page.name}: a block is fenced as ```python, ```python no-run or ```python needs=package; got ```python {flag}."
            )
        if not flag or (package != flag and _is_here(package)):
            found.append((text.count("\n", 0, match.start("code")), match["code"]))
    return found


def needed(page: Path) -> list[str]:
    """The packages without which some blocks of the page do not run."""
    flags = [match["flag"].strip() for match in FENCE.finditer(page.read_text(encoding="utf-8"))]
    return sorted({flag.removeprefix("needs=") for flag in flags if flag.startswith("needs=")})


def _is_here(package: str) -> bool:
    return find_spec(package) is not None or package in os.environ.get("HYPERLEAF_EXPECT", "").split(",")


def run(page: Path) -> dict[str, Any]:
    """What the page's code leaves behind. Tracebacks name the lines of the page."""
    namespace: dict[str, Any] = {"__name__": f"docs_{page.stem}"}
    for skipped, code in blocks(page):
        exec(compile("\n" * skipped + code, str(page), "exec", dont_inherit=True), namespace)
    return namespace


def figures(page: Path, namespace: dict[str, Any]) -> dict[str, Any]:
    """The figures of a page by the name of their file."""
    named = {name.removeprefix("figure_"): value for name, value in namespace.items() if name.startswith("figure_")}
    return {f"{page.stem}-{name}.png": figure for name, figure in named.items()}


def save(figure: Any, path: Path) -> None:
    """A small PNG: 256 colours are enough, if they span all that occur, or a few marks on a map would lose theirs."""
    from PIL import Image

    buffer = BytesIO()
    figure.savefig(buffer, dpi=90)
    image = Image.open(buffer).convert("RGB")
    image.quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(path, optimize=True)


def main(names: list[str]) -> None:
    (DOCS / "img").mkdir(exist_ok=True)
    for page in [DOCS / name for name in names] or sorted(DOCS.glob("*.md")):
        for name, figure in figures(page, run(page)).items():
            save(figure, DOCS / "img" / name)
            sys.stdout.write(f"docs/img/{name}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
