"""Functions whose every value is known: the paper's toy, and stand-ins for what it measured or simulated.

Each takes an (n, d) array in native units and returns (n,). Those with regimes are built of gates in the unit cube, which are
the ground truth of a partition: a gate is σ(steepness·(offset + normalᵀu)) with |normal| = 1, so that its border is the
hyperplane offset + normalᵀu = 0 and 4/steepness is about the width over which one regime gives way to the other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

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


# --- test functions of the literature

BOREHOLE_BOX = {
    "rw": (0.05, 0.15),
    "r": (100.0, 50_000.0),
    "Tu": (63_070.0, 115_600.0),
    "Hu": (990.0, 1110.0),
    "Tl": (63.1, 116.0),
    "Hl": (700.0, 820.0),
    "L": (1120.0, 1680.0),
    "Kw": (9855.0, 12_045.0),
}
WING_BOX = {
    "Sw": (150.0, 200.0),
    "Wfw": (220.0, 300.0),
    "A": (6.0, 10.0),
    "sweep": (-10.0, 10.0),
    "q": (16.0, 45.0),
    "taper": (0.5, 1.0),
    "tc": (0.08, 0.18),
    "Nz": (2.5, 6.0),
    "Wdg": (1700.0, 2500.0),
    "Wp": (0.025, 0.08),
}


def borehole(x: Values) -> Values:
    """2πTu(Hu − Hl) / (ln(r/rw)·(1 + 2L·Tu/(ln(r/rw)·rw²·Kw) + Tu/Tl)) (Morris, Mitchell and Ylvisaker 1993)."""
    rw, r, tu, hu, tl, hl, length, kw = x.T
    ratio = np.log(r / rw)
    return 2.0 * np.pi * tu * (hu - hl) / (ratio * (1.0 + 2.0 * length * tu / (ratio * rw**2 * kw) + tu / tl))


def wing_weight(x: Values) -> Values:
    """The weight of a light aircraft's wing (Forrester, Sóbester and Keane 2008); the sweep is in degrees."""
    sw, wfw, a, sweep, q, taper, tc, nz, wdg, wp = x.T
    turned = np.cos(np.deg2rad(sweep))
    planform = sw**0.758 * wfw**0.0035 * (a / turned**2) ** 0.6 * q**0.006 * taper**0.04
    return 0.036 * planform * (100.0 * tc / turned) ** -0.3 * (nz * wdg) ** 0.49 + sw * wp


def friedman(u: Values) -> Values:
    """10 sin(πu₁u₂) + 20(u₃ − ½)² + 10u₄ + 5u₅; the other five inputs do nothing (Friedman 1991)."""
    return 10.0 * np.sin(np.pi * u[:, 0] * u[:, 1]) + 20.0 * (u[:, 2] - 0.5) ** 2 + 10.0 * u[:, 3] + 5.0 * u[:, 4]


def welch(x: Values) -> Values:
    """Welch et al. 1992, on [−½, ½]²⁰: x₈ and x₁₆ do nothing."""
    _, x1, x2, x3, x4, x5, x6, x7, _, x9, x10, x11, x12, x13, x14, x15, _, x17, x18, x19, x20 = (None, *x.T)
    strong = 5.0 * x12 / (1.0 + x1) + 5.0 * (x4 - x20) ** 2 + x5 + 40.0 * x19**3 - 5.0 * x19
    weak = 0.05 * x2 + 0.08 * x3 - 0.03 * x6 + 0.03 * x7 - 0.09 * x9 - 0.01 * x10 - 0.07 * x11
    return strong + weak + 0.25 * x13**2 - 0.04 * x14 + 0.06 * x15 - 0.01 * x17 - 0.03 * x18


def mixed(x: Any) -> Values:
    """Over (flow, gap, blades, fluid), where blades is a whole number and fluid a word: waves along the flow that the number
    of blades shifts; in glycol the same, damped and higher; in air a bowl of the gap that leans with the blades."""
    flow, gap, blades = (np.asarray(x[:, i], dtype=np.float64) for i in range(3))
    waves = np.sin(7.0 * flow + 0.5 * blades) + gap
    bowl = 3.0 * (gap - 0.4) ** 2 + 0.15 * blades * flow
    return np.select([x[:, 3] == "water", x[:, 3] == "glycol"], [waves, 0.7 * waves + 0.4], bowl)
