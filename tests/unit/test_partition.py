"""The Hierarchical-Hyperplane Kernel against a plain transcription of the paper's section 3.1, and its operators and trees."""

import jax
import jaxtyping
import numpy as np
import numpyro.distributions as dist
import pytest

from hyperleaf.errors import InputError
from hyperleaf.kernels import (
    RBF,
    ChangeHyperplane,
    ChangePoint,
    Constant,
    Gates,
    Linear,
    Matern12,
    Matern32,
    Matern52,
    Partition,
    Periodic,
    RationalQuadratic,
    split_leaf,
    symmetric_tree,
)
from hyperleaf.kernels.partition import as_tree, path_matrices, tree_leaves
from hyperleaf.precision import float64

squares = float64(jax.jit(lambda kernels, x: [k.gram(x) for k in kernels]))
crosses = float64(jax.jit(lambda kernels, x, y: [k.gram(x, y) for k in kernels]))
weights_of = float64(jax.jit(lambda kernel, x: (kernel.leaf_weights(x), kernel.log_leaf_weights(x))))
UNBALANCED = [((0, 1), 2), (0, (1, 2)), (2, ((3, 0), 1)), ((4, (1, 3)), (2, 0))]


# --- the paper, written again from its formulas -----------------------------------------------------------------------------


def sigmoid(t):
    return 1.0 / (1.0 + np.exp(-t))


def nodes_breadth_first(tree):
    queue, nodes = [tree], []
    while queue:
        node = queue.pop(0)
        if not isinstance(node, int):
            nodes.append(node)
            queue.extend(node)
    return nodes


def contains(tree, leaf):
    return tree == leaf if isinstance(tree, int) else any(contains(child, leaf) for child in tree)


def paper_weights(tree, w, x):
    """λⱼ(x) = Πᵢ σ(wᵢᵀx̃)^ξ_L(j,i) (1 − σ(wᵢᵀx̃))^ξ_R(j,i) with x̃ = (1, x), one factor after the other."""
    nodes = nodes_breadth_first(tree)
    weights = np.ones((len(nodes) + 1, len(x)))
    for j in range(len(nodes) + 1):
        for i, (left, right) in enumerate(nodes):
            xi_left, xi_right = int(contains(left, j)), int(contains(right, j))
            for point in range(len(x)):
                s = sigmoid(w[i] @ np.concatenate([[1.0], x[point]]))
                weights[j, point] *= s**xi_left * (1 - s) ** xi_right
    return weights


def paper_gram(tree, w, lengthscale, variance, x, y, power=1.0):
    """k(x, y) = Σⱼ λⱼ(x) λⱼ(y) kⱼ(x, y) with RBF leaves."""
    wx, wy = paper_weights(tree, w, x) ** power, paper_weights(tree, w, y) ** power
    total = np.zeros((len(x), len(y)))
    for j in range(len(wx)):
        squared = (((x[:, None, :] - y[None, :, :]) / lengthscale[j]) ** 2).sum(-1)
        total += np.outer(wx[j], wy[j]) * variance[j] * np.exp(-0.5 * squared)
    return total


def draw(num_leaves, d, seed=0):
    """The paper's prior, by NumPy: w̃, α, lengthscales and variances."""
    rng = np.random.default_rng([num_leaves, d, seed])
    g = num_leaves - 1
    w = rng.normal(size=(g, d + 1))
    return w, rng.gamma(6, 1 / 2, g), rng.gamma(2, 1 / 2, (num_leaves, d)) + 0.05, rng.gamma(2, 1 / 3, num_leaves) + 0.05


def points(n, d, seed=0):
    return np.random.default_rng([n, d, seed]).uniform(size=(n, d))


def partition(parameters, tree=None, weights="product", leaf=RBF):
    w, steepness, lengthscale, variance = parameters
    return Partition(Gates(w[:, 0], w[:, 1:], steepness), leaf(lengthscale, variance), tree, weights)


def full_tree(leaves):
    """The symmetric tree of 2^depth leaves, without hyperleaf."""
    return leaves[0] if len(leaves) == 1 else (full_tree(leaves[: len(leaves) // 2]), full_tree(leaves[len(leaves) // 2 :]))


@pytest.mark.parametrize("d", range(1, 7))
def test_gram_equals_the_paper_for_symmetric_trees_of_depth_0_to_4(d: int) -> None:
    x = points(5, d)
    parameters = [draw(2**depth, d) for depth in range(5)]
    results = iter(squares([partition(p, weights=weights) for p in parameters for weights in ("product", "sqrt")], x))
    for depth, (w, steepness, lengthscale, variance) in enumerate(parameters):
        tree = full_tree(list(range(2**depth)))
        for power in (1.0, 0.5):
            gram, expected = next(results), paper_gram(tree, steepness[:, None] * w, lengthscale, variance, x, x, power)
            assert gram.dtype == np.float64
            np.testing.assert_allclose(gram, expected, rtol=0, atol=1e-12, err_msg=f"depth {depth}")


def test_gram_equals_the_paper_for_unbalanced_trees_given_as_nested_pairs() -> None:
    x, y = points(5, 2), points(3, 2, seed=1)
    parameters = [draw(len(tree_leaves(tree)), 2) for tree in UNBALANCED]
    kernels = [partition(p, tree, w) for p, tree in zip(parameters, UNBALANCED, strict=True) for w in ("product", "sqrt")]
    results = iter(crosses(kernels, x, y))
    for tree, (w, steepness, lengthscale, variance) in zip(UNBALANCED, parameters, strict=True):
        for power in (1.0, 0.5):
            expected = paper_gram(tree, steepness[:, None] * w, lengthscale, variance, x, y, power)
            np.testing.assert_allclose(next(results), expected, rtol=0, atol=1e-12, err_msg=str(tree))


def test_leaf_weights_equal_the_paper_and_sum_to_one() -> None:
    tree = (2, ((3, 0), 1))
    parameters = draw(4, 3)
    x = points(6, 3)
    weights, logs = map(np.asarray, weights_of(partition(parameters, tree), x))
    np.testing.assert_allclose(weights, paper_weights(tree, parameters[1][:, None] * parameters[0], x), atol=1e-14)
    np.testing.assert_allclose(weights.sum(0), 1.0, atol=1e-14)
    np.testing.assert_allclose(logs, np.log(weights), rtol=1e-12)


def test_log_weights_stay_exact_where_the_weights_underflow() -> None:
    kernel = partition((np.array([[1000.0, 0.0]]), np.ones(1), np.ones((2, 1)), np.ones(2)))
    weights, logs = map(np.asarray, weights_of(kernel, np.zeros((6, 1))))
    np.testing.assert_array_equal(weights[:, 0], [1.0, 0.0])
    np.testing.assert_allclose(logs[:, 0], [0.0, -1000.0], rtol=1e-15)


def test_undecided_gates_dip_the_variance_to_a_leafs_share_but_not_with_square_roots() -> None:
    undecided = (np.zeros((7, 3)), np.ones(7), np.ones((8, 2)), np.full(8, 1.7))
    x = points(5, 2)
    paper, root = squares([partition(undecided), partition(undecided, weights="sqrt")], x)
    np.testing.assert_allclose(np.diagonal(paper), 1.7 / 8, rtol=1e-14)
    np.testing.assert_allclose(np.diagonal(root), 1.7, rtol=1e-14)


def test_a_tuple_of_equal_leaves_equals_the_stack() -> None:
    x, y = points(5, 2), points(3, 2, seed=1)
    w, steepness, lengthscale, variance = parameters = draw(4, 2)
    gates = Gates(w[:, 0], w[:, 1:], steepness)
    kernels, alpha = [], np.array([0.5, 1.0, 2.0, 3.0])
    for leaf in (RBF, Matern12, Matern32, Matern52):
        single = tuple(leaf(lengthscale[j], variance[j]) for j in range(4))
        kernels += [partition(parameters, leaf=leaf), Partition(gates, single)]
    kernels += [
        Partition(gates, RationalQuadratic(lengthscale, variance, alpha)),
        Partition(gates, tuple(RationalQuadratic(lengthscale[j], variance[j], alpha[j]) for j in range(4))),
    ]
    results = crosses(kernels, x, y)
    for stacked, single in zip(results[::2], results[1::2], strict=True):
        np.testing.assert_allclose(stacked, single, atol=1e-14)


def test_different_kernels_per_leaf_sum_with_the_papers_weights() -> None:
    tree, x = (0, (1, 2)), points(5, 2)
    w, steepness, lengthscale, _ = draw(3, 2)
    leaves = (Matern32(lengthscale[0], 2.0), Linear(0.7) + Constant(0.4), Periodic(lengthscale[2], 0.9, 0.6))
    gram, *alone = squares([Partition(Gates(w[:, 0], w[:, 1:], steepness), leaves, tree), *leaves], x)
    weights = paper_weights(tree, steepness[:, None] * w, x)
    expected = sum(np.outer(u, u) * np.asarray(k) for u, k in zip(weights, alone, strict=True))
    np.testing.assert_allclose(gram, expected, atol=1e-13)


# --- change hyperplanes and change points -------------------------------------------------------------------------------------


def recursive(tree, nodes, w, steepness, leaves):
    """CH applied along the nodes of the tree, which are numbered breadth first."""
    if isinstance(tree, int):
        return leaves[tree]
    i = next(i for i, node in enumerate(nodes) if node is tree)
    first, second = (recursive(child, nodes, w, steepness, leaves) for child in tree)
    return ChangeHyperplane(first, second, w[i, 0], w[i, 1:], steepness[i])


def test_partition_equals_recursive_change_hyperplanes() -> None:
    x, y = points(5, 2), points(3, 2, seed=1)
    kernels = []
    for tree in [((0, 1), (2, 3)), UNBALANCED[3]]:
        w, steepness, lengthscale, variance = parameters = draw(len(tree_leaves(tree)), 2)
        leaves = [RBF(a, b) for a, b in zip(lengthscale, variance, strict=True)]
        kernels += [partition(parameters, tree), recursive(tree, nodes_breadth_first(tree), w, steepness, leaves)]
    results = crosses(kernels, x, y)
    for whole, nested in zip(results[::2], results[1::2], strict=True):
        np.testing.assert_allclose(whole, nested, atol=1e-13)


def test_change_point_equals_the_tanh_formula_and_the_one_dimensional_change_hyperplane() -> None:
    x = np.linspace(-0.5, 1.5, 9)[:, None]
    first, second, c, width = RBF(0.3, 2.0), Matern52(0.8, 0.5), 0.4, 0.15
    plane = ChangeHyperplane(first, second, offset=c, normal=[-1.0], steepness=2 / width)
    point, line, k1, k2 = squares([ChangePoint(first, second, c, width), plane, first, second], x)
    s = 0.5 * (1 + np.tanh((c - x[:, 0]) / width))
    expected = np.outer(s, s) * np.asarray(k1) + np.outer(1 - s, 1 - s) * np.asarray(k2)
    np.testing.assert_allclose(point, expected, atol=1e-14)
    np.testing.assert_allclose(point, line, atol=1e-14)
    assert s[0] > 0.99 and s[-1] < 0.01  # the first kernel below, the second above


def test_swapping_children_and_flipping_the_gate_changes_nothing() -> None:
    w, steepness, lengthscale, variance = parameters = draw(3, 2)
    x = points(5, 2)
    flipped = np.array([-1.0, 1.0])[:, None] * w
    swapped = partition((flipped, steepness, lengthscale, variance), (2, (0, 1)))
    one, other = squares([partition(parameters, ((0, 1), 2)), swapped], x)
    np.testing.assert_allclose(one, other, atol=1e-15)


# --- trees -------------------------------------------------------------------------------------------------------------------


def test_trees_are_built_and_split_as_nested_pairs() -> None:
    assert [symmetric_tree(n) for n in (1, 2, 3, 4)] == [0, (0, 1), ((0, 1), 2), ((0, 1), (2, 3))]
    assert tree_leaves(symmetric_tree(13)) == list(range(13))
    assert split_leaf(0, 0) == (0, 1)
    assert split_leaf(((0, 1), 2), 1) == ((0, (1, 3)), 2)
    assert split_leaf([[0, 1], 2], 2) == ((0, 1), (2, 3))
    assert as_tree([[0, np.int64(1)], 2]) == ((0, 1), 2)


@pytest.mark.parametrize("tree", [0, symmetric_tree(8), *UNBALANCED])
def test_path_matrices_say_on_which_side_of_each_gate_a_leaf_lies(tree) -> None:
    left, right = path_matrices(tree)
    nodes = nodes_breadth_first(tree)
    assert left.shape == right.shape == (len(nodes) + 1, len(nodes))
    for i, (first, second) in enumerate(nodes):
        for j in range(len(nodes) + 1):
            assert (left[j, i], right[j, i]) == (contains(first, j), contains(second, j))


@pytest.fixture
def unchecked():
    """As users have it: without the run-time check of signatures, which would speak first."""
    before = jaxtyping.config.jaxtyping_disable
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", before)


# --- errors ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ((0, 1, 2), r"made of pairs; got a node with 3 children: \(0, 1, 2\)\. Nest pairs"),
        (((0,), 1), r"made of pairs; got a node with 1 children: \(0,\)"),
        ((0, "1"), r"a leaf of a tree is a whole number; got '1'\. Write trees as nested pairs"),
        ((0, True), r"a leaf of a tree is a whole number; got True"),
        ((0, 1.0), r"a leaf of a tree is a whole number; got 1\.0"),
        ((0, 0), r"numbered 0 to l − 1, each once; got \[0, 0\]\. Renumber"),
        ((1, 2), r"numbered 0 to l − 1, each once; got \[1, 2\]"),
    ],
)
def test_wrong_trees_are_refused(tree, message: str) -> None:
    with pytest.raises(InputError, match=message):
        as_tree(tree)
    with pytest.raises(InputError, match=message):
        partition(draw(2, 1), tree)


def test_impossible_numbers_of_leaves_are_refused() -> None:
    with pytest.raises(InputError, match=r"at least one leaf; got leaves=0"):
        symmetric_tree(0)
    with pytest.raises(InputError, match=r"leaf must be one of \[0, 1\]; got 2"):
        split_leaf((0, 1), 2)
    with pytest.raises(InputError, match=r"the tree has 3 leaves but 2 leaf kernels were given; give one for each"):
        partition(draw(2, 1), ((0, 1), 2))
    with pytest.raises(InputError, match=r"a tree of 3 leaves needs 2 gates; got 1"):
        Partition(Gates(np.zeros(1), np.ones((1, 2))), (RBF(), RBF(), RBF()))
    with pytest.raises(InputError, match=r"a tree of 3 leaves needs 2 gates; got 4"):
        Partition(Gates(dist.Normal(0, 1).expand((4,)), dist.Normal(0, 1).expand((4, 2))), (RBF(), RBF(), RBF()))


def test_leaves_that_are_no_stack_are_refused() -> None:
    gates = Gates(np.zeros(1), np.ones((1, 2)))
    with pytest.raises(InputError, match=r"one stationary kernel with a leading axis .* got Linear\. Pass a tuple"):
        Partition(gates, Linear(np.ones(2)))
    with pytest.raises(InputError, match=r"same leading axis in every parameter; got \['2', '3'\]\. Give lengthscale"):
        Partition(gates, RBF(np.ones((2, 2)), np.ones(3)))
    with pytest.raises(InputError, match=r"same leading axis in every parameter; got \['None'\]"):
        Partition(gates, RBF())


def test_unknown_weights_are_refused(unchecked) -> None:
    with pytest.raises(InputError, match=r'weights must be "product" \(the paper\) or "sqrt"; got \'cube\''):
        partition(draw(2, 1), weights="cube")


@pytest.mark.parametrize(
    ("offset", "normal", "steepness", "shapes"),
    [
        (np.zeros(2), np.ones((3, 2)), 1.0, r"\(2,\), \(3, 2\) and \(\)"),
        (np.zeros(2), np.ones(2), 1.0, r"\(2,\), \(2,\) and \(\)"),
        (0.0, np.ones((1, 2)), 1.0, r"\(\), \(1, 2\) and \(\)"),
        (np.zeros(2), np.ones((2, 2)), np.ones(3), r"\(2,\), \(2, 2\) and \(3,\)"),
        (dist.Normal(0, 1), dist.Normal(0, 1), dist.Gamma(6, 2), r"\(\), \(\) and \(\)"),
    ],
)
def test_gates_of_wrong_shapes_are_refused(offset, normal, steepness, shapes: str) -> None:
    with pytest.raises(InputError, match=rf"offset \(g,\), normal \(g, d\) and steepness \(\) or \(g,\); got shapes {shapes}"):
        Gates(offset, normal, steepness)


@pytest.mark.parametrize("bad", [0.0, -2.0, np.inf, np.nan])
def test_steepness_and_width_must_be_positive(bad: float) -> None:
    with pytest.raises(InputError, match=rf"steepness must be positive and finite; got {bad}"):
        ChangeHyperplane(RBF(), RBF(), 0.0, np.ones(2), bad)
    with pytest.raises(InputError, match=rf"steepness must be positive and finite; got \[1.0, {bad}\]"):
        Gates(np.zeros(2), np.ones((2, 1)), [1.0, bad])
    with pytest.raises(InputError, match=rf"width must be positive and finite; got {bad}"):
        ChangePoint(RBF(), RBF(), 0.5, bad)


def test_a_change_point_with_a_distribution_points_to_the_hyperplane() -> None:
    for location, width in ((dist.Normal(0, 1), 0.1), (0.5, dist.Gamma(2, 2))):
        with pytest.raises(InputError, match=r"ChangePoint takes numbers; got location=.* use ChangeHyperplane"):
            ChangePoint(RBF(), RBF(), location, width)


def test_points_of_another_dimension_than_the_gates_are_refused() -> None:
    kernels = [partition(draw(2, 2)), ChangeHyperplane(RBF(), RBF(), 0.0, np.ones(2)), ChangePoint(RBF(), RBF(), 0.5)]
    for kernel in kernels:
        with pytest.raises(InputError, match=r"normal has one entry for each column of x; got \d for x with 3 columns"):
            kernel(np.zeros((4, 3)))
