"""Every error hyperleaf raises on purpose; each message says the rule, the value that broke it and the remedy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class HyperleafError(Exception):
    """Base of all errors that hyperleaf raises on purpose."""


class InputError(HyperleafError, ValueError):
    """A value handed in by the caller breaks a rule."""


class DataError(InputError):
    """Observations or a table cannot be used: wrong shape, NaN, infinite, constant where it must vary."""


class ExhaustedError(DataError):
    """Everything that could be asked has been asked: no candidate of a pool, no new point of a finite domain is left."""


class InadmissibleError(ExhaustedError):
    """Nothing that could be asked is probable enough to keep all limits. `safest` are the points that come nearest to it, in
    native units, each with its probability; they were not asked."""

    def __init__(self, message: str, safest: Sequence[tuple[dict[str, Any], float]] = ()) -> None:
        super().__init__(message)
        self.safest = tuple(safest)


class DomainError(InputError):
    """A domain, an axis or a constraint cannot be used, or a point lies outside it."""


class InferenceError(HyperleafError, RuntimeError):
    """A sampler or an optimiser could not produce a usable posterior; the data are kept by the caller."""


class NotFittedYetError(HyperleafError, ValueError, AttributeError):
    """Something that needs data was asked for before any was given."""
