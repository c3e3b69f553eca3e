"""hyperleaf: accurate surrogates of expensive, nonstationary systems from as few runs as possible.

Every public name is listed here and imported on first use, so that `import hyperleaf` loads neither JAX nor a plotting
library. To add a name: one line in `_HOME` and the same name under `TYPE_CHECKING`; a test holds the two together.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hyperleaf.data import Dataset as Dataset
    from hyperleaf.errors import (
        DataError as DataError,
        DomainError as DomainError,
        HyperleafError as HyperleafError,
        InferenceError as InferenceError,
        InputError as InputError,
        NotFittedYetError as NotFittedYetError,
    )

    __version__: str

# public name → the module that defines it
_HOME = {
    # data
    "Dataset": "hyperleaf.data",
    # errors
    "DataError": "hyperleaf.errors",
    "DomainError": "hyperleaf.errors",
    "HyperleafError": "hyperleaf.errors",
    "InferenceError": "hyperleaf.errors",
    "InputError": "hyperleaf.errors",
    "NotFittedYetError": "hyperleaf.errors",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    value: Any
    if name == "__version__":
        from importlib.metadata import version

        value = version("hyperleaf")
    elif name in _HOME:
        value = getattr(import_module(_HOME[name]), name)
    else:
        raise AttributeError(f"module 'hyperleaf' has no attribute {name!r}")
    globals()[name] = value  # the next access does not come here again
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__"})
