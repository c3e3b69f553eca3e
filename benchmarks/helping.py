"""Whether "34 runs taught what about 60 random ones would have" is true: estimates held against real random campaigns.

For each task and seed a campaign chooses its queries by predictive entropy; at its end `find_helping` estimates, from nothing but
what was learned, how many random runs would have taught as much. Then random runs are really made, in several orders of the pool,
and learned by the same surrogate; the number after which the error on the test set is that of the campaign is the truth.
Usage: python -m benchmarks.helping [--tasks exponential,higdon,foildrag] [--seeds 0,1,2] [--queries 30] [--out FILE]
"""

import argparse
import json
import time
from pathlib import Path

import jax
import numpy as np

from benchmarks.real import TASKS as REAL, world
from hyperleaf.bench import task as task_of
from hyperleaf.compilation import enable_compilation_cache
from hyperleaf.domain import Domain, Real
from hyperleaf.study.helping import find_helping
from hyperleaf.surrogates.learned import Learned
from hyperleaf.surrogates.named import make_surrogate

FIRST, ORDERS = 5, 3
STEPS = (10, 15, 20, 25, 30, 40, 50, 65, 80, 100, 130, 170, 220)


def read(task: str, seed: int) -> tuple[Domain, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The domain, the pool in the unit cube with its outputs, and the test set."""
    if task in REAL:
        pool, y, points, truth = world(task, seed)
        return Domain({f"x{i}": Real(0, 1) for i in range(pool.shape[1])}), pool, y, points, truth
    found = task_of(task).realise(seed)
    return found.pool.domain, found.pool.unit, found.outputs, found.test_unit, found.test_y


def rmse(model: Learned, points: np.ndarray, truth: np.ndarray) -> float:
    return float(np.sqrt(np.mean((np.asarray(model.predict(points).mean()) - truth) ** 2)))


def campaign(pool: np.ndarray, y: np.ndarray, seed: int, queries: int, effort: str) -> Learned:
    key, rng = jax.random.key(seed), np.random.default_rng((seed, 1))
    taken = [int(i) for i in rng.choice(len(pool), FIRST, replace=False)]
    model = Learned.fit(make_surrogate("hhk", pool.shape[1], effort=effort), pool[taken], y[taken], key=key)
    for n in range(FIRST, FIRST + queries):
        worth = np.asarray(model.posterior.predict(pool).noisy().entropy())
        worth[taken] = -np.inf
        taken.append(int(np.argmax(worth)))
        model = model.update(pool[taken[-1:]], y[taken[-1:]], key=jax.random.fold_in(key, n))
    return model


def random_runs(
    pool: np.ndarray, y: np.ndarray, points: np.ndarray, truth: np.ndarray, seed: int, order: int, effort: str, wanted: float
) -> list[tuple[int, float]]:
    """The error after numbers of random runs, until it is well below the one wanted."""
    rows = np.random.default_rng((seed, 2, order)).permutation(len(pool))
    key = jax.random.key(1000 * seed + order)
    model, curve = None, []
    for before, n in zip((0, *STEPS), STEPS, strict=False):
        part = rows[before:n]
        if model is None:
            model = Learned.fit(make_surrogate("hhk", pool.shape[1], effort=effort), pool[part], y[part], key=key)
        else:
            model = model.update(pool[part], y[part], key=jax.random.fold_in(key, n))
        curve.append((n, rmse(model, points, truth)))
        if len(curve) > 1 and curve[-1][1] < 0.8 * wanted and curve[-2][1] < wanted:
            break
    return curve


def crossing(curve: list[tuple[int, float]], wanted: float) -> float:
    """After how many runs the error is below the one wanted for good, in between by logarithms; ∞ if it never is."""
    nums, errors = np.array(curve).T
    above = np.flatnonzero(errors > wanted)
    if not len(above):
        return float(nums[0])
    i = int(above[-1])
    if i + 1 == len(nums):
        return float("inf")
    share = np.log(errors[i] / wanted) / np.log(errors[i] / errors[i + 1])
    return float(nums[i] + share * (nums[i + 1] - nums[i]))


def compare(task: str, seed: int, queries: int, effort: str) -> dict:
    domain, pool, y, points, truth = read(task, seed)
    model = campaign(pool, y, seed, queries, effort)
    reached = rmse(model, points, truth)
    started = time.process_time()
    found = find_helping(model, domain, pool, seed=seed, plain=False)
    assert found is not None
    seconds = time.process_time() - started
    curves = [random_runs(pool, y, points, truth, seed, order, effort, reached) for order in range(ORDERS)]
    real = sorted(crossing(curve, reached) for curve in curves)
    return {
        "task": task,
        "seed": seed,
        "num_runs": found.num_runs,
        "rmse": reached,
        "own": float(found.own[-1]),
        "estimate": found.equal,
        "limit": found.limit,
        "real": real,
        "curves": curves,
        "seconds": seconds,
    }


def told(one: dict) -> str:
    low, middle, high = one["estimate"]
    real = ", ".join(f"{value:.0f}" for value in one["real"])
    head = f"{one['task']} {one['seed']}: {one['num_runs']} runs, rmse {one['rmse']:.3f} (expected {one['own']:.3f})"
    return f"{head} | random runs: estimated {middle:.0f} ({low:.0f} to {high:.0f}), really {real} | {one['seconds']:.1f} s"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", default="exponential,higdon,foildrag")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--queries", type=int, default=30)
    parser.add_argument("--effort", default="fast")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    enable_compilation_cache()
    found = []
    for task in given.tasks.split(","):
        for seed in map(int, given.seeds.split(",")):
            found.append(compare(task, seed, given.queries, given.effort))
            print(told(found[-1]), flush=True)
            if given.out:
                given.out.write_text(json.dumps(found))


if __name__ == "__main__":
    main()
