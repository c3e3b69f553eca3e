"""Answers against truths, over many repetitions: how often intervals of Sobol indices cover them, and what the goals are worth.

Sobol: Ishigami and the G-function, learned from Latin hypercubes; the share of repetitions whose 95 % interval holds each index.
Use: the Branin function from 40 runs: how often the 95 % intervals of propagation (mean, std, probability of failure), of the
share of the domain below a limit and of the smallest value hold what Monte Carlo on the function itself says, and what is lost
at the recommended point.
Contour: where a known function crosses a limit; share on the wrong side after campaigns of `contour`, `entropy`, random queries.
Usage: python -m benchmarks.analysis [--repetitions 100] [--runs 256] [--only sobol use contour]
"""

import argparse
import time

import numpy as np
from scipy import stats

import hyperleaf as hl
from hyperleaf.acquisition import Contour

PI = np.pi


def ishigami(x: np.ndarray) -> np.ndarray:
    return np.sin(x[:, 0]) + 7 * np.sin(x[:, 1]) ** 2 + 0.1 * x[:, 2] ** 4 * np.sin(x[:, 0])


def of_ishigami() -> tuple[dict[str, float], dict[str, float]]:
    whole = 49 / 8 + 0.1 * PI**4 / 5 + 0.01 * PI**8 / 18 + 0.5
    first = {"a": 0.5 * (1 + 0.1 * PI**4 / 5) ** 2 / whole, "b": 49 / 8 / whole, "c": 0.0}
    both = 0.01 * PI**8 * (1 / 18 - 1 / 50) / whole
    return first, {"a": first["a"] + both, "b": first["b"], "c": both}


A = np.array([0.0, 1.0, 4.5])


def g_function(x: np.ndarray) -> np.ndarray:
    return np.prod((np.abs(4 * x - 2) + A) / (1 + A), axis=1)


def of_g_function() -> tuple[dict[str, float], dict[str, float]]:
    parts = 1 / (3 * (1 + A) ** 2)
    whole = np.prod(1 + parts) - 1
    total = [parts[i] * np.prod(np.delete(1 + parts, i)) / whole for i in range(3)]
    return dict(zip("abc", parts / whole, strict=True)), dict(zip("abc", total, strict=True))


SYSTEMS = {  # the G-function has kinks
    "ishigami": (hl.Domain(**{name: hl.Real(-PI, PI) for name in "abc"}), ishigami, of_ishigami, "rbf"),
    "G": (hl.Domain(**{name: hl.Real(0, 1) for name in "abc"}), g_function, of_g_function, "matern32"),
}


def sobol(repetitions: int, runs: int) -> None:
    for name, (domain, function, truth, kernel) in SYSTEMS.items():
        first, total = truth()
        held = {("first", key): 0 for key in first} | {("total", key): 0 for key in total}
        started = time.process_time()
        for seed in range(repetitions):
            points = domain.design(runs, "lhs", seed)
            X = np.array([[p[key] for key in "abc"] for p in points])
            inference = hl.SMC(particles=32)
            model = hl.StationaryRegressor(kernel, domain=domain, noise="none", inference=inference, random_state=seed)
            model.fit(X, function(X))
            found = model.sensitivity(samples=512, functions=64, seed=seed)
            for kind, index in held:
                one = getattr(found, kind)[index]
                held[kind, index] += one.low <= (first if kind == "first" else total)[index] <= one.high
        spent = time.process_time() - started
        shown = ", ".join(f"{kind} {index} {count}" for (kind, index), count in held.items())
        print(f"{name}, {runs} runs: of {repetitions} repetitions covered {shown} ({spent:.0f} s of CPU)", flush=True)


def branin(x: np.ndarray) -> np.ndarray:
    a, b = x[:, 0], x[:, 1]
    bend = b - 5.1 / (4 * PI**2) * a**2 + 5 / PI * a - 6
    return bend**2 + 10 * (1 - 1 / (8 * PI)) * np.cos(a) + 10


def use(repetitions: int, runs: int = 40) -> None:
    domain = hl.Domain(a=hl.Real(-5, 10), b=hl.Real(0, 15))
    inputs, limit, fails, least = {"a": stats.norm(2.0, 1.0), "b": stats.norm(6.0, 1.5)}, 50.0, 40.0, 0.397887
    rng = np.random.default_rng(0)
    y = branin(np.stack([one.rvs(2_000_000, random_state=rng) for one in inputs.values()], axis=1))
    below = branin(rng.random((2_000_000, 2)) * 15 + [-5, 0]) < limit
    truth = {"mean": y.mean(), "std": y.std(), "failure": np.mean(y > fails), "share": below.mean(), "least": least}
    held, lost, apart = dict.fromkeys(truth, 0), [], []
    started = time.process_time()
    for seed in range(repetitions):
        X = np.array([list(p.values()) for p in domain.design(runs, "lhs", seed)])
        model = hl.StationaryRegressor(domain=domain, noise="none", inference=hl.SMC(particles=32), random_state=seed)
        model.fit(X, branin(X))
        out = model.propagate(inputs, above=fails, samples=2048, functions=64, seed=seed)
        best = model.optimum(minimize="y", candidates=512, functions=64, seed=seed)
        share = model.level_set(below=limit, samples=2048, functions=64, seed=seed).share
        found = {"mean": out.mean, "std": out.std, "failure": out.failure, "share": share, "least": best.value}
        for name, (_, low, high) in found.items():
            held[name] += low <= truth[name] <= high
        apart.append([abs(found[name][0] - truth[name]) for name in truth])
        lost.append(float(branin(np.array([list(best.recommended.point.values())]))[0]) - least)
    errors = dict(zip(truth, np.median(apart, axis=0), strict=True))
    for name, value in truth.items():
        covered = f"covered {held[name]} of {repetitions}, off by {errors[name]:.2g} (median)"
        print(f"Branin, {runs} runs, {name} = {value:.4g}: {covered}")
    spent = time.process_time() - started
    print(f"lost at the recommended point: median {np.median(lost):.2g}, most {max(lost):.2g} ({spent:.0f} s of CPU)", flush=True)


def contour(seeds: int, queries: int = 30) -> None:
    """Where a ridged cone is above a limit, on a grid of 100 by 100."""
    domain = hl.Domain(a=hl.Real(0, 1), b=hl.Real(0, 1))

    def cone(x: np.ndarray) -> np.ndarray:
        return np.exp(-4 * np.hypot(x[:, 0] - 0.5, x[:, 1] - 0.5)) + 0.3 * np.sin(9 * x[:, 0])

    level = 0.45
    grid = np.stack(np.meshgrid(np.linspace(0, 1, 100), np.linspace(0, 1, 100)), -1).reshape(-1, 2)
    inside = cone(grid) > level
    for name, criterion in (("contour", Contour(level)), ("entropy", "entropy"), ("random", "random")):
        errors = []
        for seed in range(seeds):
            X = np.array([list(p.values()) for p in domain.design(6, "lhs", seed)])
            model = hl.StationaryRegressor(domain=domain, noise="none", inference=hl.SMC(particles=16), random_state=seed)
            model.fit(X, cone(X))
            for query in range(queries - 6):
                (one,) = hl.suggest(model, acquisition=criterion, optimizer="lhs", seed=query)
                x = np.array([list(one.point.values())])
                model.partial_fit(x, cone(x))
            errors.append(float(np.mean((model.predict(grid) > level) != inside)))
        print(
            f"level set after {queries} runs, {name}: on the wrong side {100 * np.median(errors):.2f} % (median of {seeds})",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=100)
    parser.add_argument("--runs", type=int, default=256)
    parser.add_argument("--seeds", type=int, default=5)
    parts = ["sobol", "use", "contour"]
    parser.add_argument("--only", nargs="+", choices=parts, default=parts)
    options = parser.parse_args()
    if "sobol" in options.only:
        sobol(options.repetitions, options.runs)
    if "use" in options.only:
        use(options.repetitions)
    if "contour" in options.only:
        contour(options.seeds)


if __name__ == "__main__":
    main()
