"""Which inputs matter: Sobol indices with credible intervals, main effects, interactions.

Each function of the posterior has its own indices, so the intervals hold what the surrogate does not know; and each group of
functions is integrated over a scramble of its own, so they hold the error of the integration too. First-order indices by Saltelli
et al. (2010), total ones by Jansen (1999), pairs by Saltelli (2002), of functions that are centred first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np

from hyperleaf.analysis.functions import functions_of
from hyperleaf.analysis.inputs import LEVEL, Inputs, interval, one_model, spread_out
from hyperleaf.checks import whole_number
from hyperleaf.errors import InputError
from hyperleaf.exports.ingredients import Values

TICKS, OTHERS = 21, 64  # of a main effect: places along an input, and points over which the others are averaged


@dataclass(frozen=True)
class Index:
    """The share of the variance of f, its posterior mean and the interval that holds 95 % of the posterior."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:.3f} ({self.low:.3f} to {self.high:.3f})"


@dataclass(frozen=True)
class Effect:
    """The mean of f where one input is held, over all others: at `values`, with the interval from `low` to `high`."""

    values: tuple[Any, ...]
    mean: Values
    low: Values
    high: Values


@dataclass(frozen=True)
class Sensitivity:
    """`first`: how much of the variance an input explains by itself; `total`: with all its interactions; `pairs`: what two do
    together beyond what each does by itself, where it was asked for. `std` is that of f over the inputs."""

    output: str
    unit: str
    first: Mapping[str, Index]
    total: Mapping[str, Index]
    pairs: Mapping[tuple[str, str], Index]
    effects: Mapping[str, Effect]
    std: Index
    messages: tuple[str, ...] = field(default=())

    def table(self) -> Any:
        """As a DataFrame, the most important input first."""
        import pandas as pd

        rows = [
            {
                "input": name,
                **{f"{kind}{suffix}": value for kind, one in (("first", self.first[name]), ("total", total))
                   for suffix, value in (("", one.mean), ("_low", one.low), ("_high", one.high))},
            }
            for name, total in sorted(self.total.items(), key=lambda pair: -pair[1].mean)
        ]  # fmt: skip
        return pd.DataFrame(rows)


def sensitivity(
    held: Any,
    output: str | None = None,
    *,
    inputs: Mapping[str, Any] | None = None,
    pairs: bool = False,
    main_effects: bool = True,
    samples: int = 1024,
    functions: int = 128,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> Sensitivity:
    """How much of the variance of an output each input explains, over the domain or as distributions in `inputs` say.

    `inputs` are frozen distributions of SciPy by name, or values at which an input is held; what is not named varies evenly over
    its axis. `pairs` works out interactions of two, and `main_effects` the mean along each input. `samples` is a
    power of two; `progress` is told how many groups of functions are done, of how many.
    """
    model = one_model(held, output)
    if whole_number("samples", samples, 16) & (samples - 1):
        raise InputError(f"samples must be a power of two, for which the design is balanced; got {samples}.")
    whole_number("functions", functions, 2)
    varied = Inputs(model.domain, inputs)
    names = varied.varying
    if not names:
        raise InputError("at least one input must vary; all are held at a value. Give distributions, or leave inputs out.")
    drawn = functions_of(model, functions, seed)
    k = len(names)
    first, total = np.empty((2, k, functions))
    both = np.empty((k * (k - 1) // 2, functions)) if pairs else np.empty((0, functions))
    std = np.empty(functions)
    ticks = {name: _ticks(varied, i) for i, name in enumerate(names)}
    effects = {name: np.empty((functions, len(ticks[name]))) for name in names}
    groups = list(drawn.groups())
    for number, (which, evaluate) in enumerate(groups):
        rows = spread_out(samples, 2 * k, seed * 1000 + number)
        a, b = rows[:, :k], rows[:, k:]
        sets = [a, b, *(_mixed(a, b, i) for i in range(k)), *([_mixed(b, a, i) for i in range(k)] if pairs else [])]
        values = evaluate(varied.unit(np.concatenate(sets))).reshape(len(which), len(sets), samples)
        centred = values - values[:, :2].mean(axis=(1, 2), keepdims=True)
        fa, fb, fab = centred[:, 0], centred[:, 1], centred[:, 2 : 2 + k]
        variance = np.mean(0.5 * (fa**2 + fb**2), axis=1)
        safe = np.where(variance > 0, variance, 1.0)
        std[which] = np.sqrt(variance)
        first[:, which] = (np.mean(fb[:, None] * (fab - fa[:, None]), axis=2) / safe[:, None]).T
        total[:, which] = (0.5 * np.mean((fa[:, None] - fab) ** 2, axis=2) / safe[:, None]).T
        if pairs:
            fba = centred[:, 2 + k :]
            for row, (i, j) in enumerate(combinations(range(k), 2)):
                closed = np.mean(fba[:, i] * fab[:, j] - fa * fb, axis=1) / safe
                both[row, which] = closed - first[i, which] - first[j, which]
        for i, name in enumerate(names if main_effects else ()):
            places = np.repeat(ticks[name], OTHERS)
            base = np.tile(a[:OTHERS], (len(ticks[name]), 1))
            base[:, i] = places
            held_at = evaluate(varied.unit(base)).reshape(len(which), -1, OTHERS)
            effects[name][which] = held_at.mean(axis=2)
        if progress is not None:
            progress(number + 1, len(groups))
    return Sensitivity(
        model.output,
        model.unit,
        {name: _index(first[i]) for i, name in enumerate(names)},
        {name: _index(total[i]) for i, name in enumerate(names)},
        {(names[i], names[j]): _index(both[row]) for row, (i, j) in enumerate(combinations(range(k), 2)) if pairs},
        {name: _effect(varied, i, ticks[name], effects[name]) for i, name in enumerate(names) if main_effects},
        _index(std),
        (*drawn.messages, *varied.messages),
    )


def _mixed(of: Values, other: Values, i: int) -> Values:
    """All columns of one, and one column of the other."""
    rows = of.copy()
    rows[:, i] = other[:, i]
    return rows


def _index(values: Values) -> Index:
    low, high = interval(values)
    return Index(float(values.mean()), float(low), float(high))


def _ticks(varied: Inputs, i: int) -> Values:
    """Probabilities at which a main effect is looked at."""
    axis = varied.domain.axes[varied.varying[i]]
    several = axis.num_values
    if several is not None and several <= TICKS and varied.varying[i] not in varied.given:
        return (np.arange(several) + 0.5) / several
    return np.linspace(0.005, 0.995, TICKS)


def _effect(varied: Inputs, i: int, ticks: Values, values: Values) -> Effect:
    base = np.full((len(ticks), len(varied.varying)), 0.5)
    base[:, i] = ticks
    points = varied.domain.from_unit(varied.unit(base))
    low, high = interval(values)
    return Effect(tuple(point[varied.varying[i]] for point in points), values.mean(axis=0), low, high)


def words_of(found: Sensitivity) -> str:
    """For people."""
    width = max(map(len, found.total))
    lines = [f"Shares of the variance of {found.output}, with the interval that holds {100 * LEVEL:.0f} % of the posterior:"]
    lines.append(f"  {'input'.ljust(width)}  {'by itself'.ljust(24)}  with interactions")
    for name, total in sorted(found.total.items(), key=lambda pair: -pair[1].mean):
        lines.append(f"  {name.ljust(width)}  {str(found.first[name]).ljust(24)}  {total}")
    for (one, other), index in sorted(found.pairs.items(), key=lambda pair: -pair[1].mean):
        lines.append(f"  {one} × {other}: {index}")
    unit = f" {found.unit}" if found.unit else ""
    lines.append(f"The standard deviation of {found.output} over its inputs is {found.std.mean:.4g}{unit}.")
    return "\n".join([*lines, *(f"note: {message}" for message in found.messages)])
