"""Laws of domains: round trips, snapping, designs, descriptions, and a parser that only ever says DomainError."""

import json
import math
import os

import numpy as np
from hypothesis import assume, given, settings, strategies as st

from hyperleaf.data import Standardizer
from hyperleaf.domain import Choice, Domain, Integer, Real
from hyperleaf.errors import DomainError

finite = st.floats(-1e12, 1e12, allow_subnormal=False)
positive = st.floats(1e-12, 1e12)


@st.composite
def reals(draw):
    log = draw(st.booleans())
    low, high = sorted([draw(positive if log else finite), draw(positive if log else finite)])
    assume(high - low > 1e-6 * max(abs(low), abs(high)))
    return Real(low, high, log=log, unit=draw(st.none() | st.text(max_size=3)))


@st.composite
def integers(draw):
    log = draw(st.booleans())
    low = draw(st.integers(1 if log else -(2**40), 2**40 - 1))
    high = draw(st.integers(low + 1, min(2**40, low + draw(st.sampled_from([1, 5, 1000, 2**40])))))
    return Integer(low, high, log=log)


scalars = st.text(max_size=4) | st.integers(-9, 9) | st.floats(-9, 9) | st.booleans()
choices = st.lists(scalars, min_size=2, max_size=5, unique_by=lambda option: (hash(option),)).map(lambda o: Choice(*o))
axes = reals() | integers() | choices
names = st.text(min_size=1, max_size=5).filter(str.strip)


@st.composite
def domains(draw):
    try:
        return Domain(draw(st.dictionaries(names, axes, min_size=1, max_size=4)))
    except DomainError as error:  # two names that Python's parser takes for one
        assert "twice" in str(error)
        assume(False)


@st.composite
def values(draw, axis):
    if isinstance(axis, Real):
        return draw(st.floats(axis.low, axis.high))
    return draw(st.sampled_from(axis.options) if isinstance(axis, Choice) else st.integers(axis.low, axis.high))


def close(axis, a, b):
    if not isinstance(axis, Real):
        return a == b and type(a) is type(b)
    if axis.log:
        return math.isclose(a, b, rel_tol=1e-13)
    return abs(a - b) <= 4e-16 * max(abs(axis.low), abs(axis.high))


@given(st.data(), domains())
def test_native_points_come_back(data, domain):
    point = {name: data.draw(values(axis)) for name, axis in domain.axes.items()}
    u = domain.to_unit([point])
    assert u.shape == (1, domain.num_dims) and (u >= 0).all() and (u <= 1).all()
    (again,) = domain.from_unit(u)
    assert list(again) == list(point)
    assert all(close(axis, point[name], again[name]) for name, axis in domain.axes.items())


@given(reals() | integers())
def test_bounds_are_the_ends_exactly(axis):
    domain = Domain(x=axis)
    assert domain.to_unit([{"x": axis.low}, {"x": axis.high}]).tolist() == [[0.0], [1.0]]
    assert domain.from_unit([[0.0], [1.0]]) == [{"x": axis.low}, {"x": axis.high}]


@given(reals() | integers(), st.lists(st.floats(0, 1), min_size=2, max_size=20))
def test_maps_never_turn_back(axis, u):
    x = Domain(x=axis).from_unit_array(np.sort(u)[:, None])[:, 0]
    assert (np.diff(x) >= -4e-16 * max(abs(axis.low), abs(axis.high))).all()
    assert (np.diff(axis.encode(np.sort(x)), axis=0) >= 0).all()


@given(st.data(), domains())
def test_snap_is_idempotent_and_keeps_what_a_point_stands_for(data, domain):
    u = np.array(data.draw(st.lists(st.lists(st.floats(0, 1), min_size=domain.num_dims, max_size=domain.num_dims), max_size=4)))
    u = u.reshape(-1, domain.num_dims)
    snapped = domain.snap(u)
    np.testing.assert_array_equal(domain.snap(snapped), snapped)
    assert domain.from_unit(snapped) == domain.from_unit(u)
    np.testing.assert_allclose(domain.to_unit(domain.from_unit(u)), snapped, atol=1e-8)


@given(domains())
def test_descriptions_are_the_domain(domain):
    again = Domain.from_dict(json.loads(json.dumps(domain.to_dict())))
    assert again == domain and hash(again) == hash(domain) and again.to_dict() == domain.to_dict()


@settings(max_examples=50, deadline=None)
@given(domains(), st.integers(0, 40), st.sampled_from(["sobol", "lhs", "uniform"]), st.integers(0, 2**32))
def test_designs_are_inside_and_distinct_where_possible(domain, n, kind, seed):
    points = domain.design(n, kind=kind, seed=seed)
    assert len(points) == n
    domain.to_unit(points)  # raises outside
    if domain.num_points is not None:
        assert len({tuple(p.values()) for p in points}) == min(n, domain.num_points)


@settings(max_examples=50, deadline=None)
@given(
    st.floats(0.05, 1.9), st.floats(-1, 1), st.integers(1, 30), st.sampled_from(["sobol", "lhs", "uniform"]), st.integers(0, 99)
)
def test_designs_are_feasible(total, slope, n, kind, seed):
    rule = f'x + y <= {total!r} and (c == "a" or {slope!r} * x < y)'
    domain = Domain(x=Real(0, 1), y=Real(0, 1), c=Choice("a", "b"), constraints=[rule])
    points = domain.design(n, kind=kind, seed=seed)
    assert len(points) == n and domain.feasible(points).all()
    assert all(p["x"] + p["y"] <= total and (p["c"] == "a" or slope * p["x"] < p["y"]) for p in points)


TOKENS = (
    "x y g 'a' \"b\" 1 2.5 1e999 + - * / // % ** < <= > >= == != and or not abs( min( sqrt( log( ( ) , [ ] . : = := ; lambda in "
    "is if else for await yield { } & | ^ ~ @ True None ... 1j f'{x}' b'a' __import__( open( eval( 'os' __class__ \\ \n # \x00 µ"
)
pieces = st.sampled_from(TOKENS.split(" "))
fuzz = st.text(max_size=40) | st.lists(pieces, max_size=14).map(" ".join) | st.lists(pieces, max_size=14).map("".join)


@settings(max_examples=400, deadline=None)
@given(fuzz)
def test_any_text_is_a_constraint_or_a_domain_error(source):
    try:
        domain = Domain(x=Real(-1, 1), y=Integer(1, 9), g=Choice("a", "b"), constraints=[source])
    except DomainError:
        return
    held = domain.feasible([{"x": 0.5, "y": 2, "g": "a"}, {"x": -1.0, "y": 9, "g": "b"}])
    assert held.shape == (2,) and held.dtype == bool


calls = st.sampled_from(
    ["os.mkdir({0!r})", "__import__('os').mkdir({0!r})", "open({0!r}, 'w')", "eval('open({0!r})')", "x.__class__.__mro__",
     "[open({0!r}, 'w') for _ in (1,)]", "(lambda: open({0!r}, 'w'))()", "f'{{open({0!r}, chr(119))}}'", "().__class__"]
)  # fmt: skip
frames = st.sampled_from(
    ["{}", "{} == 1", "x > {}", "x > 0 and {}", "abs({}) > x", "g == {}", "not {}", "x < 1 < {}", "max(x, {}) > 0"]
)


@given(calls, frames)
def test_code_is_refused_and_not_run(tmp_path_factory, call, frame):
    trap = tmp_path_factory.getbasetemp() / "trap"
    try:
        Domain(x=Real(-1, 1), g=Choice("a", "b"), constraints=[frame.format(call.format(str(trap)))])
    except DomainError:
        assert not os.path.exists(trap)
    else:
        raise AssertionError("accepted")


@given(st.lists(st.floats(-1e100, 1e100, allow_subnormal=False), min_size=1, max_size=20))
def test_standardised_outputs_are_of_order_one_and_come_back(y):
    scaler = Standardizer.from_data(y)
    z = scaler.transform(y)
    assert abs(z.mean()) < 1e-6 * max(1.0, np.abs(z).max()) and np.abs(z).max() <= math.sqrt(len(y)) + 1e-6
    np.testing.assert_allclose(scaler.inverse(z), y, rtol=0, atol=1e-14 * max(map(abs, y)))
