"""Axes: what an input can be. `Axis` is what all can say of themselves; each type is a file of its own and a line in `KINDS`."""

from hyperleaf.domain.axes.base import Axis, Codes, Value
from hyperleaf.domain.axes.choice import Choice
from hyperleaf.domain.axes.integer import Integer
from hyperleaf.domain.axes.real import Real

KINDS: dict[str, type[Axis]] = {axis.kind: axis for axis in (Real, Integer, Choice)}

__all__ = ["KINDS", "Axis", "Choice", "Codes", "Integer", "Real", "Value"]
