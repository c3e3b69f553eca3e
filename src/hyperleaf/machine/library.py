"""C sources compiled on first use and loaded: kept in the cache folder under a name that says sources, compiler and processor.

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
from hyperleaf.processes import run_command

VARIABLE = "HYPERLEAF_NATIVE"
HERE = Path(__file__).parent
# No -ffast-math: infinities and NaN are told apart. The second set is for compilers that know no -march=native.
FLAGS = ("-std=gnu11", "-O3", "-fno-math-errno", "-shared", "-fPIC", "-pthread")
TARGETS: tuple[tuple[str, ...], ...] = (("-march=native",), ("-mcpu=native",), ())
# For a compiler to finish. It needs some seconds of its own, which on a crowded machine take many minutes; giving up sooner would
# leave the work to JAX, whose draws, and so queries, are others.
SECONDS = 3600
log = logging.getLogger(__name__)


def is_off() -> bool:
    return os.environ.get(VARIABLE, "").strip().lower() == OFF


def library(source: Path, defined: tuple[str, ...] = ()) -> ctypes.CDLL | None:
    """A source compiled with these definitions, and loaded; None where JAX has to serve. The environment is read each time, so
    that it can be switched."""
    return None if is_off() else built(source, defined)[0]


@cache
def built(source: Path, defined: tuple[str, ...] = ()) -> tuple[ctypes.CDLL | None, str]:
    """The library, or why there is none; once in a process."""
    try:
        return load(source, defined), ""
    except (OSError, subprocess.SubprocessError, InputError) as error:
        why = f"no machine code: {' '.join(str(error).split())[:300]}"
        log.info("%s; JAX serves instead", why)
        return None, why


def load(source: Path, defined: tuple[str, ...] = ()) -> ctypes.CDLL:
    if os.name != "posix":
        raise OSError(f"it is made for POSIX systems; this is {os.name}")
    command, version = compiler()
    if not command:
        raise OSError("there is no compiler; install one (cc) or name it in CC")
    options = [*FLAGS, *(f"-D{one}" for one in defined), f"-I{HERE}"]
    if os.environ.get(CACHE, "").strip().lower() == OFF:
        with tempfile.TemporaryDirectory() as folder:  # a loaded library outlives its file
            return ctypes.CDLL(str(_compile([*command, *options], source, Path(folder) / "machine.so")))
    beside = sorted({*source.parent.glob("*.[ch]"), *HERE.glob("*.h")})  # what may be included
    texts = [source.name, *(path.read_text(encoding="utf-8") for path in beside)]
    text = "\n".join([*texts, *FLAGS, *defined, version, _processor()])
    name = f"{source.stem}-{hashlib.sha256(text.encode()).hexdigest()[:32]}.so"
    path = private_folder(default_cache_folder()) / name
    return ctypes.CDLL(str(path if path.is_file() else _compile([*command, *options], source, path)))


def _compile(command: list[str], source: Path, path: Path) -> Path:
    """The library at `path`, which appears there complete or not at all, whoever else is making it."""
    said = ""
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        made = Path(folder) / path.name
        for target in TARGETS:
            line, told = [*command, *target, str(source), "-o", str(made), "-lm"], Path(folder) / "told"
            done = run_command(line, cwd=Path.cwd(), stdout=os.devnull, stderr=told, timeout=SECONDS)
            if done.timed_out or done.ended:
                raise OSError(f"{command[0]} was ended before it had finished, after {done.seconds:.0f} s")
            if done.code == 0:
                made.replace(path)
                return path
            said = said or told.read_text(encoding="utf-8", errors="replace")
    raise OSError(f"{command[0]} failed: {said.strip()}")


@cache
def compiler() -> tuple[list[str], str]:
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
