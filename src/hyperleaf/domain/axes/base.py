"""What every axis can say of itself. A new type of axis is one class with these methods, and a line in `KINDS`.

An axis has codes of its own: floats, whole numbers, positions in a list. It reads native values into codes, and maps codes to
columns of the unit cube and back; everybody else asks it, and nobody asks what type it is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

import numpy as np
from numpy.typing import NDArray

from hyperleaf.domain.tables import in_row, is_number, numeric
from hyperleaf.errors import DomainError

Value = float | int | str | bool
Codes = NDArray[Any]
Columns = NDArray[np.float64]

_SLACK = 1e-12  # relative; a value this little outside a bound is rounding and counts as the bound


class Axis(ABC):
    """One input: what it can be, and where its values lie in the unit cube."""

    kind: ClassVar[str]  # what descriptions call it
    smooth: ClassVar[bool] = False  # whether between any two values there are others
    ordered: ClassVar[bool] = True  # whether values are numbers along a line
    keys: ClassVar[tuple[str, ...]]  # of its table in [inputs] of study.toml

    if TYPE_CHECKING:  # fields, properties or plain attributes, as suits an axis

        @property
        def unit(self) -> str | None: ...

        @property
        def num_columns(self) -> int: ...

        @property
        def num_values(self) -> int | None: ...

    # --- values, codes and the unit cube

    @abstractmethod
    def read(self, name: str, column: Sequence[Any]) -> Codes:
        """Native values as codes; a DomainError names the first that is not in the axis."""

    @abstractmethod
    def encode(self, codes: Codes) -> Columns:
        """Codes (n,) to columns (n, k) of the unit cube."""

    @abstractmethod
    def decode(self, u: Columns) -> Codes:
        """Columns (n, k) of the unit cube to the codes (n,) they stand for."""

    @abstractmethod
    def values(self, codes: Codes) -> list[Any]:
        """Codes as native Python values."""

    @abstractmethod
    def quantile(self, v: Columns) -> Codes:
        """Codes of the probabilities v (n,): the inverse distribution function of the design's measure on this axis."""

    def beyond(self, name: str, column: Sequence[Any]) -> Columns:
        """Native values to columns of the unit cube, and beyond it where that has a meaning."""
        return self.encode(self.read(name, column))

    def codes(self) -> Codes:
        """All of them, of an axis that has a number of values."""
        return np.arange(self.num_values or 0)

    def snap(self, u: Columns) -> Columns:
        """Columns moved to the places of the values they stand for."""
        return self.encode(self.decode(u))

    @abstractmethod
    def step(self, u: Columns, radii: Any, moved: Any, alone: Any, rng: np.random.Generator) -> Columns:
        """A random step of about `radii` from the rows that are `moved`, perhaps beyond the cube; `alone` are those whose other
        axes stay."""

    # --- words, numbers and pictures

    @property
    def is_numeric(self) -> bool:
        """Whether all values are numbers."""
        return True

    @property
    def bounds(self) -> tuple[Any, Any] | None:
        """The lowest and the highest value, of an axis that has them."""
        return None

    def compared(self, codes: Codes) -> tuple[Any, tuple[Value, ...] | None]:
        """What a constraint sees: numbers and None, or codes and the values that they are positions of, only to be compared."""
        return codes.astype(np.float64), None

    @abstractmethod
    def parse(self, text: str) -> Any:
        """The value that a cell of a table spells; None if it has to be read as a number."""

    @abstractmethod
    def describe(self) -> str:
        """What it can be, in words."""

    @abstractmethod
    def fields(self) -> dict[str, Any]:
        """What describes it beside its kind, as JSON holds it; `from_fields` reads it."""

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> Axis:
        """The axis that `fields` describes."""
        return cls(**fields)

    @classmethod
    @abstractmethod
    def is_meant(cls, entry: Mapping[str, Any]) -> bool:
        """Whether a table in [inputs] of study.toml stands for an axis of this type."""

    @classmethod
    @abstractmethod
    def check_entry(cls, where: str, entry: Mapping[str, Any]) -> None:
        """A DomainError for a table that lacks something, or has a value of a wrong type; its keys are known."""

    @classmethod
    def from_entry(cls, entry: Mapping[str, Any]) -> Axis:
        """The axis of such a table."""
        return cls(**entry)

    def labels(self, name: str) -> list[str]:
        """One for each column of the unit cube."""
        return [name]

    def ticks(self, resolution: int) -> Codes:
        """Codes at which a curve or a map is drawn."""
        return self.codes()

    @abstractmethod
    def extent(self) -> tuple[float, float, bool, tuple[str, ...]]:
        """Of a picture: from where to where, whether on a log scale, and the labels of places 0, 1, … if they have names."""

    def places(self, u: Columns) -> Columns:
        """Unit coordinates (n,) as native places along a picture; between values in proportion."""
        return np.asarray(self.decode(u[:, None]), dtype=np.float64)

    @abstractmethod
    def affine(self) -> tuple[Columns, Columns]:
        """Where each column of the unit cube begins and ends, in the units in which it is straight (log x on a log axis)."""


def check_range(axis: Any) -> None:
    """Of an axis with low, high, log and unit."""
    kind = type(axis).__name__
    if not isinstance(axis.log, bool):
        raise DomainError(f"log must be True or False; got {axis.log!r}.")
    if axis.unit is not None and not isinstance(axis.unit, str):
        raise DomainError(f'a unit must be a text or None; got {axis.unit!r}. Write it like "deg".')
    if axis.low >= axis.high:
        raise DomainError(f"{kind} must have low < high; got low={axis.low}, high={axis.high}. Swap them, or drop a fixed axis.")
    if axis.log and axis.low <= 0:
        raise DomainError(f"a log axis must have low > 0; got low={axis.low}. Raise low above zero, or set log=False.")


def check_range_entry(where: str, entry: Mapping[str, Any]) -> None:
    """Of the table of an axis with low, high, log and unit."""
    for key in ("integer", "log"):
        if not isinstance(entry.get(key, False), bool):
            raise DomainError(f"{where}.{key} must be true or false; got {entry[key]!r}.")
    if not isinstance(entry.get("unit", ""), str):
        raise DomainError(f"{where}.unit must be text; got {entry['unit']!r}.")
    missing = [key for key in ("low", "high") if key not in entry]
    if missing:
        raise DomainError(f"{where} must have {' and '.join(missing)}; or options = [...] for a choice.")


def describe_range(axis: Any) -> str:
    low, high = (f"{value:g}".replace("-", "−") for value in (axis.low, axis.high))
    return f"{low} to {high}{', logarithmic' if axis.log else ''}"


def fields_of_range(axis: Any) -> dict[str, Any]:
    return {"low": axis.low, "high": axis.high, "log": axis.log, "unit": axis.unit}


def refuse(name: str, column: Sequence[Any], row: int, rule: str, remedy: str) -> NoReturn:
    value = column[row]
    shown = value.item() if isinstance(value, np.generic) else value
    raise DomainError(f"{name} must be {rule}; got {shown!r}{in_row(row, len(column))}. {remedy}")


def read_numbers(name: str, axis: Any, column: Sequence[Any]) -> NDArray[np.float64]:
    """Numbers between low and high of an axis that has both."""
    x = numeric(column)
    if x is None:
        row = next(i for i, value in enumerate(column) if not is_number(value))
        refuse(name, column, row, "a number", "Convert it first.")
    inside = (x >= axis.low - _SLACK * abs(axis.low)) & (x <= axis.high + _SLACK * abs(axis.high))  # false for NaN
    for row in np.flatnonzero(~inside)[:1]:
        unit = f" {axis.unit}" if axis.unit else ""
        refuse(name, column, int(row), f"in [{axis.low}, {axis.high}]{unit}", "Correct the value, or widen the axis.")
    return np.clip(x, axis.low, axis.high)
