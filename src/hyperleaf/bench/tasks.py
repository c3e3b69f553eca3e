"""What surrogates and acquisitions are compared on: pools of candidates with their outputs, and test sets.

`task(name)` describes an experiment, `Task.realise(seed)` carries out everything in it that chance decides: the pool, the noise
in the output of *every* candidate, the first points and the test set. So all methods with one seed meet the same world, and
differ only in what they choose: their scores are pairs.

Inputs and outputs are native. The paper transforms inputs to the unit cube and normalises outputs; the first is what
`domain` does, the second is `standardizer`, fixed in advance by the task and the same for all seeds: the mean and spread of all
outputs of a table or of the truth over the box; for Exponential 2-D the map y → 5y. Divide an RMSE by `standardizer.scale` to
compare it with the paper's. Where the paper gives a number (box, five first points drawn uniformly, 120 queries on LGBB, noise
on LGBB) it is kept; it gives no sizes of pools and test sets, and the 60 and 100 queries are those of its figures.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import partial
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hyperleaf.bench import tables, truths
from hyperleaf.bench.tables import PathLike
from hyperleaf.bench.truths import KnownGate
from hyperleaf.data import Pool, Standardizer
from hyperleaf.domain import Axis, Domain, Real
from hyperleaf.errors import DataError, InputError

Array = NDArray[np.float64]
Function = Callable[[Array], Array]

_TEST_SHARE = 0.3  # of the rows of a table


@dataclass(frozen=True)
class Realisation:
    """One seed of a task: what every method of a comparison is given.

    An output is looked up by the index of its row in `pool`; asking twice gives the same number, as in the paper's tables of
    finished runs. `test_y` is free of noise unless `test_noisy`: then it was measured, and the predictive distribution to hold
    against it is that of an observation, `Mixture.noisy()`.
    """

    task: str
    seed: int
    pool: Pool
    outputs: Array = field(repr=False)  # (N,), noise included
    first: NDArray[np.intp]  # (num_first,) rows of the pool that are observed at the start
    test_x: Array = field(repr=False)  # (m, d), native
    test_y: Array = field(repr=False)  # (m,)
    test_noisy: bool

    @property
    def test_unit(self) -> Array:
        """The test inputs in the unit cube, (m, d)."""
        return self.pool.domain.to_unit(self.test_x)

    def output(self, index: int) -> float:
        """The observation at this row of the pool."""
        self.pool.points(index)  # refuses what is no index
        return float(self.outputs[index])


@dataclass(frozen=True)
class Task:
    """An experiment. Its outputs come from a `function` of native inputs (n, d) → (n,), or are the `values` of the table `rows`.

    `rows` without `values` are a fixed pool (a grid) on which the function is known; without `rows` the pool is drawn uniformly.
    `noise` is the standard deviation that is added to outputs, a number or a function of native inputs; None where the outputs
    were measured, and noise of unknown size is in them. `gates` are the true borders between regimes, in the unit cube.
    """

    name: str
    title: str
    domain: Domain
    num_queries: int
    noise: float | Function | None
    description: str
    standardizer: Standardizer
    function: Function | None = None
    rows: Array | None = field(default=None, repr=False, compare=False)
    values: Array | None = field(default=None, repr=False, compare=False)
    num_first: int = 5
    num_pool: int = 1000
    num_test: int = 1000
    gates: tuple[KnownGate, ...] = ()

    def __post_init__(self) -> None:
        if (self.function is None) == (self.values is None) or (self.rows is None and self.function is None):
            raise InputError(f"a task has either a function or a table with values; {self.name!r} has both or neither.")
        if self.rows is not None:
            needed, size = self.num_first + 1, len(self.rows) - self._num_held_out
            if size < needed:
                raise DataError(
                    f"the pool of the task {self.name!r} must have at least {needed} rows for its first points and a query; "
                    f"got {size}. Give a longer table."
                )

    @property
    def truth_known(self) -> bool:
        """Whether `truth` answers at any point of the domain."""
        return self.function is not None

    def truth(self, points: Any) -> Array:
        """The noise-free output (n,) at native points, in any form that a Domain reads."""
        if self.function is None:
            raise InputError(f"the truth of {self.name!r} is a table, known at its rows only. Use test_x and test_y of realise.")
        return np.asarray(self.function(self.domain.to_array(points)), dtype=np.float64)

    def noise_std(self, points: Any) -> Array | None:
        """The standard deviation (n,) of the noise at native points; None where it is not known."""
        x = self.domain.to_array(points)
        return None if self.noise is None else np.broadcast_to(self.noise(x) if callable(self.noise) else self.noise, len(x))

    def realise(self, seed: int) -> Realisation:
        """The pool, the outputs of its rows, the first points and the test set of this seed; the same at every call."""
        if isinstance(seed, bool) or not isinstance(seed, Integral) or seed < 0:
            raise InputError(f"a seed must be a whole number ≥ 0; got {seed!r}. Pass an int, one per repetition.")
        # A stream for each purpose: to change the size of one set leaves the others as they are, and no two tasks share numbers.
        entropy = np.random.SeedSequence([zlib.crc32(self.name.encode()), int(seed)])
        for_pool, for_test, for_first, for_noise = (np.random.default_rng(child) for child in entropy.spawn(4))
        if self.values is not None and self.rows is not None:
            order = for_pool.permutation(len(self.rows))
            held_out, kept = np.sort(order[: self._num_held_out]), np.sort(order[self._num_held_out :])
            x, y, test_x, test_y = self.rows[kept], self.values[kept], self.rows[held_out], self.values[held_out]
        else:
            x = self._uniform(for_pool, self.num_pool) if self.rows is None else self.rows
            test_x = self._uniform(for_test, self.num_test)
            y, test_y = self.truth(x), self.truth(test_x)
        std = self.noise_std(x)
        outputs = np.array(y if std is None else y + std * for_noise.standard_normal(len(y)))
        first = for_first.choice(len(x), self.num_first, replace=False)
        for array in (outputs, first, test_x, test_y):
            array.flags.writeable = False  # all methods of a process may share it
        return Realisation(self.name, int(seed), Pool(x, self.domain), outputs, first, test_x, test_y, self.noise is None)

    def _uniform(self, rng: np.random.Generator, size: int) -> Array:
        return self.domain.from_unit_array(rng.random((size, self.domain.num_dims)))

    @property
    def _num_held_out(self) -> int:
        return 0 if self.rows is None or self.values is None else max(1, round(_TEST_SHARE * len(self.rows)))


def tasks() -> tuple[str, ...]:
    """The names that `task` knows; first the paper's own, those that read a file among them."""
    return tuple(_MAKERS)


def needs_path(name: str) -> bool:
    """Whether the task reads a file that the user has to give."""
    return _checked(name) in _FROM_FILE


def task(name: str, path: PathLike | None = None) -> Task:
    """The task of this name; `path` is the file (or folder) of its data, for those that read one."""
    name = _checked(name)
    if name in _FROM_FILE:
        return replace(_FROM_FILE[name](path), name=name)
    if path is not None:
        raise InputError(f"the task {name!r} needs no file; got path={str(path)!r}. Leave it out; {list(_FROM_FILE)} read one.")
    return replace(_KNOWN[name](), name=name)


def _checked(name: str) -> str:
    plain = str(name).strip().lower().replace("_", "-")
    if plain not in _MAKERS:
        close = get_close_matches(plain, _MAKERS, n=1, cutoff=0.5)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise InputError(f"a task must be one of {', '.join(_MAKERS)}; got {name!r}.{hint}")
    return plain


def _analytic(
    function: Function, domain: Domain, title: str, description: str, *, noise: float | Function | None = None, **fields: Any
) -> Task:
    """A task of a known function; without a `noise` its standard deviation is 1 % of the spread of the outputs over the box."""
    if "standardizer" not in fields:
        box = domain.from_unit_array(domain.to_unit(domain.design(4096, "sobol", seed=0)))
        fields["standardizer"] = Standardizer.from_data(function(box))
    noise = 0.01 * fields["standardizer"].scale if noise is None else noise
    fields.setdefault("num_queries", 60)
    return Task("", title, domain, noise=noise, description=description, function=function, **fields)


def _cube(num_dims: int) -> Domain:
    return Domain({f"x{i + 1}": Real(0, 1) for i in range(num_dims)})


def _exponential() -> Task:
    domain, what = Domain(x1=Real(-2, 5), x2=Real(-2, 5)), "x₁ exp(−x₁² − x₂²): flat but for one corner. The paper's toy."
    return _analytic(truths.exponential, domain, "Exponential 2-D", what, standardizer=Standardizer.from_range(-0.4, 0.4))


def _booster_box() -> Domain:
    return Domain(mach=Real(0, 6), alpha=Real(-5, 30, unit="deg"))


def _booster() -> Task:
    what = "A lift with a sharp ridge at mach 1 that fades with speed, on a grid; stands in for LGBB."
    parts = (0.1, 0.75, 7), (0.8, 1.28, 13), (1.35, 1.95, 7), (2.0, 6.0, 11)  # like the simulations denser about mach 1
    mach = np.concatenate([np.linspace(*part) for part in parts])
    grid = np.stack(np.meshgrid(mach, np.linspace(-5, 30, 19), indexing="ij"), axis=-1).reshape(-1, 2)
    return _analytic(truths.booster, _booster_box(), "Booster-like lift", what, rows=grid, num_queries=120)


def _combustion() -> Task:
    what = "A noise (dB) that swings fast along a short delay and is smooth in all else; stands in for combustion engine noise."
    names, units = ("delay", "pilot", "rail", "air", "boost", "start"), ("ms", "mg", "bar", "mg", "hPa", "ms")
    axes: dict[str, Axis] = {
        name: Real(low, high, unit=unit) for name, unit, (low, high) in zip(names, units, truths.COMBUSTION_BOX, strict=True)
    }
    return _analytic(truths.combustion, Domain(axes), "Engine-noise-like 6-D", what, noise=0.1, num_queries=100)


def _oblique_2d() -> Task:
    what = "A plane and waves on either side of an oblique line."
    return _analytic(truths.oblique_2d, _cube(2), "Oblique regimes 2-D", what, gates=truths.OBLIQUE_2D)


def _oblique_4d() -> Task:
    what = "A plane, waves and a bowl, parted by two oblique hyperplanes."
    return _analytic(truths.oblique_4d, _cube(4), "Oblique regimes 4-D", what, gates=truths.OBLIQUE_4D)


def _curved() -> Task:
    return _analytic(truths.curved, _cube(2), "Curved border", "Waves inside a quarter of a disc, a gentle slope outside.")


def _jump() -> Task:
    return _analytic(truths.jump, _cube(2), "Jump", "A step of 1 across an oblique line, equally smooth on both sides.")


def _stationary() -> Task:
    draw = truths.StationaryDraw(num_dims=2, lengthscale=0.3, seed=2022)
    return _analytic(draw, _cube(2), "Stationary control", "A draw of a stationary GP with lengthscale 0.3 in the unit square.")


def _higdon() -> Task:
    what = "Waves up to 10, a line beyond."
    return _analytic(truths.higdon, Domain(x=Real(0, 20)), "Higdon 1-D", what, noise=0.1, num_queries=40)


def _gramacy_lee() -> Task:
    what = "sin(10πx)/(2x) + (x − 1)⁴: waves that fade into a steep rise."
    return _analytic(truths.gramacy_lee, Domain(x=Real(0.5, 2.5)), "Gramacy–Lee 1-D", what, noise=0.1, num_queries=40)


def _motorcycle() -> Task:
    what = "Acceleration (g) after an impact, with noise that grows fifteenfold meanwhile; stands in for the motorcycle data."
    domain = Domain(time=Real(2.4, 57.6, unit="ms"))
    return _analytic(truths.motorcycle, domain, "Motorcycle-like 1-D", what, noise=truths.motorcycle_noise)


def _lgbb(path: PathLike | None) -> Task:
    frame = tables.read_lgbb(path)
    what = "Lift of the Langley glide-back booster over speed and angle of attack (beta = 0), simulated, and artificial noise."
    return _from_table(frame, "LGBB lift", what, domain=_booster_box(), num_queries=120, noise=0.01)


def _close_pi(path: PathLike | None) -> Task:
    what = "Noise (dB) of a combustion engine over six settings, measured."
    return _from_table(tables.read_engine_noise(path), "Combustion engine noise", what, num_queries=100)


def _engine(output: str, path: PathLike | None) -> Task:
    what = f"{output} of a gasoline engine in steady state over four settings, measured. {tables.ENGINE_LICENCE}."
    return _from_table(tables.read_engine(path, output), f"Engine: {output}", what, num_queries=60)


def _from_table(
    frame: Any, title: str, what: str, *, num_queries: int, domain: Domain | None = None, noise: float | None = None
) -> Task:
    """A task of a table whose last column is the output; `noise` is a share of the spread of the outputs."""
    rows, values = frame.iloc[:, :-1].to_numpy(np.float64), frame.iloc[:, -1].to_numpy(np.float64)
    domain = Domain.from_data(frame.iloc[:, :-1]) if domain is None else domain
    domain.to_array(rows)  # refuses a row outside the box, and names it
    standardizer = Standardizer.from_data(values)
    if noise is not None:
        noise *= standardizer.scale
    return Task("", title, domain, num_queries, noise, what, standardizer, rows=rows, values=values)


_KNOWN: dict[str, Callable[[], Task]] = {
    "exponential": _exponential,
    "booster": _booster,
    "combustion": _combustion,
    "oblique-2d": _oblique_2d,
    "oblique-4d": _oblique_4d,
    "curved": _curved,
    "jump": _jump,
    "stationary": _stationary,
    "higdon": _higdon,
    "gramacy-lee": _gramacy_lee,
    "motorcycle": _motorcycle,
}
_FROM_FILE: dict[str, Callable[[PathLike | None], Task]] = {
    "lgbb": _lgbb,
    "close-pi": _close_pi,
    **{tables.engine_task(output): partial(_engine, output) for output in tables.ENGINE_OUTPUTS},
}
_MAKERS = ["exponential", *_FROM_FILE, *(name for name in _KNOWN if name != "exponential")]
