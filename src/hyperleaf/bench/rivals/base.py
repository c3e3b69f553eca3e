"""One surrogate and one posterior for all packages: what they learned is a table of arrays, out of which their model is restored.

A package is a module of this folder with two functions: `fit(kind, data, options, seed)` gives the arrays, `restore(kind, data,
options, arrays)` a `Fitted`, the package's own model that predicts. Nothing of the package is in a posterior, so it is saved and
sent to other processes like any other.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hyperleaf.bench.rivals import RIVALS
from hyperleaf.checks import whole_number
from hyperleaf.data import Dataset
from hyperleaf.errors import InputError
from hyperleaf.mixture import Mixture
from hyperleaf.surrogates.base import Diagnostics, Joint, Posterior, Surrogate, numpy_generator
from hyperleaf.surrogates.kinds import NUGGET

Values = NDArray[np.float64]


class Moments(NamedTuple):
    """Of the latent f at m points under s draws, with the variance of the noise."""

    means: Values  # (s, m)
    variances: Values  # (s, m)
    noise: Values  # (s,)


class Fitted(ABC):
    """The package's model, restored."""

    @abstractmethod
    def moments(self, x: Values) -> Moments:
        """At x (m, d)."""

    @abstractmethod
    def covariance(self, x: Values) -> tuple[Values, Values, Values]:
        """Means (s, m), covariances (s, m, m) of the latent f at x, and the noise (s,)."""

    def alc(self, x: Values, r: Values) -> Values | None:
        """The package's own measure of how much an observation at x lowers the mean variance at r; None where it has none."""
        return None


@dataclass(frozen=True)
class Rival(Surrogate):
    """A surrogate of another package with its own defaults."""

    scale_free: ClassVar[bool] = True  # all of them standardise the outputs by themselves
    least_observations: ClassVar[int] = 2

    kind: str
    num_dims: int
    noise: str = "learned"
    options: Mapping[str, Any] = field(default_factory=dict)

    def fit(self, data: Dataset, *, key: Any) -> RivalPosterior:
        started = time.perf_counter()
        seed = int(numpy_generator(key).integers(2**31))
        arrays = self._package().fit(self.kind, self._seen(data), self.options, seed)
        draws = -(-self.options["samples"] // self.options["thinning"]) if "samples" in self.options else 1
        return RivalPosterior(self, data, arrays, Diagnostics(self.kind, draws, time.perf_counter() - started))

    def restore(self, data: Dataset, arrays: Mapping[str, Any]) -> Fitted:
        return self._package().restore(self.kind, self._seen(data), self.options, arrays)

    def _seen(self, data: Dataset) -> Dataset:
        """The data with noise variances if the package is told them, without if it learns the noise."""
        told = {"known": data.noise, "none": np.full(len(data.y), NUGGET)}
        return Dataset(data.x, data.y, told.get(self.noise))

    def _package(self) -> Any:
        return import_module(f"{__package__}.{RIVALS[self.kind].file}")


@dataclass(frozen=True)
class RivalPosterior(Posterior):
    """What a package learned from `data`: its parameters as arrays."""

    surrogate: Rival
    data: Dataset
    arrays: Mapping[str, Any]
    diagnostics: Diagnostics
    _fitted: list[Fitted] = field(default_factory=list, init=False, repr=False, compare=False)

    def fitted(self) -> Fitted:
        """The package's model; made when it is first asked."""
        if not self._fitted:
            self._fitted.append(self.surrogate.restore(self.data, self.arrays))
        return self._fitted[0]

    def predict(self, x: ArrayLike) -> Mixture:
        means, variances, noise = self.fitted().moments(self._points(x))
        s = len(means)
        return Mixture(np.full(s, 1.0 / s), means, np.maximum(variances, 0.0), noise)

    def joint(self, x: ArrayLike, r: ArrayLike) -> Joint:
        points, references = self._points(x), self._points(r)
        parts = []
        for start in range(0, max(len(points), 1), 512):  # a covariance of all points at once may be gigabytes
            part = points[start : start + 512]
            means, covariances, noise = self.fitted().covariance(np.concatenate([part, references]))
            variances, m = np.maximum(np.diagonal(covariances, axis1=1, axis2=2), 0.0), len(part)
            parts.append((means[:, :m], variances[:, :m], covariances[:, :m, m:]))
        mean_x, var_x, cov = (np.concatenate(each, axis=1) for each in zip(*parts, strict=True))
        s = len(mean_x)
        return Joint(np.full(s, 1.0 / s), mean_x, var_x, means[:, m:], variances[:, m:], cov, noise)

    def alc(self, candidates: ArrayLike, references: ArrayLike) -> Values:
        own = self.fitted().alc(self._points(candidates), self._points(references))
        return super().alc(candidates, references) if own is None else own

    def update(self, x: ArrayLike, y: ArrayLike, *, key: Any, noise: ArrayLike | None = None) -> RivalPosterior:
        return self.surrogate.fit(self.data.append(x, y, noise), key=key)

    def _points(self, x: ArrayLike) -> Values:
        points = np.asarray(x, dtype=np.float64)
        if points.ndim != 2 or points.shape[1] != self.data.num_dims:
            raise InputError(f"x must have the shape (m, {self.data.num_dims}); got {points.shape}. Give one row per point.")
        return points


CLASSES: dict[str, type] = {"rival": Rival, "rival-posterior": RivalPosterior}  # tags of saved files


def rival(name: str, d: int, noise: str, **options: Any) -> Rival:
    """By its name: `make_surrogate("botorch", 2)`."""
    kind = RIVALS[name]
    if not kind.installed():
        raise InputError(f"the surrogate {name!r} needs {kind.needs}, which is not installed. To have it: {kind.install}.")
    given = {key: one.default for key, one in kind.options.items()} | options
    for key, value in given.items():
        if isinstance(kind.options[key].default, bool) != isinstance(value, bool):
            raise InputError(f"{key} must be {kind.options[key].type}; got {value!r}.")
        if not isinstance(value, bool):
            whole_number(key, value)
    return Rival(name, d, noise, given)
