"""What surrogates and acquisitions are compared on, by name.

`base` says what a task is and what a seed makes of it; `functions` are tasks of known functions, `systems` real ones that ship as
tables, `files` those whose table the user brings.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from hyperleaf.bench.tables import PathLike
from hyperleaf.bench.tasks.base import Realisation as Realisation, Task as Task
from hyperleaf.bench.tasks.files import FROM_FILE
from hyperleaf.bench.tasks.functions import FUNCTIONS
from hyperleaf.bench.tasks.systems import SYSTEMS
from hyperleaf.checks import alike
from hyperleaf.errors import InputError

_KNOWN: dict[str, Callable[[], Task]] = {**FUNCTIONS, **{name: system.task for name, system in SYSTEMS.items()}}
_MAKERS = ["exponential", *FROM_FILE, *(name for name in _KNOWN if name != "exponential")]


def tasks() -> tuple[str, ...]:
    """The names that `task` knows; first the paper's own, those that read a file among them."""
    return tuple(_MAKERS)


def needs_path(name: str) -> bool:
    """Whether the task reads a file that the user has to give."""
    return _checked(name) in FROM_FILE


def task(name: str, path: PathLike | None = None) -> Task:
    """The task of this name; `path` is the file (or folder) of its data, for those that read one."""
    name = _checked(name)
    if name in FROM_FILE:
        return replace(FROM_FILE[name](path), name=name)
    if path is not None:
        raise InputError(f"the task {name!r} needs no file; got path={str(path)!r}. Leave it out; {list(FROM_FILE)} read one.")
    return replace(_KNOWN[name](), name=name)


def _checked(name: str) -> str:
    plain = str(name).strip().lower().replace("_", "-")
    if plain not in _MAKERS:
        raise InputError(f"a task must be one of {', '.join(_MAKERS)}; got {name!r}.{alike(plain, _MAKERS)}")
    return plain
