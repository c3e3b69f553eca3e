"""The two contracts that hold the house together, and the small records that pass between rooms.

A `Surrogate` is what is believed before data; its `fit` returns a `Posterior`, what is believed after; a posterior predicts a
`Mixture`. `Joint` carries the covariances that criteria need beyond the marginals, `Diagnostics` says how far to trust it all.
What not every posterior can do is a method all the same, and answers honestly: by working it out from `predict` and `joint`, or
with None where there is nothing to tell.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hyperleaf.data import Dataset
from hyperleaf.inference.base import Diagnostics
from hyperleaf.mixture import Mixture
from hyperleaf.surrogates.validation import Cavities, cavities_of_predictions, leave_one_out

if TYPE_CHECKING:
    from hyperleaf.kernels import Partition

FLOOR = 1e-12  # variance; a millionth of the output's std is not told apart, so nothing is NaN where nothing is uncertain


@dataclass(frozen=True)
class Joint:
    """Per-draw latent moments at candidates x (m) and references r (k), given the data; s draws with weights (s,)."""

    weights: NDArray[np.float64]  # (s,), sums to one
    mean_x: NDArray[np.float64]  # (s, m)
    var_x: NDArray[np.float64]  # (s, m)
    mean_r: NDArray[np.float64]  # (s, k)
    var_r: NDArray[np.float64]  # (s, k)
    cov: NDArray[np.float64]  # (s, m, k)
    noise: NDArray[np.float64]  # variance of the observation noise: (s,), or (s, m) where it depends on x

    @property
    def noise_at_x(self) -> Any:
        """The noise in a shape that broadcasts with (s, m)."""
        return by_candidate(self.noise)


@dataclass(frozen=True)
class Slopes:
    """Per-draw latent moments at x (m, d) with their derivatives in x (s, m, d)."""

    weights: NDArray[np.float64]  # (s,), sums to one
    means: NDArray[np.float64]  # (s, m)
    variances: NDArray[np.float64]  # (s, m)
    by_mean: NDArray[np.float64]  # (s, m, d)
    by_variance: NDArray[np.float64]  # (s, m, d)
    noise: NDArray[np.float64]  # (s,), or (s, m) where it depends on x
    by_noise: NDArray[np.float64] | None = None  # (s, m, d), where it depends on x

    @property
    def noise_at_x(self) -> NDArray[np.float64]:
        return by_candidate(self.noise)


def by_candidate(noise: Any) -> Any:
    """Noise (s,), or (s, m) where it depends on the place, in a shape that broadcasts with (s, m)."""
    return noise[:, None] if noise.ndim == 1 else noise


class Traced(NamedTuple):
    """`predict` and `joint` as JAX functions that can be differentiated in x, for use under `float64`.

    Both are called within `jax.grad` but outside `jax.jit`, and have to compile their own part once for all posteriors:
    compiled by the caller, that part would be compiled anew for every query.
    """

    predict: Callable[[Any], Mixture]
    joint: Callable[[Any, Any], Joint]


class Evidence(NamedTuple):
    """ln p(y | x) under the prior, and the Monte-Carlo standard error of that estimate."""

    log: float
    std: float


class Surrogate(ABC):
    """What is believed before data: immutable, cheap, comparable."""

    scale_free: ClassVar[bool] = False  # whether it finds the scale of the outputs by itself
    least_observations: ClassVar[int] = 1  # below which it says nothing

    @abstractmethod
    def fit(self, data: Dataset, *, key: Any) -> Posterior:
        """The posterior after `data`, from scratch."""

    @property
    def least_draws(self) -> float | None:
        """How many effective draws its posteriors have at least; None if that is not known beforehand."""
        return None


class Posterior(ABC):
    """What is believed after data: immutable. Inputs lie in the unit cube, outputs are standardised."""

    if TYPE_CHECKING:  # fields or properties, as suits a posterior; declared like this, both are allowed

        @property
        def surrogate(self) -> Surrogate: ...

        @property
        def data(self) -> Dataset: ...

        @property
        def diagnostics(self) -> Diagnostics: ...

    @abstractmethod
    def predict(self, x: ArrayLike) -> Mixture:
        """The latent f at x (m, d); `.noisy()` adds the observation noise, which is (s,) or, where it depends on x, (s, m)."""

    @abstractmethod
    def joint(self, x: ArrayLike, r: ArrayLike) -> Joint:
        """Per-draw moments and cross-covariances of f at x (m, d) and r (k, d)."""

    @abstractmethod
    def update(self, x: ArrayLike, y: ArrayLike, *, key: Any, noise: ArrayLike | None = None) -> Posterior:
        """The posterior after one or several more observations, with their noise variances where those are known."""

    # --- what not every posterior can do by itself

    def sample(self, x: ArrayLike, key: Any, num: int = 1) -> NDArray[np.float64]:
        """`num` functions drawn from the posterior, at x (m, d): (num, m). Each first draws the parameters, then f."""
        return _sample_jointly(self.joint(x, x), numpy_generator(key), num)

    def alc(self, candidates: ArrayLike, references: ArrayLike) -> NDArray[np.float64]:
        """Active learning Cohn (m,): by how much an observation lowers the variance of f, averaged over references and draws.

        A posterior that can do so without holding all covariances at once has its own.
        """
        return alc_of(self.joint(candidates, references), np)

    def information(self, candidates: ArrayLike, references: ArrayLike) -> NDArray[np.float64] | None:
        """What an observation tells about one at the references (m,), averaged over these and draws; see the criterion EPIG.

        None where only covariances held all at once would tell.
        """
        return None

    def fewer(self, num: int) -> Posterior:
        """The posterior with about `num` of its draws, for a coarse answer at less cost; itself where that is not cheaper."""
        return self

    def traced(self) -> Traced | None:
        """The posterior as JAX functions; None where it has no gradients in x."""
        return None

    def slopes(self, x: ArrayLike) -> Slopes | None:
        """Predictions with their derivatives in x, where that takes no differentiation of compiled functions; else None."""
        return None

    def rescaled(self, shift: float, factor: float, *, key: Any) -> Posterior | None:
        """The posterior for outputs in other units, y' = (y − shift)/factor; None where only a new fit would tell."""
        return None

    def parts(self) -> Sequence[tuple[float, Posterior]]:
        """The posteriors that this one is an average of, each with its weight; itself alone where it is none."""
        return [(1.0, self)]

    @property
    def best(self) -> Posterior:
        """Of these the most probable one."""
        return self

    def partition(self) -> Partition | None:
        """How the likeliest draw divides the inputs by gates; None where the surrogate does not."""
        return None

    def evidence(self) -> Evidence | None:
        """How well the surrogate foresaw the data; None where the method of inference cannot tell."""
        return None

    def before_data(self, x: ArrayLike, num: int, *, seed: int) -> Iterator[tuple[NDArray[np.float64], Any, int]] | None:
        """Kernels of `num` draws: the covariance of f at x (m, d) before data, the noise variance, which is a number or, where it
        depends on x, (m,), and how often it was drawn.

        None where a draw is more than a kernel.
        """
        return None

    def cavities(self) -> Cavities:
        """Under each draw, every observation as the others predict it."""
        return cavities_of_predictions(self.data, self.predict(self.data.x))

    def left_out(self) -> Mixture | None:
        """Each observation, noise included, as predicted from all others; None with fewer than three."""
        return leave_one_out(self.data.y, self.cavities()) if len(self.data.y) >= 3 else None


def alc_of(joint: Joint, library: Any) -> Any:
    """E_θ mean_r c_θ(x, r)² / (v_θ(x) + σ_θ²), (m,), with the functions of NumPy or of JAX."""
    total = library.einsum("smk,smk->sm", joint.cov, joint.cov)
    return joint.weights @ (total / (joint.var_x + joint.noise_at_x + FLOOR)) / joint.cov.shape[2]


def _sample_jointly(joint: Joint, rng: np.random.Generator, num: int) -> NDArray[np.float64]:
    """`num` functions (num, m): a draw by its weight, then f from that draw's moments; a singular covariance is taken as is."""
    samples = np.empty((num, joint.mean_x.shape[1]))
    picks = rng.choice(len(joint.weights), num, p=joint.weights)
    for i in np.unique(picks):
        values, vectors = np.linalg.eigh(0.5 * (joint.cov[i] + joint.cov[i].T))
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        rows = np.flatnonzero(picks == i)
        samples[rows] = joint.mean_x[i] + rng.standard_normal((len(rows), len(values))) @ root.T
    return samples


def numpy_generator(key: Any) -> np.random.Generator:
    """A NumPy generator that is a function of a JAX key, for samplers that run outside compiled code."""
    import jax

    return np.random.default_rng(np.asarray(jax.random.key_data(key)).ravel())
