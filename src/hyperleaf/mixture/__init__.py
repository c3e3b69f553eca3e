"""The predictive distribution of every surrogate: at each candidate a mixture of Gaussians, one component per posterior draw.

p(y | x_j) = Σ_i w_i N(y; μ_ij, v_ij) for j = 1…m. `densities` and `entropy` hold the pure JAX functions, `mixture` the class
that users meet.
"""

from hyperleaf.mixture.densities import (
    mixture_cdf,
    mixture_crps,
    mixture_log_prob,
    mixture_moments,
    mixture_quantile,
    mixture_sample,
)
from hyperleaf.mixture.entropy import EntropyMethod, mixture_entropy, mixture_entropy_taylor, mixture_entropy_with_error
from hyperleaf.mixture.mixture import Mixture

__all__ = [
    "EntropyMethod",
    "Mixture",
    "mixture_cdf",
    "mixture_crps",
    "mixture_entropy",
    "mixture_entropy_taylor",
    "mixture_entropy_with_error",
    "mixture_log_prob",
    "mixture_moments",
    "mixture_quantile",
    "mixture_sample",
]
