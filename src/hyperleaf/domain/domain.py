"""A domain: named axes side by side, with known constraints between them, and the way to the unit cube and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hyperleaf.domain.axes import KINDS, Axis, Codes, Real
from hyperleaf.domain.constraints import Constraint, holding, identifier
from hyperleaf.domain.designs import design_codes, num_points
from hyperleaf.domain.tables import numeric, read_table
from hyperleaf.errors import DataError, DomainError

Point = dict[str, Any]


class Domain:
    """Named axes in order, and known constraints between them.

    `Domain(mach=Real(0.2, 6), alpha=Real(-5, 30), constraints=["mach * alpha <= 90"])`, or `Domain({"angle of attack": …})`
    for names that are not Python identifiers. Immutable; equal if axes, their order and the constraints are equal.
    `num_dims` columns of the unit cube stand for `num_axes` axes: a Choice takes one column per option.
    """

    def __init__(self, axes: Mapping[str, Axis] | None = None, /, *, constraints: Iterable[str] = (), **named: Axis) -> None:
        if axes is not None and not isinstance(axes, Mapping):
            raise DomainError(f"axes must be a mapping of names to axes; got {type(axes).__name__}. Write Domain(x=Real(0, 1)).")
        pairs = [*(axes or {}).items(), *named.items()]
        if not pairs:
            raise DomainError("a Domain must have at least one axis; got none. Write Domain(x=Real(0, 1)).")
        self._axes: dict[str, Axis] = {}
        seen: set[str] = set()
        for name, axis in pairs:
            if not isinstance(name, str) or not name.strip():
                raise DomainError(f"the name of an axis must be a text that is not blank; got {name!r}. Name the axis.")
            if not isinstance(axis, Axis):
                raise DomainError(
                    f"axis {name!r} must be a Real, an Integer or a Choice; got {axis!r}. Write it as Real(low, high)."
                )
            if identifier(name) in seen:
                raise DomainError(f"the names of the axes must differ; got {name!r} twice. Rename one.")
            seen.add(identifier(name))
            self._axes[name] = axis
        if isinstance(constraints, str) or not isinstance(constraints, Iterable):
            raise DomainError(f"constraints must be a list of expressions; got {constraints!r}. Put it in a list.")
        self._constraints = tuple(Constraint(source, self._axes) for source in constraints)

    @classmethod
    def from_data(cls, X: Any, names: Sequence[str] | None = None) -> Domain:
        """The smallest box of Real axes around the rows of X; names default to the columns of a table, or x0, x1, …."""
        found, columns = read_table(X, None, DataError)
        labels = list(names) if names is not None else [str(name) for name in found]
        if len(labels) != len(columns):
            raise DataError(f"there must be one name per column; got {len(labels)} names for {len(columns)} columns.")
        if not columns or len(columns[0]) < 2:
            raise DataError("a domain is learnt from at least two rows and one column; got fewer. Give more data, or a Domain.")
        axes: dict[str, Axis] = {}
        for name, column in zip(labels, columns, strict=True):
            values = numeric(column)
            if values is None:
                raise DataError(
                    f"column {name!r} must hold numbers only to learn its range. Convert it, or give a Domain with a Choice."
                )
            for row in np.flatnonzero(~np.isfinite(values))[:1]:
                raise DataError(f"column {name!r} must be finite; got {values[row]} in row {row}. Drop or repair that row.")
            low, high = float(values.min()), float(values.max())
            if low == high:
                raise DataError(
                    f"column {name!r} must vary to learn its range; got {low:g} in all rows. Drop it, or give a Domain."
                )
            if name in axes:
                raise DataError(f"the names of the columns must differ; got {name!r} twice. Rename one.")
            axes[name] = Real(low, high)
        return cls(axes)

    @property
    def axes(self) -> Mapping[str, Axis]:
        """The axes by their names; not to be changed."""
        return MappingProxyType(self._axes)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the axes, in order."""
        return tuple(self._axes)

    @property
    def units(self) -> dict[str, str | None]:
        """The unit of each axis, None where there is none."""
        return {name: axis.unit for name, axis in self._axes.items()}

    @property
    def bounds(self) -> dict[str, tuple[float, float]]:
        """(low, high) in native units of each Real and Integer; a Choice has none."""
        return {name: axis.bounds for name, axis in self._axes.items() if axis.bounds is not None}

    @property
    def constraints(self) -> tuple[str, ...]:
        """The constraints as they were written."""
        return tuple(constraint.source for constraint in self._constraints)

    @property
    def num_axes(self) -> int:
        """How many inputs there are."""
        return len(self._axes)

    @property
    def num_dims(self) -> int:
        """How many columns of the unit cube they take: a choice has one for each option."""
        return sum(axis.num_columns for axis in self._axes.values())

    @property
    def widths(self) -> tuple[int, ...]:
        """How many columns of the unit cube each axis takes."""
        return tuple(axis.num_columns for axis in self._axes.values())

    @property
    def columns(self) -> tuple[str, ...]:
        """A label for each column of the unit cube: the name of its axis, for a Choice name=option."""
        return tuple(label for name, axis in self._axes.items() for label in axis.labels(name))

    @property
    def num_points(self) -> int | None:
        """How many points the domain has before constraints; None if an axis is continuous."""
        return num_points(self._axes)

    def to_unit(self, points: Any) -> NDArray[np.float64]:
        """Points as (n, num_dims) in the unit cube; `points` is a list of dicts, a DataFrame or an (n, num_axes) array."""
        return self._encode(self._read(points))

    def from_unit(self, u: ArrayLike) -> list[Point]:
        """The points that the rows of u stand for, as dicts of float, int and options."""
        return self._dicts(self._decode(self._unit(u)))

    def from_unit_array(self, u: ArrayLike) -> NDArray[Any]:
        """As `from_unit`, as an (n, num_axes) array: of float if all values are numbers, else of objects."""
        return self._array(self._decode(self._unit(u)))

    def from_unit_frame(self, u: ArrayLike) -> Any:
        """As `from_unit`, as a pandas DataFrame."""
        return self._frame(self._decode(self._unit(u)))

    def to_dicts(self, points: Any) -> list[Point]:
        """Points in any accepted form, checked, as dicts."""
        return self._dicts(self._read(points))

    def to_array(self, points: Any) -> NDArray[Any]:
        """Points in any accepted form, checked, as an (n, num_axes) array."""
        return self._array(self._read(points))

    def to_frame(self, points: Any) -> Any:
        """Points in any accepted form, checked, as a pandas DataFrame."""
        return self._frame(self._read(points))

    def snap(self, u: ArrayLike) -> NDArray[np.float64]:
        """Each row of u moved to the point it stands for: clipped to the cube, integers and options to their own places."""
        u = np.clip(self._unit(u, inside=False), 0.0, 1.0)
        return np.hstack([axis.snap(part) for axis, part in zip(self._axes.values(), self._parts(u), strict=True)])

    def feasible(self, points: Any) -> NDArray[np.bool_]:
        """Which points (in any accepted form, and in the box) satisfy all constraints."""
        return self._feasible(self._read(points))

    def feasible_unit(self, u: ArrayLike) -> NDArray[np.bool_]:
        """Which rows of u stand for a point that satisfies all constraints."""
        return self._feasible(self._decode(self._unit(u)))

    def design(self, n: int, kind: str = "sobol", seed: int = 0) -> list[Point]:
        """n feasible points that fill the domain: scrambled "sobol", Latin hypercube "lhs" or "uniform" random.

        Infeasible points are drawn again, at most 2**18 times. A finite domain gives distinct points as long as it has
        them, and then repeats them in turn.
        """
        return self._dicts(design_codes(self._axes, self._constraints, n, kind, seed))

    def to_dict(self) -> dict[str, Any]:
        """A JSON-able description; axes are a list, because some databases do not keep the order of keys."""
        axes = [{"name": name, "kind": axis.kind, **axis.fields()} for name, axis in self._axes.items()]
        return {"axes": axes, "constraints": list(self.constraints)}

    @classmethod
    def from_dict(cls, description: Mapping[str, Any]) -> Domain:
        """The domain that `to_dict` described."""
        known = isinstance(description, Mapping) and set(description) <= {"axes", "constraints"}
        if not known or not isinstance(description.get("axes"), list):
            raise DomainError(f'a description must be a mapping of "axes" and "constraints"; got {description!r}. Use to_dict.')
        axes: dict[str, Axis] = {}
        for entry in description["axes"]:
            if not isinstance(entry, Mapping) or not isinstance(entry.get("name"), str) or entry.get("kind") not in KINDS:
                raise DomainError(f'an axis must have a "name" and a "kind" among {list(KINDS)}; got {entry!r}.')
            fields = {key: value for key, value in entry.items() if key not in ("name", "kind")}
            if entry["name"] in axes:
                raise DomainError(f"the names of the axes must differ; got {entry['name']!r} twice. Rename one.")
            try:
                axes[entry["name"]] = KINDS[entry["kind"]].from_fields(fields)
            except (KeyError, TypeError) as error:
                raise DomainError(f"an axis must have the fields of its kind ({error}); got {entry!r}. Use to_dict.") from error
        return cls(axes, constraints=description.get("constraints", ()))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Domain):
            return NotImplemented
        return list(self._axes.items()) == list(other._axes.items()) and self.constraints == other.constraints

    def __hash__(self) -> int:
        return hash((tuple(self._axes.items()), self.constraints))

    def __repr__(self) -> str:
        rules = f", constraints={list(self.constraints)}" if self._constraints else ""
        return f"Domain({self._axes!r}{rules})"

    def _read(self, points: Any) -> list[Codes]:
        names, columns = read_table(points, self.names, DomainError)
        if list(names) != list(self._axes):
            for name in names:
                if name not in self._axes:
                    raise DomainError(f"a point may only name axes of the domain; got {name!r}. The axes are {list(self._axes)}.")
            for name in self._axes:
                if name not in names:
                    raise DomainError(f"a point must give every axis; {name!r} is missing. The axes are {list(self._axes)}.")
        by_name = dict(zip(names, columns, strict=True))
        return [axis.read(name, by_name[name]) for name, axis in self._axes.items()]

    def _encode(self, codes: list[Codes]) -> NDArray[np.float64]:
        return np.hstack([axis.encode(code) for axis, code in zip(self._axes.values(), codes, strict=True)])

    def _parts(self, u: NDArray[np.float64]) -> list[NDArray[np.float64]]:
        return np.split(u, np.cumsum([axis.num_columns for axis in self._axes.values()])[:-1], axis=1)

    def _decode(self, u: NDArray[np.float64]) -> list[Codes]:
        return [axis.decode(part) for axis, part in zip(self._axes.values(), self._parts(u), strict=True)]

    def _unit(self, u: ArrayLike, inside: bool = True) -> NDArray[np.float64]:
        try:
            array = np.asarray(u, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise DomainError(f"unit points must be an array of numbers; got {type(u).__name__} ({error}).") from error
        if array.ndim != 2 or array.shape[1] != self.num_dims:
            raise DomainError(f"unit points must have shape (n, {self.num_dims}); got {array.shape}. Give one row per point.")
        bad = np.isnan(array) | (((array < -1e-9) | (array > 1 + 1e-9)) & inside)
        for row, column in np.argwhere(bad)[:1]:
            value = array[row, column]
            raise DomainError(
                f"unit points must lie in [0, 1]; got {value} in row {row}, column {column}. Clip them, or call snap."
            )
        return np.clip(array, 0.0, 1.0) if inside else array

    def _values(self, codes: list[Codes]) -> list[list[Any]]:
        return [axis.values(code) for axis, code in zip(self._axes.values(), codes, strict=True)]

    def _dicts(self, codes: list[Codes]) -> list[Point]:
        return [dict(zip(self._axes, row, strict=True)) for row in zip(*self._values(codes), strict=True)]

    def _array(self, codes: list[Codes]) -> NDArray[Any]:
        numeric = all(axis.is_numeric for axis in self._axes.values())
        array = np.empty((len(codes[0]), self.num_axes), dtype=np.float64 if numeric else object)
        for i, column in enumerate(self._values(codes)):
            array[:, i] = column
        return array

    def _frame(self, codes: list[Codes]) -> Any:
        import pandas as pd

        return pd.DataFrame(dict(zip(self._axes, self._values(codes), strict=True)))

    def _feasible(self, codes: list[Codes]) -> NDArray[np.bool_]:
        return holding(self._constraints, self._axes, codes)
