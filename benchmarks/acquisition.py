"""Speed of the criteria on one core against their limits: 128 draws, 8 leaves, n = 100, two inputs.

    python benchmarks/acquisition.py            # fits once with SMC, a minute or more; then the table of docs/acquisition.md

Times are CPU seconds of this process, compilation not counted, the best of three (of one for the 100 000 candidates).
"""

from __future__ import annotations

import os

# Before NumPy and JAX are imported: one thread each, or CPU time counts idle spinning.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

import resource
import sys
import time
from collections.abc import Callable

import jax
import numpy as np

from hyperleaf.acquisition import ALC, BALD, EPIG, Entropy, QueryByCommittee, Variance
from hyperleaf.data import Dataset
from hyperleaf.domain import Domain, Real
from hyperleaf.suggestion import suggest
from hyperleaf.surrogates.gp import GPPosterior, hhk_surrogate

MANY = 100_000


def posterior(n: int = 100, seed: int = 0) -> GPPosterior:
    rng = np.random.default_rng(seed)
    x = rng.random((n, 2))
    y = np.sin(6 * x[:, 0]) * x[:, 1] + 0.05 * rng.standard_normal(n)
    return hhk_surrogate(2, 8).fit(Dataset(x, (y - y.mean()) / y.std()), key=jax.random.key(seed))


def seconds(function: Callable[[], object], times: int = 3) -> float:
    taken = []
    for _ in range(times):
        start = time.process_time()
        function()
        taken.append(time.process_time() - start)
    return min(taken)


def line(what: str, taken: float, limit: float | None = None) -> None:
    verdict = "" if limit is None else f"{limit:g} s: " + ("met" if taken <= limit else "MISSED")
    sys.stdout.write(f"| {what} | {taken:.3f} | {verdict} |\n")
    sys.stdout.flush()


def main(belief: GPPosterior) -> None:
    rng = np.random.default_rng(1)
    candidates, many, references = rng.random((1000, 2)), rng.random((MANY, 2)), rng.random((500, 2))
    sys.stdout.write(
        f"{belief.num_draws} draws, n = {belief.data.num_observations}\n\n| | CPU seconds | limit |\n|---|---|---|\n"
    )

    mixture = belief.predict(candidates).noisy()
    mixture.entropy()
    line("entropy by quadrature, 1000 candidates, prediction not counted", seconds(mixture.entropy), 0.05)
    line("prediction alone, 1000 candidates", seconds(lambda: belief.predict(candidates)))
    for criterion in (ALC(references), EPIG(references)):
        criterion.score(belief, candidates)
        taken = seconds(lambda criterion=criterion: criterion.score(belief, candidates))
        line(
            f"{type(criterion).__name__}, 1000 candidates and 500 references", taken, 2.0 if isinstance(criterion, ALC) else None
        )

    box = Domain(a=Real(0, 1), b=Real(0, 1))
    for optimizer in ("auto", "local", "cmaes", "sobol"):
        suggest(belief, box, optimizer=optimizer)
        line(f"suggest by entropy over a box, {optimizer}", seconds(lambda o=optimizer: suggest(belief, box, optimizer=o), 1))

    for criterion in (Entropy(), Variance(), BALD(), QueryByCommittee()):
        for chunk in (2**14, MANY % 2**14):  # as `score` divides them
            criterion.score(belief, many[:chunk])
        taken = seconds(lambda criterion=criterion: criterion.score(belief, many), 1)
        line(f"{type(criterion).__name__} with prediction, {MANY} candidates", taken, 30.0)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    sys.stdout.write(f"\nlargest memory of the process {peak:.2f} GiB (limit 2)\n")


if __name__ == "__main__":
    main(posterior())
