"""How a regressor reads what scikit-learn's users hand it: tables beyond the box, seeds, pairs, and errors with a remedy."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from hyperleaf.domain import Domain
from hyperleaf.errors import InputError


def to_unit(domain: Domain, table: NDArray[Any]) -> NDArray[np.float64]:
    """Like `domain.to_unit`, but a Real goes on beyond its bounds: extrapolation is allowed where it has a meaning."""
    return np.hstack([axis.beyond(name, column) for (name, axis), column in zip(domain.axes.items(), table.T, strict=True)])


def inside(domain: Domain, table: NDArray[Any]) -> bool:
    bounds = np.array([domain.bounds[name] for name in domain.names])
    return bool(((table >= bounds[:, 0]) & (table <= bounds[:, 1])).all())


def has_options(domain: Any) -> bool:
    return isinstance(domain, Domain) and not all(axis.is_numeric for axis in domain.axes.values())


def seed_of(random_state: Any) -> int:
    """A seed from what scikit-learn takes for one: a whole number, None for a new one each time, or a RandomState."""
    if isinstance(random_state, Integral) and not isinstance(random_state, bool):
        if not 0 <= int(random_state) < 2**32:
            raise InputError(f"random_state must lie between 0 and 2³² − 1; got {random_state}.")
        return int(random_state)
    try:
        return int(check_random_state(random_state).randint(2**31 - 1))
    except ValueError as error:
        raise InputError(f"random_state must be a whole number, None or a RandomState; got {random_state!r}.") from error


def pair_of(name: str, value: Any) -> tuple[float, float]:
    try:
        low, high = (float(v) for v in value)
    except (TypeError, ValueError):
        raise InputError(f"{name} must be a pair (low, high) of numbers; got {value!r}.") from None
    return low, high


def with_remedy(error: Exception) -> str:
    """scikit-learn's messages name rule and value; the commonest get a remedy too."""
    text = str(error).strip()
    remedies = {
        "NaN": "Drop or repair those rows.",
        "infinity": "Drop or repair those rows.",
        "features, but": "Give the columns that fit saw, in their order.",
        "1d array": "Fit one regressor for each output.",
        "inconsistent numbers": "Give one y for each row of X.",
    }
    return next((f"{text.splitlines()[0]} {remedy}" for sign, remedy in remedies.items() if sign in text), text)
