"""The hot path in machine code: log posterior, gradient and trajectories of the default model, compiled by the machine's own
compiler. `library` builds and loads `core.c`; `model` says which priors it covers and calls it. Where there is no compiler, or
HYPERLEAF_NATIVE is off, and for every other kernel, JAX serves: same results to rounding."""

from hyperleaf.native.library import VARIABLE, status
from hyperleaf.native.model import Core, chances, core_of

__all__ = ["VARIABLE", "Core", "chances", "core_of", "status"]
