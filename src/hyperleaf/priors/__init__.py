"""A pytree whose leaves may be distributions is a prior over such pytrees with numbers in those places.

`Prior` wraps one: it samples, gives log densities, and maps to and from a flat unconstrained vector z ∈ ℝᵖ, which is where the
samplers live. `hhk_prior` and `stationary_prior` are the priors of the paper, every number of them a parameter; `warped_prior`
and `warped_bounds` are choices of our own for its rival, the Warped Multi-Index kernel.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Array, Float, PyTree
from numpyro.distributions import Distribution
from numpyro.distributions.transforms import ExpTransform, IndependentTransform, biject_to

from hyperleaf.errors import InputError
from hyperleaf.kernels import RBF, Gates, Kernel, Partition, Stationary, WarpedMultiIndex
from hyperleaf.kernels.partition import Weights, as_tree, symmetric_tree, tree_leaves
from hyperleaf.machine import threefry
from hyperleaf.precision import float64, put
from hyperleaf.priors.charts import Chart as Chart


class Prior(eqx.Module):
    """A prior over pytrees like `tree`, whose distributions are independent of each other; all else in it is fixed."""

    tree: PyTree

    @property
    def distributions(self) -> list[Distribution]:
        """All distributions in the fields of the tree, in its order."""
        return [leaf for leaf in jax.tree.leaves(self.tree, is_leaf=_is_distribution) if _is_distribution(leaf)]

    @property
    def size(self) -> int:
        """p, the number of unknown numbers."""
        return sum(int(np.prod(d.shape())) for d in self.distributions)

    def sample(self, key: Array) -> PyTree:
        """One draw: the tree with a sample in the place of each distribution."""
        gamma_key, *keys = jax.random.split(key, len(self.distributions) + 1)
        parameters = [_gamma_parameters(d) for d in self.distributions]
        gammas = iter(_sample_gammas(gamma_key, [pair for pair in parameters if pair is not None]))
        each = zip(self.distributions, parameters, keys, strict=True)
        return self._fill([d.sample(k) if pair is None else next(gammas) for d, pair, k in each])

    def log_prob(self, value: PyTree) -> Float[Array, ""]:
        """The log density of a draw, with respect to the constrained parameters."""
        return sum((jnp.sum(d.log_prob(v)) for d, v in zip(self.distributions, self._values(value), strict=True)), jnp.zeros(()))

    def to_vector(self, value: PyTree) -> Float[Array, "p"]:
        """The unconstrained vector of a draw."""
        parts = [
            jnp.ravel(biject_to(d.support)._inverse(jnp.asarray(v)))
            for d, v in zip(self.distributions, self._values(value), strict=True)
        ]
        return jnp.concatenate(parts) if parts else jnp.zeros(0)

    def from_vector(self, z: Float[Array, "p"]) -> PyTree:
        """The draw behind an unconstrained vector."""
        return self._fill([biject_to(d.support)(part) for d, part in zip(self.distributions, self._parts(z), strict=True)])

    def numbers(self, z: np.ndarray) -> PyTree:
        """`from_vector` in NumPy, for one draw that is looked at: exponentials need nothing compiled."""
        values = []
        for d, part in zip(self.distributions, self._parts(z), strict=True):
            transform = biject_to(d.support)
            while isinstance(transform, IndependentTransform):
                transform = transform.base_transform
            values.append(np.asarray(np.exp(part) if type(transform) is ExpTransform else transform(part)))
        return self._fill(values)

    def log_density(self, z: Float[Array, "p"]) -> Float[Array, ""]:
        """The log density of z: that of the draw plus the log determinant of the map's Jacobian."""
        total = jnp.zeros((), z.dtype)
        for d, part in zip(self.distributions, self._parts(z), strict=True):
            transform = biject_to(d.support)
            value = transform(part)
            total += jnp.sum(d.log_prob(value)) + jnp.sum(transform.log_abs_det_jacobian(part, value))
        return total

    def sample_vectors(self, key: Array, num: int) -> Float[Array, "num p"]:
        """`num` prior draws as unconstrained vectors. Of the usual distributions they are drawn in NumPy, from the same keys."""
        plain = [_plain(d) for d in self.distributions]
        if threefry.is_default(key) and None not in plain:
            return put(self._vectors(threefry.split(threefry.data_of(key), num), plain))
        return jax.vmap(lambda k: self.to_vector(self.sample(k)))(jax.random.split(key, num))

    def _vectors(self, keys: np.ndarray, plain: list[Any]) -> np.ndarray:
        """What `to_vector(sample(key))` is, for each of the keys (num, 2)."""
        own = threefry.split(keys, len(plain) + 1)
        shapes = np.concatenate([np.zeros(0), *(np.ravel(shape) for kind, shape, _ in plain if kind is dist.Gamma)])
        spent = threefry.split(own[:, 0], len(shapes))
        gammas = threefry.gamma(spent, np.broadcast_to(shapes, spent.shape[:-1])).reshape(len(keys), len(shapes))
        parts, begun = [np.zeros((len(keys), 0))], 0
        for i, (kind, first, second) in enumerate(plain):
            first, second, end = np.ravel(first), np.ravel(second), begun + first.size
            if kind is dist.Gamma:
                parts, begun = [*parts, np.log(gammas[:, begun:end] / second)], end
            elif kind is dist.Exponential:
                parts.append(np.log(-np.log1p(-threefry.uniform(own[:, i + 1], first.shape)) / first))
            else:
                parts.append(first + second * threefry.normal(own[:, i + 1], first.shape))  # of a LogNormal, its logarithm
        return np.concatenate(parts, axis=1)

    @property
    def chart(self) -> Chart:
        """Coordinates that make sharp gates and soft ones alike; z itself where there is none with an unknown steepness."""
        places: dict[Any, dict[str, np.ndarray]] = {}
        paths, _ = jax.tree_util.tree_flatten_with_path(self.tree, is_leaf=_is_distribution)
        unknown = [path for path, leaf in paths if _is_distribution(leaf)]
        for path, place in zip(unknown, self._parts(np.arange(self.size)), strict=True):
            places.setdefault(path[:-1], {})[getattr(path[-1], "name", "")] = place
        picks = np.zeros((self.size, self.size))
        for fields in places.values():
            for name in ("offset", "normal"):
                if "steepness" in fields and name in fields:
                    place, steepness = fields[name], fields["steepness"]
                    steepness = steepness.reshape(steepness.shape + (1,) * (place.ndim - steepness.ndim))
                    picks[place, np.broadcast_to(steepness, place.shape)] = 1.0
        return Chart(picks)

    def _parts(self, z):
        shapes = [d.shape() for d in self.distributions]
        ends = np.cumsum([int(np.prod(shape)) for shape in shapes])
        return [z[end - int(np.prod(shape)) : end].reshape(shape) for end, shape in zip(ends, shapes, strict=True)]

    def _fill(self, values):
        leaves, structure = jax.tree.flatten(self.tree, is_leaf=_is_distribution)
        supply = iter(values)
        return jax.tree.unflatten(structure, [next(supply) if _is_distribution(leaf) else leaf for leaf in leaves])

    def _values(self, value):
        leaves = jax.tree.leaves(self.tree, is_leaf=_is_distribution)
        return [v for leaf, v in zip(leaves, jax.tree.leaves(value), strict=True) if _is_distribution(leaf)]


def _is_distribution(leaf: Any) -> bool:
    return isinstance(leaf, Distribution)


def _plain(d: Distribution) -> tuple[Any, np.ndarray, np.ndarray] | None:
    """The type of one of the usual distributions and its two parameters (an exponential has one) in full shape; else None."""
    base = d
    while isinstance(base, dist.ExpandedDistribution | dist.Independent):
        base = base.base_dist
    pair, shape = ("loc", "scale"), ("concentration", "rate")
    names = {dist.Normal: pair, dist.LogNormal: pair, dist.Gamma: shape, dist.Exponential: shape[1:] * 2}
    if type(base) not in names:
        return None
    first, second = (np.broadcast_to(np.asarray(getattr(base, name)), d.shape()) for name in names[type(base)])
    return type(base), first, second


def _gamma_parameters(d: Distribution) -> tuple[Array, Array] | None:
    """Shape and rate of a Gamma distribution in full shape, None for any other."""
    base = d.base_dist if isinstance(d, dist.ExpandedDistribution) else d
    if type(base) is not dist.Gamma:
        return None
    return jnp.broadcast_to(base.concentration, d.shape()), jnp.broadcast_to(base.rate, d.shape())


def _sample_gammas(key: Array, parameters: list[tuple[Array, Array]]) -> list[Array]:
    """One draw for each (shape, rate), through one sampler: the rejection loop of a Gamma takes seconds to compile."""
    if not parameters:
        return []
    standard = jax.random.gamma(key, jnp.concatenate([jnp.ravel(shape) for shape, _ in parameters]))
    ends = np.cumsum([rate.size for _, rate in parameters])
    return [standard[end - rate.size : end].reshape(rate.shape) / rate for end, (_, rate) in zip(ends, parameters, strict=True)]


@float64
def wide_priors(d: int) -> dict[str, Distribution]:
    """Priors of lengthscale and steepness with heavier tails than the paper's, made for d inputs: for `hhk_prior(d, **…)`.

    Gates may be soft or sharp, as a phase line is; the paper's take a third of the cube to change. Lengthscales grow with d, and
    may be far longer than the cube where an input has no effect: under the paper's prior two random points of ten inputs are all
    but independent. Up to two inputs the lengthscales are the paper's.
    """
    size = max(check_count("d", d), 2) / 2.0
    return {
        "lengthscale": dist.LogNormal(np.log(0.84 * size), 1.0) if d > 2 else dist.Gamma(2.0, 2.0),
        "steepness": dist.LogNormal(np.log(7.0 / np.sqrt(size)), 1.5),
    }


@float64
def hhk_prior(
    d: int,
    leaves: int = 8,
    *,
    tree: Any = None,
    leaf: type[Stationary] = RBF,
    lengthscale: tuple[float, float] | Distribution = (2.0, 2.0),
    variance: tuple[float, float] = (2.0, 3.0),
    steepness: tuple[float, float] | Distribution = (6.0, 2.0),
    hyperplane_std: float = 1.0,
    weights: Weights = "product",
) -> Kernel:
    """The paper's prior over Hierarchical-Hyperplane Kernels on [0, 1]ᵈ: a kernel with distributions in its fields.

    `lengthscale`, `variance` and `steepness` are (shape, rate) of Gamma priors, or distributions of one number; offsets and
    normals are N(0, hyperplane_std²). Studies and regressors take `wide_priors(d)` for two of them unless told otherwise.
    `tree` (nested pairs) overrides the symmetric tree of `leaves` leaves. One leaf is the stationary kernel.
    """
    check_count("d", d)
    tree = symmetric_tree(check_count("leaves", leaves)) if tree is None else as_tree(tree)
    num_leaves = len(tree_leaves(tree))
    if num_leaves == 1:
        return stationary_prior(d, leaf, lengthscale=lengthscale, variance=variance)
    g = num_leaves - 1
    normal = dist.Normal(0.0, _positive_number("hyperplane_std", hyperplane_std))
    gates = Gates(normal.expand((g,)), normal.expand((g, d)), _gamma("steepness", steepness).expand((g,)))
    stack = leaf(_gamma("lengthscale", lengthscale).expand((num_leaves, d)), _gamma("variance", variance).expand((num_leaves,)))
    # What else a leaf holds, as the rational quadratic's alpha, keeps its default, the same in every leaf.
    stack = jax.tree.map(lambda v: v if _is_distribution(v) else np.full(num_leaves, v), stack, is_leaf=_is_distribution)
    return Partition(gates, stack, tree, weights)


@float64
def stationary_prior(
    d: int,
    kernel: type[Stationary] = RBF,
    *,
    lengthscale: tuple[float, float] | Distribution = (2.0, 2.0),
    variance: tuple[float, float] = (2.0, 3.0),
) -> Stationary:
    """A stationary kernel with the same priors as a leaf of `hhk_prior`."""
    check_count("d", d)
    return kernel(_gamma("lengthscale", lengthscale).expand((d,)), _gamma("variance", variance))


@float64
def warped_prior(
    d: int,
    indices: int | None = None,
    *,
    index_std: float = 0.5,
    warp_std: float = 0.75,
    lengthscale: tuple[float, float] = (2.0, 2.0),
    variance: tuple[float, float] = (2.0, 3.0),
) -> WarpedMultiIndex:
    """A prior over Warped Multi-Index kernels. It is our own: the method as published has none.

    A ~ N(I, index_std²) entry by entry, ln a and ln b ~ N(0, warp_std²), so that no warp and no mixing is the middle; Gamma
    priors (shape, rate) for lengthscales and variance as in a leaf of `hhk_prior`. `indices` is q, by default d.
    """
    eye = _first_indices(d, indices)
    q = len(eye)
    shape = dist.LogNormal(0.0, _positive_number("warp_std", warp_std)).expand((q,))
    spread = dist.Normal(eye, _positive_number("index_std", index_std))
    return WarpedMultiIndex(spread, shape, shape, _gamma("lengthscale", lengthscale).expand((q,)), _gamma("variance", variance))


@float64
def warped_bounds(
    d: int,
    indices: int | None = None,
    *,
    shape: tuple[float, float] = (0.1, 10.0),
    lengthscale: tuple[float, float] = (0.05, 10.0),
    variance: tuple[float, float] = (0.05, 20.0),
) -> WarpedMultiIndex:
    """Where type-II maximum likelihood searches for a Warped Multi-Index kernel, and starts: log-uniform between bounds.

    `shape` bounds a and b. A is free and starts at I, further starts at N(I, ½²). For inputs in the unit cube and outputs of
    variance one; the bounds are our own, wide enough that what lies beyond them looks the same in such data.
    """
    eye = _first_indices(d, indices)
    q = len(eye)
    a = _between("shape", shape).expand((q,))
    spread = dist.Normal(eye, 0.5)
    return WarpedMultiIndex(spread, a, a, _between("lengthscale", lengthscale).expand((q,)), _between("variance", variance))


def _first_indices(d: int, indices: int | None) -> Array:
    """I (q, d): each index one input; where there are more of them than inputs, they begin again."""
    check_count("d", d)
    q = d if indices is None else check_count("indices", indices)
    return jnp.asarray(np.eye(d)[np.arange(q) % d])


def check_count(name: str, value: Any) -> int:
    """A whole number ≥ 1, or an error that says so."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise InputError(f"{name} must be a whole number ≥ 1; got {value!r}.")
    return int(value)


def _gamma(name: str, shape_rate: tuple[float, float] | Distribution) -> Distribution:
    if isinstance(shape_rate, Distribution):
        if shape_rate.shape() != () or shape_rate.support is not dist.constraints.positive:
            raise InputError(f"the prior of {name} must be a distribution of one positive number; got {shape_rate!r}.")
        return shape_rate
    try:
        shape, rate = (float(v) for v in shape_rate)
    except (TypeError, ValueError):
        raise InputError(
            f"the prior of {name} is a pair (shape, rate) of a Gamma distribution, or a distribution; got {shape_rate!r}."
        ) from None
    return dist.Gamma(_positive_number(f"{name} shape", shape), _positive_number(f"{name} rate", rate))


def _between(name: str, bounds: tuple[float, float]) -> Distribution:
    try:
        low, high = (_positive_number(f"a bound of {name}", float(v)) for v in bounds)
    except TypeError:
        raise InputError(f"the bounds of {name} are a pair (low, high); got {bounds!r}.") from None
    if not low < high:
        raise InputError(f"the bounds of {name} must be low < high; got {bounds!r}.")
    return dist.LogUniform(low, high)


def _positive_number(name: str, value: Any) -> float:
    if not isinstance(value, int | float | np.number) or not np.isfinite(value) or value <= 0:
        raise InputError(f"{name} must be positive and finite; got {value!r}.")
    return float(value)
