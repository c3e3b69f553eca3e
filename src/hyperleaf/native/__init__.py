"""The hot path in machine code: log posterior, gradient and trajectories of the default model, its factors and predictions,
compiled by the machine's own compiler. `library` builds and loads the sources; `model` says which priors they cover and calls
`core.c`; `predictions` calls `predictions.c`. Where there is no compiler, or HYPERLEAF_NATIVE is off, and for every other kernel,
JAX serves: same results to rounding."""

from hyperleaf.machine.library import VARIABLE
from hyperleaf.native.library import status
from hyperleaf.native.model import Core, chances, core_of, strata
from hyperleaf.native.predictions import Draws, Kept, draws_of

__all__ = ["VARIABLE", "Core", "Draws", "Kept", "chances", "core_of", "draws_of", "status", "strata"]
