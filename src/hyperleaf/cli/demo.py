"""`hyperleaf demo`: a function that is flat nearly everywhere, learned with a partition of 8 leaves beside one stationary kernel.

Both studies start from the same 10 runs and choose the others by themselves, where their predictive entropy is largest, out of
the same 1000 candidates. The error is measured on 500 points that neither of them sees.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import typer
from numpy.typing import NDArray

from hyperleaf.cli.running import showing
from hyperleaf.domain import Domain, Real
from hyperleaf.errors import InputError
from hyperleaf.kernels.partition import Partition
from hyperleaf.plots import Heat, Line, Panel, Points, Regions, Scale, Sheet, draw
from hyperleaf.plots.sheet import INK
from hyperleaf.plots.view import View
from hyperleaf.precision import float64
from hyperleaf.study import Study

START, NOISE, CANDIDATES, UNSEEN = 10, 0.01, 1000, 500
DOMAIN = Domain(x1=Real(-2, 5), x2=Real(-2, 5))
LEAVES, STATIONARY = "HHK, 8 leaves", "stationary RBF"
SURROGATES: dict[str, dict[str, Any]] = {LEAVES: {"kind": "hhk", "leaves": 8}, STATIONARY: {"kind": "stationary"}}


def truth(X: NDArray[np.float64]) -> NDArray[np.float64]:
    """5·x₁·exp(−x₁² − x₂²) at the rows of X."""
    return 5 * X[:, 0] * np.exp(-(X[:, 0] ** 2) - X[:, 1] ** 2)


def simulate(x1: float, x2: float) -> float:
    """A noisy run; the noise is that of the point, so that both studies see the same there."""
    point = np.array([x1, x2])
    noise = np.random.default_rng(list(point.tobytes())).standard_normal()
    return float(truth(point[None])[0] + NOISE * noise)


def run_demo(folder: Path, queries: int, as_json: bool, effort: str) -> tuple[dict[str, Any], str]:
    """Run both studies, and write a page of each and a picture of both to the folder; what came of it as values and as text."""
    started = time.perf_counter()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise InputError(f"the demo writes to a folder; {folder} is a file. Name another.") from None
    studies = {name: _study(name, {**surrogate, "effort": effort}) for name, surrogate in SURROGATES.items()}
    for name, study in studies.items():
        if not as_json:
            typer.echo(f"{name}:")
        with showing(study, 0, queries, as_json) as progress:
            study.run(simulate, stop={"queries": queries}, progress=progress)
    pages = {name: study.report(folder / f"{study.name}.html") for name, study in studies.items()}
    picture = folder / "overview.png"
    draw(overview(studies), "matplotlib").savefig(picture, dpi=62)
    errors = {name: study.accuracy()["y"].test_rmse for name, study in studies.items()}
    seconds = time.perf_counter() - started
    lines = [f"{name}: error {error:.4f} after {queries} runs; {pages[name]}" for name, error in errors.items()]
    lines.append(f"{seconds:.0f} s. Both side by side: {picture}")
    shown = {"errors": errors, "pages": {name: str(page) for name, page in pages.items()}, "picture": str(picture)}
    return {**shown, "queries": queries, "seconds": seconds}, "\n".join(lines)


def _study(name: str, surrogate: dict[str, Any]) -> Study:
    pool = np.random.default_rng(0).uniform(-2, 5, (CANDIDATES, 2))
    unseen = np.random.default_rng(2).uniform(-2, 5, (UNSEEN, 2))
    known = [{"x1": a, "x2": b, "y": y} for (a, b), y in zip(unseen.tolist(), truth(unseen).tolist(), strict=True)]
    return Study.create(
        "leaves" if name == LEAVES else "stationary",
        DOMAIN,
        "y",
        surrogate=surrogate,
        design=START,
        pool=[{"x1": a, "x2": b} for a, b in pool.tolist()],
        test=known,
        description=f"Demonstration: y = 5·x₁·exp(−x₁² − x₂²) with noise of {NOISE}, learned by {name}.",
    )


def overview(studies: dict[str, Study]) -> Sheet:
    """Mean and standard deviation of each over the square, the likeliest partition, and how the errors fell."""
    view = View(DOMAIN, DOMAIN.names, resolution=71)
    unit, (across, up) = view.points(), view.ticks
    models = {name: study.models["y"] for name, study in studies.items()}
    beliefs = {name: model.predict(unit) for name, model in models.items()}
    exact = truth(DOMAIN.from_unit_array(unit))
    largest = max(float(belief.std().max()) for belief in beliefs.values())
    rows = []
    for name, belief in beliefs.items():
        asked = models[name].posterior.data.x
        points = Points(view.place(0, asked), view.place(1, asked), "observations")
        mean = Heat(across, up, view.masked(belief.mean()), "mean", "value", float(exact.min()), float(exact.max()))
        std = Heat(across, up, view.masked(belief.std()), "standard deviation", "spread", 0.0, largest)
        rows.append([_map(view, f"{name}: mean", mean), _map(view, f"{name}: std", std, points)])
    kernel = models[LEAVES].posterior.partition()
    assert kernel is not None
    rows[0].append(_map(view, "its likeliest partition", *_partition(view, kernel)))
    rows[1].append(_errors(studies))
    return Sheet([panel for row in rows for panel in row], columns=3)


def _partition(view: View, kernel: Partition) -> list[Any]:
    import jax.numpy as jnp

    weights = float64(lambda: np.asarray(kernel.leaf_weights(jnp.asarray(view.points()))))()
    gates = [Line(x, y, color=INK, halo=True, legend=False) for _, x, y in view.gate_lines(kernel)]
    return [Regions(view.ticks[0], view.ticks[1], weights.argmax(axis=0).reshape(view.shape)), *gates]


def _errors(studies: dict[str, Study]) -> Panel:
    lines = []
    for (name, study), color in zip(studies.items(), ("#0072B2", "#D55E00"), strict=True):
        table = study.metrics()
        counts, errors = table["num_observations"].to_numpy(dtype=float), table["test_rmse"].to_numpy(dtype=float)
        lines.append(Line(counts, errors, name, color))
    return Panel(Scale("observations"), Scale("RMSE", log=True), lines, f"error on {UNSEEN} test points")


def _map(view: View, title: str, *layers: Any) -> Panel:
    return Panel(view.scale(0), view.scale(1), layers, title)
