"""What is compared: surrogates with the criterion by which they choose, under short names.

The names of the paper's comparison, with its numbers: HMC with 500 burn-in and 5000 draws thinned to 100, its priors and no trend
(`hhk-hmc`), a treed GP with 2000 + 5000 rounds, a two-layer deep GP that asks by ALC, a warped kernel by maximum likelihood that
asks by variance. `hhk` is what hyperleaf does by itself. A method of one's own is a `Method` too, or a line of a campaign file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hyperleaf.checks import alike
from hyperleaf.errors import InputError


@dataclass(frozen=True)
class Method:
    """A surrogate (its kind and options, as in [surrogate] of a study.toml) and an acquisition."""

    name: str
    title: str
    surrogate: Mapping[str, Any] = field(default_factory=lambda: {"kind": "hhk", "leaves": 8})
    acquisition: str = "entropy"

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, "title": self.title, "surrogate": dict(self.surrogate), "acquisition": self.acquisition}


def _hhk(leaves: int = 8, **options: Any) -> dict[str, Any]:
    return {"kind": "hhk", "leaves": leaves, **options}


_ALL = [
    Method("hhk", "HHK, 8 leaves"),
    Method("hhk-fast", "HHK, 8 leaves, effort fast", _hhk(effort="fast")),
    Method("hhk-4", "HHK, 4 leaves", _hhk(4)),
    Method("hhk-2", "HHK, 2 leaves", _hhk(2)),
    Method("hhk-1", "HHK, 1 leaf", _hhk(1)),
    Method("hhk-evidence", "HHK, leaves by evidence", {"kind": "hhk", "choose_leaves": [1, 2, 4, 8]}),
    Method("hhk-zero", "HHK, 8 leaves, no trend (the paper's)", _hhk(mean="zero")),
    Method("hhk-sqrt", "HHK, 8 leaves, √λ", _hhk(weights="sqrt")),
    Method("hhk-map", "HHK, 8 leaves, MAP", _hhk(inference="map")),
    Method("hhk-nuts", "HHK, 8 leaves, NUTS", _hhk(inference="nuts")),
    Method(
        "hhk-hmc",
        "HHK as in the paper: 8 leaves, HMC, no trend",
        _hhk(inference="hmc", mean="zero", priors="paper", noise_rate=10.0),
    ),
    Method("hhk-paper", "HHK, 8 leaves, the paper's priors", _hhk(priors="paper")),
    Method("random", "HHK, 8 leaves, random queries", _hhk(), "random"),
    Method("space-filling", "HHK, 8 leaves, space-filling queries", _hhk(), "space-filling"),
    Method("hhk-handover", "HHK, 8 leaves, handover", _hhk(), "handover"),
    Method("hhk-variance", "HHK, 8 leaves, variance", _hhk(), "variance"),
    Method("hhk-bald", "HHK, 8 leaves, BALD", _hhk(), "bald"),
    Method("hhk-qbc", "HHK, 8 leaves, query by committee", _hhk(), "qbc"),
    Method("hhk-alc", "HHK, 8 leaves, ALC", _hhk(), "alc"),
    Method("hhk-epig", "HHK, 8 leaves, EPIG", _hhk(), "epig"),
    Method("stationary", "Stationary RBF", {"kind": "stationary"}),
    Method("stationary-linear", "Stationary RBF, linear trend", {"kind": "stationary", "mean": "linear"}),
    Method("warped", "Warped Multi-Index", {"kind": "warped"}, "variance"),
    Method("treed", "Treed GP", {"kind": "treed"}, "entropy"),
    Method("botorch", "BoTorch SingleTaskGP, variance", {"kind": "botorch"}, "variance"),
    Method("botorch-nipv", "BoTorch SingleTaskGP, qNegIntegratedPosteriorVariance", {"kind": "botorch"}, "alc"),
    Method("botorch-saas", "BoTorch SAAS, fully Bayesian, variance", {"kind": "botorch-saas"}, "variance"),
    Method("botorch-saas-warped", "BoTorch SAAS with input warping", {"kind": "botorch-saas", "warping": True}, "variance"),
    Method("sklearn", "scikit-learn GaussianProcessRegressor, variance", {"kind": "sklearn"}, "variance"),
    Method("tgp", "R's tgp, variance", {"kind": "tgp"}, "variance"),
    Method("deep", "Deep GP, two layers", {"kind": "deep", "sweeps": 5000}, "alc"),
]
METHODS = {method.name: method for method in _ALL}


def method(name: str) -> Method:
    """The method of that name."""
    if name not in METHODS:
        hint = alike(name, METHODS) or f" There are {', '.join(METHODS)}."
        raise InputError(f"a method must be one of those known, or a Method of your own; got {name!r}.{hint}")
    return METHODS[name]
