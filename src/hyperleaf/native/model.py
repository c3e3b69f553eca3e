"""Which models the machine code covers, and how it is called.

Covered: a partition of stacked RBF or Matérn leaves, or one such kernel alone, over any tree; zero mean or a trend; a noise
variance that is learned or fixed; parameters that are fixed or have Normal, LogNormal, Gamma or Exponential priors. All of these
are ln p(z) = c + a·z − b·(z − m)²/2 − r·exp(z) in each entry of z, which is what the code takes.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import jax
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Array
from numpy.typing import ArrayLike, NDArray
from numpyro.distributions.transforms import ExpTransform, IdentityTransform, biject_to
from scipy.special import erfinv, gammaln

from hyperleaf.gp import GP, Padded, Tempered
from hyperleaf.kernels import RBF, LeafNoise, Matern12, Matern32, Matern52, Partition
from hyperleaf.kernels.partition import path_matrices
from hyperleaf.machine.library import HERE, is_off, library as compiled
from hyperleaf.native.leaf_noise import log_noise_at
from hyperleaf.native.library import library
from hyperleaf.parallel import num_threads
from hyperleaf.priors import Prior

KINDS: dict[type, int] = {RBF: 0, Matern12: 1, Matern32: 2, Matern52: 3}
TRENDS = {"zero": 0, "constant": 1, "linear": 2}
RANDOM = HERE / "random.c"
MAX_DIMS = 64
TRAJECTORIES, LIKELIHOODS = 0, 1
HALF_LOG_2PI = 0.5 * np.log(2.0 * np.pi)
Values = NDArray[np.float64]


class _Model(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_int64) for name in ("d", "leaves", "gates", "kind", "root", "trend", "size", "by_leaf")),
        ("trend_variance", ctypes.c_double),
        *((name, ctypes.c_void_p) for name in ("path", "place", "fixed", "is_log", "prior")),
    ]


class _Target(ctypes.Structure):
    _fields_ = [
        ("rows", ctypes.c_int64),
        ("counts", ctypes.c_int64 * 2),
        ("powers", ctypes.c_double * 2),
        ("moved_power", ctypes.c_double),
        ("border", ctypes.c_double),
        *((name, ctypes.c_void_p) for name in ("x", "y", "noise", "moved")),
    ]


class _Job(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("model", "target")),
        *((name, ctypes.c_int64) for name in ("num", "strata")),
        *((name, ctypes.c_void_p) for name in ("z", "length", "step_size", "mass", "jitter", "normal", "uniform", "heats")),
        ("num_heats", ctypes.c_int64),
        *((name, ctypes.c_void_p) for name in ("to", "value", "gradient", "acceptance")),
        ("power", ctypes.c_double),
    ]


class _Slots:
    """Where each number of the model stands in z, or its fixed value; and the prior of each entry of z."""

    def __init__(self) -> None:
        self.size = 0
        self.is_log: list[Values] = []
        self.terms: list[Values] = []

    def take(self, leaf: Any) -> tuple[NDArray[np.int64], Values]:
        """Places and fixed values of one parameter, in its shape; in the order in which `Prior` lays out z."""
        if not isinstance(leaf, dist.Distribution):
            value = np.asarray(leaf, np.float64)
            return np.full(value.shape, -1, np.int64), value
        shape = leaf.shape()
        terms, log = _terms(leaf)
        self.is_log.append(np.full(int(np.prod(shape)), log, np.int64))
        self.terms.append(np.stack([np.ravel(np.broadcast_to(term, shape)) for term in terms]))
        places = self.size + np.arange(int(np.prod(shape))).reshape(shape)
        self.size += places.size
        return places, np.zeros(shape)


class _NotCovered(Exception):
    pass


def _terms(distribution: dist.Distribution) -> tuple[tuple[Any, ...], bool]:
    """(c, a, b, m, r) of the log density of z, Jacobian included, and whether z is a logarithm."""
    base = distribution
    while isinstance(base, dist.ExpandedDistribution | dist.Independent):
        base = base.base_dist
    transform = biject_to(distribution.support)
    while hasattr(transform, "base_transform"):
        transform = transform.base_transform
    if type(base) in (dist.Normal, dist.LogNormal):
        if type(transform) is not (IdentityTransform if type(base) is dist.Normal else ExpTransform):
            raise _NotCovered
        scale = np.asarray(base.scale, np.float64)
        return (-np.log(scale) - HALF_LOG_2PI, 0.0, scale**-2.0, np.asarray(base.loc, np.float64), 0.0), type(
            base
        ) is not dist.Normal
    if type(base) in (dist.Gamma, dist.Exponential) and type(transform) is ExpTransform:
        shape = np.asarray(base.concentration if type(base) is dist.Gamma else 1.0, np.float64)
        rate = np.asarray(base.rate, np.float64)
        return (shape * np.log(rate) - gammaln(shape), shape, 0.0, 0.0, rate), True
    raise _NotCovered


class Covered:
    """A prior in the form that the machine code takes."""

    def __init__(self, gp: GP, d: int):
        slots = _Slots()
        kernel: Any = gp.kernel  # with the fields of whichever type it turns out to be
        split = type(kernel) is Partition
        leaf: Any = kernel.leaves if split else kernel
        if type(leaf) not in KINDS or d > MAX_DIMS or (split and kernel.num_leaves < 2):
            raise _NotCovered
        leaves = kernel.num_leaves if split else 1
        gates, parts = leaves - 1, []
        if split:
            left, right = path_matrices(kernel.tree)
            self.path = np.ascontiguousarray(left - right, np.int64)
            for field, shape in (
                (kernel.gates.offset, (gates,)),
                (kernel.gates.normal, (gates, d)),
                (kernel.gates.steepness, (gates,)),
            ):
                parts.append(_spread(slots.take(field), shape))
        else:
            self.path = np.zeros((1, 0), np.int64)
        lengthscale = slots.take(leaf.lengthscale)
        if split and lengthscale[0].ndim == 1:  # one for each leaf, the same in all columns
            lengthscale = (lengthscale[0][:, None], lengthscale[1][:, None])
        parts += [
            _spread(lengthscale, (leaves, d)),
            _spread(slots.take(leaf.variance), (leaves,)),
        ]
        own = gp.noise if isinstance(gp.noise, LeafNoise) else None
        parts += [_spread(slots.take(gp.noise if own is None else own.variance), (1,))]
        if own is not None:
            parts += [_spread(slots.take(own.spread), (1,)), _spread(slots.take(own.deviation), (leaves,))]
        self.place = np.concatenate([place for place, _ in parts])
        self.fixed = np.concatenate([fixed for _, fixed in parts])
        self.is_log = np.concatenate([*slots.is_log, np.zeros(0, np.int64)])
        self.prior = np.ascontiguousarray(np.concatenate([*slots.terms, np.zeros((5, 0))], axis=1))
        # What is positive must stand in z as its logarithm: the gradient is taken in that.
        begin, end = gates * (d + 1), len(self.place) - (0 if own is None else leaves)
        real, positive, free = (side[side >= 0] for side in np.split(self.place, [begin, end]))
        if slots.size == 0 or self.is_log[real].any() or self.is_log[free].any() or not self.is_log[positive].all():
            raise _NotCovered
        root = split and kernel.weights == "sqrt"
        self.size, self.d, self.kind = slots.size, d, KINDS[type(leaf)]
        self.leaves, self.gates, self.by_leaf = leaves, gates, own is not None
        numbers = (
            d,
            leaves,
            gates,
            KINDS[type(leaf)],
            int(root),
            TRENDS[gp.mean],
            self.size,
            int(self.by_leaf),
            gp.trend_variance,
        )
        self.struct = _Model(*numbers, *_pointers(self.path, self.place, self.fixed, self.is_log, self.prior))

    def noise(self, z: Values, data: Padded) -> Values:
        """The learned noise variance of each draw (s,), infinite beyond what a number can be; with noise by leaf, the geometric
        mean over the data."""
        place, fixed = self.place[-1], self.fixed[-1]
        with np.errstate(over="ignore"):
            if self.by_leaf:
                x = np.asarray(data.x)[: int(data.count)]
                return np.exp(log_noise_at(self, z, x).sum(axis=1) / max(len(x), 1))
            return np.full(len(z), fixed) if place < 0 else np.exp(z[:, place])

    def library(self) -> ctypes.CDLL | None:
        return library(self.kind, self.d)


def _spread(part: tuple[NDArray[np.int64], Values], shape: tuple[int, ...]) -> tuple[NDArray[np.int64], Values]:
    place, fixed = part
    return np.broadcast_to(place, shape).ravel(), np.broadcast_to(fixed, shape).ravel()


def _pointers(*arrays: NDArray[Any]) -> Sequence[int]:
    return [array.ctypes.data for array in arrays]


_known: list[tuple[GP, int, Covered | None]] = []  # the last few: a surrogate asks for its own at every move
_KEPT = 8


def _covered(gp: Any, d: int) -> Covered | None:
    for tree, dims, model in _known:
        if tree is gp and dims == d:
            return model
    try:
        found = Covered(gp, d) if type(gp) is GP else None
    except (_NotCovered, ValueError):  # shapes that do not fit are reported where they always were
        found = None
    _known.insert(0, (gp, d, found))
    del _known[_KEPT:]
    return found


def chances(
    keys: Array, steps: int, size: int, jitter: tuple[float, float]
) -> tuple[NDArray[np.int64], Values, Values, Values] | None:
    """What is random in one trajectory for each key, as `inference.trajectories.chances` draws it; None if JAX has to.

    The bits are those of JAX's default generator; its normal numbers, by another inverse error function, are equal to rounding.
    """
    code, config = compiled(RANDOM), cast(Any, jax.config)
    if code is None or str(jax.random.key_impl(keys)) != "threefry2x32" or not config.jax_threefry_partitionable:
        return None
    data = np.asarray(jax.random.key_data(keys), np.uint32, order="C")
    num = len(data)
    number, real, pointer = ctypes.c_int64, ctypes.c_double, ctypes.c_void_p
    code.hyperleaf_chances.argtypes = [pointer, number, number, number, real, real, *[pointer] * 4]
    length, spread, normal, uniform = np.empty(num, np.int64), np.empty(num), np.empty((num, size)), np.empty(num)
    code.hyperleaf_chances(data.ctypes.data, num, size, steps, *jitter, *_pointers(length, spread, normal, uniform))
    return length, np.exp(spread), np.sqrt(2.0) * erfinv(normal), uniform


def core_of(target: Any) -> Core | None:
    """The machine code for a density or for (prior, data), if it covers the model and is there; else None, and JAX serves."""
    density = target if isinstance(target, Tempered) else None
    prior, data = (target.prior, target.data) if density is not None else target if isinstance(target, tuple) else (None, None)
    if not isinstance(prior, Prior) or not isinstance(data, Padded) or is_off():
        return None
    model = _covered(prior.tree, data.x.shape[1])
    return None if model is None or model.library() is None else Core(model, data, density)


def strata(z: Any, target: Any) -> NDArray[np.int64] | None:
    """Which side of the border of the noise variance each draw is on, as `NoiseStratum` has it; None if JAX has to say."""
    core = core_of(target)
    if core is None or core.density is None:
        return None
    return (core.model.noise(np.asarray(z), core.data) < float(core.density.border)).astype(np.int64)


@dataclass(frozen=True)
class Core:
    """The machine code for one model and one data set; what it takes and gives are NumPy arrays, one row a draw."""

    model: Covered
    data: Padded
    density: Tempered | None = None

    def trajectories(
        self,
        z: Array,
        length: ArrayLike,
        jitter: ArrayLike,
        normal: ArrayLike,
        uniform: ArrayLike,
        step_size: ArrayLike,
        mass: ArrayLike,
        power: float,
    ) -> tuple[Values, Values, Values, Values]:
        """New z, its log density and gradient, the acceptance probability: `inference.trajectories.trajectory_of` in one call."""
        num, size = z.shape
        numbers = [np.asarray(v, np.float64, order="C") for v in (z, step_size, mass, jitter, normal, uniform)]
        first, *others = numbers
        lengths = np.asarray(length, np.int64, order="C")
        to, value, gradient, acceptance = np.empty((num, size)), np.empty(num), np.empty((num, size)), np.empty(num)
        self._run(
            TRAJECTORIES,
            num,
            _pointers(first, lengths, *others),
            0,
            0,
            _pointers(to, value, gradient, acceptance),
            len(others[0]),
            power,
        )
        return to, value, gradient, acceptance

    def likelihoods(self, z: Array, heats: Array) -> Values:
        """ln p(y | z) with each of several variances more (s, h)."""
        draws, variances = (np.asarray(v, np.float64, order="C") for v in (z, heats))
        value = np.empty((len(draws), len(variances)))
        self._run(
            LIKELIHOODS,
            len(draws),
            [draws.ctypes.data, *[0] * 6],
            variances.ctypes.data,
            len(variances),
            [0, value.ctypes.data, 0, 0],
        )
        return value

    def _run(
        self,
        kind: int,
        num: int,
        given: Sequence[int],
        heats: int,
        num_heats: int,
        results: Sequence[int],
        strata: int = 1,
        power: float = 0.0,
    ) -> None:
        data, density = self.data, self.density
        rows = int(data.count)
        x, y, noise = (np.asarray(v, np.float64, order="C") for v in (data.x, data.y, data.noise))
        moved = np.zeros(self.model.size)
        counts, powers, moved_power, border = (0, rows), (0.0, 1.0), 0.0, float(np.inf)
        if density is not None:
            counts, powers = tuple(np.asarray(density.counts).tolist()), tuple(np.asarray(density.powers).tolist())
            moved = np.asarray(density.moved, np.float64, order="C")
            moved_power, border = float(density.moved_power), float(density.border)
        two = (ctypes.c_int64 * 2)(*counts), (ctypes.c_double * 2)(*powers)
        target = _Target(max(*counts, 1), *two, moved_power, border, *_pointers(x, y, noise, moved))
        pair = ctypes.addressof(self.model.struct), ctypes.addressof(target)
        job = _Job(*pair, num, strata, *given, heats, num_heats, *results, power)
        code = self.model.library()
        assert code is not None
        code.hyperleaf_run.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_int]
        if not code.hyperleaf_run(ctypes.addressof(job), kind, min(num_threads(), max(num, 1))):
            raise MemoryError(f"there is no memory for the covariances of {rows} observations; take fewer, or fewer threads.")
