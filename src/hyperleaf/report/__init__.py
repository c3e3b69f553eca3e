"""One self-contained HTML page about a study: what was learned, where and when it was asked, how far to trust it, all runs.

`facts` gathers what there is, `words`, `remarks` and `helping` say it in sentences, `tables` lists it, `learned` and `campaign`
draw it, and `page` puts it together in the template page.html.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hyperleaf.errors import InputError
from hyperleaf.io import replacing
from hyperleaf.report.facts import gather
from hyperleaf.report.page import render
from hyperleaf.study.snapshot import Snapshot
from hyperleaf.study.study import Study

__all__ = ["write_report"]


def write_report(study: Study | Snapshot, path: str | Path, *, at: Mapping[str, Any] | None = None) -> Path:
    """Write the page and return where it is. It opens in any browser, offline, and replaces an older one whole or not at all.

    `study` is one, or a snapshot of it that has learned. `at` is the point in native units that slices go through, the centre of
    the domain by default.
    """
    path = Path(path)
    if path.is_dir():
        raise InputError(f"a report is written to a file; {path} is a folder. Write {path / 'report.html'}, for instance.")
    if not path.parent.is_dir():
        raise InputError(f"a report is written to a folder that exists; there is no {path.parent}. Make it first.")
    snapshot = study if isinstance(study, Snapshot) else study.snapshot(learn=True)
    text = render(gather(snapshot, at))
    with replacing(path) as unfinished:
        unfinished.write_text(text, encoding="utf-8")
    return path
