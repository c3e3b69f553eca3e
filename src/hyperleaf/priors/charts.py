"""Coordinates of the unconstrained vector in which sharp gates and soft ones are alike."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float


class Chart(NamedTuple):
    """Coordinates to move in: u = z, but for offset and normal of a gate, which are taken times (its steepness)^power.

    A gate opens as σ(α(offset + normal·x)). Where α is large, offset and normal are known α times as well as where it is small,
    and masses that suit sharp gates hold soft ones in their place. α·offset and α·normal (power 1) are known alike everywhere;
    but only with power 0 does a gate grow sharp in place by one number. Samplers use both, by turns.
    """

    log_steepness: Float[np.ndarray, "p p"]  # picks ln α out of z for each entry that is scaled; zero rows for the others
    power: Any = 0.0

    def into(self, z: Any) -> Any:
        return z * _exp(self.power * (z @ self.log_steepness.T))

    def back(self, u: Any) -> Any:
        return u * _exp(-self.power * (u @ self.log_steepness.T))

    def log_volume(self, u: Float[Array, "p"]) -> Float[Array, ""]:
        """ln |∂z/∂u|."""
        return -self.power * jnp.sum(u @ self.log_steepness.T)

    def gradient(self, z: Any, by_z: Any) -> Any:
        """The gradient of the log density of u, from that of the log density of z, for one z or several."""
        scaled = by_z * _exp(-self.power * (z @ self.log_steepness.T))
        return scaled - self.power * ((z * by_z + 1.0) @ self.log_steepness)


def _exp(values: Any) -> Any:
    return np.exp(values) if isinstance(values, np.ndarray) else jnp.exp(values)
