"""How draws of a model's parameters come about: the contract that all methods keep, and what they may ask of a model.

An `Inference` starts from the prior, moves on with data, and carries over to other units; it holds its settings and nothing else.
It sees a model as a `Problem`: vectors z ∈ ℝᵖ and densities over them. What it leaves behind are `Drawn`: weighted draws, with
what the model has worked out for each, and with whatever the method wants to find again at the next update.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

if TYPE_CHECKING:
    from jaxtyping import Array, Float

LogDensity = Callable[["Float[Array, 'p']"], "Float[Array, '']"]
Path = Callable[[float], LogDensity]  # from one density, at 0, to another, at 1


@dataclass(frozen=True)
class Diagnostics:
    """How a posterior came about. The mappings are keyed by label-invariant quantities ("log_likelihood", "noise", …).

    `messages` say what no field says; `sentences` say all. `extra["guard"]` is how a fresh run compared, where one was made.
    """

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

    @property
    def sentences(self) -> tuple[str, ...]:
        """Everything to know, in words; nothing if all is well."""
        failed = f"{self.failed_draws} of {self.num_draws} draws have a singular covariance and carry no weight."
        guard = self.extra.get("guard")
        return (*([failed] if self.failed_draws else []), *self.messages, *([] if guard is None else [guard.words]))


class Settled(NamedTuple):
    """Draws that can all be predicted from, and what the model has worked out for each (the factor of its covariance)."""

    z: Float[Array, "s p"]
    log_weights: Float[Array, "s"]
    factors: Any
    failed: int  # draws that could not, and have weight zero
    jitter: float


class Problem(ABC):
    """The parameters of a model given data, as a method of inference sees them."""

    @property
    @abstractmethod
    def size(self) -> int:
        """p, the number of parameters."""

    @property
    @abstractmethod
    def num_observations(self) -> int: ...

    @property
    def begin_at(self) -> Float[Array, "p"] | None:
        """Where a search should begin too, beside draws of the prior."""
        return None

    @abstractmethod
    def prior_draws(self, key: Array, num: int) -> Float[Array, "num p"]: ...

    @abstractmethod
    def target(self) -> Any:
        """The log posterior density of z, a pytree that can be called; its `log_likelihood` is a function of z too."""

    @abstractmethod
    def invariants(self, z: Float[Array, "s p"]) -> dict[str, Float[Array, "s"]]:
        """Quantities of each draw that do not depend on labels, by name: what convergence is judged by."""

    @abstractmethod
    def settle(self, z: Float[Array, "s p"], log_weights: Float[Array, "s"], factors: Any = None) -> Settled:
        """The draws, made ready for predictions; `factors` where they are known already."""

    # --- densities on the way to the posterior, all of one type so that they share compiled code

    @abstractmethod
    def posterior(self) -> LogDensity: ...

    @abstractmethod
    def heated(self, z: Float[Array, "s p"]) -> Path:
        """By τ²: the posterior as it were with a variance of τ² more in every observation. Draws z tell its strata apart."""

    @abstractmethod
    def likelihoods(self, z: Float[Array, "s p"], heats: Float[Array, "h"]) -> Float[Array, "s h"]:
        """ln p(y | z) with each of several variances more."""

    @abstractmethod
    def part(self, rows: Any) -> Problem:
        """The same with these observations only."""

    @abstractmethod
    def since(self, num: int, z: Float[Array, "s p"]) -> Path:
        """From the posterior after the first `num` observations to that after all."""

    @abstractmethod
    def observe(self, z: Float[Array, "s p"], factors: Any, num: int) -> tuple[Any, Float[Array, "s"]]:
        """Factors of the first `num` observations grown by the others, and the log predictive density of these by each draw."""

    @abstractmethod
    def since_other_units(self, z: Float[Array, "s p"], moved: Float[Array, "p"]) -> Path:
        """From the prior as it was in units in which z stood at z + moved; the likelihood is that of the new units throughout."""


@dataclass(frozen=True)
class Drawn:
    """Weighted draws of the posterior of a problem. `state` is what the method carries on to the next update, if anything."""

    problem: Problem
    z: Float[Array, "s p"]
    log_weights: Float[Array, "s"]
    factors: Any
    diagnostics: Diagnostics
    state: Any = None


class Inference(ABC):
    """A method by which the parameters of a model are learned, with its settings. Immutable."""

    tag: ClassVar[str]  # what saved files call it; never changed

    @abstractmethod
    def start(self, problem: Problem, key: Array) -> Drawn:
        """Draws of the posterior, from the prior."""

    @abstractmethod
    def update(self, problem: Problem, before: Drawn, key: Array) -> Drawn:
        """Draws of the posterior, from those of a problem with the first of its observations."""

    @abstractmethod
    def carry_over(self, problem: Problem, before: Drawn, moved: Float[Array, "p"], key: Array) -> Drawn:
        """Draws of the posterior, from those of the same observations in other units, in which z stood at z + moved."""

    # --- what not every method can do

    @classmethod
    def saved(cls) -> dict[str, type]:
        """By tag: further classes that it leaves in saved files, as its state or in the diagnostics."""
        return {}

    @property
    def uses_prior(self) -> bool:
        """Whether the prior counts; if not, it only says where to search."""
        return True

    @property
    def num_draws(self) -> int:
        """How many draws it leaves behind: a model may hold much for each of them."""
        return 1

    @property
    def least_draws(self) -> float | None:
        """How many of these count at least, where their weights differ; None if that is not known beforehand."""
        return None

    @property
    def gives_evidence(self) -> bool:
        """Whether it estimates ln p(y | x)."""
        return False

    def evidence_of(self, state: Any) -> tuple[float, float] | None:
        """ln p(y | x) and its Monte-Carlo standard error, from what was carried on."""
        return None

    def for_evidence(self) -> Inference:
        """These settings, with more work where the evidence needs it."""
        return self

    def is_check_due(self, num_updates: int) -> bool:
        """Whether after so many updates a fresh run should be held against the present draws."""
        return False
