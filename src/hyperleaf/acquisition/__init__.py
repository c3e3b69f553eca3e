"""Where to ask next: `criteria` say what an observation is worth, under a `belief` that counts what is still to come; `goals` are
criteria for those who look for a limit or an optimum."""

from hyperleaf.acquisition.belief import Belief, Points, check_points
from hyperleaf.acquisition.criteria import (
    ACQUISITIONS,
    ALC,
    BALD,
    EPIG,
    NUM_REFERENCES,
    Acquisition,
    Entropy,
    Handover,
    QueryByCommittee,
    Random,
    Referenced,
    SpaceFilling,
    Variance,
    as_acquisition,
)
from hyperleaf.acquisition.goals import Contour, ExpectedImprovement, as_goal
from hyperleaf.acquisition.limits import Admission, Limit, Ramp, all_hold, effective_draws, resolved

__all__ = [
    "ACQUISITIONS",
    "ALC",
    "BALD",
    "EPIG",
    "NUM_REFERENCES",
    "Acquisition",
    "Admission",
    "Belief",
    "Contour",
    "Entropy",
    "ExpectedImprovement",
    "Handover",
    "Limit",
    "Points",
    "QueryByCommittee",
    "Ramp",
    "Random",
    "Referenced",
    "SpaceFilling",
    "Variance",
    "all_hold",
    "as_acquisition",
    "as_goal",
    "check_points",
    "effective_draws",
    "resolved",
]
