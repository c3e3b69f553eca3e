"""The sources of this room, compiled for one kernel and number of inputs at a time: so that a compiler takes seconds, not ten."""

from __future__ import annotations

import ctypes
from pathlib import Path

from hyperleaf.machine.library import VARIABLE, built, compiler, is_off, library as compiled, load as load_source

SOURCE = Path(__file__).with_name("predictions.c")  # which includes the other
KINDS = ("RBF", "MATERN12", "MATERN32", "MATERN52")
COUNTED = 3  # inputs for which the compiler unrolls loops; more are counted at run time


def status() -> str:
    """Which code serves, in words; builds that of the default model if it has not been."""
    if is_off():
        return f"JAX ({VARIABLE}=off)"
    found, why = built(SOURCE, definitions(0, 2))
    return f"machine code by {compiler()[1]}" if found is not None else f"JAX ({why})"


def library(kind: int = 0, d: int = 2) -> ctypes.CDLL | None:
    """The loaded library for a kind of leaf over d inputs, None where JAX has to serve."""
    return compiled(SOURCE, definitions(kind, d))


def load(kind: int = 0, d: int = 2) -> ctypes.CDLL:
    return load_source(SOURCE, definitions(kind, d))


def definitions(kind: int, d: int) -> tuple[str, ...]:
    return (f"KIND={KINDS[kind]}", *((f"DIMS={d}",) if d <= COUNTED else ()))
