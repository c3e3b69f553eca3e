"""What every axis promises. Each type in the table of axes has an example here; nobody else asks for types."""

import re
from pathlib import Path

import numpy as np
import pytest

import hyperleaf
from hyperleaf.domain import Choice, Domain, Integer, Real
from hyperleaf.domain.axes import KINDS, from_entry
from hyperleaf.errors import DomainError

EXAMPLES = [
    Real(-2, 3, unit="m"),
    Real(1, 1000, log=True),
    Integer(2, 7),
    Integer(1, 100, log=True),
    Choice("a", "b", "c"),
    Choice(1, 2.5, 4),
    Choice(True, False),
]
ROOT = Path(hyperleaf.__file__).parent
axes = pytest.mark.parametrize("axis", EXAMPLES, ids=repr)


def codes(axis):
    return axis.quantile(np.linspace(0.0, 1.0, 23))


def test_every_type_has_an_example():
    assert {axis.kind for axis in EXAMPLES} == set(KINDS)
    assert all(KINDS[axis.kind] is type(axis) for axis in EXAMPLES)


def test_nobody_outside_asks_what_type_an_axis_is():
    """A new type is one class: whoever wants to know something of an axis asks the axis."""
    asks = re.compile(r"isinstance\([^)]*\b(Real|Integer|Choice)\b")
    files = [path for path in ROOT.rglob("*.py") if path.parent.name != "axes"]
    assert [str(path.relative_to(ROOT)) for path in files if asks.search(path.read_text(encoding="utf-8"))] == []


@axes
def test_values_codes_and_columns_lead_to_each_other(axis):
    there = axis.encode(codes(axis))
    assert there.shape == (23, axis.num_columns) and ((there >= 0) & (there <= 1)).all()
    values = axis.values(codes(axis))
    np.testing.assert_allclose(axis.read("x", values), codes(axis), rtol=1e-12)
    np.testing.assert_allclose(axis.encode(axis.decode(there)), there, atol=1e-12)
    np.testing.assert_allclose(axis.snap(there), there, atol=1e-12)
    np.testing.assert_allclose(axis.beyond("x", np.array(values, dtype=object)), there, atol=1e-12)
    if axis.num_values is not None:
        assert len(axis.codes()) == axis.num_values and not axis.smooth


@axes
def test_it_is_described_and_read_again(axis):
    assert type(axis).from_fields(axis.fields()) == axis
    assert Domain.from_dict(Domain(x=axis).to_dict()) == Domain(x=axis)
    assert axis.describe() and len(axis.labels("x")) == axis.num_columns
    for value in axis.values(codes(axis)):
        assert axis.parse(str(value)) in (None, value)
    assert (axis.bounds is None) == (not axis.ordered)


@axes
def test_steps_stay_near_rows_that_are_moved_and_leave_the_others(axis):
    rng, unit = np.random.default_rng(1), np.repeat(axis.encode(codes(axis)), 20, axis=0)
    moved = rng.random(len(unit)) < 0.5
    there = axis.step(unit, 0.01, moved, moved, rng)
    assert there.shape == unit.shape
    np.testing.assert_array_equal(there[~moved], unit[~moved])
    assert (axis.snap(np.clip(there, 0.0, 1.0))[moved] != unit[moved]).any()


@axes
def test_pictures_of_it_have_an_extent_that_holds_its_ticks(axis):
    low, high, log, labels = axis.extent()
    ticks = np.asarray(axis.ticks(9), dtype=np.float64)
    assert low <= ticks.min() and ticks.max() <= high and (not log or low > 0)
    assert bool(labels) != axis.ordered and (not labels or len(labels) == axis.num_values)
    if axis.num_columns == 1:
        places = axis.places(np.linspace(0.0, 1.0, 7))
        assert (np.diff(places) > 0).all() and low <= places[0] and places[-1] <= high
    begin, end = axis.affine()
    assert begin.shape == end.shape == (axis.num_columns,) and (begin < end).all()


@axes
def test_constraints_see_numbers_or_words_to_compare(axis):
    seen, words = axis.compared(codes(axis))
    assert (words is None) == axis.is_numeric and len(seen) == 23


ENTRIES = {
    "real": ({"low": 0, "high": 2.5, "unit": "m"}, Real(0, 2.5, unit="m")),
    "integer": ({"low": 1, "high": 9, "log": True, "integer": True}, Integer(1, 9, log=True)),
    "choice": ({"options": ["a", "b"]}, Choice("a", "b")),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_type_is_written_in_a_study_file(kind):
    entry, axis = ENTRIES[kind]
    assert from_entry("inputs.x", entry) == axis
    for wrong in (5, {**entry, "colour": "red"}, {key: [] for key in entry}, {key: 7 for key in entry}):
        with pytest.raises(DomainError, match=r"inputs\.x"):
            from_entry("inputs.x", wrong)
