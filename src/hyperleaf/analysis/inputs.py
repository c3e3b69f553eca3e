"""What analyses share: which output is meant, and inputs that vary over the domain or as their distributions say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from hyperleaf.errors import InputError
from hyperleaf.exports.base import models_of
from hyperleaf.exports.ingredients import Values

if TYPE_CHECKING:
    from hyperleaf.domain import Domain
    from hyperleaf.study.files import Model

LEVEL = 0.95  # of intervals


def one_model(held: Any, output: str | None) -> Model:
    """The model of one output; the only one, if none is named."""
    return named(models_of(held), output)


def named(models: Mapping[str, Model], output: str | None) -> Model:
    """One of several models, which is the same each time."""
    if output is None and len(models) > 1:
        raise InputError(f"there are several outputs; say which with output=, one of {list(models)}.")
    if output is not None and output not in models:
        raise InputError(f"output must be one of {list(models)}; got {output!r}.")
    return models[output or next(iter(models))]


def interval(values: Values, axis: int = 0) -> tuple[Values, Values]:
    """The central interval of functions."""
    tail = 50 * (1 - LEVEL)
    low, high = np.percentile(values, [tail, 100 - tail], axis=axis)
    return low, high


class Inputs:
    """How inputs vary: by default evenly over the domain, as its designs do; else as distributions say, or fixed at a value."""

    def __init__(self, domain: Domain, given: Mapping[str, Any] | None = None) -> None:
        self.domain = domain
        self.given = dict(given or {})
        self.beyond = 0.0  # share of values outside the domain that were moved to its border, so far the largest
        for name, one in self.given.items():
            if name not in domain.axes:
                raise InputError(f"inputs must be among {list(domain.names)}; got {name!r}.")
            if hasattr(one, "ppf"):
                if domain.axes[name].bounds is None:
                    raise InputError(f"a distribution belongs to a number; {name!r} is a choice. Give one of its options.")
            else:
                domain.axes[name].read(name, [one])  # refuses what is none of its values

    @property
    def varying(self) -> tuple[str, ...]:
        return tuple(name for name in self.domain.names if name not in self.given or hasattr(self.given[name], "ppf"))

    def unit(self, probabilities: Values) -> Values:
        """Probabilities (m, varying) to points of the unit cube (m, d)."""
        columns, places = [], iter(probabilities.T)
        for name, axis in self.domain.axes.items():
            if name not in self.given:
                codes = axis.quantile(next(places))
            elif hasattr(self.given[name], "ppf"):
                values = np.asarray(self.given[name].ppf(np.clip(next(places), 1e-12, 1 - 1e-12)), dtype=np.float64)
                low, high = axis.bounds or (0.0, 0.0)
                self.beyond = max(self.beyond, float(np.mean((values < low) | (values > high))))
                values = np.clip(values, low, high)
                codes = axis.read(name, list(values if axis.smooth else np.rint(values)))
            else:
                codes = np.repeat(axis.read(name, [self.given[name]]), len(probabilities))
            columns.append(axis.encode(codes))
        return np.hstack(columns)

    @property
    def messages(self) -> tuple[str, ...]:
        found = []
        if self.beyond > 0:
            found.append(
                f"{100 * self.beyond:.2g} % of the values of an input lie outside its axis and were moved to its border."
            )
        if self.domain.constraints:
            found.append(f"the constraints {list(self.domain.constraints)} are not heeded: inputs vary by themselves.")
        return tuple(found)
