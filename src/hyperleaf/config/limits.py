"""Limits on outputs and how they are kept: the sections [limits] and [safety] of study.toml."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from hyperleaf.config.sections import Broken, Section, is_number

CONFIDENCE = 0.95


class LimitSection(Section):
    """What an output must keep to: `min`, `max` or both, in its own units, and how sure that must be. Several limits are held
    together: at the largest confidence that any of them asks for."""

    min: float | None = None
    max: float | None = None
    confidence: float = CONFIDENCE

    @field_validator("min", "max", mode="before")
    @classmethod
    def _bound(cls, value: Any) -> Any:
        if value is not None and (not is_number(value) or not -float("inf") < value < float("inf")):
            raise ValueError("a bound must be a finite number")
        return None if value is None else float(value)

    @field_validator("confidence", mode="before")
    @classmethod
    def _confidence(cls, value: Any) -> Any:
        if not is_number(value) or not 0.5 < value < 1:
            raise Broken(f"confidence must be a probability between 0.5 and 1, both excluded; got {value!r}. 0.95 is usual.")
        return float(value)

    @model_validator(mode="after")
    def _possible(self) -> LimitSection:
        if self.min is None and self.max is None:
            raise Broken("a limit must have a min, a max or both; got neither. Write it like { max = 900 }.")
        if self.min is not None and self.max is not None and self.min >= self.max:
            raise Broken(f"a limit must have min < max; got min = {self.min:g} and max = {self.max:g}, which nothing keeps.")
        return self

    @property
    def low(self) -> float:
        return -float("inf") if self.min is None else self.min

    @property
    def high(self) -> float:
        return float("inf") if self.max is None else self.max

    def kept(self, value: float) -> bool:
        return self.low <= value <= self.high

    @property
    def words(self) -> str:
        """As a person would write it: "≤ 900", "≥ 1", "1 … 12"."""
        if self.min is None or self.max is None:
            return f"≤ {self.max:g}" if self.min is None else f"≥ {self.min:g}"
        return f"{self.min:g} … {self.max:g}"


class SafetySection(Section):
    """How limits are kept. `start`: points known to be safe, asked first, in this order. `held`: whether what a query may risk
    follows the violations so far. `ramps`: the largest step of an input from one query to the next. `order`: of a batch, by what
    its points are worth or by the shortest way."""

    start: tuple[dict[str, Any], ...] = ()
    held: bool = True
    ramps: dict[str, float] = Field(default_factory=dict)
    order: Literal["worth", "shortest"] = "worth"

    @field_validator("start", mode="before")
    @classmethod
    def _points(cls, value: Any) -> Any:
        if not isinstance(value, list | tuple) or not all(isinstance(one, Mapping) for one in value):
            raise ValueError("start must be a list of points with all inputs, such as [{ speed = 1000, load = 5 }]")
        return tuple(dict(one) for one in value)

    @field_validator("ramps", mode="before")
    @classmethod
    def _steps(cls, value: Any) -> Any:
        if not isinstance(value, Mapping):
            raise ValueError("ramps must give a step for each input that must not jump, such as { speed = 200 }")
        for name, step in value.items():
            if not is_number(step) or not 0 < step < float("inf"):
                raise Broken(f"a ramp must be a step > 0 in the input's own units; got {name} = {step!r}.")
        return {name: float(step) for name, step in value.items()}
