"""Two surrogates of the same thing: how far apart they are, where most, and whether that is more than they doubt themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hyperleaf.analysis.inputs import one_model
from hyperleaf.checks import whole_number
from hyperleaf.errors import InputError


@dataclass(frozen=True)
class Comparison:
    """Over points that fill the domain both hold in: `difference` is the root mean square of the difference of the means, in
    native units; `score` the same in units of the std of both together (about 1 or less where they agree); `largest` the largest
    difference and `where` it is. `stds` are the root mean square stds of the two, `data_shared` whether the data are the same."""

    output: str
    unit: str
    points: int
    difference: float
    score: float
    largest: float
    where: dict[str, Any]
    stds: tuple[float, float]
    runs: tuple[int, int]
    data_shared: bool

    def words(self) -> str:
        unit = f" {self.unit}" if self.unit else ""
        verdict = "as far as they doubt themselves" if self.score <= 1.5 else "more than they doubt themselves"
        return "\n".join(
            [
                f"Learned from {self.runs[0]} and {self.runs[1]} runs" + (", the same." if self.data_shared else "."),
                f"Their means differ by {self.difference:.4g}{unit} (root mean square over {self.points} points), {verdict}: "
                f"{self.score:.2f} standard deviations of both together.",
                f"Their own standard deviations are {self.stds[0]:.4g} and {self.stds[1]:.4g}{unit}.",
                f"They differ most, by {self.largest:.4g}{unit}, at {', '.join(f'{k} = {v}' for k, v in self.where.items())}.",
            ]
        )


def compare(first: Any, second: Any, output: str | None = None, *, points: int = 2048, seed: int = 0) -> Comparison:
    """Hold two surrogates of the same inputs against each other, over the domain of the first where the second knows it too."""
    from hyperleaf.exports.certificate import data_hash

    one, other = one_model(first, output), one_model(second, output)
    names = (one.domain.names, other.domain.names)
    if names[0] != names[1]:
        raise InputError(f"surrogates that are compared must have the same inputs; got {list(names[0])} and {list(names[1])}.")
    rows = one.domain.design(whole_number("points", points, 2), "sobol", seed)
    kept = [row for row in rows if _holds(other.domain, row)] if one.domain != other.domain else rows
    if not kept:
        raise InputError("surrogates that are compared must have domains that overlap; no point of the first lies in the second.")
    a, b = one.predict(kept), other.predict(kept)
    apart = a.mean() - b.mean()
    both = np.sqrt(a.var() + b.var())
    worst = int(np.argmax(np.abs(apart)))
    return Comparison(
        one.output,
        one.unit,
        len(kept),
        float(np.sqrt(np.mean(apart**2))),
        float(np.sqrt(np.mean((apart / np.maximum(both, 1e-300)) ** 2))),
        float(np.abs(apart[worst])),
        kept[worst],
        (float(np.sqrt(np.mean(a.var()))), float(np.sqrt(np.mean(b.var())))),
        (len(one.learned.y), len(other.learned.y)),
        data_hash(one) == data_hash(other),
    )


def _holds(domain: Any, row: dict[str, Any]) -> bool:
    try:
        domain.to_unit([row])
    except InputError:
        return False
    return True
