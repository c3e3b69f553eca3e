"""A continuous axis."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
)
from hyperleaf.domain.tables import as_float, is_number
from hyperleaf.errors import DataError, DomainError


@dataclass(frozen=True)
class Real(Axis):
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
        check_range(self)
        width = math.log(self.high) - math.log(self.low) if self.log else self.high - self.low
        if not 0 < width < math.inf:
            raise DomainError(
                f"the range of a Real must have a width that float64 can hold; got [{self.low}, {self.high}]"
                f"{' in log space' if self.log else ''}. Rescale the axis, or set log=False."
            )

    kind = "real"
    keys = ("low", "high", "log", "unit", "integer")
    smooth = True
    num_columns = 1
    num_values = None

    @property
    def _scale(self) -> tuple[float, float]:
        return (math.log(self.low), math.log(self.high)) if self.log else (self.low, self.high)

    def read(self, name: str, column: Sequence[Any]) -> Codes:
        return read_numbers(name, self, column)

    def encode(self, codes: Codes) -> NDArray[np.float64]:
        a, b = self._scale
        t = np.log(codes) if self.log else codes
        return np.clip((t - a) / (b - a), 0.0, 1.0)[:, None]

    def decode(self, u: NDArray[np.float64]) -> Codes:
        a, b = self._scale
        v = u[:, 0]
        t = a * (1 - v) + b * v
        x = np.clip(np.exp(t) if self.log else t, self.low, self.high)
        return np.where(v == 0, self.low, np.where(v == 1, self.high, x))  # exp(log(x)) is not x

    def quantile(self, v: NDArray[np.float64]) -> Codes:
        return self.decode(v[:, None])

    def values(self, codes: Codes) -> list[Any]:
        return codes.tolist()

    def beyond(self, name: str, column: Sequence[Any]) -> Columns:
        values = np.asarray(column, dtype=np.float64)
        if self.log:
            if (values <= 0).any():
                raise DataError(f"{name} must be positive on a log axis; got {values.min():g}. Correct it, or set log=False.")
            values = np.log(values)
        low, high = np.log([self.low, self.high]) if self.log else (self.low, self.high)
        return ((values - low) / (high - low))[:, None]

    def snap(self, u: Columns) -> Columns:
        return u

    def step(self, u: Columns, radii: Any, moved: Any, alone: Any, rng: np.random.Generator) -> Columns:
        return u + (moved * radii * rng.standard_normal(len(u)))[:, None]

    @property
    def bounds(self) -> tuple[float, float]:
        return self.low, self.high

    def parse(self, text: str) -> None:
        return None

    def describe(self) -> str:
        return describe_range(self)

    def fields(self) -> dict[str, Any]:
        return fields_of_range(self)

    @classmethod
    def is_meant(cls, entry: Mapping[str, Any]) -> bool:
        return True  # whatever no other type claims

    @classmethod
    def check_entry(cls, where: str, entry: Mapping[str, Any]) -> None:
        check_range_entry(where, entry)

    @classmethod
    def from_entry(cls, entry: Mapping[str, Any]) -> Real:
        return cls(**{key: value for key, value in entry.items() if key != "integer"})

    def ticks(self, resolution: int) -> Codes:
        return self.decode(np.linspace(0.0, 1.0, resolution)[:, None])

    def extent(self) -> tuple[float, float, bool, tuple[str, ...]]:
        return self.low, self.high, self.log, ()

    def affine(self) -> tuple[Columns, Columns]:
        low, high = (np.log(bound) if self.log else np.asarray(bound) for bound in ([self.low], [self.high]))
        return low, high
