"""Tasks of real systems: properties of CO₂, the ignition of hydrogen, airfoils, a jet engine.

Each ships as a table in `data`, computed by a public package, so that a seed gives the same world on every machine. Where that
package is installed (`pip install 'hyperleaf[tasks]'`) it is also asked for the truth anywhere in the box, and `recompute` holds
the table against it. A system is a function of native inputs here, an entry in `SYSTEMS`, and a table with its inputs and output.
"""

from __future__ import annotations

import lzma
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from hyperleaf.bench.tasks.base import Array, Function, Task
from hyperleaf.data import Standardizer
from hyperleaf.domain import Axis, Domain, Real
from hyperleaf.errors import InputError

DATA = Path(__file__).parents[1] / "data"
NOISE = 0.01  # of the spread of the outputs


def co2_density(x: Array) -> Array:
    """kg/m³ over (K, MPa)."""
    from CoolProp.CoolProp import PropsSI

    return np.asarray(PropsSI("D", "T", x[:, 0], "P", x[:, 1] * 1e6, "CO2"))


def co2_heat_capacity(x: Array) -> Array:
    """log₁₀ of J/(kg·K) over (K, MPa)."""
    from CoolProp.CoolProp import PropsSI

    return np.log10(PropsSI("C", "T", x[:, 0], "P", x[:, 1] * 1e6, "CO2"))


def hydrogen_ignition(x: Array) -> Array:
    """log₁₀ of the seconds until H₂/O₂/Ar of (K, bar, equivalence ratio) is 400 K hotter; 1 where it is not within 10 s."""
    import cantera as ct

    gas = ct.Solution("h2o2.yaml")
    delays = np.ones(len(x))
    for i, (temperature, pressure, ratio) in enumerate(x):
        gas.set_equivalence_ratio(ratio, "H2", "O2:1, AR:3.76")
        gas.TP = temperature, pressure * 1e5
        reactor = ct.IdealGasReactor(gas, clone=False)
        net = ct.ReactorNet([reactor])
        while net.time < 10.0:
            net.step()
            if temperature + 400.0 < reactor.T:
                delays[i] = np.log10(net.time)
                break
    return delays


def airfoil(x: Array, output: str = "CL") -> Array:
    """A coefficient over (angle in degrees, Reynolds number), then, each with a default, camber, thickness, weight of the leading
    edge, thickness of the trailing edge, critical amplification and forced transition on the upper side.

    The airfoil has eight Kulfan weights on each side, 0.17 above and −0.15 below; the thickness multiplies, the camber adds.
    """
    from neuralfoil import get_aero_from_kulfan_parameters

    given = np.tile([0.0, 1e6, 0.0, 1.0, 0.3, 0.002, 9.0, 1.0], (len(x), 1))
    given[:, : x.shape[1]] = x
    values = np.empty(len(x))
    for i, (angle, reynolds, camber, thickness, leading, trailing, critical, transition) in enumerate(given):
        shape = {
            "upper_weights": np.full(8, 0.17 * thickness + camber),
            "lower_weights": np.full(8, -0.15 * thickness + camber),
            "leading_edge_weight": leading,
            "TE_thickness": trailing,
        }
        found = get_aero_from_kulfan_parameters(
            shape, alpha=angle, Re=reynolds, n_crit=critical, xtr_upper=transition, model_size="medium"
        )
        values[i] = np.ravel(found[output])[0]
    return values


def airfoil_drag(x: Array) -> Array:
    """ln of the drag coefficient."""
    return np.log(airfoil(x, "CD"))


@dataclass(frozen=True)
class System:
    """A real system: its table, and the function of a package that made it."""

    table: str
    title: str
    what: str
    domain: Domain
    package: str
    function: Function | None = None
    output: int = -1  # column of the table

    def task(self) -> Task:
        rows, values = self.read()
        scale = Standardizer.from_data(values)
        known = self.function if find_spec(self.package) is not None else None
        remedy = f", or install {self.package}, which computes it: pip install 'hyperleaf[tasks]'" if self.function else ""
        return Task(
            "", self.title, self.domain, 60, NOISE * scale.scale, self.what, scale, known, rows=rows, values=values, remedy=remedy
        )

    def read(self) -> tuple[Array, Array]:
        """Inputs (n, d) and output (n,) of the table."""
        with lzma.open(DATA / f"{self.table}.csv.xz", "rt", encoding="utf-8") as file:
            found = np.loadtxt(file, delimiter=",", skiprows=1)
        return found[:, : self.domain.num_axes], found[:, self.output]

    def recompute(self) -> Array:
        """The package's output less that of the table (n,), in units of the spread."""
        if self.function is None:
            raise InputError(f"the table {self.table!r} was taken over as it is; no package computes it. Choose another system.")
        rows, values = self.read()
        return (self.function(rows) - values) / values.std()


_REYNOLDS = Real(10**4.3, 1e7, log=True)
_FOIL: dict[str, Axis] = {"angle": Real(-5, 20, unit="deg"), "reynolds": _REYNOLDS}
_SHAPE: dict[str, Axis] = {"camber": Real(0, 0.12), "thickness": Real(0.6, 1.4)}
_MORE: dict[str, Axis] = {
    "leading_edge": Real(0, 0.6),
    "trailing_edge": Real(0, 0.01),
    "amplification": Real(3, 14),
    "transition": Real(0.05, 1),
}
_ENGINE = Domain(mach=Real(0, 0.9), altitude=Real(0, 15, unit="km"), throttle=Real(0, 1))
_LIFT = "Lift of an airfoil through stall, by NeuralFoil (MIT)"

SYSTEMS: dict[str, System] = {
    "co2": System(
        "co2",
        "CO₂ density",
        "Density (kg/m³) of CO₂ by CoolProp (MIT): a jump at the phase line that fades into a ridge above the critical point.",
        Domain(temperature=Real(270, 330, unit="K"), pressure=Real(2, 14, unit="MPa")),
        "CoolProp",
        co2_density,
    ),
    "co2-cp": System(
        "co2-cp",
        "CO₂ heat capacity",
        "log₁₀ heat capacity (J/kg/K) of supercritical CO₂ by CoolProp (MIT): a narrow ridge.",
        Domain(temperature=Real(310, 400, unit="K"), pressure=Real(5, 25, unit="MPa")),
        "CoolProp",
        co2_heat_capacity,
    ),
    "h2": System(
        "h2",
        "Hydrogen ignition",
        "log₁₀ ignition delay (s) of H₂/O₂/Ar at constant volume by Cantera (BSD-3): explosion limits, and a plateau beyond.",
        Domain(temperature=Real(750, 1200, unit="K"), pressure=Real(0.1, 100, log=True, unit="bar"), ratio=Real(0.3, 2.0)),
        "cantera",
        hydrogen_ignition,
    ),
    "foil-2d": System("foil-2d", "Airfoil lift 2-D", f"{_LIFT}.", Domain(_FOIL), "neuralfoil", airfoil),
    "foil-4d": System("foil-4d", "Airfoil lift 4-D", f"{_LIFT}; with its shape.", Domain(_FOIL | _SHAPE), "neuralfoil", airfoil),
    "foil-8d": System(
        "foil-8d",
        "Airfoil lift 8-D",
        f"{_LIFT}; with its shape, edges and transition.",
        Domain(_FOIL | _SHAPE | _MORE),
        "neuralfoil",
        airfoil,
    ),
    "foil-drag": System(
        "foil-drag",
        "Airfoil drag",
        "ln drag coefficient of an airfoil through stall, by NeuralFoil (MIT).",
        Domain(angle=Real(-10, 20, unit="deg"), reynolds=_REYNOLDS),
        "neuralfoil",
        airfoil_drag,
    ),
    "b777-thrust": System(
        "b777", "Jet engine: thrust", "Thrust (N) of a jet engine, from SMT (BSD-3), on a near-grid.", _ENGINE, "smt", output=3
    ),
    "b777-sfc": System(
        "b777", "Jet engine: consumption", "Specific fuel consumption (1/s) of a jet engine, from SMT (BSD-3).", _ENGINE, "smt"
    ),
}
