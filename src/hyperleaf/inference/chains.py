"""What Markov chains begin with and leave behind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from hyperleaf.errors import InferenceError


@dataclass(frozen=True)
class Chains:
    """Draws after warm-up. With thinning, the statistics of a kept draw sum up the transitions since the one kept before."""

    z: NDArray[np.float64]  # (chains, draws, p)
    log_density: NDArray[np.float64]  # (chains, draws)
    acceptance: NDArray[np.float64]  # (chains, draws), mean acceptance probability
    divergent: NDArray[np.bool_]  # (chains, draws), whether any transition diverged
    num_steps: NDArray[np.int64]  # (chains, draws), gradients
    step_size: NDArray[np.float64]  # (chains,)
    inverse_mass: NDArray[np.float64]  # (chains, p)
    saturated: NDArray[np.bool_]  # (chains, draws), whether NUTS stopped at its longest trajectory; never for HMC
    num_divergent: NDArray[np.int64]  # (chains,), of `num_transitions`
    num_transitions: int  # of each chain after warm-up, before thinning
    num_replaced: int  # starts without a density, replaced by one of the others
    seconds: float

    @property
    def num_chains(self) -> int:
        return self.z.shape[0]

    @property
    def num_draws(self) -> int:
        """Of each chain."""
        return self.z.shape[1]


def usable_starts(state: Any) -> tuple[Any, int]:
    """States whose density and gradient are finite, and the number of those that were not: each became a copy of a good one."""
    usable = np.isfinite(state.logdensity) & np.isfinite(state.logdensity_grad).all(axis=1)
    good, bad = np.flatnonzero(usable), np.flatnonzero(~usable)
    if len(good) == 0:
        raise InferenceError(
            "a chain must start where the log density and its gradient are finite; none of the "
            f"{len(usable)} starts is such a point. Start from prior draws, raise the noise, or look for duplicated inputs with "
            "different outputs."
        )
    if len(bad) == 0:
        return state, 0
    chosen = np.arange(len(usable))
    chosen[bad] = good[np.arange(len(bad)) % len(good)]
    return jax.tree.map(lambda leaf: leaf[chosen], state), len(bad)
