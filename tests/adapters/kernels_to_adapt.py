"""What all adapters are tested with: kernels of depth 0 to 3 in 1, 2 and 6 inputs, and what hyperleaf makes of them."""

import os
from importlib import import_module
from importlib.util import find_spec

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hyperleaf.gp import GP
from hyperleaf.kernels import RBF, Gates, Matern12, Matern32, Matern52, Partition
from hyperleaf.precision import float64

FIELDS = ("lengthscale", "normal", "offset", "steepness", "variance")
LEAVES = (RBF, Matern12, Matern32, Matern52)
CASES = [(depth, d) for depth in (0, 1, 2, 3) for d in (1, 2, 6)]
FEW = [(0, 2), (1, 1), (2, 6), (3, 2)]  # where both sides are JAX, and each case is a compilation more
CASES_FEW_NOW = [pytest.param(*one, marks=[] if one in FEW else pytest.mark.long) for one in CASES]


def package(name, extra):
    """The package of that name. Where it is missing the file of tests is skipped, or fails if HYPERLEAF_EXPECT names it."""
    if find_spec(name) is None:
        words = f"{name} is not installed; pip install 'hyperleaf[{extra}]'"
        if name in os.environ.get("HYPERLEAF_EXPECT", "").split(","):
            raise ImportError(f"{words}, and HYPERLEAF_EXPECT says that it should be here.")
        pytest.skip(words, allow_module_level=True)
    return import_module(name)


def kernel_of(depth, d, leaf=RBF, weights="product", seed=0):
    """2^depth leaves; a single one is the stationary kernel."""
    rng = np.random.default_rng([seed, depth, d])
    leaves = 2**depth
    scales, variances = rng.uniform(0.2, 1.5, (leaves, d)), rng.uniform(0.3, 2.0, leaves)
    if depth == 0:
        return leaf(scales[0], variances[0])
    g = leaves - 1
    gates = Gates(rng.normal(size=g), rng.normal(size=(g, d)), rng.uniform(1, 15, g))
    return Partition(gates, leaf(scales, variances), weights=weights)


def points(n, d, seed=1):
    return np.random.default_rng(seed).random((n, d))


def gp_with_trend(depth=1, d=2):
    return GP(kernel_of(depth, d), 0.01, "linear")


@float64
def reference(kernel, x, y, pull):
    """What hyperleaf says: k(x, x), k(x, y), and ∂/∂field Σ pull ∘ k(x, x) by JAX, a single leaf with its leading axis.

    In one compiled function, which takes a tenth of the time of its parts one by one.
    """
    grams, slopes = _reference(jax.tree.map(jnp.asarray, kernel), *(jnp.asarray(v) for v in (x, y, pull)))
    if isinstance(kernel, Partition):
        leaves, gates = slopes.leaves, slopes.gates
        by = {"normal": gates.normal, "offset": gates.offset, "steepness": gates.steepness}
    else:
        leaves = jax.tree.map(lambda value: value[None], slopes)
        by = {"normal": np.zeros((0, x.shape[1])), "offset": np.zeros(0), "steepness": np.zeros(0)}
    by |= {"lengthscale": leaves.lengthscale, "variance": leaves.variance}
    return (*(np.asarray(gram) for gram in grams), {name: np.asarray(value) for name, value in by.items()})


@jax.jit
def _reference(kernel, x, y, pull):
    def total(one):
        gram = one.gram(x)
        return jnp.sum(pull * gram), (gram, one.gram(x, y))

    slopes, grams = jax.grad(total, has_aux=True)(kernel)
    return grams, slopes
