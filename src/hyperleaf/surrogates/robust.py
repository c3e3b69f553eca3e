"""One output learned in spite of wild values: `Learned` that sets aside what does not go with the rest.

Each value is either what the surrogate says it is, f with its learned noise, or with a small probability something else
entirely, from a Cauchy distribution about the centre of the outputs. Which of the two is judged by leaving it out: where the
second is far more plausible, the value is set aside, as if its noise were infinite. So predictions, noise and scale are those
of good runs.

Nothing is final. Everything is judged again whenever more is told, from the data alone, and a value comes back when it is no
longer surprising, or when a run nearby says the same: what was found at a cliff looks wild until the cliff is seen a second
time. A study therefore asks for such a setting once more.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from hyperleaf.data import Dataset, Standardizer
from hyperleaf.surrogates.base import Posterior, Surrogate
from hyperleaf.surrogates.learned import Learned, Values
from hyperleaf.surrogates.outliers import SHARE, grossly_out

FEWEST = 8  # observations below which only gross errors are told
OUT, DOUBT, BACK = 6.0, 2.0, 2.0  # ln of the odds: set aside; looked at in a fit from scratch; taken back
LEAST = 0.05  # standard deviation, standardised: nobody is accused for a few hundredths of the spread
NEAR = 3  # neighbours, of which one that is as far from what was expected bears a value out
AGREE = 1 / 2  # to within this factor
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Robust(Learned):
    """`posterior`, `y` and `noise` are those of the runs that count; `everything` is all that was told, in native units, and
    `counted` says which of it those are. `passed` are those that were doubted and let pass, by their place, with how many were
    told then."""

    everything: Dataset | None = None
    counted: Mask | None = None
    passed: tuple[tuple[int, int], ...] = ()

    @classmethod
    def fit(
        cls,
        surrogate: Surrogate,
        unit: Values,
        y: Values,
        noise: Values | None = None,
        *,
        scale: Standardizer | None = None,
        key: Any,
    ) -> Robust:
        """From scratch; several times where there are doubts."""
        told = Dataset(unit, y, noise)
        gross = _allowed(grossly_out(told.y), surrogate)
        counted = ~gross
        model = cls._of(surrogate, told, counted, scale, key)
        if counted.sum() < FEWEST:
            return model
        doubtful = counted.copy()
        doubtful[counted] = _worst(_left_out_odds(model), DOUBT, len(y) // SHARE)
        if not doubtful.any():
            return model
        model = cls._of(surrogate, told, counted & ~doubtful, scale, jax.random.fold_in(key, 2))
        wild = _wild(model.posterior, model.scale, told, gross | doubtful, OUT)
        if (wild == (gross | doubtful)).all():
            return model
        return cls._of(surrogate, told, ~wild, scale, jax.random.fold_in(key, 3))

    @classmethod
    def _of(cls, surrogate: Surrogate, told: Dataset, counted: Mask, scale: Standardizer | None, key: Any) -> Robust:
        noise = None if told.noise is None else told.noise[counted]
        plain = Learned.fit(surrogate, told.x[counted], told.y[counted], noise, scale=scale, key=key)
        given = plain.given_scale
        return cls(plain.posterior, plain.scale, plain.y, noise, plain.fixed_scale, (), given, None, told, counted)

    def update(self, unit: Values, y: Values, noise: Values | None = None, *, key: Any) -> Robust:
        """After more observations. Where only these are judged, the posterior moves on; where one that counted no longer does,
        or the other way round, it is fitted again."""
        assert self.everything is not None and self.counted is not None
        told, before = self.everything.append(unit, y, noise), len(self.counted)
        surrogate = self.posterior.surrogate
        gross = _allowed(grossly_out(told.y), surrogate)
        new = np.arange(len(told.y)) >= before
        was = np.concatenate([self.counted, np.zeros(len(y), dtype=bool)])
        if was.sum() < FEWEST:
            counted = ~gross
        else:
            wild = _wild(self.posterior, self.scale, told, ~was, np.where(new, OUT, BACK))
            counted = ~(wild | (gross & was))
        moved: Robust = self
        if (counted[:before] == self.counted).all():
            fresh = counted[before:]
            if fresh.any():
                own = None if noise is None else np.asarray(noise)[fresh]
                moved = super().update(unit[fresh], y[fresh], own, key=key)  # type: ignore[assignment]  # of its own class
            moved = replace(moved, everything=told, counted=counted)
        else:
            moved = self._again(told, counted, jax.random.fold_in(key, 2))
        return moved._looked_through(jax.random.fold_in(key, 3))

    def _looked_through(self, key: Any) -> Robust:
        """Without the one that fits worst of those that count, if it is wild: others may only now have shown that.

        A wild value that counts is taken for noise, and hides behind it. So the one that is doubtful is judged by a posterior
        without it; if that lets it pass it is looked at again when there is more to judge it by.
        """
        assert self.everything is not None and self.counted is not None
        told, total = self.everything, len(self.counted)
        if self.counted.sum() <= FEWEST or (~self.counted).sum() >= total // SHARE:
            return self
        odds = np.full(total, -np.inf)
        odds[self.counted] = _left_out_odds(self)
        for place, when in self.passed:
            if total < (1.1 if odds[place] > OUT else 1.3) * when:
                odds[place] = -np.inf
        doubtful = _worst(odds, DOUBT, 1)
        if not doubtful.any():
            return self
        without = self._again(told, self.counted & ~doubtful, key)
        if (_wild(without.posterior, without.scale, told, ~self.counted | doubtful, OUT) & doubtful).any():
            return without
        return replace(self, passed=(*self.passed, (int(np.argmax(doubtful)), total)))

    def _again(self, told: Dataset, counted: Mask, key: Any) -> Robust:
        scale = self.scale if self.given_scale else None
        return replace(type(self)._of(self.posterior.surrogate, told, counted, scale, key), notes=self.notes, passed=self.passed)

    @property
    def told(self) -> tuple[Values, Values | None]:
        return super().told if self.everything is None else (self.everything.y, self.everything.noise)

    @property
    def aside(self) -> NDArray[np.intp]:
        return np.zeros(0, dtype=np.intp) if self.counted is None else np.flatnonzero(~self.counted)

    @property
    def remarks(self) -> tuple[str, ...]:
        out, y = self.aside, self.told[0]
        if not len(out):
            return self.notes
        shown = ", ".join(f"{value:.4g}" for value in y[out[:5]]) + (", …" if len(out) > 5 else "")
        do = "value does not go with the others and is" if len(out) == 1 else "values do not go with the others and are"
        return (f"{len(out)} {do} set aside: {shown}.", *self.notes)


def _wild(posterior: Posterior, scale: Standardizer, told: Dataset, outside: Mask, limit: float | Values) -> Mask:
    """Those of `outside`, which are not in the posterior, that are wild by more than a limit, a number or one for each (n,), and
    that none of the others nearby bears out. What is in the posterior has had its say in what is expected."""
    mixture = posterior.predict(told.x[outside])
    variances = np.asarray(mixture.variances) + np.asarray(mixture.noise_at_candidates())
    if told.noise is not None:
        variances = variances + told.noise[outside] / scale.scale**2
    y, weights, means = scale.transform(told.y[outside]), np.asarray(mixture.weights), np.asarray(mixture.means)
    odds, error = np.full(len(told.y), -np.inf), np.zeros(len(told.y))
    odds[outside], error[outside] = _odds(y, weights, means, variances), y - weights @ means
    wild = odds > limit
    for i in np.flatnonzero(wild):
        distance = np.sum((told.x - told.x[i]) ** 2, axis=1)
        distance[i] = np.inf
        ratio = error[np.argsort(distance, kind="stable")[:NEAR]] / error[i]
        wild[i] = not ((ratio > AGREE) & (ratio < 1 / AGREE)).any()
    return wild


def _left_out_odds(model: Robust) -> Values:
    """Of each run that counts, given the others."""
    left_out = model.posterior.left_out()
    if left_out is None:
        return np.full(len(model.y), -np.inf)
    weights, means, variances = (np.asarray(part) for part in (left_out.weights, left_out.means, left_out.variances))
    return _odds(model.posterior.data.y, weights, means, variances)


def _odds(y: Values, weights: Values, means: Values, variances: Values) -> Values:
    """ln p(y | something else) − ln p(y | f), standardised, for y (n,) and a mixture (s,), (s, n)."""
    variances = variances + LEAST**2
    with np.errstate(divide="ignore"):  # draws may have no weight at all
        shares = np.log(weights)[:, None]
    densities = shares - 0.5 * (y - means) ** 2 / variances - 0.5 * np.log(2 * np.pi * variances)
    return -np.log(np.pi) - np.log1p(y**2) - np.logaddexp.reduce(densities, axis=0)


def _worst(odds: Values, limit: float, most: int) -> Mask:
    """The largest of the odds, if above a limit."""
    chosen = np.zeros(len(odds), dtype=bool)
    chosen[np.argsort(-odds, kind="stable")[:most]] = True
    return chosen & (odds > limit)


def _allowed(gross: Mask, surrogate: Surrogate) -> Mask:
    """None, where too few would be left to learn from."""
    return gross if (~gross).sum() >= surrogate.least_observations else np.zeros(len(gross), dtype=bool)
