"""Which tree? The evidence tells: averages over several surrogates, and a greedy search that grows a tree leaf by leaf.

SMC estimates ln p(y | x) of each surrogate on the way, so trees of different sizes can run side by side and be weighted by it
(`Averaged`), or a tree can be grown by splitting one leaf at a time with a change hyperplane for as long as the evidence rises
beyond its Monte-Carlo error (`grow_tree`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import ArrayLike, NDArray

from hyperleaf.data import Dataset
from hyperleaf.errors import InputError
from hyperleaf.kernels.partition import Partition, Tree, split_leaf, tree_leaves
from hyperleaf.mixture import Mixture
from hyperleaf.precision import float64
from hyperleaf.priors import check_count
from hyperleaf.surrogates.base import Diagnostics, Evidence, Joint, Posterior, Surrogate, Traced
from hyperleaf.surrogates.gp import GPPosterior, GPSurrogate, hhk_surrogate
from hyperleaf.surrogates.validation import Cavities

Combine = Literal["average", "best"]
NEGLIGIBLE = 1e-4  # posterior probability below which a member is left out of predictions; it is still updated


class Averaged(Surrogate, eqx.Module):
    """Several GP surrogates side by side, weighted by their evidence ("average"), or the one of highest evidence ("best")."""

    surrogates: tuple[GPSurrogate, ...]
    combine: Combine = eqx.field(static=True)

    def __init__(self, surrogates: tuple[GPSurrogate, ...], combine: Combine = "average"):
        if combine not in ("average", "best"):
            raise InputError(f'combine must be "average" or "best"; got {combine!r}.')
        if not surrogates:
            raise InputError("an average needs at least one surrogate; got none.")
        if not all(s.inference.gives_evidence for s in surrogates):
            raise InputError("surrogates are weighted by their evidence, which only SMC estimates; use inference=SMC() in all.")
        self.surrogates, self.combine = tuple(surrogates), combine

    @float64
    def fit(self, data: Dataset, *, key: Array) -> AveragedPosterior:
        keys = jax.random.split(key, len(self.surrogates))
        return AveragedPosterior(self, tuple(s.fit(data, key=k) for s, k in zip(self.surrogates, keys, strict=True)))


@dataclass(frozen=True)
class AveragedPosterior(Posterior):
    """The posteriors of several surrogates given the same data, and how probable each surrogate is."""

    surrogate: Averaged
    members: tuple[GPPosterior, ...]

    @property
    def data(self) -> Dataset:
        return self.members[0].data

    @property
    def log_evidences(self) -> NDArray[np.float64]:
        return np.array([member.log_evidence for member in self.members])

    @property
    def probabilities(self) -> NDArray[np.float64]:
        """Of each surrogate, given the data and equal probabilities before; all on one if `combine` is "best"."""
        evidences = self.log_evidences
        if self.surrogate.combine == "best":
            return np.eye(len(evidences))[np.argmax(evidences)]
        weights = np.exp(evidences - evidences.max())
        weights = np.where(weights < NEGLIGIBLE * weights.sum(), 0.0, weights)
        return weights / weights.sum()

    def parts(self) -> list[tuple[float, Posterior]]:
        return [(float(p), member) for p, member in zip(self.probabilities, self.members, strict=True) if p > 0]

    @property
    def best(self) -> GPPosterior:
        """The member of highest evidence."""
        return self.members[int(np.argmax(self.log_evidences))]

    @property
    def log_evidence(self) -> float:
        """Of the average, with equal prior probabilities."""
        evidences = self.log_evidences
        return float(evidences.max() + np.log(np.mean(np.exp(evidences - evidences.max()))))

    @property
    def diagnostics(self) -> Diagnostics:
        parts = [member.diagnostics for member in self.members]
        return Diagnostics(
            method="smc",
            num_draws=sum(p.num_draws for p in parts),
            seconds=sum(p.seconds for p in parts),
            ess_bulk={f"particles of member {i}": p.ess_bulk["particles"] for i, p in enumerate(parts)},
            jitter=max(p.jitter for p in parts),
            failed_draws=sum(p.failed_draws for p in parts),
            messages=tuple(message for p in parts for message in p.messages),
            extra={"probabilities": self.probabilities.tolist(), "log_evidences": self.log_evidences.tolist()},
        )

    def _active(self) -> list[tuple[float, GPPosterior]]:
        return [(p, member) for p, member in zip(self.probabilities, self.members, strict=True) if p > 0]

    def before_data(self, x: ArrayLike, num: int, *, seed: int) -> Iterator[tuple[NDArray[np.float64], Any, int]]:
        probabilities = np.array([p for p, _ in self._active()])
        shares = np.random.default_rng(seed).multinomial(num, probabilities / probabilities.sum())
        for (_, member), share in zip(self._active(), shares, strict=True):
            if share:
                yield from member.before_data(x, int(share), seed=seed)

    def predict(self, x: ArrayLike) -> Mixture:
        """The latent f at x (m, d), over the draws of all members that matter."""
        active = self._active()
        return Mixture.combine([member.predict(x) for _, member in active], np.array([p for p, _ in active]))

    def predict_traced(self, x: Float[Array, "m d"]) -> Mixture:
        """`predict` as a JAX function that can be differentiated in x; each member compiles its own part."""
        active = self._active()
        return Mixture.combine([member.predict_traced(x) for _, member in active], np.array([p for p, _ in active]))

    def traced(self) -> Traced:
        return Traced(self.predict_traced, self.joint_traced)

    def partition(self) -> Partition | None:
        """That of the most probable member."""
        return self.best.partition()

    def evidence(self) -> Evidence:
        """Of the average, with equal prior probabilities; the error of a member counts by how probable it is."""
        weights = np.exp(self.log_evidences - self.log_evidences.max())
        errors = np.array([member.log_evidence_std for member in self.members])
        return Evidence(self.log_evidence, float(np.linalg.norm(weights / weights.sum() * errors)))

    def cavities(self) -> Cavities:
        active = [(p, member.cavities()) for p, member in self._active()]
        weights = np.concatenate([p * own.weights for p, own in active])
        return Cavities(weights, *(np.concatenate([own[i] for _, own in active]) for i in (1, 2)))

    def joint(self, x: ArrayLike, r: ArrayLike) -> Joint:
        return self._stacked([member.joint(x, r) for _, member in self._active()], np)

    def joint_traced(self, x: Float[Array, "m d"], r: Float[Array, "k d"]) -> Joint:
        """`joint` as a JAX function that can be differentiated in x and r."""
        return self._stacked([member.joint_traced(x, r) for _, member in self._active()], jnp)

    def _stacked(self, parts: list[Joint], library: Any) -> Joint:
        """The joints of the members that matter, draws one after the other, each weighed by its member's probability."""
        weights = np.concatenate([p * part.weights for (p, _), part in zip(self._active(), parts, strict=True)])
        names = ("mean_x", "var_x", "mean_r", "var_r", "cov")
        noises = [part.noise for part in parts]
        if any(one.ndim > 1 for one in noises):  # members may differ in whether noise depends on the place
            noises = [library.broadcast_to(part.noise_at_x, part.mean_x.shape) for part in parts]
        joined = {name: library.concatenate([getattr(part, name) for part in parts]) for name in names}
        return Joint(weights, **joined, noise=library.concatenate(noises))

    @float64
    def sample(self, x: ArrayLike, key: Array, num: int = 1) -> NDArray[np.float64]:
        """`num` functions at x, each from a member drawn by its probability: (num, m)."""
        pick_key, sample_key = jax.random.split(key)
        picks = np.asarray(jax.random.choice(pick_key, len(self.members), (num,), p=self.probabilities))
        counts = np.bincount(picks, minlength=len(self.members))
        keys = jax.random.split(sample_key, len(self.members))
        drawn = [m.sample(x, k, int(c)) for m, k, c in zip(self.members, keys, counts, strict=True) if c]
        order = np.argsort(np.argsort(picks, kind="stable"), kind="stable")
        return np.concatenate(drawn)[order]

    @float64
    def update(self, x: ArrayLike, y: ArrayLike, *, key: Array, noise: ArrayLike | None = None) -> AveragedPosterior:
        keys = jax.random.split(key, len(self.members))
        members = tuple(m.update(x, y, key=k, noise=noise) for m, k in zip(self.members, keys, strict=True))
        return AveragedPosterior(self.surrogate, members)

    @float64
    def rescaled(self, shift: float, factor: float, *, key: Array) -> AveragedPosterior:
        keys = jax.random.split(key, len(self.members))
        return AveragedPosterior(
            self.surrogate, tuple(m.rescaled(shift, factor, key=k) for m, k in zip(self.members, keys, strict=True))
        )


@dataclass(frozen=True)
class Step:
    """One tree that was tried: its evidence with Monte-Carlo error, and whether it became the current one."""

    tree: Tree
    log_evidence: float
    log_evidence_std: float
    kept: bool


@dataclass(frozen=True)
class Growth:
    """The outcome of a search: the last tree kept, its posterior, and all trees tried."""

    tree: Tree
    posterior: GPPosterior
    steps: tuple[Step, ...]


@float64
def grow_tree(
    data: Dataset,
    *,
    key: Array,
    max_leaves: int = 8,
    margin: float = 0.0,
    surrogate_of: Callable[[Tree], GPSurrogate] | None = None,
    progress: Callable[[Step], None] | None = None,
    **options: Any,
) -> Growth:
    """Grow a tree from one leaf: try every way to split a leaf, keep the best if the evidence says so, until it does not.

    Since leaves have equal priors, splits that give the same shape are tried once. A split is kept if the log evidence rises by
    more than `margin` plus the Monte-Carlo error of the difference. `options` go to `hhk_surrogate` (mean, noise, priors …), or
    give `surrogate_of` a tree yourself.
    """
    check_count("max_leaves", max_leaves)
    if surrogate_of is None:
        d = data.num_dims

        def surrogate_of(tree: Tree) -> GPSurrogate:
            return hhk_surrogate(d, tree=tree, **options)

    def fit(tree: Tree, key: Array) -> GPPosterior:
        return surrogate_of(tree).fit(data, key=key)

    def step(tree: Tree, posterior: GPPosterior, kept: bool) -> Step:
        made = Step(tree, posterior.log_evidence, posterior.log_evidence_std, kept)
        if progress is not None:
            progress(made)
        return made

    key, first_key = jax.random.split(key)
    tree: Tree = 0
    current = fit(tree, first_key)
    steps = [step(tree, current, True)]
    while len(tree_leaves(tree)) < max_leaves:
        shapes = {shape(split_leaf(tree, leaf)): split_leaf(tree, leaf) for leaf in tree_leaves(tree)}
        key, *keys = jax.random.split(key, len(shapes) + 1)
        tried = [(candidate, fit(candidate, k)) for candidate, k in zip(shapes.values(), keys, strict=True)]
        best_tree, best = max(tried, key=lambda pair: pair[1].log_evidence)
        error = np.hypot(best.log_evidence_std, current.log_evidence_std)
        better = bool(best.log_evidence - current.log_evidence > margin + error)
        steps += [step(candidate, posterior, better and candidate == best_tree) for candidate, posterior in tried]
        if not better:
            break
        tree, current = best_tree, best
    return Growth(tree, current, tuple(steps))


def shape(tree: Tree) -> str:
    """A tree's shape, whatever the numbers of its leaves and the order of children: equal shapes are the same prior."""
    if not isinstance(tree, tuple):
        return "."
    return "(" + "".join(sorted(shape(child) for child in tree)) + ")"
