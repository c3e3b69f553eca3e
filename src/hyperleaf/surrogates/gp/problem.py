"""A Gaussian process and its data as a method of inference sees them: vectors z, and the densities that lie on its way.

The densities that SMC passes are all of one type and, for one padded size, of one shape, so that they share compiled code: from
the prior down the levels of noise (`heated`), from old data to old and new (`since`), from old units to new ones.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Array, Float
from numpy.typing import NDArray

from hyperleaf.data import Dataset
from hyperleaf.errors import InferenceError
from hyperleaf.gp import GP, Conditioned, Padded, Target, Tempered, differs, pad
from hyperleaf.inference.base import Path, Problem, Settled
from hyperleaf.linalg import grow_padding
from hyperleaf.native import core_of, draws_of
from hyperleaf.parallel import over_draws
from hyperleaf.precision import put
from hyperleaf.priors import Prior
from hyperleaf.surrogates.gp.draws import draw_condition, draw_noise, draw_observe, invariants, noisier_likelihoods

NOISE_BORDER = 0.04  # of the variance of the outputs: a noise variance below or above it is another stratum of SMC


@dataclass(frozen=True)
class GPProblem(Problem):
    """The parameters of a GP given data; `start`, if there is one, is where a search should begin too."""

    prior: Prior
    data: Padded
    start: GP | None = None

    @property
    def size(self) -> int:
        return self.prior.size

    @property
    def num_observations(self) -> int:
        return int(self.data.count)

    @property
    def begin_at(self) -> Float[Array, "p"] | None:
        return None if self.start is None else self.prior.to_vector(self.start)

    def prior_draws(self, key: Array, num: int) -> Float[Array, "num p"]:
        return self.prior.sample_vectors(key, num)

    def target(self) -> Target:
        return Target(self.prior, self.data)

    def invariants(self, z: Float[Array, "s p"]) -> dict[str, Float[Array, "s"]]:
        likelihood, noise, first = over_draws(invariants, z, self.prior, self.data)
        return {"log_likelihood": likelihood, "noise": noise, "f": first}

    def settle(self, z: Float[Array, "s p"], log_weights: Float[Array, "s"], factors: Conditioned | None = None) -> Settled:
        if factors is not None:
            seen = factors
        elif (draws := draws_of(self.prior, self.data, z)) is not None:
            seen = draws.settle()
        else:
            seen = over_draws(draw_condition, z, self.prior, self.data)
        z, seen, log_weights, failed = bury(z, seen, log_weights)
        return Settled(z, log_weights, seen, failed, float(np.max(seen.jitter)))

    def posterior(self) -> Tempered:
        return posterior(self.prior, self.data)

    def heated(self, z: Float[Array, "s p"]) -> Path:
        border = noise_border(self.prior, z, self.data)

        def at(heat: float) -> Tempered:
            data = self.data
            return posterior(self.prior, Padded(data.x, data.y, put(np.asarray(data.noise) + heat), data.count), border)

        return at

    def likelihoods(self, z: Float[Array, "s p"], heats: Float[Array, "h"]) -> Float[Array, "s h"]:
        if (core := core_of((self.prior, self.data))) is not None:
            return put(core.likelihoods(z, heats))
        return over_draws(noisier_likelihoods, z, self.prior, self.data, heats)

    def part(self, rows: NDArray[np.int64]) -> GPProblem:
        data, noise = self.data, np.asarray(self.data.noise)[rows]
        kept = Dataset(np.asarray(data.x)[rows], np.asarray(data.y)[rows], noise if noise.any() else None)
        return replace(self, data=pad(kept))

    def since(self, num: int, z: Float[Array, "s p"]) -> Path:
        return partial(from_old_data, self.prior, self.data, noise_border(self.prior, z, self.data), jnp.asarray(num))

    def observe(self, z: Float[Array, "s p"], factors: Conditioned, num: int) -> tuple[Conditioned, Float[Array, "s"]]:
        if (draws := draws_of(self.prior, self.data, z, factors)) is not None:
            found, gained = draws.grow(num)
            return found, put(gained)
        data, grown = self.data, _grown(factors, len(self.data.y))
        increments = jnp.zeros(len(z))
        for i in range(num, self.num_observations):
            current = Padded(data.x, data.y, data.noise, jnp.asarray(i))
            grown, gained = over_draws(draw_observe, (z, grown), self.prior, current)
            increments = increments + gained
        return grown, increments

    def since_other_units(self, z: Float[Array, "s p"], moved: Float[Array, "p"]) -> Path:
        return partial(from_old_units, self.prior, self.data, noise_border(self.prior, z, self.data), moved)


def tempered(
    prior: Prior,
    data: Padded,
    border: float,
    powers: tuple[float, float],
    old_count: Any = 0,
    moved: Any = 0.0,
    moved_power: float = 0.0,
) -> Tempered:
    counts = np.array([old_count, data.count], dtype=data.count.dtype)
    moved = np.full(prior.size, moved, dtype=data.y.dtype)
    return Tempered(prior, data, put(counts), put(np.array(powers)), put(moved), put(moved_power), put(border))


def posterior(prior: Prior, data: Padded, border: float = float(np.inf)) -> Tempered:
    return tempered(prior, data, border, (0.0, 1.0))


def from_old_data(prior: Prior, data: Padded, border: float, old_count: Array, t: float) -> Tempered:
    return tempered(prior, data, border, (1.0 - t, t), old_count)


def from_old_units(prior: Prior, data: Padded, border: float, moved: Array, t: float) -> Tempered:
    """From the prior as it was in units in which z stood at z + moved; the likelihood is that of the new ones throughout."""
    return tempered(prior, data, border, (0.0, 1.0), 0, moved, 1.0 - t)


def noise_border(prior: Prior, z: Array, data: Padded) -> float:
    """The noise variance that tells outputs taken for noise from outputs taken for structure; 0 or ∞ if all draws agree on that.

    Between the two lies a barrier that no trajectory crosses, and which side is right may turn out late: a few outputs of a
    narrow bump look like noise until the flat rest is known well enough.
    """
    border = NOISE_BORDER * float(np.var(np.asarray(data.y)[: int(data.count)]))
    low = noise_of(prior, data, z) < border
    return float(np.inf) if low.all() else border if low.any() else 0.0


def noise_of(prior: Prior, data: Padded, z: Array) -> NDArray[np.float64]:
    """The learned noise variance (s,) of each draw; where every leaf has its own, the geometric mean over the data."""
    draws = draws_of(prior, data, z)
    return np.asarray(draw_noise(z, prior, data if differs(prior) else None)) if draws is None else draws.noise()


def is_variance(prior: Prior) -> NDArray[np.float64]:
    """1 for the entries of z that are logs of variances in units of y², 0 for the others."""
    paths = jax.tree_util.tree_flatten_with_path(prior.tree, is_leaf=lambda leaf: isinstance(leaf, dist.Distribution))[0]
    marks = []
    for path, leaf in paths:
        if isinstance(leaf, dist.Distribution):
            name = getattr(path[-1], "name", "")
            size = int(np.prod(leaf.shape()))
            is_log = leaf.support is dist.constraints.positive or leaf.support is dist.constraints.nonnegative
            marks.append(np.full(size, float(name in ("variance", "noise") and is_log)))
    return np.concatenate(marks) if marks else np.zeros(0)


def bury(z: Array, seen: Conditioned, log_weights: Array) -> tuple[Array, Conditioned, Array, int]:
    """Put a copy of a living draw, with weight zero, in the place of each that has no factor or no weight.

    So nothing downstream meets a NaN, whatever the parameters of the dead draw were.
    """
    # A row of a factor with a NaN anywhere has one on the diagonal, which is what the rest of the row leaves of the variance.
    broken = [np.diagonal(np.asarray(seen.factor), axis1=1, axis2=2), np.asarray(seen.whitened)]
    dead = np.isnan(np.concatenate(broken, axis=1)).any(axis=1) | (np.asarray(log_weights) == -np.inf)
    failed = int(dead.sum())
    if failed == 0:
        return z, seen, log_weights, 0
    if failed == len(dead):
        raise InferenceError(
            f"the covariance of the data has no factor under any of {failed} draws, even with jitter. The data are kept; look "
            "for repeated inputs with contradicting outputs and no noise, or choose a noise prior that allows some."
        )
    source = np.where(dead, np.argmin(dead), np.arange(len(dead)))
    log_weights = jnp.where(dead, -jnp.inf, log_weights)
    seen = jax.tree.map(lambda leaf: leaf[source], seen)
    return z[source], seen, log_weights - jax.nn.logsumexp(log_weights), failed


def _grown(seen: Conditioned, size: int) -> Conditioned:
    extra = size - seen.whitened.shape[-1]
    if extra == 0:
        return seen
    return Conditioned(grow_padding(seen.factor, size), jnp.pad(seen.whitened, ((0, 0), (0, extra))), seen.jitter)
