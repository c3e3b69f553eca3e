"""Observations as the numerics see them: `x` in the unit cube, `y` standardised; validated once, here.

`Dataset` holds observations, `Standardizer` carries outputs to mean 0 and spread 1 and back, and `Pool` is a finite table of
candidates, addressed by the index of a row and never by comparing floats.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hyperleaf.domain import Domain, Point, read_table
from hyperleaf.errors import DataError, DomainError


@dataclass(frozen=True)
class Dataset:
    """n observations: inputs `x` (n, d), outputs `y` (n,), and optionally the known noise variance of each (n,)."""

    x: NDArray[np.float64]
    y: NDArray[np.float64]
    noise: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        x, y = _finite("x", self.x, 2), _finite("y", self.y, 1)
        if len(x) != len(y):
            raise DataError(f"x and y must have as many rows as each other; got {len(x)} and {len(y)}. Pass one y per row of x.")
        if x.shape[1] == 0:
            raise DataError("x must have at least one column; got none. Pass an (n, d) array with d ≥ 1.")
        object.__setattr__(self, "x", x)
        object.__setattr__(self, "y", y)
        if self.noise is not None:
            noise = _finite("noise", self.noise, 1)
            if len(noise) != len(y):
                raise DataError(f"noise must give one variance per observation ({len(y)}); got {len(noise)}.")
            if (noise < 0).any():
                raise DataError(
                    f"a noise variance must be ≥ 0; got {noise.min():g}. Pass variances, not standard deviations with a sign."
                )
            object.__setattr__(self, "noise", noise)

    @property
    def num_observations(self) -> int:
        """n."""
        return len(self.y)

    @property
    def num_dims(self) -> int:
        """d."""
        return self.x.shape[1]

    def append(self, x: ArrayLike, y: ArrayLike, noise: ArrayLike | None = None) -> Dataset:
        """A new data set with the observations of this one followed by the given ones (a single one may be 1-D and scalar)."""
        new_x, new_y = np.atleast_2d(np.asarray(x, dtype=np.float64)), np.atleast_1d(np.asarray(y, dtype=np.float64))
        if new_x.ndim != 2 or new_x.shape[1] != self.num_dims:
            raise DataError(f"a new x must have {self.num_dims} columns like the data; got shape {new_x.shape}.")
        if (noise is None) != (self.noise is None):
            raise DataError("known noise must be given for all observations or for none; this call mixes the two.")
        new_noise = None
        if self.noise is not None and noise is not None:
            new_noise = np.concatenate([self.noise, np.atleast_1d(np.asarray(noise, dtype=np.float64))])
        return Dataset(np.concatenate([self.x, new_x]), np.concatenate([self.y, new_y]), new_noise)


@dataclass(frozen=True)
class Standardizer:
    """The affine map z = (y − loc) / scale of outputs; variances divide by scale²."""

    loc: float
    scale: float

    def __post_init__(self) -> None:
        for name in ("loc", "scale"):
            object.__setattr__(self, name, float(_finite(name, getattr(self, name), 0)))
        if self.scale <= 0:
            raise DataError(f"scale must be > 0; got {self.scale:g}. Give the spread of the output.")

    @classmethod
    def from_data(cls, y: ArrayLike) -> Standardizer:
        """loc = mean, scale = standard deviation (1/n).

        Outputs that are all equal, also a single one, tell nothing of the spread: scale = |loc|, or 1 where loc = 0. So the
        choice of units does not matter: c·y gives c·loc and c·scale, except where all is 0.
        """
        y = _finite("y", y, 1)
        if len(y) == 0:
            raise DataError("a standardizer must have at least one output; got none. Use from_range before there are data.")
        size = float(np.abs(y).max())
        if size == 0:
            return cls(0.0, 1.0)
        z = y / size  # no square overflows or underflows
        if np.ptp(z) <= 8 * np.finfo(np.float64).eps:  # differences are rounding only
            return cls(float(y[0]), size)
        return cls(size * float(z.mean()), size * float(z.std()) or size)

    @classmethod
    def from_range(cls, low: float, high: float) -> Standardizer:
        """From the range in which outputs are expected: its midpoint, and a quarter of its width, as if it were ± 2 std."""
        low, high = float(_finite("low", low, 0)), float(_finite("high", high, 0))
        if low >= high:
            raise DataError(f"the expected range must have low < high; got low={low:g}, high={high:g}. Swap or widen them.")
        return cls(low / 2 + high / 2, high / 4 - low / 4)

    def transform(self, y: ArrayLike) -> NDArray[np.float64]:
        """Native outputs, standardised."""
        return (np.asarray(y, dtype=np.float64) - self.loc) / self.scale

    def inverse(self, z: ArrayLike) -> NDArray[np.float64]:
        """Standardised outputs (or means, or quantiles), in native units."""
        return np.asarray(z, dtype=np.float64) * self.scale + self.loc

    def inverse_variance(self, variance: ArrayLike) -> NDArray[np.float64]:
        """Variances of standardised outputs, in native units squared."""
        return np.asarray(variance, dtype=np.float64) * self.scale**2


class Pool:
    """Finite candidates: the rows of a table (DataFrame, list of dicts or array) in a domain, addressed by their index.

    Without a domain the box is learnt from the table. `unit` (N, d) and the values behind `points` never change; `without`
    gives a new pool in which more rows are taken, and an index means the same row in both. Equal rows are kept, for they may
    be replicates; `num_duplicates` counts them.
    """

    domain: Domain
    unit: NDArray[np.float64]
    num_duplicates: int

    def __init__(self, table: Any, domain: Domain | None = None) -> None:
        _check_missing(table, domain)
        self.domain = Domain.from_data(table) if domain is None else domain
        self._native = self.domain.to_array(table)
        if len(self._native) == 0:
            raise DataError("a pool must have at least one candidate; got an empty table. Give some rows.")
        infeasible = np.flatnonzero(~self.domain.feasible(self._native))
        if len(infeasible):
            raise DomainError(
                f"candidates must satisfy the constraints {list(self.domain.constraints)}; row {infeasible[0]} does not "
                f"({len(infeasible)} such). Keep only the rows where domain.feasible(table)."
            )
        self.unit = self.domain.to_unit(self._native)
        self.unit.flags.writeable = False
        self.num_duplicates = len(self.unit) - len(np.unique(self.unit, axis=0))
        self._taken = np.zeros(len(self.unit), dtype=bool)

    def __len__(self) -> int:
        return len(self.unit)

    def __repr__(self) -> str:
        return f"Pool({len(self)} candidates, {int(self._taken.sum())} taken, of {self.domain!r})"

    @property
    def taken(self) -> NDArray[np.intp]:
        """Indices of the rows that are no longer candidates, ascending."""
        return np.flatnonzero(self._taken)

    @property
    def remaining(self) -> NDArray[np.intp]:
        """Indices of the rows that are still candidates, ascending."""
        return np.flatnonzero(~self._taken)

    def points(self, indices: int | Iterable[int]) -> list[Point]:
        """The candidates at these indices, taken or not, with exactly the values of the table."""
        return self.domain.to_dicts(self._native[self._checked(indices)])

    def without(self, indices: int | Iterable[int]) -> Pool:
        """A pool in which these rows are taken too; taking a row twice changes nothing."""
        pool = object.__new__(Pool)
        pool.__dict__.update(self.__dict__)
        pool._taken = self._taken.copy()
        pool._taken[self._checked(indices)] = True
        return pool

    def _checked(self, indices: int | Iterable[int]) -> NDArray[np.intp]:
        wanted = [indices] if not isinstance(indices, Iterable) else list(indices)
        for index in wanted:
            if isinstance(index, bool) or not isinstance(index, Integral) or not 0 <= index < len(self):
                raise DataError(f"an index of a pool must be a whole number from 0 to {len(self) - 1}; got {index!r}.")
        return np.array(wanted, dtype=np.intp)


def _check_missing(table: Any, domain: Domain | None) -> None:
    """A DataError for the first missing value, by row and column."""
    names, columns = read_table(table, domain.names, DomainError) if domain else read_table(table, None, DataError)
    for name, column in zip(names, columns, strict=True):
        if isinstance(column, np.ndarray) and column.dtype.kind in "fiub":
            missing = np.isnan(column)
        else:  # pandas' NA and NaT are known by their names, so that pandas need not be imported
            blank = (value is None or type(value).__name__ in ("NAType", "NaTType") or value != value for value in column)
            missing = np.fromiter(blank, dtype=bool, count=len(column))
        for row in np.flatnonzero(missing)[:1]:
            raise DataError(
                f"a table must have no missing values; got {column[row]} in row {row}, column {name!r} "
                f"({int(missing.sum())} in that column). Drop or fill those rows."
            )


def _finite(name: str, value: ArrayLike, ndim: int) -> NDArray[np.float64]:
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"{name} must be numeric; got {type(value).__name__} that does not convert to float ({error})."
        ) from error
    if array.ndim != ndim:
        shape = ("()", "(n,)", "(n, d)")[ndim]
        raise DataError(f"{name} must have shape {shape}; got {array.shape}. Reshape it.")
    bad = np.argwhere(~np.isfinite(array))
    if len(bad):
        where = tuple(int(i) for i in bad[0])
        raise DataError(
            f"{name} must be finite; got {array[where]} at index {where} ({len(bad)} such). Drop or repair those rows."
        )
    return array
