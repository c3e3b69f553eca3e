"""One output as a surrogate has learned it: the posterior, the scale of the outputs it works in, and how both move on.

The numerics see outputs of mean 0 and spread 1. The scale comes from the outputs themselves, or from the range in which they are
expected. Five first outputs may all come from a flat region, so an estimated scale can be wrong by a factor of ten: when the
spread of all outputs differs from it by more than a factor, the posterior is carried over to a new one before it moves on.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hyperleaf.data import Dataset, Standardizer
from hyperleaf.machine.threefry import folded
from hyperleaf.mixture import Mixture
from hyperleaf.surrogates.base import Diagnostics, Posterior, Surrogate

RESCALE = 1.3  # the output scale is estimated anew when it is wrong by more than this factor
REFIT = 2.0  # the same where it costs a fit from scratch
Values = NDArray[np.float64]


@dataclass(frozen=True)
class Rescaled:
    """The output scale was estimated anew, at so many observations: what it is now, and what it was."""

    num_observations: int
    scale: float
    before: float

    @property
    def note(self) -> str:
        anew = f"the output scale was estimated anew: {self.scale:.3g} in place of {self.before:.3g}."
        return f"at {self.num_observations} observations {anew}"


@dataclass(frozen=True)
class Learned:
    """A posterior with its output scale. `y` and `noise` (variances, or None) are all observations in native units.

    `fixed_scale` says that the scale was given (`given_scale`), or does not matter, and is never estimated anew; `notes` tell
    what happened, and `rescaled` when the scale was last estimated anew.
    """

    posterior: Posterior
    scale: Standardizer
    y: Values
    noise: Values | None = None
    fixed_scale: bool = False
    notes: tuple[str, ...] = ()
    given_scale: bool = False
    rescaled: Rescaled | None = None

    @classmethod
    def fit(
        cls,
        surrogate: Surrogate,
        unit: Values,
        y: Values,
        noise: Values | None = None,
        *,
        scale: Standardizer | None = None,
        key: Any,
    ) -> Learned:
        """From scratch: inputs in the unit cube (n, d), outputs (n,) and known noise variances (n,) in native units."""
        scaling = Standardizer.from_data(y) if scale is None else scale
        posterior = surrogate.fit(_dataset(unit, y, noise, scaling), key=key)
        given = scale is not None
        return cls(posterior, scaling, y, noise, given or surrogate.scale_free, given_scale=given)

    def update(self, unit: Values, y: Values, noise: Values | None = None, *, key: Any) -> Learned:
        """After more observations, given all in the same way as to `fit`."""
        all_y = np.concatenate([self.y, y])
        all_noise = None if noise is None or self.noise is None else np.concatenate([self.noise, noise])
        posterior, scale, notes, rescaled = self.posterior, self.scale, self.notes, self.rescaled
        fresh = scale if self.fixed_scale else Standardizer.from_data(all_y)
        factor = fresh.scale / scale.scale
        moved = None
        if not 1 / RESCALE <= factor <= RESCALE:
            moved = posterior.rescaled((fresh.loc - scale.loc) / scale.scale, factor, key=folded(key, 1))
        if moved is not None or not 1 / REFIT <= factor <= REFIT:
            known = None if self.rescaled is None else self.rescaled.note
            rescaled = Rescaled(len(all_y), fresh.scale, scale.scale)
            notes = (*(one for one in notes if one != known), rescaled.note)  # the last time tells enough
            if moved is None:
                x = np.concatenate([posterior.data.x, unit])
                fitted = posterior.surrogate.fit(_dataset(x, all_y, all_noise, fresh), key=key)
                return replace(self, posterior=fitted, scale=fresh, y=all_y, noise=all_noise, notes=notes, rescaled=rescaled)
            posterior, scale = moved, fresh
        variances = None if noise is None else noise / scale.scale**2
        posterior = posterior.update(unit, scale.transform(y), key=key, noise=variances)
        return replace(self, posterior=posterior, scale=scale, y=all_y, noise=all_noise, notes=notes, rescaled=rescaled)

    @property
    def told(self) -> tuple[Values, Values | None]:
        """All outputs in the order they came, with their noise: also those that do not count, if there are such."""
        return self.y, self.noise

    @property
    def aside(self) -> NDArray[np.intp]:
        """Which of all that was told does not count, by its place."""
        return np.zeros(0, dtype=np.intp)

    @property
    def remarks(self) -> tuple[str, ...]:
        """What to know besides what the posterior says of itself."""
        return self.notes

    @property
    def spread(self) -> float:
        """What a relative error is relative to: the scale if it was given, else the standard deviation of the outputs so far."""
        found = float(np.std(self.y))
        return self.scale.scale if self.given_scale or found == 0.0 else found

    @property
    def diagnostics(self) -> Diagnostics:
        return replace(self.posterior.diagnostics, messages=(*self.remarks, *self.posterior.diagnostics.messages))

    def predict(self, unit: ArrayLike) -> Mixture:
        """The latent f at points of the unit cube (m, d), in native units."""
        return self.posterior.predict(unit).affine(self.scale.loc, self.scale.scale)


def _dataset(unit: Values, y: Values, noise: Values | None, scale: Standardizer) -> Dataset:
    return Dataset(unit, scale.transform(y), None if noise is None else noise / scale.scale**2)
