"""Methods that run anew on all observations, from where the draws were: what MAP, HMC and NUTS have in common."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from hyperleaf.inference.base import Diagnostics, Drawn, Inference, Problem


class Batch(Inference):
    """A method that is `run` from a number of starts."""

    @property
    @abstractmethod
    def num_starts(self) -> int: ...

    @abstractmethod
    def run(self, problem: Problem, starts: Float[Array, "r p"], key: Array) -> tuple[Float[Array, "s p"], Diagnostics]:
        """Draws of equal weight, and how they came about."""

    def first_starts(self, problem: Problem, key: Array) -> Float[Array, "r p"]:
        """Where the first run begins: at draws of the prior."""
        return problem.prior_draws(key, self.num_starts)

    def next_starts(self, problem: Problem, z: Float[Array, "s p"], log_weights: Float[Array, "s"], key: Array) -> Array:
        """Where a later run begins: at draws z of the last one, chosen by weight."""
        weights = np.exp(np.asarray(log_weights))
        weights = weights / weights.sum()
        return z[jax.random.choice(key, len(z), (self.num_starts,), p=jnp.asarray(weights))]

    def start(self, problem: Problem, key: Array) -> Drawn:
        start_key, run_key = jax.random.split(key)
        return self._drawn(problem, self.first_starts(problem, start_key), run_key)

    def update(self, problem: Problem, before: Drawn, key: Array) -> Drawn:
        starts = self.next_starts(problem, before.z, before.log_weights, jax.random.fold_in(key, 1))
        return self._drawn(problem, starts, key)

    def carry_over(self, problem: Problem, before: Drawn, moved: Float[Array, "p"], key: Array) -> Drawn:
        starts = self.next_starts(problem, before.z - moved, before.log_weights, jax.random.fold_in(key, 1))
        return self._drawn(problem, starts, key)

    def _drawn(self, problem: Problem, starts: Float[Array, "r p"], key: Array) -> Drawn:
        z, summary = self.run(problem, starts, key)
        settled = problem.settle(z, jnp.full(len(z), -jnp.log(len(z))))
        summary = replace(summary, failed_draws=settled.failed, jitter=settled.jitter)
        return Drawn(problem, settled.z, settled.log_weights, settled.factors, summary)
