"""Values that do not go with the others: a comma lost, a sign, two runs swapped, a broken sensor.

Nothing is changed and nothing is left out; whoever told them is asked to look again. It must be quick, since it is done whenever
something is told, so the judge is not the study's surrogate but a plain Gaussian process over the inputs, fitted by how well it
predicts runs that are left out, with medians in place of means so that wild values do not make themselves look harmless. Runs
that fit worst are taken out one after the other, and then judged by those that are left.

A value is a suspect if it lies far outside of all others as well as of what is expected there, or if it would fit well after one
of the usual slips. A cliff in the system is neither, nor is a peak that more than one run has met.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hyperleaf.domain import Domain
from hyperleaf.storage.base import Record
from hyperleaf.study.corrections import confirmed

FEWEST, MOST = 6, 300  # runs with which anything can be said, and with which it is quick; of more, neighbours are judged together
WILD, SLIP, FITS = 10.0, 6.0, 2.5  # errors in units of the expected spread
LEAST, MOST_OF_PEAK, ABSURD = 0.3, 10.0, 1000.0  # shares of a run's height on a peak that others there show; what no peak exceeds
LENGTHS, NOISES = (0.15, 0.3, 0.6, 1.2, 2.5), (1e-4, 1e-2, 1e-1)
Values = NDArray[np.float64]


@dataclass(frozen=True)
class Suspect:
    """A run whose output is not what the others let expect: `expected` ± `spread`. `slip` names what may have happened, and
    `right` what it would have been then; "" and None where nothing comes to mind."""

    query_id: int
    output: str
    value: float
    expected: float
    spread: float
    slip: str = ""
    right: float | None = None

    @property
    def words(self) -> str:
        told = f"query {self.query_id}: {self.output} = {self.value:.6g}, where the others let expect {self.expected:.4g} ± "
        guess = f"; {self.slip}" if self.slip else ""
        return f"{told}{self.spread:.2g}{guess}"

    @property
    def remedy(self) -> str:
        """The commands that put it right."""
        right = "…" if self.right is None else f"{self.right:.10g}"
        return f"hyperleaf correct {self.query_id} {self.output}={right}, or hyperleaf void {self.query_id}"

    @property
    def confirmation(self) -> str:
        """The command that says that it is right; then it is not named again."""
        return f"hyperleaf confirm {self.query_id}"


def find_suspects(
    record: Record, domain: Domain, outputs: Mapping[str, Any], among: Collection[int] | None = None
) -> tuple[Suspect, ...]:
    """Of all outputs, by the numbers of their queries; with `among` only of these queries, which is quicker where there are many
    others."""
    told = record.observations
    if len(told) < FEWEST:
        return ()
    places = record.places()
    unit = domain.to_unit([dict(places[one.query_id]) for one in told])
    ids = np.array([one.query_id for one in told], dtype=np.int64)
    wanted = np.ones(len(ids), dtype=bool) if among is None else np.isin(ids, list(among))
    found: list[Suspect] = []
    for rows in _neighbours(unit):
        if wanted[rows].any():
            for name in outputs:
                y = np.array([told[row].outputs[name] for row in rows], dtype=np.float64)
                found += _known(name, ids[rows].tobytes(), unit[rows].tobytes(), y.tobytes())
    left = set(ids[wanted].tolist()) - confirmed(record)
    return tuple(sorted((one for one in found if one.query_id in left), key=lambda one: (one.query_id, one.output)))


def _neighbours(unit: Values) -> list[NDArray[np.intp]]:
    """The rows, in the order in which they were told, in groups of at most `MOST`: cells of a tree that grows with the runs.

    A cell with one row too many is cut where these first rows have their middle, along the input in which they lie furthest
    apart, and is not cut elsewhere when more come. So one more run changes one group, and what was said of the others stands.
    """
    groups, small = [np.arange(len(unit))], []
    while groups:
        rows = groups.pop()
        if len(rows) <= MOST:
            small.append(rows)
            continue
        first = unit[rows[: MOST + 1]]
        middle = np.median(first, axis=0)
        fewer = np.minimum((first <= middle).sum(axis=0), (first > middle).sum(axis=0))
        balanced = np.where(fewer >= MOST // 10, np.ptp(first, axis=0), -1.0)
        along = int(np.argmax(balanced))
        low = unit[rows, along] <= middle[along] if balanced[along] > 0 else np.arange(len(rows)) < MOST
        groups += [rows[low], rows[~low]]
    return small


@lru_cache(maxsize=256)
def _known(name: str, ids: bytes, unit: bytes, y: bytes) -> tuple[Suspect, ...]:
    """`_judged`, of a group that is looked at again whenever something is told elsewhere."""
    numbers, values = np.frombuffer(ids, dtype=np.int64), np.frombuffer(y)
    return tuple(_judged(name, numbers.tolist(), np.frombuffer(unit).reshape(len(values), -1), values))


def _judged(name: str, ids: list[int], unit: Values, y: Values) -> list[Suspect]:
    out = _worst(unit, y)
    if not len(out):
        return []
    kept, expected, spread = _by_the_rest(unit, y, out)
    low, high = float(y[kept].min()), float(y[kept].max())
    error = np.abs(y[out] - expected) / spread
    beyond = _beyond_logarithms(unit, y)
    alone, _ = _left_out(unit, y, LENGTHS[0], NOISES[0])  # as neighbours see them, also those that were taken out
    found = []
    for k, i in enumerate(out):
        outside = max(low - y[i], y[i] - high) / max(high - low, 1e-300) if i in beyond else -1.0
        slip, right = "", None
        if error[k] > SLIP:
            slip, right = _slip(k, [int(j) for j in out], ids, y, expected, spread, error, outside > 0.1)
        shown = (y[i] - alone[i] - expected[k]) / (y[i] - expected[k]) if error[k] > 0 else 0.0
        peak = outside < ABSURD and LEAST < shown < MOST_OF_PEAK
        if slip or (error[k] > WILD and outside > 1.0 and not peak):
            found.append(Suspect(ids[i], name, float(y[i]), float(expected[k]), float(spread[k]), slip, right))
    return found


def _by_the_rest(unit: Values, y: Values, out: NDArray[np.intp]) -> tuple[NDArray[np.intp], Values, Values]:
    """Those that are left, and what they let expect of those that were taken out."""
    kept = np.setdiff1d(np.arange(len(y)), out)
    length, noise, factor = _fit(unit[kept], y[kept])
    return kept, *_predict(unit[kept], y[kept], unit[out], length, noise, factor)


def _beyond_logarithms(unit: Values, y: Values) -> set[int]:
    """Those that are far out on a logarithmic scale too; all, where there are values of both signs. What grows by powers looks
    wild on a linear scale and is not."""
    if not (np.all(y > 0) or np.all(y < 0)):
        return set(range(len(y)))
    logs = np.log(np.abs(y))
    out = _worst(unit, logs)
    if not len(out):
        return set()
    kept, expected, spread = _by_the_rest(unit, logs, out)
    low, high = float(logs[kept].min()), float(logs[kept].max())
    outside = np.maximum(low - logs[out], logs[out] - high)
    return {int(i) for i in out[(np.abs(logs[out] - expected) > SLIP * spread) & (outside > 0.1 * (high - low))]}


def _slip(
    k: int, out: list[int], ids: list[int], y: Values, expected: Values, spread: Values, error: Values, outside: bool
) -> tuple[str, float | None]:
    """What may have happened to the k-th of those that were taken out, and what it would have been."""
    value = float(y[out[k]])
    for other, i in enumerate(out):
        crossed = abs(value - expected[other]) < FITS * spread[other] and abs(y[i] - expected[k]) < FITS * spread[k]
        if other != k and error[other] > SLIP and crossed:
            return f"swapped with query {ids[i]}?", float(y[i])
    if outside and abs(expected[k]) > 3 * spread[k]:
        if abs(-value - expected[k]) < FITS * spread[k]:
            return "the sign?", -value
        for power in (1, 2, 3, -1, -2, -3):
            if abs(value / 10.0**power - expected[k]) < FITS * spread[k] and abs(value) > FITS * spread[k]:
                return f"a factor of {10.0 ** abs(power):g}?", float(f"{value / 10.0**power:.12g}")
    return "", None


def _worst(unit: Values, y: Values) -> NDArray[np.intp]:
    """Those that fit worst when they are left out, taken out one by one until the rest fits; a fifth of all at most."""
    kept = np.arange(len(y))
    out: list[int] = []
    length, noise, factor = _best(unit, y)  # too strict where runs were repeated, but the rest will judge what is taken out
    while len(kept) > FEWEST - 1 and len(out) < max(len(y) // 5, 2):
        residuals, spread = _left_out(unit[kept], y[kept], length, noise)
        error = np.abs(residuals) / _floored(factor * spread, y[kept])
        worst = int(np.argmax(error))
        if error[worst] < 0.7 * SLIP:
            break
        out.append(int(kept[worst]))
        kept = np.delete(kept, worst)
    return np.array(out, dtype=np.intp)


def _fit(unit: Values, y: Values) -> tuple[float, float, float]:
    """As `_best`, but of runs that were repeated each place counts once: they predict each other well whatever the length is."""
    places, middle = _places(unit, y)
    if not FEWEST - 1 <= len(places) < len(unit):
        return _best(unit, y)
    length, noise, factor = _best(places, middle)
    residuals, spread = _left_out(unit, y, length, noise)
    return length, noise, max(factor, 1.4826 * float(np.median(np.abs(residuals) / spread)))


def _best(unit: Values, y: Values) -> tuple[float, float, float]:
    """Length and noise with which half of the runs are predicted best when left out, and by how much the stated spread is off."""
    tried = []
    for length in LENGTHS:
        for noise in NOISES:
            residuals, spread = _left_out(unit, y, length, noise)
            tried.append(
                (float(np.median(np.abs(residuals))), length, noise, 1.4826 * float(np.median(np.abs(residuals) / spread)))
            )
    return min(tried)[1:]


def _places(unit: Values, y: Values) -> tuple[Values, Values]:
    """The places of runs, each once, and the median of what they gave there."""
    places, which = np.unique(np.round(unit, 6), axis=0, return_inverse=True)
    which = which.reshape(-1)
    return places, np.array([np.median(y[which == k]) for k in range(len(places))])


def _left_out(unit: Values, y: Values, length: float, noise: float) -> tuple[Values, Values]:
    """yᵢ less its prediction from all others, αᵢ / K⁻¹ᵢᵢ, and the spread of that, √(1 / K⁻¹ᵢᵢ), as in `surrogates.validation`."""
    inverse = _inverse(unit, length, noise)
    own = np.diag(inverse)
    return inverse @ (y - np.median(y)) / own, 1.0 / np.sqrt(own)


def _predict(unit: Values, y: Values, where: Values, length: float, noise: float, stated: float) -> tuple[Values, Values]:
    inverse, cross = _inverse(unit, length, noise), _kernel(where, unit, length)
    mean = np.median(y) + cross @ (inverse @ (y - np.median(y)))
    variance = 1.0 + noise - np.sum(cross * (cross @ inverse), axis=1)
    return mean, _floored(stated * np.sqrt(np.maximum(variance, noise)), y)


def _floored(spread: Values, y: Values) -> Values:
    """Nobody is accused for less than a fiftieth of where most values lie."""
    low, high = np.quantile(y, (0.1, 0.9))
    return np.maximum(spread, max(0.02 * float(high - low), 1e-9 * float(np.max(np.abs(y))), 1e-300))


def _inverse(unit: Values, length: float, noise: float) -> Values:
    """K⁻¹, by a Cholesky factor. NumPy will do: `tell` and `status` load nothing heavier, and there are at most `MOST` runs."""
    gram, one = _kernel(unit, unit, length), np.eye(len(unit))
    for jitter in (0.0, 1e-6, 1e-3, 1.0):
        try:
            root = np.linalg.inv(np.linalg.cholesky(gram + (noise + jitter) * one))
        except np.linalg.LinAlgError:
            continue
        return root.T @ root
    return one / (1.0 + noise)


def _kernel(a: Values, b: Values, length: float) -> Values:
    """Matérn 5/2, the same along all inputs."""
    apart = np.sqrt(np.sum((a[:, None, :] - b[None, :, :]) ** 2, axis=2))
    r = np.sqrt(5.0) * apart / (length * np.sqrt(a.shape[1]))
    return (1.0 + r + r**2 / 3.0) * np.exp(-r)
