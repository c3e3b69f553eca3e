"""Where maps are drawn: the axes of a domain in native units, the unit cube behind them, and gates as lines between the two.

A `View` walks along one or two axes of a domain while the others stand still at a point. It gives the unit-cube points of its
grid, the places of data on it, and the part of each gate's hyperplane that divides anything there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hyperleaf.checks import whole_number
from hyperleaf.domain import Domain, Real
from hyperleaf.errors import InputError
from hyperleaf.plots.sheet import Scale, Values

if TYPE_CHECKING:
    from hyperleaf.kernels import Partition


def unit_domain(d: int) -> Domain:
    """The unit cube itself, where no domain is given."""
    return Domain({f"x{i}": Real(0.0, 1.0) for i in range(d)})


def base_point(domain: Domain, at: Any) -> Values:
    """Where the axes not shown stand, (num_dims,) in the unit cube; from a dict in native units, an array, or the centre."""
    if at is None:
        middle = [axis.encode(axis.quantile(np.array([0.5])))[0] for axis in domain.axes.values()]
        return np.concatenate(middle)
    if isinstance(at, Mapping):
        return domain.to_unit([at])[0]
    point = np.asarray(at, dtype=np.float64)
    if point.shape != (domain.num_dims,) or not np.all((point >= 0) & (point <= 1)):
        raise InputError(
            f"at must be a dict in native units or {domain.num_dims} numbers in the unit cube; got {at!r}. "
            f"The axes are {list(domain.names)}."
        )
    return point


class View:
    """One or two axes of a domain, `resolution` points along each (all of them on an axis of few values)."""

    def __init__(self, domain: Domain, names: Sequence[str], at: Any = None, resolution: int = 61) -> None:
        for name in names:
            if name not in domain.names:
                raise InputError(f"axes must be names of axes; got {name!r}. The axes are {list(domain.names)}.")
        if len(set(names)) != len(names):
            raise InputError(f"axes must differ; got {list(names)}. Name two of {list(domain.names)}.")
        whole_number("resolution", resolution, 2)
        self.domain, self.names, self.base = domain, tuple(names), base_point(domain, at)
        self.axes = [domain.axes[name] for name in names]
        ends = np.cumsum([axis.num_columns for axis in domain.axes.values()])
        columns = dict(
            zip(domain.names, (slice(e - a.num_columns, e) for e, a in zip(ends, domain.axes.values(), strict=True)), strict=True)
        )
        self.columns = [columns[name] for name in names]
        codes = [axis.ticks(resolution) for axis in self.axes]
        self.ticks = [np.asarray(code, dtype=np.float64) for code in codes]  # native places along each axis
        self._unit = [axis.encode(code) for axis, code in zip(self.axes, codes, strict=True)]

    @property
    def smooth(self) -> bool:
        """Whether what is shown may be interpolated between the points of the grid."""
        return all(axis.smooth for axis in self.axes)

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the values on the grid: (n,), or (ny, nx)."""
        return tuple(len(ticks) for ticks in reversed(self.ticks))

    def scale(self, i: int) -> Scale:
        """The i-th axis with its name and unit."""
        axis, name = self.axes[i], self.names[i]
        low, high, log, ticks = axis.extent()
        return Scale(f"{name} [{axis.unit}]" if axis.unit else name, low, high, log, ticks=ticks or None)

    def points(self) -> Values:
        """The grid (n, num_dims) in the unit cube, the first axis running fastest."""
        counts = [len(unit) for unit in self._unit]
        rows = np.tile(self.base, (int(np.prod(counts)), 1))
        rows[:, self.columns[0]] = np.tile(self._unit[0], (rows.shape[0] // counts[0], 1))
        if len(counts) == 2:
            rows[:, self.columns[1]] = np.repeat(self._unit[1], counts[0], axis=0)
        return rows

    def place(self, i: int, x: Values) -> Values:
        """Unit-cube points (n, num_dims) as places (n,) along the i-th axis, in native units."""
        return np.asarray(self.axes[i].decode(x[:, self.columns[i]]), dtype=np.float64)

    def native(self, i: int, u: Values) -> Values:
        """Unit coordinates (n,) along the i-th axis in native units; between whole numbers in proportion."""
        return self.axes[i].places(np.asarray(u, dtype=np.float64))

    def masked(self, values: Values) -> Values:
        """Values on the grid in its shape, NaN where the domain's constraints forbid."""
        if self.domain.constraints:
            values = np.where(self.domain.feasible_unit(self.points()), values, np.nan)
        return values.reshape(self.shape)

    def gate_points(self, partition: Partition) -> list[tuple[int, float]]:
        """On one axis: each gate that divides it, and where, in native units."""
        found = []
        for gate, (constant, slopes, sides) in enumerate(self._gates(partition)):
            if slopes[0] != 0.0 and 0.0 <= (t := -constant / slopes[0]) <= 1.0 and all(c + s[0] * t >= 0 for c, s in sides):
                found.append((gate, float(self.axes[0].places(np.array([t]))[0])))
        return found

    def gate_lines(self, partition: Partition) -> list[tuple[int, Values, Values]]:
        """On two axes: each gate's line in native units, cut to the square and to the side of the gates above that it divides."""
        found = []
        for gate, (constant, slopes, sides) in enumerate(self._gates(partition)):
            squared = slopes @ slopes
            if squared == 0.0:
                continue
            foot, along = -constant * slopes / squared, np.array([-slopes[1], slopes[0]]) / np.sqrt(squared)
            box = [
                (0.0, np.array([1.0, 0.0])),
                (0.0, np.array([0.0, 1.0])),
                (1.0, np.array([-1.0, 0.0])),
                (1.0, np.array([0.0, -1.0])),
            ]
            low, high = -np.inf, np.inf
            for c, s in [*box, *sides]:  # keep c + s·(foot + t along) ≥ 0
                value, slope = c + s @ foot, s @ along
                if slope > 0:
                    low = max(low, float(-value / slope))
                elif slope < 0:
                    high = min(high, float(-value / slope))
                elif value < 0:
                    low, high = 1.0, 0.0
            if low < high:
                # Two ends are enough where both scales are straight in the unit cube; whole numbers on a log axis are not.
                u = np.clip(foot + np.linspace(low, high, 2 if self.smooth else 65)[:, None] * along, 0.0, 1.0)
                found.append((gate, self.axes[0].places(u[:, 0]), self.axes[1].places(u[:, 1])))
        return found

    def _gates(self, partition: Partition) -> list[tuple[float, Values, list[tuple[float, Values]]]]:
        """Each gate as constant + slopes · u over the axes shown, and the gates above it likewise, signed to be ≥ 0 inside."""
        from hyperleaf.kernels.partition import path_matrices

        for name, axis in zip(self.names, self.axes, strict=True):
            if not axis.ordered:
                kind = type(axis).__name__
                raise InputError(
                    f"gates are lines over numbers; the axis {name!r} is a {kind}. Show other axes, and fix it by `at`."
                )
        offset, normal = np.asarray(partition.gates.offset), np.asarray(partition.gates.normal)
        shown = [column.start for column in self.columns]
        others = np.delete(np.arange(normal.shape[1]), shown)
        constant, slopes = offset + normal[:, others] @ self.base[others], normal[:, shown]
        left, right = path_matrices(partition.tree)
        found = []
        for i in range(len(offset)):
            below = (left[:, i] + right[:, i]) > 0
            sides = []
            for a in range(len(offset)):
                for side, sign in ((left, 1.0), (right, -1.0)):
                    if a != i and np.all(side[below, a] > 0):
                        sides.append((sign * constant[a], sign * slopes[a]))
            found.append((constant[i], slopes[i], sides))
        return found
