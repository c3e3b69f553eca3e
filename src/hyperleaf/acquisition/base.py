"""What a criterion is: it scores candidates in the unit cube under a posterior, larger is better.

An `Acquisition` says in `measure` what a few candidates are worth under a `Belief`; `score` works through any number of them in
chunks of bounded memory.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hyperleaf.acquisition.belief import Belief, Points, check_points
from hyperleaf.data import Dataset
from hyperleaf.surrogates.base import Posterior
from hyperleaf.surrogates.learned import Learned

ROWS = 2**14  # candidates predicted at once; so many that a posterior may compile code for them alone


class Acquisition(ABC):
    """A criterion. `measure` defines it for a few candidates; `uses_joint` says that it needs covariances with references."""

    label: ClassVar[str] = ""  # what a score is, with its unit; by default the name of the class
    uses_joint: ClassVar[bool] = False
    uses_model: ClassVar[bool] = True  # whether the score can tell if repeating a noisy observation is worth it

    def score(
        self, posterior: Posterior | Learned | Belief, x: ArrayLike, *, pending: ArrayLike | None = None, key: Any = None
    ) -> NDArray[np.float64]:
        """The worth (m,) of each candidate x (m, d), given observations of unknown value at `pending` (p, d)."""
        belief = Belief.of(posterior).given(pending)
        x = check_points("x", x, belief.data.num_dims)
        return chunked(lambda part: np.asarray(self.measure(belief, part, key)), x, ROWS)

    @abstractmethod
    def measure(self, belief: Belief, x: Any, key: Any = None) -> Any:
        """The worth (m,) of a chunk of candidates; differentiable in x where the posterior is, if x is traced."""

    def slopes(self, belief: Belief, x: Points) -> tuple[Any, Any] | None:
        """The worth (m,) and its gradient (m, d), where the posterior gives them; else None, and JAX differentiates."""
        return None

    def at_hand(self, data: Dataset) -> Acquisition:
        """The criterion to use with these observations: itself, unless it hands over from one to another."""
        return self

    @property
    def coarse(self) -> bool:
        """Whether scores are too coarse for their best point to be worth a long search, or a gradient."""
        return False


def chunked(function: Callable[[Points], NDArray[np.float64]], x: Points, rows: int) -> NDArray[np.float64]:
    parts = [function(x[start : start + rows]) for start in range(0, len(x), rows)]
    return np.concatenate(parts) if parts else np.zeros(0)
