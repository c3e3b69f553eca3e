"""Inputs that are uncertain: the distribution of an output, with the doubt of the surrogate kept apart from that of the inputs.

Each function of the posterior turns the distribution of the inputs into one of the output. How wide each of these is, is due to
the inputs; how they differ among each other is what the surrogate does not know, and what more runs would mend.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hyperleaf.analysis.functions import functions_of
from hyperleaf.analysis.inputs import Inputs, interval, one_model
from hyperleaf.checks import whole_number
from hyperleaf.domain.sobol import sobol
from hyperleaf.errors import InputError
from hyperleaf.exports.ingredients import Values

LEVELS = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
Estimate = tuple[float, float, float]  # posterior mean, and the interval that holds 95 %


@dataclass(frozen=True)
class Propagated:
    """`mean`, `std` and `quantiles` of the output over the inputs, each with the interval of what the surrogate does not know.

    `std_of_inputs` and `std_of_surrogate` are the two parts of the whole spread `std_of_both`: their squares add up. `failure` is
    the probability that the output leaves its limits, where limits were given. `values` (functions, samples) are all of it.
    """

    output: str
    unit: str
    mean: Estimate
    std: Estimate
    quantiles: Mapping[float, Estimate]
    std_of_inputs: float
    std_of_surrogate: float
    std_of_both: float
    failure: Estimate | None
    values: Values = field(repr=False)
    messages: tuple[str, ...] = field(default=())


def propagate(
    held: Any,
    inputs: Mapping[str, Any] | None = None,
    output: str | None = None,
    *,
    above: float | None = None,
    below: float | None = None,
    samples: int = 4096,
    functions: int = 256,
    seed: int = 0,
) -> Propagated:
    """The distribution of an output where inputs are distributed: `{"mach": scipy.stats.norm(2, 0.1), "alpha": 5.0}`.

    What is not named varies evenly over its axis. `above` and `below` are limits: it fails where the output is above the one or
    below the other. A function has `samples` points of a Sobol sequence, of which a probability of failure below about 10/samples
    cannot be told from zero.
    """
    model = one_model(held, output)
    varied = Inputs(model.domain, inputs)
    whole_number("samples", samples, 16)
    whole_number("functions", functions, 2)
    if not varied.varying:
        raise InputError("at least one input must be distributed; all are held at a value. Call predict for one point.")
    for name, limit in (("above", above), ("below", below)):
        if limit is not None and not np.isfinite(limit):
            raise InputError(f"{name} must be a finite number or None; got {limit!r}.")
    drawn = functions_of(model, functions, seed)
    values = np.empty((functions, samples))
    for number, (which, evaluate) in enumerate(drawn.groups()):
        values[which] = evaluate(varied.unit(sobol(samples, len(varied.varying), seed * 1000 + number)))
    means, stds = values.mean(axis=1), values.std(axis=1)
    of_inputs, of_surrogate = float(np.sqrt(np.mean(stds**2))), float(means.std())
    failed = np.zeros_like(values, dtype=bool)
    if above is not None:
        failed |= values > above
    if below is not None:
        failed |= values < below
    messages = [*drawn.messages, *varied.messages]
    failure = None
    if above is not None or below is not None:
        shares = failed.mean(axis=1)
        failure = _estimate(shares)
        if failure[0] < 10 / samples:
            messages.append(f"{samples} samples cannot resolve a probability of failure below about {10 / samples:.1g}.")
    rows = np.quantile(values, LEVELS, axis=1)
    return Propagated(
        model.output,
        model.unit,
        _estimate(means),
        _estimate(stds),
        {level: _estimate(row) for level, row in zip(LEVELS, rows, strict=True)},
        of_inputs,
        of_surrogate,
        float(np.hypot(of_inputs, of_surrogate)),
        failure,
        values,
        tuple(messages),
    )


def _estimate(values: Values) -> Estimate:
    low, high = interval(values)
    return float(values.mean()), float(low), float(high)
