"""The deep GP as a surrogate: its settings, and the chains that turn data into a `DeepPosterior`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from hyperleaf.data import Dataset
from hyperleaf.errors import DataError, InputError
from hyperleaf.inference.diagnostics import BAD_RHAT, summarise
from hyperleaf.parallel import one_blas_thread
from hyperleaf.surrogates.base import Diagnostics, Surrogate, numpy_generator
from hyperleaf.surrogates.deep.gaussian import CORRELATIONS, JITTER, Array, Kernel
from hyperleaf.surrogates.deep.posterior import DeepPosterior, Draws
from hyperleaf.surrogates.deep.sampler import GammaPrior, Info, Model, State, extend_state, make_state, sweep


@dataclass(frozen=True)
class DeepGP(Surrogate):
    """A GP of one, two or three layers, fully Bayesian by Markov chain Monte Carlo (Sauer, Gramacy and Higdon 2023).

    With two layers: W has d columns, w_i ~ N(0, K_θw,i(X) + 1.5e-8 I), and y | W ~ N(0, τ²(K_θy(W) + gI)) with τ² integrated
    out. θ are squared lengthscales of isotropic kernels. Inputs lie in the unit cube, y is standardised.

    `sweeps` counts the whole chain; the first `burn_in` (by default half) are dropped and the rest thinned to `draws`,
    which the `chains` share. `update` goes on from the last states for `update_sweeps` (by default a fifth of `sweeps`, or
    all of them where a fifth would not yield the draws), again dropping the same fraction.

    `fixed_noise` holds g, the noise variance *relative to τ²*, at a value. Where the data come with known noise variances,
    these give the noise's pattern over the observations (scaled to mean 1) and g its level.

    Priors are (shape, rate) of Gamma distributions, by default those of R's deepgp 1.2: g (1.01, 10); θ_y (1.2, 1), or
    (1.2, 4) for one layer; hidden θ (1.2, 2) in every layer.
    """

    layers: int = 2
    kernel: Kernel = "matern52"
    sweeps: int = 10_000
    burn_in: int | None = None
    draws: int = 100
    update_sweeps: int | None = None
    chains: int = 1
    fixed_noise: float | None = None
    nugget_prior: tuple[float, float] = (1.01, 10.0)
    theta_prior: tuple[float, float] | None = None
    hidden_prior: tuple[float, float] = (1.2, 2.0)
    start_theta: float = 0.01
    start_hidden: float = 0.1
    start_nugget: float = 0.001

    least_observations: ClassVar[int] = 2

    def __post_init__(self) -> None:
        if self.layers not in (1, 2, 3):
            raise InputError(f"layers must be 1, 2 or 3; got {self.layers}.")
        if self.kernel not in CORRELATIONS:
            raise InputError(f"kernel must be one of {sorted(CORRELATIONS)}; got {self.kernel!r}.")
        for name in ("sweeps", "draws", "chains"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} must be at least 1; got {getattr(self, name)}.")
        if self.draws % self.chains:
            raise InputError(f"draws must divide evenly among the chains; got {self.draws} draws and {self.chains} chains.")
        if self.burn_in is not None and not 0 <= self.burn_in < self.sweeps:
            raise InputError(f"burn_in must lie between 0 and sweeps − 1 = {self.sweeps - 1}; got {self.burn_in}.")
        for name, total in (("sweeps", self.sweeps), ("update_sweeps", self._update_sweeps())):
            kept = total - self._dropped(total)
            if kept * self.chains < self.draws:
                raise InputError(
                    f"{name} must leave at least one sweep per draw after burn-in; {kept} are left for {self.draws} draws "
                    f"in {self.chains} chain(s). Raise {name} or keep fewer draws."
                )
        if self.fixed_noise is not None and not 0.0 <= self.fixed_noise < np.inf:
            raise InputError(f"fixed_noise, a variance relative to τ², must be ≥ 0 and finite; got {self.fixed_noise}.")
        priors = {"nugget_prior": self.nugget_prior, "theta_prior": self._theta_prior(), "hidden_prior": self.hidden_prior}
        for name, pair in priors.items():
            if min(pair) <= 0.0:
                raise InputError(f"{name} must be a positive shape and rate; got {pair}.")
        for name in ("start_theta", "start_hidden", "start_nugget"):
            if not getattr(self, name) > 0.0:
                raise InputError(f"{name} must be > 0; got {getattr(self, name)}.")

    def fit(self, data: Dataset, *, key: Any) -> DeepPosterior:
        """Sample the posterior from the standard start: W = X, θ_y = 0.01, θ_w = 0.1, g = 0.001."""
        return self.sample(data, key=key)

    @one_blas_thread()
    def sample(self, data: Dataset, *, key: Any, warm: Sequence[State] | None = None) -> DeepPosterior:
        """Run the chains, from the standard start or from `warm` states of a shorter data set."""
        if data.num_observations < self.least_observations:
            least = self.least_observations
            raise DataError(f"a deep GP needs at least {least} observations; got {data.num_observations}. Add some.")
        began, rng = time.perf_counter(), numpy_generator(key)
        # C order, as a file gives arrays back: sums in another order would differ in their last bits.
        data = Dataset(np.ascontiguousarray(data.x), np.ascontiguousarray(data.y), data.noise)
        model = self.model(data)
        sweeps = self.sweeps if warm is None else self._update_sweeps()
        runs = []
        for chain, generator in enumerate(rng.spawn(self.chains)):
            state = self._start(model, generator, chain) if warm is None else extend_state(model, warm[chain])
            runs.append(_run(state, model, generator, sweeps, self._dropped(sweeps), self.draws // self.chains))
        draws = _stack([state for run in runs for state in run.kept])
        diagnostics = _diagnose(runs, f"deep GP, {self.layers} layers, {sweeps} sweeps", time.perf_counter() - began)
        n, d = data.x.shape
        if self.layers > 1 and n <= d + 1:
            few = f"a plane fits {n} observations in {d} dimensions: they hardly tell a warp from none, and the hidden layers"
            diagnostics = replace(diagnostics, messages=(f"{few} stay close to their prior.", *diagnostics.messages))
        return DeepPosterior(self, data, draws, tuple(run.last for run in runs), diagnostics)

    def model(self, data: Dataset) -> Model:
        """The posterior density that the sampler works on."""
        silent = data.noise is not None and not data.noise.any()
        return Model(
            x=data.x,
            y=data.y,
            correlation=CORRELATIONS[self.kernel],
            hidden_priors=(GammaPrior(*self.hidden_prior),) * (self.layers - 1),
            theta_prior=GammaPrior(*self._theta_prior()),
            nugget_prior=GammaPrior(*self.nugget_prior),
            sample_nugget=self.fixed_noise is None and not silent,
            noise_pattern=self.noise_pattern(data),
        )

    def noise_pattern(self, data: Dataset) -> float | Array:
        """Relative noise variances of the observations, with mean 1; 1 where they are alike."""
        if data.noise is None or not data.noise.any():
            return 1.0
        return data.noise / data.noise.mean()

    def _start(self, model: Model, rng: np.random.Generator, chain: int) -> State:
        # Further chains start their scales elsewhere, so that R-hat can see a chain that has not moved.
        def spread() -> float:
            return 1.0 if chain == 0 else float(np.exp(rng.standard_normal()))

        nugget = self.start_nugget * spread() if model.sample_nugget else max(self.fixed_noise or 0.0, JITTER)
        columns = model.x.shape[1]
        hidden = tuple(np.array(model.x, order="F") for _ in range(self.layers - 1))
        scales = tuple(tuple(self.start_hidden * spread() for _ in range(columns)) for _ in hidden)
        return make_state(model, hidden, scales, self.start_theta * spread(), nugget)

    def _theta_prior(self) -> tuple[float, float]:
        return self.theta_prior if self.theta_prior is not None else (1.2, 4.0 if self.layers == 1 else 1.0)

    def _update_sweeps(self) -> int:
        if self.update_sweeps is not None:
            return self.update_sweeps
        fewer = self.sweeps // 5
        return fewer if (fewer - self._dropped(fewer)) * self.chains >= self.draws else self.sweeps

    def _dropped(self, sweeps: int) -> int:
        return sweeps // 2 if self.burn_in is None else self.burn_in * sweeps // self.sweeps


def deep(d: int, noise: str, **options: Any) -> DeepGP:
    """By its name: `make_surrogate("deep", 2, layers=2)`."""
    return DeepGP(**options)


@dataclass(frozen=True)
class _Run:
    """One chain: kept states, its last state, and per sweep after burn-in the traced quantities."""

    kept: list[State]
    last: State
    traces: dict[str, Array]
    updates: dict[str, list[Info]]


def _run(state: State, model: Model, rng: np.random.Generator, sweeps: int, burn_in: int, draws: int) -> _Run:
    stride = (sweeps - burn_in) // draws
    kept: list[State] = []
    traces = np.empty((3, sweeps - burn_in))
    updates: dict[str, list[Info]] = {}
    for i in range(sweeps):
        state, info = sweep(state, model, rng)
        for name, one in info.items():
            updates.setdefault(name, []).extend(one)
        if i >= burn_in:
            traces[:, i - burn_in] = state.log_likelihood, state.nugget, state.theta
            if (sweeps - 1 - i) % stride == 0 and (sweeps - 1 - i) // stride < draws:
                kept.append(state._replace(squared=(), factors=()))
    return _Run(kept, state, dict(zip(("log_likelihood", "nugget", "theta"), traces, strict=True)), updates)


def _stack(states: list[State]) -> Draws:
    layers = range(len(states[0].hidden))
    return Draws(
        hidden=tuple(np.ascontiguousarray(np.stack([state.hidden[layer] for state in states])) for layer in layers),
        scales=tuple(np.array([state.scales[layer] for state in states]) for layer in layers),
        theta=np.array([state.theta for state in states]),
        nugget=np.array([state.nugget for state in states]),
    )


def _diagnose(runs: list[_Run], method: str, seconds: float) -> Diagnostics:
    traces = {name: np.stack([run.traces[name] for run in runs]) for name in runs[0].traces}
    rhat, ess, tail = summarise({name: trace for name, trace in traces.items() if trace.shape[1] >= 4 and np.ptp(trace) > 0.0})
    updates = {name: [one for run in runs for one in run.updates[name]] for name in runs[0].updates}
    extra = {
        "acceptance": {
            name: float(np.mean([one.accepted for one in infos])) for name, infos in updates.items() if infos and name != "nodes"
        },
        "slice_evaluations": float(np.mean([one.evaluations for one in updates["nodes"]])) if updates["nodes"] else 0.0,
        "singular_proposals": sum(one.failures for infos in updates.values() for one in infos),
    }
    messages = tuple(
        f"{name}: R-hat {value:.2f} over {len(runs)} chain(s); the chains have not mixed, run more sweeps or more chains."
        for name, value in rhat.items()
        if value > BAD_RHAT
    )
    num_draws = sum(len(run.kept) for run in runs)
    return Diagnostics(method, num_draws, seconds, rhat, ess, tail, jitter=JITTER, messages=messages, extra=extra)
