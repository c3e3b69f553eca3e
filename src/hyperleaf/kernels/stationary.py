"""Stationary kernels: functions of the scaled distance r² = Σₖ (xₖ − yₖ)²/ℓₖ², each with a variance and ARD lengthscales.

All but the periodic kernel are one profile φ(r²) each; the base class does the rest. `weighted_sum` is the hook through which a
partition evaluates a whole stack of equal leaves at once; the RBF has its own gradient rule there, because it is the hot path of
every sampler: the exponentials are kept from the forward pass and the gradient is two thin matrix products per leaf.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from hyperleaf.kernels.base import Kernel, per_column, positive


class Stationary(Kernel):
    """k(x, y) = variance · φ(r²). Subclasses give `profile`; `lengthscale` is one number or one for each dimension."""

    lengthscale: Any
    variance: Any

    def __init__(self, lengthscale: Any = 1.0, variance: Any = 1.0):
        self.lengthscale = positive("lengthscale", lengthscale)
        self.variance = positive("variance", variance)

    def profile(self, squared: Float[Array, "..."]) -> Float[Array, "..."]:
        """φ(r²), with φ(0) = 1."""
        raise TypeError(f"{type(self).__name__} must define profile(squared).")

    def features(self, x):
        return (x / per_column("lengthscale", self.lengthscale, x)).T

    def pairwise(self, a, b):
        return self.variance * self.profile(squared_distance(a, b))

    def diagonal(self, x):
        return jnp.full(x.shape[0], self.variance, x.dtype)

    def weighted_sum(
        self, wa: Float[Array, "l n"], a: Float[Array, "l d n"], wb: Float[Array, "l m"], b: Float[Array, "l d m"]
    ) -> Float[Array, "n m"]:
        """Σⱼ wⱼ(x) wⱼ(y) kⱼ(x, y) where self is a stack of l kernels and a, b are their features."""
        grams = jax.vmap(lambda kernel, u, v: kernel.pairwise(u, v))(self, a, b)
        return jnp.sum(wa[:, :, None] * wb[:, None, :] * grams, axis=0)


class RBF(Stationary):
    """φ = exp(−r²/2): infinitely smooth."""

    tag = "rbf"

    def profile(self, squared):
        return jnp.exp(-0.5 * squared)

    def pairwise(self, a, b):
        root = jnp.sqrt(self.variance)
        return rbf_sum(jnp.broadcast_to(root, (1, a.shape[1])), a[None], jnp.broadcast_to(root, (1, b.shape[1])), b[None])

    def weighted_sum(self, wa, a, wb, b):
        root = jnp.sqrt(self.variance)[:, None]
        return rbf_sum(root * wa, a, root * wb, b)


class Matern12(Stationary):
    """φ = exp(−r): continuous, nowhere differentiable."""

    tag = "matern12"

    def profile(self, squared):
        return jnp.exp(-safe_root(squared))


class Matern32(Stationary):
    """φ = (1 + √3 r) exp(−√3 r): once differentiable."""

    tag = "matern32"

    def profile(self, squared):
        s = safe_root(3.0 * squared)
        return (1.0 + s) * jnp.exp(-s)


class Matern52(Stationary):
    """φ = (1 + √5 r + 5r²/3) exp(−√5 r): twice differentiable."""

    tag = "matern52"

    def profile(self, squared):
        s = safe_root(5.0 * squared)
        return (1.0 + s + s * s / 3.0) * jnp.exp(-s)


class RationalQuadratic(Stationary):
    """φ = (1 + r²/(2α))^(−α): a scale mixture of RBFs; α → ∞ is the RBF."""

    tag = "rational-quadratic"
    alpha: Any

    def __init__(self, lengthscale: Any = 1.0, variance: Any = 1.0, alpha: Any = 1.0):
        self.lengthscale = positive("lengthscale", lengthscale)
        self.variance = positive("variance", variance)
        self.alpha = positive("alpha", alpha)

    def profile(self, squared):
        return jnp.exp(-self.alpha * jnp.log1p(squared / (2.0 * self.alpha)))


class Periodic(Kernel):
    """k = variance · exp(−2 Σₖ sin²(π(xₖ − yₖ)/periodₖ)/ℓₖ²): exactly periodic in every dimension."""

    tag = "periodic"
    lengthscale: Any
    variance: Any
    period: Any

    def __init__(self, lengthscale: Any = 1.0, variance: Any = 1.0, period: Any = 1.0):
        self.lengthscale = positive("lengthscale", lengthscale)
        self.variance = positive("variance", variance)
        self.period = positive("period", period)

    def features(self, x):
        # 2 sin²(π(x − y)/p) = ½‖(cos, sin)(2πx/p) − (cos, sin)(2πy/p)‖²: an RBF on circles.
        angle = 2.0 * jnp.pi * x / per_column("period", self.period, x)
        lengthscale = per_column("lengthscale", self.lengthscale, x)
        circle = jnp.concatenate([jnp.cos(angle) / lengthscale, jnp.sin(angle) / lengthscale], axis=-1)
        return circle.T

    def pairwise(self, a, b):
        return self.variance * jnp.exp(-0.5 * squared_distance(a, b))

    def diagonal(self, x):
        return jnp.full(x.shape[0], self.variance, x.dtype)


def squared_distance(a: Float[Array, "d n"], b: Float[Array, "d m"]) -> Float[Array, "n m"]:
    """‖aᵢ − bⱼ‖² by differences: exact at coincident points, where the expanded square loses half the digits."""
    return jnp.sum((a[:, :, None] - b[:, None, :]) ** 2, axis=0)


def safe_root(squared: Float[Array, "..."]) -> Float[Array, "..."]:
    """√ with gradient 0 at 0 instead of infinity; 1e-150 stands for 0.

    Not by two nested `where`: jaxlib 0.10.2 compiles those wrongly beside their gradient at some sizes (16 and 17 points in 1-D),
    and the value itself comes out false.
    """
    return jnp.sqrt(jnp.maximum(squared, 1e-300))


def power_of_two(y: Float[Array, "..."]) -> Float[Array, "..."]:
    """2^y for y ≤ 0 to the last bits, in half the time of the compiler's own exponential; 2^−1020 stands for all below it.

    With n the nearest whole number, 2^y = 2^n · 2^(y − n): the second factor by the Taylor series about 0, whose remainder at ½
    is below 1e-17, the first by writing n into the exponent of a float: 1.5 · 2^52 + n has n in its last bits. 2^0 is 1 exactly.
    """
    if y.dtype != jnp.float64:
        return jnp.exp2(y)
    y = jnp.maximum(y, -1020.0)
    whole = lax.round(y, lax.RoundingMethod.TO_NEAREST_EVEN)
    fraction = y - whole
    series = jnp.full_like(fraction, _TAYLOR[-1])
    for coefficient in _TAYLOR[-2::-1]:
        series = series * fraction + coefficient
    bits = lax.bitcast_convert_type(whole + 1.5 * 2.0**52, jnp.int64)
    return series * lax.bitcast_convert_type(lax.shift_left(bits + 1023, jnp.asarray(52, jnp.int64)), jnp.float64)


_TAYLOR = [math.log(2.0) ** k / math.factorial(k) for k in range(14)]


@jax.custom_vjp
def rbf_sum(
    wa: Float[Array, "l n"], a: Float[Array, "l d n"], wb: Float[Array, "l m"], b: Float[Array, "l d m"]
) -> Float[Array, "n m"]:
    """Σⱼ wⱼ(x) wⱼ(y) exp(−½‖aⱼ(x) − bⱼ(y)‖²) over l leaves."""
    return _rbf_forward(wa, a, wb, b)[0]


def _rbf_forward(wa, a, wb, b):
    squared = sum((a[:, k, :, None] - b[:, k, None, :]) ** 2 for k in range(a.shape[1]))
    profile = power_of_two(-0.5 / math.log(2.0) * squared)
    # Term by term, not as one reduction: the compiler then makes a single pass over the kept exponentials.
    total = sum(wa[j, :, None] * wb[j, None, :] * profile[j] for j in range(wa.shape[0]))
    return total, (wa, a, wb, b, profile)


def _rbf_backward(saved, cotangent):
    wa, a, wb, b, profile = saved
    pulled = cotangent * profile  # (l, n, m)
    # With M = pulled ∘ wa wbᵀ the gradients are M·1 and a ∘ (M·1) − M·b: one thin product per side gives both.
    right = jnp.concatenate([wb[:, None], wb[:, None] * b], axis=1)
    left = jnp.concatenate([wa[:, None], wa[:, None] * a], axis=1)
    to_a = jnp.einsum("lfm,lnm->lfn", right, pulled)
    to_b = jnp.einsum("lfn,lnm->lfm", left, pulled)
    return (
        to_a[:, 0],
        -wa[:, None] * (a * to_a[:, :1] - to_a[:, 1:]),
        to_b[:, 0],
        -wb[:, None] * (b * to_b[:, :1] - to_b[:, 1:]),
    )


rbf_sum.defvjp(_rbf_forward, _rbf_backward)
