"""Functions whose every value is known: the paper's toy, and stand-ins for what it measured or simulated.

Each takes an (n, d) array in native units and returns (n,). Those with regimes are built of gates in the unit cube, which are
the ground truth of a partition: a gate is σ(steepness·(offset + normalᵀu)) with |normal| = 1, so that its border is the
hyperplane offset + normalᵀu = 0 and 4/steepness is about the width over which one regime gives way to the other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

Values = NDArray[np.float64]


@dataclass(frozen=True)
class KnownGate:
    """A gate of a known partition, in the unit cube."""

    normal: tuple[float, ...]
    offset: float
    steepness: float

    def weight(self, u: Values) -> Values:
        """σ(steepness·(offset + normalᵀu)), (n,): the weight of the regime on the side to which the normal points."""
        return expit(self.steepness * (self.offset + u @ np.array(self.normal)))


def _gate(direction: tuple[float, ...], through: tuple[float, ...], steepness: float) -> KnownGate:
    """The gate across `direction` whose border goes through the point `through`."""
    normal = np.array(direction) / math.hypot(*direction)
    return KnownGate(tuple(normal.tolist()), float(-normal @ np.array(through)), steepness)


OBLIQUE_2D = (_gate((0.8, 0.6), (0.5, 0.5), 25.0),)
OBLIQUE_4D = (_gate((1.0, 0.8, 0.5, 0.0), (0.5, 0.5, 0.5, 0.5), 25.0), _gate((0.0, -0.6, 1.0, 0.7), (0.5, 0.5, 0.5, 0.5), 25.0))
COMBUSTION_BOX = ((0.2, 3.0), (0.5, 4.0), (300.0, 1200.0), (250.0, 800.0), (950.0, 1900.0), (-4.0, 8.0))


def exponential(x: Values) -> Values:
    """x₁ exp(−x₁² − x₂²), the paper's Exponential 2-D."""
    return x[:, 0] * np.exp(-np.sum(x**2, axis=1))


def booster(x: Values) -> Values:
    """A lift over (mach, alpha): with t = (alpha + 5)/35 and s = σ((mach − 1)/0.04),

        lift = 0.025·alpha + 1.2·t²·s·exp(−(mach − 1)/0.8) + 0.25·(1 − s)·t·sin(π(1.5·t + mach)).

    A ridge rises at mach 1 within 0.2 mach, the higher the steeper the angle, and fades with speed; to the right of it the
    surface is almost linear, and below mach 1 another regime reigns.
    """
    mach, alpha = x[:, 0], x[:, 1]
    t, supersonic = (alpha + 5.0) / 35.0, expit((mach - 1.0) / 0.04)
    ridge = 1.2 * t**2 * supersonic * np.exp(-(mach - 1.0) / 0.8)
    return 0.025 * alpha + ridge + 0.25 * (1.0 - supersonic) * t * np.sin(np.pi * (1.5 * t + mach))


def combustion(x: Values) -> Values:
    """A noise in dB over (delay, pilot, rail, air, boost, start): in unit coordinates u of the box that `tasks` gives it,

        82 + 9·exp(−5u₁)·cos(12u₁ + 1.5u₂ + u₃) + 2u₃ + u₄·u₅ − 1.5·u₂·(1 − u₁) + 0.8·sin(2u₆).

    It swings fast along the delay where the delay is short, and is smooth elsewhere and in all else.
    """
    low, high = np.array(COMBUSTION_BOX).T
    u = ((x - low) / (high - low)).T
    swing = 9.0 * np.exp(-5.0 * u[0]) * np.cos(12.0 * u[0] + 1.5 * u[1] + u[2])
    return 82.0 + swing + 2.0 * u[2] + u[3] * u[4] - 1.5 * u[1] * (1.0 - u[0]) + 0.8 * np.sin(2.0 * u[5])


def oblique_2d(u: Values) -> Values:
    """Two regimes on either side of an oblique line: a plane, and waves sin(12u₁)·cos(9u₂)."""
    weight = OBLIQUE_2D[0].weight(u)
    return (1.0 - weight) * (0.3 * u[:, 0] - 0.2 * u[:, 1]) + weight * np.sin(12.0 * u[:, 0]) * np.cos(9.0 * u[:, 1])


def oblique_4d(u: Values) -> Values:
    """Three regimes: a plane before the first gate; behind it, the second parts waves in u₁ and u₂ from a bowl in u₃ and u₄."""
    first, second = (gate.weight(u) for gate in OBLIQUE_4D)
    plane = 0.3 * u[:, 0] - 0.2 * u[:, 2]
    waves = np.sin(9.0 * u[:, 0]) + 0.5 * np.cos(7.0 * u[:, 1])
    bowl = 1.0 - 2.0 * (u[:, 2] - 0.6) ** 2 - 2.0 * (u[:, 3] - 0.4) ** 2
    return (1.0 - first) * plane + first * ((1.0 - second) * waves + second * bowl)


def curved(u: Values) -> Values:
    """Waves inside a quarter disc of radius 0.6 about the corner (0, 0), a gentle slope outside: no hyperplane parts them."""
    weight = expit(25.0 * (0.6 - np.hypot(u[:, 0], u[:, 1])))
    return weight * np.sin(12.0 * u[:, 0] + 5.0 * u[:, 1]) + (1.0 - weight) * 0.3 * (u[:, 0] - u[:, 1])


def jump(u: Values) -> Values:
    """A smooth surface that steps up by 1 where 0.9u₁ + 0.4u₂ > 0.65: discontinuous, and equally smooth on both sides."""
    return 0.5 * np.sin(3.0 * u[:, 0] + 2.0 * u[:, 1]) + (0.9 * u[:, 0] + 0.4 * u[:, 1] > 0.65)


@dataclass(frozen=True)
class StationaryDraw:
    """√(2/r) Σ_i cos(ω_iᵀu + b_i), ω_i ~ N(0, I/lengthscale²), b_i uniform: with r large a draw of a squared-exponential GP."""

    num_dims: int
    lengthscale: float
    seed: int
    num_features: int = 1000

    def __call__(self, u: Values) -> Values:
        rng = np.random.default_rng(self.seed)
        frequencies = rng.standard_normal((self.num_dims, self.num_features)) / self.lengthscale
        phases = rng.uniform(0.0, 2.0 * np.pi, self.num_features)
        return math.sqrt(2.0 / self.num_features) * np.cos(u @ frequencies + phases).sum(axis=1)


def higdon(x: Values) -> Values:
    """sin(πx/5) + cos(4πx/5)/5 up to 10, x/10 − 1 beyond: Higdon's waves with Gramacy and Lee's line, on [0, 20]."""
    t = x[:, 0]
    return np.where(t < 10.0, np.sin(np.pi * t / 5.0) + 0.2 * np.cos(4.0 * np.pi * t / 5.0), t / 10.0 - 1.0)


def gramacy_lee(x: Values) -> Values:
    """sin(10πx)/(2x) + (x − 1)⁴ on [0.5, 2.5]."""
    t = x[:, 0]
    return np.sin(10.0 * np.pi * t) / (2.0 * t) + (t - 1.0) ** 4


def motorcycle(x: Values) -> Values:
    """The acceleration (g) of a helmet over the time (ms) after an impact, alike to the classic data: at rest, a deep dip at
    21 ms, an overshoot at 32 ms, and rest again."""
    t = x[:, 0]
    return -125.0 * np.exp(-0.5 * ((t - 21.0) / 3.6) ** 2) + 45.0 * np.exp(-0.5 * ((t - 32.0) / 4.0) ** 2)


def motorcycle_noise(x: Values) -> Values:
    """The standard deviation of the noise of `motorcycle`: 1.5 before the impact shows, 22 while it lasts, 10 afterwards."""
    t = x[:, 0]
    return 1.5 + 20.5 * expit((t - 15.0) / 0.8) - 12.0 * expit((t - 40.0) / 2.0)
