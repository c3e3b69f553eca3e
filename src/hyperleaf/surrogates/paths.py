"""The densities that SMC passes through on its way to the posterior of a GP.

All are of one type and, for one padded size, of one shape, so that they share compiled code: from the prior down the levels of
noise (`start`), from old data to old and new (`from_old_data`), from old units to new ones (`from_old_units`).
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from hyperleaf.data import Dataset
from hyperleaf.gp import Padded, Tempered, pad
from hyperleaf.inference.annealing import anneal
from hyperleaf.inference.smc import SMC, Info, Particles, bridge
from hyperleaf.parallel import over_draws
from hyperleaf.priors import Prior
from hyperleaf.surrogates.draws import draw_noise, noisier_likelihoods

MANY, FIRST = 192, 128  # of more than so many observations a start takes so many
NOISE_BORDER = 0.04  # of the variance of the outputs: a noise variance below or above it is another stratum of SMC


def tempered(
    prior: Prior,
    data: Padded,
    border: float,
    powers: tuple[float, float],
    old_count: Any = 0,
    moved: Any = 0.0,
    moved_power: float = 0.0,
) -> Tempered:
    counts = jnp.stack([jnp.asarray(old_count, data.count.dtype), data.count])
    moved = jnp.broadcast_to(jnp.asarray(moved, data.y.dtype), (prior.size,))
    scalars = (jnp.asarray(moved_power), jnp.asarray(border))
    return Tempered(prior, data, counts, jnp.asarray(powers), moved, *scalars)


def posterior(prior: Prior, data: Padded, border: float = float(np.inf)) -> Tempered:
    return tempered(prior, data, border, (0.0, 1.0))


def from_old_data(prior: Prior, data: Padded, border: float, old_count: Array, t: float) -> Tempered:
    return tempered(prior, data, border, (1.0 - t, t), old_count)


def from_old_units(prior: Prior, data: Padded, border: float, moved: Array, t: float) -> Tempered:
    """From the prior as it was in units in which z stood at z + moved; the likelihood is that of the new ones throughout."""
    return tempered(prior, data, border, (0.0, 1.0), 0, moved, 1.0 - t)


def heated(prior: Prior, data: Padded, border: float, heat: float) -> Tempered:
    """The posterior as it were with a variance of `heat` more in every observation."""
    return posterior(prior, Padded(data.x, data.y, data.noise + heat, data.count), border)


def start(prior: Prior, config: SMC, data: Padded, start_key: Array, run_key: Array) -> tuple[Particles, Info]:
    """Particles of the posterior, from scratch.

    A start passes some thirty densities, each at the cost of n³. Of many observations it takes a random part; the particles are
    then taken on to twice as many until they have seen all, which costs a few moves each. The evidence is the product of both.
    """
    num = int(data.count)
    if num <= MANY:
        particles, info = _annealed(prior, config, data, start_key, run_key)
        return replace(particles, started=data.count), info
    order_key, first_key, *keys = jax.random.split(run_key, 2 + num.bit_length())
    order = jax.random.permutation(order_key, num)
    seen = FIRST
    particles, info = _annealed(prior, config, _first(data, order, seen), start_key, first_key)
    for key in keys:
        more = min(2 * seen, num)
        after = _first(data, order, more)
        border = noise_border(prior, particles.z, after)
        path = partial(from_old_data, prior, after, border, jnp.asarray(seen))
        particles, moved = bridge(particles, path, config, key)
        info, seen = info + moved, more
        if seen == num:
            break
    return replace(particles, started=data.count), info


def _annealed(prior: Prior, config: SMC, data: Padded, start_key: Array, run_key: Array) -> tuple[Particles, Info]:
    starts = prior.sample_vectors(start_key, config.num_chains * config.start_moves)
    densities = partial(heated, prior, data, noise_border(prior, starts, data))
    return anneal(starts, densities, partial(_likelihoods, prior, data), config, run_key)


def _first(data: Padded, order: Array, num: int) -> Padded:
    """The first `num` observations in that order, padded."""
    rows = np.asarray(order)[:num]
    noise = np.asarray(data.noise)[rows]
    return pad(Dataset(np.asarray(data.x)[rows], np.asarray(data.y)[rows], noise if noise.any() else None))


def _likelihoods(prior: Prior, data: Padded, z: Array, heats: Array) -> Array:
    return over_draws(noisier_likelihoods, z, prior, data, heats)


def noise_border(prior: Prior, z: Array, data: Padded) -> float:
    """The noise variance that tells outputs taken for noise from outputs taken for structure; 0 or ∞ if all draws agree on that.

    Between the two lies a barrier that no trajectory crosses, and which side is right may turn out late: a few outputs of a
    narrow bump look like noise until the flat rest is known well enough.
    """
    border = NOISE_BORDER * float(np.var(np.asarray(data.y)[: int(data.count)]))
    low = np.asarray(draw_noise(z, prior)) < border
    return float(np.inf) if low.all() else border if low.any() else 0.0
