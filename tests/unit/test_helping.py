"""What random runs would have taught: as much as the study's if those were random too, less if they were well placed."""

from types import SimpleNamespace

import numpy as np
import pytest

from hyperleaf.data import Dataset, Standardizer
from hyperleaf.domain import Domain, Real
from hyperleaf.study.helping import _equal, find_helping

SQUARE = Domain(a=Real(0, 1), b=Real(0, 1))
NOISE = 1e-4


def gram(x):
    return np.exp(-0.5 * np.sum((x[:, None] - x[None]) ** 2, axis=2) / 0.25**2)


class Process:
    """A stationary process whose kernel is known: what SMC would find with endless data."""

    def __init__(self, x, rng):
        y = np.linalg.cholesky(gram(x) + NOISE * np.eye(len(x))) @ rng.standard_normal(len(x))
        self.data = Dataset(x, y)

    def before_data(self, x, num, *, seed):
        yield gram(x), NOISE, num


def helping_of(x, seed, candidates=None):
    posterior = Process(x, np.random.default_rng(seed))
    model = SimpleNamespace(posterior=posterior, scale=Standardizer(0.0, 2.0), y=2.0 * posterior.data.y)
    return find_helping(model, SQUARE, candidates, seed=seed, plain=False)


def middles(place):
    found = [helping_of(place(np.random.default_rng((seed, 1))), seed) for seed in range(8)]
    return np.exp(np.mean([np.log(one.equal[1] / one.num_runs) for one in found]))


def test_random_runs_teach_what_random_runs_teach():
    assert middles(lambda rng: rng.uniform(size=(24, 2))) == pytest.approx(1.0, abs=0.2)


def test_well_placed_runs_count_for_more_and_huddled_ones_for_less():
    grid = (np.stack(np.meshgrid(np.arange(5), np.arange(5)), axis=-1).reshape(-1, 2) + 0.5) / 5
    assert middles(lambda rng: grid) > 1.3
    assert middles(lambda rng: rng.uniform(0, 0.5, size=(24, 2))) < 0.8


def test_errors_are_in_native_units_and_fall():
    x = np.random.default_rng(3).uniform(size=(20, 2))
    found = helping_of(x, 3)
    assert found.own.shape == (20,) and found.own[-1] < 0.7 * found.own[0] and 0.2 < found.own[-1] < 2.0
    assert (np.diff(found.random, axis=1) >= 0).all() and found.limit == 120
    again = helping_of(x, 3)
    assert again.equal == found.equal  # the same every time


def test_random_rows_of_a_pool_are_its_own():
    pool = np.random.default_rng(0).uniform(size=(40, 2))
    found = helping_of(pool[:12], 1, pool)
    assert found.limit == 40  # there are no more


def test_too_few_runs_or_none_that_differ_say_nothing():
    assert helping_of(np.random.default_rng(0).uniform(size=(5, 2)), 0) is None
    posterior = SimpleNamespace(data=Dataset(np.random.default_rng(0).uniform(size=(9, 2)), np.zeros(9)))
    model = SimpleNamespace(posterior=posterior, scale=Standardizer(0.0, 1.0), y=np.zeros(9))
    assert find_helping(model, SQUARE, None, seed=0, plain=False) is None


def test_where_two_errors_are_the_same_is_read_between_whole_numbers():
    curve = np.array([8.0, 4.0, 2.0, 1.0])
    assert _equal(4.0, curve) == pytest.approx(2.0) and _equal(np.sqrt(8.0), curve) == pytest.approx(2.5)
    assert _equal(9.0, curve) == 1.0 and _equal(0.5, curve) == 4.0
