"""Sequential Monte Carlo on Exponential 2-D: a campaign with its accuracy, the cost of one query, and how it grows with n.

y = 5·z₁·exp(−z₁² − z₂²) on [−2, 5]², noise 0.01, pool of 1000 uniform points, 500 noise-free test points, 5 random points first,
then 60 queries at maximal predictive entropy; 8 leaves, 128 particles, a linear trend as in studies unless `--mean zero` says
otherwise. Query and growth are of the paper's priors at fast effort.
Pin to one core (`taskset -c 0`) to compare with the figures in the docs.
Usage: python -m benchmarks.smc [campaign|query|growth] [--seeds 0,1,2,3,4] [--mean linear] [--effort fast]
"""

import argparse
import resource
import time

import jax
import numpy as np

from hyperleaf.compilation import enable_compilation_cache
from hyperleaf.data import Dataset
from hyperleaf.inference.smc import SMC
from hyperleaf.surrogates.gp import hhk_surrogate
from hyperleaf.surrogates.learned import Learned
from hyperleaf.surrogates.named import make_surrogate


def exponential(u: np.ndarray) -> np.ndarray:
    z = 7 * u - 2
    return 5 * z[:, 0] * np.exp(-(z[:, 0] ** 2) - z[:, 1] ** 2)


def task(seed: int):
    rng = np.random.default_rng(seed)
    pool, test = rng.random((1000, 2)), rng.random((500, 2))
    y = exponential(pool) + 0.01 * rng.normal(size=1000)
    return pool, y, test, exponential(test), list(rng.choice(1000, 5, replace=False))


def next_index(posterior, pool, taken):
    score = posterior.predict(pool).noisy().entropy()
    score[taken] = -np.inf
    return int(np.argmax(score))


def campaign(seed: int, queries: int = 60, **options) -> dict:
    pool, y, test, truth, taken = task(seed)
    key = jax.random.key(seed)
    start = time.perf_counter()
    model = Learned.fit(make_surrogate("hhk", 2, **options), pool[taken], y[taken], key=jax.random.fold_in(key, 0))
    seconds, errors, baseline = [], [], []
    spent_on_scores = 0.0
    for query in range(queries + 1):
        scored = time.perf_counter()
        errors.append(float(np.sqrt(np.mean((model.predict(test).mean() - truth) ** 2))))
        baseline.append(float(np.sqrt(np.mean((y[taken].mean() - truth) ** 2))))
        spent_on_scores += time.perf_counter() - scored
        if query == queries:
            break
        begun = time.perf_counter()
        index = next_index(model.posterior, pool, taken)
        taken.append(index)
        model = model.update(pool[[index]], y[[index]], key=jax.random.fold_in(key, query + 1))
        seconds.append(time.perf_counter() - begun)
    total = time.perf_counter() - start - spent_on_scores
    gradients = sum(info.gradients for info in model.diagnostics.extra["history"])
    return {"seconds": total, "query": seconds, "gradients": gradients, "rmse": errors, "baseline": baseline}


def campaigns(seeds: list[int], **options) -> None:
    print("campaign from 5 to 65 observations; the first one compiles")
    rows = []
    for seed in seeds:
        row = campaign(seed, **options)
        rows.append(row)
        print(
            f"seed {seed}: RMSE {row['rmse'][-1]:.4f} after {len(row['query'])} queries, {row['seconds']:.1f} s, "
            f"{row['gradients']} gradients, median query {np.median(row['query']):.2f} s",
            flush=True,
        )
    errors = np.array([row["rmse"] for row in rows])
    baseline = np.median([row["baseline"] for row in rows], axis=0)
    worst = np.max(np.median(errors, axis=0) / baseline)
    half = np.median(errors, axis=0)[15] / baseline[15]
    print(f"at n = 20 the median RMSE is {half:.2f} of predicting the mean")
    print(f"mean RMSE at the end {errors[:, -1].mean():.4f}; largest ratio of median RMSE to predicting the mean {worst:.4f}")


def grown(n: int, mean: str, seed: int = 0):
    """A posterior at n observations of a random design: fitted to the first 30, then moved on by doubling.

    A tempered start at n = 800 would take many times what the queries do that are measured here.
    """
    rng = np.random.default_rng(seed)
    x = rng.random((n, 2))
    y = (exponential(x) + 0.01 * rng.normal(size=n)) / 0.5
    surrogate = hhk_surrogate(2, 8, inference=SMC(start_moves=6), mean=mean)
    posterior = surrogate.fit(Dataset(x[:30], y[:30]), key=jax.random.key(seed))
    seen = 30
    while seen < n:
        more = min(2 * seen, n)
        posterior = posterior.update(x[seen:more], y[seen:more], key=jax.random.key(seen))
        seen = more
    return posterior


def queries(n: int, num: int, mean: str) -> None:
    pool, y, *_ = task(1)
    posterior = grown(n, mean)
    taken: list[int] = []
    rows = []
    for i in range(num + 1):  # the first compiles
        start = time.perf_counter()
        index = next_index(posterior, pool, taken)
        chosen = time.perf_counter()
        taken.append(index)
        posterior = posterior.update(pool[index], y[index] / 0.5, key=jax.random.key(i))
        info = posterior.diagnostics.extra["info"]
        rows.append((time.perf_counter() - start, chosen - start, info.gradients))
    total, choosing, gradients = np.array(rows[1:]).T
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        f"n = {n:>4}: query {np.median(total):.2f} s median, {total.mean():.2f} s mean; of it prediction and entropy "
        f"{np.median(choosing):.2f} s; gradients {gradients.mean():.0f} mean, {(gradients > 0).mean():.0%} of queries move; "
        f"peak memory {peak:.1f} GiB",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="?", default="campaign", choices=["campaign", "query", "growth"])
    parser.add_argument("--seeds", default="0,1,2,3,4")
    parser.add_argument("--sizes", default="50,100,200,400,800", help="for growth")
    parser.add_argument("--mean", default="linear", choices=["zero", "constant", "linear"])
    parser.add_argument("--effort", default="standard", help="of campaigns")
    parser.add_argument("--priors", default="wide", help="of campaigns")
    parser.add_argument("--cache", help="folder for compiled code: empty for a cold start with a cache, filled for a warm one")
    options = parser.parse_args()
    if options.cache:
        enable_compilation_cache(options.cache)
    if options.what == "campaign":
        seeds = [int(seed) for seed in options.seeds.split(",")]
        campaigns(seeds, mean=options.mean, effort=options.effort, priors=options.priors)
    elif options.what == "query":
        for n in (50, 100):
            queries(n, 15, options.mean)
    else:
        for n in (int(n) for n in options.sizes.split(",")):
            queries(n, 5 if n <= 200 else 2, options.mean)


if __name__ == "__main__":
    main()
