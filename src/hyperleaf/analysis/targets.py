"""Where an output is best, and where it lies above a limit: answered by functions of the posterior, so with probabilities.

Neither is an optimiser by first calling. Both look at candidates that fill the domain, some of them gathered where the best may
be; what lies between them is known only as far as the surrogate is smooth there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hyperleaf.analysis.functions import functions_of
from hyperleaf.analysis.inputs import Inputs, interval, named, one_model
from hyperleaf.checks import whole_number
from hyperleaf.domain.sobol import sobol
from hyperleaf.errors import InputError
from hyperleaf.exports.base import models_of
from hyperleaf.exports.ingredients import Values

if TYPE_CHECKING:
    from hyperleaf.mixture import Mixture
    from hyperleaf.study.files import Model

Limits = tuple[float | None, float | None]
SHOWN, GATHERED, ROUNDS = 5, 256, 3


@dataclass(frozen=True)
class Candidate:
    """A point, what is expected there, how probable it is that all limits hold, and that it is the best of all candidates."""

    point: dict[str, Any]
    mean: float
    std: float
    admissible: float
    best: float


@dataclass(frozen=True)
class Optimum:
    """`recommended` has the best expected value among points that are admissible with the probability asked for. `value` is what
    the best of all candidates may reach, with its 95 % interval; `gap` what is lost in expectation by taking the recommended one.
    `next_run` is where one more run is worth most, and `worth` by how much it is expected to raise the value that is recommended
    then; zero if nothing can be gained."""

    output: str
    unit: str
    recommended: Candidate
    candidates: tuple[Candidate, ...]
    value: tuple[float, float, float]
    gap: float
    next_run: dict[str, Any]
    worth: float
    messages: tuple[str, ...] = field(default=())


def optimum(
    held: Any,
    *,
    maximize: str | None = None,
    minimize: str | None = None,
    subject_to: Mapping[str, Limits] | None = None,
    confidence: float = 0.9,
    candidates: int = 2048,
    functions: int = 256,
    seed: int = 0,
) -> Optimum:
    """Where an output is largest or smallest, subject to limits (low, high) on others (or on itself), None for no limit.

    `confidence` is how probable it must be that the recommended point keeps all limits.
    """
    if (maximize is None) == (minimize is None):
        raise InputError(f"name one output, either to maximize or to minimize; got {maximize!r} and {minimize!r}.")
    if not 0 < confidence < 1:
        raise InputError(f"confidence is a probability between 0 and 1; got {confidence!r}.")
    whole_number("candidates", candidates, 16)
    models = models_of(held)
    model = named(models, maximize if maximize is not None else minimize)
    sign = 1.0 if maximize is not None else -1.0
    limits = {name: (named(models, name), *_pair(name, pair)) for name, pair in (subject_to or {}).items()}
    domain = model.domain
    unit = domain.to_unit(domain.design(candidates, "sobol", seed))
    rng = np.random.default_rng(seed)
    for turn in range(ROUNDS):  # gather more of them where the best may be
        mixture = model.learned.predict(unit)
        score = sign * _mean(mixture) + _std(mixture)
        score = np.where(_admissible(limits, unit) > 0.1, score, -np.inf)
        near = unit[np.argsort(-score)[:16]]
        moved = near[rng.integers(len(near), size=GATHERED)] + 0.1 * 0.4**turn * rng.standard_normal((GATHERED, unit.shape[1]))
        moved = domain.snap(np.clip(moved, 0.0, 1.0))
        moved = moved[domain.feasible_unit(moved)] if len(domain.constraints) else moved
        unit = np.unique(np.concatenate([unit, moved]), axis=0)
    mixture = model.learned.predict(unit)
    mean, std, chance = _mean(mixture), _std(mixture), _admissible(limits, unit)
    drawn = functions_of(model, functions, seed)
    values = sign * drawn(unit)
    allowed = np.ones_like(values, dtype=bool)
    for k, (other, low, high) in enumerate(limits.values()):
        at = drawn(unit) if other is model else functions_of(other, functions, seed + k + 1)(unit)
        allowed &= (at >= low) & (at <= high)
    messages = list(drawn.messages)
    inside = np.where(allowed, values, -np.inf)
    possible = np.isfinite(inside).any(axis=1)
    if not possible.any():
        raise InputError("no candidate keeps all limits under any function of the posterior. Loosen subject_to.")
    winners = np.argmax(inside[possible], axis=1)
    best = np.bincount(winners, minlength=len(unit)) / len(winners)
    if possible.mean() < 1:
        messages.append(f"under {100 * (1 - possible.mean()):.0f} % of the functions no candidate keeps all limits.")
    sure = chance >= confidence
    if not sure.any():
        messages.append(f"no candidate keeps all limits with probability {confidence:g}; the most probable one is recommended.")
    top = int(np.argmax(np.where(sure, sign * mean, -np.inf)) if sure.any() else np.argmax(chance))
    reached = inside[possible].max(axis=1)
    ends = interval(sign * reached)
    gap = float(np.mean(np.maximum(reached - values[possible, top], 0.0)))
    place, worth = _one_more(model, sign, unit, top, chance)

    def described(i: int) -> Candidate:
        point = domain.from_unit(unit[i : i + 1])[0]
        return Candidate(point, float(mean[i]), float(std[i]), float(chance[i]), float(best[i]))

    order = [int(i) for i in np.argsort(-best, kind="stable")[:SHOWN] if best[i] > 0]
    return Optimum(
        model.output,
        model.unit,
        described(top),
        tuple(described(i) for i in order),
        (float(np.mean(sign * reached)), float(ends[0]), float(ends[1])),
        gap,
        domain.from_unit(unit[place : place + 1])[0],
        worth,
        tuple(messages),
    )


def _one_more(model: Model, sign: float, unit: Values, top: int, chance: Values) -> tuple[int, float]:
    """Where one more run is worth most: the knowledge gradient between a candidate and the recommended point, under each draw."""
    from scipy.special import ndtr

    posterior, scale = model.learned.posterior, model.learned.scale.scale
    joint = posterior.joint(unit, unit[top : top + 1])
    weights, cov = np.asarray(joint.weights), np.asarray(joint.cov)[:, :, 0]
    noise = np.asarray(joint.noise_at_x)
    spread = np.abs(np.asarray(joint.var_x) - cov) / np.sqrt(np.maximum(np.asarray(joint.var_x) + noise, 1e-12))
    ahead = sign * (weights @ np.asarray(joint.mean_x) - (weights @ np.asarray(joint.mean_r))[0])
    behind = -np.abs(ahead) / np.maximum(spread, 1e-12)
    gain = weights @ (spread * (np.exp(-0.5 * behind**2) / np.sqrt(2 * np.pi) + behind * ndtr(behind)))
    gain = np.where(chance > 0, chance * gain, 0.0)
    place = int(np.argmax(gain))
    return place, float(scale * gain[place])


def _mean(mixture: Mixture) -> Values:
    return np.asarray(mixture.weights) @ np.asarray(mixture.means)


def _std(mixture: Mixture) -> Values:
    weights, means = np.asarray(mixture.weights), np.asarray(mixture.means)
    return np.sqrt(weights @ (np.asarray(mixture.variances) + (means - weights @ means) ** 2))


def _between(mixture: Mixture, low: float, high: float) -> Values:
    """P(low ≤ f ≤ high)."""
    from scipy.special import ndtr

    means, std = np.asarray(mixture.means), np.sqrt(np.maximum(np.asarray(mixture.variances), 1e-300))
    return np.asarray(mixture.weights) @ (ndtr((high - means) / std) - ndtr((low - means) / std))


def _admissible(limits: Mapping[str, tuple[Model, float, float]], unit: Values) -> Values:
    """The probability that all limits hold; outputs are learned apart, so they count as independent."""
    chance = np.ones(len(unit))
    for other, low, high in limits.values():
        chance = chance * _between(other.learned.predict(unit), low, high)
    return chance


def _pair(name: str, pair: Any) -> tuple[float, float]:
    try:
        low, high = pair
        found = (-np.inf if low is None else float(low), np.inf if high is None else float(high))
    except (TypeError, ValueError):
        raise InputError(f"a limit is a pair (low, high) with None for none; got {pair!r} for {name!r}.") from None
    if not found[0] < found[1]:
        raise InputError(f"a limit must have low < high; got {pair!r} for {name!r}.")
    return found


@dataclass(frozen=True)
class LevelSet:
    """Where an output lies above (or below) a limit. `share` of the domain, posterior mean and 95 % interval; `doubtful` the
    share where the probability lies between 5 and 95 %, and `error` the share that is expected to be on the wrong side if each
    point is put where it more probably is."""

    output: str
    limit: float
    above: bool
    share: tuple[float, float, float]
    doubtful: float
    error: float
    model: Model = field(repr=False)
    messages: tuple[str, ...] = field(default=())

    def probability(self, points: Any) -> NDArray[np.float64]:
        """That the latent output lies in the set at each of the points, in native units."""
        mixture = self.model.predict(points)
        return _between(mixture, *((self.limit, np.inf) if self.above else (-np.inf, self.limit)))


def level_set(
    held: Any,
    output: str | None = None,
    *,
    above: float | None = None,
    below: float | None = None,
    inputs: Mapping[str, Any] | None = None,
    samples: int = 4096,
    functions: int = 256,
    seed: int = 0,
) -> LevelSet:
    """Where an output is above or below a limit, in native units; over the domain, or as distributions in `inputs` say."""
    if (above is None) == (below is None):
        raise InputError(f"give one limit, either above or below; got {above!r} and {below!r}.")
    limit = _number("limit", above if above is not None else below)
    model = one_model(held, output)
    varied = Inputs(model.domain, inputs)
    unit = varied.unit(sobol(whole_number("samples", samples, 16), max(len(varied.varying), 1), seed)[:, : len(varied.varying)])
    drawn = functions_of(model, whole_number("functions", functions, 2), seed)
    values = drawn(unit)
    shares = np.mean(values > limit if above is not None else values < limit, axis=1)
    chance = _between(model.learned.predict(unit), *((limit, np.inf) if above is not None else (-np.inf, limit)))
    low, high = interval(shares)
    return LevelSet(
        model.output,
        limit,
        above is not None,
        (float(shares.mean()), float(low), float(high)),
        float(np.mean((chance > 0.05) & (chance < 0.95))),
        float(np.mean(np.minimum(chance, 1 - chance))),
        model,
        (*drawn.messages, *varied.messages),
    )


def _number(name: str, value: ArrayLike | None) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not np.isfinite(value):
        raise InputError(f"{name} must be a finite number; got {value!r}.")
    return float(value)
