"""What is believed when some outputs are still to come: a posterior that also counts points whose outputs are not known yet.

Pending points, and those already picked for a batch, condition every draw's covariance exactly, one rank at a time, which needs
no output.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike, NDArray

from hyperleaf.data import Dataset, Standardizer
from hyperleaf.errors import InputError
from hyperleaf.mixture import Mixture
from hyperleaf.surrogates.base import FLOOR, Joint, Posterior, Traced
from hyperleaf.surrogates.learned import Learned

if TYPE_CHECKING:
    from hyperleaf.acquisition.criteria import Acquisition

Points = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Belief:
    """A posterior given its data and observations of unknown value at `points` (p, d), all in the unit cube.

    Per draw, with C the latent covariance of the posterior and LLᵀ = C(P, P) + σ²I: the covariance of f becomes
    C(x, r) − C(x, P)L⁻ᵀL⁻¹C(P, r), whatever is observed. Means stay as they are; or, with `believe`, they move as if the
    mixture's own mean ȳ had been observed, μ(x) + C(x, P)L⁻ᵀL⁻¹(ȳ − μ(P)), which makes the draws agree where an observation
    would. Weights of draws stay. Inside a JAX trace what the posterior's `traced()` gives is called. `scale` leads back to native
    outputs, where it is known: for criteria that speak of limits or noise as a person would.
    """

    posterior: Posterior
    points: Points
    whitener: NDArray[np.float64]  # L⁻¹, (s, p, p)
    surprise: NDArray[np.float64]  # L⁻¹(ȳ − μ(P)), (s, p)
    scale: Standardizer | None = None

    @classmethod
    def of(cls, model: Posterior | Learned | Belief, scale: Standardizer | None = None) -> Belief:
        """With nothing pending yet; what was `Learned` brings its scale."""
        if isinstance(model, Belief):
            return model
        if isinstance(model, Learned):
            return Belief.of(model.posterior, model.scale)
        return cls(model, np.zeros((0, model.data.num_dims)), np.zeros((1, 0, 0)), np.zeros((1, 0)), scale)

    @property
    def data(self) -> Dataset:
        return self.posterior.data

    def differentiable(self, acquisition: Acquisition) -> bool:
        """Whether the score has a gradient in x, for which the posterior must have one."""
        return acquisition.uses_model and not acquisition.coarse and self.posterior.traced() is not None

    def fewer(self, num: int) -> Belief:
        """The same of about `num` draws of the posterior."""
        posterior = self.posterior.fewer(num)
        return self if posterior is self.posterior else Belief.of(posterior, self.scale).given(self.points)

    def given(self, x: ArrayLike | None) -> Belief:
        """The belief that also counts observations at x (k, d): the factor of each draw grows by one row per point."""
        if x is None:
            return self
        x = check_points("pending", x, self.data.num_dims)
        if not len(x):
            return self
        points, known = np.concatenate([self.points, x]), len(self.points)
        joint = _joint(self.posterior, points, points)
        whitener = np.broadcast_to(self.whitener, (len(joint.weights), known, known))
        for p in range(known, len(points)):
            row = np.einsum("sqp,sp->sq", whitener, joint.cov[:, p, :p])
            left = np.maximum(joint.var_x[:, p] - np.sum(row**2, axis=1), 0.0)
            pivot = np.sqrt(left + joint.noise_at_x[:, p if joint.noise.ndim > 1 else 0] + FLOOR)
            grown = np.zeros((len(pivot), p + 1, p + 1))
            grown[:, :p, :p] = whitener
            grown[:, p, :p] = -np.einsum("sq,sqp->sp", row, whitener) / pivot[:, None]
            grown[:, p, p] = 1.0 / pivot
            whitener = grown
        believed = joint.weights @ joint.mean_x - joint.mean_x
        return replace(self, points=points, whitener=whitener, surprise=np.einsum("sqp,sp->sq", whitener, believed))

    def native(self, mixture: Mixture) -> Mixture:
        """What was predicted, in native outputs."""
        if self.scale is None:
            raise InputError("a bare posterior does not know the units of its outputs; got one. Give what was Learned instead.")
        return mixture.affine(self.scale.loc, self.scale.scale)

    def predict(self, x: Any, *, believe: bool = False) -> Mixture:
        """The latent f at x (m, d)."""
        if not len(self.points):
            return _functions(self.posterior).predict(x) if is_traced(x) else self.posterior.predict(x)
        joint = self.joint(x, self.points[:0], believe=believe)
        return Mixture(joint.weights, joint.mean_x, joint.var_x, joint.noise)

    def joint(self, x: Any, r: Points, *, believe: bool = False) -> Joint:
        """Per-draw moments and cross-covariances of f at x (m, d) and r (k, d)."""
        if not len(self.points):
            return _joint(self.posterior, x, r)
        library: Any = jnp if is_traced(x) else np
        p, adjoint = len(self.points), np.swapaxes(self.whitener, 1, 2)
        raw = _joint(self.posterior, x, np.concatenate([self.points, r]))
        half_x = raw.cov[:, :, :p] @ adjoint
        half_r = _joint(self.posterior, r, self.points).cov @ adjoint if len(r) else np.zeros((len(raw.weights), 0, p))
        moved_x, moved_r = ((half @ self.surprise[:, :, None])[:, :, 0] if believe else 0.0 for half in (half_x, half_r))
        return Joint(
            weights=raw.weights,
            mean_x=raw.mean_x + moved_x,
            var_x=library.maximum(raw.var_x - library.sum(half_x**2, axis=2), 0.0),
            mean_r=raw.mean_r[:, p:] + moved_r,
            var_r=library.maximum(raw.var_r[:, p:] - np.sum(half_r**2, axis=2), 0.0),
            cov=raw.cov[:, :, p:] - half_x @ np.swapaxes(half_r, 1, 2),
            noise=raw.noise,
        )


def is_traced(x: Any) -> bool:
    return isinstance(x, jax.core.Tracer)


def _joint(posterior: Posterior, x: Any, r: Points) -> Joint:
    return _functions(posterior).joint(x, jnp.asarray(r)) if is_traced(x) else posterior.joint(x, r)


def _functions(posterior: Posterior) -> Traced:
    functions = posterior.traced()
    if functions is None:
        raise InputError(f"a gradient needs a posterior that has one; {type(posterior).__name__} has none. Score without.")
    return functions


def check_points(name: str, x: ArrayLike, num_dims: int) -> Points:
    """x as (m, d) of finite floats, or an InputError."""
    try:
        array = np.asarray(x, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must be an (m, {num_dims}) array of numbers; got {type(x).__name__} ({error}).") from error
    if array.size == 0:
        return np.zeros((0, num_dims))
    if array.ndim != 2 or array.shape[1] != num_dims:
        raise InputError(f"{name} must have shape (m, {num_dims}) like the data; got {array.shape}. Give one row per point.")
    for row in np.flatnonzero(~np.isfinite(array).all(axis=1))[:1]:
        raise InputError(f"{name} must be finite; got {array[row].tolist()} in row {row}. Drop or repair that row.")
    return array
