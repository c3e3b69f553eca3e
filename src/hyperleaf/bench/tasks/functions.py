"""Tasks of known functions: the paper's toy, stand-ins for what it measured or simulated, and test functions of the literature.

A task is a function here and a line in `FUNCTIONS` below; the command line, the campaigns and the tests find it there.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from hyperleaf.bench import truths
from hyperleaf.bench.tasks.base import Function, Task
from hyperleaf.data import Standardizer
from hyperleaf.domain import Axis, Choice, Domain, Integer, Real


def _analytic(
    function: Function, domain: Domain, title: str, description: str, *, noise: float | Function | None = None, **fields: Any
) -> Task:
    """A task of a known function; without a `noise` its standard deviation is 1 % of the spread of the outputs over the box."""
    if "standardizer" not in fields:
        box = domain.from_unit_array(domain.to_unit(domain.design(4096, "sobol", seed=0)))
        fields["standardizer"] = Standardizer.from_data(function(box))
    noise = 0.01 * fields["standardizer"].scale if noise is None else noise
    fields.setdefault("num_queries", 60)
    return Task("", title, domain, noise=noise, description=description, function=function, **fields)


def _cube(num_dims: int) -> Domain:
    return Domain({f"x{i + 1}": Real(0, 1) for i in range(num_dims)})


def _exponential() -> Task:
    domain, what = Domain(x1=Real(-2, 5), x2=Real(-2, 5)), "x₁ exp(−x₁² − x₂²): flat but for one corner. The paper's toy."
    return _analytic(truths.exponential, domain, "Exponential 2-D", what, standardizer=Standardizer.from_range(-0.4, 0.4))


def booster_box() -> Domain:
    return Domain(mach=Real(0, 6), alpha=Real(-5, 30, unit="deg"))


def _booster() -> Task:
    what = "A lift with a sharp ridge at mach 1 that fades with speed, on a grid; stands in for LGBB."
    parts = (0.1, 0.75, 7), (0.8, 1.28, 13), (1.35, 1.95, 7), (2.0, 6.0, 11)  # like the simulations denser about mach 1
    mach = np.concatenate([np.linspace(*part) for part in parts])
    grid = np.stack(np.meshgrid(mach, np.linspace(-5, 30, 19), indexing="ij"), axis=-1).reshape(-1, 2)
    return _analytic(truths.booster, booster_box(), "Booster-like lift", what, rows=grid, num_queries=120)


def _combustion() -> Task:
    what = "A noise (dB) that swings fast along a short delay and is smooth in all else; stands in for combustion engine noise."
    names, units = ("delay", "pilot", "rail", "air", "boost", "start"), ("ms", "mg", "bar", "mg", "hPa", "ms")
    axes: dict[str, Axis] = {
        name: Real(low, high, unit=unit) for name, unit, (low, high) in zip(names, units, truths.COMBUSTION_BOX, strict=True)
    }
    return _analytic(truths.combustion, Domain(axes), "Engine-noise-like 6-D", what, noise=0.1, num_queries=100)


def _oblique_2d() -> Task:
    what = "A plane and waves on either side of an oblique line."
    return _analytic(truths.oblique_2d, _cube(2), "Oblique regimes 2-D", what, gates=truths.OBLIQUE_2D)


def _oblique_4d() -> Task:
    what = "A plane, waves and a bowl, parted by two oblique hyperplanes."
    return _analytic(truths.oblique_4d, _cube(4), "Oblique regimes 4-D", what, gates=truths.OBLIQUE_4D)


def _curved() -> Task:
    return _analytic(truths.curved, _cube(2), "Curved border", "Waves inside a quarter of a disc, a gentle slope outside.")


def _jump() -> Task:
    return _analytic(truths.jump, _cube(2), "Jump", "A step of 1 across an oblique line, equally smooth on both sides.")


def _stationary() -> Task:
    draw = truths.StationaryDraw(num_dims=2, lengthscale=0.3, seed=2022)
    return _analytic(draw, _cube(2), "Stationary control", "A draw of a stationary GP with lengthscale 0.3 in the unit square.")


def _higdon() -> Task:
    what = "Waves up to 10, a line beyond."
    return _analytic(truths.higdon, Domain(x=Real(0, 20)), "Higdon 1-D", what, noise=0.1, num_queries=40)


def _gramacy_lee() -> Task:
    what = "sin(10πx)/(2x) + (x − 1)⁴: waves that fade into a steep rise."
    return _analytic(truths.gramacy_lee, Domain(x=Real(0.5, 2.5)), "Gramacy–Lee 1-D", what, noise=0.1, num_queries=40)


def _motorcycle() -> Task:
    what = "Acceleration (g) after an impact, with noise that grows fifteenfold meanwhile; stands in for the motorcycle data."
    domain = Domain(time=Real(2.4, 57.6, unit="ms"))
    return _analytic(truths.motorcycle, domain, "Motorcycle-like 1-D", what, noise=truths.motorcycle_noise)


def _mixed() -> Task:
    what = "Two of three fluids behave alike, the third does not; a whole number shifts the waves. For inputs of every kind."
    fluid = Choice("water", "glycol", "air")
    domain = Domain(flow=Real(0, 1), gap=Real(0, 1), blades=Integer(2, 7), fluid=fluid)
    return _analytic(truths.mixed, domain, "Mixed inputs", what)


def _of_box(what: tuple[Function, dict[str, tuple[float, float]], str, str], size: int | None = None) -> Task:
    """A function of the literature over its usual box, its title and what it is; with a `size` a static design of so many."""
    function, box, title, words = what
    domain = Domain({name: Real(low, high) for name, (low, high) in box.items()})
    if size is None:
        return _analytic(function, domain, title, words)
    words += f" Static: a Latin hypercube of {size} points, fitted once."
    return _analytic(function, domain, f"{title}, {size} points", words, num_first=size, num_queries=0)


_CUBE_10 = {f"x{i + 1}": (0.0, 1.0) for i in range(10)}
_CUBE_20 = {f"x{i + 1}": (-0.5, 0.5) for i in range(20)}
_BOREHOLE = truths.borehole, truths.BOREHOLE_BOX, "Borehole 8-D", "Water through a borehole (m³ a year)."
_WING = truths.wing_weight, truths.WING_BOX, "Wing weight 10-D", "Weight (lb) of a light aircraft's wing."
_FRIEDMAN = truths.friedman, _CUBE_10, "Friedman 10-D", "Waves, a bowl and slopes in five inputs; five do nothing."
_WELCH = truths.welch, _CUBE_20, "Welch 20-D", "Strong and weak inputs, interactions, and two inputs that do nothing."

FUNCTIONS: dict[str, Callable[[], Task]] = {
    "exponential": _exponential,
    "booster": _booster,
    "combustion": _combustion,
    "oblique-2d": _oblique_2d,
    "oblique-4d": _oblique_4d,
    "curved": _curved,
    "jump": _jump,
    "stationary": _stationary,
    "higdon": _higdon,
    "gramacy-lee": _gramacy_lee,
    "motorcycle": _motorcycle,
    "mixed": _mixed,
    "borehole": partial(_of_box, _BOREHOLE),
    "wing-weight": partial(_of_box, _WING),
    "friedman": partial(_of_box, _FRIEDMAN),
    "welch": partial(_of_box, _WELCH),
    "borehole-40": partial(_of_box, _BOREHOLE, 40),
    "wing-weight-50": partial(_of_box, _WING, 50),
    "friedman-50": partial(_of_box, _FRIEDMAN, 50),
    "welch-60": partial(_of_box, _WELCH, 60),
}
