"""Domain: axes, the unit cube, constraints, designs, and the messages for everything that can go wrong."""

import json
import pickle
import subprocess
import sys
from collections import Counter

import numpy as np
import pandas as pd
import pytest

from hyperleaf.domain import Choice, Domain, Integer, Real
from hyperleaf.errors import DataError, DomainError


@pytest.fixture
def domain():
    return Domain(
        mach=Real(0.2, 6.0),
        rate=Real(1e-3, 10.0, log=True, unit="1/s"),
        stages=Integer(1, 4),
        gas=Choice("N2", "He", "Ar"),
        constraints=["mach * rate <= 30 and mach > 0.5", 'gas != "He" or stages <= 2'],
    )


POINT = {"mach": 1.5, "rate": 0.1, "stages": 3, "gas": "Ar"}


def test_import_is_light():
    code = "import sys, hyperleaf.data; print([m for m in ('jax', 'pandas', 'scipy') if m in sys.modules])"
    path = [str(p) for p in sys.path if p]
    out = subprocess.run([sys.executable, "-c", f"import sys; sys.path[:0] = {path!r}; {code}"], capture_output=True, text=True)
    assert out.stdout.strip() == "[]", out.stderr


def test_names_units_bounds_and_columns(domain):
    assert domain.names == ("mach", "rate", "stages", "gas")
    assert domain.units == {"mach": None, "rate": "1/s", "stages": None, "gas": None}
    assert domain.bounds == {"mach": (0.2, 6.0), "rate": (1e-3, 10.0), "stages": (1, 4)}
    assert domain.columns == ("mach", "rate", "stages", "gas=N2", "gas=He", "gas=Ar")
    assert (domain.num_axes, domain.num_dims, domain.num_points) == (4, 6, None)
    assert Domain(a=Integer(0, 4), b=Choice("x", "y")).num_points == 10


def test_bounds_map_to_the_corners_exactly(domain):
    ends = [{"mach": 0.2, "rate": 1e-3, "stages": 1, "gas": "N2"}, {"mach": 6.0, "rate": 10.0, "stages": 4, "gas": "Ar"}]
    u = domain.to_unit(ends)
    np.testing.assert_array_equal(u, [[0, 0, 0, 1, 0, 0], [1, 1, 1, 0, 0, 1]])
    assert domain.from_unit(u) == ends


def test_axes_map_as_documented(domain):
    u = domain.to_unit([POINT])[0]
    np.testing.assert_allclose(u, [1.3 / 5.8, 0.5, 2 / 3, 0, 0, 1], rtol=1e-14)
    native = domain.from_unit([[0.5, 0.5, 0.5, 0.2, 0.9, 0.8]])[0]
    assert native == {"mach": pytest.approx(3.1), "rate": pytest.approx(0.1), "stages": 3, "gas": "He"}
    assert [type(value) for value in native.values()] == [float, float, int, str]


def test_integers_have_equal_mass_and_log_integers_log_mass():
    u = (np.arange(60_000)[:, None] + 0.5) / 60_000
    counts = Counter(p["k"] for p in Domain(k=Integer(-2, 3)).from_unit(u))
    assert set(counts) == set(range(-2, 4)) and set(counts.values()) == {10_000}
    counts = Counter(p["k"] for p in Domain(k=Integer(1, 10, log=True)).from_unit(u))
    for k in range(1, 11):
        assert counts[k] / 60_000 == pytest.approx(np.log((k + 0.5) / (k - 0.5)) / np.log(21), abs=1e-4)


@pytest.mark.parametrize("axis", [Integer(1, 2**40, log=True), Integer(-(2**40), 2**40), Integer(10**6, 10**7, log=True)])
def test_every_integer_of_a_huge_range_comes_back(axis):
    domain = Domain(k=axis)
    near = [k for end in (axis.low, axis.high, (axis.low + axis.high) // 2) for k in range(end - 300, end + 300)]
    points = [{"k": k} for k in near if axis.low <= k <= axis.high]
    assert domain.from_unit(domain.to_unit(points)) == points


def test_options_are_equally_far_apart():
    u = Domain(c=Choice("a", "b", "c", "d")).to_unit([{"c": c} for c in "abcd"])
    distances = np.linalg.norm(u[:, None] - u[None], axis=-1)[np.triu_indices(4, 1)]
    np.testing.assert_allclose(distances, np.sqrt(2))


def test_dicts_frames_and_arrays_mean_the_same(domain):
    points = domain.design(7, seed=3)
    u = domain.to_unit(points)
    frame = pd.DataFrame(points)[["gas", "stages", "rate", "mach"]]  # columns go by name, not by place
    np.testing.assert_array_equal(domain.to_unit(frame), u)
    np.testing.assert_array_equal(domain.to_unit(domain.to_array(points)), u)
    np.testing.assert_array_equal(domain.to_unit([list(p.values()) for p in points]), u)
    assert domain.to_dicts(frame) == points
    assert list(domain.to_frame(points).columns) == list(domain.names)
    pd.testing.assert_frame_equal(domain.from_unit_frame(u), domain.to_frame(domain.from_unit(u)))
    np.testing.assert_array_equal(domain.from_unit_array(u), domain.to_array(domain.from_unit(u)))
    assert domain.from_unit_array(u).dtype == object
    assert Domain(a=Real(0, 1), b=Choice(1, 2)).from_unit_array(np.eye(3)).dtype == np.float64


def test_empty_list_of_points(domain):
    assert domain.to_unit([]).shape == (0, 6)
    assert domain.feasible([]).shape == (0,)
    assert domain.design(0) == []


def test_rounding_just_outside_a_bound_counts_as_the_bound():
    np.testing.assert_array_equal(Domain(x=Real(0.1, 0.3)).to_unit([{"x": 0.1 + 0.2}]), [[1.0]])


def test_snap_moves_to_what_the_point_stands_for(domain):
    u = np.array([[0.3, 0.7, 0.4, 0.2, 0.9, 0.8], [-0.5, 2.0, 1.5, -1.0, -2.0, -3.0]])
    np.testing.assert_allclose(domain.snap(u), [[0.3, 0.7, 1 / 3, 0, 1, 0], [0, 1, 1, 1, 0, 0]], rtol=1e-15)


def test_feasible_sees_all_constraints(domain):
    points = [
        POINT,
        POINT | {"mach": 0.4},
        POINT | {"mach": 6.0, "rate": 9.0},
        POINT | {"gas": "He"},
        POINT | {"gas": "He", "stages": 2},
    ]
    expected = [True, False, False, False, True]
    np.testing.assert_array_equal(domain.feasible(points), expected)
    np.testing.assert_array_equal(domain.feasible_unit(domain.to_unit(points)), expected)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("x > 0", lambda x, y: x > 0),
        ("-1 < x <= y < 2", lambda x, y: -1 < x <= y < 2),
        ("not x > y", lambda x, y: not x > y),
        ("not (x > 0 and y > 0)", lambda x, y: not (x > 0 and y > 0)),
        ("not (-1 < x < y or y == 1)", lambda x, y: not (-1 < x < y or y == 1)),
        ("x ** 2 + y**2 <= 2", lambda x, y: x**2 + y**2 <= 2),
        ("abs(x) + max(x, y, 0) - min(x, y) >= +1", lambda x, y: abs(x) + max(x, y, 0) - min(x, y) >= 1),
        ("exp(x) * sin(y) / 2 < cos(x)", lambda x, y: np.exp(x) * np.sin(y) / 2 < np.cos(x)),
        ("x % 2 == 1 or x // 2 != 0", lambda x, y: x % 2 == 1 or x // 2 != 0),
        ("x <= 0 or log(x) > 0.5", lambda x, y: x <= 0 or np.log(x) > 0.5),
        ("log(x) > 0.5", lambda x, y: x > 0 and np.log(x) > 0.5),
        ("not log(x) > 0.5", lambda x, y: x >= 0 and (x == 0 or not np.log(x) > 0.5)),  # undefined is not feasible
        ("sqrt(x) != 1", lambda x, y: x >= 0 and x != 1),
        ("  x > 0\n", lambda x, y: x > 0),
    ],
)
def test_constraints_mean_what_python_means(source, expected):
    grid = [(float(x), float(y)) for x in range(-2, 3) for y in range(-2, 3)]
    domain = Domain(x=Real(-2, 2), y=Real(-2, 2), constraints=[source])
    assert domain.feasible(np.array(grid)).tolist() == [bool(expected(x, y)) for x, y in grid]


def test_constraints_on_choices():
    domain = Domain(g=Choice("a", "b", 3), n=Choice(1, 2, 4), f=Choice(True, False))
    points = [{"g": g, "n": n, "f": f} for g in ("a", "b", 3) for n in (1, 2, 4) for f in (True, False)]

    def count(source):
        return int(Domain(domain.axes, constraints=[source]).feasible(points).sum())

    assert count('g == "a"') == count('"a" == g') == count("g == 3") == 6
    assert count('g != "a"') == count('not g == "a"') == 12
    assert count("2 * n >= 4") == 12  # options that are numbers compute
    assert count("f == True") == 9


def test_a_name_that_python_normalises_is_found():
    assert Domain({"µ": Real(0, 1)}, constraints=["µ > 0.5"]).feasible([{"µ": 0.6}]).all()  # the micro sign


@pytest.mark.parametrize(
    "source",
    [
        "", "x", "x +", "x = 1", "x > 1; y > 1", "z > 1", "1 < 2", "x and y > 1", "x > 'a'", "g > 'a'", "g == 'c'", "g + 1 > 2",
        "g == g", "x in (1, 2)", "x is 1", "(x > 1) & (y > 1)", "x | 1 > 2", "x.real > 1", "x[0] > 1", "[x][0] > 1", "tan(x) > 1",
        "abs(x, y) > 1", "abs() > 1", "min(x) > 1", "max(x, y, key=y) > 1", "min(*x) > 1", "(lambda: x)() > 1", "x if y else 1",
        "(x := 2) > 1", "__import__('os').system('true') > x", "f'{x}' == g", "x > 1j", "x < 1e999", "x > True", "x > None",
        "x > ...", "x > 1 > (y > 1)", "(x > 1) == (y > 1)", "await x", "x\0 > 1", "\ud800 > x",
        "x > " + "1" * 1999, "x > " + "1" * 1900 + "0" * 90,
        "-" * 1900 + "x > 1", "(" * 300 + "x" + ")" * 300 + " > 1", "x > 1" + " and x > 1" * 1000,
        "not " * 400 + "x > 1", b"x > 1", None,
    ],
)  # fmt: skip
def test_anything_else_in_a_constraint_is_refused(source):
    with pytest.raises(DomainError, match="constraint"):
        Domain(x=Real(-2, 2), y=Real(-2, 2), g=Choice("a", "b"), constraints=[source])


def test_an_unknown_name_in_a_constraint_is_named_beside_the_axes():
    for source in ("mach + typo < 3", "typo < 3 or mach > 1", "mach < max(1, typo)"):
        with pytest.raises(DomainError, match=r"'typo' is none.*The axes are \['mach', 'alpha'\]"):
            Domain(mach=Real(0, 1), alpha=Real(0, 1), constraints=[source])


def test_powers_of_powers_do_not_hang():
    assert not Domain(x=Real(0, 1), constraints=["x > 9**9**9**9**9"]).feasible([{"x": 1.0}]).any()


@pytest.mark.parametrize("kind", ["sobol", "lhs", "uniform"])
def test_designs_are_feasible_reproducible_and_differ_by_seed(domain, kind):
    points = domain.design(20, kind=kind, seed=1)
    assert len(points) == 20 and domain.feasible(points).all()
    assert domain.design(20, kind=kind, seed=1) == points != domain.design(20, kind=kind, seed=2)


@pytest.mark.parametrize("kind", ["sobol", "lhs"])
def test_designs_fill_every_stratum_of_every_axis(kind):
    domain = Domain(a=Real(0, 1), b=Real(0, 1), k=Integer(1, 4), c=Choice(*"abcd"))
    points = domain.design(16, kind=kind, seed=5)
    for name in "ab":
        assert sorted(int(p[name] * 16) for p in points) == list(range(16))
    for name in "kc":
        assert set(Counter(p[name] for p in points).values()) == {4}


def test_a_sobol_design_begins_with_the_smaller_one(domain):
    for any_domain in (domain, Domain(k=Integer(1, 1000), c=Choice("a", "b"))):
        assert any_domain.design(33, seed=4)[:7] == any_domain.design(7, seed=4)


@pytest.mark.parametrize("kind", ["sobol", "lhs", "uniform"])
def test_designs_on_finite_domains_are_distinct_and_then_repeat_in_turn(kind):
    domain = Domain(k=Integer(1, 6), c=Choice("a", "b", "c"), constraints=['k <= 4 or c == "a"'])
    for n in (1, 10, 14):
        assert len({tuple(p.values()) for p in domain.design(n, kind=kind, seed=0)}) == n
    counts = Counter(tuple(p.values()) for p in domain.design(31, kind=kind, seed=0))
    assert len(counts) == 14 and set(counts.values()) == {2, 3}


def test_a_design_on_a_large_finite_domain_is_distinct():
    points = Domain(k=Integer(1, 2000), j=Integer(1, 2000)).design(5000, kind="uniform")
    assert len({tuple(p.values()) for p in points}) == 5000


@pytest.mark.parametrize(
    ("axes", "rule"),
    [
        ({"x": Real(0, 1), "y": Real(0, 1)}, "x + y > 3"),
        ({"x": Real(0, 1), "y": Real(0, 1)}, "x == 0.123"),
        ({"k": Integer(1, 5)}, "k > 7"),
        ({"k": Integer(1, 10**6)}, "k == 77777.5"),
    ],
)
def test_an_infeasible_domain_is_said_with_the_constraint_at_fault(axes, rule):
    with pytest.raises(DomainError, match=r"feasible.*holds at 0\.00%.*Loosen") as error:
        Domain(axes, constraints=[rule]).design(3)
    assert rule in str(error.value)


@pytest.mark.parametrize(
    "arguments",
    [{"n": -1}, {"n": 2.5}, {"n": True}, {"n": 10**9}, {"n": 2, "kind": "halton"}, {"n": 2, "seed": -1}, {"n": 2, "seed": "a"}],
)
def test_bad_designs_are_refused(domain, arguments):
    with pytest.raises(DomainError):
        domain.design(**arguments)


def test_description_survives_json(domain):
    again = Domain.from_dict(json.loads(json.dumps(domain.to_dict(), sort_keys=True)))
    assert again == domain and hash(again) == hash(domain) and again.names == domain.names


def test_equality_sees_order_axes_and_constraints(domain):
    a, b = Real(0, 1), Real(0, 2)
    assert Domain(x=a, y=b) == Domain({"x": a}, y=b)
    assert Domain(x=a, y=b) != Domain(y=b, x=a)
    assert Domain(x=a) != Domain(x=a, constraints=["x > 0"])
    assert Domain(x=a) != Domain(x=Real(0, 1, unit="m"))
    assert pickle.loads(pickle.dumps(domain)) == domain  # for executors in other processes
    assert "constraints" in repr(domain) and domain != "domain"


def test_from_data_learns_the_box():
    X = np.array([[0.0, 5.0], [2.0, -1.0], [1.0, 0.0]])
    domain = Domain.from_data(X)
    assert domain == Domain(x0=Real(0, 2), x1=Real(-1, 5))
    assert Domain.from_data(X, names=["a", "b"]).names == ("a", "b")
    assert Domain.from_data(pd.DataFrame(X, columns=["p", "q"])).names == ("p", "q")
    assert Domain.from_data([{"p": 1, "q": 2.0}, {"p": 3, "q": 4.0}]) == Domain(p=Real(1, 3), q=Real(2, 4))


@pytest.mark.parametrize(
    ("X", "match"),
    [
        ([[1.0, 2.0], [1.0, 3.0]], "'x0' must vary.*Drop it"),
        ([[1.0], [np.nan]], "'x0' must be finite.*row 1"),
        ([[1.0], ["a"]], "'x0' must hold numbers"),
        ([[1.0]], "at least two rows"),
        ([1.0, 2.0], "shape"),
        (np.zeros((3, 0)), "one column"),
        ([], "one column"),
    ],
)
def test_from_data_refuses_what_gives_no_box(X, match):
    with pytest.raises(DataError, match=match):
        Domain.from_data(X)


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: Domain(), "at least one axis"),
        (lambda: Domain({}), "at least one axis"),
        (lambda: Domain([("x", Real(0, 1))]), "mapping"),
        (lambda: Domain(x=(0, 1)), "'x' must be a Real"),
        (lambda: Domain({" ": Real(0, 1)}), "name"),
        (lambda: Domain({1: Real(0, 1)}), "name"),
        (lambda: Domain({"x": Real(0, 1)}, x=Real(0, 1)), "'x' twice"),
        (lambda: Domain({"µ": Real(0, 1), "μ": Real(0, 1)}), "twice"),
        (lambda: Domain(x=Real(0, 1), constraints="x > 0"), "list"),
        (lambda: Domain(x=Real(0, 1), constraints=3), "list"),
        (lambda: Real(1, 1), "low < high.*low=1.0, high=1.0"),
        (lambda: Real(2, 1), "low < high"),
        (lambda: Real(0, np.inf), "finite.*inf"),
        (lambda: Real(np.nan, 1), "finite.*nan"),
        (lambda: Real(0, 10**400), "finite"),
        (lambda: Real(-1e308, 1e308), "width"),
        (lambda: Real("0", 1), "finite number.*'0'"),
        (lambda: Real(False, 1), "finite number"),
        (lambda: Real(0, 1, log=True), "low > 0.*low=0.0"),
        (lambda: Real(-1, 1, log=True), "low > 0"),
        (lambda: Real(1e300, np.nextafter(1e300, 2e300), log=True), "log space"),
        (lambda: Real(0, 1, log="yes"), "log"),
        (lambda: Real(0, 1, unit=3), "unit"),
        (lambda: Integer(0, 1.5), "whole number.*1.5"),
        (lambda: Integer(True, 3), "whole number"),
        (lambda: Integer(0, 2**41), "2\\*\\*40"),
        (lambda: Integer(3, 3), "low < high"),
        (lambda: Integer(0, 3, log=True), "low > 0"),
        (lambda: Choice(), "two options"),
        (lambda: Choice("a"), "two options"),
        (lambda: Choice("a", "b", "a"), "'a' twice"),
        (lambda: Choice(1, True), "twice"),
        (lambda: Choice(["a", "b"]), "Unpack"),
        (lambda: Choice("a", np.nan), "finite"),
        (lambda: Domain.from_dict({}), "axes"),
        (lambda: Domain.from_dict({"axes": [], "rules": []}), "axes"),
        (lambda: Domain.from_dict({"axes": [{"name": "x", "kind": "circle"}]}), "kind"),
        (lambda: Domain.from_dict({"axes": [{"name": "x", "kind": "real", "low": 0}]}), "fields"),
        (lambda: Domain.from_dict({"axes": [{"name": "x", "kind": "choice"}]}), "fields"),
        (lambda: Domain.from_dict({"axes": [{"name": "x", "kind": "choice", "options": ["a", "b"]}] * 2}), "twice"),
    ],
)
def test_bad_definitions_are_refused(make, match):
    with pytest.raises(DomainError, match=match):
        make()


@pytest.mark.parametrize(
    ("points", "match"),
    [
        ([POINT | {"mach": 7.0}], r"mach must be in \[0.2, 6.0\]; got 7.0\. Correct"),
        ([POINT, POINT | {"rate": 0.0}], r"rate must be in \[0.001, 10.0\] 1/s; got 0.0 in row 1"),
        ([POINT | {"mach": float("nan")}], "mach must be in.*nan"),
        ([POINT | {"mach": "1"}], "mach must be a number; got '1'"),
        ([POINT | {"mach": True}], "mach must be a number; got True"),
        ([POINT | {"mach": 10**400}], "mach must be in"),
        ([POINT | {"stages": 2.5}], "stages must be a whole number; got 2.5"),
        ([POINT | {"gas": "Ne"}], "gas must be one of .*'He'.*; got 'Ne'"),
        ([POINT | {"gas": ["He"]}], "gas must be one of"),
        ([POINT, {"mach": 1.0}], "'rate' is missing in row 1"),
        ([POINT | {"speed": 1.0}], r"'speed'\. Correct"),
        (pd.DataFrame([POINT]).drop(columns="rate"), "'rate' is missing"),
        (pd.DataFrame([POINT | {"lift": 1.0}]), "'lift'"),
        (pd.concat([pd.DataFrame([POINT])] * 2, axis=1), "different names"),
        (POINT, "list"),
        (np.zeros(4), "shape"),
        (np.zeros((2, 3)), r"shape \(n, 4\)"),
        ([[1, 2], [3]], "shape"),
        (3, "shape"),
    ],
)
def test_bad_points_are_refused(domain, points, match):
    with pytest.raises(DomainError, match=match):
        domain.to_unit(points)


def test_whole_floats_are_integers(domain):
    assert domain.to_dicts([POINT | {"stages": 3.0}]) == [POINT]
    assert type(domain.to_dicts([POINT | {"stages": np.float64(3.0)}])[0]["stages"]) is int


@pytest.mark.parametrize("u", [np.zeros(6), np.zeros((1, 5)), np.full((1, 6), 1.1), np.full((1, 6), np.nan), "abc"])
def test_bad_unit_points_are_refused(domain, u):
    with pytest.raises(DomainError, match="unit points"):
        domain.from_unit(u)


def test_snap_refuses_nan(domain):
    with pytest.raises(DomainError, match="nan"):
        domain.snap(np.full((1, 6), np.nan))
