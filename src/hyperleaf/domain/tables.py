"""Points as people have them, a DataFrame, a list of dicts or an array, read column by column."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from numbers import Real as RealNumber
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hyperleaf.errors import InputError


def read_table(points: Any, names: Sequence[str] | None, error_type: type[InputError]) -> tuple[list[Any], list[Any]]:
    """Names and columns of a DataFrame, a list of dicts or an (n, columns) array; the columns of an array are `names`."""
    if hasattr(points, "iloc") and hasattr(points, "columns"):  # a DataFrame, without importing pandas
        found = list(points.columns)
        if len(set(found)) < len(found):
            raise error_type(f"the columns of a table must have different names; got {found}. Rename or drop the second.")
        return found, [points.iloc[:, i].to_numpy() for i in range(len(found))]
    if isinstance(points, Mapping):
        raise error_type("points must be a list of dicts, a DataFrame or an array; got one mapping. Put one point in a list.")
    if isinstance(points, list | tuple) and all(isinstance(point, Mapping) for point in points):
        found, num = list(names) if names is not None else list(points[0]) if points else [], len(points)
        for row, point in enumerate(points):
            place = in_row(row, num)
            for name in point:
                if name not in found:
                    raise error_type(f"a point may only name the axes {found}; got {name!r}{place}. Correct or drop it.")
            for name in found:
                if name not in point:
                    raise error_type(f"a point must give every axis; {name!r} is missing{place}. The axes are {found}.")
        return found, [[point[name] for point in points] for name in found]
    try:
        # nested lists as objects, or NumPy would turn [1.0, "steel"] into two texts
        array = np.array(points, dtype=object) if isinstance(points, list | tuple) else np.asarray(points)
    except (TypeError, ValueError) as error:
        raise error_type(f"points must be a list of dicts, a DataFrame or an array; got {points!r:.80} ({error}).") from error
    if array.ndim != 2 or (names is not None and array.shape[1] != len(names)):
        wanted = "(n, d)" if names is None else f"(n, {len(names)}), one column per axis"
        raise error_type(f"an array of points must have shape {wanted}; got {array.shape}. Reshape it, one row per point.")
    found = list(names) if names is not None else [f"x{i}" for i in range(array.shape[1])]
    return found, [array[:, i] for i in range(array.shape[1])]


def in_row(row: int, num: int) -> str:
    """Where something is wrong; nothing if there is only one row, which may stand for anything."""
    return f" in row {row}" if num > 1 else ""


def is_number(value: Any) -> bool:
    return isinstance(value, RealNumber) and not isinstance(value, bool | np.bool_)


def as_float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def numeric(column: Any) -> NDArray[np.float64] | None:
    """The column as floats if every value is a number (bools and texts are not), else None."""
    if isinstance(column, np.ndarray) and column.dtype.kind in "fiu":
        return column.astype(np.float64)
    if all(is_number(value) for value in column):
        return np.array([as_float(value) for value in column], dtype=np.float64)
    return None
