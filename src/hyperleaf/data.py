"""Observations as the numerics see them: `x` in the unit cube, `y` standardised; validated once, here."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hyperleaf.errors import DataError


@dataclass(frozen=True)
class Dataset:
    """n observations: inputs `x` (n, d), outputs `y` (n,), and optionally the known noise variance of each (n,)."""

    x: NDArray[np.float64]
    y: NDArray[np.float64]
    noise: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        x, y = _finite("x", self.x, 2), _finite("y", self.y, 1)
        if len(x) != len(y):
            raise DataError(f"x and y must have as many rows as each other; got {len(x)} and {len(y)}. Pass one y per row of x.")
        if x.shape[1] == 0:
            raise DataError("x must have at least one column; got none. Pass an (n, d) array with d ≥ 1.")
        object.__setattr__(self, "x", x)
        object.__setattr__(self, "y", y)
        if self.noise is not None:
            noise = _finite("noise", self.noise, 1)
            if len(noise) != len(y):
                raise DataError(f"noise must give one variance per observation ({len(y)}); got {len(noise)}.")
            if (noise < 0).any():
                raise DataError(f"a noise variance must be ≥ 0; got {noise.min():g}. Pass variances, not standard deviations with a sign.")
            object.__setattr__(self, "noise", noise)

    @property
    def num_observations(self) -> int:
        return len(self.y)

    @property
    def num_dims(self) -> int:
        return self.x.shape[1]

    def append(self, x: ArrayLike, y: ArrayLike, noise: ArrayLike | None = None) -> Dataset:
        """A new data set with the observations of this one followed by the given ones (a single one may be 1-D and scalar)."""
        new_x, new_y = np.atleast_2d(np.asarray(x, dtype=np.float64)), np.atleast_1d(np.asarray(y, dtype=np.float64))
        if new_x.ndim != 2 or new_x.shape[1] != self.num_dims:
            raise DataError(f"a new x must have {self.num_dims} columns like the data; got shape {new_x.shape}.")
        if (noise is None) != (self.noise is None):
            raise DataError("known noise must be given for all observations or for none; this call mixes the two.")
        new_noise = None
        if self.noise is not None and noise is not None:
            new_noise = np.concatenate([self.noise, np.atleast_1d(np.asarray(noise, dtype=np.float64))])
        return Dataset(np.concatenate([self.x, new_x]), np.concatenate([self.y, new_y]), new_noise)


def _finite(name: str, value: ArrayLike, ndim: int) -> NDArray[np.float64]:
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"{name} must be numeric; got {type(value).__name__} that does not convert to float ({error}).") from error
    if array.ndim != ndim:
        shape = "(n, d)" if ndim == 2 else "(n,)"
        raise DataError(f"{name} must have shape {shape}; got {array.shape}. Reshape it.")
    bad = np.argwhere(~np.isfinite(array))
    if len(bad):
        where = tuple(int(i) for i in bad[0])
        raise DataError(f"{name} must be finite; got {array[where]} at index {where} ({len(bad)} such). Drop or repair those rows.")
    return array
