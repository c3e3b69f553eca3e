"""The guard of an online posterior: a fresh run on the same data, and whether the two agree."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from numpy.typing import ArrayLike

from hyperleaf.errors import InferenceError

if TYPE_CHECKING:
    from hyperleaf.surrogates.gp.posterior import GPPosterior


@dataclass(frozen=True)
class Agreement:
    """How two SMC posteriors of the same data compare: standard scores of the predictive means (root mean square) and ln Z."""

    mean_score: float
    evidence_score: float
    limit: float = 4.0

    @property
    def agrees(self) -> bool:
        return self.mean_score <= self.limit and abs(self.evidence_score) <= self.limit

    @property
    def sentence(self) -> str:
        return f"predictions differ by {self.mean_score:.1f}, the log evidence by {self.evidence_score:+.1f} standard errors"

    @property
    def words(self) -> str:
        found = "agrees" if self.agrees else "disagrees beyond Monte-Carlo error and takes over"
        return f"A fresh run on the same data {found} ({self.sentence})."


def agreement(first: GPPosterior, second: GPPosterior, x: ArrayLike) -> Agreement:
    """Compare the predictive means at x (m, d) and the evidences of two SMC posteriors."""
    means, errors = [], []
    for posterior in (first, second):
        mixture = posterior.predict(x)
        mean = np.asarray(mixture.mean())
        spread = posterior.weights @ (np.asarray(mixture.means) - mean) ** 2
        means.append(mean)
        errors.append(spread / posterior.diagnostics.ess_bulk["particles"])
    scores = (means[0] - means[1]) / np.sqrt(errors[0] + errors[1] + 1e-12)
    evidence_error = np.hypot(first.log_evidence_std, second.log_evidence_std)
    return Agreement(
        float(np.sqrt(np.mean(scores**2))),
        (first.log_evidence - second.log_evidence) / max(float(evidence_error), 1e-6),
    )


def checked(posterior: GPPosterior, key: Array, x: ArrayLike | None = None) -> GPPosterior:
    """The posterior, or a fresh one where that disagrees; see `GPPosterior.checked`."""
    if posterior.evidence() is None:
        method = posterior.diagnostics.method
        raise InferenceError(f"the guard comes with SMC only; this posterior is from {method}. Use SMC().")
    fit_key, point_key = jax.random.split(key)
    fresh = posterior.surrogate.fit(posterior.data, key=fit_key)
    points = jax.random.uniform(point_key, (64, posterior.data.num_dims), jnp.float64) if x is None else x
    found = agreement(posterior, fresh, points)
    kept = posterior if found.agrees else fresh
    history = (*posterior.history, fresh.diagnostics.extra["info"])
    summary = replace(
        kept.diagnostics,
        extra={**kept.diagnostics.extra, "guard": found, "history": history},
    )
    return replace(kept, diagnostics=summary)
