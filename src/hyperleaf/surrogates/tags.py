"""What may stand in a saved file, and under which name: a short tag for every class, which stays when a class moves.

A new class that is saved is one line in `CLASSES`. Tags are never changed and never used again for something else. A class that
is gone keeps its line with `dict` in its place, and is read as its fields. What became of single fields stands in `CHANGES`.
`PATHS_1` holds what files of version 1 wrote in place of tags, the modules of that time; it is history and does not change.
Files are only ever looked up here: nothing that a file names is imported.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpyro.distributions as dist
from numpyro.distributions import constraints, transforms

from hyperleaf import doors
from hyperleaf.data import Dataset, Standardizer
from hyperleaf.gp import GP, Conditioned, Padded
from hyperleaf.inference.hmc import HMC, NUTS, Chains
from hyperleaf.inference.map import Map, Modes
from hyperleaf.inference.smc import SMC, Info, Particles
from hyperleaf.kernels import (
    RBF,
    ChangeHyperplane,
    Constant,
    Gates,
    Linear,
    Matern12,
    Matern32,
    Matern52,
    Partition,
    Periodic,
    Product,
    RationalQuadratic,
    Sum,
    WarpedMultiIndex,
)
from hyperleaf.surrogates.base import Diagnostics, Posterior, Surrogate
from hyperleaf.surrogates.deep.posterior import DeepPosterior, Draws
from hyperleaf.surrogates.deep.sampler import State
from hyperleaf.surrogates.deep.surrogate import DeepGP
from hyperleaf.surrogates.ensemble import Averaged, AveragedPosterior, Growth, Step
from hyperleaf.surrogates.gp import Agreement, GPPosterior, GPSurrogate
from hyperleaf.surrogates.learned import Learned, Rescaled
from hyperleaf.surrogates.treed import TreedGP, TreedPosterior
from hyperleaf.surrogates.treed.sampler import Draw
from hyperleaf.surrogates.treed.tree import Grid, Split

CLASSES: dict[str, type] = {
    "data": Dataset,
    "scale": Standardizer,
    "diagnostics": Diagnostics,
    "learned": Learned,
    "rescaled": Rescaled,
    # kernels
    "rbf": RBF,
    "matern12": Matern12,
    "matern32": Matern32,
    "matern52": Matern52,
    "rational-quadratic": RationalQuadratic,
    "periodic": Periodic,
    "constant": Constant,
    "linear": Linear,
    "sum": Sum,
    "product": Product,
    "partition": Partition,
    "gates": Gates,
    "change-hyperplane": ChangeHyperplane,
    "warped-multi-index": WarpedMultiIndex,
    # Gaussian processes
    "gp": GP,
    "gp-surrogate": GPSurrogate,
    "gp-posterior": GPPosterior,
    "padded": Padded,
    "conditioned": Conditioned,
    "averaged": Averaged,
    "averaged-posterior": AveragedPosterior,
    "growth": Growth,
    "growth-step": Step,
    # inference, and what it leaves in the diagnostics
    "smc": SMC,
    "smc-particles": Particles,
    "smc-info": Info,
    "smc-agreement": Agreement,
    "nuts": NUTS,
    "hmc": HMC,
    "hmc-chains": Chains,
    "map": Map,
    "map-modes": Modes,
    # treed and deep Gaussian processes
    "treed": TreedGP,
    "treed-posterior": TreedPosterior,
    "treed-draw": Draw,
    "treed-split": Split,
    "treed-grid": Grid,
    "deep": DeepGP,
    "deep-posterior": DeepPosterior,
    "deep-draws": Draws,
    "deep-state": State,
}

# What priors are made of, by the module of numpyro.distributions that held it in version 1. A version of numpyro may lack some.
NUMPYRO: dict[str, str] = {
    "continuous": "AsymmetricLaplace AsymmetricLaplaceQuantile Beta BetaProportion CAR Cauchy Chi2 CirculantNormal Dagum "
    "Dirichlet Exponential Gamma GaussianRandomWalk Gompertz Gumbel HalfCauchy HalfNormal InverseGamma InverseWishart "
    "InverseWishartCholesky Kumaraswamy LKJ LKJCholesky Laplace Levy LogNormal LogUniform Logistic LowRankMultivariateNormal "
    "MatrixNormal MultivariateNormal MultivariateStudentT Normal Pareto RelaxedBernoulliLogits SoftLaplace StudentT Uniform "
    "Weibull Wishart WishartCholesky ZeroSumNormal",
    "copula": "GaussianCopula GaussianCopulaBeta",
    "directional": "ProjectedNormal SineBivariateVonMises SineSkewed VonMises",
    "discrete": "CategoricalLogits CategoricalProbs",  # the weights of a mixture
    "distribution": "Delta ExpandedDistribution FoldedDistribution ImproperUniform Independent MaskedDistribution "
    "TransformedDistribution Unit",
    "mixtures": "MixtureGeneral MixtureSameFamily",
    "truncated": "DoublyTruncatedPowerLaw LeftTruncatedDistribution LeftTruncatedGamma LowerTruncatedPowerLaw "
    "RightTruncatedDistribution RightTruncatedGamma TruncatedPolyaGamma TwoSidedTruncatedDistribution TwoSidedTruncatedGamma",
    "constraints": "_Boolean _Cat _Circular _CorrCholesky _CorrMatrix _GreaterThan _GreaterThanEq _IndependentConstraint "
    "_IntegerGreaterThan _IntegerInterval _IntegerNonnegative _IntegerPositive _Interval _L1Ball _LessThan _LessThanEq "
    "_LowerCholesky _Nonnegative _OpenInterval _OrderedVector _Positive _PositiveDefinite _PositiveDefiniteCirculantVector "
    "_PositiveOrderedVector _PositiveSemiDefinite _Real _RealMatrix _RealVector _ScaledUnitLowerCholesky _Simplex "
    "_SoftplusLowerCholesky _SoftplusPositive _Sphere _UnitInterval _ZeroSum",
    "transforms": "AbsTransform AffineTransform CatTransform CholeskyTransform ComposeTransform CorrCholeskyTransform "
    "CorrMatrixCholeskyTransform DiscreteCosineTransform ExpTransform HaarTransform IdentityTransform IndependentTransform "
    "L1BallTransform LowerCholeskyAffine LowerCholeskyTransform OrderedTransform PackRealFastFourierCoefficientsTransform "
    "PermuteTransform PowerTransform RealFastFourierTransform RecursiveLinearTransform ReshapeTransform "
    "ScaledUnitLowerCholeskyTransform SigmoidTransform SimplexToOrderedTransform SoftplusLowerCholeskyTransform "
    "SoftplusTransform StickBreakingTransform UnpackTransform ZeroSumTransform _InverseTransform",
}
_HOMES: dict[str, Any] = {"constraints": constraints, "transforms": transforms}


def dropped(value: Any) -> Mapping[str, Any]:
    """The change of a field that is no more."""
    return {}


# Fields of old files that a class no longer has, or has by another name or in another shape: by the last version that wrote them,
# tag and field, a function from the old value to the fields that take its place. As in {1: {"smc": {"share": dropped}}}.
# A field that is new and has a default needs no entry.
Change = Callable[[Any], Mapping[str, Any]]
CHANGES: dict[int, dict[str, dict[str, Change]]] = {
    1: {"smc": {"start_correlation": dropped}},
}


def renamed(name: str) -> Change:
    """The change of a field that is called otherwise."""
    return lambda value: {name: value}


def changed(tag: str, fields: Mapping[str, Any], version: int) -> dict[str, Any]:
    """The fields of a class as it is today, from those in a file of that version."""
    found = dict(fields)
    for last in sorted(CHANGES):
        if version <= last:
            for name, change in CHANGES[last].get(tag, {}).items():
                if name in found:
                    found |= change(found.pop(name))
    return found


def _numpyro_tag(name: str) -> str:
    return f"numpyro:{name.removeprefix('_')}"


def _numpyro_classes() -> dict[str, type]:
    places = [(_HOMES.get(module, dist), name) for module, names in NUMPYRO.items() for name in names.split()]
    return {_numpyro_tag(name): getattr(home, name) for home, name in places if hasattr(home, name)}


CLASS_OF: dict[str, type] = CLASSES | _numpyro_classes()
TAG_OF: dict[type, str] = {cls: tag for tag, cls in CLASS_OF.items() if cls is not dict}


def class_of(tag: str) -> type | None:
    """The class of a tag, also of the surrogates that the bench compares with; None if there is none."""
    return CLASS_OF.get(tag) or (doors.rival_classes().get(tag) if tag.startswith("rival") else None)


def tag_of(cls: type) -> str | None:
    """The tag of a class; None if it may not stand in a file."""
    if cls in TAG_OF or not issubclass(cls, Surrogate | Posterior):
        return TAG_OF.get(cls)
    return {one: tag for tag, one in doors.rival_classes().items()}.get(cls)


PATHS_1: dict[str, str] = {
    "hyperleaf.data.Dataset": "data",
    "hyperleaf.data.Standardizer": "scale",
    "hyperleaf.gp.Conditioned": "conditioned",
    "hyperleaf.gp.GP": "gp",
    "hyperleaf.gp.Padded": "padded",
    "hyperleaf.inference.hmc.Chains": "hmc-chains",
    "hyperleaf.inference.hmc.HMC": "hmc",
    "hyperleaf.inference.hmc.NUTS": "nuts",
    "hyperleaf.inference.map.Map": "map",
    "hyperleaf.inference.map.Modes": "map-modes",
    "hyperleaf.inference.smc.Info": "smc-info",
    "hyperleaf.inference.smc.Particles": "smc-particles",
    "hyperleaf.inference.smc.SMC": "smc",
    "hyperleaf.kernels.base.Constant": "constant",
    "hyperleaf.kernels.base.Linear": "linear",
    "hyperleaf.kernels.base.Product": "product",
    "hyperleaf.kernels.base.Sum": "sum",
    "hyperleaf.kernels.partition.ChangeHyperplane": "change-hyperplane",
    "hyperleaf.kernels.partition.Gates": "gates",
    "hyperleaf.kernels.partition.Partition": "partition",
    "hyperleaf.kernels.stationary.Matern12": "matern12",
    "hyperleaf.kernels.stationary.Matern32": "matern32",
    "hyperleaf.kernels.stationary.Matern52": "matern52",
    "hyperleaf.kernels.stationary.Periodic": "periodic",
    "hyperleaf.kernels.stationary.RBF": "rbf",
    "hyperleaf.kernels.stationary.RationalQuadratic": "rational-quadratic",
    "hyperleaf.kernels.warped.WarpedMultiIndex": "warped-multi-index",
    "hyperleaf.surrogates.base.Diagnostics": "diagnostics",
    "hyperleaf.surrogates.deep.posterior.DeepPosterior": "deep-posterior",
    "hyperleaf.surrogates.deep.posterior.Draws": "deep-draws",
    "hyperleaf.surrogates.deep.sampler.State": "deep-state",
    "hyperleaf.surrogates.deep.surrogate.DeepGP": "deep",
    "hyperleaf.surrogates.ensemble.Averaged": "averaged",
    "hyperleaf.surrogates.ensemble.AveragedPosterior": "averaged-posterior",
    "hyperleaf.surrogates.ensemble.Growth": "growth",
    "hyperleaf.surrogates.ensemble.Step": "growth-step",
    "hyperleaf.surrogates.gp.Agreement": "smc-agreement",
    "hyperleaf.surrogates.gp.GPPosterior": "gp-posterior",
    "hyperleaf.surrogates.gp.GPSurrogate": "gp-surrogate",
    "hyperleaf.surrogates.learned.Learned": "learned",
    "hyperleaf.surrogates.treed.TreedGP": "treed",
    "hyperleaf.surrogates.treed.posterior.TreedPosterior": "treed-posterior",
    "hyperleaf.surrogates.treed.sampler.Draw": "treed-draw",
    "hyperleaf.surrogates.treed.tree.Grid": "treed-grid",
    "hyperleaf.surrogates.treed.tree.Split": "treed-split",
} | {f"numpyro.distributions.{module}.{name}": _numpyro_tag(name) for module, names in NUMPYRO.items() for name in names.split()}
