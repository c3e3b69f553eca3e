"""Reading a study.toml."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hyperleaf.checks import nearest
from hyperleaf.config.definition import Definition, validate
from hyperleaf.config.sections import ConfigError
from hyperleaf.domain import Domain
from hyperleaf.domain.axes import from_entry
from hyperleaf.errors import DomainError
from hyperleaf.io import read_file

MAX_BYTES = 4 * 2**20  # of a definition; tables belong in files
SECTIONS = (
    *("study", "inputs", "outputs", "surrogate", "acquisition", "design", "pool", "test", "simulator", "stop", "failures"),
    *("limits", "safety"),
)


def read_toml(path: str | Path) -> Definition:
    """The study that a TOML file describes. Relative paths in it mean relative to the file; they are left as they are."""
    return parse_toml(read_text(path), str(path))


def read_text(path: str | Path) -> str:
    """What a study file says; a ConfigError if there is none, or it cannot be one."""
    path = Path(path)
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise ConfigError(f"a study file must be smaller than {MAX_BYTES >> 20} MiB; {path} is not. Put tables in CSV files.")
        return read_file(path, MAX_BYTES).decode("utf-8-sig")
    except FileNotFoundError as error:
        raise ConfigError(f"there is no study file {path}. Write one with: hyperleaf new {path}") from error
    except IsADirectoryError as error:
        raise ConfigError(f"a study file must be a file; {path} is a folder.") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"a study file must be UTF-8 text; {path} is not ({error.reason} at byte {error.start}).") from error
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror or error}.") from error


def parse_toml(text: str, source: str = "the study file") -> Definition:
    """The study that this text describes."""
    return from_sections(sections_of(text, source))


def sections_of(text: str, source: str = "the study file") -> dict[str, Any]:
    """The sections of this text, as they stand there."""
    try:
        return tomllib.loads(text)
    except RecursionError as error:
        raise ConfigError(f"{source} is not valid TOML: nested too deeply.") from error
    except ValueError as error:  # TOMLDecodeError is one; a number of thousands of digits raises another
        raise ConfigError(f"{source} is not valid TOML: {error}.") from error


def from_sections(values: Mapping[str, Any]) -> Definition:
    """The study behind sections as in study.toml, where `inputs` stands for the domain."""
    unknown = [name for name in values if name not in SECTIONS]
    if unknown:
        raise ConfigError(f"[{unknown[0]}] is no section of a study; {nearest(str(unknown[0]), SECTIONS)}")
    for name in ("study", "inputs", "outputs"):
        if not isinstance(values.get(name), Mapping) or not values[name]:
            raise ConfigError(f"a study must have a section [{name}] that is not empty. See: hyperleaf new")
    rest = {name: value for name, value in values.items() if name != "inputs"}
    constraints = values["study"].get("constraints", ())
    domain = domain_from_inputs(values["inputs"], constraints)
    return validate({**rest, "domain": domain.to_dict()})


def domain_from_inputs(inputs: Mapping[str, Any], constraints: Any = ()) -> Domain:
    """[inputs]: each {low, high, log, unit, integer = true} or {options = […]}; the axes know their own."""
    if not isinstance(constraints, list | tuple) or not all(isinstance(one, str) for one in constraints):
        raise ConfigError(f'study.constraints must be a list of texts such as ["a + b <= 1"]; got {constraints!r}.')
    try:
        axes = {name: from_entry(f"inputs.{name}", entry) for name, entry in inputs.items()}
        return Domain(axes, constraints=tuple(constraints))
    except DomainError as error:
        raise ConfigError(str(error)) from error
