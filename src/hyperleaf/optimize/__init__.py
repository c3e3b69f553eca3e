"""Maximising a score over a domain or over given rows, and the rule about asking for a finished point again.

An `Optimizer` (`searches`) looks at a `Problem` and returns `Trials` (`base`): rows that stand for feasible points of the domain,
integers and options in their own places, with their scores. `choose` (`repeats`) takes the best of them that is no repetition,
or says why a repetition is worth it.
"""

from hyperleaf.optimize.admissible import Outwards
from hyperleaf.optimize.base import Optimizer, Problem, Rows, Score, Scores, Trials
from hyperleaf.optimize.repeats import choose, repeats
from hyperleaf.optimize.searches import (
    CMAES,
    OPTIMIZERS,
    Exhaustive,
    Gradients,
    LocalSearch,
    Shooting,
    as_optimizer,
    check_optimizer,
)

__all__ = [
    "CMAES",
    "OPTIMIZERS",
    "Exhaustive",
    "Gradients",
    "LocalSearch",
    "Optimizer",
    "Outwards",
    "Problem",
    "Rows",
    "Score",
    "Scores",
    "Shooting",
    "Trials",
    "as_optimizer",
    "check_optimizer",
    "choose",
    "repeats",
]
