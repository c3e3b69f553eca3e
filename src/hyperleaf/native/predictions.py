"""Draws with their data in machine code: factors, one more observation, predictions, their slopes, covariances with references.

NumPy in and out, one row a draw. `Kept` is what a prediction leaves behind for the next one of the same points: L⁻¹k of every
draw, to which one more observation adds a row. Growing and predicting anew run the same code in the same order: the same bits.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hyperleaf.gp import Conditioned, Padded
from hyperleaf.native.leaf_noise import log_noise_at, noise_slopes
from hyperleaf.native.model import Core, Covered, _Model, _Target, core_of
from hyperleaf.parallel import num_threads
from hyperleaf.priors import Prior

Values = NDArray[np.float64]
KEPT_BYTES = 2**28  # beyond that, points are predicted anew each time
COVARIANCES, SQUARES, INFORMATION = 0, 1, 2


class _Draws(ctypes.Structure):
    _fields_ = [
        ("model", ctypes.POINTER(_Model)),
        *((name, ctypes.c_int64) for name in ("num", "count", "size")),
        *((name, ctypes.c_void_p) for name in ("z", "x", "y", "noise", "factor", "whitened")),
        ("threads", ctypes.c_int64),
    ]


def _task(name: str, numbers: str, pointers: str, *others: tuple[str, Any]) -> type[ctypes.Structure]:
    fields = [("draws", _Draws), *((one, ctypes.c_int64) for one in numbers.split())]
    return type(
        name, (ctypes.Structure,), {"_fields_": [*fields, *((one, ctypes.c_void_p) for one in pointers.split()), *others]}
    )


_Settling = _task("_Settling", "", "factor whitened jitter", ("target", _Target))
_Growing = _task("_Growing", "more size", "factor whitened gained")
_Predicting = _task("_Predicting", "points from_ rows", "at mean variance kept sums")
_Sloping = _task("_Sloping", "points", "at mean variance by_mean by_variance")


class _Joining(ctypes.Structure):
    _fields_ = [
        ("draws", _Draws),
        *((name, ctypes.c_int64) for name in ("points", "references", "kind")),
        *((name, ctypes.c_void_p) for name in ("at", "at_references", "noise", "noise_r")),
        ("least", ctypes.c_double),
        *((name, ctypes.c_void_p) for name in ("mean", "variance", "mean_r", "variance_r", "result")),
    ]


class Moments(NamedTuple):
    mean: Values
    variance: Values


class Slopes(NamedTuple):
    """Latent mean and variance (s, m) of each draw, and their derivatives in x (s, m, d)."""

    mean: Values
    variance: Values
    by_mean: Values
    by_variance: Values


class Joined(NamedTuple):
    mean: Values
    variance: Values
    mean_r: Values
    variance_r: Values
    result: Values


@dataclass
class Kept:
    """L⁻¹k at these points for every draw, of the first `count` observations, and the sums over the full blocks of them."""

    points: Values
    count: int
    rows: Values  # (s, panels, rows, wide)
    sums: Values  # (s, panels, 2, wide)


@dataclass(frozen=True)
class Draws:
    """Draws of a model that the machine code covers, with their data and, where they are settled, their factors."""

    model: Covered
    data: Padded
    z: Any
    seen: Conditioned | None = None

    @property
    def num(self) -> int:
        return int(self.z.shape[0])

    def noise(self) -> Values:
        """The learned noise variance of each draw; with noise by leaf, the geometric mean over the data."""
        return self.model.noise(np.asarray(self.z), self.data)

    def noise_at(self, x: Values) -> Values:
        """With noise by leaf: that of each draw at each x (s, m)."""
        with np.errstate(over="ignore"):
            return np.exp(log_noise_at(self.model, np.asarray(self.z), x))

    def noise_slopes(self, x: Values) -> Values:
        """With noise by leaf: its derivatives in x (s, m, d)."""
        return noise_slopes(self.model, np.asarray(self.z), x)

    def densities(self) -> Values:
        """The log posterior density of each draw."""
        nothing, mass = np.zeros(self.num), np.ones((2, self.model.size))
        none = np.zeros((self.num, self.model.size))
        return Core(self.model, self.data).trajectories(self.z, nothing, nothing, none, nothing, mass[:, 0], mass, 0.0)[1]

    def settle(self) -> Conditioned:
        """The factors of all draws; NaN where there is none."""
        size = len(self.data.y)
        factor, whitened, jitter = np.empty((self.num, size, size)), np.empty((self.num, size)), np.empty(self.num)
        holds = _Holds()
        given = self._given(holds)
        target = _Target(given.count, (ctypes.c_int64 * 2)(0, given.count), (ctypes.c_double * 2)(0.0, 1.0), 0.0, np.inf)
        target.x, target.y, target.noise = given.x, given.y, given.noise
        self._run("hyperleaf_settle", _Settling(given, *_at(factor, whitened, jitter), target))
        return _conditioned(factor, whitened, jitter)

    def grow(self, known: int) -> tuple[Conditioned, Values]:
        """Factors of the first `known` observations grown by the others, and the log predictive density of these."""
        assert self.seen is not None
        size, holds = len(self.data.y), _Holds()
        factor, whitened, gained = np.empty((self.num, size, size)), np.empty((self.num, size)), np.empty(self.num)
        given = self._given(holds)
        more, given.count = given.count - known, known
        self._run("hyperleaf_grow", _Growing(given, more, size, *_at(factor, whitened, gained)))
        return _conditioned(factor, whitened, self.seen.jitter), gained

    def predict(self, x: Values, kept: Kept | None = None, *, keep: bool = False) -> tuple[Moments, Kept | None]:
        """Latent moments at x; `kept` is of the same points and draws, and is brought up to date in its place."""
        holds, points = _Holds(), np.ascontiguousarray(x)
        mean, variance = np.empty((self.num, len(points))), np.empty((self.num, len(points)))
        given = self._given(holds)
        if kept is None and keep:
            kept = self._room(points)
        if kept is None:
            task = _Predicting(given, len(points), 0, 0, *_at(points, mean, variance), None, None)
        else:
            kept = _with_rows(kept, len(self.data.y))
            task = _Predicting(
                given, len(points), kept.count, kept.rows.shape[2], *_at(points, mean, variance, kept.rows, kept.sums)
            )
        self._run("hyperleaf_predict", task)
        if kept is not None:
            kept.count = int(given.count)
        return Moments(mean, variance), kept

    def slopes(self, x: Values) -> Slopes:
        holds, points = _Holds(), np.ascontiguousarray(x)
        found = [np.empty((self.num, *shape)) for shape in (points.shape[:1], points.shape[:1], points.shape, points.shape)]
        self._run("hyperleaf_slope", _Sloping(self._given(holds), len(points), *_at(points, *found)))
        return Slopes(*found)

    def join(
        self,
        x: Values,
        r: Values,
        kind: int = COVARIANCES,
        noise: tuple[Values, Values] | None = None,
        least: float = 1e-12,
    ) -> Joined:
        """Moments at x (m, d) and r (k, d), and the covariances between them (s, m, k); or, for each x (s, m), the mean over r of
        their squares, or of the information −½ ln(1 − ρ²), for which the noise of observations at x and at r has to be known,
        each (s,) or one for each point."""
        holds, points, references = _Holds(), np.ascontiguousarray(x), np.ascontiguousarray(r)
        m, k = len(points), len(references)
        result = np.empty((self.num, m, k) if kind == COVARIANCES else (self.num, m))
        moments = [np.empty((self.num, size)) for size in (m, m, k, k)]
        known = [_each(own, size) for own, size in zip(noise or (), (m, k), strict=False)]
        task = _Joining(self._given(holds), m, k, kind, *_at(points, references))
        task.noise, task.noise_r = _at(*known) if known else (None, None)
        task.least = least
        task.mean, task.variance, task.mean_r, task.variance_r, task.result = _at(*moments, result)
        self._run("hyperleaf_join", task)
        mean, variance, mean_r, variance_r = moments
        return Joined(mean, variance, mean_r, variance_r, result)

    def _room(self, points: Values) -> Kept | None:
        code = self.model.library()
        assert code is not None
        code.hyperleaf_wide.restype = ctypes.c_int64
        wide = code.hyperleaf_wide()
        panels = -(-len(points) // wide)
        rows = -(-len(self.data.y) // 8) * 8
        if 8 * self.num * panels * rows * wide > KEPT_BYTES or not len(points):
            return None
        return Kept(points.copy(), 0, _aligned(self.num, panels, rows, wide), _aligned(self.num, panels, 2, wide))

    def _given(self, holds: _Holds) -> _Draws:
        data, count = self.data, int(self.data.count)
        arrays = [holds.keep(a) for a in (self.z, data.x, data.y, data.noise)]
        size = len(data.y)
        factors: list[int | None] = [None, None]
        if self.seen is not None:
            kept = [holds.keep(a) for a in (self.seen.factor, self.seen.whitened)]
            size, factors = kept[1].shape[1], [*_at(*kept)]
        return _Draws(ctypes.pointer(self.model.struct), self.num, count, size, *_at(*arrays), *factors, num_threads())

    def _run(self, name: str, task: ctypes.Structure) -> None:
        code = self.model.library()
        assert code is not None
        function = getattr(code, name)
        function.argtypes = [ctypes.c_void_p]
        if not function(ctypes.addressof(task)):
            count = int(self.data.count)
            raise MemoryError(f"there is no memory for the covariances of {count} observations; take fewer, or fewer threads.")


class _Holds:
    """Arrays that machine code is about to read, held until it has."""

    def __init__(self) -> None:
        self.arrays: list[Values] = []

    def keep(self, array: Any) -> Values:
        self.arrays.append(np.asarray(array, np.float64, order="C"))
        return self.arrays[-1]


def draws_of(prior: Prior, data: Padded, z: Any, seen: Conditioned | None = None) -> Draws | None:
    """The machine code for these draws, if it covers their model and is there; else None, and JAX serves."""
    core: Core | None = core_of((prior, data))
    return None if core is None else Draws(core.model, data, z, seen)


def _conditioned(factor: Any, whitened: Any, jitter: Any) -> Conditioned:
    """In NumPy: whoever computes with them in JAX puts them there."""
    return Conditioned(factor, whitened, jitter)


def _each(noise: Values, size: int) -> Values:
    """(s,) or (s, m) as (s, m)."""
    own = np.asarray(noise, dtype=np.float64)
    return np.ascontiguousarray(np.broadcast_to(own[:, None] if own.ndim == 1 else own, (len(own), size)))


def _with_rows(kept: Kept, least: int) -> Kept:
    """With room for so many observations."""
    draws, panels, known, wide = kept.rows.shape
    rows = -(-least // 8) * 8
    if rows > known:
        before, kept.rows = kept.rows, _aligned(draws, panels, rows, wide)
        kept.rows[:, :, :known] = before
    return kept


def _aligned(*shape: int) -> Values:
    """Room that begins with a cache line, for the processor reads whole ones from it."""
    size = int(np.prod(shape))
    room = np.empty(size + 8)
    start = -room.ctypes.data % 64 // 8
    return room[start : start + size].reshape(shape)


def _at(*arrays: Values) -> list[int]:
    return [array.ctypes.data for array in arrays]
