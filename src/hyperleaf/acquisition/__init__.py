"""Where to ask next: `criteria` say what an observation is worth, under a `belief` that counts what is still to come."""

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

__all__ = [
    "ACQUISITIONS",
    "ALC",
    "BALD",
    "EPIG",
    "NUM_REFERENCES",
    "Acquisition",
    "Belief",
    "Entropy",
    "Handover",
    "Points",
    "QueryByCommittee",
    "Random",
    "Referenced",
    "SpaceFilling",
    "Variance",
    "as_acquisition",
    "check_points",
]
