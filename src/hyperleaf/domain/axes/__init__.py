"""Axes: what an input can be. `Axis` is what all can say of themselves; each type is a file of its own and a line in `KINDS`."""

from collections.abc import Mapping
from typing import Any

from hyperleaf.checks import nearest
from hyperleaf.domain.axes.base import Axis, Codes, Value
from hyperleaf.domain.axes.choice import Choice
from hyperleaf.domain.axes.integer import Integer
from hyperleaf.domain.axes.real import Real
from hyperleaf.errors import DomainError

# A table of study.toml stands for the last type here that claims it; Real claims all.
KINDS: dict[str, type[Axis]] = {axis.kind: axis for axis in (Real, Integer, Choice)}

__all__ = ["KINDS", "Axis", "Choice", "Codes", "Integer", "Real", "Value", "from_entry"]


def from_entry(where: str, entry: Any) -> Axis:
    """The axis that a table in [inputs] of study.toml stands for; a DomainError says where and what is wrong."""
    if not isinstance(entry, Mapping):
        raise DomainError(f"{where} must be a table such as {{ low = 0.0, high = 1.0 }}; got {entry!r}.")
    axis = next(one for one in reversed(KINDS.values()) if one.is_meant(entry))
    every = tuple(dict.fromkeys(key for one in KINDS.values() for key in one.keys))
    for key in entry:
        if key not in axis.keys:
            if key in every:
                raise DomainError(f"{where} must have either {axis.keys[0]} or {key}; got both. Drop one.")
            raise DomainError(f"{where} has no key {key!r}; {nearest(str(key), every if axis is Real else axis.keys)}")
    axis.check_entry(where, entry)
    try:
        return axis.from_entry(entry)
    except DomainError as error:
        raise DomainError(f"{where}: {error}") from error
