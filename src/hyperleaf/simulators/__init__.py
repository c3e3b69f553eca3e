"""The costly thing: a Python function, an external command or a table of finished runs, each called with a point.

`as_simulator` makes one of them; each answers `Success` or `Failure` and raises only if it is misconfigured. Nothing here
imports NumPy until a table is used, so that workers start fast.
"""

from typing import TYPE_CHECKING, Any

from hyperleaf.simulators.base import Failure, Outcome, Simulator, Success
from hyperleaf.simulators.command import CommandSimulator
from hyperleaf.simulators.config import as_simulator
from hyperleaf.simulators.durations import format_duration, parse_duration
from hyperleaf.simulators.function import FunctionSimulator

if TYPE_CHECKING:
    from hyperleaf.simulators.table import TableSimulator

__all__ = [
    "CommandSimulator",
    "Failure",
    "FunctionSimulator",
    "Outcome",
    "Simulator",
    "Success",
    "TableSimulator",
    "as_simulator",
    "format_duration",
    "parse_duration",
]


def __getattr__(name: str) -> Any:
    if name == "TableSimulator":
        from hyperleaf.simulators.table import TableSimulator

        return TableSimulator
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
