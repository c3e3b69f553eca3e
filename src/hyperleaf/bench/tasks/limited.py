"""Tasks with limits and known truth: functions of the unit box, what they must keep to, and safe points to begin with.

They ask another question than the tasks of the comparison: not how soon the error falls, but how often a limit is broken on the
way, and how much of what can be reached safely is found. A task is a function here and a line in `LIMITED`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from hyperleaf.checks import one_of
from hyperleaf.domain import Domain, Real

Array = NDArray[np.float64]


@dataclass(frozen=True)
class LimitedTask:
    """`outputs` are functions of rows of the unit box (n, d); the first is to be learned, all named in `limits` keep to (low,
    high). `start` are safe rows. `step` is how far apart two neighbours of a pool may be for one to be reached from the other."""

    name: str
    description: str
    num_dims: int
    outputs: Mapping[str, Callable[[Array], Array]] = field(repr=False)
    limits: Mapping[str, tuple[float, float]]
    start: Array = field(repr=False)
    step: float
    noise: float = 0.01  # standard deviation of all outputs, times their spread over the box

    @property
    def domain(self) -> Domain:
        return Domain({f"x{i + 1}": Real(0, 1) for i in range(self.num_dims)})

    def truth(self, x: Array) -> dict[str, Array]:
        """All outputs (n,) without noise."""
        return {name: np.asarray(function(x), dtype=np.float64) for name, function in self.outputs.items()}

    def safe(self, x: Array) -> NDArray[np.bool_]:
        """Which rows keep all limits, noise aside."""
        values = self.truth(x)
        return np.all([(low <= values[name]) & (values[name] <= high) for name, (low, high) in self.limits.items()], axis=0)

    def reachable(self, x: Array, start: Array | None = None) -> NDArray[np.bool_]:
        """Which of these rows are safe and can be reached from the start by steps among safe rows."""
        start = self.start if start is None else start
        safe = self.safe(x)
        rows = np.flatnonzero(safe)
        tree, seen = cKDTree(x[rows]), np.zeros(len(rows), dtype=bool)
        front = {int(i) for found in tree.query_ball_point(start, self.step) for i in found}
        while front:
            seen[list(front)] = True
            front = {int(i) for found in tree.query_ball_point(x[rows[list(front)]], self.step) for i in found if not seen[i]}
        reached = np.zeros(len(x), dtype=bool)
        reached[rows[seen]] = True
        return reached

    def realise(self, seed: int, num_pool: int) -> tuple[Array, dict[str, Array]]:
        """A pool whose first rows are the start, and what measuring each row gives; the start is safe as measured too."""
        rng = np.random.default_rng([seed, len(self.name), *self.name.encode()])
        x = np.concatenate([self.start, rng.random((num_pool - len(self.start), self.num_dims))])
        measured = {}
        for name, values in self.truth(x).items():
            std = self.noise * float(np.std(self.outputs[name](np.random.default_rng(0).random((4096, self.num_dims)))))
            measured[name] = values + std * rng.standard_normal(len(x))
        return x, measured


def _near(corner: list[float], width: float) -> Array:
    """Four points close to a place: where a person would begin."""
    shifts = np.array([[0, 0], [1, 0], [0, 1], [1, 1]], dtype=np.float64)
    start = np.tile(np.asarray(corner), (4, 1))
    start[:, :2] += width * shifts
    return start


def _two_limits() -> LimitedTask:
    def temperature(x: Array) -> Array:
        hot = np.exp(-((x[:, 0] - 0.85) ** 2 + (x[:, 1] - 0.8) ** 2) / 0.08)
        return 600 + 150 * x[:, 1] + 500 * hot

    return LimitedTask(
        "two-limits",
        "2-D, smooth: a hot spot and a pressure that rises towards the other corner.",
        2,
        {
            "y": lambda x: np.sin(6 * x[:, 0]) * np.cos(4 * x[:, 1]) + x[:, 0],
            "temperature": temperature,
            "pressure": lambda x: 5 + 6 * x[:, 0] + 4 * x[:, 0] * (1 - x[:, 1]),
        },
        {"temperature": (-np.inf, 900.0), "pressure": (-np.inf, 12.0)},
        _near([0.1, 0.1], 0.1),
        0.15,
    )


def _oblique() -> LimitedTask:
    def knock(x: Array) -> Array:
        beyond = 2 * x[:, 0] + x[:, 1] - 1.9
        return 0.2 * np.sin(3 * x[:, 1]) + 2.0 / (1 + np.exp(-12 * beyond))

    return LimitedTask(
        "oblique",
        "2-D: flat on one side of an oblique border, and beyond it a steep rise past the limit.",
        2,
        {"y": lambda x: np.cos(5 * x[:, 0]) * x[:, 1] + 1.5 * np.tanh(6 * (2 * x[:, 0] + x[:, 1] - 1.5)), "knock": knock},
        {"knock": (-np.inf, 1.0)},
        _near([0.1, 0.2], 0.1),
        0.15,
    )


def _six() -> LimitedTask:
    return LimitedTask(
        "six",
        "6-D: one limit on a sum of effects, one on an interaction.",
        6,
        {
            "y": lambda x: np.sin(3 * x[:, 0] + x[:, 1]) + x[:, 2] * x[:, 3] + 0.5 * x[:, 4],
            "temperature": lambda x: 300 * x[:, 0] + 200 * x[:, 1] ** 2 + 100 * x[:, 2] + 50 * x[:, 5],
            "force": lambda x: 4 * x[:, 1] * x[:, 3] + 2 * x[:, 4],
        },
        {"temperature": (-np.inf, 420.0), "force": (-np.inf, 3.5)},
        _near([0.2, 0.2, 0.3, 0.3, 0.3, 0.3], 0.1),
        0.5,
    )


def _jump() -> LimitedTask:
    return LimitedTask(
        "jump",
        "2-D: nothing to be seen, and then a jump past the limit that a smooth prior calls impossible.",
        2,
        {
            "y": lambda x: np.sin(5 * x[:, 0]) + x[:, 1],
            "crack": lambda x: 0.3 * np.sin(4 * x[:, 0]) * x[:, 1] + 5.0 * (x[:, 0] + 0.5 * x[:, 1] > 0.8),
        },
        {"crack": (-np.inf, 1.0)},
        _near([0.1, 0.1], 0.1),
        0.15,
    )


LIMITED: dict[str, Callable[[], LimitedTask]] = {
    "two-limits": _two_limits,
    "oblique": _oblique,
    "six": _six,
    "jump": _jump,
}


def limited_task(name: str) -> LimitedTask:
    """The task of this name."""
    return LIMITED[one_of("task", name, tuple(LIMITED))]()
