"""The Gaussian mixture: summaries, scores and entropies against exact values and SciPy, and what it refuses."""

from itertools import pairwise

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from hyperleaf.errors import InputError
from hyperleaf.mixture import (
    Mixture,
    mixture_entropy,
    mixture_entropy_with_error,
    mixture_log_prob,
    mixture_quantile,
)
from hyperleaf.precision import float64

GAUSSIAN = 0.5 * np.log(2 * np.pi * np.e)


def random_mixture(seed, draws=5, candidates=6, spread=1.0, log_std=0.5, noise=False):
    rng = np.random.default_rng(seed)
    return Mixture(
        rng.dirichlet(np.ones(draws)),
        spread * rng.normal(size=(draws, candidates)),
        np.exp(2 * log_std * rng.normal(size=(draws, candidates))),
        rng.uniform(0.1, 1, draws) if noise else None,
    )


def density(mixture, j):
    return lambda y: float(mixture.weights @ norm.pdf(y, mixture.means[:, j], np.sqrt(mixture.variances[:, j])))


def integrate(function, mixture, j):
    """SciPy's adaptive rule between all component means and multiples of their sds."""
    std = np.sqrt(mixture.variances[:, j])
    edges = np.unique(mixture.means[:, j, None] + std[:, None] * np.array([-12, -8, -5, -3, -1, 0, 1, 3, 5, 8, 12]))
    return sum(quad(function, a, b, epsabs=1e-11)[0] for a, b in pairwise(edges))


def entropy_by_scipy(mixture, j):
    p = density(mixture, j)
    return integrate(lambda y: -p(y) * np.log(max(p(y), 1e-300)), mixture, j)


@pytest.mark.parametrize("std", [1e-6, 0.03, 1.0, 50.0, 1e5])
@pytest.mark.parametrize("method", ["quadrature", "moments"])
def test_entropy_of_one_gaussian_is_exact(std, method):
    mixture = Mixture([1.0], [[-3.0, 0.0, 1e3 * std]], np.full((1, 3), std**2))
    np.testing.assert_allclose(mixture.entropy(method), np.log(std) + GAUSSIAN, atol=1e-9)


@pytest.mark.parametrize(("spread", "log_std"), [(0.1, 0.1), (1.0, 0.5), (5.0, 0.3), (30.0, 0.3), (1.0, 2.0), (100.0, 3.0)])
def test_entropy_agrees_with_scipy(spread, log_std):
    mixture = random_mixture(3, candidates=4, spread=spread, log_std=log_std)
    np.testing.assert_allclose(mixture.entropy(), [entropy_by_scipy(mixture, j) for j in range(4)], atol=1e-6)


@pytest.mark.parametrize("gap", [30.0, 1e3, 1e6])
def test_entropy_of_separated_components_adds_up(gap):
    weights, std = np.array([0.2, 0.5, 0.3]), np.array([1.0, 0.01, 0.3])
    mixture = Mixture(weights, gap * np.arange(3.0)[:, None], std[:, None] ** 2)
    expected = weights @ (np.log(std) + GAUSSIAN - np.log(weights))
    np.testing.assert_allclose(mixture.entropy(), expected, atol=1e-6)


@pytest.mark.parametrize("offset", [0.0, 0.5, 4.0])
def test_entropy_of_widths_a_thousandfold_apart(offset):
    mixture = Mixture([0.5, 0.5], [[0.0], [offset]], [[1e-6], [1.0]])
    expected = entropy_by_scipy(mixture, 0)
    np.testing.assert_allclose(mixture.entropy(), expected, atol=1e-6)
    np.testing.assert_allclose(
        float64(lambda: np.asarray(mixture_entropy(*map(jnp.asarray, parts(mixture)))))(), expected, atol=1e-6
    )


def parts(mixture):
    return mixture.weights, mixture.means, mixture.variances


def test_spikes_scattered_over_a_wide_component_are_all_resolved():
    rng = np.random.default_rng(0)
    mixture = Mixture(np.ones(24), rng.uniform(-3, 3, (24, 2)), np.where(np.arange(24) < 12, 1e-8, 1.0)[:, None] * np.ones(2))
    np.testing.assert_allclose(mixture.entropy(), [entropy_by_scipy(mixture, j) for j in range(2)], atol=1e-6)


def test_refined_candidates_keep_their_places():
    easy, hard = random_mixture(0, 5, 40, 0.1, 0.1), random_mixture(1, 5, 40, 1.0, 3.0)
    order = np.random.default_rng(0).permutation(40) % 2 == 0
    mixture = Mixture(np.ones(5), np.where(order, easy.means, hard.means), np.where(order, easy.variances, hard.variances))
    np.testing.assert_allclose(mixture.entropy(), [mixture[j].entropy()[0] for j in range(40)], atol=1e-9)


@float64
def test_error_estimate_bounds_the_error_where_it_promises_accuracy():
    mixture = random_mixture(5, candidates=400, spread=2.0, log_std=1.0)
    exact = mixture.entropy(tolerance=0.0)
    entropy, error = mixture_entropy_with_error(*map(jnp.asarray, parts(mixture)), num_nodes=96)
    promised = np.asarray(error) < 1e-5
    assert 20 < promised.sum() < 390
    assert np.all(np.abs(np.asarray(entropy) - exact)[promised] <= np.asarray(error)[promised] + 1e-12)


@float64
def test_entropy_gradient_agrees_with_finite_differences():
    mixture = random_mixture(2, draws=4, candidates=3)
    direction = np.random.default_rng(0).normal(size=(2, 4, 3))

    def along(t):
        return mixture_entropy(
            jnp.asarray(mixture.weights),
            mixture.means + t * direction[0],
            mixture.variances * jnp.exp(t * direction[1]),
        )

    slope = jax.jacfwd(along)(0.0)
    reverse = jax.jacrev(along)(0.0)
    h = 1e-4
    np.testing.assert_allclose(slope, (along(h) - along(-h)) / (2 * h), atol=1e-5 / 10)
    np.testing.assert_allclose(slope, reverse, atol=1e-12)


def test_taylor_entropies():
    one = Mixture([1.0], [[2.0]], [[4.0]])
    np.testing.assert_allclose(one.entropy("taylor1"), 0.5 * np.log(2 * np.pi * 4))
    np.testing.assert_allclose(one.entropy("taylor2"), np.log(2) + GAUSSIAN)
    near = random_mixture(4, draws=5, spread=0.1, log_std=0.05)
    np.testing.assert_allclose(near.entropy("taylor2"), near.entropy(), atol=0.01)
    # curvature of log p by differences of log_prob, on a mixture where it matters
    far = random_mixture(4, draws=3, candidates=2, spread=1.0)
    h = 1e-4
    values = [far.log_prob(far.means + step) for step in (-h, 0.0, h)]
    curvature = (values[0] - 2 * values[1] + values[2]) / h**2
    expected = -far.weights @ (values[1] + 0.5 * far.variances * curvature)
    np.testing.assert_allclose(far.entropy("taylor2"), expected, rtol=1e-6)


def test_sampled_entropy_is_within_its_standard_error():
    mixture = random_mixture(6)
    sampled = mixture.entropy("sampling", key=jax.random.key(1), num_samples=20_000)
    spread = mixture.log_prob(mixture.sample(jax.random.key(2), 20_000)).std(axis=0) / np.sqrt(20_000)
    assert np.all(np.abs(sampled - mixture.entropy()) < 4.5 * spread)


def test_moments_cdf_and_log_prob_agree_with_integrals():
    mixture = random_mixture(7)
    y = np.random.default_rng(0).normal(size=6)
    for j in range(6):
        p = density(mixture, j)
        mean = integrate(lambda t: t * p(t), mixture, j)  # noqa: B023
        assert mixture.mean()[j] == pytest.approx(mean, abs=1e-8)
        assert mixture.var()[j] == pytest.approx(integrate(lambda t: (t - mean) ** 2 * p(t), mixture, j), abs=1e-8)  # noqa: B023
        assert mixture.log_prob(y)[j] == pytest.approx(np.log(p(y[j])), abs=1e-12)
        low = mixture.means[:, j].min() - 12 * np.sqrt(mixture.variances[:, j].max())
        assert mixture.cdf(y)[j] == pytest.approx(quad(p, low, y[j], epsabs=1e-11, limit=200)[0], abs=1e-8)
    np.testing.assert_allclose(mixture.std() ** 2, mixture.var())
    np.testing.assert_allclose(mixture.probability(-1.0, y), np.maximum(mixture.cdf(y) - mixture.cdf(-1.0), 0))


def test_log_prob_far_in_the_tail_is_finite():
    assert Mixture([1.0], [[0.0]], [[1.0]]).log_prob([100.0])[0] == pytest.approx(-5000 - 0.5 * np.log(2 * np.pi))


def test_crps_agrees_with_its_definition():
    mixture = random_mixture(8)
    y = np.random.default_rng(1).normal(size=6)
    for j in range(6):
        one = mixture[j]
        std = np.sqrt(mixture.variances[:, j].max())
        grid = np.linspace(mixture.means[:, j].min() - 10 * std, mixture.means[:, j].max() + 10 * std, 20_001)
        below, above = (np.append(grid[grid < y[j]], y[j]), np.append(y[j], grid[grid > y[j]]))
        squares = (
            np.trapezoid(one.cdf(below[:, None])[:, 0] ** 2, below),
            np.trapezoid((one.cdf(above[:, None])[:, 0] - 1) ** 2, above),
        )
        assert mixture.crps(y)[j] == pytest.approx(sum(squares), abs=1e-5)


def test_quantile_inverts_the_cdf_to_nine_digits():
    levels = np.array([1e-6, 0.01, 0.1, 0.5, 0.77, 0.99, 1 - 1e-6])
    for spread, log_std in ((0.5, 0.3), (50.0, 0.3), (1.0, 3.0)):
        mixture = random_mixture(9, spread=spread, log_std=log_std)
        quantile = mixture.quantile(levels)
        assert quantile.shape == (7, 6)
        scale = 1e-9 * np.maximum(mixture.std(), 1.0)
        assert np.all(mixture.cdf(quantile - scale) < levels[:, None])
        assert np.all(mixture.cdf(quantile + scale) > levels[:, None])
    standard = Mixture([1.0], [[3.0]], [[4.0]])
    np.testing.assert_allclose(standard.quantile(levels)[:, 0], 3 + 2 * norm.ppf(levels), rtol=1e-12)
    assert standard.quantile(0.5).shape == (1,)
    np.testing.assert_array_equal(standard.quantile([0.0, 1.0])[:, 0], [-np.inf, np.inf])


def test_interval_holds_its_probability():
    mixture = random_mixture(10)
    low, high = mixture.interval(0.9)
    np.testing.assert_allclose(mixture.probability(low, high), 0.9, atol=1e-9)
    np.testing.assert_allclose(mixture.cdf(low), 0.05, atol=1e-9)


@float64
def test_quantile_is_differentiable():
    mixture = random_mixture(11, draws=3, candidates=2)
    weights, means, variances = map(jnp.asarray, parts(mixture))
    q = jnp.asarray([0.2, 0.9])

    def value(t):
        return mixture_quantile(weights, means + t * jnp.sin(3 * means), variances * jnp.exp(t), q)

    slope = jax.jacrev(value)(0.0)
    np.testing.assert_allclose(slope, (value(1e-5) - value(-1e-5)) / 2e-5, atol=1e-6)


def test_point_masses_give_no_nan():
    mixture = Mixture([0.25, 0.25, 0.5], [[0.0], [2.0], [5.0]], [[0.0], [0.0], [1.0]])
    assert mixture.entropy() == -np.inf
    assert mixture.entropy("taylor2") == -np.inf
    assert mixture.log_prob([2.0]) == np.inf
    assert mixture.log_prob([1.0])[0] == pytest.approx(np.log(0.5) + norm.logpdf(1, 5))
    assert mixture.cdf([2.0])[0] == pytest.approx(0.5 + 0.5 * norm.cdf(-3))
    np.testing.assert_allclose(mixture.quantile([0.1, 0.4])[:, 0], [0.0, 2.0], atol=1e-9)
    point = Mixture([1.0, 0.0], [[3.0], [9.0]], [[0.0], [0.0]])
    np.testing.assert_array_equal(point.quantile([0.0, 0.3, 1.0])[:, 0], [3.0, 3.0, 3.0])
    assert point.crps([1.0])[0] == pytest.approx(2.0)
    assert point.crps([3.0])[0] == 0.0
    assert point.log_prob([1.0]) == -np.inf
    assert point.log_prob([9.0]) == -np.inf
    assert np.isfinite(mixture.crps([2.0])).all()


def test_components_of_weight_zero_do_not_matter():
    base = random_mixture(12)
    far = Mixture(
        np.append(base.weights, 0.0), np.vstack([base.means, np.full(6, 1e9)]), np.vstack([base.variances, np.zeros(6)])
    )
    np.testing.assert_allclose(far.entropy(), base.entropy(), atol=1e-9)
    unrefined = float64(lambda: np.asarray(mixture_entropy(*map(jnp.asarray, parts(far)), num_nodes=120)))()
    np.testing.assert_allclose(unrefined, base.entropy(), atol=1e-6)
    np.testing.assert_allclose(far.quantile(0.3), base.quantile(0.3), atol=1e-9)
    np.testing.assert_allclose(far.log_prob(1.0), base.log_prob(1.0))


def test_noisy_adds_each_draws_own_noise_once():
    mixture = random_mixture(13, noise=True)
    noisy = mixture.noisy()
    np.testing.assert_allclose(noisy.variances, mixture.variances + mixture.noise[:, None])
    np.testing.assert_array_equal(noisy.noise, 0)
    np.testing.assert_array_equal(noisy.noisy().variances, noisy.variances)


def test_sample_moments_are_within_their_standard_error():
    mixture = random_mixture(14)
    draws = mixture.sample(jax.random.key(3), (200, 200)).reshape(-1, 6)
    error = mixture.std() / np.sqrt(len(draws))
    assert np.all(np.abs(draws.mean(axis=0) - mixture.mean()) < 4.5 * error)
    squared = (draws - mixture.mean()) ** 2
    assert np.all(np.abs(squared.mean(axis=0) - mixture.var()) < 4.5 * squared.std(axis=0) / np.sqrt(len(draws)))
    below = draws < mixture.quantile(0.3)
    assert np.all(np.abs(below.mean(axis=0) - 0.3) < 4.5 * np.sqrt(0.21 / len(draws)))
    correlation = np.corrcoef(draws.T)[np.triu_indices(6, 1)]
    assert np.all(np.abs(correlation) < 4.5 / np.sqrt(len(draws)))


def test_candidates_are_taken_and_joined():
    mixture = random_mixture(15, noise=True)
    assert len(mixture) == 6 and len(mixture[2:]) == 4 and len(list(mixture)) == 6
    np.testing.assert_array_equal(mixture[-1].means[:, 0], mixture.means[:, 5])
    np.testing.assert_array_equal(mixture[np.array([True, False] * 3)].means, mixture.means[:, ::2])
    np.testing.assert_array_equal(mixture.take([4, 1]).variances, mixture.variances[:, [4, 1]])
    joined = Mixture.concatenate([mixture[:2], mixture[2:]])
    np.testing.assert_array_equal(joined.means, mixture.means)
    np.testing.assert_array_equal(joined.noise, mixture.noise)
    assert len(mixture[:0]) == 0 and mixture[:0].entropy().shape == (0,)
    with pytest.raises(InputError, match="same draws"):
        Mixture.concatenate([mixture, random_mixture(16)])
    with pytest.raises(InputError, match="indices"):
        mixture.take([6])
    with pytest.raises(IndexError):
        mixture[6]


def test_noise_may_differ_between_candidates():
    plain = random_mixture(15, noise=True)
    noise = np.random.default_rng(0).uniform(0.1, 1, plain.means.shape)
    mixture = Mixture(plain.weights, plain.means, plain.variances, noise)
    np.testing.assert_allclose(mixture.noisy().variances, plain.variances + noise)
    np.testing.assert_array_equal(mixture.take([3, 0]).noise, noise[:, [3, 0]])
    np.testing.assert_array_equal(Mixture.concatenate([mixture[:2], plain[2:]]).noise[:, :2], noise[:, :2])
    both = Mixture.combine([mixture, plain], [0.5, 0.5])
    np.testing.assert_array_equal(both.noise[:5], noise)
    np.testing.assert_array_equal(both.noise[5:], np.repeat(plain.noise[:, None], 6, axis=1))
    np.testing.assert_allclose(mixture.affine(1.0, 2.0).noise, 4 * noise)
    with pytest.raises(InputError, match="noise must have one entry per draw"):
        Mixture(plain.weights, plain.means, plain.variances, noise[:, :2])


def test_combine_averages_the_densities():
    first, second = random_mixture(17, draws=3, noise=True), random_mixture(18, draws=5, noise=True)
    both = Mixture.combine([first, second], [1.0, 3.0])
    expected = 0.25 * np.exp(first.log_prob(0.4)) + 0.75 * np.exp(second.log_prob(0.4))
    np.testing.assert_allclose(np.exp(both.log_prob(0.4)), expected)
    noisy = 0.25 * np.exp(first.noisy().log_prob(0.4)) + 0.75 * np.exp(second.noisy().log_prob(0.4))
    np.testing.assert_allclose(np.exp(both.noisy().log_prob(0.4)), noisy)
    with pytest.raises(InputError, match="one weight per mixture"):
        Mixture.combine([first, second], [1.0])
    with pytest.raises(InputError, match="same candidates"):
        Mixture.combine([first, second[:2]], [0.5, 0.5])


def test_users_get_float64_numpy_arrays_without_global_settings():
    mixture = random_mixture(19)
    results = [mixture.mean(), mixture.var(), mixture.std(), mixture.quantile(0.5), mixture.cdf(0.0), mixture.log_prob(0.0)]
    results += [mixture.crps(0.0), mixture.entropy(), mixture.entropy("taylor1"), mixture.sample(jax.random.key(0), 3)]
    assert all(type(result) is np.ndarray and result.dtype == np.float64 for result in results)
    assert not jax.config.jax_enable_x64
    assert results[-1].shape == (3, 6)


@float64
def test_a_mixture_is_made_and_used_inside_compiled_and_differentiated_code():
    mixture = random_mixture(20)

    @eqx.filter_jit
    def build(shift):
        made = Mixture(2 * mixture.weights, mixture.means + shift, mixture.variances)
        return made.affine(0.0, 2.0)[:3], made.entropy().sum(), made.log_prob(0.1)

    made, entropy, log_prob = build(jnp.asarray(1.0))
    assert isinstance(made, Mixture)
    np.testing.assert_allclose(made.weights, mixture.weights)
    np.testing.assert_allclose(made.mean(), 2 * (mixture.mean()[:3] + 1))
    np.testing.assert_allclose(entropy, mixture.entropy().sum(), atol=1e-6)
    np.testing.assert_allclose(log_prob, mixture.log_prob(-0.9))
    gradient = jax.grad(
        lambda scale: Mixture(mixture.weights, mixture.means * scale, mixture.variances * scale**2).entropy().sum()
    )
    assert gradient(2.0) == pytest.approx(6 / 2.0, abs=1e-5)
    assert np.all(
        np.isfinite(jax.grad(lambda m: mixture_log_prob(mixture.weights, m, mixture.variances, m[:1]).sum())(mixture.means))
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0.5, -0.5], [[0.0], [0.0]], [[1.0], [1.0]]), r"weights must be >= 0; the smallest is -0.5"),
        (([0.0, 0.0], [[0.0], [0.0]], [[1.0], [1.0]]), r"positive sum; got 0"),
        (([1.0], [[0.0]], [[-1e-3]]), r"variances must be >= 0; the smallest is -0.001"),
        (([1.0], [[0.0]], [[1.0]], [-1.0]), r"noise must be >= 0"),
        (([1.0], [[np.nan]], [[1.0]]), r"means must be finite; entry \[0, 0\]"),
        (([1.0], [0.0], [1.0]), r"\(draws, candidates\)"),
        (([1.0], [[0.0, 1.0]], [[1.0]]), r"got \(1, 2\) and \(1, 1\)"),
        (([1.0, 1.0], [[0.0]], [[1.0]]), r"one entry per draw, \(1,\); got \(2,\)"),
        ((["a"], [[0.0]], [[1.0]]), r"weights must be an array of numbers"),
    ],
)
def test_bad_arrays_are_refused_with_rule_value_and_remedy(arguments, message):
    with pytest.raises(InputError, match=message):
        Mixture(*arguments)


def test_bad_questions_are_refused():
    mixture = random_mixture(21)
    for question, message in [
        (lambda: mixture.quantile(50), r"q must lie in \[0, 1\]; got 50"),
        (lambda: mixture.interval(95), r"probability must lie in \[0, 1\]"),
        (lambda: mixture.log_prob([1.0, 2.0]), r"one entry per candidate in its last axis, \(6,\); got \(2,\)"),
        (lambda: mixture.crps(np.nan), r"y must be finite"),
        (lambda: mixture.affine(0.0, 0.0), r"scale not 0"),
        (lambda: mixture.entropy("exact"), r"got 'exact'"),
        (lambda: mixture.entropy("sampling"), r"needs a key"),
        (lambda: Mixture.concatenate([]), r"at least one"),
    ]:
        with pytest.raises(InputError, match=message):
            question()
