"""Gaussian-process surrogates: any `GP` with distributions in its fields, and what is believed of it after data.

`GPSurrogate` pairs such a prior with an inference method. `GPPosterior` holds weighted draws of the parameter vector with the
factor of each draw's covariance, so that predicting is cheap and adding an observation costs O(n²) a draw; with SMC the draws
move on when they must, with the other methods `update` fits again from where the draws are.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Array, Float
from numpy.typing import ArrayLike, NDArray

from hyperleaf.data import Dataset
from hyperleaf.errors import DataError, InferenceError, InputError
from hyperleaf.gp import (
    GP,
    Conditioned,
    Mean,
    Padded,
    Target,
    over_draws,
    pad,
)
from hyperleaf.inference import diagnostics as diagnose
from hyperleaf.inference.hmc import HMC, NUTS, sample
from hyperleaf.inference.map import Map, find_modes
from hyperleaf.inference.smc import SMC, Info, Particles, bridge, look, merged, reweight, strata_of
from hyperleaf.inference.weights import health
from hyperleaf.kernels import Kernel, Partition, WarpedMultiIndex
from hyperleaf.linalg import grow_padding, padded_size
from hyperleaf.mixture import Mixture
from hyperleaf.precision import float64
from hyperleaf.priors import Prior, hhk_prior, stationary_prior, warped_bounds, warped_prior
from hyperleaf.surrogates import paths
from hyperleaf.surrogates.base import Diagnostics, Evidence, Joint, Posterior, Surrogate, Traced
from hyperleaf.surrogates.draws import (
    CANDIDATES,
    MANY,
    chunks,
    density,
    draw_condition,
    draw_gram,
    draw_joint,
    draw_moments,
    draw_noise,
    draw_observe,
    draw_sample,
    invariants,
    pad_points,
    traced_joint,
    traced_moments,
    trimmed,
)
from hyperleaf.surrogates.kinds import NUGGET
from hyperleaf.surrogates.validation import Cavities, cavities_of_factors

Inference = SMC | NUTS | HMC | Map
COLLAPSE = 0.25  # share of the ESS below which a change of units starts afresh instead of moving the few that are left
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

    @float64
    def fit(self, data: Dataset, *, key: Array) -> GPPosterior:
        """The posterior after `data`, from scratch."""
        if data.num_observations < 1:
            raise DataError("a fit needs at least one observation; got none.")
        started = time.perf_counter()
        start_key, run_key = jax.random.split(key)
        if isinstance(self.inference, SMC):
            padded = pad(data)
            particles, info = paths.start(self.prior, self.inference, padded, start_key, run_key)
            return _smc_posterior(self, data, padded, particles, info, (), started)
        starts = self.prior.sample_vectors(start_key, _num_starts(self.inference))
        if isinstance(self.inference, Map) and self.start is not None:
            starts = starts.at[0].set(self.prior.to_vector(self.start))
        return _batch_posterior(self, data, starts, run_key, started)


def hhk_surrogate(
    d: int, leaves: int = 8, *, inference: Inference | None = None, noise: Any = None, mean: Mean = "zero", **priors: Any
) -> GPSurrogate:
    """The Hierarchical-Hyperplane GP. `noise` is that of `surrogate`; a number, as in the paper, is the rate of its prior."""
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

    So learned, its parameters have no priors but bounds (`warped_bounds`), the noise variance NOISE_BOUNDS in place of a rate,
    and the first start is A = I, a = b = 1. With SMC, NUTS, HMC or Map() its priors are our own (`warped_prior`).
    """
    inference = Map(prior=False) if inference is None else inference
    alone = isinstance(inference, Map) and not inference.prior
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
    variances; "none" if outputs repeat exactly, which leaves a fixed NUGGET; None is the log-normal NOISE_PRIOR.
    """
    if noise is None:
        noise_prior: Any = dist.LogNormal(*NOISE_PRIOR)
    elif isinstance(noise, str):
        if noise not in ("known", "none"):
            raise InputError(f'noise must be a rate, a distribution, "known" or "none"; got {noise!r}.')
        noise_prior = NUGGET if noise == "none" else 0.0
    elif isinstance(noise, dist.Distribution):
        noise_prior = noise
    else:
        if not np.isfinite(noise) or noise <= 0:
            raise InputError(f"the rate of the noise prior must be positive and finite; got {noise!r}.")
        noise_prior = dist.Exponential(float(noise))
    return GPSurrogate(GP(kernel, noise_prior, mean), SMC() if inference is None else inference)


@dataclass(frozen=True)
class GPPosterior(Posterior):
    """Weighted draws of all parameters given `data`, each with the factor of its covariance. Immutable."""

    surrogate: GPSurrogate
    data: Dataset
    padded: Padded
    z: Float[Array, "s p"]
    log_weights: Float[Array, "s"]
    seen: Conditioned
    diagnostics: Diagnostics
    particles: Particles | None = None  # the state of SMC, None with other methods
    _last: list[tuple[NDArray[np.float64], Mixture]] = field(default_factory=list, init=False, repr=False, compare=False)

    @property
    def num_draws(self) -> int:
        return self.z.shape[0]

    @property
    def weights(self) -> NDArray[np.float64]:
        weights = np.exp(np.asarray(self.log_weights))
        return weights / weights.sum()

    @property
    def log_evidence(self) -> float:
        """ln p(y | x) under the prior, as SMC estimates it; other methods cannot tell."""
        return float(self._smc_state("the evidence").log_evidence)

    @property
    def log_evidence_std(self) -> float:
        """The Monte-Carlo standard error of `log_evidence`; a lower bound, since it takes the moves for perfect."""
        return float(np.sqrt(self._smc_state("the evidence").log_evidence_variance))

    def evidence(self) -> Evidence | None:
        return None if self.particles is None else Evidence(self.log_evidence, self.log_evidence_std)

    def _smc_state(self, what: str) -> Particles:
        if self.particles is None:
            raise InferenceError(f"{what} comes with SMC only; this posterior is from {self.diagnostics.method}. Use SMC().")
        return self.particles

    @float64
    def draw(self, index: int | None = None) -> GP:
        """One draw of the parameters with numbers in its fields; the one of highest posterior density if none is named."""
        if index is None:
            target = Target(self.surrogate.prior, self.padded)
            index = int(jnp.argmax(over_draws(density, self.z, target)))
        return jax.tree.map(np.asarray, self.surrogate.prior.from_vector(self.z[index]))

    @float64
    def predict(self, x: ArrayLike) -> Mixture:
        """The latent f at x (m, d), one component per draw; `.noisy()` adds the observation noise.

        The last answer is kept: in a campaign the accuracy is measured at the points that were scored just before.
        """
        points = self._points(x)
        if self._last and np.array_equal(self._last[0][0], points):
            return self._last[0][1]
        means, variances = [], []
        padded, seen = self.padded, self.seen
        if len(points) >= MANY:
            padded, seen = trimmed(padded, seen, self.data.num_observations)
        for chunk, real in chunks(points):
            mean, variance = over_draws(draw_moments, (self.z, seen), self.surrogate.prior, padded, chunk)
            means.append(np.asarray(mean)[:, :real])
            variances.append(np.asarray(variance)[:, :real])
        mixture = Mixture(self.weights, np.concatenate(means, 1), np.concatenate(variances, 1), self.noise())
        for array in (mixture.means, mixture.variances):
            np.asarray(array).flags.writeable = False  # the next who asks gets the same ones
        self._last[:] = [(points.copy(), mixture)] if len(points) <= CANDIDATES else []
        return mixture

    def predict_traced(self, x: Float[Array, "m d"]) -> Mixture:
        """`predict` as a JAX function that can be differentiated in x; for use under `float64`. Compiled once per shape."""
        mean, variance = traced_moments((self.z, self.seen), self.surrogate.prior, self.padded, x)
        return Mixture(jnp.asarray(self.weights), mean, variance, jnp.asarray(self.noise()))

    def joint_traced(self, x: Float[Array, "m d"], r: Float[Array, "k d"]) -> Joint:
        """`joint` as a JAX function that can be differentiated in x and r; for use under `float64`."""
        parts = traced_joint((self.z, self.seen), self.surrogate.prior, self.padded, x, jnp.asarray(r))
        mean_x, var_x, mean_r, var_r, cov = parts
        return Joint(self.weights, mean_x, var_x, mean_r, var_r, cov, self.noise())

    def traced(self) -> Traced:
        return Traced(self.predict_traced, self.joint_traced)

    def partition(self) -> Partition | None:
        kernel = self.draw().kernel
        return kernel if isinstance(kernel, Partition) and np.shape(kernel.gates.normal)[0] > 0 else None

    def before_data(self, x: ArrayLike, num: int, *, seed: int) -> Iterator[tuple[NDArray[np.float64], float, int]]:
        points, noise = self._points(x), float64(draw_noise)(self.z, self.surrogate.prior)
        picks, times = np.unique(np.random.default_rng(seed).choice(self.num_draws, num, p=self.weights), return_counts=True)
        for pick, often in zip(picks, times, strict=True):
            yield self._gram(int(pick), points), float(noise[pick]), int(often)

    @float64
    def _gram(self, index: int, points: NDArray[np.float64]) -> NDArray[np.float64]:
        m, padded = len(points), pad_points(points)
        return np.asarray(over_draws(draw_gram, self.z[index : index + 1], self.surrogate.prior, padded))[0, :m, :m]

    def cavities(self) -> Cavities:
        """Under each draw, every observation as the others predict it, from the factor of the draw's covariance."""
        return cavities_of_factors(self.data, self.weights, np.asarray(self.seen.factor), np.asarray(self.seen.whitened))

    @float64
    def noise(self) -> NDArray[np.float64]:
        """The noise variance (s,) of a new observation under each draw: the learned one, and the known one of the observations
        if that is the same for all of them. Known noise that differs says nothing about the next."""
        noise, known = np.asarray(draw_noise(self.z, self.surrogate.prior)), self.data.noise
        return noise + known[0] if known is not None and len(known) and np.ptp(known) <= 1e-9 * known[0] else noise

    @float64
    def joint(self, x: ArrayLike, r: ArrayLike) -> Joint:
        """Per-draw latent moments at x (m, d) and r (k, d), with the covariances between them."""
        points, references = self._points(x), self._points(r)
        # Padded to a few sizes like `predict`, so that a shrinking pool does not compile anew at each query.
        padded_x, padded_r = pad_points(points), pad_points(references)
        m, k = len(points), len(references)
        values = over_draws(draw_joint, (self.z, self.seen), self.surrogate.prior, self.padded, padded_x, padded_r)
        mean_x, var_x, mean_r, var_r, cov = (np.asarray(v) for v in values)
        return Joint(self.weights, mean_x[:, :m], var_x[:, :m], mean_r[:, :k], var_r[:, :k], cov[:, :m, :k], self.noise())

    @float64
    def sample(self, x: ArrayLike, key: Array, num: int = 1) -> NDArray[np.float64]:
        """`num` functions drawn from the posterior, at x (m, d): (num, m). Each first draws the parameters, then f."""
        points = self._points(x)
        pick_key, normal_key = jax.random.split(key)
        picks = jax.random.choice(pick_key, self.num_draws, (num,), p=jnp.asarray(self.weights))
        normals = jax.random.normal(normal_key, (num, len(points)), jnp.float64)
        chosen = (self.z[picks], jax.tree.map(lambda leaf: leaf[picks], self.seen), normals)
        return np.asarray(over_draws(draw_sample, chosen, self.surrogate.prior, self.padded, jnp.asarray(points)))

    @float64
    def update(self, x: ArrayLike, y: ArrayLike, *, key: Array, noise: ArrayLike | None = None) -> GPPosterior:
        """The posterior after one or several more observations."""
        started = time.perf_counter()
        data = self.data.append(x, y, noise)
        config = self.surrogate.inference
        if self.particles is None or not isinstance(config, SMC):
            return _batch_posterior(self.surrogate, data, self._starts(key), key, started)
        size = max(padded_size(data.num_observations), self.padded.y.shape[0])
        before, after = pad(self.data, size), pad(data, size)
        grown: Conditioned | None = _grow(self.seen, size)
        increments = jnp.zeros(self.num_draws)
        for i in range(self.data.num_observations, data.num_observations):
            current = Padded(after.x, after.y, after.noise, jnp.asarray(i))
            grown, gained = over_draws(draw_observe, (self.z, grown), self.surrogate.prior, current)
            increments = increments + gained
        # Weighting may reveal a collapse; then the same increments are spent again, in smaller steps, along the bridge.
        particles, info = reweight(self.particles, increments) if bool(jnp.isfinite(increments).any()) else (None, Info())
        border = paths.noise_border(self.surrogate.prior, self.z, after)
        path = partial(paths.from_old_data, self.surrogate.prior, after, border, before.count)
        if particles is None or health(particles.log_weights, strata_of(self.z, path(1.0)), config.share) < config.threshold:
            particles, info = bridge(self.particles, path, config, key, increments)
            grown = None
        if config.refresh and data.num_observations >= (1.0 + config.refresh) * int(particles.started):
            keys = jax.random.split(jax.random.fold_in(key, 3), 3)
            fresh, spent = paths.start(self.surrogate.prior, config, after, keys[0], keys[1])
            particles, info, grown = merged(particles, fresh, keys[2]), info + spent, None
        updated = _smc_posterior(self.surrogate, data, after, particles, info, self._history, started, grown)
        if config.guard_every and len(updated._history) % config.guard_every == 0:
            return updated.checked(key=jax.random.fold_in(key, 2))
        return updated

    @float64
    def rescaled(self, shift: float, factor: float, *, key: Array) -> GPPosterior:
        """The posterior for outputs in other units, y' = (y − shift)/factor, with the draws carried over.

        Variances and noise of each draw are divided by factor², which leaves its fit to the data as it was. What differs is the
        prior, which now sees other numbers: SMC reweights by the ratio of the two posterior densities and, if too few draws are
        left, takes them from the one prior to the other by degrees. Other methods refit from the draws.
        """
        if not (np.isfinite(shift) and np.isfinite(factor) and factor > 0):
            raise InputError(f"a change of units needs a finite shift and a positive factor; got {shift!r} and {factor!r}.")
        started = time.perf_counter()
        noise = None if self.data.noise is None else self.data.noise / factor**2
        data = Dataset(self.data.x, (self.data.y - shift) / factor, noise)
        prior = self.surrogate.prior
        moved = jnp.asarray(2.0 * np.log(factor) * _is_variance(prior))
        z = self.z - moved
        config = self.surrogate.inference
        if self.particles is None or not isinstance(config, SMC):
            return _batch_posterior(self.surrogate, data, replace(self, z=z)._starts(key), key, started)
        padded = pad(data, self.padded.y.shape[0])
        path = partial(paths.from_old_units, prior, padded, paths.noise_border(prior, z, padded), moved)
        # The likelihoods differ by what does not scale with the draws: the shift, a trend, a variance that is given.
        before, _ = look(self.z, paths.posterior(prior, self.padded))
        (first, _), (last, _) = look(z, path(0.0)), look(z, path(1.0))
        begun, info = reweight(eqx.tree_at(lambda p: p.z, self.particles, z), first - before)
        if float(begun.ess) < COLLAPSE * self.num_draws:
            fresh = self.surrogate.fit(data, key=key)
            extra = {**fresh.diagnostics.extra, "history": (*self._history, *fresh._history)}
            return replace(fresh, diagnostics=replace(fresh.diagnostics, extra=extra))
        particles, weighed = reweight(begun, last - first)
        if health(particles.log_weights, strata_of(z, path(1.0)), config.share) < config.threshold:
            particles, weighed = bridge(begun, path, config.for_evidence(), key, last - first)  # rare, so thorough
        return _smc_posterior(self.surrogate, data, padded, particles, info + weighed, self._history, started)

    @float64
    def checked(self, *, key: Array, x: ArrayLike | None = None) -> GPPosterior:
        """Compare with a fresh tempered run on the same data; where they disagree beyond Monte-Carlo error, the fresh one.

        Compared are the evidence and the predictive mean at x (64 points of the unit cube if not given), each against the
        standard error of both runs. What was found stands in the diagnostics, under extra["guard"].
        """
        self._smc_state("the guard")
        fit_key, point_key = jax.random.split(key)
        fresh = self.surrogate.fit(self.data, key=fit_key)
        points = jax.random.uniform(point_key, (64, self.data.num_dims), jnp.float64) if x is None else x
        found = agreement(self, fresh, points)
        kept = self if found.agrees else fresh
        summary = replace(
            kept.diagnostics,
            extra={**kept.diagnostics.extra, "guard": found, "history": (*self._history, fresh.diagnostics.extra["info"])},
        )
        return replace(kept, diagnostics=summary)

    @property
    def _history(self) -> tuple[Info, ...]:
        return self.diagnostics.extra.get("history", ())

    def _starts(self, key: Array) -> Float[Array, "r p"]:
        """Where a refit begins: at this posterior's own draws, best first for MAP, at random for chains."""
        config = self.surrogate.inference
        num = _num_starts(config)
        if isinstance(config, Map):
            kept = self.z[: max(num // 2, 1)]
            if self.surrogate.start is not None:
                kept = jnp.concatenate([kept, self.surrogate.prior.to_vector(self.surrogate.start)[None]])
            fresh = self.surrogate.prior.sample_vectors(jax.random.fold_in(key, 1), max(num - len(kept), 0))
            return jnp.concatenate([kept, fresh])[:num]
        return self.z[jax.random.choice(jax.random.fold_in(key, 1), self.num_draws, (num,), p=jnp.asarray(self.weights))]

    def _points(self, x: ArrayLike) -> NDArray[np.float64]:
        points = np.asarray(x, dtype=np.float64)
        if points.ndim != 2 or points.shape[1] != self.data.num_dims:
            raise DataError(f"x must have shape (m, {self.data.num_dims}) like the data; got {points.shape}. Reshape it.")
        if not np.isfinite(points).all():
            raise DataError(f"x must be finite; got {np.argwhere(~np.isfinite(points))[0].tolist()} as first bad index.")
        return points


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


def _is_variance(prior: Prior) -> NDArray[np.float64]:
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


def _smc_posterior(
    surrogate: GPSurrogate,
    data: Dataset,
    padded: Padded,
    particles: Particles,
    info: Info,
    history: tuple[Info, ...],
    started: float,
    seen: Conditioned | None = None,
) -> GPPosterior:
    """Put a posterior together, factorising anew where the particles have moved."""
    if seen is None:
        seen = over_draws(draw_condition, particles.z, surrogate.prior, padded)
    z, seen, log_weights, failed = _bury(particles.z, seen, particles.log_weights)
    particles = eqx.tree_at(lambda p: (p.z, p.log_weights), particles, (z, log_weights))
    ess = particles.ess
    summary = Diagnostics(
        method="smc",
        num_draws=len(log_weights),
        seconds=time.perf_counter() - started,
        ess_bulk={"particles": ess},
        jitter=float(jnp.max(seen.jitter)),
        failed_draws=failed,
        extra={"history": (*history, info), "info": info},
    )
    return GPPosterior(surrogate, data, padded, particles.z, log_weights, seen, summary, particles)


def _num_starts(config: Inference) -> int:
    if isinstance(config, SMC):
        return config.particles
    return config.restarts if isinstance(config, Map) else config.chains


def _batch_posterior(surrogate: GPSurrogate, data: Dataset, starts: Array, key: Array, started: float) -> GPPosterior:
    """A posterior from a whole run of MAP, HMC or NUTS."""
    padded = pad(data)
    target = Target(surrogate.prior, padded)
    if isinstance(surrogate.inference, Map):
        modes = find_modes(target, starts, surrogate.inference)
        z = jnp.asarray(modes.z[:1])
        alone = not surrogate.inference.prior
        summary = Diagnostics("ml" if alone else "map", 1, 0.0, extra={"modes": modes})
        if alone and (p := surrogate.prior.size) > data.num_observations:
            few = f"{data.num_observations} observations do not determine {p} parameters: maximum likelihood takes one of many"
            summary = replace(summary, messages=(f'{few} optima and is too sure of it. "smc" averages over them.',))
    elif isinstance(surrogate.inference, HMC | NUTS):
        chains = sample(target, starts, key, surrogate.inference)
        z = jnp.asarray(chains.z.reshape(-1, chains.z.shape[-1]))
        num_chains, num_draws = chains.z.shape[:2]
        likelihood, noise, first = over_draws(invariants, z, surrogate.prior, padded)
        quantities = {"log_likelihood": likelihood, "noise": noise, "f": first}
        quantities = {name: np.asarray(v).reshape(num_chains, num_draws) for name, v in quantities.items()}
        rhat, bulk, tail = diagnose.summarise(quantities)
        divergences = int(np.sum(chains.divergent))
        name = type(surrogate.inference).__name__.lower()
        messages = diagnose.messages(rhat, bulk, tail, chains=chains)
        extra = {"chains": chains, "quantities": quantities}
        summary = Diagnostics(name, len(z), 0.0, rhat, bulk, tail, divergences, messages=messages, extra=extra)
    else:
        raise InputError(f"a batch run needs Map, HMC or NUTS; got {type(surrogate.inference).__name__}.")
    seen = over_draws(draw_condition, z, surrogate.prior, padded)
    z, seen, log_weights, failed = _bury(z, seen, jnp.full(len(z), -jnp.log(len(z))))
    seconds = time.perf_counter() - started
    summary = replace(summary, seconds=seconds, failed_draws=failed, jitter=float(jnp.max(seen.jitter)))
    return GPPosterior(surrogate, data, padded, z, log_weights, seen, summary)


def _bury(z: Array, seen: Conditioned, log_weights: Array) -> tuple[Array, Conditioned, Array, int]:
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


def _grow(seen: Conditioned, size: int) -> Conditioned:
    extra = size - seen.whitened.shape[-1]
    if extra == 0:
        return seen
    return Conditioned(grow_padding(seen.factor, size), jnp.pad(seen.whitened, ((0, 0), (0, extra))), seen.jitter)
