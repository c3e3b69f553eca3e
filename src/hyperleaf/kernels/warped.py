"""The Warped Multi-Index kernel: a stationary kernel after a linear map and a monotone warping of each new coordinate.

u = A(x − ½) mixes the inputs into q indices, ψ bends each of them, and a Matérn-5/2 measures distances between the results.
Where ψ is steep the function varies fast: nonstationary along the indices, which may be oblique, and only along them.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import ArrayLike, NDArray

from hyperleaf.errors import InputError
from hyperleaf.kernels.base import Kernel, parameter, positive
from hyperleaf.kernels.stationary import squared_distance
from hyperleaf.precision import float64

TINY = 1e-300
EDGE = 1e-6  # keeps the argument of the Kumaraswamy CDF off 0 and 1, where its gradient is not finite


class WarpedMultiIndex(Kernel):
    """k(x, y) = variance · φ(r²), r² = Σᵢ (ψᵢ(uᵢ) − ψᵢ(vᵢ))²/ℓᵢ², u = A(x − ½), v = A(y − ½), φ the Matérn-5/2; q indices.

    ψᵢ(u) = (ρ(u + ½) + F(u + ½; aᵢ, bᵢ))/(1 + ρ) − ½ with the Kumaraswamy CDF F(z; a, b) = 1 − (1 − zᵃ)ᵇ, z clipped to [0, 1].
    a = b = 1 is no warp inside the cube; `slope`, ρ, keeps ψ injective where the indices leave it.
    """

    tag = "warped-multi-index"
    index: Any  # A, (q, d)
    a: Any  # (q,), or one number for all indices; so are b and lengthscale
    b: Any
    lengthscale: Any
    variance: Any
    slope: Any

    def __init__(
        self, index: Any, a: Any = 1.0, b: Any = 1.0, lengthscale: Any = 1.0, variance: Any = 1.0, slope: Any = 1.0
    ) -> None:
        self.index = parameter(index)
        shape = self.index.shape() if callable(self.index.shape) else self.index.shape
        if len(shape) != 2:
            raise InputError(f"index must be a matrix (q, d), a row for each index; got shape {shape}. np.eye(d) mixes nothing.")
        self.a, self.b = positive("a", a), positive("b", b)
        self.lengthscale, self.variance = positive("lengthscale", lengthscale), positive("variance", variance)
        self.slope = positive("slope", slope)

    def warp(self, u: Float[Array, "n q"]) -> Float[Array, "n q"]:
        """ψ of each index."""
        z = jnp.clip(u + 0.5, EDGE, 1.0 - EDGE)
        # 1 − (1 − zᵃ)ᵇ through logarithms, which neither overflow nor lose 1 − zᵃ where zᵃ is close to one.
        cdf = -jnp.expm1(self.b * jnp.log(-jnp.expm1(self.a * jnp.log(z))))
        return (self.slope * (u + 0.5) + cdf) / (1.0 + self.slope) - 0.5

    def features(self, x):
        if self.index.shape[-1] != x.shape[1]:
            raise InputError(f"index must have one column for each of x; got shape {self.index.shape} for {x.shape[1]} columns.")
        return (self.warp((x - 0.5) @ jnp.transpose(self.index)) / self.lengthscale).T

    def pairwise(self, a, b):
        # The floor gives coincident points a gradient of zero. A root guarded by `where` instead is compiled wrongly beside its
        # gradient by jaxlib 0.10.2 at some sizes (16 and 17 points in 1-D): the value itself comes out false.
        s = jnp.sqrt(jnp.maximum(5.0 * squared_distance(a, b), TINY))
        return self.variance * (1.0 + s + s * s / 3.0) * jnp.exp(-s)

    def diagonal(self, x):
        return jnp.full(x.shape[0], self.variance, x.dtype)

    @float64
    def coordinates(self, x: ArrayLike) -> NDArray[np.float64]:
        """Where the kernel puts the points x (m, d) before it measures distances: ψᵢ(uᵢ)/ℓᵢ, (m, q). Numbers in all fields."""
        return np.asarray(self.features(jnp.asarray(x, dtype=jnp.float64)).T)
