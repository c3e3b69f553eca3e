"""What criteria with references make of a `Joint`, in NumPy or, inside a trace, in JAX."""

from __future__ import annotations

from typing import Any

from hyperleaf.errors import InputError
from hyperleaf.surrogates.base import FLOOR, Joint


def mean_information(cov: Any, var_x: Any, var_r: Any, library: Any) -> Any:
    """mean_r −½ ln(1 − ρ²) of Gaussian observations at x (m,) and r (k,) with this covariance (m, k)."""
    squared = cov**2 / var_x[:, None] / var_r[None, :]
    return -0.5 * library.mean(library.log1p(-library.minimum(squared, 1.0 - FLOOR)), axis=1)


def mixture_moments(joint: Joint, within_r: Any, library: Any) -> tuple[Any, Any, Any]:
    """Covariance (m, k) of f, variance (m,) of observations at x, and variance (k,) at r, of the mixture over draws.

    `within_r` (s, k) is the variance of each draw at r.
    """
    w = joint.weights
    off_x, off_r = joint.mean_x - w @ joint.mean_x, joint.mean_r - w @ joint.mean_r
    cov = library.einsum("s,smk->mk", w, joint.cov) + library.einsum("s,sm,sk->mk", w, off_x, off_r)
    within_x = joint.var_x + joint.noise_at_x + FLOOR
    return cov, w @ (within_x + off_x**2), w @ (within_r + off_r**2)


def check_moments(moments: str) -> None:
    if moments not in ("draws", "mixture"):
        raise InputError(f'moments must be "draws" or "mixture"; got {moments!r}.')
