"""A study, complete and consistent: what a store keeps."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pydantic import Field, ValidationError, model_validator

from hyperleaf.config.limits import LimitSection, SafetySection
from hyperleaf.config.sections import (
    AcquisitionSection,
    ConfigError,
    DesignSection,
    FailureSection,
    Output,
    PoolSection,
    Section,
    StopSection,
    StudySection,
    SurrogateSection,
    TestSection,
)
from hyperleaf.config.words import check_plain, sentence
from hyperleaf.domain import Domain
from hyperleaf.errors import DomainError

# The columns of the table of runs, beside inputs and outputs.
RESERVED = (
    *("id", "state", "origin", "attempt", "index", "score", "seconds", "reason", "note", "epoch"),
    *("asked", "changes", "asked_at", "ended_at"),
)


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
    limits: dict[str, LimitSection] = Field(default_factory=dict)
    safety: SafetySection = SafetySection()

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
        for name, limit in self.limits.items():
            if name not in self.outputs:
                raise ValueError(f"limits names {name!r}, which is no output; outputs are {list(self.outputs)}")
            expected = self.outputs[name].range
            if expected is not None and (limit.high <= expected[0] or limit.low >= expected[1]):
                raise ValueError(
                    f"limits.{name} ({limit.words}) leaves out the whole range in which it is expected, {expected[0]:g} to "
                    f"{expected[1]:g}; nothing could be asked. Put one of them right"
                )
        return self

    @property
    def risk(self) -> float:
        """The probability with which a query may break a limit: 1 − the largest confidence that was asked for."""
        return 1.0 - max((limit.confidence for limit in self.limits.values()), default=1.0)

    @property
    def units(self) -> dict[str, str]:
        """Of the outputs; "" where none is stated."""
        return {name: output.unit for name, output in self.outputs.items()}

    def make_domain(self) -> Domain:
        return Domain.from_dict(self.domain)

    def to_json(self) -> dict[str, Any]:
        """What a store keeps; `from_json` reads it back."""
        return json.loads(self.model_dump_json(exclude_none=True))

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Definition:
        return validate(dict(values))


def validate(values: dict[str, Any]) -> Definition:
    """A Definition, or a ConfigError that says where and why not."""
    check_plain(values)
    try:
        definition = Definition.model_validate(values)
        definition.make_domain()
        return definition
    except ValidationError as error:
        raise ConfigError(sentence(error, Definition)) from error
    except DomainError as error:
        raise ConfigError(str(error)) from error
