"""What a simulator is: a small immutable object that is called with a point, in any process, and answers with an `Outcome`.

A run that fails is an answer, `Failure`, and not an exception; only a misconfigured simulator raises, if possible when it is
made. `collect` is the one place where values become outputs: numbers, finite, one per name.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real as RealNumber
from typing import Any, Protocol, runtime_checkable

from hyperleaf.errors import InputError


@dataclass(frozen=True)
class Success:
    """A run that gave all outputs, finite; `folder` holds its files if it had any."""

    outputs: dict[str, float]
    seconds: float
    folder: str | None = None


@dataclass(frozen=True)
class Failure:
    """A run that gave no usable outputs: the reason in a sentence, and in `log` the last lines it wrote (stderr, or a traceback).

    `interrupted` says that it was ended from outside, as when an executor closes: it tells nothing about the point.
    """

    reason: str
    seconds: float
    folder: str | None = None
    log: str = ""
    interrupted: bool = False


Outcome = Success | Failure


@runtime_checkable
class Simulator(Protocol):
    """The costly thing. Picklable, so that it can be called in a worker; never raises for a run that failed."""

    @property
    def outputs(self) -> tuple[str, ...]: ...

    def __call__(self, point: Mapping[str, Any], *, query_id: int, attempt: int = 1) -> Outcome: ...


class BadOutput(Exception):
    """Why values cannot be outputs, in words; turned into a Failure by whoever called."""


def collect(values: Mapping[Any, Any], outputs: Sequence[str]) -> dict[str, float]:
    """The outputs among the values as finite floats; further values are ignored. A BadOutput says what is wrong."""
    found: dict[str, float] = {}
    for name in outputs:
        if name not in values:
            given = ", ".join(repr(str(key)) for key in list(values)[:10]) or "nothing"
            raise BadOutput(f"the output {name!r} is missing; got {_short(given)}")
        found[name] = _sized(name, as_number(name, values[name]))
    return found


LARGEST, SMALLEST = 1e140, 1e-140  # of an output that is not 0: its square, and sums of squares, have room in float64


def as_output(name: str, value: Any) -> float:
    """An output from a number or a text, as people and tables give it; a BadOutput otherwise."""
    return _sized(name, parse_number(name, value) if isinstance(value, str) else as_number(name, value))


def _sized(name: str, number: float) -> float:
    """The number, if a surrogate can compute with it: variances are squares."""
    if number != 0 and not SMALLEST <= abs(number) <= LARGEST:
        remedy = "another unit or its logarithm" + ("" if abs(number) > 1 else ", or 0 where it stands for nothing")
        raise BadOutput(
            f"the output {name!r} must be 0 or of a size between {SMALLEST:g} and {LARGEST:g}, since it is squared; "
            f"got {number:g}. Give it in {remedy}"
        )
    return number


def as_number(name: str, value: Any) -> float:
    """A finite float from a number, also one in a 0-d array; a BadOutput otherwise."""
    if hasattr(value, "item") and getattr(value, "size", 1) == 1:  # NumPy's and JAX's scalars and arrays of one
        try:
            value = value.item()
        except (TypeError, ValueError, RuntimeError):  # not an array after all
            raise BadOutput(f"the output {name!r} must be a number; got {type(value).__name__}") from None
    if not isinstance(value, RealNumber) or isinstance(value, bool):
        raise BadOutput(f"the output {name!r} must be a number; got {_short(repr(value))} ({type(value).__name__})")
    try:
        number = float(value)
    except (OverflowError, ValueError, TypeError):
        number = math.inf
    if not math.isfinite(number):
        raise BadOutput(f"the output {name!r} must be finite; got {number}")
    return number


_NUMBER = re.compile(r"[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:[ed][+-]?\d+)?|nan|inf|infinity)", re.ASCII | re.IGNORECASE)


def parse_number(name: str, text: str) -> float:
    """A finite float from text, also with Fortran's exponent as in 1.5D-03; a BadOutput otherwise."""
    text = text.strip()
    if not text:
        raise BadOutput(f"the output {name!r} is empty")
    if not _NUMBER.fullmatch(text):
        comma = ". Write a decimal point" if re.fullmatch(r"[+-]?\d*,\d+", text, re.ASCII) else ""
        raise BadOutput(f"the output {name!r} must be a number; got {_short(repr(text))}{comma}")
    lower = text.lower()
    return as_number(name, float(lower if "n" in lower else lower.replace("d", "e")))


def check_outputs(outputs: Iterable[str] | str) -> tuple[str, ...]:
    """Names of outputs as a tuple; an InputError unless there is one at least, all texts, all different."""
    if isinstance(outputs, str):
        outputs = (outputs,)
    names = tuple(outputs) if isinstance(outputs, Iterable) else None
    if not names or any(not isinstance(name, str) or not name.strip() for name in names) or len(set(names)) < len(names):
        raise InputError(
            f'outputs must be a list of different names, at least one; got {outputs!r}. Write it like ["lift", "drag"].'
        )
    return names


def input_names(inputs: Any) -> tuple[str, ...] | None:
    """Names of the inputs from a Domain, a list of names, or None where they are not known."""
    if inputs is None:
        return None
    given = getattr(inputs, "names", inputs)  # a Domain, without importing it
    names = tuple(given) if isinstance(given, Iterable) and not isinstance(given, str) else None
    if names is None or any(not isinstance(name, str) for name in names):
        raise InputError(f"inputs must be a Domain or a list of names; got {inputs!r:.80}.")
    return names


def _short(text: str, size: int = 120) -> str:
    return text if len(text) <= size else text[: size - 1] + "…"
