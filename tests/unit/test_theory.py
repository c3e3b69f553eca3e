"""Information, designs and the sharp limit, against NumPy and against the statements of the paper's lemma and theorem."""

import numpy as np
import pytest

from hyperleaf.errors import InputError
from hyperleaf.kernels import RBF, Constant, Gates, Linear, Matern32, Partition, Periodic
from hyperleaf.theory import (
    SharpPartition,
    exhaustive_design,
    greedy_design,
    information,
    sharp_gram,
    sharp_leaves,
    sharpen,
)

RNG = np.random.default_rng(3)
X = RNG.random((12, 2))
# Borders x₀ = ½ and, left of it (x₀ ≥ ½), x₁ = ¼; all numbers are exact in binary, so that a point can lie exactly on a border.
GATES = Gates(np.array([-0.5, -0.25]), np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([4.0, 4.0]))
LEAVES = RBF(np.array([[0.3, 0.3], [0.5, 0.2], [0.4, 0.9]]), np.array([1.5, 0.7, 1.0]))
PARTITION = Partition(GATES, LEAVES, ((0, 1), 2))
GRID = np.stack(np.meshgrid(*2 * [(np.arange(12) + 0.5) / 12], indexing="ij"), axis=-1).reshape(-1, 2)
NOISE = 0.01


def halves(left, right):
    """Two regions: `left` where x₀ ≥ ½, `right` below."""
    return SharpPartition(Partition(Gates(np.array([-0.5]), np.array([[1.0, 0.0]])), (left, right)))


@pytest.mark.parametrize("kernel", [RBF(0.4, 1.3), Matern32(np.array([0.3, 0.7])), PARTITION, SharpPartition(PARTITION)])
def test_information_is_half_the_log_determinant(kernel):
    sign, logdet = np.linalg.slogdet(np.eye(len(X)) + kernel(X) / 0.05)
    assert sign == 1.0
    assert information(kernel, X, 0.05) == pytest.approx(0.5 * logdet, rel=1e-12)


def test_information_of_repeated_points_is_that_of_their_mean():
    one = np.array([[0.3, 0.4]])
    assert information(RBF(0.4, 2.0), np.repeat(one, 9, axis=0), 0.9) == pytest.approx(0.5 * np.log1p(9 * 2.0 / 0.9), rel=1e-12)


@pytest.mark.parametrize("kernel", [RBF(0.3), PARTITION, SharpPartition(PARTITION)])
def test_greedy_takes_the_largest_posterior_variance_and_counts_the_information(kernel):
    design = greedy_design(kernel, GRID, NOISE, 15)
    gram = kernel(GRID)
    for step, i in enumerate(design.indices):
        before = design.indices[:step]
        cross = gram[before]
        v = np.diag(gram) - np.sum(cross * np.linalg.solve(gram[np.ix_(before, before)] + NOISE * np.eye(step), cross), axis=0)
        v[before] = -np.inf
        assert v[i] == pytest.approx(v.max(), rel=1e-8)
        assert design.information[step] == pytest.approx(information(kernel, GRID[design.indices[: step + 1]], NOISE), rel=1e-10)
    assert len(set(design.indices.tolist())) == 15


def test_ties_go_to_the_first_point():
    assert greedy_design(Constant(1.0), GRID, NOISE, 4).indices.tolist() == [0, 1, 2, 3]
    # k(x, x) = x²: what is larger by rounding only does not win, what is larger by more does.
    assert greedy_design(Linear(1.0, center=0.0), [[1.0], [1.0 + 1e-13]], NOISE, 1).indices.tolist() == [0]
    assert greedy_design(Linear(1.0, center=0.0), [[1.0], [1.0 + 1e-6]], NOISE, 1).indices.tolist() == [1]
    again = greedy_design(RBF(0.3), GRID * (1 + 1e-15), NOISE, 10)
    assert again.indices.tolist() == greedy_design(RBF(0.3), GRID, NOISE, 10).indices.tolist()
    assert again.indices[:2].tolist() == [0, len(GRID) - 1]


@pytest.mark.parametrize("kernel", [RBF(0.4), Partition(GATES, LEAVES, (2, (0, 1)), "sqrt"), Periodic(0.5, 1.0, 0.7)])
@pytest.mark.parametrize("num", [1, 2, 4])
def test_greedy_reaches_its_share_of_the_best_design(kernel, num):
    indices, best = exhaustive_design(kernel, X, 0.1, num)
    greedy = greedy_design(kernel, X, 0.1, num).information[-1]
    assert best == pytest.approx(information(kernel, X[indices], 0.1), rel=1e-12)
    assert (1 - 1 / np.e) * best <= greedy <= best + 1e-12
    others = [information(kernel, X[RNG.permutation(len(X))[:num]], 0.1) for _ in range(20)]
    assert max(others) <= best + 1e-12


def test_greedy_can_be_worse_than_the_best():
    """On a line the first greedy point is in the middle of three, where the best pair leaves it out."""
    line = np.array([[0.5], [0.0], [1.0]])
    kernel = RBF(0.6)
    greedy, (best, value) = greedy_design(kernel, line, NOISE, 2), exhaustive_design(kernel, line, NOISE, 2)
    assert greedy.indices[0] == 0 and best.tolist() == [1, 2]
    assert greedy.information[-1] < value - 1e-3


def test_exhaustive_search_refuses_what_would_take_for_ever():
    with pytest.raises(InputError, match="greedy_design"):
        exhaustive_design(RBF(0.3), GRID, NOISE, 6)


# --- the lemma -------------------------------------------------------------------------------------------------------------


def test_sharpened_gates_follow_the_lemma():
    third = sharpen(PARTITION, 3)
    w = third.gates.steepness[:, None] * np.column_stack([third.gates.offset, third.gates.normal])
    tilde = np.column_stack([GATES.offset, GATES.normal])
    np.testing.assert_allclose(w, 9 * (tilde + np.array([1 / 3, 0.0, 0.0])))
    assert third.tree == PARTITION.tree and third.weights == PARTITION.weights


def test_sharp_regions_divide_the_space_and_borders_go_left():
    points = np.array(
        [[0.75, 0.75], [0.75, 0.1], [0.25, 0.75], [0.5, 0.75], [0.75, 0.25], [0.5, 0.25], [0.5, 0.1], [0.4999, 0.25]]
    )
    assert sharp_leaves(PARTITION, points).tolist() == [0, 1, 2, 0, 0, 0, 1, 2]


def test_sharp_gram_is_the_leaf_kernel_within_a_region_and_zero_across():
    leaf = sharp_leaves(PARTITION, GRID)
    gram = sharp_gram(PARTITION, GRID)
    assert set(leaf.tolist()) == {0, 1, 2}
    for j in range(3):
        alone = RBF(LEAVES.lengthscale[j], LEAVES.variance[j])
        np.testing.assert_allclose(gram[np.ix_(leaf == j, leaf == j)], alone(GRID[leaf == j]), rtol=1e-12)
    assert np.all(gram[leaf[:, None] != leaf[None, :]] == 0.0)
    np.testing.assert_array_equal(sharp_gram(PARTITION, GRID[:5], GRID), gram[:5])


@pytest.mark.parametrize(("weights", "leaves"), [("product", LEAVES), ("sqrt", (RBF(0.3), Periodic(0.5), Constant(2.0)))])
def test_kernel_converges_pointwise_to_the_sharp_one_also_on_a_border(weights, leaves):
    partition = Partition(GATES, leaves, ((0, 1), 2), weights)
    on_border = np.array([[0.5, 0.75], [0.75, 0.25], [0.5, 0.25]])
    away = GRID[np.abs(GRID[:, 0] - 0.5) > 0.1]
    points = np.concatenate([on_border, away[np.abs(away[:, 1] - 0.25) > 0.1]])
    limit = sharp_gram(partition, points)
    # From n > 1/δ on, with δ > 0.1 the distance from the nearest border, every point is on its side and the error must fall.
    errors = np.array([np.abs(sharpen(partition, n)(points) - limit) for n in (10, 20, 40, 80)])
    largest = errors.max(axis=(1, 2))
    assert np.all(np.diff(largest) < 0)
    assert np.all(np.diff(errors, axis=0) < 1e-13)
    assert largest[-1] < 1e-8


def test_without_the_shift_a_border_would_stay_undecided():
    steep = Partition(Gates(GATES.offset, GATES.normal, np.full(2, 1e6)), LEAVES, ((0, 1), 2))
    point = np.array([[0.5, 0.75]])
    assert steep(point)[0, 0] == pytest.approx(0.25 * (1.5 + 1.0))
    assert sharp_gram(PARTITION, point)[0, 0] == pytest.approx(1.5)


# --- the theorem -----------------------------------------------------------------------------------------------------------


def test_case_1_a_region_without_variance_gets_no_points():
    counts = []
    for variance in (1.0, 1e-2, 1e-4, 1e-12):
        design = greedy_design(halves(RBF(0.2, variance), RBF(0.2, 1.0)), GRID, NOISE, 30)
        counts.append(int(np.sum(GRID[design.indices, 0] >= 0.5)))
    assert counts[0] == 15
    assert counts[-1] == 0 and np.all(np.diff(counts) <= 0)


def test_case_1_the_best_design_leaves_the_region_out():
    kernel = halves(RBF(0.2, 1e-14), RBF(0.2, 1.0))
    indices, value = exhaustive_design(kernel, X, NOISE, 4)
    assert np.all(X[indices, 0] < 0.5)
    moved = np.concatenate([X[indices], X[X[:, 0] >= 0.5]])
    assert information(kernel, moved, NOISE) == pytest.approx(value, abs=1e-10)


def test_case_2_points_of_a_flat_region_may_move_into_any_ball():
    flat = halves(Constant(1.0), RBF(0.2, 1.0))
    design = greedy_design(flat, GRID, NOISE, 40)
    points = GRID[design.indices]
    inside = points[:, 0] >= 0.5
    assert 1 <= inside.sum() <= 8
    for radius in (1e-1, 1e-3, 1e-9):
        moved = points.copy()
        step = RNG.normal(size=(inside.sum(), 2))
        moved[inside] = (
            np.array([0.8, 0.3]) + radius * RNG.random((inside.sum(), 1)) * step / np.linalg.norm(step, axis=1)[:, None]
        )
        assert information(flat, moved, NOISE) == pytest.approx(design.information[-1], rel=1e-12)
        # The other region is not flat: moving its points costs information.
        huddled = points.copy()
        huddled[~inside] = np.array([0.2, 0.3]) + 0.01 * radius * RNG.random(((~inside).sum(), 2))
        assert information(flat, huddled, NOISE) < design.information[-1] - 1.0


def test_case_2_is_the_limit_of_long_lengthscales():
    counts, gaps = [], []
    points = GRID[::7]
    limit = information(halves(Constant(1.0), RBF(0.2, 1.0)), points, NOISE)
    for lengthscale in (0.2, 1.0, 5.0, 1e3, 1e6):
        kernel = halves(RBF(lengthscale, 1.0), RBF(0.2, 1.0))
        counts.append(int(np.sum(GRID[greedy_design(kernel, GRID, NOISE, 40).indices, 0] >= 0.5)))
        gaps.append(information(kernel, points, NOISE) - limit)
    assert np.all(np.diff(counts) <= 0) and counts[0] == 20 and counts[-1] <= 8
    assert np.all(np.diff(gaps) < 0) and 0 <= gaps[-1] < 1e-8


# --- errors ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: information(RBF(), X[0], NOISE), r"shape \(n, d\)"),
        (lambda: information(RBF(), X, 0.0), "positive variance"),
        (lambda: information(RBF(), X * np.nan, NOISE), "finite"),
        (lambda: information(RBF(1e6), np.linspace(0, 1, 40)[:, None], 1e-30), "Raise it"),
        (lambda: greedy_design(RBF(), X, NOISE, 13), "1 to the 12"),
        (lambda: greedy_design(RBF(), X, NOISE, 0), "1 to the 12"),
        (lambda: sharpen(PARTITION, 0), "positive"),
    ],
)
def test_errors_name_rule_and_value(call, match):
    with pytest.raises(InputError, match=match):
        call()
