"""Answers about what was learned agree with closed forms, with finite differences, and with brute force."""

from __future__ import annotations

import sys
from pathlib import Path

import jax
import numpy as np
import pytest
from scipy import stats

from hyperleaf import analysis
from hyperleaf.acquisition import Belief, Contour, ExpectedImprovement, as_goal
from hyperleaf.analysis.functions import Pathwise
from hyperleaf.analysis.inputs import Inputs
from hyperleaf.data import Dataset, Standardizer
from hyperleaf.domain import Choice, Domain, Integer, Real
from hyperleaf.errors import InputError
from hyperleaf.exports.ingredients import part_of
from hyperleaf.exports.numerics import gradients
from hyperleaf.kernels import RBF, Matern12, Matern52
from hyperleaf.precision import float64
from hyperleaf.study.files import Model
from hyperleaf.surrogates.gp import hhk_surrogate, stationary_surrogate
from hyperleaf.surrogates.learned import Learned

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from fixed_draws import LINE, MIXED, PLANE, model_of, posterior_of

BOX = Domain(a=Real(-np.pi, np.pi), b=Real(-np.pi, np.pi), c=Real(-np.pi, np.pi))
SQUARE = Domain(a=Real(0.0, 2.0), b=Real(0.0, 1.0))


def smooth(domain, function, lengthscale=0.4, n=24, **options):
    """A surrogate with one fixed kernel: what is asked of it here is exact, so nothing has to be learned."""
    kernel = RBF(np.full(domain.num_dims, lengthscale), 1.0)
    return model_of(domain, stationary_surrogate(domain.num_dims, kernel, noise="none"), function, n=n, num=1, **options)


@pytest.fixture(scope="module")
def plane():
    return model_of(PLANE, hhk_surrogate(2, 4, mean="linear"), lambda p: np.tanh(p["mach"] - 2), n=12, num=3)


@pytest.fixture(scope="module")
def slope():
    """y = 3a + b, all but exactly."""
    return smooth(SQUARE, lambda p: 3 * p["a"] + p["b"], 1.0, unit="N")


def test_functions_have_the_posteriors_moments_and_covariance(plane):
    functions = Pathwise(part_of(plane), 3000, 1)
    unit = np.random.default_rng(3).random((12, 2))
    values, mixture = functions(unit), plane.learned.predict(unit)
    mean, std = mixture.mean(), mixture.std()
    # 32 of the draws stand for all, and features for the kernel: both cost a little beside the chance of 3000 functions.
    assert np.max(np.abs(values.mean(axis=0) - mean) / std) < 0.2
    assert np.max(np.abs(values.std(axis=0) / std - 1)) < 0.2


@pytest.mark.parametrize("kernel", [RBF, Matern52])
def test_functions_go_through_the_data(kernel):
    model = model_of(LINE, stationary_surrogate(1, kernel(0.3, 1.0), noise="none"), lambda p: np.sin(p["t"]), n=10, num=1)
    values = Pathwise(part_of(model), 20, 0)(model.learned.posterior.data.x)
    np.testing.assert_allclose(values, np.tile(model.learned.y, (20, 1)), atol=0.01)


def test_derivatives_agree_with_differences(plane):
    part, h = part_of(plane), 1e-4
    unit = 0.1 + 0.8 * np.random.default_rng(2).random((6, 2))
    means, variances = gradients(part, unit)
    for k in range(2):
        step = h * np.eye(2)[k]
        joint = plane.learned.posterior.joint(
            np.concatenate([unit + step, unit - step]), np.concatenate([unit + step, unit - step])
        )
        m = np.arange(6)
        slope = (joint.mean_x[:, :6] - joint.mean_x[:, 6:]) / (2 * h)
        np.testing.assert_allclose(means[:, :, k], slope, rtol=1e-4, atol=1e-5)
        spread = joint.var_x[:, :6] + joint.var_x[:, 6:] - 2 * joint.cov[:, m, m + 6]
        np.testing.assert_allclose(variances[:, :, k], spread / (4 * h * h), rtol=2e-3, atol=1e-4)


def test_derivatives_are_in_native_units(slope, plane):
    found = analysis.derivatives(slope, [{"a": 0.7, "b": 0.4}, {"a": 1.5, "b": 0.1}])
    assert found.names == ("a", "b")
    np.testing.assert_allclose(found.mean, [[3, 1], [3, 1]], atol=0.05)
    assert (found.std < 0.2).all()
    point, h = {"mach": 2.0, "alpha": 3.0}, 1e-4  # a log axis
    up, down = ({**point, "alpha": 3.0 + s * h} for s in (1, -1))
    means = plane.predict([up, down]).mean()
    expected = (means[0] - means[1]) / (2 * h)
    assert analysis.derivatives(plane, [point]).mean[0, 1] == pytest.approx(expected, rel=1e-4, abs=1e-6)


def test_what_has_no_derivatives_says_so():
    rough = model_of(LINE, stationary_surrogate(1, Matern12(0.3, 1.0)), lambda p: p["t"], n=6, num=1)
    with pytest.raises(InputError, match="have no derivatives"):
        analysis.derivatives(rough, [{"t": 0.0}])


@pytest.mark.long
def test_sobol_indices_of_ishigami():
    """V = a²/8 + bπ⁴/5 + b²π⁸/18 + ½ with a = 7, b = 0.1."""
    model = smooth(BOX, lambda p: np.sin(p["a"]) + 7 * np.sin(p["b"]) ** 2 + 0.1 * p["c"] ** 4 * np.sin(p["a"]), 0.3, n=160)
    seen = []
    found = analysis.sensitivity(model, pairs=True, samples=512, functions=16, progress=lambda done, of: seen.append((done, of)))
    whole = 49 / 8 + 0.1 * np.pi**4 / 5 + 0.01 * np.pi**8 / 18 + 0.5
    first = {"a": 0.5 * (1 + 0.1 * np.pi**4 / 5) ** 2 / whole, "b": 49 / 8 / whole, "c": 0.0}
    both = 0.01 * np.pi**8 * (1 / 18 - 1 / 50) / whole
    total = {"a": first["a"] + both, "b": first["b"], "c": both}
    for name in "abc":
        assert found.first[name].mean == pytest.approx(first[name], abs=0.05)
        assert found.total[name].mean == pytest.approx(total[name], abs=0.05)
    assert found.pairs["a", "c"].mean == pytest.approx(both, abs=0.08)
    assert found.pairs["a", "b"].mean == pytest.approx(0.0, abs=0.08)
    assert found.std.mean == pytest.approx(np.sqrt(whole), rel=0.05)
    assert seen[-1][0] == seen[-1][1] == len(seen)
    effect = found.effects["b"]
    np.testing.assert_allclose(effect.mean, 7 * np.sin(np.array(effect.values)) ** 2, atol=1.0)
    assert next(iter(found.table()["input"])) in ("a", "b")


def test_intervals_of_indices_are_wide_where_little_is_known_and_shrink():
    widths = []
    for n in (8, 24):
        model = smooth(SQUARE, lambda p: np.sin(3 * p["a"]) * p["b"], 0.3, n=n)
        index = analysis.sensitivity(model, samples=256, functions=32).total["a"]
        widths.append(index.high - index.low)
    assert widths[1] < 0.5 * widths[0]


def test_choices_and_whole_numbers_are_inputs_too():
    """y = 2·[hard] + speed/5: a choice of three has variance 4·(1/3)(2/3), speed 4/12."""
    model = smooth(MIXED, lambda p: 2.0 * (p["steel"] == "hard") + p["speed"] / 5, 1.0, n=64)
    found = analysis.sensitivity(model, samples=256, functions=8)
    choice, speed = 8 / 9, 1 / 3
    assert found.total["steel"].mean == pytest.approx(choice / (choice + speed), abs=0.05)
    assert found.total["blades"].mean < 0.05
    assert found.effects["steel"].values == ("soft", "hard", "glass")
    assert found.effects["blades"].values == (2, 3, 4, 5, 6, 7)


def test_inputs_may_have_distributions_or_values(slope):
    narrow = analysis.sensitivity(slope, inputs={"a": stats.norm(1.0, 0.01)}, samples=256, functions=8)
    assert narrow.first["b"].mean > 0.95
    alone = analysis.sensitivity(slope, inputs={"a": 1.0}, samples=256, functions=8)
    assert set(alone.total) == {"b"}
    with pytest.raises(InputError, match="must vary"):
        analysis.sensitivity(slope, inputs={"a": 1.0, "b": 0.5})
    with pytest.raises(InputError, match=r"inputs must be among .* got 'c'"):
        analysis.sensitivity(slope, inputs={"c": 1.0})
    with pytest.raises(InputError, match="power of two"):
        analysis.sensitivity(slope, samples=1000)


def test_inputs_beyond_the_domain_are_said():
    varied = Inputs(Domain(a=Real(0, 1), k=Integer(1, 3), o=Choice("x", "y")), {"a": stats.norm(0.5, 0.5), "o": "y"})
    unit = varied.unit(np.random.default_rng(0).random((500, 2)))
    assert ((unit >= 0) & (unit <= 1)).all() and (unit[:, -1] == 1).all()
    assert "lie outside its axis" in varied.messages[0]
    with pytest.raises(InputError, match="belongs to a number"):
        Inputs(varied.domain, {"o": stats.norm()})


def test_propagation_of_a_straight_line(slope):
    """3a + b with a ~ N(1, 0.1), b fixed: N(3.5, 0.3)."""
    found = analysis.propagate(slope, {"a": stats.norm(1.0, 0.1), "b": 0.5}, above=3.9, functions=32, samples=2048)
    assert found.mean[0] == pytest.approx(3.5, abs=0.01)
    assert found.std_of_inputs == pytest.approx(0.3, rel=0.03)
    assert found.std_of_surrogate < 0.05
    assert found.std_of_both == pytest.approx(np.hypot(found.std_of_inputs, found.std_of_surrogate))
    assert found.failure[0] == pytest.approx(stats.norm.sf(4 / 3), abs=0.01)
    assert found.quantiles[0.95][0] == pytest.approx(3.5 + 0.3 * stats.norm.ppf(0.95), abs=0.03)


def test_the_doubt_of_the_surrogate_is_told_apart_from_that_of_the_inputs():
    known, unknown = (smooth(LINE, lambda p: np.sin(4 * p["t"]), 0.1, n=n) for n in (24, 5))
    given = {"t": stats.uniform(-1.0, 0.5)}
    apart = [analysis.propagate(model, given, functions=64, samples=256) for model in (known, unknown)]
    assert apart[1].std_of_surrogate > 10 * apart[0].std_of_surrogate
    assert apart[0].std_of_surrogate < 0.2 * apart[0].std_of_inputs


def test_level_sets_have_the_measure_they_should(slope):
    """3a + b > 4 over [0, 2] × [0, 1]: a > (4 − b)/3, a share of 1 − (4 − ½)/6."""
    found = analysis.level_set(slope, above=4.0, functions=64, samples=2048)
    truth = 1 - 3.5 / 6
    assert found.share[0] == pytest.approx(truth, abs=0.01)
    assert found.share[1] - 0.005 <= truth <= found.share[2] + 0.005
    assert found.error < 0.01
    assert list(np.round(found.probability([{"a": 0.1, "b": 0.1}, {"a": 1.9, "b": 0.9}]), 6)) == [0, 1]
    below = analysis.level_set(slope, below=4.0, functions=16, samples=1024)
    assert below.share[0] + found.share[0] == pytest.approx(1.0, abs=0.01)
    with pytest.raises(InputError, match="either above or below"):
        analysis.level_set(slope)


@pytest.fixture(scope="module")
def hills():
    """A hill at (0.5, 0.7), and a price that rises with a."""
    lift = smooth(SQUARE, lambda p: -((p["a"] - 1.0) ** 2) - (p["b"] - 0.7) ** 2, 0.6, n=24)
    drag = smooth(SQUARE, lambda p: p["a"], 1.0, n=24, name="drag")
    return {"lift": lift, "drag": drag}


def test_the_optimum_is_found_with_and_without_a_limit(hills):
    free = analysis.optimum(hills, maximize="lift", functions=64, candidates=256)
    assert free.recommended.point["a"] == pytest.approx(1.0, abs=0.1)
    assert free.recommended.point["b"] == pytest.approx(0.7, abs=0.1)
    assert free.value[0] == pytest.approx(0.0, abs=0.02)
    assert 0 <= free.worth < 0.02 and 0 <= free.gap < 0.02
    assert sum(one.best for one in free.candidates) <= 1 + 1e-9
    bound = analysis.optimum(hills, maximize="lift", subject_to={"drag": (None, 0.6)}, functions=64, candidates=256)
    assert bound.recommended.point["a"] == pytest.approx(0.6, abs=0.06) and bound.recommended.point["a"] <= 0.62
    assert bound.recommended.admissible >= 0.9
    low = analysis.optimum(hills, minimize="drag", functions=32, candidates=256)
    assert low.recommended.point["a"] == pytest.approx(0.0, abs=0.05)
    with pytest.raises(InputError, match="keeps all limits"):
        analysis.optimum(hills, maximize="lift", subject_to={"drag": (5.0, 6.0)}, functions=16, candidates=64)
    with pytest.raises(InputError, match="either to maximize or to minimize"):
        analysis.optimum(hills)


def test_one_more_run_is_worth_most_where_it_may_matter():
    """Known on the left, where it falls; unknown on the right."""
    line = Domain(t=Real(0.0, 1.0))
    kernel = stationary_surrogate(1, RBF(0.1, 1.0), noise="none")
    t = np.linspace(0.0, 0.5, 24)[:, None]
    y = -t[:, 0]
    scale = Standardizer.from_data(y)
    model = Model(Learned(posterior_of(kernel, Dataset(t, scale.transform(y)), 1), scale, y), line, "y")
    found = analysis.optimum(model, maximize="y", functions=64, candidates=256)
    assert found.next_run["t"] > 0.6 and found.worth > 0


def test_two_surrogates_are_compared(slope):
    same = analysis.compare(slope, slope, points=128)
    assert same.difference == 0 and same.data_shared
    other = smooth(SQUARE, lambda p: 3 * p["a"] + p["b"] + 0.5, 1.0)
    found = analysis.compare(slope, other, points=128)
    assert found.difference == pytest.approx(0.5, rel=0.1) and found.score > 3 and not found.data_shared
    assert "more than they doubt themselves" in found.words()
    with pytest.raises(InputError, match="the same inputs"):
        analysis.compare(slope, smooth(LINE, lambda p: p["t"]))


def test_expected_feasibility_and_improvement_are_the_integrals_they_stand_for(plane):
    belief, x = Belief.of(plane.learned), np.random.default_rng(0).random((5, 2))
    mixture = plane.learned.posterior.predict(x)
    level = float(np.mean(plane.learned.y))
    limit = plane.learned.scale.transform(level)
    grid = np.linspace(-30, 30, 120_001)
    density = sum(
        w * stats.norm.pdf(grid[:, None], m, np.sqrt(v))
        for w, m, v in zip(mixture.weights, mixture.means, mixture.variances, strict=True)
    )
    width = 2 * np.asarray(mixture.std())
    expected = np.trapezoid(density * np.maximum(width - np.abs(grid[:, None] - limit), 0), grid, axis=0)
    np.testing.assert_allclose(Contour(level).score(plane.learned, x), expected, rtol=1e-3)
    best = plane.learned.posterior.predict(belief.data.x).mean()
    gain = np.trapezoid(density * np.maximum(grid[:, None] - best.max(), 0), grid, axis=0)
    np.testing.assert_allclose(np.exp(ExpectedImprovement().score(plane.learned, x)), gain, rtol=1e-3, atol=1e-6)
    loss = np.trapezoid(density * np.maximum(best.min() - grid[:, None], 0), grid, axis=0)
    np.testing.assert_allclose(np.exp(ExpectedImprovement(minimize=True).score(plane.learned, x)), loss, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("criterion", [Contour(), ExpectedImprovement(), ExpectedImprovement(minimize=True)])
def test_goals_have_gradients(criterion, slope):
    belief = Belief.of(slope.learned)
    x, h = 0.2 + 0.6 * np.random.default_rng(1).random((3, 2)), 1e-5
    slope = np.asarray(float64(jax.grad(lambda u: criterion.measure(belief, u).sum()))(x))
    for k in range(2):
        up, down = (criterion.measure(belief, x + s * h * np.eye(2)[k]) for s in (1, -1))
        np.testing.assert_allclose(slope[:, k], (up - down) / (2 * h), rtol=1e-3, atol=1e-5)


def test_the_logarithm_goes_on_far_below_the_best():
    """Where the improvement underflows its logarithm still falls, and smoothly over the join of series."""
    model = smooth(LINE, lambda p: p["t"], 0.3, n=12)
    t = np.linspace(0.0, 0.9, 200)[:, None]
    scores = ExpectedImprovement().score(model.learned, t)
    assert np.isfinite(scores).all() and scores.min() < -1000


def test_settings_of_goals_belong_to_them():
    assert as_goal("contour", 0.3) == Contour(0.3) and as_goal("optimum", minimize=True) == ExpectedImprovement(True)
    with pytest.raises(InputError, match='belongs to the acquisition "contour"'):
        as_goal("entropy", 0.3)
    with pytest.raises(InputError, match='belongs to the acquisition "optimum"'):
        as_goal("alc", minimize=True)
    with pytest.raises(InputError, match="finite number"):
        Contour(np.nan)
