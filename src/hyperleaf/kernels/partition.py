"""Kernels that divide the input space: change points, change hyperplanes, and the Hierarchical-Hyperplane Kernel.

A `Gates` holds g soft hyperplanes; a tree, given as nested pairs of leaf numbers, says on which side of which gates each leaf
lies. `Partition` multiplies the gates' sigmoids along the paths, in log space, to the leaf weights λⱼ(x), and sums
λⱼ(x) λⱼ(y) kⱼ(x, y) over the leaves (paper, equation 1). `ChangeHyperplane` is the same with one gate and any two kernels, so a
partition equals its recursive application.
"""

from __future__ import annotations

from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import NDArray
from numpyro.distributions import Distribution

from hyperleaf.errors import InputError
from hyperleaf.kernels.base import Kernel, parameter, positive
from hyperleaf.kernels.stationary import Stationary

Tree = Any  # a leaf number, or a pair of trees: ((0, 1), 2)
Weights = Literal["product", "sqrt"]


def symmetric_tree(leaves: int, first: int = 0) -> Tree:
    """The balanced binary tree over leaves first … first + leaves − 1; any number of leaves, halves as equal as can be."""
    if leaves < 1:
        raise InputError(f"a tree needs at least one leaf; got leaves={leaves}.")
    if leaves == 1:
        return first
    half = (leaves + 1) // 2
    return (symmetric_tree(half, first), symmetric_tree(leaves - half, first + half))


def split_leaf(tree: Tree, leaf: int) -> Tree:
    """The tree with `leaf` replaced by the pair (leaf, new), where new is the next free leaf number."""
    tree = as_tree(tree)
    new = len(tree_leaves(tree))

    def replace(node: Tree) -> Tree:
        if isinstance(node, tuple):
            return tuple(replace(child) for child in node)
        return (leaf, new) if node == leaf else node

    if leaf not in tree_leaves(tree):
        raise InputError(f"leaf must be one of {tree_leaves(tree)}; got {leaf}.")
    return replace(tree)


def tree_leaves(tree: Tree) -> list[int]:
    """The leaf numbers of a tree, from left to right."""
    if isinstance(tree, tuple):
        return [leaf for child in tree for leaf in tree_leaves(child)]
    return [tree]


def as_tree(tree: Any) -> Tree:
    """A tree of nested tuples, checked: pairs all the way, leaves numbered 0 … l − 1, each once."""

    def freeze(node: Any) -> Tree:
        if isinstance(node, list | tuple):
            if len(node) != 2:
                raise InputError(
                    f"a tree is made of pairs; got a node with {len(node)} children: {node!r}. Nest pairs, as in ((0, 1), 2)."
                )
            return (freeze(node[0]), freeze(node[1]))
        if isinstance(node, bool) or not isinstance(node, int | np.integer):
            raise InputError(f"a leaf of a tree is a whole number; got {node!r}. Write trees as nested pairs, as in ((0, 1), 2).")
        return int(node)

    frozen = freeze(tree)
    leaves = tree_leaves(frozen)
    if sorted(leaves) != list(range(len(leaves))):
        raise InputError(f"the leaves of a tree are numbered 0 to l − 1, each once; got {leaves}. Renumber them.")
    return frozen


def path_matrices(tree: Tree) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """ξ_L and ξ_R (l, g): which leaves lie left and right of which gates. Gates are numbered breadth first."""
    num_leaves = len(tree_leaves(tree))
    left = np.zeros((num_leaves, num_leaves - 1))
    right = np.zeros_like(left)
    level, gate = [tree], 0
    while level:
        following = []
        for node in level:
            if isinstance(node, tuple):
                left[tree_leaves(node[0]), gate] = 1.0
                right[tree_leaves(node[1]), gate] = 1.0
                gate += 1
                following += [node[0], node[1]]
        level = following
    return left, right


class Gates(eqx.Module):
    """g soft hyperplanes: gate i opens as σ(αᵢ(offsetᵢ + normalᵢ·x)), with αᵢ the steepness."""

    tag = "gates"
    offset: Any  # (g,)
    normal: Any  # (g, d)
    steepness: Any  # (g,)

    def __init__(self, offset: Any, normal: Any, steepness: Any = 1.0):
        self.offset = parameter(offset)
        self.normal = parameter(normal)
        self.steepness = positive("steepness", steepness)
        shapes = _shape(self.offset), _shape(self.normal), _shape(self.steepness)
        if len(shapes[1]) != 2 or shapes[0] != shapes[1][:1] or shapes[2] not in ((), shapes[0]):
            raise InputError(
                "gates need offset (g,), normal (g, d) and steepness () or (g,); "
                f"got shapes {shapes[0]}, {shapes[1]} and {shapes[2]}. Reshape them, or expand the distributions."
            )

    def logits(self, x: Float[Array, "n d"]) -> Float[Array, "n g"]:
        """αᵢ w̃ᵢᵀx̃; positive on a gate's left side."""
        return self.steepness * (self.offset + x @ jnp.transpose(_normal_of(x, self.normal)))


class Partition(Kernel):
    """The Hierarchical-Hyperplane Kernel k(x, y) = Σⱼ λⱼ(x) λⱼ(y) kⱼ(x, y) over the leaves of a tree.

    `leaves` is either one stationary kernel whose parameters carry a leading axis of length l (evaluated in one batch), or a
    tuple of l kernels of any kind. With `weights="sqrt"` √λⱼ takes the place of λⱼ, which keeps the prior variance from
    dipping between regions.
    """

    tag = "partition"
    gates: Gates
    leaves: Stationary | tuple[Kernel, ...]
    tree: Tree = eqx.field(static=True)
    weights: Weights = eqx.field(static=True)

    def __init__(self, gates: Gates, leaves: Kernel | tuple[Kernel, ...], tree: Any = None, weights: Weights = "product"):
        if weights not in ("product", "sqrt"):
            raise InputError(f'weights must be "product" (the paper) or "sqrt"; got {weights!r}.')
        if isinstance(leaves, list | tuple):
            leaves = tuple(leaves)
            count = len(leaves)
        elif isinstance(leaves, Stationary):
            count = _leading(leaves)
        else:
            raise InputError(
                f"stacked leaves must be one stationary kernel with a leading axis of length l; got {type(leaves).__name__}. "
                "Pass a tuple with one kernel per leaf instead."
            )
        self.tree = symmetric_tree(count) if tree is None else as_tree(tree)
        if len(tree_leaves(self.tree)) != count:
            raise InputError(
                f"the tree has {len(tree_leaves(self.tree))} leaves but {count} leaf kernels were given; give one for each."
            )
        num_gates = _shape(gates.offset)[0]
        if num_gates != count - 1:
            raise InputError(f"a tree of {count} leaves needs {count - 1} gates; got {num_gates}.")
        self.gates, self.leaves, self.weights = gates, leaves, weights

    @property
    def num_leaves(self) -> int:
        return len(tree_leaves(self.tree))

    def log_leaf_weights(self, x: Float[Array, "n d"]) -> Float[Array, "l n"]:
        """log λⱼ(x) = Σᵢ ξ_L(j,i) log σ(zᵢ) + ξ_R(j,i) log σ(−zᵢ): exact however far a gate is open or shut."""
        left, right = path_matrices(self.tree)
        z = self.gates.logits(x)
        return jnp.asarray(left) @ jax.nn.log_sigmoid(z).T + jnp.asarray(right) @ jax.nn.log_sigmoid(-z).T

    def leaf_weights(self, x: Float[Array, "n d"]) -> Float[Array, "l n"]:
        """λⱼ(x), summing to one over the leaves."""
        return jnp.exp(self.log_leaf_weights(x))

    def _mixing_weights(self, x: Float[Array, "n d"]) -> Float[Array, "l n"]:
        return jnp.exp(self.log_leaf_weights(x) * (0.5 if self.weights == "sqrt" else 1.0))

    def features(self, x):
        if isinstance(self.leaves, tuple):
            return self._mixing_weights(x), tuple(leaf.features(x) for leaf in self.leaves)
        return self._mixing_weights(x), jax.vmap(lambda leaf: leaf.features(x))(self.leaves)

    def pairwise(self, a, b):
        (wa, fa), (wb, fb) = a, b
        if isinstance(self.leaves, tuple):
            terms = zip(self.leaves, wa, fa, wb, fb, strict=True)
            return sum(u[:, None] * v[None, :] * leaf.pairwise(p, q) for leaf, u, p, v, q in terms)
        return self.leaves.weighted_sum(wa, fa, wb, fb)

    def diagonal(self, x):
        weights = self._mixing_weights(x)
        if isinstance(self.leaves, tuple):
            diagonals = jnp.stack([leaf.diagonal(x) for leaf in self.leaves])
        else:
            diagonals = jax.vmap(lambda leaf: leaf.diagonal(x))(self.leaves)
        return jnp.sum(weights**2 * diagonals, axis=0)


class ChangeHyperplane(Kernel):
    """CH_w(k₁, k₂): k₁ where the gate is open, k₂ where it is shut, a soft passage between. Any two kernels; nests freely."""

    tag = "change-hyperplane"
    first: Kernel
    second: Kernel
    offset: Any  # ()
    normal: Any  # (d,)
    steepness: Any  # ()

    def __init__(self, first: Kernel, second: Kernel, offset: Any, normal: Any, steepness: Any = 1.0):
        self.first, self.second = first, second
        self.offset, self.normal = parameter(offset), parameter(normal)
        self.steepness = positive("steepness", steepness)

    def _sides(self, x: Float[Array, "n d"]) -> tuple[Float[Array, "n"], Float[Array, "n"]]:
        z = self.steepness * (self.offset + x @ _normal_of(x, self.normal))
        return jax.nn.sigmoid(z), jax.nn.sigmoid(-z)

    def features(self, x):
        return self._sides(x), self.first.features(x), self.second.features(x)

    def pairwise(self, a, b):
        (left_a, right_a), first_a, second_a = a
        (left_b, right_b), first_b, second_b = b
        first = left_a[:, None] * left_b[None, :] * self.first.pairwise(first_a, first_b)
        return first + right_a[:, None] * right_b[None, :] * self.second.pairwise(second_a, second_b)

    def diagonal(self, x):
        left, right = self._sides(x)
        return left**2 * self.first.diagonal(x) + right**2 * self.second.diagonal(x)


def ChangePoint(first: Kernel, second: Kernel, location: Any, width: Any = 0.1) -> ChangeHyperplane:
    """CP_s in one dimension: `first` below `location`, `second` above, with σ(x) = ½(1 + tanh((location − x)/width))."""
    width = positive("width", width)
    if not isinstance(width, np.ndarray | jax.Array) or not isinstance(parameter(location), np.ndarray | jax.Array):
        raise InputError(
            f"ChangePoint takes numbers; got location={location!r}, width={width!r}. "
            "For a prior over change points use ChangeHyperplane with distributions in d = 1."
        )
    # ½(1 + tanh(t)) = σ(2t)
    return ChangeHyperplane(first, second, offset=location, normal=-np.ones(1), steepness=2.0 / width)


def _shape(value: Any) -> tuple[int, ...]:
    return value.shape() if isinstance(value, Distribution) else np.shape(value)


def _normal_of(x: Float[Array, "n d"], normal: Any) -> Any:
    if normal.shape[-1] != x.shape[1]:
        raise InputError(f"normal has one entry for each column of x; got {normal.shape[-1]} for x with {x.shape[1]} columns.")
    return normal


def _leading(kernel: Kernel) -> int:
    """The length of the leading axis that all parameters of a stack share."""
    lengths: set[Any] = set()
    for leaf in jax.tree.leaves(kernel, is_leaf=lambda v: isinstance(v, Distribution)):
        shape = _shape(leaf)
        lengths.add(shape[0] if shape else None)
    if len(lengths) != 1 or None in lengths:
        raise InputError(
            f"stacked leaves need the same leading axis in every parameter; got {sorted(map(str, lengths))}. "
            "Give lengthscale the shape (l, d) and variance the shape (l,)."
        )
    return int(lengths.pop())
