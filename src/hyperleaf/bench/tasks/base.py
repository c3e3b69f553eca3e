"""An experiment, and what chance makes of it: a pool of candidates with their outputs, first points, a test set.

`Task` describes an experiment, `Task.realise(seed)` carries out everything in it that chance decides: the pool, the noise in the
output of *every* candidate, the first points and the test set. So all methods with one seed meet the same world, and differ only
in what they choose: their scores are pairs. A task without queries is a static design: all methods learn the same points.

Inputs and outputs are native. The paper transforms inputs to the unit cube and normalises outputs; the first is what
`domain` does, the second is `standardizer`, fixed in advance by the task and the same for all seeds: the mean and spread of all
outputs of a table or of the truth over the box; for Exponential 2-D the map y → 5y. Divide an RMSE by `standardizer.scale` to
compare it with the paper's. Where the paper gives a number (box, five first points drawn uniformly, 120 queries on LGBB, noise
on LGBB) it is kept; it gives no sizes of pools and test sets, and the 60 and 100 queries are those of its figures.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hyperleaf.bench.truths import KnownGate
from hyperleaf.data import Pool, Standardizer
from hyperleaf.domain import Domain
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

    `rows` without `values` are a fixed pool (a grid) on which the function is known; without `rows` the pool is drawn uniformly,
    or, for a task without queries, is a Latin hypercube of `num_first` points. With both, worlds are made of the table, and the
    function, which may need a package, answers everywhere else.
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
    remedy: str = ""  # what else would tell the truth of a table

    def __post_init__(self) -> None:
        if (self.function is None and self.values is None) or (self.rows is None and self.values is not None):
            raise InputError(f"a task has a function, or a table of rows with values; {self.name!r} has neither.")
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
            raise InputError(
                f"the truth of {self.name!r} is a table, known at its rows only. Use test_x and test_y of realise{self.remedy}."
            )
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
            x = self._candidates(for_pool) if self.rows is None else self.rows
            test_x = self._uniform(for_test, self.num_test)
            y, test_y = self.truth(x), self.truth(test_x)
        std = self.noise_std(x)
        outputs = np.array(y if std is None else y + std * for_noise.standard_normal(len(y)))
        first = for_first.choice(len(x), self.num_first, replace=False)
        for array in (outputs, first, test_x, test_y):
            array.flags.writeable = False  # all methods of a process may share it
        return Realisation(self.name, int(seed), Pool(x, self.domain), outputs, first, test_x, test_y, self.noise is None)

    def _candidates(self, rng: np.random.Generator) -> Array:
        if self.num_queries:
            return self._uniform(rng, self.num_pool)
        return self.domain.to_array(self.domain.design(self.num_first, "lhs", seed=int(rng.integers(2**31))))

    def _uniform(self, rng: np.random.Generator, size: int) -> Array:
        return self.domain.from_unit_array(rng.random((size, self.domain.num_dims)))

    @property
    def _num_held_out(self) -> int:
        return 0 if self.rows is None or self.values is None else max(1, round(_TEST_SHARE * len(self.rows)))
