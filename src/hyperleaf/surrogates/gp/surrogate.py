"""Gaussian-process surrogates: any `GP` with distributions in its fields and a method to learn it by, and how to make one."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import equinox as eqx
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Array

from hyperleaf.data import Dataset
from hyperleaf.errors import DataError, InputError
from hyperleaf.gp import GP, Mean, pad
from hyperleaf.inference.base import Inference
from hyperleaf.inference.map import Map
from hyperleaf.inference.smc import SMC
from hyperleaf.kernels import Kernel, LeafNoise, Partition, WarpedMultiIndex, leaf_noise
from hyperleaf.linalg import padded_size
from hyperleaf.precision import float64
from hyperleaf.priors import Prior, hhk_prior, stationary_prior, warped_bounds, warped_prior
from hyperleaf.surrogates.base import Surrogate
from hyperleaf.surrogates.gp.posterior import GPPosterior
from hyperleaf.surrogates.gp.problem import GPProblem
from hyperleaf.surrogates.gp.room import check_room
from hyperleaf.surrogates.kinds import NUGGET

NOISE_BOUNDS = (1e-6, 1.0)  # of the noise variance by maximum likelihood, for outputs of variance one
# The noise variance before data, for standardised outputs: 0.003 give or take a factor of 50. The paper's exponential prior rules
# out that outputs are mostly noise, which the first ones of a campaign are if they come from a flat region; taken for fast
# structure, such noise then draws all queries. This prior leaves room for it.
NOISE_PRIOR = (np.log(3e-3), 2.0)


class GPSurrogate(Surrogate, eqx.Module):
    """A Gaussian process whose parameters have priors, and the method by which they are learned.

    `start`, a GP like `model` with numbers in its fields, is the first of the starts of MAP; the others are prior draws.
    """

    model: GP
    inference: Inference = eqx.field(static=True, default=SMC())
    start: GP | None = None

    @property
    def prior(self) -> Prior:
        return Prior(self.model)

    @property
    def least_draws(self) -> float | None:
        return self.inference.least_draws

    def problem(self, data: Dataset, size: int = 0) -> GPProblem:
        """What a method of inference sees of the model and the data, which are padded to `size` at least."""
        check_room(data.num_observations, self.inference.num_draws, size)
        return GPProblem(self.prior, pad(data, max(padded_size(data.num_observations), size)), self.start)

    @float64
    def fit(self, data: Dataset, *, key: Array) -> GPPosterior:
        """The posterior after `data`, from scratch."""
        if data.num_observations < 1:
            raise DataError("a fit needs at least one observation; got none.")
        started = time.perf_counter()
        return GPPosterior.of(self, data, self.inference.start(self.problem(data), key), started)


def hhk_surrogate(
    d: int, leaves: int = 8, *, inference: Inference | None = None, noise: Any = None, mean: Mean = "zero", **priors: Any
) -> GPSurrogate:
    """The Hierarchical-Hyperplane GP. `noise` as in `surrogate`; a number is the rate of an exponential prior, the paper's."""
    return surrogate(hhk_prior(d, leaves, **priors), inference=inference, noise=noise, mean=mean)


def stationary_surrogate(
    d: int, kernel: Any = None, *, inference: Inference | None = None, noise: Any = None, mean: Mean = "zero", **priors: Any
) -> GPSurrogate:
    """A stationary GP: a kernel class, or a kernel whose fields hold numbers or distributions; the RBF if none is given."""
    prior = kernel if isinstance(kernel, Kernel) else stationary_prior(d, *([] if kernel is None else [kernel]), **priors)
    return surrogate(prior, inference=inference, noise=noise, mean=mean)


@float64
def warped_surrogate(
    d: int,
    indices: int | None = None,
    *,
    inference: Inference | None = None,
    noise: Any = None,
    mean: Mean = "zero",
    **priors: Any,
) -> GPSurrogate:
    """The Warped Multi-Index GP, by default by type-II maximum likelihood with ten restarts, as in the paper.

    Learned in this way, its parameters have bounds in place of priors: `warped_bounds`, and NOISE_BOUNDS for the noise variance.
    The first start is A = I, a = b = 1. With SMC, NUTS, HMC or Map() its priors are our own (`warped_prior`).
    """
    inference = Map(prior=False) if inference is None else inference
    alone = not inference.uses_prior
    kernel = (warped_bounds if alone else warped_prior)(d, indices, **priors)
    made = surrogate(kernel, inference=inference, noise=noise, mean=mean)
    learned = isinstance(made.model.noise, dist.Distribution)
    if alone and learned and not isinstance(noise, dist.Distribution):
        made = replace(made, model=GP(kernel, dist.LogUniform(*NOISE_BOUNDS), mean))
    q = kernel.index.shape()[0]
    plain = WarpedMultiIndex(kernel.index.mean, np.ones(q), np.ones(q), np.full(q, 0.5), 1.0)
    return replace(made, start=GP(plain, 0.01 if learned else made.model.noise, mean))


@float64
def surrogate(kernel: Kernel, *, inference: Inference | None = None, noise: Any = None, mean: Mean = "zero") -> GPSurrogate:
    """A surrogate from any kernel prior.

    `noise`: the prior of its variance, a distribution, or the rate of an exponential one; "known" if the data carry their
    variances; "none" if outputs repeat exactly, which leaves a fixed NUGGET; None is the log-normal NOISE_PRIOR. "per leaf", or a
    `LeafNoise` with distributions in it, gives each leaf of a partition its own.
    """
    if noise is None:
        noise_prior: Any = dist.LogNormal(*NOISE_PRIOR)
    elif isinstance(noise, str) and noise == "per leaf":
        noise_prior = noise_by_leaf(kernel.num_leaves if isinstance(kernel, Partition) else 1)
    elif isinstance(noise, str):
        if noise not in ("known", "none"):
            raise InputError(f'noise must be a rate, a distribution, "per leaf", "known" or "none"; got {noise!r}.')
        noise_prior = NUGGET if noise == "none" else 0.0
    elif isinstance(noise, dist.Distribution | LeafNoise):
        noise_prior = noise
    else:
        noise_prior = _of_rate(noise)
    inference = SMC() if inference is None else inference
    if isinstance(noise_prior, LeafNoise) and not inference.uses_prior:
        raise InputError(
            "noise by leaf needs priors, for the likelihood alone has no maximum where a leaf holds few observations; got "
            'maximum likelihood. Use inference="smc", "nuts", "hmc" or "map".'
        )
    return GPSurrogate(GP(kernel, noise_prior, mean), inference)


@float64
def noise_by_leaf(leaves: int, rate: float | None = None) -> LeafNoise:
    """The prior of noise by leaf: what is common to all has NOISE_PRIOR, or an exponential prior of that rate."""
    if leaves < 2:
        raise InputError(
            f"noise by leaf needs a partition of two leaves or more; got {leaves}, which has one noise. "
            'Set noise = "learned", or take a surrogate with leaves, as "hhk" with leaves = 8.'
        )
    return leaf_noise(leaves, dist.LogNormal(*NOISE_PRIOR) if rate is None else _of_rate(rate))


def _of_rate(rate: Any) -> dist.Distribution:
    if not np.isfinite(rate) or rate <= 0:
        raise InputError(f"the rate of the noise prior must be positive and finite; got {rate!r}.")
    return dist.Exponential(float(rate))
