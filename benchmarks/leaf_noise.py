"""What noise by leaf is worth, and what it costs where noise is the same everywhere: `python -m benchmarks.leaf_noise --help`.

Three tasks in one input, each with its own noise: `motorcycle`, quiet and flat before the impact, then a deep swing and back with
twenty times the noise; `equal`, the same curve with one noise; `levels`, the recovery of two levels that differ by ten on a
partition with known gates. Of each seed the same data go to both models: one noise, and one for each leaf. A line of JSON each.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
import numpyro.distributions as dist

from hyperleaf.data import Dataset
from hyperleaf.gp import GP
from hyperleaf.inference.smc import SMC
from hyperleaf.kernels import RBF, Gates, Partition
from hyperleaf.precision import float64
from hyperleaf.surrogates.gp import GPSurrogate, noise_by_leaf
from hyperleaf.surrogates.named import make_surrogate
from hyperleaf.surrogates.noise import noise_figures

LIGHT = SMC(particles=64, chains=16, start_moves=6)
LOW, HIGH = 0.03, 0.3  # of `levels`
TEST = 400


def curve(x: np.ndarray) -> np.ndarray:
    """Flat until 0.3, then down, up beyond, and back."""
    t = np.maximum(x - 0.3, 0.0) / 0.7
    return -3.0 * np.sin(2.2 * np.pi * t**0.8) * np.exp(-1.5 * t) * (t > 0)


def noise_of(task: str, x: np.ndarray) -> np.ndarray:
    return np.where(x < 0.3, 0.02, 0.4) if task == "motorcycle" else np.full(len(x), 0.2)


def compared(task: str, seed: int, num: int, leaves: int) -> Iterator[dict[str, Any]]:
    """One noise and one for each leaf, on the same data."""
    rng = np.random.default_rng(seed)
    x, at = rng.random(num), rng.random(TEST)
    y = curve(x) + noise_of(task, x) * rng.standard_normal(num)
    told = curve(at) + noise_of(task, at) * rng.standard_normal(TEST)
    loc, scale = y.mean(), y.std()
    for noise in ("learned", "per leaf"):
        started = time.process_time()
        model = make_surrogate("hhk", 1, noise=noise, leaves=leaves, inference=LIGHT, mean="zero")
        posterior = model.fit(Dataset(x[:, None], (y - loc) / scale), key=jax.random.key(seed))
        mixture = posterior.predict(at[:, None]).affine(loc, scale)
        figures = noise_figures(posterior).times(scale)
        yield {
            "task": task,
            "seed": seed,
            "noise": noise,
            "nlpd": -float(np.mean(mixture.noisy().log_prob(told))),
            "rmse": float(np.sqrt(np.mean((mixture.mean() - curve(at)) ** 2))),
            "log_evidence": posterior.evidence().log,
            "log_evidence_std": posterior.evidence().std,
            "least": figures.least,
            "most": figures.most,
            "code": posterior.diagnostics.extra["code"],
            "seconds": time.process_time() - started,
        }


@float64
def known_gates() -> GPSurrogate:
    """Two leaves whose border is known to stand at ½."""
    gates = Gates(np.array([-100.0]), np.array([[200.0]]), np.array([1.0]))
    leaves = RBF(dist.LogNormal(-1.5, 0.7).expand((2, 1)), dist.Gamma(2.0, 3.0).expand((2,)))
    return GPSurrogate(GP(Partition(gates, leaves), noise_by_leaf(2)), LIGHT)


def recovered(seed: int, num: int) -> dict[str, Any]:
    """The central 90 % of the posterior of both levels, and whether they hold the truth."""
    rng = np.random.default_rng(seed)
    x = rng.random((num, 1))
    y = np.sin(6 * x[:, 0]) + np.where(x[:, 0] < 0.5, LOW, HIGH) * rng.standard_normal(num)
    posterior = known_gates().fit(Dataset(x, (y - y.mean()) / y.std()), key=jax.random.key(seed))
    mixture = posterior.predict([[0.05], [0.95]])
    order = np.argsort(mixture.noise, axis=0)
    ends = []
    for k in (0, 1):
        below = np.cumsum(mixture.weights[order[:, k]])
        ends.append([float(np.sqrt(mixture.noise[order[np.searchsorted(below, p), k], k]) * y.std()) for p in (0.05, 0.95)])
    covers = [bool(low <= true <= high) for (low, high), true in zip(ends, (LOW, HIGH), strict=True)]
    return {"task": "levels", "seed": seed, "intervals": ends, "covers": covers}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=("motorcycle", "equal", "levels"))
    parser.add_argument("--seeds", type=int, nargs=2, default=(0, 10), metavar=("FIRST", "END"))
    parser.add_argument("--num", type=int, default=60, help="observations")
    parser.add_argument("--leaves", type=int, default=4)
    given = parser.parse_args()
    for seed in range(*given.seeds):
        found = [recovered(seed, given.num)] if given.task == "levels" else compared(given.task, seed, given.num, given.leaves)
        for one in found:
            print(json.dumps(one), flush=True)


if __name__ == "__main__":
    main()
