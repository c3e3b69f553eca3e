"""Reversible-jump Markov chain over trees, leaf parameters and the two parameters (a, q) that all leaves share.

A round visits every leaf (Metropolis on d and g with β and σ² integrated out, then σ² from its conditional) and then (a, q);
every fourth round begins with a tree move. The draw of β is left out: nothing else depends on it, and prediction integrates it. A
`Draw` is the immutable record of a state, from which a chain can also be started.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, lgamma, log

import numpy as np

from hyperleaf.errors import InferenceError
from hyperleaf.surrogates.treed.leaf import (
    SCALE_RATE,
    SHAPE_RATE,
    START_LENGTH,
    START_NUGGET,
    START_SCALE,
    START_SHAPE,
    Leaf,
    LeafModel,
    Lengths,
    draw_lengths,
    draw_nugget,
    log_prior_lengths,
    log_prior_nugget,
)
from hyperleaf.surrogates.treed.moves import Proposal, propose
from hyperleaf.surrogates.treed.tree import Grid, Node, num_leaves, partition


@dataclass(frozen=True, slots=True)
class Draw:
    """One state of the chain; tuples run over the leaves from left to right."""

    tree: Node
    lengths: tuple[Lengths, ...]
    nuggets: tuple[float, ...]
    variances: tuple[float, ...]
    shape: float  # a
    scale: float  # q
    log_posterior: float = float("nan")
    log_likelihood: float = float("nan")


def default_start(num_dims: int) -> Draw:
    return Draw(None, ((START_LENGTH,) * num_dims,), (START_NUGGET,), (1.0,), START_SHAPE, START_SCALE)


def dispersed_start(num_dims: int, rng: np.random.Generator) -> Draw:
    """One leaf with d and g from the prior, so that several chains begin apart."""
    return Draw(None, (draw_lengths(num_dims, rng),), (draw_nugget(rng),), (1.0,), START_SHAPE, START_SCALE)


class Sampler:
    """The chain's present state and the steps that change it. Mutable; `draw()` records the state."""

    def __init__(self, model: LeafModel, grid: Grid, rng: np.random.Generator, start: Draw, tree: bool = True) -> None:
        self.model, self.grid, self.rng, self.moves_tree = model, grid, rng, tree
        self.count = 0
        self.counts: dict[str, list[int]] = {}  # step → [accepted, proposed]
        rows = partition(start.tree, grid.ranks, np.arange(grid.num_rows))
        leaves: list[Leaf | None] = []
        if start.tree is None or all(model.is_valid(part) for part in rows):
            leaves = [model.leaf(model.block(r), d, g) for r, d, g in zip(rows, start.lengths, start.nuggets, strict=True)]
        if not leaves or any(leaf is None for leaf in leaves):
            start = default_start(grid.num_dims)
            leaves = [model.leaf(model.block(np.arange(grid.num_rows)), start.lengths[0], start.nuggets[0])]
        if any(leaf is None for leaf in leaves):
            raise InferenceError(
                "the covariance of all rows must be positive definite at the start (lengths 0.5, nugget 0.1); it is not. "
                "Check that x lies in the unit cube and holds no huge values."
            )
        self.tree = start.tree
        self.leaves: list[Leaf] = [leaf for leaf in leaves if leaf is not None]
        self.variances = list(start.variances)
        self.a, self.q = start.shape, start.scale

    # --- one round

    def round(self) -> None:
        self.count += 1
        if self.moves_tree and self.count % 4 == 0:
            self.tree_step()
        uniform, gamma = self.rng.random, self.rng.standard_gamma
        a, q, leaves, variances = self.a, self.q, self.leaves, self.variances
        for i, leaf in enumerate(leaves):
            if uniform() < 2.0 / 3.0:
                leaf = self.lengths_step(leaf)
            if uniform() < 0.5:
                leaf = self.nugget_step(leaf)
            leaves[i] = leaf
            variances[i] = 0.5 * (q + leaf.residual) / gamma(0.5 * (a + leaf.dof))
        self.hyper_step()

    def _propose_scale(self, value: float) -> float:
        """Uniform on (¾, 4/3) times the value: the Hastings factor is value/proposed."""
        return value * (0.75 + (4.0 / 3.0 - 0.75) * self.rng.random())

    def _accept(self, step: str, log_ratio: float) -> bool:
        tally = self.counts.setdefault(step, [0, 0])
        tally[1] += 1
        accepted = log_ratio >= 0.0 or self.rng.random() < exp(log_ratio)
        tally[0] += accepted
        return accepted

    def lengths_step(self, leaf: Leaf) -> Leaf:
        lengths = tuple([self._propose_scale(d) for d in leaf.lengths])
        new = self.model.leaf(leaf.block, lengths, leaf.nugget)
        if new is None:
            self._accept("lengths", -np.inf)
            return leaf
        ratio = new.log_marginal(self.a, self.q) - leaf.log_marginal(self.a, self.q)
        ratio += log_prior_lengths(lengths) - log_prior_lengths(leaf.lengths)
        for old, proposed in zip(leaf.lengths, lengths, strict=True):
            ratio += log(old / proposed)
        return new if self._accept("lengths", ratio) else leaf

    def nugget_step(self, leaf: Leaf) -> Leaf:
        nugget = self._propose_scale(leaf.nugget)
        new = self.model.with_nugget(leaf, nugget)
        if new is None:
            self._accept("nugget", -np.inf)
            return leaf
        ratio = new.log_marginal(self.a, self.q) - leaf.log_marginal(self.a, self.q)
        ratio += log_prior_nugget(nugget) - log_prior_nugget(leaf.nugget) + log(leaf.nugget / nugget)
        return new if self._accept("nugget", ratio) else leaf

    def hyper_log_density(self, a: float, q: float) -> float:
        """log p(a) p(q) Π_leaves IG(σ²; a/2, q/2)."""
        total = -SHAPE_RATE * a - SCALE_RATE * q
        constant = 0.5 * a * log(0.5 * q) - lgamma(0.5 * a)
        for variance in self.variances:
            total += constant - (0.5 * a + 1.0) * log(variance) - 0.5 * q / variance
        return total

    def hyper_step(self) -> None:
        now = self.hyper_log_density(self.a, self.q)
        q = self._propose_scale(self.q)
        new = self.hyper_log_density(self.a, q)
        if self._accept("scale", new - now + log(self.q / q)):
            self.q, now = q, new
        a = self._propose_scale(self.a)
        if self._accept("shape", self.hyper_log_density(a, self.q) - now + log(self.a / a)):
            self.a = a

    # --- tree moves

    def tree_step(self) -> None:
        kind, proposal = propose(self.tree, self.grid, self.rng)
        if proposal is None:
            self._accept(kind, -np.inf)
            return
        leaves = self.leaves_after(proposal)
        ratio = -np.inf if leaves is None else self.log_ratio(proposal, leaves)
        if self._accept(proposal.kind, ratio) and leaves is not None:
            self.tree, self.leaves = proposal.tree, leaves
            # a round redraws every σ² before anything reads it
            self.variances = [1.0] * len(leaves)

    def log_ratio(self, proposal: Proposal, leaves: list[Leaf]) -> float:
        """Prior, proposal and marginal ratio; the parameters that grow draws from their prior cancel against it."""
        marginal = sum(leaf.log_marginal(self.a, self.q) for leaf in leaves)
        marginal -= sum(leaf.log_marginal(self.a, self.q) for leaf in self.leaves)
        prior = self.grid.log_prior(proposal.tree) - self.grid.log_prior(self.tree)
        return marginal + prior + proposal.log_backward - proposal.log_forward

    def leaves_after(self, proposal: Proposal) -> list[Leaf] | None:
        """The leaves of the proposed tree, with parameters handed over; None where one is invalid.

        Grow: one child keeps d, the other draws it from the prior, by a fair coin; g likewise with a coin of its own. Prune: the
        merged leaf keeps d of one child and g of one child by the same two coins. The map is the identity: no Jacobian.
        """
        lengths, nuggets = [leaf.lengths for leaf in self.leaves], [leaf.nugget for leaf in self.leaves]
        old: list[Leaf | None] = list(self.leaves)
        i = proposal.leaf
        if proposal.kind == "grow":
            lengths.insert(i + int(self.rng.integers(2)), draw_lengths(self.grid.num_dims, self.rng))
            nuggets.insert(i + int(self.rng.integers(2)), draw_nugget(self.rng))
            old[i : i + 1] = [None, None]
        elif proposal.kind == "prune":
            del lengths[i + int(self.rng.integers(2))]
            del nuggets[i + int(self.rng.integers(2))]
            old[i : i + 2] = [None]
        rows = partition(proposal.tree, self.grid.ranks, np.arange(self.grid.num_rows))
        changed = [o is None or not np.array_equal(o.block.rows, r) for o, r in zip(old, rows, strict=True)]
        if len(rows) > 1 and not all(self.model.is_valid(r) for r, c in zip(rows, changed, strict=True) if c):
            return None
        leaves: list[Leaf] = []
        for leaf, part, differs, d, g in zip(old, rows, changed, lengths, nuggets, strict=True):
            new = self.model.leaf(self.model.block(part), d, g) if differs or leaf is None else leaf
            if new is None:
                return None
            leaves.append(new)
        return leaves

    # --- records

    def draw(self) -> Draw:
        likelihood = sum(leaf.log_marginal(self.a, self.q) for leaf in self.leaves)
        posterior = likelihood + sum(leaf.log_prior() for leaf in self.leaves) + self.grid.log_prior(self.tree)
        posterior -= SHAPE_RATE * self.a + SCALE_RATE * self.q
        return Draw(
            self.tree,
            tuple([leaf.lengths for leaf in self.leaves]),
            tuple([leaf.nugget for leaf in self.leaves]),
            tuple(self.variances),
            self.a,
            self.q,
            posterior,
            likelihood,
        )

    def run(self, burn_in: int, total: int, thin: int) -> list[Draw]:
        """`total` rounds; after the first `burn_in` of them every `thin`-th state is kept."""
        self.count, self.counts = 0, {}
        draws = []
        for number in range(1, total + 1):
            self.round()
            if number > burn_in and (number - burn_in) % thin == 0:
                draws.append(self.draw())
        return draws

    def acceptance(self) -> dict[str, float]:
        return {step: accepted / proposed for step, (accepted, proposed) in sorted(self.counts.items())}


def sizes(draws: list[Draw]) -> dict[int, float]:
    """Posterior probability of each number of leaves."""
    numbers, counts = np.unique([num_leaves(draw.tree) for draw in draws], return_counts=True)
    return {int(n): float(c) / len(draws) for n, c in zip(numbers, counts, strict=True)}
