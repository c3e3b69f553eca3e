"""What a kernel is: a positive semi-definite function of two points, vectorised here once for all.

A new kernel overrides `evaluate` (a function of two points, the base class vectorises it), or, where work can be shared between
pairs, `features` (computed once per point) and `pairwise` (of two sets of features). Everything else follows. Fields hold
numbers, arrays, or distributions; with distributions in them a kernel is a prior over kernels (see `priors.py`).
"""

from __future__ import annotations

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree
from numpy.typing import ArrayLike, NDArray
from numpyro.distributions import Distribution

from hyperleaf.errors import InputError
from hyperleaf.precision import float64

SMALL_GRAM_BLOCK, GRAM_BLOCK = 32, 64  # rows computed at a time; what stands right of their last column is never computed


class Kernel(eqx.Module):
    """A covariance function k(x, y) on ℝᵈ. Features carry the points in their last axis, so that they can be sliced."""

    tag: ClassVar[str]  # what saved files call it; never changed

    def evaluate(self, x: Float[Array, "d"], y: Float[Array, "d"]) -> Float[Array, ""]:
        """k(x, y) of two points."""
        return self.pairwise(self.features(x[None]), self.features(y[None]))[0, 0]

    def features(self, x: Float[Array, "n d"]) -> PyTree:
        """What `pairwise` needs to know of each point, computed once per point; arrays (…, n)."""
        return x.T

    def pairwise(self, a: PyTree, b: PyTree) -> Float[Array, "n m"]:
        """k between all points behind the features a and b."""
        return jax.vmap(lambda x: jax.vmap(lambda y: self.evaluate(x, y))(b.T))(a.T)

    def diagonal(self, x: Float[Array, "n d"]) -> Float[Array, "n"]:
        """k(x, x) at each point."""
        return jax.vmap(lambda point: self.evaluate(point, point))(x)

    def gram(self, x: Float[Array, "n d"], y: Float[Array, "m d"] | None = None) -> Float[Array, "n m"]:
        """The matrix of k between the rows of x and of y (of x, if y is not given)."""
        a = self.features(x)
        return self.pairwise(a, a if y is None else self.features(y))

    def lower_gram(self, x: Float[Array, "n d"]) -> Float[Array, "n n"]:
        """The Gram matrix of x with zeros right of the diagonal blocks: half the work, for those who read the lower triangle."""
        n = x.shape[0]
        features = self.features(x)
        block = SMALL_GRAM_BLOCK if n <= 128 else GRAM_BLOCK  # small blocks waste less but make more code to compile
        rows = []
        for start in range(0, n, block):
            stop = min(start + block, n)
            row = self.pairwise(_points(features, start, stop), _points(features, 0, stop))
            rows.append(jnp.pad(row, ((0, 0), (0, n - stop))))
        return jnp.concatenate(rows)

    @float64
    def __call__(self, x: ArrayLike, y: ArrayLike | None = None) -> NDArray[np.float64]:
        """The Gram matrix in double precision as a NumPy array, for use outside compiled code."""
        for name, points in (("x", x), ("y", y)):
            if points is not None and np.ndim(points) != 2:
                raise InputError(f"{name} must have shape (n, d); got {np.shape(points)}. Reshape it, with one point per row.")
        if y is not None and np.shape(x)[1] != np.shape(y)[1]:
            raise InputError(f"x and y must have equally many columns; got shapes {np.shape(x)} and {np.shape(y)}.")
        x = jnp.asarray(x, dtype=jnp.float64)
        return np.asarray(self.gram(x, None if y is None else jnp.asarray(y, dtype=jnp.float64)))

    def __add__(self, other: Kernel) -> Kernel:
        return Sum(self, other)

    def __mul__(self, other: Kernel | float) -> Kernel:
        return Product(self, other if isinstance(other, Kernel) else Constant(other))

    __rmul__ = __mul__


class Sum(Kernel):
    """k(x, y) = k₁(x, y) + k₂(x, y)."""

    tag = "sum"
    first: Kernel
    second: Kernel

    def features(self, x):
        return self.first.features(x), self.second.features(x)

    def pairwise(self, a, b):
        return self.first.pairwise(a[0], b[0]) + self.second.pairwise(a[1], b[1])

    def diagonal(self, x):
        return self.first.diagonal(x) + self.second.diagonal(x)


class Product(Kernel):
    """k(x, y) = k₁(x, y) · k₂(x, y)."""

    tag = "product"
    first: Kernel
    second: Kernel

    def features(self, x):
        return self.first.features(x), self.second.features(x)

    def pairwise(self, a, b):
        return self.first.pairwise(a[0], b[0]) * self.second.pairwise(a[1], b[1])

    def diagonal(self, x):
        return self.first.diagonal(x) * self.second.diagonal(x)


class Constant(Kernel):
    """k(x, y) = variance: one unknown offset, the same everywhere."""

    tag = "constant"
    variance: Any

    def __init__(self, variance: Any = 1.0):
        self.variance = positive("variance", variance)

    def features(self, x):
        return jnp.ones(x.shape[0], x.dtype)

    def pairwise(self, a, b):
        return self.variance * a[:, None] * b[None, :]

    def diagonal(self, x):
        return jnp.full(x.shape[0], self.variance, x.dtype)


class Linear(Kernel):
    """k(x, y) = Σₖ varianceₖ (xₖ − centerₖ)(yₖ − centerₖ): a linear function with independent Gaussian slopes."""

    tag = "linear"
    variance: Any
    center: Any

    def __init__(self, variance: Any = 1.0, center: Any = 0.5):
        self.variance = positive("variance", variance)
        self.center = parameter(center)

    def features(self, x):
        per_column("variance", self.variance, x)
        per_column("center", self.center, x)
        return (jnp.sqrt(self.variance) * (x - self.center)).T

    def pairwise(self, a, b):
        return a.T @ b

    def diagonal(self, x):
        return jnp.sum(self.variance * (x - self.center) ** 2, axis=-1)


def parameter(value: Any) -> Any:
    """A kernel parameter as it is stored: a distribution or a JAX array as given, anything else as a float64 NumPy array."""
    return value if isinstance(value, Distribution | jax.Array) else np.asarray(value, dtype=np.float64)


def positive(name: str, value: Any) -> Any:
    """A parameter that must be positive and finite; checked where it is a plain number."""
    value = parameter(value)
    if isinstance(value, np.ndarray) and not (np.isfinite(value).all() and (value > 0).all()):
        raise InputError(f"{name} must be positive and finite; got {value.tolist()}. Pass a number above zero or a distribution.")
    return value


def per_column(name: str, value: Any, x: Float[Array, "n d"]) -> Any:
    """A parameter that is one number or one for each column of x; broadcasting would turn a wrong d into a silent answer."""
    shape, d = jnp.shape(value), x.shape[1]
    if shape not in ((), (1,), (d,)):
        raise InputError(f"{name} must be one number or one for each column of x; got shape {shape} for x with {d} columns.")
    return value


def _points(features: PyTree, start: int, stop: int) -> PyTree:
    return jax.tree.map(lambda leaf: leaf[..., start:stop], features)
