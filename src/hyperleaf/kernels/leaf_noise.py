"""Observation noise that differs from leaf to leaf of a partition.

ln σ²(x) = Σⱼ λⱼ(x) ln σⱼ², with the leaf weights λ of the partition: inside a leaf its own level, at a border the geometric mean
of both sides. ln σⱼ² = ln `variance` + `spread` · `deviation`ⱼ, so that equal noise is the middle of the prior. Deviations are
standard normal before data, whatever the spread is: samplers then meet no funnel between the two.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Array, Float
from numpyro.distributions import Distribution

from hyperleaf.errors import InputError
from hyperleaf.kernels.base import parameter, positive
from hyperleaf.kernels.partition import Partition
from hyperleaf.precision import float64

# Rate of the exponential prior of the spread: at its mean, one, two leaves differ by a factor of two in standard deviation as a
# rule; and a factor of ten is nothing that a few dozen observations could not say.
SPREAD_RATE = 1.0


class LeafNoise(eqx.Module):
    """A noise variance for each leaf: one that is common to all, and how far each is from it."""

    tag = "leaf-noise"
    variance: Any  # (), common to all leaves
    spread: Any  # (), the standard deviation of ln σⱼ² between leaves
    deviation: Any  # (l,), of each leaf, in units of the spread

    def __init__(self, variance: Any, spread: Any, deviation: Any):
        self.variance, self.spread = positive("noise", variance), positive("spread", spread)
        self.deviation = parameter(deviation)
        if any(_shape(one) != () for one in (self.variance, self.spread)) or len(_shape(self.deviation)) != 1:
            raise InputError(
                "noise by leaf takes one variance, one spread and a deviation for each leaf; got shapes "
                f"{_shape(self.variance)}, {_shape(self.spread)} and {_shape(self.deviation)}. Give deviation the shape (l,)."
            )

    @property
    def num_leaves(self) -> int:
        return int(_shape(self.deviation)[0])

    def check(self, kernel: Any) -> None:
        """An InputError unless the kernel is a partition of as many leaves."""
        found = kernel.num_leaves if isinstance(kernel, Partition) else 1
        if found != self.num_leaves or found < 2:
            leaves = "one leaf" if found == 1 else f"{found} leaves"
            raise InputError(
                f"noise by leaf is that of a partition of {self.num_leaves} leaves; got a {type(kernel).__name__} of {leaves}. "
                'Give each leaf its deviation; a kernel without gates has one noise: noise = "learned".'
            )

    @property
    def log_levels(self) -> Float[Array, "l"]:
        """ln σⱼ² of each leaf."""
        return jnp.log(self.variance) + self.spread * self.deviation

    def log_at(self, leaf_weights: Float[Array, "l n"]) -> Float[Array, "n"]:
        """ln σ² where the leaves have these weights, which sum to one."""
        return jnp.log(self.variance) + self.spread * (self.deviation @ leaf_weights)


@float64
def leaf_noise(leaves: int, variance: Distribution, spread_rate: float = SPREAD_RATE) -> LeafNoise:
    """A prior over noise by leaf: that of the common variance, and how readily leaves differ."""
    return LeafNoise(variance, dist.Exponential(spread_rate), dist.Normal(0.0, 1.0).expand((leaves,)))


def _shape(value: Any) -> tuple[int, ...]:
    return value.shape() if isinstance(value, Distribution) else np.shape(value)
