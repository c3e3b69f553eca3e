"""A first look: a function that is flat nearly everywhere, learned with a partition of 8 leaves and with one stationary kernel.

Both start from the same 10 points and ask for 50 more, one at a time, where their predictive entropy is largest. Prints the
errors of both and draws what they believe: pictures go to out/, with `--readme` the one of the README to docs/img/demo.png.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

import hyperleaf as hl
from hyperleaf.plots import Heat, Line, Panel, Points, Scale, Sheet, draw, leaf_weight_maps, posterior_maps
from hyperleaf.plots.view import View

ROOT = Path(__file__).resolve().parents[1]
START, QUERIES, NOISE, CANDIDATES = 10, 50, 0.01, 1000
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
    """Mean and standard deviation of each model over the square, and how their errors fell."""
    view = View(DOMAIN, DOMAIN.names, resolution=71)
    grid = DOMAIN.from_unit_array(view.points())
    beliefs = [campaign.model.predict(grid, return_std=True) for campaign in campaigns]
    low, high = float(truth(grid).min()), float(truth(grid).max())
    largest = max(float(std.max()) for _, std in beliefs)
    panels = []
    for campaign, (mean, std) in zip(campaigns, beliefs, strict=True):
        asked = campaign.model.posterior_.data.x
        points = Points(view.place(0, asked), view.place(1, asked), "observations")
        for z, label, colors, ends in (
            (mean, "mean", "value", (low, high)),
            (std, "standard deviation", "spread", (0.0, largest)),
        ):
            heat = Heat(view.ticks[0], view.ticks[1], view.masked(z), label, colors, *ends)
            layers = [heat, points] if colors == "spread" else [heat]
            panels.append(Panel(view.scale(0), view.scale(1), layers, f"{campaign.name}: {label}"))
    return Sheet(panels, columns=4)


def error_curves(campaigns: list[Campaign]) -> Sheet:
    colors = ("#0072B2", "#D55E00")
    lines = [
        Line(np.array(c.counts, dtype=float), np.array(c.errors), c.name, color)
        for c, color in zip(campaigns, colors, strict=True)
    ]
    return Sheet([Panel(Scale("observations"), Scale("RMSE", log=True), lines, square=False)], columns=1)


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
    draw(error_curves(campaigns), "matplotlib").savefig(out / "errors.png", dpi=120)
    picture = draw(overview(campaigns), "matplotlib")
    picture.savefig(out / "overview.png", dpi=120)
    if "--readme" in sys.argv:
        picture.savefig(ROOT / "docs" / "img" / "demo.png", dpi=80)
    for campaign in campaigns:
        console.print(f"{campaign.name}: RMSE {campaign.errors[-1]:.4f} after {START + QUERIES} observations")
    console.print(f"{time.perf_counter() - began:.0f} s; pictures in {out.relative_to(ROOT)}/")


if __name__ == "__main__":
    main()
