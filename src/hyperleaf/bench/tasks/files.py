"""Tasks whose table the user brings: data that are not ours to pass on. A reader of `tables` says where each is to be had."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from hyperleaf.bench import tables
from hyperleaf.bench.tables import PathLike
from hyperleaf.bench.tasks.base import Task
from hyperleaf.bench.tasks.functions import booster_box
from hyperleaf.data import Standardizer
from hyperleaf.domain import Domain


def _lgbb(path: PathLike | None) -> Task:
    frame = tables.read_lgbb(path)
    what = "Lift of the Langley glide-back booster over speed and angle of attack (beta = 0), simulated, and artificial noise."
    return _from_table(frame, "LGBB lift", what, domain=booster_box(), num_queries=120, noise=0.01)


def _close_pi(path: PathLike | None) -> Task:
    what = "Noise (dB) of a combustion engine over six settings, measured."
    return _from_table(tables.read_engine_noise(path), "Combustion engine noise", what, num_queries=100)


def _engine(output: str, path: PathLike | None) -> Task:
    what = f"{output} of a gasoline engine in steady state over four settings, measured. {tables.ENGINE_LICENCE}."
    return _from_table(tables.read_engine(path, output), f"Engine: {output}", what, num_queries=60)


def _from_table(
    frame: Any, title: str, what: str, *, num_queries: int, domain: Domain | None = None, noise: float | None = None
) -> Task:
    """A task of a table whose last column is the output; `noise` is a share of the spread of the outputs."""
    rows, values = frame.iloc[:, :-1].to_numpy(np.float64), frame.iloc[:, -1].to_numpy(np.float64)
    domain = Domain.from_data(frame.iloc[:, :-1]) if domain is None else domain
    domain.to_array(rows)  # refuses a row outside the box, and names it
    standardizer = Standardizer.from_data(values)
    if noise is not None:
        noise *= standardizer.scale
    return Task("", title, domain, num_queries, noise, what, standardizer, rows=rows, values=values)


FROM_FILE: dict[str, Callable[[PathLike | None], Task]] = {
    "lgbb": _lgbb,
    "close-pi": _close_pi,
    **{tables.engine_task(output): partial(_engine, output) for output in tables.ENGINE_OUTPUTS},
}
