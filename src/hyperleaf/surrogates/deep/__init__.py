"""Deep Gaussian processes of one to three layers, fully Bayesian.

`gaussian` holds the dense algebra, `sampler` the Markov chain, `posterior` what the draws predict, `surrogate` the settings
and the entry `DeepGP(...).fit`.
"""

from hyperleaf.surrogates.deep.posterior import DeepPosterior, Draws
from hyperleaf.surrogates.deep.sampler import State
from hyperleaf.surrogates.deep.surrogate import DeepGP, deep

__all__ = ["SAVED", "DeepGP", "DeepPosterior", "Draws", "deep"]

SAVED = {"deep": DeepGP, "deep-posterior": DeepPosterior, "deep-draws": Draws, "deep-state": State}
