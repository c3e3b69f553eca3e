"""How often limits are broken, how much of what is safe is found, and what safety costs: `python -m benchmarks.limits --help`.

On tasks with known truth, three ways of choosing among a pool of candidates, all from the same four safe points:
- `limits`: what a study does: the joint probability under the mixture of all draws, and the held rate;
- `thresholds`: what is usually done: a single stationary GP with its most probable parameters, each limit for itself;
- `entropy`: the same criterion without limits.

The surrogate is light, for the rates are what is measured: a stationary RBF GP in NumPy whose parameters are drawn by sequential
Monte Carlo (random-walk moves), with the noise known. The judgement is that of the library: `Limit`, `all_hold`, `Admission`,
`held_risk`. Results are added to a file of JSON lines; what stands there is not run again.
"""

from __future__ import annotations

import argparse
import csv
import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial import cKDTree
from scipy.special import betaincinv, ndtr

from hyperleaf.acquisition import Admission, Limit, all_hold
from hyperleaf.bench.tasks.limited import LIMITED, LimitedTask, limited_task
from hyperleaf.mixture import Mixture
from hyperleaf.study.limits import held_risk

RISK = 0.05
METHODS = ("limits", "thresholds", "entropy")


class Draws:
    """Parameters of a stationary GP given data on a pool: s weighted draws of (ln lengthscales, ln variance)."""

    def __init__(self, pool: np.ndarray, noise: float, num: int, rng: np.random.Generator) -> None:
        self.pool, self.noise, self.rng = pool, noise, rng
        d = pool.shape[1]
        self.centre = np.append(np.full(d, np.log(0.5 * np.sqrt(d / 2))), 0.0)
        self.spread = np.append(np.full(d, 0.8), 1.0)
        self.z = self.centre + self.spread * rng.standard_normal((num, d + 1))
        self.log_weights = np.zeros(num)
        self.rows: list[int] = []
        self.y: list[float] = []
        self._begin()

    def _begin(self) -> None:
        s, m = len(self.z), len(self.pool)
        self.half = np.zeros((s, 0, m))  # L⁻¹ k(X, pool)
        self.white = np.zeros((s, 0))  # L⁻¹ y
        rows, y, self.rows, self.y = self.rows, self.y, [], []
        for row, value in zip(rows, y, strict=True):
            self._grow(row, value)

    def _cross(self, row: int) -> np.ndarray:
        squares = (self.pool - self.pool[row]) ** 2 @ np.exp(-2 * self.z[:, :-1]).T
        return np.exp(self.z[:, -1])[:, None] * np.exp(-0.5 * squares.T)

    def _grow(self, row: int, value: float) -> np.ndarray:
        """One more observation: its log density under each draw."""
        here = self.half[:, :, row]
        mean = np.sum(here * self.white, axis=1)
        var = np.maximum(np.exp(self.z[:, -1]) - np.sum(here**2, axis=1), 0.0) + self.noise
        root = np.sqrt(var)
        new = (self._cross(row) - np.einsum("sn,snm->sm", here, self.half)) / root[:, None]
        self.half = np.concatenate([self.half, new[:, None]], axis=1)
        self.white = np.concatenate([self.white, ((value - mean) / root)[:, None]], axis=1)
        self.rows.append(row)
        self.y.append(value)
        return -0.5 * ((value - mean) ** 2 / var + np.log(var))

    def tell(self, row: int, value: float) -> None:
        self.log_weights = self.log_weights + self._grow(row, value)
        if self.effective() < 0.5 * len(self.z):
            self._move()

    def effective(self) -> float:
        return float(1.0 / np.sum(self.weights() ** 2))

    def weights(self) -> np.ndarray:
        w = np.exp(self.log_weights - self.log_weights.max())
        return w / w.sum()

    def log_density(self, z: np.ndarray) -> np.ndarray:
        x, y = self.pool[self.rows], np.array(self.y)
        squares = ((x[:, None] - x[None]) ** 2).reshape(-1, x.shape[1]) @ np.exp(-2 * z[:, :-1]).T
        gram = (np.exp(z[:, -1]) * np.exp(-0.5 * squares)).T.reshape(len(z), len(y), len(y))
        gram = gram + (self.noise + 1e-9) * np.eye(len(y))
        try:
            factor = np.linalg.cholesky(gram)
        except np.linalg.LinAlgError:
            return np.full(len(z), -np.inf)
        white = np.linalg.solve(factor, np.broadcast_to(y[:, None], (len(z), len(y), 1)))[..., 0]
        log_det = 2 * np.sum(np.log(np.diagonal(factor, axis1=1, axis2=2)), axis=1)
        prior = -0.5 * np.sum(((z - self.centre) / self.spread) ** 2, axis=1)
        return prior - 0.5 * (np.sum(white**2, axis=1) + log_det)

    def _move(self, steps: int = 6) -> None:
        s, p = self.z.shape
        w = self.weights()
        mean = w @ self.z
        cov = (self.z - mean).T @ ((self.z - mean) * w[:, None]) + 1e-6 * np.eye(p)
        picks = np.searchsorted(np.cumsum(w), (np.arange(s) + self.rng.random()) / s).clip(0, s - 1)
        z, root = self.z[picks], np.linalg.cholesky(cov)
        here = self.log_density(z)
        for scale in np.resize([2.38 / np.sqrt(p), 0.6 / np.sqrt(p)], steps):
            there = z + scale * self.rng.standard_normal(z.shape) @ root.T
            value = self.log_density(there)
            taken = np.log(self.rng.random(s)) < value - here
            z, here = np.where(taken[:, None], there, z), np.where(taken, value, here)
        self.z, self.log_weights = z, np.zeros(s)
        self.best = z[int(np.argmax(here))]
        self._begin()

    def mixture(self) -> Mixture:
        means = np.einsum("sn,snm->sm", self.white, self.half)
        var = np.maximum(np.exp(self.z[:, -1])[:, None] - np.sum(self.half**2, axis=1), 0.0)
        return Mixture(self.weights(), means, var, np.full(len(self.z), self.noise))

    def most_probable(self) -> int:
        return int(np.argmax(self.log_density(self.z)))


@dataclass(frozen=True)
class EngineTask(LimitedTask):
    """Measurements of a real engine, their rows as the pool: what was measured is taken for the truth, noise and all."""

    x: np.ndarray = field(default_factory=lambda: np.zeros((0, 4)), repr=False)
    values: dict[str, np.ndarray] = field(default_factory=dict, repr=False)

    def truth(self, x: np.ndarray) -> dict[str, np.ndarray]:
        rows = cKDTree(self.x).query(x)[1]
        return {name: values[rows] for name, values in self.values.items()}

    def realise(self, seed: int, num_pool: int) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """A share of the rows, the four first of them near a safe one that chance picks."""
        rng = np.random.default_rng(seed)
        chosen = rng.permutation(len(self.x))[:num_pool]
        safe = np.flatnonzero(self.safe(self.x[chosen]))
        distance = np.linalg.norm(self.x[chosen] - self.x[chosen[rng.choice(safe)]], axis=1)
        first = sorted(safe, key=lambda i: distance[i])[: len(self.start)]
        order = chosen[[*first, *np.setdiff1d(np.arange(len(chosen)), first)]]
        return self.x[order], {name: values[order] for name, values in self.values.items()}


def engine(folder: Path, own: bool) -> EngineTask:
    """Engine 1 of the public Bosch data set: under its own limits, which all measured rows keep; or under the 85 % quantiles of
    two of its outputs, which a quarter of them break."""
    names, *rows = csv.reader((folder / "engine1.csv").open())
    table = dict(zip(names, np.array(rows, dtype=np.float64).T, strict=True))
    x = np.column_stack([table[name] for name in names[:4]])
    x = (x - x.min(axis=0)) / np.ptp(x, axis=0)
    hot = ("temperature_exhaust_manifold", "HC")
    limits = {name: (-np.inf, float(np.quantile(table[name], 0.85))) for name in hot}
    if own:
        head, _, above = csv.reader((folder / "engine1_limits.csv").open())
        upper = dict(zip(head[1:], (float(value) for value in above[1:]), strict=True))
        limits = {name: (-np.inf, upper[name]) for name in hot}
    values = {name: table[name] for name in ("specific_fuel_consumption", *hot)}
    functions: dict[str, Any] = dict.fromkeys(values)
    name = "engine-own" if own else "engine-tight"
    return EngineTask(name, "A gasoline engine, measured.", 4, functions, limits, np.zeros((4, 4)), 0.25, 0.1, x, values)


@dataclass
class Scale:
    loc: float
    size: float


def campaign(task: LimitedTask, method: str, seed: int, queries: int, pool_size: int, draws: int) -> dict[str, Any]:
    began = time.process_time()
    rng = np.random.default_rng(seed)
    pool, measured = task.realise(seed, pool_size)
    num = len(task.start)
    scales, models = {}, {}
    target = next(iter(task.outputs))
    watched = list(task.limits) if method != "entropy" else []
    for name in dict.fromkeys([target, *watched]):
        first = measured[name][:num]
        low, high = task.limits.get(name, (-np.inf, np.inf))
        gap = max([abs(bound - first.mean()) for bound in (low, high) if np.isfinite(bound)], default=0.0)
        scales[name] = Scale(float(first.mean()), float(max(first.std(), gap)))
        if name not in task.limits:  # the scale of what is learned matters to no limit: the truth's, for all methods alike
            scales[name] = Scale(float(measured[name].mean()), float(measured[name].std()))
        noise = (task.noise * float(measured[name].std()) / scales[name].size) ** 2
        models[name] = Draws(pool, noise, draws if name in watched else 32, rng)
    asked = list(range(num))
    for name, model in models.items():
        for row in asked:
            model.tell(row, (measured[name][row] - scales[name].loc) / scales[name].size)

    kept_all = np.all([(low <= measured[n]) & (measured[n] <= high) for n, (low, high) in task.limits.items()], axis=0)
    limits = {}
    for name in watched:
        low, high = ((bound - scales[name].loc) / scales[name].size for bound in task.limits[name])
        limits[name] = Limit(low, high)
    violations: list[bool] = []
    foreseen: list[float] = []
    stopped = None

    def chances() -> np.ndarray:
        if method == "limits":
            return all_hold([(models[n].mixture().noisy(), limits[n]) for n in watched])
        least = np.ones(len(pool))
        for n in watched:  # each for itself, with the most probable parameters
            model, i = models[n], models[n].most_probable()
            mix = model.mixture()
            std = np.sqrt(mix.variances[i] + model.noise)
            hold = ndtr((limits[n].high - mix.means[i]) / std) - ndtr((limits[n].low - mix.means[i]) / std)
            least = np.minimum(least, hold)
        return least

    for _ in range(queries):
        mix = models[target].mixture()
        mean = mix.weights @ mix.means
        score = mix.weights @ (mix.variances + (mix.means - mean) ** 2)  # a mixture's entropy by its moments
        left = np.setdiff1d(np.arange(len(pool)), asked)
        if watched:
            sure = chances()
            risk = held_risk(violations, RISK)[-1] if method == "limits" else RISK
            ended = np.array(asked)
            kept, broken = pool[ended[kept_all[ended]]], pool[ended[~kept_all[ended]]]
            admission = Admission(lambda rows: np.ones(len(rows)), RISK, risk, 0.0, kept, broken)  # `among` is told what is sure
            allowed = admission.among(pool[left], sure[left])
            if not allowed.any():
                stopped = len(violations)
                break
            left = left[allowed]
        row = int(left[np.argmax(score[left])])
        if watched:
            foreseen.append(float(sure[row]))
        violations.append(not kept_all[row])
        asked.append(row)
        for name, model in models.items():
            model.tell(row, (measured[name][row] - scales[name].loc) / scales[name].size)
    reachable = task.reachable(pool, pool[:num])
    mix = models[target].mixture()
    error = (mix.weights @ mix.means) * scales[target].size + scales[target].loc - task.truth(pool)[target]
    found = None
    if watched:
        found = float(np.mean(chances()[reachable] >= 1 - RISK))
    return {
        "task": task.name,
        "method": method,
        "seed": seed,
        "queries": len(violations),
        "violations": int(sum(violations)),
        "where": [i for i, one in enumerate(violations) if one],
        "foreseen": [round(foreseen[i], 5) for i, one in enumerate(violations) if one and foreseen],
        "safe_share": float(task.safe(pool).mean()),
        "reachable_share": float(reachable.mean()),
        "found": found,
        "rmse_safe": float(np.sqrt(np.mean(error[reachable] ** 2))) / scales[target].size,
        "stopped": stopped,
        "draws": min((model.effective() for name, model in models.items() if name in watched), default=None),
        "seconds": time.process_time() - began,
    }


def table(results: list[dict[str, Any]]) -> str:
    """Rates of violation with a one-sided 95 % bound, the share of the reachable that was found, and the error inside it."""
    lines = [
        "| task | method | seeds | queries | violations | rate, at most (95 %) | worst seed | found | RMSE inside |",
        "|---" * 9 + "|",
    ]
    for task in dict.fromkeys(one["task"] for one in results):
        for method in METHODS:
            own = [one for one in results if one["task"] == task and one["method"] == method]
            if not own:
                continue
            broke, num = sum(one["violations"] for one in own), sum(one["queries"] for one in own)
            bound = float(betaincinv(broke + 1, num - broke, 0.95)) if broke < num else 1.0
            worst = max(one["violations"] / max(one["queries"], 1) for one in own)
            found = [one["found"] for one in own if one["found"] is not None]
            cells = [task, method, str(len(own)), str(num), str(broke), f"{broke / num:.3f}, {bound:.3f}", f"{worst:.3f}"]
            cells += [f"{np.mean(found):.2f}" if found else "–", f"{np.median([one['rmse_safe'] for one in own]):.4f}"]
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", default=",".join(LIMITED))
    parser.add_argument("--engine", type=Path, help="a folder with engine1.csv; tasks may then be engine-own and engine-tight")
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--queries", type=int, default=40)
    parser.add_argument("--pool", type=int, default=400)
    parser.add_argument("--draws", type=int, default=128)
    parser.add_argument("--out", type=Path, default=Path("limits.jsonl"))
    args = parser.parse_args()
    known = [json.loads(line) for line in args.out.read_text().splitlines()] if args.out.exists() else []
    done = {(one["task"], one["method"], one["seed"]) for one in known}
    for seed in range(args.seeds):
        for name in args.tasks.split(","):
            for method in args.methods.split(","):
                if (name, method, seed) not in done:
                    task = engine(args.engine, name == "engine-own") if name.startswith("engine") else limited_task(name)
                    found = campaign(task, method, seed, args.queries, args.pool, args.draws)
                    known.append(found)
                    with args.out.open("a") as file:
                        file.write(json.dumps(found) + "\n")
    print(table(known))


if __name__ == "__main__":
    main()
