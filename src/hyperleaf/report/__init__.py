"""One self-contained HTML page about a study: what was learned, where and when it was asked, how far to trust it, all runs.

`facts` gathers what there is, `words` says it in sentences, `figures` draws it, and `page` puts it together.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hyperleaf.errors import InputError
from hyperleaf.report.facts import gather
from hyperleaf.report.page import render
from hyperleaf.study import Study

__all__ = ["write_report"]


def write_report(study: Study, path: str | Path, *, at: Mapping[str, Any] | None = None) -> Path:
    """Write the page and return where it is. It opens in any browser, offline, and replaces an older one whole or not at all.

    `at` is the point in native units that slices go through, the centre of the domain by default.
    """
    path = Path(path)
    if path.is_dir():
        raise InputError(f"a report is written to a file; {path} is a folder. Write {path / 'report.html'}, for instance.")
    if not path.parent.is_dir():
        raise InputError(f"a report is written to a folder that exists; there is no {path.parent}. Make it first.")
    text = render(gather(study, at))
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(temporary, 0o666 & ~_umask())  # mkstemp makes files that nobody else may read
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return path


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
