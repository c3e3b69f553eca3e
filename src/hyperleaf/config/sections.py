"""The sections of study.toml, a small model with defaults each. A new setting is a field here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from hyperleaf import doors
from hyperleaf.checks import alike
from hyperleaf.errors import InputError
from hyperleaf.simulators import parse_duration
from hyperleaf.surrogates.kinds import KINDS, NOISES


class ConfigError(InputError):
    """A study.toml, or the arguments that stand for one, break a rule."""


class Broken(ValueError):
    """A rule that a value breaks, said with the value and the remedy."""


class Section(BaseModel):
    """Strict: a number is not taken for text, nor an unknown key for a comment."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class StudySection(Section):
    """Name, where it is kept, and the seed from which all chance comes."""

    name: str = Field(min_length=1, max_length=200)
    storage: str | None = None
    seed: int = Field(default=0, ge=0, lt=2**63)
    description: str = ""
    constraints: tuple[str, ...] = ()

    @field_validator("name")
    @classmethod
    def _printable(cls, name: str) -> str:
        if not name.isprintable() or name != name.strip():
            raise ValueError("a name must be printable and without space at its ends")
        return name

    @field_validator("constraints", mode="before")
    @classmethod
    def _listed(cls, value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else value


SAID = tuple(one for one in NOISES if one != "known")  # in words; known noise is a number


class Output(Section):
    """One measured quantity. `noise`: "learned", "per leaf" if it differs from region to region, "auto" if the evidence is to say
    which of the two, "robust" if some values may be wild, "none" if runs repeat exactly, or its known standard deviation.
    `range`: where outputs are expected, which fixes their scale; `weight`: its share in the choice of queries."""

    noise: Literal["learned", "per leaf", "auto", "robust", "none"] | float = "learned"
    range: tuple[float, float] | None = None
    weight: float = Field(default=1.0, ge=0.0, allow_inf_nan=False)
    unit: str = ""

    @field_validator("noise", mode="before")
    @classmethod
    def _noise(cls, value: Any) -> Any:
        if isinstance(value, str) and value in SAID:
            return value
        if not is_number(value) or not 0 <= value < float("inf"):
            hint = alike(value, SAID).replace("'", '"') if isinstance(value, str) else ""
            kinds = '"learned", "per leaf" (it differs by region), "auto", "robust" (some values are wild), '
            kinds += '"none" (runs repeat exactly)'
            rule = f"noise must be {kinds} or a standard deviation ≥ 0"
            raise Broken(f"{rule}; got {value!r}.{hint}")
        return float(value)

    @property
    def noise_kind(self) -> Literal["learned", "per leaf", "auto", "robust", "known", "none"]:
        return "known" if isinstance(self.noise, float) else self.noise

    @field_validator("range", mode="before")
    @classmethod
    def _range(cls, value: Any) -> Any:
        if value is None:
            return None
        ok = isinstance(value, list | tuple) and len(value) == 2
        if not ok or not all(map(is_number, value)) or not -float("inf") < value[0] < value[1] < float("inf"):
            raise ValueError("range must be two numbers, low < high")
        return float(value[0]), float(value[1])


class SurrogateSection(BaseModel):
    """The model; further keys are options of that kind of surrogate (`leaves`, `inference`, `mean`, …)."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)
    kind: Literal[tuple(KINDS)] = "hhk"  # type: ignore[valid-type]  # the table of kinds is the one list

    @field_validator("kind", mode="wrap")
    @classmethod
    def _or_a_rival(cls, value: Any, handler: Callable[[Any], Any]) -> Any:
        known = isinstance(value, str) and value not in KINDS and value in doors.rivals()
        return value if known else handler(value)

    @model_validator(mode="before")
    @classmethod
    def _noise_is_of_an_output(cls, values: Any) -> Any:
        if isinstance(values, Mapping) and "noise" in values:
            raise ValueError('noise must be a setting of an output; write it in [outputs], like y = { noise = "none" }')
        return values

    @property
    def options(self) -> dict[str, Any]:
        return dict(self.model_extra or {})


class AcquisitionSection(Section):
    """How the next query is chosen, over the domain or the rows of a pool. `level` is the limit that "contour" looks for, and
    `minimize` says that "optimum" looks for the smallest value."""

    kind: str = "entropy"
    optimizer: str = "auto"
    level: float | None = Field(default=None, allow_inf_nan=False)
    minimize: bool = False


class DesignSection(Section):
    """The first queries, before the surrogate has anything to say."""

    kind: Literal["sobol", "lhs", "uniform"] = "sobol"
    size: int = Field(default=5, ge=1, le=100_000)


class PoolSection(Section):
    """Finite candidates: a CSV file with a column for each input."""

    table: str


class TestSection(Section):
    """Runs that are known but not learned from: a CSV file with all inputs and outputs, on which accuracy is measured too."""

    __test__ = False  # not a test, whatever pytest thinks of the name
    table: str


class StopSection(Section):
    """When it is enough; the rule that is met first ends the run.

    `queries`: finished runs in all, the first design included. `time`: of the clock, as "2h" or seconds, in one
    run. `rmse`: the expected error, in units of the output's own scale (standard deviation of the data) or, by output, native.
    `stagnation`: so many queries without the expected error falling by a tenth.
    """

    queries: int | None = Field(default=None, ge=1)
    time: float | None = None
    rmse: float | dict[str, float] | None = None
    stagnation: int | None = Field(default=None, ge=2)

    @field_validator("time", mode="before")
    @classmethod
    def _time(cls, value: Any) -> Any:
        if value is None:
            return None
        try:
            return float(parse_duration(value))
        except InputError as error:
            raise Broken(str(error)) from error

    @field_validator("rmse", mode="before")
    @classmethod
    def _rmse(cls, value: Any) -> Any:
        values = list(value.values()) if isinstance(value, dict) else [] if value is None else [value]
        for one in values:
            if not is_number(one) or not 0 < one < float("inf"):
                raise ValueError("rmse must be a number > 0, or one for each output")
        return {k: float(v) for k, v in value.items()} if isinstance(value, dict) else None if value is None else float(value)


class FailureSection(Section):
    """What to do when a run fails: repeat it so often, keep away from places where runs fail, give up after `limit` in a row."""

    retries: int = Field(default=0, ge=0, le=1000)
    avoid: bool = True
    limit: int = Field(default=10, ge=1)


def is_number(value: Any) -> bool:
    """Whether it is one, and no truth value."""
    return isinstance(value, int | float) and not isinstance(value, bool)
