"""Questions that engineers ask of what was learned: `sobol` (which inputs matter), `targets` (where is it best, where above a
limit), `propagation` (inputs that are uncertain), `slopes` (derivatives), `comparing` (two surrogates). All but the last two are
answered by `functions` of the posterior, so with intervals."""

from hyperleaf.analysis.comparing import Comparison, compare
from hyperleaf.analysis.propagation import Propagated, propagate
from hyperleaf.analysis.slopes import Derivatives, derivatives
from hyperleaf.analysis.sobol import Sensitivity, sensitivity
from hyperleaf.analysis.targets import LevelSet, Optimum, level_set, optimum

__all__ = [
    "Comparison",
    "Derivatives",
    "LevelSet",
    "Optimum",
    "Propagated",
    "Sensitivity",
    "compare",
    "derivatives",
    "level_set",
    "optimum",
    "propagate",
    "sensitivity",
]
