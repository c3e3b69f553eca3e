"""Criteria of where to ask next, by what an observation tells about f or about the hyperparameters, and two that ask no model.

Per draw: mean μ_θ(x), latent variance v_θ(x), noise variance σ_θ². All scores refer to standardised y. A new criterion is a class
here and a line in `ACQUISITIONS`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, Literal

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial import cKDTree

from hyperleaf.acquisition.base import ROWS, Acquisition, chunked
from hyperleaf.acquisition.belief import Belief, Points, check_points, is_traced
from hyperleaf.acquisition.moments import check_moments, mean_information, mixture_moments
from hyperleaf.acquisition.slopes import entropy_slopes, variance_slopes
from hyperleaf.checks import alike, whole_number
from hyperleaf.data import Dataset
from hyperleaf.errors import InputError
from hyperleaf.mixture import EntropyMethod, Mixture
from hyperleaf.surrogates.base import FLOOR, Posterior, alc_of, numpy_generator
from hyperleaf.surrogates.learned import Learned

NUM_REFERENCES = 500
_ELEMENTS = 2**26  # of a (draws, candidates, references) array at once: 512 MiB
_LOG_2PI_E = float(np.log(2.0 * np.pi) + 1.0)


def _floored(mixture: Mixture) -> Mixture:
    library: Any = jnp if is_traced(mixture.variances) else np
    return Mixture(mixture.weights, mixture.means, library.maximum(mixture.variances, FLOOR))


def _between(mixture: Mixture) -> Any:
    """Var_θ μ_θ: how far the draws disagree."""
    return mixture.weights @ (mixture.means - mixture.weights @ mixture.means) ** 2


@dataclass(frozen=True)
class Entropy(Acquisition):
    """H[y | x]: entropy of the noisy predictive mixture, the paper's criterion; "quadrature" is exact, the rest are cheaper.

    `believe` lets pending and picked points move the means too (see `Belief`), as it does for `Variance`.
    """

    label: ClassVar[str] = "entropy [nat]"

    method: EntropyMethod = "quadrature"
    num_samples: int = 1024
    believe: bool = False

    def measure(self, belief: Belief, x: Any, key: Any = None) -> Any:
        mixture = _floored(belief.predict(x, believe=self.believe).noisy())
        return mixture.entropy(self.method, key=key, num_samples=self.num_samples)

    def slopes(self, belief: Belief, x: Points) -> tuple[Any, Any] | None:
        return entropy_slopes(belief, x) if self.method == "quadrature" else None


@dataclass(frozen=True)
class Variance(Acquisition):
    """E_θ v + Var_θ μ (active learning MacKay), of the latent f or, with `noisy`, of an observation: + E_θ σ²."""

    label: ClassVar[str] = "variance"

    noisy: bool = True
    believe: bool = False

    def measure(self, belief: Belief, x: Any, key: Any = None) -> Any:
        mixture = belief.predict(x, believe=self.believe)
        within = mixture.variances + mixture.noise_at_candidates() if self.noisy else mixture.variances
        return mixture.weights @ within + _between(mixture)  # not mixture.var(), which compiles for every new m

    def slopes(self, belief: Belief, x: Points) -> tuple[Any, Any] | None:
        return variance_slopes(belief, x, self.noisy)


@dataclass(frozen=True)
class BALD(Acquisition):
    """I(y; θ | x) = H[mixture] − E_θ H[y | θ]: what an observation tells about the hyperparameters, and nothing else.

    Means that stayed would disagree at a picked point as before, and a batch would crowd there; so it always believes.
    """

    label: ClassVar[str] = "information about θ [nat]"

    def measure(self, belief: Belief, x: Any, key: Any = None) -> Any:
        mixture = _floored(belief.predict(x, believe=True).noisy())
        library: Any = jnp if is_traced(x) else np
        return mixture.entropy() - 0.5 * (_LOG_2PI_E + mixture.weights @ library.log(mixture.variances))


@dataclass(frozen=True)
class QueryByCommittee(Acquisition):
    """Var_θ μ_θ(x) (B-QBC): where the draws, a committee, disagree about the mean. Always believes, as BALD does."""

    label: ClassVar[str] = "variance between draws"

    def measure(self, belief: Belief, x: Any, key: Any = None) -> Any:
        return _between(belief.predict(x, believe=True))


@dataclass(frozen=True)
class Referenced(Acquisition):
    """A criterion that asks what an observation at x tells about f at references r (k, d), in the unit cube.

    Without references the candidates themselves are taken, thinned to `num_references` at random with a fixed seed;
    `suggest` puts the pool there, or a Sobol sample of the domain.
    """

    references: Points | None = field(default=None, compare=False, repr=False)
    num_references: int = NUM_REFERENCES

    uses_joint: ClassVar[bool] = True

    def __post_init__(self) -> None:
        whole_number("num_references", self.num_references)

    def score(
        self, posterior: Posterior | Learned | Belief, x: ArrayLike, *, pending: ArrayLike | None = None, key: Any = None
    ) -> NDArray[np.float64]:
        belief = Belief.of(posterior).given(pending)
        x = check_points("x", x, belief.data.num_dims)
        ready = self if self.references is not None else replace(self, references=self.thinned(x))
        checked = check_points("references", ready.given, belief.data.num_dims)
        if not len(checked) and len(x):
            raise InputError("references must hold at least one point; got none. Leave them out to use the candidates.")
        width = max(belief.posterior.diagnostics.num_draws, 1) * (len(checked) + len(belief.points) + 1)
        rows = min(1 << max(_ELEMENTS // width, 1).bit_length() - 1, ROWS)  # a power of two, for which code may be compiled
        return chunked(lambda part: np.asarray(ready.measure(belief, part, key)), x, rows)

    @property
    def given(self) -> Points:
        """The references, where somebody has chosen them."""
        if self.references is None:
            raise InputError(f"{type(self).__name__} measures at references, and has none. Set them, or call score.")
        return self.references

    def thinned(self, x: Points) -> Points:
        """At most `num_references` rows of x."""
        if len(x) <= self.num_references:
            return x
        return x[np.sort(np.random.default_rng(0).choice(len(x), self.num_references, replace=False))]


@dataclass(frozen=True)
class ALC(Referenced):
    """E_θ mean_r c_θ(x, r)² / (v_θ(x) + σ_θ²): by how much an observation at x lowers the variance of f, averaged over r.

    (Active learning Cohn; integrated mean squared error.) `moments="mixture"` takes c and v of the mixture as a whole,
    E_θ c + Cov_θ(μ(x), μ(r)) and E_θ(v + σ²) + Var_θ μ, so that doubt about hyperparameters counts where an observation would
    resolve it; `doubt` merely adds Var_θ μ_θ(x) to the score. `draws` bounds the number of draws that are asked.
    """

    label: ClassVar[str] = "fall of the mean variance"

    moments: Literal["draws", "mixture"] = "draws"
    doubt: bool = False
    draws: int | None = None

    @property
    def coarse(self) -> bool:
        return self.draws is not None

    def score(
        self, posterior: Posterior | Learned | Belief, x: ArrayLike, *, pending: ArrayLike | None = None, key: Any = None
    ) -> NDArray[np.float64]:
        belief = Belief.of(posterior)
        return super().score(belief if self.draws is None else belief.fewer(self.draws), x, pending=pending, key=key)

    def measure(self, belief: Belief, x: Any, key: Any = None) -> Any:
        check_moments(self.moments)
        plain = self.moments == "draws" and not self.doubt and not len(belief.points)
        if plain and not is_traced(x):
            return belief.posterior.alc(x, self.given)  # perhaps without holding all covariances
        joint = belief.joint(x, self.given, believe=self.moments == "mixture" or self.doubt)
        library: Any = jnp if is_traced(x) else np
        if self.moments == "draws":
            worth = alc_of(joint, library)
        else:
            cov, var_x, _ = mixture_moments(joint, joint.var_r, library)
            worth = library.mean(cov**2, axis=1) / var_x
        return worth + _between(Mixture(joint.weights, joint.mean_x, joint.var_x)) if self.doubt else worth


@dataclass(frozen=True)
class EPIG(Referenced):
    """mean_r I(y; y_r): the information that an observation at x gives about one at r (expected predictive information gain).

    Each draw is a Gaussian, for which I = −½ ln(1 − ρ²) with ρ² = c²/((v + σ²)(v_r + σ²)); the default averages it over the
    draws, as if hyperparameters were known. `moments="mixture"` takes ρ from the moments of the mixture, the Gaussian that is
    nearest to it, so that doubt about hyperparameters counts.
    """

    label: ClassVar[str] = "information about f [nat]"

    moments: Literal["draws", "mixture"] = "draws"

    def measure(self, belief: Belief, x: Any, key: Any = None) -> Any:
        check_moments(self.moments)
        if self.moments == "draws" and not len(belief.points) and not is_traced(x):
            gained_by_x = belief.posterior.information(x, self.given)
            if gained_by_x is not None:
                return gained_by_x
        joint = belief.joint(x, self.given, believe=self.moments == "mixture")
        library: Any = jnp if is_traced(x) else np
        noise_r = joint.noise_at_x
        if joint.noise.ndim > 1:  # it depends on the place, and a joint tells it at x only
            noise_r = belief.joint(self.given, self.given[:1]).noise_at_x
        noisy_r = joint.var_r + noise_r + FLOOR
        if self.moments == "draws":
            noisy_x = joint.var_x + joint.noise_at_x + FLOOR
            if is_traced(x):
                return joint.weights @ jax.vmap(partial(mean_information, library=jnp))(joint.cov, noisy_x, noisy_r)
            # Draw by draw: arrays of all draws would be written and read again, and fetched from the system, for every step.
            gained = [mean_information(*parts, np) for parts in zip(joint.cov, noisy_x, noisy_r, strict=True)]
            return joint.weights @ np.stack(gained)
        return mean_information(*mixture_moments(joint, noisy_r, library), library)


@dataclass(frozen=True)
class Handover(Referenced):
    """ALC of the mixture while there are fewer than `early` observations for each input; then entropy.

    The first observations of entropy lie on the border of the domain, where little else is learned. ALC asks what an observation
    tells about the rest; once the structure is known, entropy follows it more closely and costs less. Of the references and of
    the draws a few hundred and a few dozen do: so early nobody knows better, and the question costs a tenth.
    """

    label: ClassVar[str] = "worth of an observation"

    num_references: int = 200
    early: int = 10
    draws: int = 48

    def __post_init__(self) -> None:
        super().__post_init__()
        whole_number("early", self.early, 0)
        whole_number("draws", self.draws)

    def at_hand(self, data: Dataset) -> Acquisition:
        early = data.num_observations < self.early * data.num_dims
        return ALC(self.references, self.num_references, moments="mixture", draws=self.draws) if early else Entropy()

    def score(
        self, posterior: Posterior | Learned | Belief, x: ArrayLike, *, pending: ArrayLike | None = None, key: Any = None
    ) -> NDArray[np.float64]:
        belief = Belief.of(posterior)
        return self.at_hand(belief.data).score(belief, x, pending=pending, key=key)

    def measure(self, belief: Belief, x: Any, key: Any = None) -> Any:
        return self.at_hand(belief.data).measure(belief, x, key)


@dataclass(frozen=True)
class Random(Acquisition):
    """A uniform random number for each candidate: the baseline that every other criterion has to beat."""

    label: ClassVar[str] = "random number"
    uses_model: ClassVar[bool] = False

    def measure(self, belief: Belief, x: Any, key: Any = None) -> Any:
        if key is None:
            raise InputError("random scores need a key; got None. Pass jax.random.key(0).")
        return numpy_generator(key).random(len(x))

    def score(
        self, posterior: Posterior | Learned | Belief, x: ArrayLike, *, pending: ArrayLike | None = None, key: Any = None
    ) -> NDArray[np.float64]:
        belief = Belief.of(posterior)
        return self.measure(belief, check_points("x", x, belief.data.num_dims), key)


@dataclass(frozen=True)
class SpaceFilling(Acquisition):
    """Distance in the unit cube to the nearest finished, pending or picked point (maximin); no model is asked."""

    label: ClassVar[str] = "distance to the nearest point"
    uses_model: ClassVar[bool] = False

    def measure(self, belief: Belief, x: Any, key: Any = None) -> Any:
        near = np.concatenate([belief.data.x, belief.points])
        return cKDTree(near).query(x)[0] if len(near) else np.zeros(len(x))

    def score(
        self, posterior: Posterior | Learned | Belief, x: ArrayLike, *, pending: ArrayLike | None = None, key: Any = None
    ) -> NDArray[np.float64]:
        belief = Belief.of(posterior)
        if pending is not None:
            points = np.concatenate([belief.points, check_points("pending", pending, belief.data.num_dims)])
            belief = replace(belief, points=points)  # only the places matter here
        return self.measure(belief, check_points("x", x, belief.data.num_dims), key)


ACQUISITIONS: dict[str, type[Acquisition]] = {
    "entropy": Entropy,
    "variance": Variance,
    "bald": BALD,
    "qbc": QueryByCommittee,
    "alc": ALC,
    "epig": EPIG,
    "handover": Handover,
    "random": Random,
    "space-filling": SpaceFilling,
}


def as_acquisition(acquisition: str | Acquisition) -> Acquisition:
    """The criterion of that name with its defaults, or the one given."""
    if isinstance(acquisition, Acquisition):
        return acquisition
    if isinstance(acquisition, str) and acquisition in ACQUISITIONS:
        return ACQUISITIONS[acquisition]()
    hint = alike(acquisition, ACQUISITIONS) if isinstance(acquisition, str) else ""
    raise InputError(f"acquisition must be one of {list(ACQUISITIONS)}, or an Acquisition; got {acquisition!r}.{hint}")
