"""The inputs of a system in native units, and the unit cube in which the numerics see them.

An axis (`Real`, `Integer`, `Choice`) knows its own codes: floats for a Real, whole numbers for an Integer, positions in the
options for a Choice; it reads native values into codes and maps codes to columns of the unit cube and back. A `Domain` is an
ordered set of named axes with known constraints between them, and lays the columns side by side. Constraints are
expressions, parsed with `ast` over a whitelist and evaluated by walking the tree: nothing in them is ever executed as Python.
"""

from __future__ import annotations

import ast
import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from numbers import Integral, Real as RealNumber
from types import MappingProxyType
from typing import Any, NoReturn
from unicodedata import normalize

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hyperleaf.errors import DataError, DomainError, InputError

Value = float | int | str | bool
Point = dict[str, Any]
Codes = NDArray[Any]

_LARGEST_INTEGER = 2**40  # beyond it neighbouring integers of a log axis are no longer told apart in float64
_MAX_DESIGN = 2**16
_MAX_TRIES = 2**18  # points a design may draw, and points of a finite domain it may list, before it gives up
_MAX_LENGTH, _MAX_DEPTH = 2000, 100  # of a constraint: keeps Python's parser and the walk over the tree away from their limits
_SLACK = 1e-12  # relative; a value this little outside a bound is rounding and counts as the bound


@dataclass(frozen=True)
class Real:
    """A continuous axis, u = (x − low) / (high − low); with `log`, the same in log x."""

    low: float
    high: float
    log: bool = False
    unit: str | None = None

    def __post_init__(self) -> None:
        for bound in ("low", "high"):
            value = getattr(self, bound)
            if not _is_number(value) or not math.isfinite(_as_float(value)):
                raise DomainError(f"{bound} of a Real must be a finite number; got {value!r}. Give a finite bound.")
            object.__setattr__(self, bound, _as_float(value))
        _check_range(self)
        width = math.log(self.high) - math.log(self.low) if self.log else self.high - self.low
        if not 0 < width < math.inf:
            raise DomainError(
                f"the range of a Real must have a width that float64 can hold; got [{self.low}, {self.high}]"
                f"{' in log space' if self.log else ''}. Rescale the axis, or set log=False."
            )

    num_columns = 1
    num_values = None

    @property
    def _scale(self) -> tuple[float, float]:
        return (math.log(self.low), math.log(self.high)) if self.log else (self.low, self.high)

    def read(self, name: str, column: Sequence[Any]) -> Codes:
        """Native values as codes; a DomainError names the first that is not in the axis."""
        return _read_numbers(name, self, column)

    def encode(self, codes: Codes) -> NDArray[np.float64]:
        """Codes (n,) to columns (n, k) of the unit cube."""
        a, b = self._scale
        t = np.log(codes) if self.log else codes
        return np.clip((t - a) / (b - a), 0.0, 1.0)[:, None]

    def decode(self, u: NDArray[np.float64]) -> Codes:
        """Columns (n, k) of the unit cube to the codes (n,) they stand for."""
        a, b = self._scale
        v = u[:, 0]
        t = a * (1 - v) + b * v
        x = np.clip(np.exp(t) if self.log else t, self.low, self.high)
        return np.where(v == 0, self.low, np.where(v == 1, self.high, x))  # exp(log(x)) is not x

    def quantile(self, v: NDArray[np.float64]) -> Codes:
        """Codes of the probabilities v (n,): the inverse distribution function of the design's measure on this axis."""
        return self.decode(v[:, None])

    def values(self, codes: Codes) -> list[Any]:
        """Codes as native Python values."""
        return codes.tolist()


@dataclass(frozen=True)
class Integer:
    """The whole numbers low, …, high.

    The unit interval is cut into one bin [k − ½, k + ½) per integer, bins of equal width or, with `log`, of equal width in
    log space; every u in a bin stands for its integer, so uniform u gives uniform (log-uniform) integers. The integer itself
    sits at t_k = k − ½ + (k − low) / (high − low) in its bin, so that low is at 0, high at 1 and, without `log`, the others
    are equally spaced.
    """

    low: int
    high: int
    log: bool = False
    unit: str | None = None

    def __post_init__(self) -> None:
        for bound in ("low", "high"):
            value = getattr(self, bound)
            if isinstance(value, bool | np.bool_) or not isinstance(value, Integral) or abs(int(value)) > _LARGEST_INTEGER:
                raise DomainError(
                    f"{bound} of an Integer must be a whole number of size at most 2**40; got {value!r}. "
                    "Give an int, or use Real for a continuous axis."
                )
            object.__setattr__(self, bound, int(value))
        _check_range(self)

    num_columns = 1

    @property
    def num_values(self) -> int:
        return self.high - self.low + 1

    @property
    def _scale(self) -> tuple[float, float]:
        a, b = self.low - 0.5, self.high + 0.5
        return (math.log(a), math.log(b)) if self.log else (a, b)

    def read(self, name: str, column: Sequence[Any]) -> Codes:
        x = _read_numbers(name, self, column)
        for bad in np.flatnonzero(x != np.rint(x))[:1]:
            _refuse(name, self, column, int(bad), "a whole number", "Round it, or make the axis a Real.")
        return np.rint(x).astype(np.int64)

    def encode(self, codes: Codes) -> NDArray[np.float64]:
        a, b = self._scale
        t = codes - 0.5 + (codes - self.low) / (self.high - self.low)
        u = np.clip(((np.log(t) if self.log else t) - a) / (b - a), 0.0, 1.0)
        return np.where(codes == self.low, 0.0, np.where(codes == self.high, 1.0, u))[:, None]

    def decode(self, u: NDArray[np.float64]) -> Codes:
        a, b = self._scale
        t = a * (1 - u[:, 0]) + b * u[:, 0]
        codes = np.clip(np.floor((np.exp(t) if self.log else t) + 0.5), self.low, self.high).astype(np.int64)
        for shift in (-1, 1):  # rounding may carry the place of an integer over the edge of its bin; the integer owns it
            other = np.clip(codes + shift, self.low, self.high)
            codes = np.where(self.encode(other)[:, 0] == u[:, 0], other, codes)
        return codes

    def quantile(self, v: NDArray[np.float64]) -> Codes:
        return self.decode(v[:, None])

    def values(self, codes: Codes) -> list[Any]:
        return codes.tolist()


@dataclass(frozen=True, init=False)
class Choice:
    """One of some options without order: `Choice("steel", "brass", "glass")`.

    One column of the unit cube per option, one-hot, so that any two options are equally far apart; a u between the corners
    stands for the option of its largest column.
    """

    options: tuple[Value, ...]

    def __init__(self, *options: Value) -> None:
        plain = tuple(option.item() if isinstance(option, np.generic) else option for option in options)
        for option in plain:
            if not isinstance(option, str | bool | int | float) or (isinstance(option, float) and not math.isfinite(option)):
                raise DomainError(
                    f"an option must be text, a finite number or a bool; got {option!r}. Unpack a list: Choice(*list)."
                )
        if len(plain) < 2:
            raise DomainError(f"a Choice must have at least two options; got {list(plain)}. Leave out an axis that cannot vary.")
        for i, option in enumerate(plain):
            if option in plain[:i]:
                raise DomainError(f"the options of a Choice must differ; got {option!r} twice in {list(plain)}. Drop the second.")
        object.__setattr__(self, "options", plain)

    def __repr__(self) -> str:
        return f"Choice({', '.join(map(repr, self.options))})"

    unit = None

    @property
    def num_columns(self) -> int:
        return len(self.options)

    @property
    def num_values(self) -> int:
        return len(self.options)

    @property
    def is_numeric(self) -> bool:
        return all(_is_number(option) for option in self.options)

    def read(self, name: str, column: Sequence[Any]) -> Codes:
        place = {option: i for i, option in enumerate(self.options)}
        codes = np.empty(len(column), dtype=np.int64)
        for row, value in enumerate(column.tolist() if isinstance(column, np.ndarray) else column):
            try:
                codes[row] = place[value]
            except (KeyError, TypeError):
                _refuse(name, self, column, row, f"one of {list(self.options)}", "Correct it, or add the option to the axis.")
        return codes

    def encode(self, codes: Codes) -> NDArray[np.float64]:
        return np.eye(len(self.options))[codes]

    def decode(self, u: NDArray[np.float64]) -> Codes:
        return np.argmax(u, axis=1)

    def quantile(self, v: NDArray[np.float64]) -> Codes:
        return np.minimum((v * len(self.options)).astype(np.int64), len(self.options) - 1)

    def values(self, codes: Codes) -> list[Any]:
        return [self.options[i] for i in codes]


Axis = Real | Integer | Choice
_KINDS: dict[str, type[Axis]] = {"real": Real, "integer": Integer, "choice": Choice}


class Domain:
    """Named axes in order, and known constraints between them.

    `Domain(mach=Real(0.2, 6), alpha=Real(-5, 30), constraints=["mach * alpha <= 90"])`, or `Domain({"angle of attack": …})`
    for names that are no Python identifiers. Immutable; equal if axes, their order and the constraints are equal.
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
            if _identifier(name) in seen:
                raise DomainError(f"the names of the axes must differ; got {name!r} twice. Rename one.")
            seen.add(_identifier(name))
            self._axes[name] = axis
        if isinstance(constraints, str) or not isinstance(constraints, Iterable):
            raise DomainError(f"constraints must be a list of expressions; got {constraints!r}. Put it in a list.")
        self._constraints = tuple(_Constraint(source, self._axes) for source in constraints)

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
            values = _numeric(column)
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
        return MappingProxyType(self._axes)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._axes)

    @property
    def units(self) -> dict[str, str | None]:
        return {name: axis.unit for name, axis in self._axes.items()}

    @property
    def bounds(self) -> dict[str, tuple[float, float]]:
        """(low, high) in native units of each Real and Integer; a Choice has none."""
        return {name: (axis.low, axis.high) for name, axis in self._axes.items() if not isinstance(axis, Choice)}

    @property
    def constraints(self) -> tuple[str, ...]:
        return tuple(constraint.source for constraint in self._constraints)

    @property
    def num_axes(self) -> int:
        return len(self._axes)

    @property
    def num_dims(self) -> int:
        return sum(axis.num_columns for axis in self._axes.values())

    @property
    def columns(self) -> tuple[str, ...]:
        """A label for each column of the unit cube: the name of its axis, for a Choice name=option."""
        return tuple(
            label
            for name, axis in self._axes.items()
            for label in ([f"{name}={option}" for option in axis.options] if isinstance(axis, Choice) else [name])
        )

    @property
    def num_points(self) -> int | None:
        """How many points the domain has before constraints; None if an axis is continuous."""
        counts = [axis.num_values for axis in self._axes.values()]
        return None if None in counts else math.prod(count for count in counts if count is not None)

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
        parts = self._parts(u)
        snapped = [
            part if isinstance(axis, Real) else axis.encode(axis.decode(part))
            for axis, part in zip(self._axes.values(), parts, strict=True)
        ]
        return np.hstack(snapped)

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
        if isinstance(n, bool) or not isinstance(n, Integral) or n < 0:
            raise DomainError(f"the size of a design must be a whole number ≥ 0; got {n!r}.")
        if isinstance(seed, bool) or not isinstance(seed, Integral) or seed < 0:
            raise DomainError(f"a seed must be a whole number ≥ 0; got {seed!r}. Pass an int, the same for the same design.")
        if kind not in ("sobol", "lhs", "uniform"):
            raise DomainError(f'the kind of a design must be "sobol", "lhs" or "uniform"; got {kind!r}.')
        n, size = int(n), self.num_points
        if n == 0:
            return []
        if n > _MAX_DESIGN:
            raise DomainError(f"a design must have at most {_MAX_DESIGN} points; got {n}. Ask for fewer.")
        tries = n if kind == "lhs" else 1 << (n - 1).bit_length()
        while True:
            drawn = self._draw(tries, kind, int(seed))
            kept = _take(drawn, np.flatnonzero(self._feasible(drawn)))
            if size is not None:
                kept = _distinct(kept)
            if len(kept[0]) >= n:
                return self._dicts(_take(kept, np.arange(n)))
            if size is not None and size <= _MAX_TRIES and tries >= min(16 * n, _MAX_TRIES):
                return self._dicts(self._filled(kept, n, int(seed)))
            if tries == _MAX_TRIES:
                raise DomainError(self._why_infeasible(drawn, len(kept[0]), n))
            tries = min(4 * tries, _MAX_TRIES)

    def to_dict(self) -> dict[str, Any]:
        """A JSON-able description; axes are a list, because some databases do not keep the order of keys."""
        axes: list[dict[str, Any]] = []
        for name, axis in self._axes.items():
            if isinstance(axis, Choice):
                axes.append({"name": name, "kind": "choice", "options": list(axis.options)})
            else:
                kind = "real" if isinstance(axis, Real) else "integer"
                axes.append({"name": name, "kind": kind, "low": axis.low, "high": axis.high, "log": axis.log, "unit": axis.unit})
        return {"axes": axes, "constraints": list(self.constraints)}

    @classmethod
    def from_dict(cls, description: Mapping[str, Any]) -> Domain:
        """The domain that `to_dict` described."""
        known = isinstance(description, Mapping) and set(description) <= {"axes", "constraints"}
        if not known or not isinstance(description.get("axes"), list):
            raise DomainError(f'a description must be a mapping of "axes" and "constraints"; got {description!r}. Use to_dict.')
        axes: dict[str, Axis] = {}
        for entry in description["axes"]:
            if not isinstance(entry, Mapping) or not isinstance(entry.get("name"), str) or entry.get("kind") not in _KINDS:
                raise DomainError(f'an axis must have a "name" and a "kind" among {list(_KINDS)}; got {entry!r}.')
            fields = {key: value for key, value in entry.items() if key not in ("name", "kind")}
            if entry["name"] in axes:
                raise DomainError(f"the names of the axes must differ; got {entry['name']!r} twice. Rename one.")
            try:
                options = list(fields.pop("options")) if entry["kind"] == "choice" else []
                axes[entry["name"]] = _KINDS[entry["kind"]](*options, **fields)
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
        numeric = all(not isinstance(axis, Choice) or axis.is_numeric for axis in self._axes.values())
        array = np.empty((len(codes[0]), self.num_axes), dtype=np.float64 if numeric else object)
        for i, column in enumerate(self._values(codes)):
            array[:, i] = column
        return array

    def _frame(self, codes: list[Codes]) -> Any:
        import pandas as pd

        return pd.DataFrame(dict(zip(self._axes, self._values(codes), strict=True)))

    def _feasible(self, codes: list[Codes]) -> NDArray[np.bool_]:
        columns = _constraint_columns(self._axes, codes)
        return reduce(np.logical_and, [c.holds(columns) for c in self._constraints], np.ones(len(codes[0]), dtype=bool))

    def _draw(self, tries: int, kind: str, seed: int) -> list[Codes]:
        from scipy.stats import qmc  # slow to import

        if kind == "uniform":
            v = np.random.default_rng(seed).random((tries, self.num_axes))
        elif kind == "lhs":
            v = qmc.LatinHypercube(self.num_axes, rng=seed).random(tries)
        else:  # a longer Sobol sequence begins with the shorter one, so drawing again only adds points; scipy wants powers of two
            v = qmc.Sobol(self.num_axes, rng=seed).random(1 << (tries - 1).bit_length())
        return [axis.quantile(v[:, i]) for i, axis in enumerate(self._axes.values())]

    def _filled(self, kept: list[Codes], n: int, seed: int) -> list[Codes]:
        """The kept points, then the other feasible points of a small finite domain in random order, then all of them again."""
        grids = np.meshgrid(*[_all_codes(axis) for axis in self._axes.values()], indexing="ij")
        every = [grid.ravel() for grid in grids]
        places = np.flatnonzero(self._feasible(every))
        if not len(places):
            raise DomainError(self._why_infeasible(every, 0, n))
        others = _take(every, np.random.default_rng(seed).permutation(places))
        merged = _distinct([np.concatenate(pair) for pair in zip(kept, others, strict=True)])
        return _take(merged, np.arange(n) % len(merged[0]))

    def _why_infeasible(self, drawn: list[Codes], found: int, n: int) -> str:
        columns, tries = _constraint_columns(self._axes, drawn), len(drawn[0])
        shares = "; ".join(f"{c.source!r} holds at {c.holds(columns).mean():.2%}" for c in self._constraints)
        reason = f"a design of {n} needs as many feasible points; got {found} among {tries} tried in the box"
        return (
            f"{reason} ({shares or 'no constraints'}). Loosen the constraints, or move the bounds closer around where they hold."
        )


class _Constraint:
    """A condition on the axes, safe to take from a file: `holds` tells for every point whether it is definitely true.

    Undefined numbers (log of −1) make a comparison neither true nor false, so that `not log(x) > 1` does not let x = −1 pass.
    """

    def __init__(self, source: str, axes: Mapping[str, Axis]) -> None:
        if not isinstance(source, str):
            raise DomainError(f'a constraint must be a text; got {source!r}. Write it like "mach * alpha <= 30".')
        self.source = source
        if len(source) > _MAX_LENGTH:
            raise DomainError(
                f"a constraint must have at most {_MAX_LENGTH} characters; got {len(source)}. Split it into several."
            )
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of the parser, about oddities that are refused below
                self._tree = ast.parse(source.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            self._fail(f"must be an expression over the axes ({error})", 'Write it like "mach * alpha <= 30 and mach > 0.5".')
        self._check_depth()
        if not any(isinstance(node, ast.Name) and node.id in map(_identifier, axes) for node in ast.walk(self._tree)):
            self._fail("must name at least one axis", f"The axes are {list(axes)}.")
        # the walk visits every node whatever the values are, so one point tells whether the whole expression is allowed
        self.holds(_constraint_columns(axes, [axis.quantile(np.array([0.5])) for axis in axes.values()]))

    def holds(self, columns: Mapping[str, Any]) -> NDArray[np.bool_]:
        num_rows = len(next(iter(columns.values()))[0])
        with np.errstate(all="ignore"):
            return np.broadcast_to(self._truth(self._tree, columns, True), (num_rows,))

    def _fail(self, rule: str, remedy: str, node: ast.AST | None = None) -> NoReturn:
        part = "" if node is None else f" at {ast.get_source_segment(self.source.strip(), node) or type(node).__name__!r}"
        raise DomainError(f"a constraint {rule}; got {self.source!r}{part}. {remedy}") from None

    def _check_depth(self) -> None:
        level: list[ast.AST] = [self._tree]
        for _ in range(_MAX_DEPTH):
            level = [child for node in level for child in ast.iter_child_nodes(node)]
        if level:
            self._fail(f"must be nested at most {_MAX_DEPTH} deep", "Split it into several.")

    def _truth(self, node: ast.AST, columns: Mapping[str, Any], wanted: bool) -> Any:
        """Where the truth value of node is definitely `wanted`."""
        if isinstance(node, ast.BoolOp):
            parts = [self._truth(value, columns, wanted) for value in node.values]
            return reduce(np.logical_and if isinstance(node.op, ast.And) == wanted else np.logical_or, parts)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return self._truth(node.operand, columns, not wanted)
        if isinstance(node, ast.Compare):
            operands = pairwise([node.left, *node.comparators])
            parts = [self._compare(op, a, b, columns, wanted) for op, (a, b) in zip(node.ops, operands, strict=True)]
            return reduce(np.logical_and if wanted else np.logical_or, parts)
        self._fail("must be true or false at every point", "Compare with <, <=, >, >=, ==, != and join with and, or, not.", node)

    def _compare(self, op: ast.cmpop, left: ast.expr, right: ast.expr, columns: Mapping[str, Any], wanted: bool) -> Any:
        for axis, other in ((left, right), (right, left)):
            values, options = columns.get(axis.id, (None, None)) if isinstance(axis, ast.Name) else (None, None)
            if options is None:
                continue
            if not isinstance(op, ast.Eq | ast.NotEq) or not isinstance(other, ast.Constant) or other.value not in options:
                self._fail(f"may compare a Choice with == and != to its options {list(options)} only", "Name one of them.", other)
            return (values == options.index(other.value)) == (isinstance(op, ast.Eq) == wanted)
        if type(op) not in _COMPARISONS:
            self._fail("may compare with <, <=, >, >=, == and != only", "Use one of these.", left)
        a, b = self._number(left, columns), self._number(right, columns)
        return ~(np.isnan(a) | np.isnan(b)) & (_COMPARISONS[type(op)](a, b) == wanted)

    def _number(self, node: ast.AST, columns: Mapping[str, Any]) -> Any:
        if isinstance(node, ast.Constant) and _is_number(node.value) and math.isfinite(_as_float(node.value)):
            return np.float64(_as_float(node.value))
        if isinstance(node, ast.Name):
            values, options = columns.get(node.id, (None, None))
            if values is None:
                self._fail(f"may only name axes, and {node.id!r} is none", f"The axes are {list(columns)}.", node)
            if options is not None:
                self._fail(f"may not compute with the Choice {node.id!r}", f"Compare it with one of {list(options)}.", node)
            return values
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
            value = self._number(node.operand, columns)
            return -value if isinstance(node.op, ast.USub) else value
        if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
            return _ARITHMETIC[type(node.op)](self._number(node.left, columns), self._number(node.right, columns))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
            values = [self._number(argument, columns) for argument in node.args]
            if node.func.id in _FUNCTIONS and len(values) == 1:
                return _FUNCTIONS[node.func.id](values[0])
            if node.func.id in _FOLDS and len(values) >= 2:
                return reduce(_FOLDS[node.func.id], values)
        self._fail(
            "may compute with finite numbers, names of axes, + - * / // % **, "
            f"{', '.join(_FUNCTIONS)} of one and {', '.join(_FOLDS)} of several values only",
            "Write it with these, and join conditions with and, or, not.",
            node,
        )


_ARITHMETIC: dict[type, Any] = {
    ast.Add: np.add,
    ast.Sub: np.subtract,
    ast.Mult: np.multiply,
    ast.Div: np.divide,
    ast.FloorDiv: np.floor_divide,
    ast.Mod: np.mod,
    ast.Pow: np.power,
}
_COMPARISONS: dict[type, Any] = {
    ast.Lt: np.less,
    ast.LtE: np.less_equal,
    ast.Gt: np.greater,
    ast.GtE: np.greater_equal,
    ast.Eq: np.equal,
    ast.NotEq: np.not_equal,
}
_FUNCTIONS: dict[str, Any] = {"abs": np.abs, "sqrt": np.sqrt, "exp": np.exp, "log": np.log, "sin": np.sin, "cos": np.cos}
_FOLDS: dict[str, Any] = {"min": np.minimum, "max": np.maximum}


def _constraint_columns(axes: Mapping[str, Axis], codes: Sequence[Codes]) -> dict[str, tuple[Any, tuple[Value, ...] | None]]:
    """What a constraint sees of each axis: (numbers, None), or (positions, options) of a Choice that is not of numbers."""
    columns: dict[str, tuple[Any, tuple[Value, ...] | None]] = {}
    for (name, axis), code in zip(axes.items(), codes, strict=True):
        if not isinstance(axis, Choice):
            columns[_identifier(name)] = (code.astype(np.float64), None)
        elif axis.is_numeric:
            columns[_identifier(name)] = (np.array([_as_float(option) for option in axis.options])[code], None)
        else:
            columns[_identifier(name)] = (code, axis.options)
    return columns


def _identifier(name: str) -> str:
    return normalize("NFKC", name)  # as Python's parser does with names, for instance with the micro sign


def _is_number(value: Any) -> bool:
    return isinstance(value, RealNumber) and not isinstance(value, bool | np.bool_)


def _as_float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _check_range(axis: Real | Integer) -> None:
    kind = type(axis).__name__
    if not isinstance(axis.log, bool):
        raise DomainError(f"log must be True or False; got {axis.log!r}.")
    if axis.unit is not None and not isinstance(axis.unit, str):
        raise DomainError(f'a unit must be a text or None; got {axis.unit!r}. Write it like "deg".')
    if axis.low >= axis.high:
        raise DomainError(f"{kind} must have low < high; got low={axis.low}, high={axis.high}. Swap them, or drop a fixed axis.")
    if axis.log and axis.low <= 0:
        raise DomainError(f"a log axis must have low > 0; got low={axis.low}. Raise low above zero, or set log=False.")


def _refuse(name: str, axis: Axis, column: Sequence[Any], row: int, rule: str, remedy: str) -> NoReturn:
    value = column[row]
    shown = value.item() if isinstance(value, np.generic) else value
    raise DomainError(f"{name} must be {rule}; got {shown!r} in row {row}. {remedy}")


def _numeric(column: Any) -> NDArray[np.float64] | None:
    """The column as floats if every value is a number (bools and texts are not), else None."""
    if isinstance(column, np.ndarray) and column.dtype.kind in "fiu":
        return column.astype(np.float64)
    if all(_is_number(value) for value in column):
        return np.array([_as_float(value) for value in column], dtype=np.float64)
    return None


def _read_numbers(name: str, axis: Real | Integer, column: Sequence[Any]) -> NDArray[np.float64]:
    x = _numeric(column)
    if x is None:
        row = next(i for i, value in enumerate(column) if not _is_number(value))
        _refuse(name, axis, column, row, "a number", "Convert it first.")
    inside = (x >= axis.low - _SLACK * abs(axis.low)) & (x <= axis.high + _SLACK * abs(axis.high))  # false for NaN
    for row in np.flatnonzero(~inside)[:1]:
        unit = f" {axis.unit}" if axis.unit else ""
        _refuse(name, axis, column, int(row), f"in [{axis.low}, {axis.high}]{unit}", "Correct the value, or widen the axis.")
    return np.clip(x, axis.low, axis.high)


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
        found = list(names) if names is not None else list(points[0]) if points else []
        for row, point in enumerate(points):
            for name in point:
                if name not in found:
                    raise error_type(f"a point may only name the axes {found}; got {name!r} in row {row}. Correct or drop it.")
            for name in found:
                if name not in point:
                    raise error_type(f"a point must give every axis; {name!r} is missing in row {row}. The axes are {found}.")
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


def _all_codes(axis: Axis) -> Codes:
    return np.arange(axis.low, axis.high + 1) if isinstance(axis, Integer) else np.arange(axis.num_values or 0)


def _take(codes: list[Codes], rows: NDArray[np.intp]) -> list[Codes]:
    return [code[rows] for code in codes]


def _distinct(codes: list[Codes]) -> list[Codes]:
    """Rows without repetition, in the order of their first appearance."""
    _, first = np.unique(np.stack(codes, axis=1), axis=0, return_index=True)
    return _take(codes, np.sort(first))
