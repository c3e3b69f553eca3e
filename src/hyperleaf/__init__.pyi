"""The public names, each once: what type checkers read, and what `__init__.py` imports on first use."""

from hyperleaf import (
    kernels as kernels,
    plots as plots,
)
from hyperleaf.acquisition.limits import (
    Admission as Admission,
    Limit as Limit,
)
from hyperleaf.analysis import (
    compare as compare,
    derivatives as derivatives,
    level_set as level_set,
    optimum as optimum,
    propagate as propagate,
    sensitivity as sensitivity,
)
from hyperleaf.compilation import enable_compilation_cache as enable_compilation_cache
from hyperleaf.data import (
    Dataset as Dataset,
    Pool as Pool,
    Standardizer as Standardizer,
)
from hyperleaf.domain import (
    Choice as Choice,
    Domain as Domain,
    Integer as Integer,
    Real as Real,
)
from hyperleaf.errors import (
    DataError as DataError,
    DomainError as DomainError,
    HyperleafError as HyperleafError,
    InadmissibleError as InadmissibleError,
    InferenceError as InferenceError,
    InputError as InputError,
    NotFittedYetError as NotFittedYetError,
)
from hyperleaf.estimators.partition import NativePartition as NativePartition
from hyperleaf.estimators.regressors import (
    DeepRegressor as DeepRegressor,
    HHKRegressor as HHKRegressor,
    StationaryRegressor as StationaryRegressor,
    TreedRegressor as TreedRegressor,
    WarpedRegressor as WarpedRegressor,
)
from hyperleaf.executors import executor as executor
from hyperleaf.exports import export as export
from hyperleaf.gp import GP as GP
from hyperleaf.inference.hmc import (
    HMC as HMC,
    NUTS as NUTS,
)
from hyperleaf.inference.map import Map as Map
from hyperleaf.inference.smc import SMC as SMC
from hyperleaf.mixture import Mixture as Mixture
from hyperleaf.priors import (
    Prior as Prior,
    hhk_prior as hhk_prior,
    stationary_prior as stationary_prior,
    warped_bounds as warped_bounds,
    warped_prior as warped_prior,
    wide_priors as wide_priors,
)
from hyperleaf.simulators import (
    CommandSimulator as CommandSimulator,
    Failure as Failure,
    FunctionSimulator as FunctionSimulator,
    Success as Success,
    TableSimulator as TableSimulator,
    as_simulator as as_simulator,
)
from hyperleaf.study.files import load_model as load_model
from hyperleaf.study.study import Study as Study
from hyperleaf.suggestion import (
    Suggestion as Suggestion,
    suggest as suggest,
)
from hyperleaf.surrogates.deep.surrogate import DeepGP as DeepGP
from hyperleaf.surrogates.ensemble import (
    Averaged as Averaged,
    grow_tree as grow_tree,
)
from hyperleaf.surrogates.files import (
    load_posterior as load_posterior,
    save_posterior as save_posterior,
)
from hyperleaf.surrogates.gp import (
    hhk_surrogate as hhk_surrogate,
    stationary_surrogate as stationary_surrogate,
    warped_surrogate as warped_surrogate,
)
from hyperleaf.surrogates.treed import TreedGP as TreedGP
from hyperleaf.theory import (
    SharpPartition as SharpPartition,
    exhaustive_design as exhaustive_design,
    greedy_design as greedy_design,
    information as information,
    sharp_gram as sharp_gram,
    sharp_leaves as sharp_leaves,
    sharpen as sharpen,
)

__version__: str
