"""`hyperleaf doctor`: what this installation is made of, where its store and cache are, and what is slow and why."""

from __future__ import annotations

import os
import platform
import time
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from hyperleaf.compilation import OFF, VARIABLE, default_cache_folder
from hyperleaf.errors import HyperleafError

PACKAGES = (
    "hyperleaf",
    "jax",
    "jaxlib",
    "numpy",
    "scipy",
    "numpyro",
    "blackjax",
    "equinox",
    "sqlalchemy",
    "psycopg",
    "distributed",
)
SLOW = 0.05  # seconds for a store to answer, beyond which a run is held up by it


@dataclass(frozen=True)
class Finding:
    """Something looked at, and what to do about it; "" if all is well."""

    what: str
    found: str
    advice: str = ""


def examine(path: Path) -> list[Finding]:
    """Everything, from the light to the heavy; the study is looked at if there is one."""
    return [*_versions(), *_cores(), *_cache(), *_code(), *_store(path)]


def _versions() -> list[Finding]:
    found = [Finding("Python", f"{platform.python_version()} on {platform.system()} {platform.machine()}")]
    for name in PACKAGES:
        try:
            found.append(Finding(name, version(name)))
        except PackageNotFoundError:
            continue  # an extra that nobody asked for
    return found


def _cores() -> list[Finding]:
    from hyperleaf.parallel import num_threads

    machine, ours = os.cpu_count() or 1, num_threads()
    limit = os.environ.get("HYPERLEAF_THREADS", "")
    said = f"{ours} of {machine}" + (f" (HYPERLEAF_THREADS={limit})" if limit else "")
    advice = ""
    try:
        busy = os.getloadavg()[0]
    except OSError:
        busy = 0.0
    if busy > 1.5 * machine:
        advice = f"the machine is busy (load {busy:.1f}): learning takes longer than it need"
    elif ours < machine and not limit:
        advice = "this process may not use all cores (taskset, container or scheduler)"
    return [Finding("cores", said, advice)]


def _cache() -> list[Finding]:
    folder = default_cache_folder()
    if os.environ.get(VARIABLE, "").strip().lower() == OFF:
        return [Finding("compiled code", f"not kept ({VARIABLE}={OFF})", "every command compiles anew, for half a minute")]
    if not folder.is_dir():
        return [Finding("compiled code", f"none in {folder}", "the first command that learns compiles for half a minute")]
    files = [entry.stat().st_size for entry in os.scandir(folder) if entry.is_file()]
    said = f"{len(files)} files, {sum(files) / 2**20:.0f} MiB in {folder}"
    writable = os.access(folder, os.W_OK)
    return [Finding("compiled code", said, "" if writable else "it cannot be written: every command compiles anew")]


def _code() -> list[Finding]:
    from hyperleaf.machine.library import is_off
    from hyperleaf.native import status

    said = status()
    slow = said.startswith("JAX") and not is_off()
    return [Finding("learning", said, "learning takes several times as long; a C compiler (cc) is all it needs" if slow else "")]


def _store(path: Path) -> list[Finding]:
    if not path.exists():
        return [Finding("study", f"there is no {path}")]
    from hyperleaf.cli.opening import open_study

    try:
        study = open_study(path, begins=False)
        started = time.perf_counter()
        record = study.record()
        seconds = time.perf_counter() - started
        skew = abs(study.storage.now() - time.time())
    except HyperleafError as error:
        return [Finding("study", str(path), str(error))]
    found = [Finding("study", f"{study.name}: {len(record.queries)} queries, {len(record.observations)} observations")]
    slow = f"it takes {seconds:.2f} s to answer, and is asked several times for each query" if seconds > SLOW else ""
    found.append(Finding("store", f"{study.storage.url}, answers in {1000 * seconds:.0f} ms", slow))
    if skew > 5:
        found.append(Finding("clock", f"{skew:.0f} s off that of the store", "set this machine's clock; the store's is used"))
    payload = study.storage.artifact(study.name, "learned")
    size = f"{len(payload) / 2**20:.1f} MiB kept" if payload else "nothing kept"
    missing = payload is None and len(record.observations) > len(study.outputs)
    found.append(Finding("what was learned", size, "the next ask learns from all epochs again" if missing else ""))
    return found


def values(findings: list[Finding]) -> dict[str, Any]:
    return {"findings": findings, "advice": [one.advice for one in findings if one.advice]}


def text(findings: list[Finding]) -> str:
    from hyperleaf.cli.output import columns

    rows = [[one.what, one.found] for one in findings]
    advice = [f"! {one.what}: {one.advice}" for one in findings if one.advice]
    return "\n".join([columns(rows, indent=""), *(advice or ["Nothing to complain of."])])
