"""Searching a domain where only part of it may be asked: from runs that are known to be safe outwards."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from hyperleaf.optimize.base import Optimizer, Problem, Rows, Scores, Trials
from hyperleaf.optimize.searches import LocalSearch, Shooting, perturbed

RADII = (0.01, 0.03, 0.1, 0.3)  # of the shots around an anchor; what is admitted may be as small as a hundredth of the box


@dataclass(frozen=True)
class Outwards(Optimizer):
    """Shots over the whole domain and around each anchor, at several distances, of which those that are admitted are scored;
    then random steps from the best. What it gives back is admitted throughout, and may be nothing."""

    admits: Callable[[Rows], Any]
    anchors: Rows = field(repr=False)
    num_shots: int = 2048
    most_anchors: int = 64
    walk: LocalSearch = field(default_factory=lambda: LocalSearch(num_rounds=12))

    def shots(self, problem: Problem) -> Rows:
        """Feasible rows, admitted or not."""
        far = Shooting(num=self.num_shots).rows(problem)
        if not len(self.anchors):
            return far
        rng = np.random.default_rng(problem.seed)
        anchors = self.anchors[-self.most_anchors :]
        parents = np.repeat(np.arange(len(anchors)), -(-self.num_shots // len(anchors)))
        radii = np.resize(np.asarray(RADII), len(parents))
        near = perturbed(problem.domain, anchors[parents], radii, rng)
        near = near[problem.domain.feasible_unit(near)]
        return np.concatenate([far, near])

    def search(self, problem: Problem) -> Trials:
        def score(unit: Rows) -> Scores:
            # All rows are scored, also those that count for nothing: code is compiled for numbers of rows, which so stay few.
            return np.where(self.admits(unit), problem.score(unit), -np.inf)

        rows = self.shots(problem)
        admitted = self.admits(rows)
        if not admitted.any():
            return Trials(rows[:0], np.zeros(0))
        found = Trials(rows, np.where(admitted, problem.score(rows), -np.inf))
        starts = found.spread(self.walk.num_starts)
        starts = Trials(starts.unit[np.isfinite(starts.scores)], starts.scores[np.isfinite(starts.scores)])
        found = found.and_(self.walk.walk(replace(problem, score=score), starts))
        kept = np.isfinite(found.scores)
        return Trials(found.unit[kept], found.scores[kept])
