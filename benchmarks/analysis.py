"""Answers against truths, over many repetitions: how often intervals of Sobol indices cover them, and what the goals are worth.

Sobol: Ishigami and the G-function, learned from Latin hypercubes; the share of repetitions whose 95 % interval holds each index.
Contour: where a known function crosses a limit; share on the wrong side after campaigns of `contour`, `entropy`, random queries.
Usage: python -m benchmarks.analysis [--repetitions 100] [--runs 80] [--only sobol contour]
"""

import argparse
import time

import numpy as np

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


SYSTEMS = {
    "ishigami": (hl.Domain(**{name: hl.Real(-PI, PI) for name in "abc"}), ishigami, of_ishigami),
    "G": (hl.Domain(**{name: hl.Real(0, 1) for name in "abc"}), g_function, of_g_function),
}


def sobol(repetitions: int, runs: int) -> None:
    for name, (domain, function, truth) in SYSTEMS.items():
        first, total = truth()
        held = {("first", key): 0 for key in first} | {("total", key): 0 for key in total}
        started = time.process_time()
        for seed in range(repetitions):
            points = domain.design(runs, "lhs", seed)
            X = np.array([[p[key] for key in "abc"] for p in points])
            inference = hl.SMC(particles=32)
            model = hl.StationaryRegressor(domain=domain, noise="none", inference=inference, random_state=seed).fit(
                X, function(X)
            )
            found = model.sensitivity(samples=512, functions=64, seed=seed)
            for kind, index in held:
                one = getattr(found, kind)[index]
                held[kind, index] += one.low <= (first if kind == "first" else total)[index] <= one.high
        spent = time.process_time() - started
        shown = ", ".join(f"{kind} {index} {count}" for (kind, index), count in held.items())
        print(f"{name}, {runs} runs: of {repetitions} repetitions covered {shown} ({spent:.0f} s of CPU)", flush=True)


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
    parser.add_argument("--runs", type=int, default=80)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--only", nargs="+", choices=["sobol", "contour"], default=["sobol", "contour"])
    options = parser.parse_args()
    if "sobol" in options.only:
        sobol(options.repetitions, options.runs)
    if "contour" in options.only:
        contour(options.seeds)


if __name__ == "__main__":
    main()
