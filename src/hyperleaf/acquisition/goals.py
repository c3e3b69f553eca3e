"""Criteria for those who want one thing of the surrogate and not all of it: where it crosses a limit, or where it is best.

A campaign may begin with a criterion that learns everything and switch to one of these; what it then knows elsewhere stays poor.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jax.scipy import special as traced_special
from numpy.typing import NDArray
from scipy import special

from hyperleaf.acquisition.base import Acquisition
from hyperleaf.acquisition.belief import Belief, is_traced
from hyperleaf.acquisition.criteria import ACQUISITIONS, as_acquisition
from hyperleaf.errors import InputError
from hyperleaf.mixture import Mixture
from hyperleaf.surrogates.base import FLOOR

_WIDTH = 2.0  # of the band about a limit, in standard deviations of f
_FAR = 50.0  # standard deviations below the best from which on a series serves
_HALF_LOG_2PI = float(0.5 * np.log(2.0 * np.pi))


@dataclass(frozen=True)
class Contour(Acquisition):
    """Where f crosses `level`, in native units: E max(2 std − |f − level|, 0), Bichon's expected feasibility, in the mixture.

    Large where the limit is near and the doubt is large. Without a level the mean of the outputs so far is meant.
    """

    label: ClassVar[str] = "expected feasibility"

    level: float | None = None

    def __post_init__(self) -> None:
        if self.level is not None and (isinstance(self.level, bool) or not np.isfinite(self.level)):
            raise InputError(f"level must be a finite number in the units of the output; got {self.level!r}.")

    def measure(self, belief: Belief, x: Any, key: Any = None) -> Any:
        mixture = belief.predict(x)
        library, functions, std, total = _parts(mixture, x)
        limit = _level(belief, self.level)
        width = _WIDTH * total
        found = 0.0
        for end, share in ((limit, -2.0), (limit - width, 1.0), (limit + width, 1.0)):
            z = (end - mixture.means) / std
            # E max(end − f, 0), of which the tent about the limit is three.
            found = found + share * ((end - mixture.means) * functions.ndtr(z) + std * _phi(z, library))
        return mixture.weights @ found


@dataclass(frozen=True)
class ExpectedImprovement(Acquisition):
    """ln E max(f − best, 0) in the mixture, or of best − f with `minimize`; best is the best mean at what was observed.

    The logarithm keeps its slope where the improvement itself is too small for a float (Ament et al., 2023).
    """

    label: ClassVar[str] = "log expected improvement"

    minimize: bool = False

    def measure(self, belief: Belief, x: Any, key: Any = None) -> Any:
        mixture = belief.predict(x)
        library, functions, std, _ = _parts(mixture, x)
        sign = -1.0 if self.minimize else 1.0
        seen = belief.posterior.predict(belief.data.x)
        best = float(np.max(sign * (np.asarray(seen.weights) @ np.asarray(seen.means))))
        z = (sign * mixture.means - best) / std
        near = library.maximum(z, -_FAR)
        ratio = library.exp(functions.log_ndtr(near) + 0.5 * near * near + _HALF_LOG_2PI)  # Φ/φ
        close = library.log(library.maximum(1.0 + near * ratio, 1e-12))
        far = library.minimum(z, -1.0)
        tail = library.where(z > -_FAR, close, -2.0 * library.log(-far))
        logs = library.log(std) - 0.5 * z * z - _HALF_LOG_2PI + tail
        # ln Σ w exp(logs), of draws that have a weight at all.
        shares = library.log(library.maximum(mixture.weights, 1e-300))[:, None] + logs
        top = library.max(shares, axis=0)
        return top + library.log(library.sum(library.exp(shares - top), axis=0))


def _parts(mixture: Mixture, x: Any) -> tuple[Any, Any, Any, Any]:
    """The library to compute with and its special functions, the std of each draw (s, m) and of the mixture (m,)."""
    library: Any = jnp if is_traced(x) else np
    functions: Any = traced_special if is_traced(x) else _NumPy
    variances = library.maximum(mixture.variances, FLOOR)
    mean = mixture.weights @ mixture.means
    total = mixture.weights @ (variances + (mixture.means - mean) ** 2)
    return library, functions, library.sqrt(variances), library.sqrt(total)


class _NumPy:
    """As jax.scipy.special has them."""

    log_ndtr = staticmethod(special.log_ndtr)

    @staticmethod
    def ndtr(z: Any) -> NDArray[np.float64]:
        return special.ndtr(z)


def _phi(z: Any, library: Any) -> Any:
    return library.exp(-0.5 * z * z - _HALF_LOG_2PI)


def _level(belief: Belief, level: float | None) -> float:
    """A level in native units as the posterior has it; of a bare posterior units are its own."""
    if level is None:
        return float(np.mean(belief.data.y)) if len(belief.data.y) else 0.0
    return float(level if belief.scale is None else belief.scale.transform(level))


ACQUISITIONS |= {"contour": Contour, "optimum": ExpectedImprovement}


def as_goal(kind: str, level: float | None = None, minimize: bool = False) -> Acquisition:
    """The criterion of that name with the settings of a goal, which no other criterion has."""
    if level is not None and kind != "contour":
        raise InputError(f'a level belongs to the acquisition "contour"; got level = {level:g} with {kind!r}. Leave it out.')
    if minimize and kind != "optimum":
        raise InputError(f'minimize belongs to the acquisition "optimum"; got it with {kind!r}. Leave it out.')
    if kind == "contour":
        return Contour(level)
    return ExpectedImprovement(minimize) if kind == "optimum" else as_acquisition(kind)
