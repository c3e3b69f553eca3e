"""A kernel in plain numbers, as frameworks need it that do not compute with JAX, and the way back.

`Parts` holds one kernel, or several of one shape along leading axes: a partition whose leaves are stationary and of one kind, or
one such leaf alone, and a trend that is integrated out. tinygp and GPJax take every kernel as it is and need none of this.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import equinox as eqx
import jax
import numpy as np
from numpy.typing import NDArray
from numpyro import distributions as dist
from numpyro.distributions import Distribution

from hyperleaf.checks import nearest, one_of
from hyperleaf.errors import InputError
from hyperleaf.gp import GP
from hyperleaf.kernels import RBF, Constant, Gates, Kernel, Linear, Matern12, Matern32, Matern52, Partition, Stationary, Sum
from hyperleaf.kernels.partition import Weights, as_tree, path_matrices, symmetric_tree, tree_leaves
from hyperleaf.precision import float64
from hyperleaf.priors import Prior

LEAVES: dict[str, type[Stationary]] = {one.tag: one for one in (RBF, Matern12, Matern32, Matern52)}
FIELDS = ("lengthscale", "normal", "offset", "steepness", "variance")  # in the order in which scikit-learn sorts them
REAL = ("center", "index", "normal", "offset")  # fields of kernels that may have any sign; all others are positive
CENTER = 0.5  # of a linear trend, the middle of the unit cube
Values = NDArray[np.float64]


@dataclass(frozen=True)
class Parts:
    """g gates, l leaves, d inputs; any leading axes, the same for all arrays, are a batch of kernels."""

    lengthscale: Values  # (…, l, d), or (…, l, 1) where it is the same for all inputs
    normal: Values  # (…, g, d)
    offset: Values  # (…, g)
    steepness: Values  # (…, g)
    variance: Values  # (…, l)
    tree: Any = 0
    leaf: str = RBF.tag
    weights: Weights = "product"
    constant: float = 0.0  # variance of an intercept
    linear: float = 0.0  # variance of each slope about the middle of the cube

    def __post_init__(self) -> None:
        one_of("leaf", self.leaf, LEAVES)
        one_of("weights", self.weights, ("product", "sqrt"))
        count = len(tree_leaves(as_tree(self.tree)))
        shapes = {name: np.shape(getattr(self, name)) for name in FIELDS}
        batch, inputs = shapes["variance"][:-1], shapes["normal"][-1:]
        wanted = {"variance": (count,), "offset": (count - 1,), "steepness": (count - 1,), "normal": (count - 1, *inputs)}
        right = all(shapes[name] == batch + shape for name, shape in wanted.items())
        if not right or shapes["lengthscale"][:-1] != (*batch, count):
            raise InputError(
                f"a tree of {count} leaves has variance (l,), lengthscale (l, d), offset (g,), normal (g, d) and steepness (g,), "
                f"with l = {count} and g = {count - 1}; got shapes {shapes}. Give one for each leaf and gate."
            )

    @classmethod
    def of(cls, source: Any, seed: int = 0) -> Parts:
        """Of a kernel, of a GP such as `posterior.draw()`, or of a list of these in one shape.

        Of a prior, which is a kernel with distributions in its fields, it is a draw by that seed.
        """
        if isinstance(source, list | tuple):
            return _stacked([cls.of(one, seed) for one in source])
        kernel, constant, linear = _split(source)
        if distributions_in(kernel):
            kernel = _drawn(kernel, seed)
        if isinstance(kernel, Partition):
            leaves = _stack(kernel.leaves) if isinstance(kernel.leaves, tuple) else kernel.leaves
            gates, tree, weights = kernel.gates, kernel.tree, kernel.weights
        else:
            leaves = jax.tree.map(lambda value: np.asarray(value)[None], kernel)
            gates, tree, weights = Gates(np.zeros(0), np.zeros((0, np.size(leaves.lengthscale))), np.zeros(0)), 0, "product"
        if type(leaves) not in LEAVES.values():
            raise InputError(
                f"leaves that go to other frameworks are one of {list(LEAVES)}; got {type(leaves).__name__}. "
                "tinygp and GPJax take every kernel as it is."
            )
        variance = _numbers(leaves.variance)
        lengthscale, offset = _numbers(leaves.lengthscale).reshape(len(variance), -1), _numbers(gates.offset)
        steepness = np.broadcast_to(_numbers(gates.steepness), offset.shape).copy()
        normal = _numbers(gates.normal)
        return cls(lengthscale, normal, offset, steepness, variance, tree, leaves.tag, weights, constant, linear)

    def kernel(self) -> Kernel:
        """The kernel of hyperleaf, with its trend if it has one; of one without leading axes."""
        leaf = LEAVES[self.leaf]
        kernel: Kernel
        if len(self.variance) == 1:
            kernel = leaf(self.lengthscale[0], self.variance[0])
        else:
            gates = Gates(self.offset, self.normal, self.steepness)
            kernel = Partition(gates, leaf(self.lengthscale, self.variance), self.tree, self.weights)
        if self.constant:
            kernel = kernel + Constant(self.constant)
        return kernel + Linear(self.linear, CENTER) if self.linear else kernel


def paths(tree: Any) -> tuple[Values, Values]:
    """ξ_L and ξ_R (l, g): which leaves lie on the open side of which gates, and which on the other."""
    return path_matrices(as_tree(tree))


def tree_of(tree: Any, leaves: int) -> Any:
    """The tree that was given, or the symmetric one of so many leaves."""
    return symmetric_tree(leaves) if tree is None else as_tree(tree)


def covariance_of(source: Any) -> Kernel:
    """The kernel of f, trend included, of a kernel or of a GP."""
    if isinstance(source, GP):
        return source.covariance
    if not isinstance(source, Kernel):
        raise InputError(
            f"a kernel or a GP of hyperleaf is needed; got {type(source).__name__}. Pass a kernel, or a draw: posterior.draw()."
        )
    return source


def distributions_in(kernel: Kernel) -> dict[str, Distribution]:
    """By the name of its field, the prior of one number of each field that has one."""
    found = jax.tree_util.tree_flatten_with_path(kernel, is_leaf=lambda leaf: isinstance(leaf, Distribution))[0]
    priors = {getattr(path[-1], "name", str(path[-1])): leaf for path, leaf in found if isinstance(leaf, Distribution)}
    return {name: _of_one_number(prior) for name, prior in priors.items()}


def with_priors(kernel: Any, priors: Mapping[str, Any]) -> Any:
    """A module of another framework with distributions in the place of the fields of these names."""
    for name, prior in priors.items():
        fields = list(getattr(kernel, "__dataclass_fields__", {}))
        if name not in fields:
            raise InputError(f"{type(kernel).__name__} has no field {name!r}; {nearest(name, fields)}")
        kernel = eqx.tree_at(attrgetter(name), kernel, prior, is_leaf=lambda leaf: leaf is None)
    return kernel


def _of_one_number(prior: Distribution) -> Distribution:
    while isinstance(prior, dist.ExpandedDistribution | dist.Independent):
        prior = prior.base_dist
    return prior


def _split(source: Any) -> tuple[Kernel, float, float]:
    """The one partition or stationary kernel in a sum, and the variances of intercept and slopes in it."""
    kernel = covariance_of(source)
    terms, rest = [], [kernel]
    while rest:
        one = rest.pop()
        if isinstance(one, Sum):
            rest += [one.second, one.first]
        else:
            terms.append(one)
    constant = sum(float(one.variance) for one in terms if isinstance(one, Constant))
    slopes = [one for one in terms if isinstance(one, Linear)]
    rest = [one for one in terms if not isinstance(one, Constant | Linear)]
    centred = all(np.shape(one.variance) == () and np.all(np.asarray(one.center) == CENTER) for one in slopes)
    if len(rest) != 1 or not isinstance(rest[0], Partition | Stationary) or not centred:
        kinds = [type(one).__name__ for one in terms]
        raise InputError(
            "other frameworks take one Partition or stationary kernel, and a trend about the middle of the cube: "
            f"Constant(variance) and Linear(variance, {CENTER}); got {kinds}. Add up further "
            "kernels there, or use tinygp or GPJax, which take all."
        )
    return rest[0], constant, sum(float(one.variance) for one in slopes)


def _stack(leaves: tuple[Kernel, ...]) -> Any:
    """Leaves of one kind as one stack."""
    kinds = {type(leaf) for leaf in leaves}
    if len(kinds) > 1 or len({tuple(np.shape(value) for value in jax.tree.leaves(leaf)) for leaf in leaves}) > 1:
        names = [type(leaf).__name__ for leaf in leaves]
        raise InputError(
            f"leaves that go to other frameworks are of one kind and shape; got {names}. "
            "tinygp and GPJax take every kernel as it is."
        )
    return jax.tree.map(lambda *values: np.stack([_numbers(value) for value in values]), *leaves)


@float64
def _drawn(kernel: Kernel, seed: int) -> Kernel:
    prior = Prior(kernel)
    return prior.numbers(np.asarray(prior.sample_vectors(jax.random.key(seed), 1))[0])


def _stacked(parts: list[Parts]) -> Parts:
    alike = {(one.tree, one.leaf, one.weights, one.constant, one.linear) for one in parts}
    if len(alike) != 1 or len({one.lengthscale.shape for one in parts}) != 1:
        raise InputError(
            f"kernels of a batch have one tree, kind of leaf and trend; got {len(alike)} different. Pass them one by one."
        )
    arrays = {name: np.stack([getattr(one, name) for one in parts]) for name in FIELDS}
    first = parts[0]
    return Parts(**arrays, tree=first.tree, leaf=first.leaf, weights=first.weights, constant=first.constant, linear=first.linear)


def _numbers(value: Any) -> Values:
    return np.asarray(value, dtype=np.float64)
