"""The next query, or the next batch, in native units and in one call: `suggest`.

A batch is greedy: each point is the best one given that the earlier ones, and all pending queries, will have been observed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from hyperleaf.acquisition import (
    Acquisition,
    Admission,
    Belief,
    Entropy,
    Points,
    Random,
    Referenced,
    as_acquisition,
)
from hyperleaf.checks import whole_number
from hyperleaf.data import Pool
from hyperleaf.domain import Domain, Point
from hyperleaf.errors import DataError, InadmissibleError, InputError, NotFittedYetError
from hyperleaf.machine.threefry import folded, seeded
from hyperleaf.optimize import Optimizer, Outwards, Problem, Rows, Scores, Shooting, Trials, as_optimizer, choose, repeats
from hyperleaf.precision import float64, put
from hyperleaf.surrogates.base import Posterior
from hyperleaf.surrogates.learned import Learned


@dataclass(frozen=True)
class Suggestion:
    """A point to ask for, in native units and in the unit cube: its score, its row if it comes from a pool, perhaps a note."""

    point: Point
    unit: NDArray[np.float64] = field(compare=False, repr=False)
    score: float
    index: int | None = None
    note: str = ""


def suggest(
    model: Any,
    where: Domain | Pool | None = None,
    acquisition: str | Acquisition = "entropy",
    n: int = 1,
    pending: Any = None,
    optimizer: str | Optimizer = "auto",
    seed: int = 0,
    weights: Sequence[float] | None = None,
    feasibility: Callable[[Rows], Scores] | None = None,
    admission: Admission | None = None,
) -> list[Suggestion]:
    """The n points at which an observation is worth most.

    `model` is a posterior, one together with its output scale (`Learned`), or a fitted estimator (whose `domain_` is the default
    of `where`). `pending` are queries without an output yet: Suggestions, points in native units, or rows of the pool. A pool is
    scored row by row; `optimizer` says how a domain is searched: "auto", "exhaustive", "random", "sobol", "lhs", "local",
    "cmaes", "gradients", or an `Optimizer`. The same arguments give the same answer. A point that is finished, pending or picked
    already is suggested again only if outputs are noisy and nothing new scores higher; the suggestion's `note` then says so.

    Several outputs are given as a list of models of the same inputs, each counted by its share in `weights` (equal ones if none
    are given). `feasibility` gives the probability that a run succeeds at rows of the unit cube: what an observation is worth,
    beyond what noise alone would be worth, is multiplied by it. With an `admission` only points that it admits are suggested,
    each counting for the ones after it; an `InadmissibleError` says that there are none, and names the safest.
    """
    models = list(model) if isinstance(model, list | tuple) else [model]
    if not models:
        raise InputError("suggest needs at least one model; got an empty list.")
    read = [read_model(one, where) for one in models]
    begun, where = [belief for belief, _ in read], read[0][1]
    posteriors = [belief.posterior for belief in begun]
    shares = _read_weights(weights, len(models))
    domain = where.domain if isinstance(where, Pool) else where
    criterion = as_acquisition(acquisition).at_hand(posteriors[0].data)
    for name, value, least in (("n", n, 1), ("seed", seed, 0)):
        whole_number(name, value, least)
    for posterior in posteriors:
        if domain.num_dims != posterior.data.num_dims:
            raise InputError(
                f"the domain must have as many unit columns as the data the model was fitted to; got {domain.num_dims} and "
                f"{posterior.data.num_dims}. Pass the domain with which the data were scaled."
            )
    waiting, taken = read_pending(pending, where)
    if isinstance(where, Pool):
        where = where.without(taken)
        if len(where.remaining) < n:
            raise DataError(
                f"a pool must have as many candidates left as are asked for; {len(where.remaining)} of {len(where)} are left and "
                f"n is {n}. Ask for fewer, or add candidates."
            )
    criterion = with_references(criterion, where, int(seed))
    if isinstance(criterion, Random) and optimizer == "auto":
        optimizer = Shooting("uniform", 256)  # any one of them is as good; climbing would only chase chance
    noises = [_noise(posterior) for posterior in posteriors]
    beliefs = tuple(belief.given(waiting) for belief in begun)
    uncertain = feasibility is not None and isinstance(criterion, Entropy)
    floors = tuple(_floor(posterior) if uncertain else 0.0 for posterior in posteriors)
    worth = _Worth(criterion, beliefs, shares, floors, feasibility)
    found: list[Suggestion] = []
    for i in range(n):
        key = seeded(int(seed), i)

        def score(unit: Rows, worth: _Worth = worth, key: Any = key) -> Scores:
            return worth.score(unit, key)

        finished = np.concatenate([*(posterior.data.x for posterior in posteriors), worth.beliefs[0].points])
        index = None
        if isinstance(where, Pool):
            rows = where.remaining
            # All rows are scored, so that a posterior is asked for one and the same pool by everyone who looks at it.
            if admission is not None:
                sure = admission.probability(where.unit)[rows]
                admitted = admission.among(where.unit[rows], sure)
                _check_admitted(admission, where.unit[rows], sure, admitted, finished, domain, max(noises))
                rows = rows[admitted]
            trials = Trials(where.unit[rows], score(where.unit)[rows])
            place, note = choose(trials, finished, noise=max(noises), informed=criterion.uses_model)
            index = int(rows[place])
            where = where.without(index)
            point = where.points(index)[0]
        else:
            pick_seed = int(np.random.SeedSequence((int(seed), i)).generate_state(1)[0])
            if admission is None:
                problem = Problem(domain, score, worth.gradient(), pick_seed, coarse=criterion.coarse)
                trials = as_optimizer(optimizer, problem).search(problem)
            else:
                problem = Problem(domain, score, None, pick_seed)
                trials = _admitted_trials(admission, problem, optimizer, finished, max(noises))
            place, note = choose(trials, finished, noise=max(noises), informed=criterion.uses_model)
            point = domain.from_unit(trials.unit[[place]])[0]
        unit = trials.unit[place]
        found.append(Suggestion(point, unit, float(trials.scores[place]), index, note))
        if i + 1 < n:
            worth = replace(worth, beliefs=tuple(belief.given(unit[None]) for belief in worth.beliefs))
            admission = None if admission is None else admission.after(unit)
    return found


def _admitted_trials(admission: Admission, problem: Problem, optimizer: str | Optimizer, finished: Rows, noise: float) -> Trials:
    """What a search finds among the points that may be asked; by another optimizer than "auto" or "local", what it happens to
    find of them too."""
    outwards = Outwards(admission.admits, admission.kept)
    trials = outwards.search(problem)
    if optimizer not in ("auto", "local"):

        def masked(unit: Rows) -> Scores:
            return np.where(admission.admits(unit), problem.score(unit), -np.inf)

        more = as_optimizer(optimizer, problem).search(replace(problem, score=masked))
        usable = np.isfinite(more.scores)
        trials = trials.and_(Trials(more.unit[usable], more.scores[usable]))
    if not len(trials.unit) or (noise <= 0 and repeats(trials.unit, finished).all()):
        rows = outwards.shots(problem)
        _check_admitted(admission, rows, admission.probability(rows), np.zeros(len(rows), bool), finished, problem.domain, noise)
    return trials


def _check_admitted(
    admission: Admission,
    rows: Rows,
    sure: Scores,
    admitted: NDArray[np.bool_],
    finished: Rows,
    domain: Domain,
    noise: float,
) -> None:
    """An InadmissibleError with the safest rows, if none that could be asked is admitted."""
    if admitted.any() and (noise > 0 or not repeats(rows[admitted], finished).all()):
        return
    raise InadmissibleError(*refusal(admission, rows, sure, finished, domain))


def refusal(
    admission: Admission, rows: Rows, sure: Scores, finished: Rows, domain: Domain, num: int = 3
) -> tuple[str, list[tuple[Point, float]]]:
    """Why nothing is asked, in words, and the safest rows that are new, those that ramps reach first."""
    trials = Trials(rows, np.where(repeats(rows, finished), -np.inf, sure - 2.0 * ~admission.reached(rows))).spread(num)
    chances = admission.probability(trials.unit)
    usable = np.isfinite(trials.scores)
    points = domain.from_unit(trials.unit[usable])
    safest = [(point, float(chance)) for point, chance in zip(points, chances[usable], strict=True)]
    need = f"a query must keep all limits with a probability of at least {1 - min(admission.risk, admission.asked):.4g}"
    if admission.careful:
        near = "must lie next to a run that kept all limits"
        need = f"after so many violations a query {near}" if admission.risk <= 0 else f"{need}, or {near[5:]}"
    reach = " and within the ramps" if admission.box is not None else ""
    words = "; ".join(f"{_plain(point)} with {chance:.3g}" for point, chance in safest) or "none is left"
    text = (
        f"{need}{reach}; no point that is new does. The safest are {words}. They are not asked: if you judge one safe, run it "
        "and add the result (study.add), tell more runs, or lower the confidence."
    )
    return text, safest


def _plain(point: Point) -> str:
    short = {name: f"{value:.6g}" if isinstance(value, float) else value for name, value in point.items()}
    return ", ".join(f"{name} = {value}" for name, value in short.items())


@dataclass(frozen=True)
class _Worth:
    """What an observation of all outputs is worth: Σ share · (criterion − floor) · P(success) + Σ share · floor."""

    criterion: Acquisition
    beliefs: tuple[Belief, ...]
    shares: tuple[float, ...]
    floors: tuple[float, ...]  # what the criterion says of pure noise, so that a probability multiplies a gain and not an offset
    feasibility: Callable[[Rows], Scores] | None = None

    def score(self, unit: Rows, key: Any) -> Scores:
        probability = 1.0 if self.feasibility is None else self.feasibility(unit)
        total = np.zeros(len(unit))
        for i, (belief, share, floor) in enumerate(zip(self.beliefs, self.shares, self.floors, strict=True)):
            if share > 0:
                own = key if i == 0 else folded(key, i)
                gain = self.criterion.score(belief, unit, key=own) - floor
                total += share * (gain * np.where(gain > 0, probability, 1.0) + floor)
        return total

    def gradient(self) -> Callable[[Rows], tuple[Scores, Rows]] | None:
        """Scores and their gradients, by JAX through the posteriors; None where one has none, or success is uncertain."""
        if self.feasibility is not None or not all(belief.differentiable(self.criterion) for belief in self.beliefs):
            return None

        def total(x: Any) -> tuple[Any, Any]:
            scores: Any = 0.0
            for belief, share in zip(self.beliefs, self.shares, strict=True):
                if share > 0:
                    scores = scores + share * self.criterion.measure(belief, x)
            return jnp.sum(scores), scores

        slope = jax.grad(total, has_aux=True)

        @float64
        def gradient(unit: Rows) -> tuple[Scores, Rows]:
            value, by_x = np.zeros(len(unit)), np.zeros(unit.shape)
            for belief, share in zip(self.beliefs, self.shares, strict=True):
                found = self.criterion.slopes(belief, unit) if share > 0 else (0.0, 0.0)
                if found is None:
                    break
                value, by_x = value + share * found[0], by_x + share * found[1]
            else:
                return value, by_x
            slopes, scores = slope(put(unit))
            return np.asarray(scores), np.asarray(slopes)

        return gradient


def _read_weights(weights: Sequence[float] | None, num: int) -> tuple[float, ...]:
    """Shares that sum to one."""
    values = np.ones(num) if weights is None else np.asarray(weights, dtype=np.float64)
    if values.shape != (num,) or not np.isfinite(values).all() or (values < 0).any() or values.sum() == 0:
        raise InputError(f"weights must be a number ≥ 0 for each of the {num} models, not all 0; got {weights!r}.")
    return tuple(float(value) for value in values / values.sum())


def _floor(posterior: Posterior) -> float:
    """The entropy where only noise is left, for an entropy has no natural zero: E_θ H[noise], where the noise is smallest.

    A mixture's entropy is at least the mean of its components', so nothing scores less.
    """
    mixture = posterior.predict(_places(posterior))
    noise = np.maximum(mixture.noise_at_candidates(), 1e-12)
    return float(np.min(mixture.weights @ (0.5 + 0.5 * np.log(2 * np.pi * noise))))


def read_model(model: Any, where: Any) -> tuple[Belief, Domain | Pool]:
    """What is believed by a model, and where it may be asked."""
    if isinstance(model, Posterior | Learned):
        belief = Belief.of(model)
    elif hasattr(model, "posterior_"):
        belief = Belief.of(model.posterior_, getattr(model, "standardizer_", None))
        where = getattr(model, "domain_", None) if where is None else where
    elif hasattr(model, "fit"):
        raise NotFittedYetError(f"suggest needs a fitted model; this {type(model).__name__} has seen no data. Call fit first.")
    else:
        raise InputError(f"model must be a posterior or a fitted estimator; got {type(model).__name__}.")
    if not isinstance(where, Domain | Pool):
        raise InputError(f"where must be a Domain or a Pool; got {type(where).__name__}. Make one: Pool(table, domain).")
    return belief, where


def read_pending(pending: Any, where: Domain | Pool) -> tuple[Points, list[int]]:
    """Pending queries as rows of the unit cube, and the rows of the pool that they are."""
    domain = where.domain if isinstance(where, Pool) else where
    nothing = np.zeros((0, domain.num_dims))
    if pending is None or (hasattr(pending, "__len__") and len(pending) == 0):
        return nothing, []
    if isinstance(pending, Suggestion | dict):
        pending = [pending]
    if isinstance(pending, list | tuple) and all(isinstance(one, Suggestion) for one in pending):
        return np.stack([one.unit for one in pending]), [one.index for one in pending if one.index is not None]
    if isinstance(where, Pool) and np.ndim(pending) == 1 and all(isinstance(one, Integral) for one in pending):
        where.points(pending)  # refuses what is no index
        return where.unit[np.asarray(pending, dtype=np.intp)], [int(one) for one in pending]
    return domain.to_unit(pending), []


def with_references(criterion: Acquisition, where: Domain | Pool, seed: int) -> Acquisition:
    """The criterion, with references if it needs some and has none.

    They are all of a pool, finished rows too, for they stand for where the model will be used; or a Sobol sample of the domain.
    """
    if not isinstance(criterion, Referenced) or criterion.references is not None:
        return criterion
    if isinstance(where, Pool):
        return replace(criterion, references=criterion.thinned(where.unit))
    return replace(criterion, references=where.to_unit(where.design(criterion.num_references, "sobol", seed)))


def _noise(posterior: Posterior) -> float:
    """The mean variance of the observation noise, known or learned."""
    mixture = posterior.predict(_places(posterior)[:1])
    expected = float(np.mean(mixture.weights @ mixture.noise_at_candidates()))
    return max(expected, 0.0 if posterior.data.noise is None else float(np.mean(posterior.data.noise)))


def _places(posterior: Posterior) -> Points:
    """Where noise is looked at: at the data, or in the middle while there are none."""
    return posterior.data.x if len(posterior.data.x) else np.full((1, posterior.data.num_dims), 0.5)
