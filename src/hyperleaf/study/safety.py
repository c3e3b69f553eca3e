"""What a person asks about the limits of a study: how they were kept, how probable a point keeps them, what is safest."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hyperleaf.errors import InputError
from hyperleaf.study.limits import Kept, Outcome, kept_so_far
from hyperleaf.study.snapshot import Snapshot

if TYPE_CHECKING:
    from hyperleaf.domain import Point


class Safety:
    """Of a study at the moment when it was asked for; what needs no model learns none."""

    def __init__(self, look: Callable[..., Snapshot]) -> None:
        self._look = look
        self.kept: Kept = kept_so_far(look().definition, look().record)

    @property
    def risk(self) -> float:
        """The probability with which the next query may break a limit, open ones not yet counted."""
        return self.kept.risk

    @property
    def rate(self) -> float | None:
        """The share of the queries chosen so far that broke a limit; None before there is one."""
        return self.kept.rate

    @property
    def interval(self) -> tuple[float, float]:
        """Where that rate lies with a probability of 90 %."""
        return self.kept.interval

    @property
    def violations(self) -> tuple[Outcome, ...]:
        """The runs that broke a limit or failed, each with the probability of keeping them that it was asked with."""
        return self.kept.violations

    @cached_property
    def _learned(self) -> Snapshot:
        return self._look(learn=True)

    def probability(self, points: Any) -> NDArray[np.float64]:
        """The probability that a run at each point keeps all limits, and does not fail."""
        from hyperleaf.study.admitting import admission_now

        admission = admission_now(self._learned)
        if admission is None:
            raise InputError("the probability of keeping limits needs a study with [limits] that has learned; this one has not.")
        return admission.probability(self._learned.domain.to_unit(points))

    def safest(self, num: int = 3) -> list[tuple[Point, float]]:
        """The points nobody asked for yet that are most probable to keep all limits, each with that probability."""
        from hyperleaf.study.admitting import safest

        return safest(self._learned, num)

    def __repr__(self) -> str:
        return f"Safety({self.kept.words})"
