"""Which inputs matter, for a report: Sobol indices with intervals, of functions of the posterior and not of its mean alone.

Where constraints cut the domain, shares by themselves mean nothing, for inputs depend on each other there. Then there are totals
only, over pairs of points that are both allowed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hyperleaf.analysis.functions import Functions, functions_of
from hyperleaf.analysis.inputs import interval
from hyperleaf.analysis.sobol import Index, sensitivity
from hyperleaf.domain import Domain
from hyperleaf.study.files import Model
from hyperleaf.surrogates.learned import Learned

Values = NDArray[np.float64]
FUNCTIONS, SAMPLES, PAIRS = 32, 256, 512


@dataclass(frozen=True)
class Effect:
    """The share of the variance of f that goes away when the input is held, and that which it explains by itself; `notes` are
    what is to be said of the intervals."""

    total: Index
    first: Index | None
    notes: tuple[str, ...] = ()


def effects_of(model: Learned, domain: Domain, seed: int) -> dict[str, Effect]:
    """Of each input, where there are several."""
    if domain.num_axes < 2:
        return {}
    named = Model(model, domain, "f")
    if domain.constraints:
        drawn = functions_of(named, FUNCTIONS, seed)
        totals = _allowed(drawn, domain, seed)
        return {name: Effect(_index(shares), None, drawn.messages) for name, shares in totals.items()}
    found = sensitivity(named, samples=SAMPLES, functions=FUNCTIONS, seed=seed, main_effects=False)
    return {name: Effect(_within(found.total[name]), _within(found.first[name]), found.messages) for name in domain.names}


def _allowed(evaluate: Functions, domain: Domain, seed: int) -> dict[str, Values]:
    """Totals (functions,) by Jansen (1999), E[(f(a) − f(a with one input from b))²] / 2 Var f, over what constraints allow."""
    points = domain.to_unit(domain.design(2 * PAIRS, "sobol", seed))
    points = points[np.random.default_rng(seed).permutation(len(points))]
    a, b = points[:PAIRS], points[PAIRS:]
    here, start = evaluate(a), 0
    differences, seen = {}, [here]
    for name, axis in domain.axes.items():
        mixed = a.copy()
        columns = slice(start, start + axis.num_columns)
        mixed[:, columns] = b[:, columns]
        start += axis.num_columns
        allowed = domain.feasible_unit(mixed)
        if allowed.any():
            seen.append(evaluate(mixed[allowed]))
            differences[name] = np.mean((here[:, allowed] - seen[-1]) ** 2, axis=1)
        else:
            differences[name] = np.zeros(FUNCTIONS)
    spread = 2 * np.var(np.concatenate(seen, axis=1), axis=1)
    safe = np.where(spread > 0, spread, 1.0)
    return {name: np.minimum(one / safe, 1.0) for name, one in differences.items()}


def _index(values: Values) -> Index:
    low, high = interval(values)
    return Index(float(values.mean()), float(low), float(high))


def _within(index: Index) -> Index:
    """A share as readers expect one: what is beyond 0 and 1 is the error of its integral."""
    return Index(*(float(np.clip(value, 0.0, 1.0)) for value in (index.mean, index.low, index.high)))
