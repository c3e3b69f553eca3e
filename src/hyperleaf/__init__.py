"""hyperleaf: accurate surrogates of expensive, nonstationary systems from as few runs as possible.

Every public name is listed here and imported on first use, so that `import hyperleaf` loads neither JAX nor a plotting
library. To add a name: one line in `_HOME` and the same name under `TYPE_CHECKING`; a test holds the two together.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from hyperleaf import doors

if TYPE_CHECKING:
    from hyperleaf import (
        kernels as kernels,
        plots as plots,
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

# module → the public names it defines; "hyperleaf" itself holds modules
_NAMES = {
    "hyperleaf": ["kernels", "plots"],
    "hyperleaf.data": ["Dataset", "Pool", "Standardizer"],
    "hyperleaf.domain": ["Choice", "Domain", "Integer", "Real"],
    "hyperleaf.errors": [
        "DataError",
        "DomainError",
        "HyperleafError",
        "InferenceError",
        "InputError",
        "NotFittedYetError",
    ],
    "hyperleaf.estimators.partition": ["NativePartition"],
    "hyperleaf.estimators.regressors": [
        "DeepRegressor",
        "HHKRegressor",
        "StationaryRegressor",
        "TreedRegressor",
        "WarpedRegressor",
    ],
    "hyperleaf.executors": ["executor"],
    "hyperleaf.gp": ["GP"],
    "hyperleaf.inference.hmc": ["HMC", "NUTS"],
    "hyperleaf.inference.map": ["Map"],
    "hyperleaf.inference.smc": ["SMC"],
    "hyperleaf.mixture": ["Mixture"],
    "hyperleaf.priors": ["Prior", "hhk_prior", "stationary_prior", "warped_bounds", "warped_prior", "wide_priors"],
    "hyperleaf.simulators": [
        "CommandSimulator",
        "Failure",
        "FunctionSimulator",
        "Success",
        "TableSimulator",
        "as_simulator",
    ],
    "hyperleaf.study.files": ["load_model"],
    "hyperleaf.study.study": ["Study"],
    "hyperleaf.suggestion": ["Suggestion", "suggest"],
    "hyperleaf.surrogates.deep.surrogate": ["DeepGP"],
    "hyperleaf.compilation": ["enable_compilation_cache"],
    "hyperleaf.surrogates.ensemble": ["Averaged", "grow_tree"],
    "hyperleaf.surrogates.files": ["load_posterior", "save_posterior"],
    "hyperleaf.surrogates.gp": ["hhk_surrogate", "stationary_surrogate", "warped_surrogate"],
    "hyperleaf.surrogates.treed": ["TreedGP"],
    "hyperleaf.theory": [
        "SharpPartition",
        "exhaustive_design",
        "greedy_design",
        "information",
        "sharp_gram",
        "sharp_leaves",
        "sharpen",
    ],
}
_HOME = {name: module for module, names in _NAMES.items() for name in names}

__all__ = sorted(_HOME)


doors.opened["report"] = lambda: import_module("hyperleaf.report").write_report
doors.opened["rivals"] = lambda: import_module("hyperleaf.bench.rivals").RIVALS
doors.opened["rival classes"] = lambda: import_module("hyperleaf.bench.rivals.base").CLASSES


def __getattr__(name: str) -> Any:
    value: Any
    if name == "__version__":
        from importlib.metadata import version

        value = version("hyperleaf")
    elif name in _HOME:
        home = _HOME[name]
        value = import_module(f"{home}.{name}") if home == "hyperleaf" else getattr(import_module(home), name)
    else:
        raise AttributeError(f"module 'hyperleaf' has no attribute {name!r}")
    globals()[name] = value  # the next access does not come here again
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__"})
