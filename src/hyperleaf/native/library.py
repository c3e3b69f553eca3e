"""`core.c` compiled on first use and loaded: kept in the cache folder under a name that says source, compiler and processor.

What fails on the way (no compiler, a folder that cannot be written, a compiler that cannot make it) is logged once, and JAX
serves instead.
"""

from __future__ import annotations

import ctypes
import hashlib
import logging
import os
import platform
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from hyperleaf.compilation import OFF, VARIABLE as CACHE, default_cache_folder, private_folder
from hyperleaf.errors import InputError

VARIABLE = "HYPERLEAF_NATIVE"
SOURCE = Path(__file__).with_name("core.c")
# No -ffast-math: infinities and NaN are told apart. The second set is for compilers that know no -march=native.
FLAGS = ("-std=gnu11", "-O3", "-fno-math-errno", "-shared", "-fPIC", "-pthread")
TARGETS: tuple[tuple[str, ...], ...] = (("-march=native",), ("-mcpu=native",), ())
SECONDS = 120  # for a compiler to finish
log = logging.getLogger(__name__)


def is_off() -> bool:
    return os.environ.get(VARIABLE, "").strip().lower() == OFF


def status() -> str:
    """Which code serves, in words; builds it if it has not been."""
    if is_off():
        return f"JAX ({VARIABLE}={OFF})"
    found, why = _built()
    return f"machine code by {_compiler()[1]}" if found is not None else f"JAX ({why})"


def library() -> ctypes.CDLL | None:
    """The loaded library, None where JAX has to serve. The environment is read each time, so that it can be switched."""
    return None if is_off() else _built()[0]


@cache
def _built() -> tuple[ctypes.CDLL | None, str]:
    """The library, or why there is none; once in a process."""
    try:
        return _load(), ""
    except (OSError, subprocess.SubprocessError, InputError) as error:
        why = f"no machine code: {' '.join(str(error).split())[:300]}"
        log.info("%s; JAX serves instead", why)
        return None, why


def _load() -> ctypes.CDLL:
    if os.name != "posix":
        raise OSError(f"it is made for POSIX systems; this is {os.name}")
    command, version = _compiler()
    if not command:
        raise OSError("there is no compiler; install one (cc) or name it in CC")
    if os.environ.get(CACHE, "").strip().lower() == OFF:
        with tempfile.TemporaryDirectory() as folder:  # a loaded library outlives its file
            return _opened(_compile(command, Path(folder) / "core.so"))
    text = "\n".join([SOURCE.read_text(encoding="utf-8"), *FLAGS, version, _processor()])
    name = f"core-{hashlib.sha256(text.encode()).hexdigest()[:32]}.so"
    path = private_folder(default_cache_folder()) / name
    return _opened(path if path.is_file() else _compile(command, path))


def _opened(path: Path) -> ctypes.CDLL:
    loaded = ctypes.CDLL(str(path))
    loaded.hyperleaf_run.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_int]
    loaded.hyperleaf_run.restype = ctypes.c_int
    number, real, pointer = ctypes.c_int64, ctypes.c_double, ctypes.c_void_p
    loaded.hyperleaf_chances.argtypes = [pointer, number, number, number, real, real, *[pointer] * 4]
    loaded.hyperleaf_chances.restype = None
    return loaded


def _compile(command: list[str], path: Path) -> Path:
    """The library at `path`, which appears there complete or not at all, whoever else is making it."""
    said = ""
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        made = Path(folder) / path.name
        for target in TARGETS:
            done = subprocess.run(
                [*command, *FLAGS, *target, str(SOURCE), "-o", str(made), "-lm"],
                capture_output=True,
                text=True,
                timeout=SECONDS,
                check=False,
                stdin=subprocess.DEVNULL,
            )
            if done.returncode == 0:
                made.replace(path)
                return path
            said = said or done.stderr
    raise OSError(f"{command[0]} failed: {said.strip()}")


@cache
def _compiler() -> tuple[list[str], str]:
    """The command of the C compiler and what it calls itself; nothing if there is none."""
    command = os.environ.get("CC", "").split() or ["cc"]
    if shutil.which(command[0]) is None:
        return [], ""
    said = subprocess.run([*command, "--version"], capture_output=True, text=True, timeout=SECONDS, stdin=subprocess.DEVNULL)
    return command, next(iter(said.stdout.splitlines()), command[0])


def _processor() -> str:
    """What tells processors apart that run different machine code: a cache folder may be shared between machines."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return f"{platform.machine()} {platform.processor()}"
    told = {line.partition(":")[0].strip(): line for line in lines}
    names = ("model name", "flags", "Features", "CPU part")
    return " ".join([platform.machine(), *(told[name] for name in names if name in told)])
