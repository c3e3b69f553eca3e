"""What a study is, as a person writes it: the sections of study.toml, read, checked and completed.

`Definition` is the whole of it and what a store keeps. Every section is a small model with defaults; an unknown key, a wrong type
or a value that breaks a rule is a `ConfigError` that names the place, the rule and the remedy. Options that belong to another
room (of a surrogate, of a simulator) are handed through to it and checked there.
"""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from hyperleaf import doors
from hyperleaf.checks import nearest
from hyperleaf.domain import Axis, Choice, Domain, Integer, Real
from hyperleaf.errors import DomainError, InputError
from hyperleaf.io import read_file
from hyperleaf.simulators import parse_duration
from hyperleaf.surrogates.kinds import KINDS

MAX_BYTES = 4 * 2**20  # of a definition; tables belong in files


class ConfigError(InputError):
    """A study.toml, or the arguments that stand for one, break a rule."""


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


class Output(Section):
    """One measured quantity. `noise`: "learned", "none" if runs repeat exactly, or its known standard deviation. `range`: where
    outputs are expected, which fixes their scale; `weight`: its share in the choice of queries."""

    noise: Literal["learned", "none"] | float = "learned"
    range: tuple[float, float] | None = None
    weight: float = Field(default=1.0, ge=0.0, allow_inf_nan=False)
    unit: str = ""

    @field_validator("noise", mode="before")
    @classmethod
    def _noise(cls, value: Any) -> Any:
        if isinstance(value, str) and value in ("learned", "none"):
            return value
        if not _is_number(value) or not 0 <= value < float("inf"):
            near = get_close_matches(value, ("learned", "none"), 1) if isinstance(value, str) else []
            hint = f' Did you mean "{near[0]}"?' if near else ""
            rule = 'noise must be "learned", "none" (runs repeat exactly) or a standard deviation ≥ 0'
            raise ValueError(f"{rule}; got {value!r}.{hint}")
        return float(value)

    @property
    def noise_kind(self) -> Literal["learned", "known", "none"]:
        return "known" if isinstance(self.noise, float) else self.noise

    @field_validator("range", mode="before")
    @classmethod
    def _range(cls, value: Any) -> Any:
        if value is None:
            return None
        ok = isinstance(value, list | tuple) and len(value) == 2
        if not ok or not all(map(_is_number, value)) or not -float("inf") < value[0] < value[1] < float("inf"):
            raise ValueError("range must be two numbers, low < high")
        return float(value[0]), float(value[1])


class SurrogateSection(BaseModel):
    """The model; further keys are options of that kind of surrogate (`leaves`, `inference`, `mean`, …)."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)
    kind: Literal[tuple(KINDS)] = "hhk"  # type: ignore[valid-type]

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
    """How the next query is chosen, over the domain or the rows of a pool."""

    kind: str = "entropy"
    optimizer: str = "auto"


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
            raise ValueError(str(error)) from error

    @field_validator("rmse", mode="before")
    @classmethod
    def _rmse(cls, value: Any) -> Any:
        values = list(value.values()) if isinstance(value, dict) else [] if value is None else [value]
        for one in values:
            if not _is_number(one) or not 0 < one < float("inf"):
                raise ValueError("rmse must be a number > 0, or one for each output")
        return {k: float(v) for k, v in value.items()} if isinstance(value, dict) else None if value is None else float(value)


class FailureSection(Section):
    """What to do when a run fails: repeat it so often, keep away from places where runs fail, give up after `limit` in a row."""

    retries: int = Field(default=0, ge=0, le=1000)
    avoid: bool = True
    limit: int = Field(default=10, ge=1)


class Definition(Section):
    """A study, complete. `domain` is the description that `Domain.to_dict` gives."""

    study: StudySection
    domain: dict[str, Any]
    outputs: dict[str, Output]
    surrogate: SurrogateSection = SurrogateSection()
    acquisition: AcquisitionSection = AcquisitionSection()
    design: DesignSection = DesignSection()
    pool: PoolSection | None = None
    test: TestSection | None = None
    simulator: dict[str, Any] | None = None
    stop: StopSection = StopSection()
    failures: FailureSection = FailureSection()

    @model_validator(mode="after")
    def _consistent(self) -> Definition:
        if not self.outputs:
            raise ValueError("a study must have at least one output")
        for axis in self.domain.get("axes", []):
            if isinstance(axis, dict) and axis.get("name") in RESERVED:
                raise ValueError(f"{axis['name']!r} is a column of the table of runs already; name the input differently")
        for name in self.outputs:
            if not name.isidentifier():
                raise ValueError(f"an output's name must be a Python name, as in study.tell(query, lift=0.8); got {name!r}")
            if name in {axis.get("name") for axis in self.domain.get("axes", [])}:
                raise ValueError(f"inputs and outputs must have different names; {name!r} is both")
            if name in RESERVED:
                raise ValueError(f"{name!r} is a column of the table of runs already; name the output differently")
        if not any(output.weight > 0 for output in self.outputs.values()):
            raise ValueError("at least one output must have a weight > 0")
        if isinstance(self.stop.rmse, dict) and (unknown := set(self.stop.rmse) - set(self.outputs)):
            raise ValueError(f"stop.rmse names {sorted(unknown)[0]!r}, which is no output; outputs are {list(self.outputs)}")
        return self

    def make_domain(self) -> Domain:
        return Domain.from_dict(self.domain)

    def to_json(self) -> dict[str, Any]:
        """What a store keeps; `from_json` reads it back."""
        return json.loads(self.model_dump_json(exclude_none=True))

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Definition:
        return validate(dict(values))


# The columns of the table of runs, beside inputs and outputs.
RESERVED = ("id", "state", "origin", "attempt", "score", "seconds", "reason", "note", "asked_at", "ended_at", "epoch", "index")
_BOUNDED = ("low", "high", "log", "unit", "integer")  # keys of an input that is no choice
_SECTIONS = ("study", "inputs", "outputs", "surrogate", "acquisition", "design", "pool", "test", "simulator", "stop", "failures")


def read_toml(path: str | Path) -> Definition:
    """The study that a TOML file describes. Relative paths in it mean relative to the file; they are left as they are."""
    path = Path(path)
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise ConfigError(f"a study file must be smaller than {MAX_BYTES >> 20} MiB; {path} is not. Put tables in CSV files.")
        text = read_file(path, MAX_BYTES).decode("utf-8-sig")
    except FileNotFoundError as error:
        raise ConfigError(f"there is no study file {path}. Write one with: hyperleaf new {path}") from error
    except IsADirectoryError as error:
        raise ConfigError(f"a study file must be a file; {path} is a folder.") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"a study file must be UTF-8 text; {path} is not ({error.reason} at byte {error.start}).") from error
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror or error}.") from error
    return parse_toml(text, str(path))


def parse_toml(text: str, source: str = "the study file") -> Definition:
    """The study that this text describes."""
    try:
        values = tomllib.loads(text)
    except RecursionError as error:
        raise ConfigError(f"{source} is not valid TOML: nested too deeply.") from error
    except ValueError as error:  # TOMLDecodeError is one; a number of thousands of digits raises another
        raise ConfigError(f"{source} is not valid TOML: {error}.") from error
    return from_sections(values)


def from_sections(values: Mapping[str, Any]) -> Definition:
    """The study behind sections as in study.toml, where `inputs` stands for the domain."""
    unknown = [name for name in values if name not in _SECTIONS]
    if unknown:
        raise ConfigError(f"[{unknown[0]}] is no section of a study; {nearest(str(unknown[0]), _SECTIONS)}")
    for name in ("study", "inputs", "outputs"):
        if not isinstance(values.get(name), Mapping) or not values[name]:
            raise ConfigError(f"a study must have a section [{name}] that is not empty. See: hyperleaf new")
    rest = {name: value for name, value in values.items() if name != "inputs"}
    constraints = values["study"].get("constraints", ())
    domain = domain_from_inputs(values["inputs"], constraints)
    return validate({**rest, "domain": domain.to_dict()})


def validate(values: dict[str, Any]) -> Definition:
    """A Definition, or a ConfigError that says where and why not."""
    _check_plain(values)
    try:
        definition = Definition.model_validate(values)
        definition.make_domain()
        return definition
    except ValidationError as error:
        raise ConfigError(_sentence(error, values)) from error
    except DomainError as error:
        raise ConfigError(str(error)) from error


def domain_from_inputs(inputs: Mapping[str, Any], constraints: Any = ()) -> Domain:
    """[inputs]: each {low, high, log, unit, integer = true} or {options = […]}."""
    axes: dict[str, Axis] = {}
    for name, entry in inputs.items():
        if not isinstance(entry, Mapping):
            raise ConfigError(f"inputs.{name} must be a table such as {{ low = 0.0, high = 1.0 }}; got {entry!r}.")
        known = ("options",) if "options" in entry else (*_BOUNDED, "options")
        for key in entry:
            if key not in known:
                if key in _BOUNDED:
                    raise ConfigError(f"inputs.{name} must have either options or {key}; got both. Drop one.")
                raise ConfigError(f"inputs.{name} has no key {key!r}; {nearest(str(key), known)}")
        fields = dict(entry)
        try:
            if "options" in fields:
                if not isinstance(fields["options"], list):
                    raise ConfigError(f"inputs.{name}.options must be a list; got {fields['options']!r}.")
                axes[name] = Choice(*fields["options"])
                continue
            integer = fields.pop("integer", False)
            for key, value in (("integer", integer), ("log", fields.get("log", False))):
                if not isinstance(value, bool):
                    raise ConfigError(f"inputs.{name}.{key} must be true or false; got {value!r}.")
            if not isinstance(fields.get("unit", ""), str):
                raise ConfigError(f"inputs.{name}.unit must be text; got {fields['unit']!r}.")
            missing = [key for key in ("low", "high") if key not in fields]
            if missing:
                raise ConfigError(f"inputs.{name} must have {' and '.join(missing)}; or options = [...] for a choice.")
            axes[name] = (Integer if integer else Real)(**fields)
        except DomainError as error:
            raise ConfigError(f"inputs.{name}: {error}") from error
    if not isinstance(constraints, list | tuple) or not all(isinstance(one, str) for one in constraints):
        raise ConfigError(f'study.constraints must be a list of texts such as ["a + b <= 1"]; got {constraints!r}.')
    try:
        return Domain(axes, constraints=tuple(constraints))
    except DomainError as error:
        raise ConfigError(str(error)) from error


# pydantic's kinds of errors in a person's words, where its own are a programmer's
_RULES = {
    "model_type": "must be a table of settings",
    "dict_type": "must be a table of settings",
    "string_type": "must be text",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "bool_type": "must be true or false",
}
_DEEPEST = 20


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _check_plain(value: Any, place: str = "", depth: int = 0) -> None:
    """What any store can keep: texts, truth values, finite numbers, lists and tables of them, not nested for its own sake."""
    where = place or "a study"
    if depth > _DEEPEST:
        raise ConfigError(f"{place.partition('.')[0]} must not be nested more than {_DEEPEST} deep.")
    if isinstance(value, Mapping):
        for key, entry in value.items():
            _check_plain(str(key), f"a key of {where}", depth + 1)
            _check_plain(entry, f"{place}.{key}" if place else str(key), depth + 1)
    elif isinstance(value, list | tuple):
        for entry in value:
            _check_plain(entry, place, depth + 1)
    elif isinstance(value, str):
        if "\0" in value:
            raise ConfigError(f"{where} must be text without NUL characters; got {value[:60]!r}.")
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise ConfigError(f"{where} must be finite; got {value}. Leave it out for no limit.")
    elif isinstance(value, int):
        if not -(2**63) <= value < 2**63:
            raise ConfigError(f"{where} must be a number below 2**63; got one of {value.bit_length()} bits.")
    elif value is not None:
        raise ConfigError(
            f"{where} must be text, a number, true or false, a list or a table; got {type(value).__name__} {value!s:.60}."
        )


def _sentence(error: ValidationError, values: Any) -> str:
    """The first thing pydantic found, in a person's words."""
    first = error.errors(include_url=False)[0]
    place = ".".join(str(part) for part in first["loc"] if part not in ("float", "dict[str,float]", "literal['learned','none']"))
    value = first.get("input")
    if first["type"] == "extra_forbidden":
        section: Any = Definition
        for part in first["loc"][:-1]:
            field = section.model_fields.get(str(part)) if isinstance(section, type) and issubclass(section, BaseModel) else None
            section = _model_of(field.annotation) if field is not None else Output if section is None else section
        known = tuple(section.model_fields) if isinstance(section, type) and issubclass(section, BaseModel) else ()
        return f"{place} is no setting; {nearest(str(first['loc'][-1]), known)}"
    if first["type"] == "missing":
        return f"{place} is missing. See: hyperleaf new"
    shown = repr(value)
    shown = shown if len(shown) <= 80 else shown[:77] + "…"
    rule = first["msg"].removeprefix("Value error, ").replace("Input should be", "must be").replace("String should", "must")
    rule = _RULES.get(first["type"], rule)
    more = f" ({error.error_count() - 1} more)" if error.error_count() > 1 else ""
    if "; got " in rule:  # the rule has said it itself, with the remedy
        return f"{place}: {rule}{more}"
    mark = "" if rule.startswith("must") else ":"
    return f"{place}{mark} {rule}; got {shown}{more}." if place else f"{rule}{more}."


def _model_of(annotation: Any) -> Any:
    """The section model in an annotation such as `PoolSection | None` or `dict[str, Output]`; None where it holds Outputs."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for part in getattr(annotation, "__args__", ()):
        if isinstance(part, type) and issubclass(part, BaseModel):
            return None if part is Output else part
    return None
