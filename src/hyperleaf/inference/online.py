"""How SMC follows a campaign: its start, one more observation, other units.

One more observation is weighed by its predictive density; when too few particles are left that count, `bridge` moves them. A
start is annealed, of many observations a part of them first.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float

from hyperleaf.inference.annealing import anneal
from hyperleaf.inference.base import Diagnostics, Drawn, Problem
from hyperleaf.inference.smc import Info, Particles, bridge, look, merged, reweight, strata_of
from hyperleaf.inference.weights import health
from hyperleaf.machine import threefry
from hyperleaf.precision import put

if TYPE_CHECKING:
    from hyperleaf.inference.smc import SMC

MANY, FIRST = 192, 128  # of more than so many observations a start takes so many
COLLAPSE = 0.25  # share of the ESS below which a change of units starts afresh instead of moving the few that are left


def start(config: SMC, problem: Problem, key: Array) -> Drawn:
    start_key, run_key = threefry.divided(key)
    particles, info = begun(config, problem, start_key, run_key)
    return _drawn(problem, particles, info, ())


def begun(config: SMC, problem: Problem, start_key: Array, run_key: Array) -> tuple[Particles, Info]:
    """Particles of the posterior, from scratch.

    A start passes some thirty densities, each at the cost of n³. Of many observations it takes a random part; the particles are
    then taken on to twice as many until they have seen all, which costs a few moves each. The evidence is the product of both.
    """
    num = problem.num_observations
    if num <= MANY:
        particles, info = _annealed(config, problem, start_key, run_key)
        return replace(particles, started=put(num)), info
    order_key, first_key, *keys = threefry.divided(run_key, 2 + num.bit_length())
    order = np.asarray(jax.random.permutation(order_key, num))
    seen = FIRST
    particles, info = _annealed(config, problem.part(order[:seen]), start_key, first_key)
    for key in keys:
        more = min(2 * seen, num)
        after = problem.part(order[:more])
        particles, moved = bridge(particles, after.since(seen, particles.z), config, key)
        info, seen = info + moved, more
        if seen == num:
            break
    return replace(particles, started=put(num)), info


def _annealed(config: SMC, problem: Problem, start_key: Array, run_key: Array) -> tuple[Particles, Info]:
    starts = problem.prior_draws(start_key, config.num_chains * config.start_moves)
    return anneal(starts, problem.heated(starts), problem.likelihoods, config, run_key)


def update(config: SMC, problem: Problem, before: Drawn, key: Array) -> Drawn:
    known = before.problem.num_observations
    factors, increments = problem.observe(before.z, before.factors, known)
    # Weighting may reveal a collapse; then the same increments are spent again, in smaller steps, along the bridge.
    particles, info = reweight(before.state, increments) if bool(np.isfinite(increments).any()) else (None, Info())
    path = problem.since(known, before.z)
    if particles is None or health(particles.log_weights, strata_of(before.z, path(1.0)), config.share) < config.threshold:
        particles, info = bridge(before.state, path, config, key, increments)
        factors = None
    if config.refresh and problem.num_observations >= (1.0 + config.refresh) * int(particles.started):
        keys = threefry.divided(threefry.folded(key, 3), 3)
        fresh, spent = begun(config.for_refresh(), problem, keys[0], keys[1])
        particles, info, factors = merged(particles, fresh, keys[2]), info + spent, None
    return _drawn(problem, particles, info, _history(before), factors)


def carry_over(config: SMC, problem: Problem, before: Drawn, moved: Float[Array, "p"], key: Array) -> Drawn:
    """What differs is the prior, which now sees other numbers: particles are weighed by the ratio of the two posterior densities
    and, if too few are left, taken from the one prior to the other by degrees."""
    z = before.z - moved
    path = problem.since_other_units(z, moved)
    # The likelihoods differ by what does not scale with the draws: the shift, a trend, a variance that is given.
    old, _ = look(before.z, before.problem.posterior())
    (first, _), (last, _) = look(z, path(0.0)), look(z, path(1.0))
    begun, info = reweight(eqx.tree_at(lambda p: p.z, before.state, z), first - old)
    if float(begun.ess) < COLLAPSE * len(z):
        fresh = start(config, problem, key)
        extra = {**fresh.diagnostics.extra, "history": (*_history(before), *_history(fresh))}
        return replace(fresh, diagnostics=replace(fresh.diagnostics, extra=extra))
    particles, weighed = reweight(begun, last - first)
    if health(particles.log_weights, strata_of(z, path(1.0)), config.share) < config.threshold:
        particles, weighed = bridge(begun, path, config.for_evidence(), key, last - first)  # rare, so thorough
    return _drawn(problem, particles, info + weighed, _history(before))


def _history(drawn: Drawn) -> tuple[Info, ...]:
    return drawn.diagnostics.extra.get("history", ())


def _drawn(problem: Problem, particles: Particles, info: Info, history: tuple[Info, ...], factors: object = None) -> Drawn:
    settled = problem.settle(particles.z, particles.log_weights, factors)
    particles = eqx.tree_at(lambda p: (p.z, p.log_weights), particles, (settled.z, settled.log_weights))
    summary = Diagnostics(
        method="smc",
        num_draws=len(settled.log_weights),
        seconds=0.0,
        ess_bulk={"particles": particles.ess},
        jitter=settled.jitter,
        failed_draws=settled.failed,
        extra={"history": (*history, info), "info": info},
    )
    return Drawn(problem, settled.z, settled.log_weights, settled.factors, summary, particles)
