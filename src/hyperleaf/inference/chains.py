"""What Markov chains leave behind."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


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
