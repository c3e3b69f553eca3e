"""hyperleaf's kernels in GPJax, and GPJax's as leaves of a partition.

GPJax trains what is wrapped in one of its parameters, so the fields of a kernel are wrapped on the way in: positive ones as
`PositiveReal`, offsets, normals and the like as `Real`. A trend stays as it is.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from hyperleaf.adapters import missing
from hyperleaf.adapters.parts import CENTER, REAL, covariance_of, with_priors
from hyperleaf.errors import InputError
from hyperleaf.gp import GP
from hyperleaf.kernels import Constant, Kernel, Linear

try:
    import lineax
    import paramax
    from gpjax.kernels.base import AbstractKernel
    from gpjax.kernels.computations import DenseKernelComputation
    from gpjax.parameters import PositiveReal, Real
except ModuleNotFoundError as error:
    raise missing("gpjax", "gpjax") from error


class WholeGrams(DenseKernelComputation):
    """Gram matrices computed at once, so that gates are evaluated once per point and not once per pair."""

    def _cross_covariance(self, kernel: Any, x: Any, y: Any) -> Array:
        return kernel.plain.gram(jnp.asarray(kernel.slice_input(x)), jnp.asarray(kernel.slice_input(y)))

    def _diagonal(self, kernel: Any, inputs: Any) -> Any:
        values = kernel.plain.diagonal(jnp.asarray(kernel.slice_input(inputs)))
        return lineax.TaggedLinearOperator(lineax.DiagonalLinearOperator(values), lineax.positive_semidefinite_tag)


_WHOLE_GRAMS = WholeGrams()  # one object: it is part of what compiled code is found by


class FromHyperleaf(AbstractKernel):
    """A kernel of hyperleaf, or a GP such as `posterior.draw()` with its trend, as a kernel of GPJax that it can train."""

    name: str = "Hyperleaf"
    kernel: Any  # as hyperleaf's, with parameters of GPJax in its fields
    trend: Any  # of a GP, what is added to it and not learned

    def __init__(self, source: Any, active_dims: Any = None, n_dims: int | None = None) -> None:
        kernel = source.kernel if isinstance(source, GP) else covariance_of(source)
        self.kernel = _wrapped(kernel)
        self.trend = _trend(source)
        super().__init__(active_dims, n_dims, _WHOLE_GRAMS)

    def __call__(self, x: Any, y: Any) -> Array:
        return self.plain.evaluate(jnp.atleast_1d(self.slice_input(x)), jnp.atleast_1d(self.slice_input(y)))

    @property
    def plain(self) -> Kernel:
        """The kernel with numbers in its fields, trend included."""
        kernel = paramax.unwrap(self.kernel)
        return kernel if self.trend is None else kernel + self.trend

    def to_hyperleaf(self) -> Kernel:
        """The kernel as it is now, trend included, with NumPy numbers in its fields."""
        return jax.tree.map(np.asarray, self.plain)


class FromGPJax(Kernel):
    """A kernel of GPJax as one of hyperleaf: a leaf of a partition, a term of a sum.

    `priors` put distributions in the place of its fields, by name, so that they are learned: `FromGPJax(RBF(),
    lengthscale=LogNormal(0, 1))`. Others keep the values that they have now.
    """

    tag = "from-gpjax"
    kernel: Any

    def __init__(self, kernel: Any, **priors: Any) -> None:
        if not isinstance(kernel, AbstractKernel):
            raise InputError(f"a kernel of GPJax is needed; got {type(kernel).__name__}. Pass one of gpjax.kernels.")
        self.kernel = with_priors(jax.tree.map(np.asarray, paramax.unwrap(kernel)), priors)

    def evaluate(self, x: Any, y: Any) -> Array:
        return self.kernel(x, y)

    def pairwise(self, a: Any, b: Any) -> Array:
        return self.kernel.cross_covariance(a.T, b.T)


def _trend(source: Any) -> Kernel | None:
    if not isinstance(source, GP) or source.mean == "zero":
        return None
    intercept = Constant(source.trend_variance)
    return intercept if source.mean == "constant" else intercept + Linear(source.trend_variance, CENTER)


def _wrapped(kernel: Kernel) -> Any:
    """The kernel with each field in a parameter of GPJax."""

    def wrap(path: Any, value: Any) -> Any:
        name = getattr(path[-1], "name", "")
        return (Real if name in REAL else PositiveReal)(jnp.asarray(value))

    return jax.tree_util.tree_map_with_path(wrap, kernel, is_leaf=eqx.is_array)
