"""What may stand in a saved file, and under which name: a short tag for every class, which stays when a class moves.

Kernels and methods of inference say their tags themselves, and a surrogate's folder lists what it saves in `SAVED`; the rest is a
line each in `CLASSES`. Tags are never changed and never used again for something else. A class that is gone gets a line with
`dict` in its place, and is read as its fields. What became of single fields stands in `CHANGES`.
`PATHS_1` holds what files of version 1 wrote in place of tags, the modules of that time; it is history and does not change.
Files are only ever looked up here: nothing that a file names is imported.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpyro.distributions as dist
from numpyro.distributions import constraints, transforms

from hyperleaf import doors, kernels
from hyperleaf.data import Dataset, Standardizer
from hyperleaf.gp import GP, Conditioned, Padded
from hyperleaf.inference import METHODS, method
from hyperleaf.surrogates.base import Diagnostics, Posterior, Surrogate
from hyperleaf.surrogates.kinds import KINDS
from hyperleaf.surrogates.learned import Learned, Rescaled
from hyperleaf.surrogates.robust import Robust


def _of_kernels() -> dict[str, type]:
    found: list[Any] = [one for one in vars(kernels).values() if isinstance(one, type) and "tag" in vars(one)]
    return {one.tag: one for one in found}


def _of_inference() -> dict[str, type]:
    """Methods of inference and what they leave behind."""
    methods: list[Any] = [one for one in map(method, METHODS) if isinstance(one, type)]
    return {tag: one for cls in methods for tag, one in {cls.tag: cls, **cls.saved()}.items()}


def _of_surrogates() -> dict[str, type]:
    """What the folder of a surrogate saves, of all kinds in the table."""
    return {tag: one for kind in KINDS.values() for tag, one in getattr(kind.module(), "SAVED", {}).items()}


CLASSES: dict[str, type] = {
    "data": Dataset,
    "scale": Standardizer,
    "diagnostics": Diagnostics,
    "learned": Learned,
    "robust": Robust,
    "rescaled": Rescaled,
    "gp": GP,
    "padded": Padded,
    "conditioned": Conditioned,
    **_of_kernels(),
    **_of_inference(),
    **_of_surrogates(),
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
