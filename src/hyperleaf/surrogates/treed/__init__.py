"""The Bayesian treed Gaussian process, after R's tgp: axis-aligned partitions with a GP and a linear trend in every leaf.

`tree` holds the partitions and their prior, `moves` proposes new ones, `leaf` is the marginal likelihood of a leaf, `sampler` the
reversible-jump chain, `posterior` the prediction. `TreedGP` is what is believed before data and starts it all.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hyperleaf.data import Dataset
from hyperleaf.errors import InputError
from hyperleaf.inference.diagnostics import summarise
from hyperleaf.parallel import one_blas_thread
from hyperleaf.surrogates.base import Diagnostics, Surrogate, numpy_generator
from hyperleaf.surrogates.treed.leaf import LeafModel, trend_columns
from hyperleaf.surrogates.treed.posterior import Partitioned, TreedPosterior
from hyperleaf.surrogates.treed.sampler import Draw, Sampler, default_start, dispersed_start, sizes
from hyperleaf.surrogates.treed.tree import Grid, Split, height, num_leaves

__all__ = ["SAVED", "Partitioned", "TreedGP", "TreedPosterior"]

_TRENDS = ("linear", "constant", "none")


@dataclass(frozen=True)
class TreedGP(Surrogate):
    """Bayesian treed GP; `tree=False` is a single Bayesian GP with trend. The defaults are those of R's tgp.

    Each of `chains` chains runs `total` rounds, drops the first `burn_in` and keeps every `thin`-th; an update drops
    `warm_burn_in`. A leaf keeps more than `min_leaf` rows, by default max(10, d + 2). A prediction uses at most `max_components`
    of the kept states, `joint` at most `max_joint` (its covariances take s·m·k numbers).
    """

    burn_in: int = 2000
    total: int = 7000
    thin: int = 2
    chains: int = 1
    trend: str = "linear"
    min_leaf: int | None = None
    tree: bool = True
    split_base: float = 0.5
    split_power: float = 2.0
    trend_uncertainty: bool = True
    warm_burn_in: int = 500
    max_components: int = 500
    max_joint: int = 100

    scale_free: ClassVar[bool] = True  # the chain standardises outputs by itself

    def __post_init__(self) -> None:
        if not 0 <= self.burn_in < self.total:
            raise InputError(f"burn_in must be ≥ 0 and below total; got {self.burn_in} and {self.total}. Raise total.")
        if self.warm_burn_in < 0:
            raise InputError(f"warm_burn_in must be ≥ 0; got {self.warm_burn_in}.")
        for name in ("thin", "chains", "max_components", "max_joint"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} must be at least 1; got {getattr(self, name)}.")
        if self.total - self.burn_in < self.thin:
            raise InputError(
                f"thin must not exceed total - burn_in, or no state is kept; got {self.thin} and {self.total - self.burn_in}."
            )
        if self.trend not in _TRENDS:
            raise InputError(f"trend must be one of {', '.join(_TRENDS)}; got {self.trend!r}.")
        if self.min_leaf is not None and self.min_leaf < 0:
            raise InputError(f"min_leaf must be ≥ 0 or None for max(10, d + 2); got {self.min_leaf}.")
        if not 0.0 < self.split_base < 1.0 or self.split_power < 0.0:
            raise InputError(
                "split_base must lie strictly between 0 and 1 and split_power must be ≥ 0; "
                f"got {self.split_base} and {self.split_power}. tgp uses 0.5 and 2."
            )

    def fit(self, data: Dataset, *, key: Any, locations: ArrayLike | None = None) -> TreedPosterior:
        """Splits lie at observed values; `locations` (k, d) are further rows to split at, as tgp uses its prediction points."""
        places = None if locations is None else Dataset(np.asarray(locations), np.zeros(len(np.asarray(locations)))).x
        if places is not None and places.shape[1] != data.num_dims:
            raise InputError(f"locations must have {data.num_dims} columns like the data; got shape {places.shape}.")
        return self._run(data, numpy_generator(key), places, None)

    def refit(self, data: Dataset, previous: TreedPosterior, *, key: Any) -> TreedPosterior:
        """Fit `data`, which must contain the observations of `previous`, from the last states of its chains."""
        return self._run(data, numpy_generator(key), previous.locations, previous)

    def _run(
        self,
        data: Dataset,
        rng: np.random.Generator,
        locations: NDArray[np.float64] | None,
        previous: TreedPosterior | None,
    ) -> TreedPosterior:
        began = time.perf_counter()
        n, d = data.x.shape
        if n < 1:
            raise InputError("a treed GP needs at least one observation; got none. Fit after the first design.")
        messages = []
        trend = _possible_trend(data, self.trend)
        if trend != self.trend:
            messages.append(f"trend reduced from {self.trend} to {trend}: {n} rows in {d} dimensions do not determine more.")
        if data.noise is not None:
            messages.append("the known noise variances are not used: a treed GP learns one noise level per leaf.")
        min_leaf = max(10, d + 2) if self.min_leaf is None else self.min_leaf
        splittable = self.tree and n >= 2 * (min_leaf + 1)
        if self.tree and not splittable:
            messages.append(f"one leaf only: {n} rows cannot give two leaves more than {min_leaf} each.")
        center, width = float(data.y.mean()), float(np.ptp(data.y))
        if width <= 1e-12 * max(1.0, abs(center)):
            width = 1.0
            messages.append("y is constant: it is centred but not scaled.")
        grid = Grid.of(data.x, self.split_base, self.split_power, locations)
        model = LeafModel(data.x, (data.y - center) / width, trend, min_leaf)

        burn_in, starts = self.burn_in, [default_start(d), *(dispersed_start(d, rng) for _ in range(self.chains - 1))]
        if previous is not None:
            # cycle through the old chains when their number differs
            old = [previous.last[i % len(previous.last)] for i in range(self.chains)]
            starts = [_carry_over(draw, previous, grid, width) for draw in old]
            burn_in = min(self.warm_burn_in, self.burn_in)
        samplers = [Sampler(model, grid, rng, start, splittable) for start in starts]
        total = burn_in + self.total - self.burn_in
        with one_blas_thread():
            kept = [sampler.run(burn_in, total, self.thin) for sampler in samplers]

        draws = tuple(draw for chain in kept for draw in chain)
        diagnostics = _diagnose(self, samplers, kept, model.failures, messages, time.perf_counter() - began)
        last = tuple(chain[-1] for chain in kept)
        return TreedPosterior(data, self, diagnostics, draws, last, grid, trend, center, width, locations)


def treed(d: int, noise: str, **options: Any) -> TreedGP:
    """By its name: `make_surrogate("treed", 2, total=7000)`."""
    return TreedGP(**options)


def _possible_trend(data: Dataset, trend: str) -> str:
    """The richest trend not above `trend` whose columns are independent and fewer than the rows."""
    for candidate in _TRENDS[_TRENDS.index(trend) :]:
        columns = trend_columns(data.x, candidate)
        if columns.shape[1] < len(columns) and (columns.shape[1] <= 1 or np.linalg.matrix_rank(columns) == columns.shape[1]):
            return candidate
    return "none"


def _carry_over(draw: Draw, previous: TreedPosterior, grid: Grid, width: float) -> Draw:
    """The state in the ranks of the new grid and the scale of the new y; the sampler falls back to one leaf if it is invalid."""
    ratio = (previous.width / width) ** 2
    variances = tuple(variance * ratio for variance in draw.variances)
    tree = previous.grid.translate(draw.tree, grid)
    return Draw(tree, draw.lengths, draw.nuggets, variances, draw.shape, draw.scale * ratio)


def _diagnose(
    surrogate: TreedGP, samplers: list[Sampler], kept: list[list[Draw]], failures: int, messages: list[str], seconds: float
) -> Diagnostics:
    draws = [draw for chain in kept for draw in chain]
    rounds = sum(sampler.count for sampler in samplers)
    tracked = {
        "log_posterior": np.array([[draw.log_posterior for draw in chain] for chain in kept]),
        "log_likelihood": np.array([[draw.log_likelihood for draw in chain] for chain in kept]),
        "num_leaves": np.array([[num_leaves(draw.tree) for draw in chain] for chain in kept], dtype=float),
    }
    rhat, ess, tail = summarise({name: one for name, one in tracked.items() if one.shape[1] >= 4 and np.ptp(one) > 0})
    accepted: dict[str, list[int]] = {}
    for sampler in samplers:
        for step, tally in sampler.counts.items():
            accepted[step] = [a + b for a, b in zip(accepted.get(step, [0, 0]), tally, strict=True)]
    extra = {
        "rounds": rounds,
        "acceptance": {step: a / p for step, (a, p) in sorted(accepted.items())},
        "proposed": {step: p for step, (_, p) in sorted(accepted.items())},
        "num_leaves": sizes(draws),
        "height": float(np.mean([height(draw.tree) for draw in draws])),
    }
    method = "treed GP, reversible-jump MCMC" if surrogate.tree else "Bayesian GP, MCMC"
    return Diagnostics(method, len(draws), seconds, rhat, ess, tail, failed_draws=failures, messages=tuple(messages), extra=extra)


SAVED = {
    "treed": TreedGP,
    "treed-posterior": TreedPosterior,
    "treed-draw": Draw,
    "treed-split": Split,
    "treed-grid": Grid,
}
