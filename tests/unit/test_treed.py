"""The treed GP's parts: trees and their prior, the leaf's marginal, prediction, warm starts, small data."""

from dataclasses import replace as altered

import jax
import numpy as np
import pytest
from scipy import integrate, stats

from hyperleaf.data import Dataset
from hyperleaf.errors import DataError, InputError
from hyperleaf.mixture import Mixture
from hyperleaf.surrogates.files import posterior_from_arrays, posterior_to_arrays
from hyperleaf.surrogates.treed import TreedGP
from hyperleaf.surrogates.treed.leaf import LeafModel, draw_lengths, log_prior_lengths, trend_columns
from hyperleaf.surrogates.treed.moves import swap
from hyperleaf.surrogates.treed.sampler import Draw, Sampler
from hyperleaf.surrogates.treed.tree import Grid, Split, height, leaf_paths, num_leaves, partition, prunable, replace

QUICK = TreedGP(burn_in=100, total=300, thin=2, warm_burn_in=50)
FULL = altered(QUICK, min_leaf=3)


def mixture_takes_noise_per_candidate() -> bool:
    try:
        Mixture(np.ones(1), np.zeros((1, 2)), np.ones((1, 2)), np.ones((1, 2)))
    except InputError:
        return False
    return True


def wavy(n: int, d: int = 1, seed: int = 0) -> Dataset:
    rng = np.random.default_rng(seed)
    x = rng.random((n, d))
    return Dataset(x, np.where(x[:, 0] < 0.5, np.sin(12 * x[:, 0]), 2.0 + x.sum(1)) + 0.05 * rng.standard_normal(n))


# --- trees


TREE = Split(0, 3, Split(1, 2), Split(0, 6, None, Split(1, 5)))


def test_what_is_kept_for_convenience_stays_out_of_files():
    data = Dataset(np.random.default_rng(0).random((30, 2)), np.arange(30.0))
    posterior = TreedGP(burn_in=10, total=40).fit(data, key=jax.random.key(0))
    before = set(posterior_to_arrays(posterior)[0])
    posterior.predict(np.random.default_rng(1).random((5, 2)))
    assert posterior._cache and set(posterior_to_arrays(posterior)[0]) == before
    arrays, meta = posterior_to_arrays(posterior)
    meta["posterior"]["fields"]["_cache"] = {"list": []}  # as older files have it
    assert not posterior_from_arrays(arrays, meta)._cache


def test_rows_fall_where_points_with_their_coordinates_fall():
    data = wavy(12, 2)
    grid = Grid.of(data.x)
    rows = partition(TREE, grid.ranks, np.arange(12))
    leaf = grid.leaf_of(TREE, data.x)
    assert sorted(np.concatenate(rows)) == list(range(12))
    for number, part in enumerate(rows):
        assert (leaf[part] == number).all()


def test_rectangles_tile_the_cube_and_hold_their_rows():
    data = wavy(12, 2)
    grid = Grid.of(data.x)
    corners = grid.rectangles(TREE)
    assert np.isclose(np.prod(corners[:, 1] - corners[:, 0], axis=1).sum(), 1.0)
    for part, (low, high) in zip(partition(TREE, grid.ranks, np.arange(12)), corners, strict=True):
        assert ((data.x[part] >= low) & (data.x[part] <= high)).all()


def test_counting_and_editing_trees():
    assert (num_leaves(TREE), height(TREE), len(leaf_paths(TREE))) == (5, 3, 5)
    assert prunable(TREE) == [(0,), (1, 1)]
    assert replace(TREE, (1, 1), None) == Split(0, 3, Split(1, 2), Split(0, 6))
    assert replace(TREE, (), None) is None


def test_rotation_leaves_every_leaf_its_rows_and_undoes_itself():
    grid = Grid.of(wavy(12).x)
    tree = Split(0, 7, Split(0, 2, None, Split(0, 4)), Split(0, 9))
    rows = partition(tree, grid.ranks, np.arange(12))
    reached = set()
    for seed in range(40):
        there = swap(tree, grid, np.random.default_rng(seed))
        assert there is not None and there.kind == "rotate"
        reached.add(there.tree)
        for old, new in zip(rows, partition(there.tree, grid.ranks, np.arange(12)), strict=True):
            assert np.array_equal(old, new)
        back = {swap(there.tree, grid, np.random.default_rng(s)).tree for s in range(40)}  # type: ignore[union-attr]
        assert tree in back
    assert len(reached) == 3


def test_locations_are_proposed_with_half_the_mass_on_each_side_of_the_middle():
    x = np.array([[0.05], [0.1], [0.2], [0.3], [0.4], [0.4], [0.72], [0.95]])
    grid = Grid.of(x)
    ranks, probabilities = grid.locations(0, grid.box[0])
    values = grid.values[0][ranks]
    assert list(values) == [0.05, 0.1, 0.2, 0.3, 0.4, 0.72]  # a split at the largest value would leave the right empty
    assert np.isclose(probabilities[values < 0.5].sum(), 0.5) and np.isclose(probabilities[values > 0.5].sum(), 0.5)
    # by distance: 0.4, 0.3, 0.72, 0.2, 0.1, 0.05; the value 0.4 was seen twice
    left = np.array([1 / 6, 1 / 5, 1 / 4, 1 / 2, 2 / 1])
    np.testing.assert_allclose(probabilities[:5], 0.5 * left / left.sum())
    ranks, probabilities = grid.locations(0, (4, 6))  # 0.4 < v < 0.95: all on one side of the middle
    assert np.isclose(probabilities.sum(), 1.0)
    assert len(grid.locations(0, (4, 5))[0]) == 0


def test_prior_of_a_tree_by_hand():
    grid = Grid.of(np.array([[0.1, 0.2], [0.4, 0.2], [0.9, 0.7]]))
    tree = Split(1, 0, Split(0, 0))
    expected = 0.5 * (2 / 6) * (0.125 * (1 / 6)) * (1 - 1 / 18) ** 2 * (1 - 0.125)
    assert np.isclose(grid.log_prior(tree), np.log(expected))


def test_a_tree_keeps_its_meaning_on_a_finer_grid():
    data, more = wavy(12, 2), wavy(9, 2, seed=1)
    coarse, fine = Grid.of(data.x), Grid.of(np.concatenate([data.x, more.x]))
    points = np.random.default_rng(2).random((200, 2))
    assert np.array_equal(coarse.leaf_of(TREE, points), fine.leaf_of(coarse.translate(TREE, fine), points))


# --- the leaf


def test_marginal_equals_the_integral_over_slope_and_variance():
    """∫∫ N(z; β, σ²K) IG(σ²; a/2, q/2) (2π)^(-1/2) dβ dσ², by quadrature."""
    x, z, a, q, lengths, nugget = np.array([[0.1], [0.35], [0.8]]), np.array([0.3, -0.2, 0.4]), 4.0, 0.7, (0.2,), 0.3
    model = LeafModel(x, z, "constant", 0)
    leaf = model.leaf(model.block(np.arange(3)), lengths, nugget)
    assert leaf is not None
    k = np.exp(-((x - x.T) ** 2) / 0.2) + nugget * np.eye(3)

    inverse, variances = np.linalg.inv(k), np.exp(np.linspace(-7, 9, 400))
    standard = np.linspace(-12, 12, 600)  # of β around 0.2, in units of σ: wide enough for the conditional of β
    beta = 0.2 + standard * np.sqrt(variances)[:, None]
    distance = np.einsum("vbi,ij,vbj->vb", z - beta[..., None], inverse, z - beta[..., None])
    determinant = (2 * np.pi * variances[:, None]) ** 3 * np.linalg.det(k)
    density = np.exp(-0.5 * distance / variances[:, None]) / np.sqrt(determinant)
    over_beta = integrate.simpson(density, x=standard, axis=1) * np.sqrt(variances / (2 * np.pi))
    prior = stats.invgamma(a / 2, scale=q / 2).pdf(variances)
    value = integrate.simpson(over_beta * prior * variances, x=np.log(variances))
    assert np.isclose(leaf.log_marginal(a, q), np.log(value), atol=1e-4)


@pytest.mark.parametrize("trend", ["linear", "constant", "none"])
def test_marginal_follows_the_formula_and_the_nugget_step_agrees(trend):
    data, rng = wavy(15, 3), np.random.default_rng(0)
    model = LeafModel(data.x, data.y, trend, 0)
    lengths = draw_lengths(3, rng)
    leaf = model.leaf(model.block(np.arange(15)), lengths, 0.2)
    k = np.exp(-(((data.x[:, None] - data.x) ** 2) / np.array(lengths)).sum(-1)) + 0.2 * np.eye(15)
    f, inverse = trend_columns(data.x, trend), np.linalg.inv(k)
    v = np.linalg.inv(f.T @ inverse @ f) if f.size else np.zeros((0, 0))
    beta = v @ f.T @ inverse @ data.y
    residual = data.y @ inverse @ data.y - beta @ f.T @ inverse @ data.y
    constant = 0.5 * (np.linalg.slogdet(v)[1] - 15 * np.log(2 * np.pi) - np.linalg.slogdet(k)[1])
    assert leaf is not None and leaf.dof == 15 - f.shape[1]
    np.testing.assert_allclose([leaf.constant, leaf.residual], [constant, residual], rtol=1e-8)
    other = model.leaf(model.block(np.arange(15)), lengths, 0.9)
    again = model.with_nugget(other, 0.2)  # type: ignore[arg-type]
    assert again is not None and np.isclose(again.constant, leaf.constant) and np.isclose(again.residual, leaf.residual)


def test_length_prior_is_a_normalised_mixture_and_its_draws_follow_it():
    density = lambda d: np.exp(log_prior_lengths((d,)))  # noqa: E731
    assert np.isclose(integrate.quad(density, 0, 6, points=[0.01, 0.2, 1.0])[0], 1.0, atol=1e-6)
    by_scipy = 0.5 * stats.gamma(1, scale=1 / 20).pdf(0.3) + 0.5 * stats.gamma(10, scale=1 / 10).pdf(0.3)
    assert np.isclose(density(0.3), by_scipy)
    rng = np.random.default_rng(0)
    draws = np.concatenate([draw_lengths(50, rng) for _ in range(80)])
    cdf = lambda d: 0.5 * stats.gamma(1, scale=1 / 20).cdf(d) + 0.5 * stats.gamma(10, scale=1 / 10).cdf(d)  # noqa: E731
    assert stats.kstest(draws, cdf).pvalue > 1e-3


def test_a_leaf_with_a_singular_design_or_too_few_rows_is_invalid():
    x = np.random.default_rng(0).random((12, 2))
    x[:6, 1] = 0.5
    model = LeafModel(x, np.zeros(12), "linear", 3)
    assert not model.is_valid(np.arange(6)) and model.is_valid(np.arange(7)) and not model.is_valid(np.arange(6, 9))
    assert LeafModel(x, np.zeros(12), "constant", 3).is_valid(np.arange(6))


# --- prediction


def dense(posterior, draw, x, uncertain):
    """The same prediction without Cholesky tricks: leaf by leaf with explicit inverses."""
    data, grid = posterior.data, posterior.grid
    z = (data.y - posterior.center) / posterior.width
    mean, variance = np.empty(len(x)), np.empty(len(x))
    for number in range(num_leaves(draw.tree)):
        rows, at = grid.leaf_of(draw.tree, data.x) == number, grid.leaf_of(draw.tree, x) == number
        root = np.sqrt(draw.lengths[number])
        kernel = lambda p, r, root=root: np.exp(-(((p[:, None] - r) / root) ** 2).sum(-1))  # noqa: E731
        inverse = np.linalg.inv(kernel(data.x[rows], data.x[rows]) + draw.nuggets[number] * np.eye(rows.sum()))
        f, fx = trend_columns(data.x[rows], posterior.trend), trend_columns(x[at], posterior.trend)
        v = np.linalg.inv(f.T @ inverse @ f)
        beta = v @ f.T @ inverse @ z[rows]
        k = kernel(x[at], data.x[rows])
        h = fx - k @ inverse @ f
        mean[at] = fx @ beta + k @ inverse @ (z[rows] - f @ beta)
        spread = 1 - np.einsum("mi,ij,mj->m", k, inverse, k) + uncertain * np.einsum("mi,ij,mj->m", h, v, h)
        variance[at] = draw.variances[number] * spread
    return posterior.center + posterior.width * mean, posterior.width**2 * variance


@pytest.mark.parametrize("uncertain", [True, False])
def test_prediction_equals_the_dense_formula_in_every_leaf(uncertain):
    posterior = altered(FULL, trend_uncertainty=uncertain).fit(wavy(30, 2), key=jax.random.key(0))
    x = np.random.default_rng(5).random((40, 2))
    means, variances, noise = posterior.moments(x)
    draws = posterior.components()
    assert means.shape == variances.shape == noise.shape == (len(draws), 40)
    i = max(range(len(draws)), key=lambda j: num_leaves(draws[j].tree))
    assert num_leaves(draws[i].tree) > 1
    mean, variance = dense(posterior, draws[i], x, uncertain)
    np.testing.assert_allclose(means[i], mean, atol=1e-8)
    np.testing.assert_allclose(variances[i], variance, atol=1e-8)
    leaf = posterior.grid.leaf_of(draws[i].tree, x)
    expected = posterior.width**2 * np.array(draws[i].variances)[leaf] * np.array(draws[i].nuggets)[leaf]
    np.testing.assert_allclose(noise[i], expected)


def test_trend_uncertainty_is_the_limit_of_a_wide_prior_on_the_coefficients():
    posterior = altered(QUICK, tree=False).fit(wavy(10), key=jax.random.key(1))
    x, draw = np.array([[0.2], [0.55], [1.3]]), Draw(None, ((0.3,),), (0.05,), (1.2,), 5.0, 1.0)
    kernel = lambda p, r: np.exp(-((p - r.T) ** 2) / draw.lengths[0][0]) + 1e4 * (1 + p @ r.T)  # noqa: E731
    rows, z = posterior.data.x, (posterior.data.y - posterior.center) / posterior.width
    k, weights = kernel(x, rows), np.linalg.inv(kernel(rows, rows) + draw.nuggets[0] * np.eye(10))
    means, variances, _ = posterior.moments(x, (draw,))
    np.testing.assert_allclose((means[0] - posterior.center) / posterior.width, k @ weights @ z, rtol=1e-3)
    spread = draw.variances[0] * np.diag(kernel(x, x) - k @ weights @ k.T)
    np.testing.assert_allclose(variances[0] / posterior.width**2, spread, rtol=3e-3)


def test_predict_is_a_mixture_of_these_moments_and_a_single_gp_has_one_noise_per_draw():
    x = np.random.default_rng(5).random((7, 1))
    for surrogate, shape in ((altered(FULL, tree=False), (100,)), (FULL, (100, 7))):
        if len(shape) == 2 and not mixture_takes_noise_per_candidate():
            pytest.skip("Mixture takes one noise variance per draw only; a treed GP has one per draw and candidate")
        posterior = surrogate.fit(wavy(30), key=jax.random.key(0))
        means, variances, noise = posterior.moments(x)
        mixture = posterior.predict(x)
        assert noise.shape == shape
        np.testing.assert_allclose(mixture.means, means)
        np.testing.assert_allclose(mixture.variances, variances)
        np.testing.assert_allclose(mixture.noise, noise)
        assert np.all(mixture.noisy().var() > mixture.var())


def test_at_most_so_many_components_evenly_spread():
    posterior = altered(QUICK, max_components=7).fit(wavy(9), key=jax.random.key(0))
    draws = posterior.components()
    assert len(posterior.draws) == 100 and len(draws) == 7 and posterior.predict(np.array([[0.1]])).means.shape == (7, 1)
    assert draws[0] is posterior.draws[0] and draws[-1] is posterior.draws[-1]


@pytest.mark.parametrize("uncertain", [True, False])
def test_joint_agrees_with_predict_and_alc_with_joint(uncertain):
    posterior = altered(FULL, trend_uncertainty=uncertain).fit(wavy(30, 2), key=jax.random.key(0))
    rng = np.random.default_rng(3)
    x, r = rng.random((6, 2)), rng.random((9, 2))
    both = posterior.joint(x, np.concatenate([r, x]))
    means, variances, noise = posterior.moments(x)
    np.testing.assert_allclose(both.mean_x, means)
    np.testing.assert_allclose(both.var_x, variances)
    np.testing.assert_allclose(both.noise, noise)
    np.testing.assert_allclose(both.var_r[:, 9:], variances)
    np.testing.assert_allclose(np.einsum("smm->sm", both.cov[:, :, 9:]), variances, atol=1e-10)
    split = next(i for i, draw in enumerate(posterior.draws) if draw.tree is not None)
    leaf_x, leaf_r = (posterior.grid.leaf_of(posterior.draws[split].tree, p) for p in (x, r))
    assert (both.cov[split, :, :9][leaf_x[:, None] != leaf_r] == 0).all()
    expected = (both.cov[:, :, :9] ** 2).mean(2) / (both.var_x + both.noise)
    np.testing.assert_allclose(posterior.alc(x, r), expected.mean(0))


def test_prediction_does_not_depend_on_the_units_of_y():
    data, x = wavy(26), np.linspace(0, 1, 9)[:, None]
    plain = FULL.fit(data, key=jax.random.key(4)).moments(x)
    moved = FULL.fit(Dataset(data.x, 7.0 - 3.0 * data.y), key=jax.random.key(4)).moments(x)
    np.testing.assert_allclose(moved[0], 7.0 - 3.0 * plain[0], rtol=1e-5)
    np.testing.assert_allclose(moved[1], 9.0 * plain[1], rtol=1e-4, atol=1e-9)


def test_the_best_tree_is_exposed_as_rectangles():
    posterior = altered(QUICK, burn_in=1000, total=3000).fit(wavy(60), key=jax.random.key(0))
    best = posterior.map_tree
    assert best.log_posterior == max(draw.log_posterior for draw in posterior.draws)
    assert best.rectangles.shape == (best.num_leaves, 2, 1) and best.lengths.shape == (best.num_leaves, 1)
    assert best.num_leaves >= 2 and abs(best.rectangles[0, 1, 0] - 0.5) < 0.1 and "x1 ≤" in str(best)


# --- fits


def test_same_key_same_posterior_another_key_another():
    a, b, c = (FULL.fit(wavy(24), key=jax.random.key(k)) for k in (1, 1, 2))
    assert a.draws == b.draws and a.draws != c.draws


def test_update_starts_from_the_last_state_and_contains_the_new_rows():
    posterior = altered(FULL, chains=2).fit(wavy(30, 2), key=jax.random.key(0))
    new = wavy(3, 2, seed=9)
    after = posterior.update(new.x, new.y, key=jax.random.key(1))
    assert after.data.num_observations == 33 and len(after.draws) == len(posterior.draws)
    assert after.diagnostics.extra["rounds"] == 2 * (50 + 200)
    one = after.update(new.x[0] + 0.01, 0.3, key=jax.random.key(2))
    assert one.data.num_observations == 34


def test_an_update_carries_the_tree_over_to_the_finer_grid():
    posterior = FULL.fit(wavy(30, 2), key=jax.random.key(0))
    start = Draw(Split(0, 14, None, Split(1, 15)), ((0.5, 0.5),) * 3, (0.1,) * 3, (1.0,) * 3, 5.0, 1.0)
    new = wavy(5, 2, seed=9)
    # the first of the rounds moves no tree, so it reports the one it was given
    one_round = altered(FULL, burn_in=0, total=1, thin=1, warm_burn_in=0)
    held = one_round.refit(posterior.data.append(new.x, new.y), altered(posterior, last=(start,)), key=jax.random.key(1))
    points = np.random.default_rng(0).random((50, 2))
    assert held.draws[0].tree not in (None, start.tree)
    assert np.array_equal(held.grid.leaf_of(held.draws[0].tree, points), posterior.grid.leaf_of(start.tree, points))


def test_a_start_that_is_no_longer_valid_falls_back_to_one_leaf():
    data = wavy(12)
    model = LeafModel(data.x, data.y, "linear", 10)
    start = Draw(Split(0, 5), ((0.5,), (0.5,)), (0.1, 0.1), (1.0, 1.0), 5.0, 10.0)
    assert Sampler(model, Grid.of(data.x), np.random.default_rng(0), start).tree is None


@pytest.mark.parametrize(
    ("n", "d", "trend"), [(1, 2, "none"), (2, 1, "constant"), (3, 2, "constant"), (4, 2, "linear"), (21, 2, "linear")]
)
def test_few_observations_give_one_leaf_and_the_trend_they_can_carry(n, d, trend):
    posterior = QUICK.fit(wavy(n, d), key=jax.random.key(0))
    assert posterior.trend == trend and posterior.diagnostics.extra["num_leaves"] == {1: 1.0}
    assert any("one leaf" in message for message in posterior.diagnostics.messages)
    assert any("trend reduced" in message for message in posterior.diagnostics.messages) == (trend != "linear")
    means, variances, noise = posterior.moments(np.full((1, d), 0.3))
    assert np.isfinite(means).all() and (variances > 0).all() and (noise > 0).all()


def test_constant_y_repeated_rows_and_known_noise_are_survived():
    x = np.repeat(np.linspace(0, 1, 8), 3)[:, None]
    flat = QUICK.fit(Dataset(x, np.full(24, 2.0), np.full(24, 0.1)), key=jax.random.key(0))
    assert np.allclose(flat.moments(np.array([[0.4]]))[0], 2.0)
    assert any("constant" in message for message in flat.diagnostics.messages)
    assert any("known noise" in message for message in flat.diagnostics.messages)
    assert flat.update([[0.5]], [2.1], key=jax.random.key(1)).data.num_observations == 25
    flat_column = QUICK.fit(Dataset(np.column_stack([x, np.zeros(24)]), x[:, 0]), key=jax.random.key(0))
    assert flat_column.trend == "constant"


def test_diagnostics_tell_acceptance_sizes_and_convergence():
    report = altered(FULL, chains=2).fit(wavy(40), key=jax.random.key(0)).diagnostics
    assert {"lengths", "nugget", "shape", "scale", "grow", "prune", "change", "swap"} <= set(report.extra["acceptance"])
    assert all(0 <= rate <= 1 for rate in report.extra["acceptance"].values())
    assert np.isclose(sum(report.extra["num_leaves"].values()), 1.0)
    assert report.rhat["log_posterior"] > 0.9 and report.ess_bulk["log_posterior"] > 0 and report.num_draws == 200


def test_further_locations_let_a_split_lie_between_the_data():
    x = np.array([0.0, 0.1, 0.2, 0.3, 0.7, 0.8, 0.9, 1.0])[:, None]
    data = Dataset(np.concatenate([x, x + 1e-3]), np.concatenate([x, x])[:, 0] > 0.5)
    posterior = altered(FULL, min_leaf=2, total=2000).fit(data, key=jax.random.key(0), locations=np.array([[0.5]]))
    assert 0.5 in posterior.grid.values[0] and posterior.grid.num_locations == 17
    assert any(posterior.grid.values[0][draw.tree.rank] == 0.5 for draw in posterior.draws if draw.tree)
    assert 0.5 in posterior.update([[0.6]], [1.0], key=jax.random.key(1)).grid.values[0]


@pytest.mark.parametrize(
    "wrong",
    [
        {"burn_in": 10, "total": 10}, {"thin": 0}, {"chains": 0}, {"trend": "cubic"}, {"min_leaf": -1}, {"thin": 9000},
        {"split_base": 1.0}, {"warm_burn_in": -1},
    ],
)  # fmt: skip
def test_wrong_settings_are_refused(wrong):
    with pytest.raises(InputError):
        TreedGP(**wrong)


def test_wrong_points_are_refused():
    posterior = QUICK.fit(wavy(5, 2), key=jax.random.key(0))
    for bad in (np.zeros(2), np.zeros((3, 1))):
        with pytest.raises(DataError):
            posterior.predict(bad)
    with pytest.raises(DataError):
        posterior.alc(np.zeros((1, 2)), np.zeros((0, 2)))
    with pytest.raises(InputError):
        QUICK.fit(wavy(5, 2), key=jax.random.key(0), locations=np.zeros((3, 1)))
