"""hyperleaf's kernels in tinygp, and tinygp's as leaves of a partition.

Both are Equinox modules that JAX differentiates, so nothing is copied: each stands inside the other. What is not distribution or
array stays as it is, and parameters are trained, fixed or given priors where they lie.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array

from hyperleaf.adapters import missing
from hyperleaf.adapters.parts import covariance_of, with_priors
from hyperleaf.errors import InputError
from hyperleaf.kernels import Kernel

try:
    import tinygp
except ModuleNotFoundError as error:
    raise missing("tinygp", "tinygp") from error


class FromHyperleaf(tinygp.kernels.Kernel):
    """A kernel of hyperleaf, or a GP such as `posterior.draw()` with its trend, as a kernel of tinygp.

    The kernel itself is the field `kernel`; that is the way back. Whole Gram matrices are computed at once, so that gates are
    evaluated once per point and not once per pair.
    """

    kernel: Kernel

    def __init__(self, source: Any) -> None:
        self.kernel = covariance_of(source)

    def evaluate(self, X1: Any, X2: Any) -> Array:
        return self.kernel.evaluate(jnp.atleast_1d(X1), jnp.atleast_1d(X2))

    def evaluate_diag(self, X: Any) -> Array:
        return self.kernel.diagonal(jnp.atleast_1d(X)[None])[0]

    def __call__(self, X1: Any, X2: Any = None) -> Array:
        x = _rows(X1)
        return self.kernel.diagonal(x) if X2 is None else self.kernel.gram(x, _rows(X2))

    def to_hyperleaf(self) -> Kernel:
        """The kernel inside, trained or not."""
        return self.kernel


class FromTinygp(Kernel):
    """A kernel of tinygp as one of hyperleaf: a leaf of a partition, a term of a sum.

    `priors` put distributions in the place of its fields, by name, so that they are learned: `FromTinygp(Matern52(),
    scale=LogNormal(0, 1))`. Others stay as they are.
    """

    tag = "from-tinygp"
    kernel: tinygp.kernels.Kernel

    def __init__(self, kernel: tinygp.kernels.Kernel, **priors: Any) -> None:
        if not isinstance(kernel, tinygp.kernels.Kernel):
            raise InputError(f"a kernel of tinygp is needed; got {type(kernel).__name__}. Pass one of tinygp.kernels.")
        self.kernel = with_priors(kernel, priors)

    def evaluate(self, x: Any, y: Any) -> Array:
        return self.kernel.evaluate(x, y)

    def pairwise(self, a: Any, b: Any) -> Array:
        return self.kernel(a.T, b.T)

    def diagonal(self, x: Any) -> Array:
        return self.kernel(x)


def _rows(points: Any) -> Any:
    """Points as rows; tinygp takes a plain vector for points of one input."""
    x = jnp.asarray(points)
    return x[:, None] if x.ndim == 1 else x
