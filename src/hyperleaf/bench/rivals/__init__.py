"""Rivals from outside: surrogates of other packages, behind the same contract as our own, so that a comparison is with the thing.

`RIVALS` is a table like that of `surrogates.kinds`, with the package that each needs; `base` has the one surrogate and the one
posterior that all share, the other files have a package each. A rival is refitted at every query, as its users would, and keeps
its parameters as arrays: campaigns, kills and resumes work as with any surrogate. New ones are a file and an entry here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from shutil import which
from typing import TYPE_CHECKING

from hyperleaf.surrogates.kinds import TRUTH, WHOLE, Kind, Option

if TYPE_CHECKING:
    from hyperleaf.surrogates.base import Surrogate


@dataclass(frozen=True, kw_only=True)
class RivalKind(Kind):
    """A kind from another package: `needs` is what has to be there, `install` how it gets there."""

    home: str = ""
    regressor: str = ""
    evidence: bool = False
    updates: str = "fitted again from scratch"
    options: Mapping[str, Option] = field(default_factory=dict)
    file: str = ""  # of this folder
    needs: str = ""
    install: str = "pip install 'hyperleaf[rivals]'"

    def builder(self) -> Callable[..., Surrogate]:
        return partial(import_module(f"{__package__}.base").rival, self.name)

    def installed(self) -> bool:
        return (which(self.needs) if self.needs == "Rscript" else find_spec(self.needs)) is not None


RIVALS: dict[str, RivalKind] = {
    kind.name: kind
    for kind in (
        RivalKind("botorch", "BoTorch SingleTaskGP", tellable=True, variances=True, file="botorch", needs="botorch"),
        RivalKind(
            "botorch-saas",
            "BoTorch fully Bayesian GP with a SAAS prior",
            tellable=True,
            variances=True,
            file="botorch",
            needs="botorch",
            options={
                "warmup": Option(WHOLE, 256),
                "samples": Option(WHOLE, 128),
                "thinning": Option(WHOLE, 8),
                "warping": Option(TRUTH, False),
            },
        ),
        RivalKind(
            "sklearn",
            "scikit-learn GaussianProcessRegressor",
            tellable=True,
            variances=True,
            file="sklearn",
            needs="sklearn",
            install="pip install scikit-learn",
            options={"restarts": Option(WHOLE, 4)},
        ),
        RivalKind(
            "tgp",
            "R's tgp, a treed Gaussian process",
            tellable=False,
            variances=False,
            file="tgp",
            needs="Rscript",
            install="install R and, in it, install.packages('tgp')",
            options={"burn_in": Option(WHOLE, 2000), "total": Option(WHOLE, 7000), "thin": Option(WHOLE, 2)},
        ),
    )
}
