"""The folder of a run: of one study and one attempt, made for it and never used again.

Two studies may share a folder and even a name, a claim may be taken over, and a solver may write long after it was given up. So
the folder's name ends with a token that only this run knows; whatever lies in it was written by this run.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from pathlib import Path

_LONGEST = 80  # characters of a study's name that are kept; a file system takes 255 bytes


def study_folder(runs: Path, study: str | None) -> Path:
    """Where the runs of a study lie: by its name, with what a path cannot hold replaced and the difference kept in a digest."""
    if study is None:
        return runs
    name = re.sub(r"[^A-Za-z0-9_-]+", "_", study)[:_LONGEST]
    if name != study:
        name += "-" + hashlib.sha256(study.encode(errors="surrogatepass")).hexdigest()[:8]
    return runs / name


def run_folder(runs: Path, query_id: int, attempt: int) -> Path:
    """The path of a new folder for this attempt, such as query-0007/attempt-1-5f3a9c2e; it does not exist yet."""
    return runs / f"query-{query_id:04d}" / f"attempt-{attempt}-{secrets.token_hex(4)}"
