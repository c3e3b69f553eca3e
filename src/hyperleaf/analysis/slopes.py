"""Derivatives of an output by its inputs: mean and std of the posterior, exact, as those of a Gaussian process can be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hyperleaf.analysis.inputs import one_model
from hyperleaf.exports.ingredients import axes_of, check_slopes, part_of
from hyperleaf.exports.numerics import native_slopes


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
    part, axes = part_of(model), axes_of(model.domain)
    check_slopes(axes, (part,))
    rows = model.domain.to_dicts(points)
    # Only columns of real inputs are looked at, so an option may be any number.
    numbers = np.array([[0.0 if axis.options else float(row[axis.name]) for axis in axes] for row in rows])
    mean, std = native_slopes(part, axes, model.domain.to_unit(points), numbers.reshape(len(rows), len(axes)))
    return Derivatives(model.output, tuple(axis.name for axis in axes if axis.kind == "real"), mean, std)
