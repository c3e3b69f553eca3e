"""The two protocols that hold the house together, and the small records that pass between rooms.

A `Surrogate` is what is believed before data; its `fit` returns a `Posterior`, what is believed after; a posterior predicts a
`Mixture`. `Joint` carries the covariances that criteria need beyond the marginals, `Diagnostics` says how far to trust it all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hyperleaf.data import Dataset
from hyperleaf.mixture import Mixture


@dataclass(frozen=True)
class Diagnostics:
    """How a posterior came about. The mappings are keyed by label-invariant quantities ("log_likelihood", "noise", …)."""

    method: str
    num_draws: int
    seconds: float
    rhat: Mapping[str, float] = field(default_factory=dict)
    ess_bulk: Mapping[str, float] = field(default_factory=dict)
    ess_tail: Mapping[str, float] = field(default_factory=dict)
    divergences: int = 0
    jitter: float = 0.0
    failed_draws: int = 0
    messages: tuple[str, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Joint:
    """Per-draw latent moments at candidates x (m) and references r (k), given the data; s draws with weights (s,)."""

    weights: NDArray[np.float64]  # (s,), sums to one
    mean_x: NDArray[np.float64]  # (s, m)
    var_x: NDArray[np.float64]  # (s, m)
    mean_r: NDArray[np.float64]  # (s, k)
    var_r: NDArray[np.float64]  # (s, k)
    cov: NDArray[np.float64]  # (s, m, k)
    noise: NDArray[np.float64]  # (s,), variance of the observation noise


class Posterior(Protocol):
    """What is believed after data: immutable."""

    @property
    def data(self) -> Dataset: ...

    @property
    def diagnostics(self) -> Diagnostics: ...

    def predict(self, x: ArrayLike) -> Mixture:
        """The latent f at x (m, d) in the unit cube; `.noisy()` adds the observation noise."""
        ...

    def update(self, x: ArrayLike, y: ArrayLike, *, key: Any) -> Posterior:
        """The posterior after one or several more observations."""
        ...

    def joint(self, x: ArrayLike, r: ArrayLike) -> Joint:
        """Per-draw moments and cross-covariances of f at x (m, d) and r (k, d)."""
        ...


class Surrogate(Protocol):
    """What is believed before data: immutable, cheap, comparable."""

    def fit(self, data: Dataset, *, key: Any) -> Posterior: ...


def numpy_generator(key: Any) -> np.random.Generator:
    """A NumPy generator that is a function of a JAX key, for samplers that run outside compiled code."""
    import jax

    return np.random.default_rng(np.asarray(jax.random.key_data(key)).ravel())
