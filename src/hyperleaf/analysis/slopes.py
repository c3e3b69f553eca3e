"""Derivatives of an output by its inputs: mean and std of the posterior, exact, as those of a Gaussian process can be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hyperleaf.analysis.inputs import one_model
from hyperleaf.errors import InputError
from hyperleaf.exports.ingredients import AxisForm, Values, axes_of, part_of
from hyperleaf.exports.numerics import gradients


@dataclass(frozen=True)
class Derivatives:
    """∂f/∂x at each point by each continuous input, in units of the output over those of the input: (points, inputs)."""

    output: str
    names: tuple[str, ...]
    mean: NDArray[np.float64]
    std: NDArray[np.float64]


def derivatives(held: Any, points: Any, output: str | None = None) -> Derivatives:
    """Slopes at points in native units (DataFrame, list of dicts, array), by the inputs that are real numbers."""
    model = one_model(held, output)
    part = part_of(model)
    if part.profile == "matern12":
        raise InputError("functions of a Matérn-1/2 kernel have no derivatives. Learn with matern32, matern52 or rbf.")
    axes = [axis for axis in axes_of(model.domain) if axis.kind == "real"]
    if not axes:
        raise InputError("derivatives are by real inputs, and this domain has none.")
    means, variances = gradients(part, model.domain.to_unit(points))
    mean = part.weights @ means.reshape(len(means), -1)
    spread = variances.reshape(len(means), -1) + (means.reshape(len(means), -1) - mean) ** 2
    std = np.sqrt(part.weights @ spread)
    rows = model.domain.to_dicts(points)
    columns = [axis.start for axis in axes]
    factors = np.stack([_slope(axis, np.array([row[axis.name] for row in rows])) for axis in axes], axis=1)
    d = means.shape[2]
    return Derivatives(
        model.output,
        tuple(axis.name for axis in axes),
        part.scale * mean.reshape(-1, d)[:, columns] * factors,
        part.scale * std.reshape(-1, d)[:, columns] * np.abs(factors),
    )


def _slope(axis: AxisForm, values: Values) -> Values:
    """du/dx."""
    begin, end = axis.ends
    return 1.0 / ((end - begin) * (values if axis.log else np.ones_like(values)))
