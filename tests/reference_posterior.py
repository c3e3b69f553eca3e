"""An exact posterior to hold criteria against: stationary GPs with a few fixed hyperparameters, solved directly in NumPy.

`with_point` adds an observation and keeps the hyperparameters: what every shortcut of a criterion must agree with.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import jax.numpy as jnp
import numpy as np

from hyperleaf.data import Dataset
from hyperleaf.mixture import Mixture
from hyperleaf.surrogates.base import Diagnostics, Joint, Posterior, Traced


@dataclass(frozen=True)
class ReferencePosterior(Posterior):
    data: Dataset
    lengthscales: np.ndarray  # (s,)
    variances: np.ndarray  # (s,)
    noise: np.ndarray  # (s,)
    weights: np.ndarray  # (s,)

    @property
    def diagnostics(self):
        return Diagnostics("reference", len(self.weights), 0.0)

    def kernel(self, a, b, library=np):
        squared = library.sum((a[:, None, :] - b[None, :, :]) ** 2, axis=2)
        return self.variances[:, None, None] * library.exp(-0.5 * squared / self.lengthscales[:, None, None] ** 2)

    def _parts(self, x, library):
        gram = self.kernel(self.data.x, self.data.x) + self.noise[:, None, None] * np.eye(len(self.data.x))
        cross = self.kernel(self.data.x, x, library)
        return cross, library.asarray(np.linalg.inv(gram))

    def _joint(self, x, r, library):
        (cx, inverse), (cr, _) = self._parts(x, library), self._parts(r, library)
        half = library.einsum("snm,snk->smk", cx, inverse)
        moments = []
        for cross in (cx, cr):
            mean = library.einsum("snm,sno,o->sm", cross, inverse, self.data.y)
            var = self.variances[:, None] - library.einsum("snm,sno,som->sm", cross, inverse, cross)
            moments += [mean, library.maximum(var, 0.0)]
        return Joint(self.weights, *moments, self.kernel(x, r, library) - library.einsum("smn,snk->smk", half, cr), self.noise)

    def joint(self, x, r):
        return self._joint(np.asarray(x), np.asarray(r), np)

    def predict(self, x):
        joint = self.joint(x, np.asarray(x)[:1])
        return Mixture(self.weights, joint.mean_x, joint.var_x, self.noise)

    def with_point(self, x, y):
        return replace(self, data=self.data.append(x, y))

    def update(self, x, y, *, key, noise=None):
        return self.with_point(x, y)


class TracedPosterior(ReferencePosterior):
    """The same, differentiable in x."""

    def traced(self):
        return Traced(self._predict_traced, lambda x, r: self._joint(x, r, jnp))

    def _predict_traced(self, x):
        joint = self._joint(x, x[:1], jnp)
        return Mixture(self.weights, joint.mean_x, joint.var_x, self.noise)


def reference(n=8, d=2, s=3, noise=0.01, seed=0, kind=ReferencePosterior):
    rng = np.random.default_rng(seed)
    x = rng.random((n, d))
    y = np.sin(7 * x[:, 0]) + x.sum(axis=1) - 1.0
    weights = rng.random(s) + 0.5
    return kind(
        Dataset(x, y - y.mean()),
        lengthscales=np.linspace(0.2, 0.5, s),
        variances=np.linspace(1.5, 0.7, s),
        noise=noise * np.linspace(0.5, 2.0, s),
        weights=weights / weights.sum(),
    )
