"""Functions drawn from a posterior that can be evaluated anywhere, any number of times, without a covariance between the places.

By Matheron's rule a draw of the prior becomes one of the posterior: f = f₀ + k(·, X) K⁻¹(y − f₀(X) − ε). The prior draw is a sum
of random Fourier features for each leaf, weighed by the leaf's own weights, with the trend beside it; where data say something
the correction is exact, and the features matter only far from them (Wilson et al., 2020). Functions of the same draw share
features, so that there is one matrix product for all of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from hyperleaf.errors import InputError
from hyperleaf.exports.ingredients import Part, Values, part_of
from hyperleaf.exports.numerics import cross, mixing

if TYPE_CHECKING:
    from hyperleaf.study.files import Model

FEATURES = 256  # pairs of cosine and sine for each leaf
DRAWS = 32  # different draws of the parameters at most
ROWS = 4096  # points at a time
_FREEDOM = {"matern12": 1.0, "matern32": 3.0, "matern52": 5.0}


class Functions(ABC):
    """Several functions of the unit cube, in native units."""

    count: int
    messages: tuple[str, ...] = ()

    @abstractmethod
    def groups(self) -> Iterator[tuple[Any, Any]]:
        """Indices of functions that are evaluated together, and what evaluates them: unit points (m, d) to (indices, m)."""

    def __call__(self, unit: Values) -> Values:
        """All functions (count, m) at points (m, d)."""
        found = np.empty((self.count, len(unit)))
        for which, evaluate in self.groups():
            found[which] = evaluate(unit)
        return found


def functions_of(model: Model, count: int, seed: int) -> Functions:
    """`count` functions of what was learned. Of a surrogate of another form than that of `ingredients` the means of its draws."""
    try:
        part = part_of(model)
    except InputError:
        return MeansOfDraws(model, count, seed)
    return Pathwise(part, count, seed)


class Pathwise(Functions):
    def __init__(self, part: Part, count: int, seed: int) -> None:
        self.part, self.count = part, count
        rng = np.random.default_rng(seed)
        distinct = min(DRAWS, count)
        picks = np.searchsorted(np.cumsum(part.weights), (np.arange(distinct) + rng.random(distinct)) / distinct)
        self._picks = np.minimum(picks, len(part.weights) - 1)
        self._rng = rng
        self._made = [self._make(int(draw), len(range(k, count, distinct))) for k, draw in enumerate(self._picks)]

    def _make(self, draw: int, number: int) -> _Paths:
        return _Paths(self.part, draw, number, self._rng)

    def groups(self) -> Iterator[tuple[Any, Any]]:
        for k, paths in enumerate(self._made):
            yield np.arange(k, self.count, len(self._made)), paths


class _Paths:
    """Functions of one draw of the parameters."""

    def __init__(self, part: Part, draw: int, number: int, rng: np.random.Generator) -> None:
        from scipy.linalg import solve_triangular

        self.part, self.draw = part, draw
        _, n, d, leaves, _ = part.shape
        self.active = [j for j in range(leaves) if part.variance[draw, j] > 0]
        frequencies = rng.standard_normal((len(self.active), FEATURES, d))
        if part.profile in _FREEDOM:  # the spectral density of a Matérn is that of Student's t
            freedom = _FREEDOM[part.profile]
            frequencies *= np.sqrt(freedom / rng.chisquare(freedom, (len(self.active), FEATURES, 1)))
        self.frequencies = frequencies / part.lengthscale[draw, self.active][:, None, :]
        scale = np.sqrt(part.variance[draw, self.active] / FEATURES)
        self.coefficients = rng.standard_normal((len(self.active), 2 * FEATURES, number)) * scale[:, None, None]
        self.level = np.sqrt(part.constant) * rng.standard_normal(number)
        self.slopes = np.sqrt(part.linear) * rng.standard_normal((d, number))
        noise = np.sqrt(part.nugget[draw])[:, None] * rng.standard_normal((n, number))
        missing = part.y[:, None] - self._prior(part.x) - noise
        half = solve_triangular(part.factor[draw], missing, lower=True)
        self.correction = solve_triangular(part.factor[draw], half, lower=True, trans=1)

    def _prior(self, unit: Values) -> Values:
        weights = mixing(self.part, self.draw, unit)
        total = self.level + (unit - 0.5) @ self.slopes
        for k, j in enumerate(self.active):
            angles = unit @ self.frequencies[k].T
            waves = np.concatenate([np.cos(angles), np.sin(angles)], axis=1) @ self.coefficients[k]
            total = total + weights[:, j, None] * waves
        return total

    def __call__(self, unit: Values) -> Values:
        found = [
            self._prior(rows) + cross(self.part, self.draw, rows, self.part.x) @ self.correction
            for rows in (unit[start : start + ROWS] for start in range(0, len(unit), ROWS))
        ]
        return self.part.loc + self.part.scale * np.concatenate(found).T


class MeansOfDraws(Functions):
    """For surrogates without paths: intervals then know of the doubt between draws, and not of that within each."""

    def __init__(self, model: Model, count: int, seed: int) -> None:
        weights = np.asarray(model.learned.predict(np.full((1, model.domain.num_dims), 0.5)).weights)
        places = (np.arange(count) + np.random.default_rng(seed).random()) / count
        self._picks = np.minimum(np.searchsorted(np.cumsum(weights / weights.sum()), places), len(weights) - 1)
        self._model, self.count = model, count
        kind = type(model.learned.posterior.surrogate).__name__
        self.messages = (
            f"intervals know only of the doubt between the draws of {kind}, not of that within each: they are too narrow.",
        )

    def groups(self) -> Iterator[tuple[Any, Any]]:
        yield np.arange(self.count), lambda unit: np.asarray(self._model.learned.predict(unit).means)[self._picks]
