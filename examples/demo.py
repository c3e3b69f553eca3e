"""A first look: a function that is flat nearly everywhere, learned with a partition of 8 leaves and with one stationary kernel.

Both start from the same 10 points and ask for 40 more, one at a time, where their predictive entropy is largest. Prints the
errors of both and draws what they believe: pictures go to out/, with `--readme` the one of the README to docs/img/demo.png.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

import hyperleaf as hl
from hyperleaf.plots import Heat, Line, Panel, Points, Regions, Scale, Sheet, draw, leaf_weight_maps, posterior_maps
from hyperleaf.plots.sheet import INK
from hyperleaf.plots.view import View

ROOT = Path(__file__).resolve().parents[1]
START, QUERIES, NOISE, CANDIDATES = 10, 40, 0.01, 1000
DOMAIN = hl.Domain(x1=hl.Real(-2, 5), x2=hl.Real(-2, 5))


def truth(X: np.ndarray) -> np.ndarray:
    return 5 * X[:, 0] * np.exp(-(X[:, 0] ** 2) - X[:, 1] ** 2)


@dataclass
class Campaign:
    """One model's own way through the queries."""

    name: str
    model: hl.HHKRegressor | hl.StationaryRegressor
    counts: list[int] = field(default_factory=list)
    errors: list[float] = field(default_factory=list)

    def run(self, progress: Progress) -> None:
        task = progress.add_task(self.name, total=QUERIES, error="compiling")
        noise = np.random.default_rng(1)  # the same for both
        pool = hl.Pool(np.random.default_rng(0).uniform(-2, 5, (CANDIDATES, 2)), DOMAIN)
        test = np.random.default_rng(2).uniform(-2, 5, (500, 2))
        X = DOMAIN.to_array(DOMAIN.design(START, "sobol", seed=0))
        self.model.fit(X, truth(X) + NOISE * noise.standard_normal(START))
        for query in range(QUERIES + 1):
            if query % 5 == 0:
                self.counts.append(START + query)
                self.errors.append(float(np.sqrt(np.mean((self.model.predict(test) - truth(test)) ** 2))))
                progress.update(task, error=f"RMSE {self.errors[-1]:.4f}")
            if query == QUERIES:
                break
            (suggestion,) = hl.suggest(self.model, pool, "entropy", seed=query)
            pool = pool.without(suggestion.index)
            X = np.array([list(suggestion.point.values())])
            self.model.partial_fit(X, truth(X) + NOISE * noise.standard_normal(1))
            progress.advance(task)


def overview(campaigns: list[Campaign]) -> Sheet:
    """Mean and standard deviation of each model over the square, the likeliest partition, and how the errors fell."""
    view = View(DOMAIN, DOMAIN.names, resolution=71)
    grid = DOMAIN.from_unit_array(view.points())
    beliefs = [campaign.model.predict(grid, return_std=True) for campaign in campaigns]
    low, high = float(truth(grid).min()), float(truth(grid).max())
    largest = max(float(std.max()) for _, std in beliefs)
    rows = []
    for campaign, (mean, std) in zip(campaigns, beliefs, strict=True):
        asked = campaign.model.posterior_.data.x
        points = Points(view.place(0, asked), view.place(1, asked), "observations")
        left = Heat(view.ticks[0], view.ticks[1], view.masked(mean), "mean", "value", low, high)
        right = Heat(view.ticks[0], view.ticks[1], view.masked(std), "standard deviation", "spread", 0.0, largest)
        rows.append([_map(view, f"{campaign.name}: mean", left), _map(view, f"{campaign.name}: std", right, points)])
    partition = campaigns[0].model.partition_
    leaves = partition.leaf_weights(grid).argmax(axis=1).reshape(view.shape)
    gates = [Line(x, y, color=INK, halo=True, legend=False) for _, x, y in view.gate_lines(partition.kernel)]
    rows[0].append(_map(view, "its likeliest partition", Regions(view.ticks[0], view.ticks[1], leaves), *gates))
    rows[1].append(errors(campaigns))
    return Sheet([panel for row in rows for panel in row], columns=3)


def errors(campaigns: list[Campaign]) -> Panel:
    lines = [
        Line(np.array(campaign.counts, dtype=float), np.array(campaign.errors), campaign.name, color)
        for campaign, color in zip(campaigns, ("#0072B2", "#D55E00"), strict=True)
    ]
    return Panel(Scale("observations"), Scale("RMSE", log=True), lines, "error on 500 test points")


def _map(view: View, title: str, *layers: Any) -> Panel:
    return Panel(view.scale(0), view.scale(1), layers, title)


def main() -> None:
    console, began = Console(), time.perf_counter()
    campaigns = [
        Campaign("HHK, 8 leaves", hl.HHKRegressor(8, domain=DOMAIN)),
        Campaign("stationary RBF", hl.StationaryRegressor("rbf", domain=DOMAIN)),
    ]
    columns = (
        TextColumn("{task.description:15}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[error]}"),
    )
    with Progress(*columns, console=console) as progress:
        for campaign in campaigns:
            campaign.run(progress)
    hhk = campaigns[0].model
    out = ROOT / "out"
    out.mkdir(exist_ok=True)
    scale, data = hhk.standardizer_, hhk.posterior_.data

    def belief(unit: np.ndarray) -> hl.Mixture:
        return hhk.posterior_.predict(unit).affine(scale.loc, scale.scale)

    posterior_maps(belief, DOMAIN, data=data, output="y", backend="matplotlib").savefig(out / "posterior.png", dpi=120)
    leaf_weight_maps(hhk.partition_.kernel, DOMAIN, data=data, backend="matplotlib").savefig(out / "partition.png", dpi=120)
    picture = draw(overview(campaigns), "matplotlib")
    picture.savefig(out / "overview.png", dpi=120)
    if "--readme" in sys.argv:
        picture.savefig(ROOT / "docs" / "img" / "demo.png", dpi=62)
    for campaign in campaigns:
        console.print(f"{campaign.name}: RMSE {campaign.errors[-1]:.4f} after {START + QUERIES} observations")
    console.print(f"{time.perf_counter() - began:.0f} s; pictures in {out.relative_to(ROOT)}/")


if __name__ == "__main__":
    main()
