"""Surrogates whose draws are not learned but given: priors' own draws, conditioned on data. Exact, quick, and of every form."""

from __future__ import annotations

import jax
import numpy as np

from hyperleaf.data import Dataset, Standardizer
from hyperleaf.domain import Choice, Domain, Integer, Real
from hyperleaf.gp import pad
from hyperleaf.kernels import Matern32, Matern52
from hyperleaf.parallel import over_draws
from hyperleaf.study.files import Model
from hyperleaf.surrogates.base import Diagnostics
from hyperleaf.surrogates.gp import GPPosterior, hhk_surrogate, stationary_surrogate
from hyperleaf.surrogates.gp.draws import draw_condition
from hyperleaf.surrogates.learned import Learned


def posterior_of(surrogate, data: Dataset, num: int, seed: int = 0) -> GPPosterior:
    """`num` draws of the prior, weighed at random, given data."""
    rng = np.random.default_rng(seed)
    with jax.enable_x64(True):
        z = surrogate.prior.sample_vectors(jax.random.key(seed), num)
        padded = pad(data)
        seen = over_draws(draw_condition, z, surrogate.prior, padded)
        log_weights = jax.numpy.log(jax.numpy.asarray(rng.dirichlet(np.full(num, 2.0))))
    return GPPosterior(surrogate, data, padded, z, log_weights, seen, Diagnostics("given", num, 0.0))


def model_of(
    domain: Domain, surrogate, function, *, n: int = 30, num: int = 6, name="lift", unit="kN", noise=None, seed=0
) -> Model:
    """A model of function(points) of dicts, over a design of the domain."""
    points = domain.design(n, "sobol", seed)
    y = np.array([function(point) for point in points])
    scale = Standardizer.from_data(y)
    known = None if noise is None else np.full(n, noise) / scale.scale**2
    data = Dataset(domain.to_unit(points), scale.transform(y), known)
    return Model(
        Learned(posterior_of(surrogate, data, num, seed), scale, y, None if noise is None else np.full(n, noise)),
        domain,
        name,
        unit,
    )


LINE = Domain(t=Real(-2.0, 3.0, unit="s"))
PLANE = Domain(mach=Real(0.2, 6.0), alpha=Real(0.01, 30.0, log=True, unit="deg"))
MIXED = Domain(speed=Real(0.0, 10.0), blades=Integer(2, 7), steel=Choice("soft", "hard", "glass"), load=Real(1.0, 5.0))
WIDE = Domain({f"x{i}": Real(0.0, 1.0) for i in range(5)} | {"count": Integer(1, 50, log=True)})


def _curve(p):
    return np.sin(3 * p["t"]) + p["t"]


def _shelf(p):
    return np.tanh(4 * (p["mach"] - 2)) + 0.1 * np.log(p["alpha"])


def _fan(p):
    return p["speed"] * p["blades"] / p["load"] * (1.5 if p["steel"] == "hard" else 1.0)


def _sum(p):
    return sum(p[f"x{i}"] * (i + 1) for i in range(5)) + np.sqrt(p["count"])


# One of each form that can be exported, by name: functions of the number of draws.
MODELS = {
    "line": lambda num: model_of(LINE, stationary_surrogate(1, Matern52), _curve, num=num),
    "plane": lambda num: model_of(PLANE, hhk_surrogate(2, 8, mean="linear"), _shelf, num=num, n=24),
    "mixed": lambda num: model_of(MIXED, hhk_surrogate(6, 4, mean="constant", weights="sqrt"), _fan, num=num, n=24),
    "loud": lambda num: model_of(PLANE, hhk_surrogate(2, 3, weights="sqrt", noise="per leaf"), _shelf, num=num, n=20),
    "wide": lambda num: model_of(WIDE, stationary_surrogate(6, noise="none", mean="linear"), _sum, num=num, n=48),
    "known": lambda num: model_of(LINE, stationary_surrogate(1, Matern32, noise="known"), _curve, num=num, noise=0.01),
    "eight": lambda num: model_of(WIDE, hhk_surrogate(6, 8, mean="linear"), _sum, num=num, n=48),
}


class Made:
    """Models made when they are first asked for: each compiles code of its own."""

    def __init__(self, num: int):
        self.num, self._made = num, {}

    def __getitem__(self, name: str) -> Model:
        if name not in self._made:
            self._made[name] = MODELS[name](self.num)
        return self._made[name]
