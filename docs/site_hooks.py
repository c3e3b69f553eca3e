"""What the site has beside docs/*.md: pages out of the code, the READMEs of the examples and the changelog. Called by MkDocs.

Pages stay readable where they lie in the repository: their links lead to files there, and become links between pages here.
"""

from __future__ import annotations

import posixpath
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent

LINK = re.compile(r"(\]\()(?!\w+:|#|/)([^)#\s]+)((?:#[^)\s]*)?\))")
ABOUT = ("CHANGELOG", "CODE_OF_CONDUCT", "CONTRIBUTING", "NOTICES", "SECURITY")  # of the repository, beside the README
THEIRS = "https://unpkg.com/iframe-worker/shim"
FENCE = re.compile(r"^```python no-run$", re.MULTILINE)


def sources() -> dict[str, str]:
    """Pages by their path in the site: the file of the repository that they are."""
    found = {f"{name.lower()}.md": f"{name}.md" for name in ABOUT}
    found |= {"license.md": "LICENSE", "examples/index.md": "examples/README.md"}
    for readme in sorted((ROOT / "examples").glob("*/README.md")):
        found[f"examples/{readme.parent.name}.md"] = readme.relative_to(ROOT).as_posix()
    return found


def on_files(files: Any, config: Any) -> Any:
    sys.path.insert(0, str(DOCS))  # here, for MkDocs undoes it while it reads this file
    try:
        from reference import PAGES
    finally:
        sys.path.remove(str(DOCS))
    for path, page in PAGES.items():
        files.append(File.generated(config, path, content=page()))
    for path, source in sources().items():
        files.append(File.generated(config, path, content=(ROOT / source).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Links between files of the repository become links between pages; blocks that are not run look like the others."""
    here = sources().get(page.file.src_uri, f"docs/{page.file.src_uri}")
    if not page.file.src_uri.startswith("reference/"):
        markdown = LINK.sub(lambda link: link[1] + _target(link[2], here, page.file.src_uri) + link[3], markdown)
    return FENCE.sub("```python", markdown)


def on_post_page(output: str, page: Any, config: Any) -> str:
    """The theme would fetch from elsewhere what makes its search work on pages opened from a folder; ours comes with the site."""
    return output.replace(THEIRS, posixpath.relpath("search-worker.js", posixpath.dirname(page.url) or "."))


def on_post_template(output: str, template_name: str, config: Any) -> str:
    """The same for the page of addresses that lead nowhere."""
    return output.replace(THEIRS, "search-worker.js")


def _target(link: str, here: str, page: str) -> str:
    """The page that a link from the file `here` leads to, as seen from `page`; a link to no page is left as it is."""
    file = posixpath.normpath(posixpath.join(posixpath.dirname(here), link))
    by_file = {source: path for path, source in sources().items()}
    target = by_file.get(file) or (file.removeprefix("docs/") if file.startswith("docs/") else None)
    return link if target is None else posixpath.relpath(target, posixpath.dirname(page) or ".")
