"""An axis of options without order."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hyperleaf.domain.axes.base import Axis, Codes, Columns, Value, refuse
from hyperleaf.domain.tables import as_float, is_number
from hyperleaf.errors import DomainError


@dataclass(frozen=True, init=False)
class Choice(Axis):
    """One of several options that have no order: `Choice("steel", "brass", "glass")`.

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

    kind = "choice"
    keys = ("options",)
    ordered = False
    unit = None

    @property
    def num_columns(self) -> int:
        """One for each option."""
        return len(self.options)

    @property
    def num_values(self) -> int:
        """How many options there are."""
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
                refuse(name, column, row, f"one of {list(self.options)}", "Correct it, or add the option to the axis.")
        return codes

    def encode(self, codes: Codes) -> NDArray[np.float64]:
        return np.eye(len(self.options))[codes]

    def decode(self, u: NDArray[np.float64]) -> Codes:
        return np.argmax(u, axis=1)

    def quantile(self, v: NDArray[np.float64]) -> Codes:
        return np.minimum((v * len(self.options)).astype(np.int64), len(self.options) - 1)

    def values(self, codes: Codes) -> list[Any]:
        return [self.options[i] for i in codes]

    def step(self, u: Columns, radii: Any, moved: Any, alone: Any, rng: np.random.Generator) -> Columns:
        changed = moved & (rng.random(len(u)) < np.where(alone, 1.0, 0.2))
        options = np.eye(self.num_columns)[rng.integers(self.num_columns, size=len(u))]
        return np.where(changed[:, None], options, u)

    def compared(self, codes: Codes) -> tuple[Any, tuple[Value, ...] | None]:
        if self.is_numeric:
            return np.array([as_float(option) for option in self.options])[codes], None
        return codes, self.options

    def parse(self, text: str) -> Any:
        for option in self.options:
            if text == str(option) or (isinstance(option, bool) and text.lower() == str(option).lower()):
                return option
        return None if self.is_numeric else text  # the domain refuses it, and names the options

    def describe(self) -> str:
        return "one of " + ", ".join(map(str, self.options))

    def fields(self) -> dict[str, Any]:
        return {"options": list(self.options)}

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> Choice:
        options = list(fields.pop("options"))
        return cls(*options, **fields)

    def labels(self, name: str) -> list[str]:
        return [f"{name}={option}" for option in self.options]

    @classmethod
    def is_meant(cls, entry: Mapping[str, Any]) -> bool:
        return "options" in entry

    @classmethod
    def check_entry(cls, where: str, entry: Mapping[str, Any]) -> None:
        if not isinstance(entry["options"], list):
            raise DomainError(f"{where}.options must be a list; got {entry['options']!r}.")

    @classmethod
    def from_entry(cls, entry: Mapping[str, Any]) -> Choice:
        return cls(*entry["options"])

    def extent(self) -> tuple[float, float, bool, tuple[str, ...]]:
        return -0.5, len(self.options) - 0.5, False, tuple(map(str, self.options))

    def affine(self) -> tuple[Columns, Columns]:
        return np.zeros(self.num_columns), np.ones(self.num_columns)
