"""Axes: what an input can be, and where its values lie in the unit cube.

An axis (`Real`, `Integer`, `Choice`) knows its own codes: floats for a Real, whole numbers for an Integer, positions in the
options for a Choice; it reads native values into codes and maps codes to columns of the unit cube and back.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from hyperleaf.domain.tables import as_float, is_number, numeric
from hyperleaf.errors import DomainError

Value = float | int | str | bool
Codes = NDArray[Any]

_LARGEST_INTEGER = 2**40  # beyond it neighbouring integers of a log axis are no longer told apart in float64
_SLACK = 1e-12  # relative; a value this little outside a bound is rounding and counts as the bound


@dataclass(frozen=True)
class Real:
    """A continuous axis, u = (x − low) / (high − low); with `log`, the same in log x."""

    low: float
    high: float
    log: bool = False
    unit: str | None = None

    def __post_init__(self) -> None:
        for bound in ("low", "high"):
            value = getattr(self, bound)
            if not is_number(value) or not math.isfinite(as_float(value)):
                raise DomainError(f"{bound} of a Real must be a finite number; got {value!r}. Give a finite bound.")
            object.__setattr__(self, bound, as_float(value))
        _check_range(self)
        width = math.log(self.high) - math.log(self.low) if self.log else self.high - self.low
        if not 0 < width < math.inf:
            raise DomainError(
                f"the range of a Real must have a width that float64 can hold; got [{self.low}, {self.high}]"
                f"{' in log space' if self.log else ''}. Rescale the axis, or set log=False."
            )

    num_columns = 1
    num_values = None

    @property
    def _scale(self) -> tuple[float, float]:
        return (math.log(self.low), math.log(self.high)) if self.log else (self.low, self.high)

    def read(self, name: str, column: Sequence[Any]) -> Codes:
        """Native values as codes; a DomainError names the first that is not in the axis."""
        return _read_numbers(name, self, column)

    def encode(self, codes: Codes) -> NDArray[np.float64]:
        """Codes (n,) to columns (n, k) of the unit cube."""
        a, b = self._scale
        t = np.log(codes) if self.log else codes
        return np.clip((t - a) / (b - a), 0.0, 1.0)[:, None]

    def decode(self, u: NDArray[np.float64]) -> Codes:
        """Columns (n, k) of the unit cube to the codes (n,) they stand for."""
        a, b = self._scale
        v = u[:, 0]
        t = a * (1 - v) + b * v
        x = np.clip(np.exp(t) if self.log else t, self.low, self.high)
        return np.where(v == 0, self.low, np.where(v == 1, self.high, x))  # exp(log(x)) is not x

    def quantile(self, v: NDArray[np.float64]) -> Codes:
        """Codes of the probabilities v (n,): the inverse distribution function of the design's measure on this axis."""
        return self.decode(v[:, None])

    def values(self, codes: Codes) -> list[Any]:
        """Codes as native Python values."""
        return codes.tolist()


@dataclass(frozen=True)
class Integer:
    """The whole numbers low, …, high.

    The unit interval is cut into one bin [k − ½, k + ½) per integer, bins of equal width or, with `log`, of equal width in
    log space; every u in a bin stands for its integer, so uniform u gives uniform (log-uniform) integers. The integer itself
    sits at t_k = k − ½ + (k − low) / (high − low) in its bin, so that low is at 0, high at 1 and, without `log`, the others
    are equally spaced.
    """

    low: int
    high: int
    log: bool = False
    unit: str | None = None

    def __post_init__(self) -> None:
        for bound in ("low", "high"):
            value = getattr(self, bound)
            if isinstance(value, bool | np.bool_) or not isinstance(value, Integral) or abs(int(value)) > _LARGEST_INTEGER:
                raise DomainError(
                    f"{bound} of an Integer must be a whole number of size at most 2**40; got {value!r}. "
                    "Give an int, or use Real for a continuous axis."
                )
            object.__setattr__(self, bound, int(value))
        _check_range(self)

    num_columns = 1

    @property
    def num_values(self) -> int:
        return self.high - self.low + 1

    @property
    def _scale(self) -> tuple[float, float]:
        a, b = self.low - 0.5, self.high + 0.5
        return (math.log(a), math.log(b)) if self.log else (a, b)

    def read(self, name: str, column: Sequence[Any]) -> Codes:
        x = _read_numbers(name, self, column)
        for bad in np.flatnonzero(x != np.rint(x))[:1]:
            _refuse(name, self, column, int(bad), "a whole number", "Round it, or make the axis a Real.")
        return np.rint(x).astype(np.int64)

    def encode(self, codes: Codes) -> NDArray[np.float64]:
        a, b = self._scale
        t = codes - 0.5 + (codes - self.low) / (self.high - self.low)
        u = np.clip(((np.log(t) if self.log else t) - a) / (b - a), 0.0, 1.0)
        return np.where(codes == self.low, 0.0, np.where(codes == self.high, 1.0, u))[:, None]

    def decode(self, u: NDArray[np.float64]) -> Codes:
        a, b = self._scale
        t = a * (1 - u[:, 0]) + b * u[:, 0]
        codes = np.clip(np.floor((np.exp(t) if self.log else t) + 0.5), self.low, self.high).astype(np.int64)
        for shift in (-1, 1):  # rounding may carry the place of an integer over the edge of its bin; the integer owns it
            other = np.clip(codes + shift, self.low, self.high)
            codes = np.where(self.encode(other)[:, 0] == u[:, 0], other, codes)
        return codes

    def quantile(self, v: NDArray[np.float64]) -> Codes:
        return self.decode(v[:, None])

    def values(self, codes: Codes) -> list[Any]:
        return codes.tolist()


@dataclass(frozen=True, init=False)
class Choice:
    """One of some options without order: `Choice("steel", "brass", "glass")`.

    One column of the unit cube per option, one-hot, so that any two options are equally far apart; a u between the corners
    stands for the option of its largest column.
    """

    options: tuple[Value, ...]

    def __init__(self, *options: Value) -> None:
        plain = tuple(option.item() if isinstance(option, np.generic) else option for option in options)
        for option in plain:
            if not isinstance(option, str | bool | int | float) or (isinstance(option, float) and not math.isfinite(option)):
                raise DomainError(
                    f"an option must be text, a finite number or a bool; got {option!r}. Unpack a list: Choice(*list)."
                )
        if len(plain) < 2:
            raise DomainError(f"a Choice must have at least two options; got {list(plain)}. Leave out an axis that cannot vary.")
        for i, option in enumerate(plain):
            if option in plain[:i]:
                raise DomainError(f"the options of a Choice must differ; got {option!r} twice in {list(plain)}. Drop the second.")
        object.__setattr__(self, "options", plain)

    def __repr__(self) -> str:
        return f"Choice({', '.join(map(repr, self.options))})"

    unit = None

    @property
    def num_columns(self) -> int:
        return len(self.options)

    @property
    def num_values(self) -> int:
        return len(self.options)

    @property
    def is_numeric(self) -> bool:
        return all(is_number(option) for option in self.options)

    def read(self, name: str, column: Sequence[Any]) -> Codes:
        place = {option: i for i, option in enumerate(self.options)}
        codes = np.empty(len(column), dtype=np.int64)
        for row, value in enumerate(column.tolist() if isinstance(column, np.ndarray) else column):
            try:
                codes[row] = place[value]
            except (KeyError, TypeError):
                _refuse(name, self, column, row, f"one of {list(self.options)}", "Correct it, or add the option to the axis.")
        return codes

    def encode(self, codes: Codes) -> NDArray[np.float64]:
        return np.eye(len(self.options))[codes]

    def decode(self, u: NDArray[np.float64]) -> Codes:
        return np.argmax(u, axis=1)

    def quantile(self, v: NDArray[np.float64]) -> Codes:
        return np.minimum((v * len(self.options)).astype(np.int64), len(self.options) - 1)

    def values(self, codes: Codes) -> list[Any]:
        return [self.options[i] for i in codes]


Axis = Real | Integer | Choice
KINDS: dict[str, type[Axis]] = {"real": Real, "integer": Integer, "choice": Choice}


def all_codes(axis: Axis) -> Codes:
    return np.arange(axis.low, axis.high + 1) if isinstance(axis, Integer) else np.arange(axis.num_values or 0)


def _check_range(axis: Real | Integer) -> None:
    kind = type(axis).__name__
    if not isinstance(axis.log, bool):
        raise DomainError(f"log must be True or False; got {axis.log!r}.")
    if axis.unit is not None and not isinstance(axis.unit, str):
        raise DomainError(f'a unit must be a text or None; got {axis.unit!r}. Write it like "deg".')
    if axis.low >= axis.high:
        raise DomainError(f"{kind} must have low < high; got low={axis.low}, high={axis.high}. Swap them, or drop a fixed axis.")
    if axis.log and axis.low <= 0:
        raise DomainError(f"a log axis must have low > 0; got low={axis.low}. Raise low above zero, or set log=False.")


def _refuse(name: str, axis: Axis, column: Sequence[Any], row: int, rule: str, remedy: str) -> NoReturn:
    value = column[row]
    shown = value.item() if isinstance(value, np.generic) else value
    raise DomainError(f"{name} must be {rule}; got {shown!r} in row {row}. {remedy}")


def _read_numbers(name: str, axis: Real | Integer, column: Sequence[Any]) -> NDArray[np.float64]:
    x = numeric(column)
    if x is None:
        row = next(i for i, value in enumerate(column) if not is_number(value))
        _refuse(name, axis, column, row, "a number", "Convert it first.")
    inside = (x >= axis.low - _SLACK * abs(axis.low)) & (x <= axis.high + _SLACK * abs(axis.high))  # false for NaN
    for row in np.flatnonzero(~inside)[:1]:
        unit = f" {axis.unit}" if axis.unit else ""
        _refuse(name, axis, column, int(row), f"in [{axis.low}, {axis.high}]{unit}", "Correct the value, or widen the axis.")
    return np.clip(x, axis.low, axis.high)
