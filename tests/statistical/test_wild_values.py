"""Campaigns in which one of twenty values is wild: with noise = "robust" they end about where they would have ended without."""

from __future__ import annotations

import numpy as np
import pytest

import hyperleaf as hl
from hyperleaf.bench.tasks import task
from hyperleaf.data import Pool


def campaign(
    name: str, seed: int, noise: str, wild: bool, queries: int, surrogate: dict | None = None
) -> tuple[float, list[int]]:
    """The RMSE at the end, and which of the runs are set aside. The same runs are wild with every noise."""
    real = task(name).realise(seed)
    test = [
        {**point, "y": float(y)} for point, y in zip(real.pool.domain.to_dicts(real.test_x[:400]), real.test_y[:400], strict=True)
    ]
    study = hl.Study.create(
        f"{name}-{seed}",
        real.pool.domain,
        {"y": {"noise": noise}},
        surrogate=surrogate or {"kind": "hhk", "leaves": 4, "effort": "fast"},
        seed=seed,
        pool=Pool(real.pool.points(range(400)), real.pool.domain),
        test=test,
        design=5,
    )
    out = (7, 20 + 3 * seed, 40)  # among the first, and when much is known already
    for k in range(queries):
        (query,) = study.ask()
        y = real.output(query.index)
        if wild and k in out:
            y = (1000 * y, -y, 1e9)[(out.index(k) + seed) % 3]
        study.tell(query, y=y)
    return study.accuracy()["y"].test_rmse, [int(i) for i in getattr(study.models["y"], "aside", [])]


@pytest.mark.long
@pytest.mark.parametrize(("name", "lost"), [("exponential", 0), ("oblique-2d", 6)])
def test_wild_values_cost_little(name: str, lost: int) -> None:
    """Three of fifty runs are wild, and three are spent on second looks. Where the error still falls by half in ten runs, the
    campaign is held against a clean one without these six."""
    wild, clean = [], []
    for seed in range(3):
        plain, _ = campaign(name, seed, "learned", False, 50)
        against = campaign(name, seed, "learned", False, 50 - lost)[0] if lost else plain
        wild.append(campaign(name, seed, "robust", True, 50)[0] / against)
        clean.append(campaign(name, seed, "robust", False, 50)[0] / plain)
    assert np.exp(np.mean(np.log(wild))) < 1.2, wild
    assert np.exp(np.mean(np.log(clean))) < 1.1, clean


@pytest.mark.long
def test_wild_values_ruin_a_campaign_without() -> None:
    """Else the test above would show nothing."""
    assert campaign("exponential", 0, "learned", True, 30)[0] > 3 * campaign("exponential", 0, "learned", False, 30)[0]
