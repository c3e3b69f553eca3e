"""Ways to search a domain: all of it, a design, random steps, gradients, an evolution. A new one is a class and a line in
`OPTIMIZERS`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hyperleaf.checks import alike
from hyperleaf.domain import Domain
from hyperleaf.errors import DomainError, InputError
from hyperleaf.optimize.base import Optimizer, Problem, Rows, Scores, Trials

if TYPE_CHECKING:
    from cmaes import CMA

MAX_LISTED = 4096  # a finite domain of at most so many points is searched exhaustively


@dataclass(frozen=True)
class Exhaustive(Optimizer):
    """Every point of a finite domain."""

    def search(self, problem: Problem) -> Trials:
        size = problem.domain.num_points
        if size is None or size > 16 * MAX_LISTED:
            raise InputError(
                f"an exhaustive search needs a finite domain of at most {16 * MAX_LISTED} points; got "
                f"{'a continuous one' if size is None else size}. Use another optimizer, or give a Pool."
            )
        unit = np.unique(_designed(problem.domain, size, "uniform", problem.seed), axis=0)
        return Trials(unit, problem.score(unit))


@dataclass(frozen=True)
class Shooting(Optimizer):
    """`num` points of a design: scrambled "sobol", Latin hypercube "lhs" or "uniform" random."""

    kind: str = "sobol"
    num: int = 4096

    def rows(self, problem: Problem) -> Rows:
        return _designed(problem.domain, self.num, self.kind, problem.seed)

    def search(self, problem: Problem) -> Trials:
        unit = self.rows(problem)
        return Trials(unit, problem.score(unit))


@dataclass(frozen=True)
class LocalSearch(Optimizer):
    """From the best of many shots, random steps that grow with success and shrink without; needs no gradients.

    Infeasible steps are not taken, so it walks along the borders that constraints draw. Integers step at least to the next,
    a Choice changes its option now and then.
    """

    num_shots: int = 2048
    num_starts: int = 8
    num_steps: int = 32  # tried around each start in each round
    num_rounds: int = 24

    def search(self, problem: Problem) -> Trials:
        shots = Shooting(num=self.num_shots).search(problem)
        return shots.and_(self.walk(problem, shots.spread(self.num_starts)))

    def walk(self, problem: Problem, starts: Trials, radius: float = 0.1) -> Trials:
        """Improve each of the starts."""
        rng = np.random.default_rng(problem.seed)
        unit, scores = starts.unit.copy(), starts.scores.copy()
        radii = np.full(len(unit), radius)
        for _ in range(self.num_rounds):
            parents = np.repeat(np.arange(len(unit)), self.num_steps)
            steps = perturbed(problem.domain, unit[parents], radii[parents], rng)
            kept = problem.domain.feasible_unit(steps)
            steps, parents = steps[kept], parents[kept]
            if len(steps):
                worth = Trials(steps, problem.score(steps)).scores
                for i in range(len(unit)):
                    own = np.flatnonzero(parents == i)
                    found = own[np.argmax(worth[own])] if len(own) else None
                    better = found is not None and worth[found] > scores[i]
                    if better:
                        unit[i], scores[i] = steps[found], worth[found]
                    radii[i] = min(1.5 * radii[i], 0.3) if better else 0.6 * radii[i]
            else:
                radii *= 0.6
        return Trials(unit, scores)


@dataclass(frozen=True)
class Gradients(Optimizer):
    """L-BFGS-B on the Real axes from the best of many shots, all starts at once; integers and options stay at their start's.

    Where a constraint or a discrete axis stands in the way, results are pulled back to the last feasible point on the way
    from their start, and a local search goes on from there.
    """

    num_shots: int = 2048
    num_starts: int = 8
    num_iterations: int = 60

    def search(self, problem: Problem) -> Trials:
        if problem.gradient is None:
            raise InputError(
                'optimizer "gradients" needs a posterior and an acquisition with gradients in x; these have none. '
                'Use "auto", "local" or "cmaes".'
            )
        domain = problem.domain
        shots = Shooting(num=self.num_shots).search(problem)
        starts = shots.spread(self.num_starts)
        ends = domain.snap(self._climb(problem.gradient, starts.unit, _is_real(domain)))
        ends = _pulled_back(domain, starts.unit, ends)
        found = shots.and_(Trials(ends, problem.score(ends)))
        if domain.constraints or not _is_real(domain).all():
            walk = LocalSearch(num_rounds=12)
            found = found.and_(walk.walk(problem, found.best(self.num_starts), radius=0.03))
        return found

    def _climb(self, gradient: Callable[[Rows], tuple[Scores, Rows]], starts: Rows, free: NDArray[np.bool_]) -> Rows:
        from scipy.optimize import minimize

        if not free.any():
            return starts
        shape = (len(starts), int(free.sum()))

        def rows(z: NDArray[np.float64]) -> Rows:
            full = starts.copy()
            full[:, free] = z.reshape(shape)
            return full

        def descent(z: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
            # The starts do not interact, so the sum of their scores is climbed in one go, at the price of one evaluation.
            values, slopes = gradient(rows(z))
            usable = np.isfinite(values) & np.isfinite(slopes).all(axis=1)
            return -float(values[usable].sum()), -np.where(usable[:, None], slopes, 0.0)[:, free].ravel()

        bounds = [(0.0, 1.0)] * (shape[0] * shape[1])
        options = {"maxiter": self.num_iterations, "maxfun": 2 * self.num_iterations}
        return rows(minimize(descent, starts[:, free].ravel(), jac=True, method="L-BFGS-B", bounds=bounds, options=options).x)


@dataclass(frozen=True)
class CMAES(Optimizer):
    """Covariance matrix adaptation from the best of some shots, and a short local search from the best it finds.

    Rows are snapped before they are scored, infeasible ones drawn again and, if that fails, ranked last.
    """

    num_shots: int = 512
    num_restarts: int = 3
    num_generations: int = 40
    population: int = 32
    step: float = 0.2

    def search(self, problem: Problem) -> Trials:
        from cmaes import CMA

        domain, found = problem.domain, Shooting(num=self.num_shots).search(problem)
        d = domain.num_dims
        spare = 1 if d == 1 else 0  # the package needs two dimensions; the second is ignored
        bounds = np.tile([0.0, 1.0], (d + spare, 1))
        for restart, start in enumerate(found.spread(self.num_restarts).unit):
            seed = int(np.random.SeedSequence((problem.seed, restart)).generate_state(1)[0])
            mean = np.append(start, [0.5] * spare)
            evolution = CMA(mean=mean, sigma=self.step, bounds=bounds, seed=seed, population_size=self.population)
            for _ in range(self.num_generations):
                raw = self._feasible(domain, evolution, d)
                unit = domain.snap(raw[:, :d])
                feasible = domain.feasible_unit(unit)
                loss = np.full(len(raw), 1e30)
                if feasible.any():
                    trials = Trials(unit[feasible], problem.score(unit[feasible]))
                    found = found.and_(trials)
                    loss[feasible] = np.clip(-trials.scores, -1e30, 1e30)
                evolution.tell(list(zip(raw, loss, strict=True)))
                if evolution.should_stop():
                    break
        # An evolution that is wider than the hill of its start wanders off to a broader, lower one; so the best is climbed.
        return found.and_(LocalSearch(num_rounds=12).walk(problem, found.best(1), radius=0.03))

    def _feasible(self, domain: Domain, evolution: CMA, d: int) -> Rows:
        raw = np.stack([evolution.ask() for _ in range(self.population)])
        for _ in range(20):
            bad = np.flatnonzero(~domain.feasible_unit(domain.snap(raw[:, :d])))
            if not len(bad):
                break
            raw[bad] = np.stack([evolution.ask() for _ in bad])
        return raw


OPTIMIZERS: dict[str, Optimizer] = {
    "exhaustive": Exhaustive(),
    "random": Shooting("uniform"),
    "sobol": Shooting("sobol"),
    "lhs": Shooting("lhs"),
    "local": LocalSearch(),
    "cmaes": CMAES(),
    "gradients": Gradients(),
}


COARSE = LocalSearch(num_shots=1024, num_starts=4, num_rounds=12)


def as_optimizer(optimizer: str | Optimizer, problem: Problem) -> Optimizer:
    """The optimizer of that name, or the one given; "auto" lists a small finite domain and climbs gradients where it can."""
    if isinstance(optimizer, Optimizer):
        return optimizer
    if optimizer == "auto":
        size = problem.domain.num_points
        if size is not None and size <= MAX_LISTED:
            return OPTIMIZERS["exhaustive"]
        if problem.coarse:
            return COARSE
        return OPTIMIZERS["local" if problem.gradient is None else "gradients"]
    check_optimizer(optimizer)
    return OPTIMIZERS[optimizer]


def check_optimizer(optimizer: Any) -> None:
    """Refuse what is not the name of an optimizer."""
    if isinstance(optimizer, str) and (optimizer == "auto" or optimizer in OPTIMIZERS):
        return
    hint = alike(optimizer, OPTIMIZERS) if isinstance(optimizer, str) else ""
    raise InputError(f"optimizer must be one of {['auto', *OPTIMIZERS]}, or an Optimizer; got {optimizer!r}.{hint}")


# --- rows of a domain


def _designed(domain: Domain, num: int, kind: str, seed: int) -> Rows:
    unit = domain.to_unit(domain.design(num, kind, seed))
    unit = unit[domain.feasible_unit(unit)]  # the way to the unit cube and back may carry a point over a border
    if not len(unit):
        raise DomainError(
            f"a domain must have feasible points that rounding leaves feasible; {list(domain.constraints)} leaves none of {num}. "
            "Loosen the constraints: an equation between Real axes cannot be met exactly."
        )
    return unit


def _is_real(domain: Domain) -> NDArray[np.bool_]:
    """Which columns of the unit cube belong to a Real axis."""
    return np.concatenate([np.full(axis.num_columns, axis.smooth) for axis in domain.axes.values()])


def perturbed(domain: Domain, unit: Rows, radii: NDArray[np.float64], rng: np.random.Generator) -> Rows:
    """A random step from each row: along all axes or, half of the time, along one, so that single integers get their turn."""
    out, start = unit.copy(), 0
    num_axes = domain.num_axes
    single = rng.random(len(unit)) < 0.5
    chosen = rng.integers(num_axes, size=len(unit))
    for i, axis in enumerate(domain.axes.values()):
        columns = slice(start, start + axis.num_columns)
        start += axis.num_columns
        moved = ~single | (chosen == i)
        out[:, columns] = axis.step(unit[:, columns], radii, moved, single, rng)
    return domain.snap(out)


def _pulled_back(domain: Domain, starts: Rows, ends: Rows) -> Rows:
    """The ends, or where they are infeasible a feasible point as near to them as bisection of the way from the start finds."""
    good, bad = np.zeros(len(ends)), np.ones(len(ends))
    if domain.feasible_unit(ends).all():
        return ends
    feasible_end = domain.feasible_unit(ends)
    for _ in range(40):
        middle = 0.5 * (good + bad)
        feasible = domain.feasible_unit(domain.snap(starts + middle[:, None] * (ends - starts)))
        good, bad = np.where(feasible, middle, good), np.where(feasible, bad, middle)
    return np.where(feasible_end[:, None], ends, domain.snap(starts + good[:, None] * (ends - starts)))
