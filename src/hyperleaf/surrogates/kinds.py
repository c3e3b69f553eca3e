"""The surrogates that there are, by name: the one table that config files, the command line, reports, regressors and docs read.

Free of JAX, so that whoever only wants to know what there is loads nothing else. A new surrogate is a folder and an entry here;
`home` names the function in that folder that makes one, and the tests hold its options against those of the table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from hyperleaf import doors
from hyperleaf.checks import nearest, one_of
from hyperleaf.errors import InputError
from hyperleaf.inference import METHODS

if TYPE_CHECKING:
    from hyperleaf.surrogates.base import Surrogate

NOISES = ("learned", "per leaf", "auto", "robust", "known", "none")
LEARNED = ("learned", "robust")  # one level, by the surrogate itself; `Robust` sets wild values aside before it does
BY_LEAF = ("per leaf", "auto")  # learned too: a level for each leaf; or that and one level side by side, weighed by evidence
EFFORT = "standard"
NUGGET = 1e-6  # noise variance of outputs that repeat exactly, standardised: a thousandth of their spread keeps factors stable


@dataclass(frozen=True)
class Option:
    """A setting of a surrogate: its type in words, its default (None where it depends), and the words it may be, if it is one.

    `special` is for those who have read the paper: the overview of the docs leaves it to the surrogate's own page.
    """

    type: str
    default: Any = None
    choices: tuple[str, ...] = ()
    special: bool = False


@dataclass(frozen=True)
class Kind:
    """A surrogate as its user knows it, and what it can do.

    `tellable`: it can be told its noise, "known" or "none", in place of learning it. `variances`: it makes use of the noise
    variances of single observations. `evidence`: it can estimate ln p(y | x), with SMC. `updates`: how it takes in one more.
    `by_leaf`: it can learn a noise for each of its leaves.
    """

    name: str
    title: str
    home: str  # "module:function" of (d, noise, **options), below hyperleaf.surrogates; `widths` says what d is
    regressor: str
    tellable: bool
    variances: bool
    evidence: bool
    updates: str
    options: Mapping[str, Option] = field(default_factory=dict)
    widths: bool = False  # whether it is told the columns that each input takes, in place of their number
    by_leaf: bool = False

    def check_options(self, options: Mapping[str, Any]) -> None:
        """An InputError for an option that this kind does not have."""
        for name in options:
            if name not in self.options:
                raise InputError(f"the surrogate {self.name!r} has no option {name!r}; {nearest(name, self.options)}")

    def check_noise(self, noise: str) -> None:
        """An InputError for a noise that this kind cannot be told."""
        if one_of("noise", noise, NOISES) in BY_LEAF and not self.by_leaf:
            raise InputError(
                f'noise = {noise!r} takes a surrogate with leaves of its own, "hhk"; got "{self.name}". '
                'Set noise = "learned", or choose surrogate = "hhk".'
            )
        if noise not in (*LEARNED, *BY_LEAF) and not self.tellable:
            raise InputError(
                f'"{self.name}" learns its noise; got noise = {noise!r}. Set noise = "learned" or "robust", or choose '
                'another surrogate, as "hhk".'
            )

    def module(self) -> ModuleType:
        """Where it is at home; imported now. What it saves stands there under `SAVED`."""
        return import_module(f"{__package__}.{self.home.partition(':')[0]}")

    def builder(self) -> Callable[..., Surrogate]:
        """The function of (d, noise, **options) that makes one; imported now."""
        return getattr(self.module(), self.home.partition(":")[2])


def kind_of(name: Any) -> Kind:
    """The kind of that name; an InputError with the nearest one if there is none. Those of other packages are known too."""
    if isinstance(name, str) and name not in KINDS and name in doors.rivals():
        return doors.rivals()[name]
    return KINDS[one_of("kind", name, KINDS)]


MEANS = ("zero", "constant", "linear")
PRIORS = ("wide", "paper")
EFFORTS = ("fast", "standard", "thorough")
INFERENCES = tuple(METHODS)
WHOLE, NUMBER, TRUTH, WORD, PAIR = "whole number", "number", "true or false", "word", "two numbers"


def _gp(inference: str, mean: str) -> dict[str, Option]:
    return {
        "inference": Option("word, or table with a kind", inference, INFERENCES),
        "effort": Option(WORD, EFFORT, EFFORTS),
        "mean": Option(WORD, mean, MEANS),
    }


_PRIORS = {"priors": Option(WORD, "wide", PRIORS)}
_RATE = {"noise_rate": Option(NUMBER)}
_MOVES, _REFITS = "draws move on when they must", "fitted again from where the draws are"
_CHAINS = "chains go on from where they stand"

KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind(
            "hhk",
            "Hierarchical-Hyperplane Gaussian process",
            "named:hhk",
            "HHKRegressor",
            tellable=True,
            variances=True,
            evidence=True,
            updates=_MOVES,
            options={
                "leaves": Option(WHOLE, 8),
                **_gp("smc", "linear"),
                "weights": Option(WORD, "product", ("product", "sqrt")),
                **_PRIORS,
                **_RATE,
                "choose_leaves": Option("list of whole numbers"),
                "combine": Option(WORD, "average", ("average", "best")),
            },
            widths=True,
            by_leaf=True,
        ),
        Kind(
            "stationary",
            "stationary Gaussian process",
            "named:stationary",
            "StationaryRegressor",
            tellable=True,
            variances=True,
            evidence=True,
            updates=_MOVES,
            options={"kernel": Option("name of a kernel", "rbf"), **_gp("smc", "zero"), **_PRIORS, **_RATE},
            widths=True,
        ),
        Kind(
            "warped",
            "Warped Multi-Index Gaussian process",
            "named:warped",
            "WarpedRegressor",
            tellable=True,
            variances=True,
            evidence=True,
            updates=_REFITS,
            options={"indices": Option(WHOLE), **_gp("ml", "zero"), **_RATE},
        ),
        Kind(
            "treed",
            "treed Gaussian process",
            "treed:treed",
            "TreedRegressor",
            tellable=False,
            variances=False,
            evidence=False,
            updates=_CHAINS,
            options={
                "burn_in": Option(WHOLE, 2000),
                "total": Option(WHOLE, 7000),
                "thin": Option(WHOLE, 2),
                "chains": Option(WHOLE, 1),
                "trend": Option(WORD, "linear", ("linear", "constant", "none")),
                "min_leaf": Option(WHOLE),
                "tree": Option(TRUTH, True),
                "split_base": Option(NUMBER, 0.5),
                "split_power": Option(NUMBER, 2.0),
                "trend_uncertainty": Option(TRUTH, True),
                "warm_burn_in": Option(WHOLE, 500),
                "max_components": Option(WHOLE, 500),
                "max_joint": Option(WHOLE, 100),
            },
        ),
        Kind(
            "deep",
            "deep Gaussian process",
            "deep:deep",
            "DeepRegressor",
            tellable=False,
            variances=True,
            evidence=False,
            updates=_CHAINS,
            options={
                "layers": Option(WHOLE, 2),
                "kernel": Option(WORD, "matern52", ("matern52", "rbf")),
                "sweeps": Option(WHOLE, 10_000),
                "burn_in": Option(WHOLE),
                "draws": Option(WHOLE, 100),
                "update_sweeps": Option(WHOLE),
                "chains": Option(WHOLE, 1),
                "fixed_noise": Option(NUMBER),
                "nugget_prior": Option(PAIR, (1.01, 10.0), special=True),
                "theta_prior": Option(PAIR, special=True),
                "hidden_prior": Option(PAIR, (1.2, 2.0), special=True),
                "start_theta": Option(NUMBER, 0.01, special=True),
                "start_hidden": Option(NUMBER, 0.1, special=True),
                "start_nugget": Option(NUMBER, 0.001, special=True),
            },
        ),
    )
}
