"""What is believed of a Gaussian process after data: weighted draws of its parameters, each with the factor of its covariance.

So predicting is cheap, and adding an observation costs O(n²) a draw for as long as the draws can stay where they are.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import ArrayLike, NDArray

from hyperleaf.data import Dataset
from hyperleaf.errors import DataError, InferenceError, InputError
from hyperleaf.gp import GP, Conditioned, Padded, differs
from hyperleaf.inference.base import Drawn
from hyperleaf.inference.smc import Info, Particles
from hyperleaf.kernels import Partition
from hyperleaf.mixture import Mixture
from hyperleaf.native import Draws, core_of, draws_of
from hyperleaf.native.predictions import INFORMATION, SQUARES
from hyperleaf.parallel import over_draws
from hyperleaf.precision import float64, put
from hyperleaf.surrogates.base import FLOOR, Diagnostics, Evidence, Joint, Posterior, Slopes, Traced, by_candidate
from hyperleaf.surrogates.gp.ahead import Ahead, continues
from hyperleaf.surrogates.gp.draws import (
    CANDIDATES,
    MANY,
    chunks,
    density,
    draw_gram,
    draw_joint,
    draw_moments,
    draw_noise_at,
    draw_sample,
    pad_points,
    traced_joint,
    traced_moments,
    traced_noise,
    trimmed,
)
from hyperleaf.surrogates.gp.guard import checked
from hyperleaf.surrogates.gp.problem import GPProblem, is_variance, noise_of
from hyperleaf.surrogates.gp.room import cost_of
from hyperleaf.surrogates.validation import Cavities, cavities_of_factors

if TYPE_CHECKING:
    from hyperleaf.surrogates.gp.surrogate import GPSurrogate


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
    particles: Particles | None = None  # what the method of inference carries on; None with those that run anew each time
    _last: list[tuple[NDArray[np.float64], Mixture]] = field(default_factory=list, init=False, repr=False, compare=False)
    _ahead: Ahead = field(default_factory=Ahead, init=False, repr=False, compare=False)

    @classmethod
    def of(cls, surrogate: GPSurrogate, data: Dataset, drawn: Drawn, started: float) -> GPPosterior:
        """From what a method of inference has drawn, begun at that time."""
        assert isinstance(drawn.problem, GPProblem)
        code = "jax" if core_of((drawn.problem.prior, drawn.problem.data)) is None else "machine"
        extra = {**drawn.diagnostics.extra, "code": code}
        messages = (*drawn.diagnostics.messages, *filter(None, [cost_of(data.num_observations)]))
        summary = replace(drawn.diagnostics, seconds=time.perf_counter() - started, messages=messages, extra=extra)
        return cls(surrogate, data, drawn.problem.data, drawn.z, drawn.log_weights, drawn.factors, summary, drawn.state)

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
        return self._evidence().log

    @property
    def log_evidence_std(self) -> float:
        """The Monte-Carlo standard error of `log_evidence`; a lower bound, since it takes the moves for perfect."""
        return self._evidence().std

    def evidence(self) -> Evidence | None:
        found = self.surrogate.inference.evidence_of(self.particles)
        return None if found is None else Evidence(*found)

    def _evidence(self) -> Evidence:
        found = self.evidence()
        if found is None:
            method = self.diagnostics.method
            raise InferenceError(f"the evidence comes with SMC only; this posterior is from {method}. Use SMC().")
        return found

    @float64
    def draw(self, index: int | None = None) -> GP:
        """One draw of the parameters with numbers in its fields; the one of highest posterior density if none is named."""
        if index is None:
            index = int(np.argmax(self._densities()))
        return self.surrogate.prior.numbers(np.asarray(self.z)[index])

    def _densities(self) -> NDArray[np.float64]:
        """The log posterior density (s,) of each draw."""
        if (draws := self._machine) is not None:
            return draws.densities()
        return np.asarray(over_draws(density, self.z, self._drawn.problem.target()))

    @float64
    def predict(self, x: ArrayLike) -> Mixture:
        """The latent f at x (m, d), one component per draw; `.noisy()` adds the observation noise.

        The last answer is kept: in a campaign the accuracy is measured at the points that were scored just before.
        """
        points = self._points(x)
        if self._last and np.array_equal(self._last[0][0], points):
            return self._last[0][1]
        mixture = Mixture(self.weights, *self._moments(points), self.noise(points))
        for array in (mixture.means, mixture.variances):
            np.asarray(array).flags.writeable = False  # the next who asks gets the same ones
        self._last[:] = [(points.copy(), mixture)] if len(points) <= CANDIDATES else []
        return mixture

    def _moments(self, points: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Latent mean and variance (s, m) of each draw."""
        if (draws := self._machine) is not None:
            return self._ahead.predict(draws, points)
        means, variances = [], []
        padded, seen = self.padded, self.seen
        if len(points) >= MANY:
            padded, seen = trimmed(padded, seen, self.data.num_observations)
        for chunk, real in chunks(points):
            mean, variance = over_draws(draw_moments, (self.z, seen), self.surrogate.prior, padded, chunk)
            means.append(np.asarray(mean)[:, :real])
            variances.append(np.asarray(variance)[:, :real])
        return np.concatenate(means, 1), np.concatenate(variances, 1)

    def predict_traced(self, x: Float[Array, "m d"]) -> Mixture:
        """`predict` as a JAX function that can be differentiated in x; for use under `float64`. Compiled once per shape."""
        mean, variance = traced_moments((self.z, self.seen), self.surrogate.prior, self.padded, x)
        return Mixture(jnp.asarray(self.weights), mean, variance, jnp.asarray(self._traced_noise(x)))

    def joint_traced(self, x: Float[Array, "m d"], r: Float[Array, "k d"]) -> Joint:
        """`joint` as a JAX function that can be differentiated in x and r; for use under `float64`."""
        parts = traced_joint((self.z, self.seen), self.surrogate.prior, self.padded, x, jnp.asarray(r))
        mean_x, var_x, mean_r, var_r, cov = parts
        return Joint(self.weights, mean_x, var_x, mean_r, var_r, cov, self._traced_noise(x))

    @float64
    def alc(self, candidates: ArrayLike, references: ArrayLike) -> NDArray[np.float64]:
        points, others = self._points(candidates), self._points(references)
        if (draws := self._machine) is None:
            return super().alc(points, others)
        found = draws.join(points, others, SQUARES)
        return self.weights @ (found.result / (found.variance + by_candidate(self.noise(points)) + FLOOR))

    @float64
    def information(self, candidates: ArrayLike, references: ArrayLike) -> NDArray[np.float64] | None:
        if (draws := self._machine) is None:
            return None
        noise = self.noise(candidates), self.noise(references)
        found = draws.join(self._points(candidates), self._points(references), INFORMATION, noise, FLOOR)
        return self.weights @ found.result

    @float64
    def slopes(self, x: ArrayLike) -> Slopes | None:
        if (draws := self._machine) is None:
            return None
        points = self._points(x)
        own = draws.noise_slopes(points) if self._differs else None
        return Slopes(self.weights, *draws.slopes(points), self.noise(points), own)

    @float64
    def fewer(self, num: int) -> GPPosterior:
        """At most `num` of the draws, each as often as its weight says when the sum of weights is cut into equal parts."""
        if num >= self.num_draws:
            return self
        edges = np.cumsum(self.weights)
        picks, times = np.unique(np.searchsorted(edges, (np.arange(num) + 0.5) / num * edges[-1]), return_counts=True)
        seen = Conditioned(*(np.asarray(part)[picks] for part in jax.tree.leaves(self.seen)))
        return replace(self, z=self.z[picks], log_weights=put(np.log(times / num)), seen=seen, particles=None)

    def traced(self) -> Traced:
        return Traced(self.predict_traced, self.joint_traced)

    def partition(self) -> Partition | None:
        kernel = self.draw().kernel
        return kernel if isinstance(kernel, Partition) and np.shape(kernel.gates.normal)[0] > 0 else None

    def before_data(self, x: ArrayLike, num: int, *, seed: int) -> Iterator[tuple[NDArray[np.float64], Any, int]]:
        points = self._points(x)
        noise = float64(self._learned_noise)(points)
        picks, times = np.unique(np.random.default_rng(seed).choice(self.num_draws, num, p=self.weights), return_counts=True)
        for pick, often in zip(picks, times, strict=True):
            yield self._gram(int(pick), points), noise[pick], int(often)

    @float64
    def _gram(self, index: int, points: NDArray[np.float64]) -> NDArray[np.float64]:
        m, padded = len(points), pad_points(points)
        return np.asarray(over_draws(draw_gram, self.z[index : index + 1], self.surrogate.prior, padded))[0, :m, :m]

    def cavities(self) -> Cavities:
        """Under each draw, every observation as the others predict it, from the factor of the draw's covariance."""
        return cavities_of_factors(self.data, self.weights, np.asarray(self.seen.factor), np.asarray(self.seen.whitened))

    @float64
    def noise(self, x: ArrayLike | None = None) -> NDArray[np.float64]:
        """The noise variance of a new observation under each draw (s,), or (s, m) at x where every leaf has its own (at the
        data if no x is given): what was learned, and the known one of the observations if that is the same for all of them."""
        return self._learned_noise(self.data.x if x is None else self._points(x)) + self._known_noise

    @property
    def _differs(self) -> bool:
        """Whether every leaf has its own noise."""
        return differs(self.surrogate.prior)

    def _learned_noise(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """(s,), or (s, m) where every leaf has its own."""
        if not self._differs:
            return noise_of(self.surrogate.prior, self.padded, self.z)
        if (draws := self._machine) is not None:
            return draws.noise_at(points)
        parts = []
        for chunk, real in chunks(points):
            parts.append(np.asarray(over_draws(draw_noise_at, self.z, self.surrogate.prior, chunk))[:, :real])
        return np.concatenate(parts, 1)

    def _traced_noise(self, x: Float[Array, "m d"]) -> Any:
        if not self._differs:
            return self.noise()
        return traced_noise(self.z, self.surrogate.prior, x) + self._known_noise

    @property
    def _known_noise(self) -> float:
        """That of all observations, if it is the same; else 0."""
        known = self.data.noise
        return float(known[0]) if known is not None and len(known) and np.ptp(known) <= 1e-9 * known[0] else 0.0

    @float64
    def joint(self, x: ArrayLike, r: ArrayLike) -> Joint:
        """Per-draw latent moments at x (m, d) and r (k, d), with the covariances between them."""
        points, references = self._points(x), self._points(r)
        if (draws := self._machine) is not None:
            found = draws.join(points, references)
            return Joint(
                self.weights, found.mean, found.variance, found.mean_r, found.variance_r, found.result, self.noise(points)
            )
        # Padded to a few sizes like `predict`, so that a shrinking pool does not compile anew at each query.
        padded_x, padded_r = pad_points(points), pad_points(references)
        m, k = len(points), len(references)
        values = over_draws(draw_joint, (self.z, self.seen), self.surrogate.prior, self.padded, padded_x, padded_r)
        mean_x, var_x, mean_r, var_r, cov = (np.asarray(v) for v in values)
        noise = self.noise(points)
        return Joint(self.weights, mean_x[:, :m], var_x[:, :m], mean_r[:, :k], var_r[:, :k], cov[:, :m, :k], noise)

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
        data, inference = self.data.append(x, y, noise), self.surrogate.inference
        drawn = inference.update(self.surrogate.problem(data, len(self.padded.y)), self._drawn, key)
        updated = GPPosterior.of(self.surrogate, data, drawn, started)
        count = self.data.num_observations
        grown = bool(self._ahead.kept) and continues(self.z, self.seen, count, updated.z, updated.seen)
        object.__setattr__(updated, "_ahead", self._ahead.handed_on(grown))
        if inference.is_check_due(len(updated.history)):
            return updated.checked(key=jax.random.fold_in(key, 2))
        return updated

    @float64
    def rescaled(self, shift: float, factor: float, *, key: Array) -> GPPosterior:
        """The posterior for outputs in other units, y' = (y − shift)/factor, with the draws carried over.

        Variances and noise of each draw are divided by factor², which leaves its fit to the data as it was. What differs is the
        prior, which now sees other numbers.
        """
        if not (np.isfinite(shift) and np.isfinite(factor) and factor > 0):
            raise InputError(f"a change of units needs a finite shift and a positive factor; got {shift!r} and {factor!r}.")
        started = time.perf_counter()
        noise = None if self.data.noise is None else self.data.noise / factor**2
        data = Dataset(self.data.x, (self.data.y - shift) / factor, noise)
        moved = jnp.asarray(2.0 * np.log(factor) * is_variance(self.surrogate.prior))
        problem = self.surrogate.problem(data, len(self.padded.y))
        drawn = self.surrogate.inference.carry_over(problem, self._drawn, moved, key)
        return GPPosterior.of(self.surrogate, data, drawn, started)

    @float64
    def checked(self, *, key: Array, x: ArrayLike | None = None) -> GPPosterior:
        """Compare with a fresh run on the same data; where they disagree beyond Monte-Carlo error, the fresh one.

        Compared are the evidence and the predictive mean at x (64 points of the unit cube if not given), each against the
        standard error of both runs. What was found stands in the diagnostics, under extra["guard"].
        """
        return checked(self, key, x)

    @property
    def history(self) -> tuple[Info, ...]:
        """What each update since the start has done; nothing with methods that run anew each time."""
        return self.diagnostics.extra.get("history", ())

    @property
    def _machine(self) -> Draws | None:
        """The draws in machine code, where that covers the model."""
        return draws_of(self.surrogate.prior, self.padded, self.z, self.seen)

    @property
    def _drawn(self) -> Drawn:
        problem = GPProblem(self.surrogate.prior, self.padded, self.surrogate.start)
        return Drawn(problem, self.z, self.log_weights, self.seen, self.diagnostics, self.particles)

    def _points(self, x: ArrayLike) -> NDArray[np.float64]:
        points = np.asarray(x, dtype=np.float64)
        if points.ndim != 2 or points.shape[1] != self.data.num_dims:
            raise DataError(f"x must have shape (m, {self.data.num_dims}) like the data; got {points.shape}. Reshape it.")
        if not np.isfinite(points).all():
            raise DataError(f"x must be finite; got {np.argwhere(~np.isfinite(points))[0].tolist()} as first bad index.")
        return points
