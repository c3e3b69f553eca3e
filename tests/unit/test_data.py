"""Dataset, Standardizer and Pool."""

import numpy as np
import pandas as pd
import pytest

from hyperleaf.data import Dataset, Pool, Standardizer
from hyperleaf.domain import Choice, Domain, Integer, Real
from hyperleaf.errors import DataError, DomainError


def test_dataset_appends_without_changing_the_old_one():
    data = Dataset([[0.0, 1.0]], [2.0])
    more = data.append([0.5, 0.5], 3.0)
    assert (data.num_observations, more.num_observations, more.num_dims) == (1, 2, 2)
    np.testing.assert_array_equal(more.y, [2.0, 3.0])
    assert Dataset([[0.0]], [1.0], [0.1]).append([[1.0]], [2.0], 0.2).noise.tolist() == [0.1, 0.2]


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: Dataset([[0.0]], [1.0, 2.0]), "rows"),
        (lambda: Dataset([0.0], [1.0]), r"shape \(n, d\)"),
        (lambda: Dataset(np.zeros((2, 0)), [1.0, 2.0]), "column"),
        (lambda: Dataset([[np.nan]], [1.0]), "finite"),
        (lambda: Dataset([["a"]], [1.0]), "numeric"),
        (lambda: Dataset([[0.0]], [1.0], [-1.0]), "≥ 0"),
        (lambda: Dataset([[0.0]], [1.0], [1.0, 1.0]), "one variance"),
        (lambda: Dataset([[0.0]], [1.0]).append([0.0, 1.0], 1.0), "columns"),
        (lambda: Dataset([[0.0]], [1.0]).append([0.0], 1.0, 0.1), "for all"),
    ],
)
def test_bad_datasets_are_refused(make, match):
    with pytest.raises(DataError, match=match):
        make()


def test_standardizer_gives_mean_zero_and_std_one_and_back():
    y = np.array([3.0, 5.0, 10.0])
    scaler = Standardizer.from_data(y)
    z = scaler.transform(y)
    assert z.mean() == pytest.approx(0, abs=1e-15) and z.std() == pytest.approx(1)
    np.testing.assert_allclose(scaler.inverse(z), y)
    np.testing.assert_allclose(scaler.inverse_variance(z.var()), y.var())


@pytest.mark.parametrize(
    ("y", "loc", "scale"),
    [([0.0, 0.0], 0, 1), ([5.0], 5, 5), ([-300.0] * 3, -300, 300), ([0.1] * 3, 0.1, 0.1), ([1e-9], 1e-9, 1e-9),
     ([0.3, 0.1 + 0.2], 0.3, 0.3)],
)  # fmt: skip
def test_constant_outputs_have_a_usable_scale(y, loc, scale):
    scaler = Standardizer.from_data(y)
    assert (scaler.loc, scaler.scale) == (pytest.approx(loc), pytest.approx(scale))
    np.testing.assert_allclose(scaler.transform(y), 0, atol=1e-14)


@pytest.mark.parametrize("factor", [1e-300, 1e300])
def test_standardizer_neither_overflows_nor_underflows(factor):
    scaler = Standardizer.from_data(factor * np.array([1.0, 2.0, 4.0]))
    assert scaler.scale / factor == pytest.approx(np.std([1.0, 2.0, 4.0]))


def test_standardizer_from_range():
    scaler = Standardizer.from_range(-2, 6)
    assert (scaler.loc, scaler.scale) == (2.0, 2.0)
    np.testing.assert_array_equal(scaler.transform([-2, 6]), [-2, 2])


@pytest.mark.parametrize(
    "make",
    [
        lambda: Standardizer(0, 0),
        lambda: Standardizer(0, -1),
        lambda: Standardizer(np.nan, 1),
        lambda: Standardizer(0, np.inf),
        lambda: Standardizer([0.0], 1),
        lambda: Standardizer.from_data([]),
        lambda: Standardizer.from_data([1.0, np.nan]),
        lambda: Standardizer.from_range(1, 1),
        lambda: Standardizer.from_range(2, 1),
        lambda: Standardizer.from_range(0, np.inf),
    ],
)
def test_bad_standardizers_are_refused(make):
    with pytest.raises(DataError):
        make()


@pytest.fixture
def domain():
    return Domain(x=Real(0.1, 0.7), k=Integer(1, 5), c=Choice("a", "b"))


ROWS = [{"x": 0.3, "k": 2, "c": "a"}, {"x": 0.7, "k": 5, "c": "b"}, {"x": 0.3, "k": 2, "c": "a"}, {"x": 0.1, "k": 1, "c": "b"}]


def test_pool_is_addressed_by_index_and_immutable(domain):
    pool = Pool(ROWS, domain)
    assert len(pool) == 4 and pool.unit.shape == (4, 4) and pool.num_duplicates == 1
    np.testing.assert_array_equal(pool.unit, domain.to_unit(ROWS))
    smaller = pool.without([2, 0]).without(2)
    assert smaller.taken.tolist() == [0, 2] and smaller.remaining.tolist() == [1, 3]
    assert pool.taken.tolist() == [] and pool.remaining.tolist() == [0, 1, 2, 3]
    assert smaller.points([3, 0]) == [ROWS[3], ROWS[0]] == pool.points(np.array([3, 0]))
    assert smaller.points(1) == [ROWS[1]] and pool.points([]) == []
    with pytest.raises(ValueError, match="read-only"):
        pool.unit[0, 0] = 1.0


def test_pool_gives_back_exactly_the_values_of_the_table():
    x = np.random.default_rng(0).lognormal(size=(500, 3))
    pool = Pool(x)
    assert pool.domain.names == ("x0", "x1", "x2")
    np.testing.assert_array_equal([list(p.values()) for p in pool.points(range(500))], x)


def test_pool_takes_dicts_frames_and_arrays_alike(domain):
    frame = pd.DataFrame(ROWS)[["c", "k", "x"]]
    np.testing.assert_array_equal(Pool(frame, domain).unit, Pool(ROWS, domain).unit)
    np.testing.assert_array_equal(Pool([list(row.values()) for row in ROWS], domain).unit, Pool(ROWS, domain).unit)
    numbers = pd.DataFrame({"p": [1, 2, 3], "q": [0.5, 0.7, 0.1]})
    assert Pool(numbers).domain == Domain(p=Real(1, 3), q=Real(0.1, 0.7))
    assert Pool(numbers).points(2) == [{"p": 3.0, "q": 0.1}]
    assert "3 candidates, 1 taken" in repr(Pool(numbers).without(0))


@pytest.mark.parametrize("missing", [None, float("nan"), pd.NA, pd.NaT])
@pytest.mark.parametrize("column", ["x", "k", "c"])
def test_missing_values_are_named_by_row_and_column(domain, missing, column):
    rows = [ROWS[0], ROWS[1] | {column: missing}]
    for table in (rows, pd.DataFrame(rows)):
        with pytest.raises(DataError, match=f"row 1, column '{column}'"):
            Pool(table, domain)


def test_missing_values_in_an_array_are_named():
    with pytest.raises(DataError, match="row 1, column 'x0'"):
        Pool([[1.0, 2.0], [np.nan, 3.0]])
    with pytest.raises(DataError, match="row 1, column 'x1'"):
        Pool(np.array([[1.0, 2.0], [2.0, np.nan]]))


@pytest.mark.parametrize("table", [[], np.zeros((0, 3)), pd.DataFrame({"x": [], "k": [], "c": []})])
def test_an_empty_pool_is_refused(domain, table):
    with pytest.raises(DataError, match="at least one candidate"):
        Pool(table, domain)
    with pytest.raises(DataError, match="at least two rows"):
        Pool(table)


def test_a_constant_column_needs_a_domain():
    table = np.array([[1.0, 2.0], [1.0, 3.0]])
    with pytest.raises(DataError, match="'x0' must vary"):
        Pool(table)
    assert len(Pool(table, Domain(x0=Real(0, 2), x1=Real(0, 5)))) == 2


def test_candidates_outside_the_domain_or_its_constraints_are_refused(domain):
    with pytest.raises(DomainError, match="x must be in"):
        Pool([ROWS[0] | {"x": 0.8}], domain)
    with pytest.raises(DomainError, match=r"row 1 does not \(1 such\)"):
        Pool(ROWS[:2], Domain(domain.axes, constraints=["k < 5"]))


@pytest.mark.parametrize("index", [4, -1, 1.0, True, "0", [0, 9], np.array([True, False])])
def test_bad_indices_are_refused(domain, index):
    pool = Pool(ROWS, domain)
    for use in (pool.points, pool.without):
        with pytest.raises(DataError, match="from 0 to 3"):
            use(index)
