"""Durations as people write them: "2h", "1h30m", "90 s", 90."""

from __future__ import annotations

import math
import re
from numbers import Real as RealNumber

from hyperleaf.errors import InputError

_SECONDS = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3}  # largest first
_WORDS = {
    "d": ("d", "day", "days"),
    "h": ("h", "hr", "hour", "hours"),
    "m": ("m", "min", "mins", "minute", "minutes"),
    "s": ("s", "sec", "secs", "second", "seconds"),
    "ms": ("ms",),
}
_UNIT_OF = {word: unit for unit, words in _WORDS.items() for word in words}
_PART = re.compile(r"\s*(\d+\.?\d*|\.\d+)\s*([a-z]+)", re.ASCII)
_LONGEST = 1e10  # seconds, three hundred years: timers beyond that overflow


def parse_duration(value: float | str, name: str = "a duration") -> float:
    """Seconds, from a number of seconds or a text of numbers with units d, h, m, s, ms, the largest first."""
    remedy = 'Write it like "2h", "1h30m", "90s" or as a number of seconds; leave it out for no limit.'
    seconds: float | None = None
    if isinstance(value, RealNumber) and not isinstance(value, bool):
        seconds = _float(value)
    elif isinstance(value, str):
        seconds = _parse(value.strip().lower())
    if seconds is None or math.isnan(seconds):
        raise InputError(f"{name} must be a number of seconds or a text with units d, h, m, s, ms; got {value!r:.80}. {remedy}")
    if not 0 < seconds <= _LONGEST:
        raise InputError(f"{name} must be more than 0 and at most {_LONGEST:g} seconds; got {value!r:.80}. {remedy}")
    return seconds


def format_duration(seconds: float) -> str:
    """The two largest units of a duration, as `parse_duration` reads them: "2h05m", "1m30s", "4.2s", "35ms"."""
    if not math.isfinite(seconds) or seconds < 0:
        raise InputError(f"a duration must be finite and ≥ 0; got {seconds!r}. Give seconds.")
    if seconds < 0.9995:
        return f"{1e3 * seconds:.3g}ms"
    if seconds < 59.95:
        return f"{seconds:.1f}".removesuffix(".0") + "s"
    for big, small in (("m", "s"), ("h", "m"), ("d", "h")):
        step = _SECONDS[small]
        ratio = round(_SECONDS[big] / step)
        count = round(seconds / step)
        limit = {"m": 60, "h": 24, "d": math.inf}[big]
        if count < ratio * limit:
            whole, rest = divmod(count, ratio)
            return f"{whole}{big}" + (f"{rest:02d}{small}" if rest else "")
    raise AssertionError("days have no limit")


def _float(value: RealNumber) -> float:
    try:
        return float(value)  # type: ignore[arg-type]  # numbers.Real is what float takes
    except OverflowError:
        return math.inf


def _parse(text: str) -> float | None:
    if re.fullmatch(r"\d+\.?\d*|\.\d+", text, re.ASCII):
        return float(text)
    seconds, place, units = 0.0, 0, list(_SECONDS)
    while place < len(text):
        part = _PART.match(text, place)
        unit = _UNIT_OF.get(part[2]) if part else None
        if part is None or unit not in units:  # no such unit, or it came before, or it is larger than the last
            return None
        seconds += float(part[1]) * _SECONDS[unit]
        units, place = units[units.index(unit) + 1 :], part.end()
    return seconds if place else None
