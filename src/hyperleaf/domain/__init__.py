"""The inputs of a system in native units, and the unit cube in which the numerics see them.

`axes` says what an input can be, `constraints` what is known between inputs, `designs` how to fill what is left, `tables` how
points are read; `domain` puts them together.
"""

from hyperleaf.domain.axes import Axis, Choice, Integer, Real, Value
from hyperleaf.domain.domain import Domain, Point
from hyperleaf.domain.tables import read_table

__all__ = ["Axis", "Choice", "Domain", "Integer", "Point", "Real", "Value", "read_table"]
