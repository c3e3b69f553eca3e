"""Campaigns on real systems: RMSE along the curve, NLPD and coverage, and what a fresh, thorough fit would know.

The tasks are those of `hyperleaf bench run real`, outputs in units of their spread: five random points first, then 60 queries at
maximal predictive entropy; a study's own surrogate (8 leaves, linear trend). "mean" is the geometric mean of the RMSE over
n = 5 … 65. Beyond the bench it compares with fits from scratch (--fresh) and tells the noise and the evidence.
Usage: python -m benchmarks.real [--tasks co2,h2] [--seeds 0,1] [--effort standard] [--priors wide] [--acquisition handover]
       [--fresh 25,45] [--out FOLDER]   (a run whose file is there is not made again)
"""

import argparse
import json
import time
from pathlib import Path

import jax
import numpy as np
from scipy.special import ndtr

from hyperleaf.acquisition.criteria import ACQUISITIONS
from hyperleaf.bench.tasks import task
from hyperleaf.compilation import enable_compilation_cache
from hyperleaf.surrogates.learned import Learned
from hyperleaf.surrogates.named import make_surrogate

TASKS = ("co2", "co2-cp", "h2", "foil-2d", "foil-4d", "foil-drag")


def world(name: str, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Pool and its noisy outputs, the first points in front; test points and their noise-free outputs."""
    problem = task(name)
    real, scale = problem.realise(seed), problem.standardizer
    order = np.concatenate([real.first, np.setdiff1d(np.arange(len(real.pool)), real.first)])
    return real.pool.unit[order], scale.transform(real.outputs[order]), real.test_unit, scale.transform(real.test_y)


def score(model: Learned, points: np.ndarray, truth: np.ndarray) -> dict[str, float]:
    """RMSE of the mean; negative log density and coverage of the 90 % interval of the noisy predictive distribution."""
    mixture = model.predict(points)
    noisy = mixture.noisy()
    weights, means, variances = (np.asarray(part) for part in (noisy.weights, noisy.means, noisy.variances))
    log_densities = -0.5 * (truth - means) ** 2 / variances - 0.5 * np.log(2 * np.pi * variances)
    cumulated = weights @ ndtr((truth - means) / np.sqrt(variances))
    return {
        "rmse": float(np.sqrt(np.mean((np.asarray(mixture.mean()) - truth) ** 2))),
        "nlpd": float(-np.mean(np.logaddexp.reduce(log_densities + np.log(weights + 1e-300)[:, None]))),
        "coverage": float(np.mean((cumulated > 0.05) & (cumulated < 0.95))),
        "noise": float(np.sqrt(np.median(model.posterior.noise())) * model.scale.scale),
        "log_evidence": float(model.posterior.log_evidence),
    }


def campaign(name: str, seed: int, effort: str, priors: str, queries: int, fresh: list[int], acquisition: str) -> dict:
    pool, y, points, truth = world(name, seed)
    key, d = jax.random.key(1000 + seed), pool.shape[1]
    taken, spent = list(range(5)), time.process_time()
    surrogate, criterion = make_surrogate("hhk", d, effort=effort, priors=priors), ACQUISITIONS[acquisition]()
    model = Learned.fit(surrogate, pool[taken], y[taken], key=key)
    rows, fits = [score(model, points, truth)], {}
    for _ in range(queries):
        worth = np.array(criterion.score(model, pool, key=jax.random.fold_in(key, 1000 + len(taken))))
        worth[taken] = -np.inf
        taken.append(int(np.argmax(worth)))
        n = len(taken)
        model = model.update(pool[taken[-1:]], y[taken[-1:]], key=jax.random.fold_in(key, n))
        rows.append(score(model, points, truth))
        if n in fresh:
            again = make_surrogate("hhk", d, effort="thorough", priors=priors)
            fits[n] = score(Learned.fit(again, pool[taken], y[taken], key=jax.random.key(77 + seed)), points, truth)
    return {"task": name, "seed": seed, "rows": rows, "fresh": fits, "taken": taken, "seconds": time.process_time() - spent}


def told(run: dict) -> str:
    rows = run["rows"]
    mean = np.exp(np.mean(np.log([row["rmse"] for row in rows])))
    shown = [n for n in (15, 25, 45, 65) if n - 5 < len(rows)]
    parts = [f"n={n} {rows[n - 5]['rmse']:.3f} {rows[n - 5]['nlpd']:+.2f} {rows[n - 5]['coverage']:.2f}" for n in shown]
    parts += [f"fresh {n} {fit['rmse']:.3f} {fit['nlpd']:+.2f}" for n, fit in run["fresh"].items()]
    return f"{run['task']} {run['seed']}: mean {mean:.3f} | " + " | ".join(parts) + f" | {run['seconds']:.0f} s"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", default=",".join(TASKS))
    parser.add_argument("--seeds", default="0")
    parser.add_argument("--effort", default="standard")
    parser.add_argument("--priors", default="wide")
    parser.add_argument("--acquisition", default="handover", choices=list(ACQUISITIONS))
    parser.add_argument("--queries", type=int, default=60)
    parser.add_argument("--fresh", default="", help="compare with fresh thorough fits at these n")
    parser.add_argument("--out", help="a folder for one JSON file a campaign")
    options = parser.parse_args()
    enable_compilation_cache()
    fresh = [int(n) for n in options.fresh.split(",") if n]
    print("RMSE, NLPD and coverage of 90 % intervals at n")
    for seed in (int(one) for one in options.seeds.split(",")):
        for name in options.tasks.split(","):
            file = Path(options.out or ".") / f"{name}-{seed}-{options.acquisition}-{options.priors}-{options.effort}.json"
            if options.out and file.exists():
                print(told(json.loads(file.read_text())), flush=True)
                continue
            run = campaign(name, seed, options.effort, options.priors, options.queries, fresh, options.acquisition)
            print(told(run), flush=True)
            if options.out:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(json.dumps(run))


if __name__ == "__main__":
    main()
