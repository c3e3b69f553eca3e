"""An axis of whole numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hyperleaf.domain.axes.base import (
    Axis,
    Codes,
    Columns,
    check_range,
    check_range_entry,
    describe_range,
    fields_of_range,
    read_numbers,
    refuse,
)
from hyperleaf.errors import DomainError

_LARGEST_INTEGER = 2**40  # beyond it neighbouring integers of a log axis are no longer told apart in float64


@dataclass(frozen=True)
class Integer(Axis):
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
        check_range(self)

    kind = "integer"
    keys = ("low", "high", "log", "unit", "integer")
    num_columns = 1

    @property
    def num_values(self) -> int:
        """How many whole numbers there are."""
        return self.high - self.low + 1

    @property
    def _scale(self) -> tuple[float, float]:
        a, b = self.low - 0.5, self.high + 0.5
        return (math.log(a), math.log(b)) if self.log else (a, b)

    def read(self, name: str, column: Sequence[Any]) -> Codes:
        x = read_numbers(name, self, column)
        for bad in np.flatnonzero(x != np.rint(x))[:1]:
            refuse(name, column, int(bad), "a whole number", "Round it, or make the axis a Real.")
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

    def codes(self) -> Codes:
        return np.arange(self.low, self.high + 1)

    def step(self, u: Columns, radii: Any, moved: Any, alone: Any, rng: np.random.Generator) -> Columns:
        reach = np.maximum(radii, 1.0 / self.num_values)
        return u + (moved * reach * rng.standard_normal(len(u)))[:, None]

    @property
    def bounds(self) -> tuple[int, int]:
        return self.low, self.high

    def parse(self, text: str) -> None:
        return None

    def describe(self) -> str:
        return f"whole numbers {describe_range(self)}"

    def fields(self) -> dict[str, Any]:
        return fields_of_range(self)

    def ticks(self, resolution: int) -> Codes:
        if self.num_values <= resolution:
            return self.codes()
        return np.unique(self.decode(np.linspace(0.0, 1.0, resolution)[:, None]))

    @classmethod
    def is_meant(cls, entry: Mapping[str, Any]) -> bool:
        return entry.get("integer", False) is not False

    @classmethod
    def check_entry(cls, where: str, entry: Mapping[str, Any]) -> None:
        check_range_entry(where, entry)

    @classmethod
    def from_entry(cls, entry: Mapping[str, Any]) -> Integer:
        return cls(**{key: value for key, value in entry.items() if key != "integer"})

    def extent(self) -> tuple[float, float, bool, tuple[str, ...]]:
        return self.low - 0.5, self.high + 0.5, self.log, ()  # whole numbers are shown as cells around them

    def places(self, u: Columns) -> Columns:
        whole = np.unique(self.decode(np.linspace(0.0, 1.0, 1025)[:, None]))
        return np.interp(u, self.encode(whole)[:, 0], whole)

    def affine(self) -> tuple[Columns, Columns]:
        if self.log:  # its places are log(k − ½ + (k − low)/(high − low))
            return np.log([self.low - 0.5]), np.log([self.high + 0.5])
        return np.array([float(self.low)]), np.array([float(self.high)])
