"""Dense linear algebra of exact Gaussian processes: padding, a Gaussian log density with its own gradient, factors that grow.

Compiled code is made for one shape, so a data set of n points is padded to the next of a few sizes: K_pad = blockdiag(K, I) and
y_pad = 0 leave every quantity unchanged. Only lower triangles are ever read or written; `gaussian_log_density` differentiates by
the closed form ∂/∂K = ½(ααᵀ − K⁻¹) instead of through the factorisation. Inverses go by blocks, which turns them into matrix
products and makes them as fast as LAPACK's `potri`.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from hyperleaf.errors import InferenceError

# Finer steps where a query takes seconds: there the work that padding adds costs more than another compilation.
SIZES = (24, 48, 72, 96, 128, 192, 256, 320, 384, 448, 512, 640, 768, 896, 1024, 1280, 1536, 1792, 2048, 2560, 3072, 3584, 4096)
INVERSE_BLOCK = 32  # below this a triangular solve beats splitting further
RELATIVE_JITTER = 1e-10  # of the mean diagonal; 1e-4 would equal a noise standard deviation of 0.01 and hide it
MAX_RELATIVE_JITTER = 1e-4


def padded_size(n: int) -> int:
    """The smallest compiled size that holds n points."""
    for size in SIZES:
        if n <= size:
            return size
    return -(-n // 1024) * 1024


def triangular_inverse(factor: Float[Array, "n n"]) -> Float[Array, "n n"]:
    """L⁻¹ of a lower triangular L, by halves: [[A, 0], [C, B]]⁻¹ = [[A⁻¹, 0], [−B⁻¹CA⁻¹, B⁻¹]]."""
    n = factor.shape[0]
    if n <= INVERSE_BLOCK:
        return lax.linalg.triangular_solve(factor, jnp.eye(n, dtype=factor.dtype), left_side=True, lower=True)
    h = _half(n)
    upper, lower = triangular_inverse(factor[:h, :h]), triangular_inverse(factor[h:, h:])
    corner = -(lower @ (factor[h:, :h] @ upper))
    return jnp.block([[upper, jnp.zeros((h, n - h), factor.dtype)], [corner, lower]])


def lower_inverse(inverse_factor: Float[Array, "n n"]) -> Float[Array, "n n"]:
    """The lower blocks of K⁻¹ = L⁻ᵀL⁻¹, from L⁻¹; what stands above the diagonal blocks is not to be read."""
    n = inverse_factor.shape[0]
    if n <= INVERSE_BLOCK:
        return inverse_factor.T @ inverse_factor
    h = _half(n)
    a, c, b = inverse_factor[:h, :h], inverse_factor[h:, :h], inverse_factor[h:, h:]
    upper = lower_inverse(a) + c.T @ c
    return jnp.block([[upper, jnp.zeros((h, n - h), inverse_factor.dtype)], [b.T @ c, lower_inverse(b)]])


def cholesky(lower: Float[Array, "n n"]) -> Float[Array, "n n"]:
    """L with LLᵀ = K, reading only K's lower triangle; NaN where K is not positive definite."""
    return jnp.tril(lax.linalg.cholesky(lower, symmetrize_input=False))


@jax.custom_vjp
def gaussian_log_density(lower: Float[Array, "n n"], y: Float[Array, "n"], count: Float[Array, ""]) -> Float[Array, ""]:
    """ln N(y; 0, K) of the `count` real rows, from the lower triangle of the padded K; −∞ where K is not positive definite.

    The gradient with respect to `lower` is that of its lower triangle: each off-diagonal entry stands for two of K's.
    """
    return _density_forward(lower, y, count)[0]


def _density_forward(lower, y, count):
    factor = lax.linalg.cholesky(lower, symmetrize_input=False)
    inverse_factor = triangular_inverse(factor)
    whitened = inverse_factor @ y
    value = -0.5 * whitened @ whitened - jnp.sum(jnp.log(jnp.diagonal(factor))) - 0.5 * count * jnp.log(2 * jnp.pi)
    ok = jnp.isfinite(value)
    return jnp.where(ok, value, -jnp.inf), (inverse_factor, whitened, ok)


def _density_backward(saved, cotangent):
    inverse_factor, whitened, ok = saved
    alpha = inverse_factor.T @ whitened
    gradient = jnp.tril(alpha[:, None] * alpha[None, :] - lower_inverse(inverse_factor))
    gradient = gradient - 0.5 * jnp.diag(jnp.diagonal(gradient))
    # Without a factor there is no gradient; zero lets a sampler coast on and reject instead of carrying NaN around.
    return jnp.where(ok, cotangent * gradient, 0.0), jnp.where(ok, -cotangent * alpha, 0.0), jnp.zeros_like(cotangent)


gaussian_log_density.defvjp(_density_forward, _density_backward)


def cholesky_with_jitter(
    lower: Float[Array, "n n"], diagonal_scale: Float[Array, ""]
) -> tuple[Float[Array, "n n"], Float[Array, ""]]:
    """The factor of K + εI for the smallest ε of 0, 1e-10, 1e-9, … 1e-4 times `diagonal_scale` that has one, and that ε.

    K is expected to carry `RELATIVE_JITTER` already, as in the log density; a NaN factor means that even the largest ε failed.
    """
    eye = jnp.eye(lower.shape[0], dtype=lower.dtype)

    def failed(state):
        factor, jitter = state
        # Half, because repeated tens can end a hair below the largest ε, and one more step would be ten times too much.
        return jnp.isnan(factor).any() & (jitter < 0.5 * MAX_RELATIVE_JITTER * diagonal_scale)

    def escalate(state):
        jitter = jnp.maximum(state[1] * 10, RELATIVE_JITTER * diagonal_scale)
        return cholesky(lower + jitter * eye), jitter

    return lax.while_loop(failed, escalate, (cholesky(lower), jnp.zeros((), lower.dtype)))


def append_row(
    factor: Float[Array, "n n"], index: Array, cross: Float[Array, "n"], variance: Float[Array, ""]
) -> tuple[Float[Array, "n n"], Float[Array, "n"], Float[Array, ""]]:
    """Grow a padded factor by the point at row `index`, in O(n²).

    `cross` holds the covariances with the earlier points (zero from `index` on), `variance` the new diagonal entry. Also returns
    the new row's off-diagonal part v = L⁻¹k and the conditional variance `variance` − vᵀv, which the new diagonal is the root of.
    """
    row = lax.linalg.triangular_solve(factor, cross[:, None], left_side=True, lower=True)[:, 0]
    conditional = variance - row @ row
    # Rounding can leave a repeated, noise-free point below zero; the floor is where a direct factorisation would round it to.
    conditional = jnp.maximum(conditional, 1e-14 * variance)
    here = jnp.arange(cross.shape[0]) == index
    new_row = jnp.where(here, jnp.sqrt(conditional), row)
    return factor.at[index].set(new_row), row, conditional


@partial(jax.jit, static_argnums=1)
def grow_padding(factor: Float[Array, "*s n n"], size: int) -> Float[Array, "*s m m"]:
    """The same factors in the next size: blockdiag(L, I)."""
    n = factor.shape[-1]
    if size < n:
        raise InferenceError(f"a factor of size {n} cannot shrink to {size}; pad to the same size or a larger one.")
    pad = [(0, 0)] * (factor.ndim - 2) + [(0, size - n)] * 2
    tail = jnp.where(jnp.arange(size) < n, 0.0, 1.0)
    return jnp.pad(factor, pad) + jnp.diag(tail)


def _half(n: int) -> int:
    return -(-n // 32) * 16
