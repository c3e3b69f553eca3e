"""Compiled code kept between runs, in a folder of the user's own, so that the next process starts warm.

JAX compiles each function once for each shape, which costs a campaign half a minute. The cache is a setting of the whole process,
so whoever has given JAX a folder keeps it; else hyperleaf gives it one when it first computes, unless HYPERLEAF_CACHE is off.
"""

from __future__ import annotations

import logging
import os
import stat
from functools import cache
from pathlib import Path

from hyperleaf.errors import InputError

VARIABLE = "HYPERLEAF_CACHE"
OFF = "off"
log = logging.getLogger(__name__)


def default_cache_folder() -> Path:
    """HYPERLEAF_CACHE if it is set, else hyperleaf/compiled in the user's cache folder."""
    if VARIABLE in os.environ:
        return Path(os.environ[VARIABLE])
    base = os.environ.get("LOCALAPPDATA" if os.name == "nt" else "XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "hyperleaf" / "compiled"


@cache
def keep_compiled() -> None:
    """What `float64` calls before anything is compiled: the cache, where nobody has said otherwise; once in a process."""
    try:
        enable_compilation_cache()
    except InputError as error:  # a home that cannot be written to is no reason not to compute
        log.info("compiled code is not kept: %s", error)


def enable_compilation_cache(folder: str | os.PathLike[str] | None = None) -> Path | None:
    """Keep compiled code in `folder` (by default the user's own cache folder) and use what lies there; returns the folder, or
    None if none is named and HYPERLEAF_CACHE is off.

    Compiled code is executed when it is read back, so the folder is made readable and writable by its owner only, and a folder
    that belongs to somebody else or that others may write to is refused. A folder that the user already gave JAX is kept.
    """
    import jax

    given = jax.config.values["jax_compilation_cache_dir"]
    if folder is None and given:
        return Path(given)
    if folder is None and os.environ.get(VARIABLE, "").strip().lower() == OFF:
        return None
    path = private_folder(default_cache_folder() if folder is None else Path(folder))
    jax.config.update("jax_compilation_cache_dir", str(path))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)  # many small ones take seconds, too
    return path


def private_folder(path: Path) -> Path:
    """The folder, made if it is not there; refused if anybody else could put code into it."""
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise InputError(f"the compilation cache needs a folder; {path} cannot be made ({error}). Name another.") from error
    if hasattr(os, "getuid"):
        found = path.stat()
        if found.st_uid != os.getuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise InputError(
                f"the compilation cache must belong to you and be writable by you alone; {path} is not. "
                "Remove the rights of others (chmod 700) or name another folder."
            )
    return path
