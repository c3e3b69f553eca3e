"""How noisy an output is: what was learned or said of it, what runs at the same point say directly, and what to make of both.

`Noise` holds the figures and all sentences about them; the command line, the report and the estimators show these as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hyperleaf.surrogates.kinds import BY_LEAF, NUGGET
from hyperleaf.surrogates.outliers import grossly_out

if TYPE_CHECKING:
    from hyperleaf.surrogates.base import Posterior

Kind = Literal["learned", "per leaf", "auto", "robust", "known", "none"]
LARGE = 0.2  # of the spread of the outputs: learned noise above it is spoken of
SAME = 1e-9  # of the width of each axis; the way to the unit cube and back does not move a point further
DIFFERENT = 1.25  # times the smallest standard deviation: beyond that noise is said to differ
DOUBT = 0.01  # probability below which repeated runs are taken to contradict the noise
Values = NDArray[np.float64]


@dataclass(frozen=True)
class Repeats:
    """Points that were run more than once: how many, the pooled standard deviation of their outputs, its degrees of freedom."""

    points: int
    std: float
    freedom: int


@dataclass(frozen=True)
class Noise:
    """The noise of one output, in its units.

    `std` is what was learned (√ of the mean variance), what was given, or the nugget; None before anything was learned. 90 % of
    the posterior lie between `low` and `high`. Where noise differs from place to place, it goes from `least` to `most` at the
    observations. `spread` is the standard deviation of the outputs. `tellable` says whether the
    surrogate could be told its noise.
    """

    name: str
    unit: str
    kind: Kind
    spread: float
    std: float | None = None
    low: float | None = None
    high: float | None = None
    repeats: Repeats | None = None
    tellable: bool = True
    least: float | None = None
    most: float | None = None

    @property
    def words(self) -> str:
        """In a few words, without judging."""
        if self.kind == "none":
            return f"none (a nugget of {100 * NUGGET**0.5:.2g} % of the spread)"
        if self.std is None:
            return "not learned yet" if self.kind == "learned" else "given"
        said = f"{'learned' if self.kind == 'learned' else 'given'}, {self._shown(self.std)}"
        if self.kind == "learned" and self.low is not None and self.high is not None and self.low < self.high:
            said += f" (90 % between {self.low:.3g} and {self.high:.3g})"
        share = f", {100 * self.std / self.spread:.2g} % of the spread" if self.kind == "learned" and self.spread > 0 else ""
        return said + share + (f"; from {self.least:.3g} to {self.most:.3g} from place to place" if self.differs else "")

    @property
    def differs(self) -> bool:
        """Whether there is more noise in some places than in others, worth a word."""
        return self.least is not None and self.most is not None and self.most > DIFFERENT * self.least

    @property
    def repeated(self) -> str:
        """What repeated runs say; "" where there are none."""
        if self.repeats is None:
            return ""
        one, alone = self.repeats.points == 1, self.repeats.freedom == 1
        return (
            f"{self.repeats.points} {'point was' if one else 'points were'} run more than once; {self.name} differs there by "
            f"{self._shown(self.repeats.std)} ({self.repeats.freedom} degree{'' if alone else 's'} of freedom)"
        )

    @property
    def warnings(self) -> tuple[str, ...]:
        """Where runs contradict what is believed, or where structure may have been taken for noise; with what to do."""
        return tuple(self._warnings())

    @property
    def messages(self) -> tuple[str, ...]:
        """What to know, for `Diagnostics`: that there is a nugget, and the warnings."""
        return ((f"noise: {self.words}.",) if self.kind == "none" else ()) + self.warnings

    @property
    def large(self) -> bool:
        """Whether more was taken for noise than a fifth of the spread."""
        return self.kind == "learned" and self.std is not None and self.spread > 0 and self.std > LARGE * self.spread

    def _warnings(self) -> Iterator[str]:
        seen, std, nugget = self.repeats, self.std, NUGGET**0.5 * self.spread
        if seen is not None:
            from scipy.special import chdtr, chdtrc  # here, so that those who only want to know how a study stands need not wait

            differ = f"runs at the same point differ by {self._shown(seen.std)} in {self.name}"
            if self.kind == "none" and seen.std > (std or nugget):
                yield f'{differ}; noise = "none" is wrong. Say noise = "learned", or noise = {seen.std:.2g}.'
            if self.kind == "known" and std and chdtrc(seen.freedom, _ratio(seen, std)) < DOUBT:
                yield f"{differ}, far more than the noise that was given, {self._shown(std)}. Say noise = {seen.std:.2g}."
            if self.kind == "learned" and std and chdtr(seen.freedom, _ratio(seen, self._lowest or std)) < DOUBT:
                remedy = self._say('"none"' if seen.std <= nugget else f"{seen.std:.2g}")
                yield f"{differ}, far less than the noise that was learned, {self._shown(std)}: {remedy}"
                return
        if self.large and std and (seen is None or seen.std < LARGE * self.spread):
            remedy = self._say('"none"')
            share = f"{100 * std / self.spread:.0f} % of the spread of {self.name} is taken for noise"
            yield f"{share}. If your simulator repeats exactly, {remedy}"

    @property
    def _lowest(self) -> float | None:
        """What repeated runs are held against: they may stand where it is quietest."""
        return self.low if self.least is None or self.low is None else min(self.low, self.least)

    def _say(self, noise: str) -> str:
        return f"say noise = {noise}" + ("." if self.tellable else ', with a surrogate that can be told, such as "hhk".')

    def _shown(self, value: float) -> str:
        return f"{value:.3g} {self.unit}" if self.unit else f"{value:.3g}"


def noise_of(
    name: str,
    unit: str,
    kind: Kind,
    x: Values,
    y: Values,
    found: Sequence[float | None],
    *,
    tellable: bool = True,
) -> Noise:
    """Of the observations x (n, d) in the unit cube and y (n,) in native units; `found` are std, low and high, least and most."""
    if kind == "robust":  # learned from what is not wild
        fine = ~grossly_out(y)
        kind, x, y = "learned", x[fine], y[fine]
    if kind in BY_LEAF:
        kind = "learned"
    spread = float(np.std(y)) if len(y) else 0.0
    std, low, high, least, most = (*found, None, None)[:5]
    return Noise(name, unit, kind, spread, std, low, high, repeats_of(x, y), tellable, least, most)


def repeats_of(x: Values, y: Values) -> Repeats | None:
    """What the rows of x (n, d) that are the same point say of the noise; None if all differ."""
    if len(x) < 2:
        return None
    _, group, sizes = np.unique(np.round(x / SAME), axis=0, return_inverse=True, return_counts=True)
    freedom = len(x) - len(sizes)
    if freedom == 0:
        return None
    group = group.ravel()
    means = np.bincount(group, y) / sizes
    return Repeats(int(np.sum(sizes > 1)), float(np.sqrt(np.sum((y - means[group]) ** 2) / freedom)), freedom)


class Figures(NamedTuple):
    """√ of the mean noise variance of a new observation, and 90 % of the posterior; averaged over the data where it varies, and
    then also the smallest and the largest there."""

    std: float
    low: float
    high: float
    least: float | None = None
    most: float | None = None

    def times(self, scale: float) -> Figures:
        return Figures(*(None if value is None else value * scale for value in self))  # type: ignore[arg-type]  # as they are


def posterior_noise(posterior: Posterior) -> tuple[float, float, float]:
    """The first three of `noise_figures`."""
    return noise_figures(posterior)[:3]


def noise_figures(posterior: Posterior) -> Figures:
    mixture = posterior.predict(posterior.data.x[:1])
    differs = np.ndim(mixture.noise) > 1
    if differs:
        mixture = posterior.predict(posterior.data.x)
    weights, each = np.asarray(mixture.weights), np.maximum(np.asarray(mixture.noise_at_candidates()), 0.0)
    variances = each.mean(axis=1)
    order = np.argsort(variances)
    below = np.cumsum(weights[order])
    low, high = (np.sqrt(variances[order][min(int(np.searchsorted(below, p)), len(order) - 1)]) for p in (0.05, 0.95))
    ends = (float(np.sqrt((weights @ each).min())), float(np.sqrt((weights @ each).max()))) if differs else (None, None)
    return Figures(float(np.sqrt(weights @ variances)), float(low), float(high), *ends)


def _ratio(seen: Repeats, std: float) -> float:
    """The sum of squares in units of a noise variance: χ² of so many degrees of freedom if that is the noise."""
    return seen.freedom * (seen.std / std) ** 2
