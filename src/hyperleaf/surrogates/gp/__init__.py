"""Gaussian-process surrogates, along their concepts: `surrogate` (a prior and a method of inference, and how to make one),
`problem` (what the method sees of it), `posterior` (draws with their factors, predictions), `guard` (a fresh run held against an
online one), `draws` (what is done with each draw, in compiled code)."""

from hyperleaf.surrogates.gp.guard import Agreement, agreement
from hyperleaf.surrogates.gp.posterior import GPPosterior
from hyperleaf.surrogates.gp.surrogate import (
    NOISE_BOUNDS,
    NOISE_PRIOR,
    GPSurrogate,
    hhk_surrogate,
    noise_by_leaf,
    stationary_surrogate,
    surrogate,
    warped_surrogate,
)

__all__ = [
    "NOISE_BOUNDS",
    "NOISE_PRIOR",
    "Agreement",
    "GPPosterior",
    "GPSurrogate",
    "agreement",
    "hhk_surrogate",
    "noise_by_leaf",
    "stationary_surrogate",
    "surrogate",
    "warped_surrogate",
]
