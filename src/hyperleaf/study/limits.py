"""How the limits of a study have been kept so far, and what the next query may risk.

Everything follows from the record: which runs broke a limit, and with them what the next query may risk (`held_risk`). Nothing
is kept beside it, so that a process that dies can neither lose a violation nor count it twice, and a value that is put right
counts as if it had been told so in the first place.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hyperleaf.config import Definition
from hyperleaf.data import Standardizer
from hyperleaf.storage.base import Query, Record, State

COVERED = 0.9  # of the interval of the held rate
_FORESEEN = re.compile(r"keeps all limits with probability (\S+?);?(?: |$)")


@dataclass(frozen=True)
class Outcome:
    """A run that ended: which limits it broke, each with the value, or that it failed where failures count; `foreseen` is the
    probability of keeping all limits with which it was asked, None where nothing was foreseen (a start, or added)."""

    query: Query
    broke: Mapping[str, float]
    failed: bool
    foreseen: float | None

    @property
    def violated(self) -> bool:
        return self.failed or bool(self.broke)

    @property
    def counted(self) -> bool:
        """Whether it was chosen by the study; what a person calls safe is that person's."""
        return self.query.origin == "acquisition"


@dataclass(frozen=True)
class Kept:
    """How the limits were kept. `risk` is what the next query may risk, before open queries are counted; `risks` what it was
    before and after each run that was `counted`."""

    definition: Definition
    outcomes: tuple[Outcome, ...]
    risks: tuple[float, ...]

    @property
    def asked(self) -> float:
        return self.definition.risk

    @property
    def risk(self) -> float:
        return self.risks[-1] if self.definition.safety.held else self.asked

    @property
    def counted(self) -> tuple[Outcome, ...]:
        return tuple(one for one in self.outcomes if one.counted)

    @property
    def violations(self) -> tuple[Outcome, ...]:
        """Of all runs, those that a person asked for too."""
        return tuple(one for one in self.outcomes if one.violated)

    @property
    def rate(self) -> float | None:
        """The share of the chosen runs that broke a limit; None before there is one."""
        return sum(one.violated for one in self.counted) / len(self.counted) if self.counted else None

    @property
    def interval(self) -> tuple[float, float]:
        """Where the rate lies with a probability of 90 %, as if runs were independent (Clopper and Pearson)."""
        return rate_interval(sum(one.violated for one in self.counted), len(self.counted))

    @property
    def words(self) -> str:
        """How it stands, in a sentence."""
        if not self.counted:
            return f"no query has been chosen under the limits yet; at most {self.asked:.3g} of them may break one"
        broke, (low, high) = sum(one.violated for one in self.counted), self.interval
        rate = f"{broke} of {len(self.counted)} chosen queries broke a limit ({100 * broke / len(self.counted):.2g} %"
        words = f"{rate}, 90 % interval {100 * low:.2g} to {100 * high:.2g} %; asked for {100 * self.asked:.3g} %)"
        if self.risk <= 0:
            return f"{words}; for now only the neighbourhood of safe runs is asked"
        return f"{words}; the next query may risk {100 * self.risk:.2g} %" if self.risk < self.asked else words


def rate_interval(broke: int, num: int, covered: float = COVERED) -> tuple[float, float]:
    """Clopper and Pearson's interval of a share."""
    from scipy.special import betaincinv

    tail = (1 - covered) / 2
    low = float(betaincinv(broke, num - broke + 1, tail)) if broke else 0.0
    high = float(betaincinv(broke + 1, num - broke, 1 - tail)) if broke < num else 1.0
    return low, high


def kept_so_far(definition: Definition, record: Record) -> Kept:
    """From the record alone, in the order in which queries were asked: in which order they were told makes no difference."""
    told = {one.query_id: one.outputs for one in record.observations}
    outcomes = []
    for query in record.queries:
        if query.id in told:
            values = told[query.id]
            broke = {name: values[name] for name, limit in definition.limits.items() if not limit.kept(values[name])}
            outcomes.append(Outcome(query, broke, False, foreseen(query.note)))
        elif query.state is State.FAILED and definition.failures.avoid:
            outcomes.append(Outcome(query, {}, True, foreseen(query.note)))
    counted = [one.violated for one in outcomes if one.counted]
    return Kept(definition, tuple(outcomes), tuple(held_risk(counted, definition.risk)))


def held_risk(violations: Sequence[bool], asked: float) -> list[float]:
    """The risk that a query may take, before the first of these runs and after each of them.

    Online conformal control: α ← min(α + η(a − violated), a) with η = a, where a is the risk that was asked for. A run that
    kept the limits earns η·a, one that broke them costs η(1 − a). However the model errs, after T runs the rate of violations is
    at most a + (α_1 − α_{T+1})/(ηT): below 2a after 60 runs at a = 0.05, provided that none happens while α ≤ 0. It never rises
    above what was asked, so that luck is not spent on danger.
    """
    risk, found = asked, [asked]
    for violated in violations:
        risk = min(risk + asked * (asked - float(violated)), asked)
        found.append(risk)
    return found


def foresight(probability: float, note: str = "") -> str:
    """The note of a query, with the probability that it was asked with; `foreseen` reads it."""
    said = f"keeps all limits with probability {probability:.6g}"
    return f"{said}; {note}" if note else said


def foreseen(note: str) -> float | None:
    found = _FORESEEN.search(note)
    return None if found is None else float(found[1])


def first_scale(definition: Definition, name: str, y: NDArray[np.float64]) -> Standardizer | None:
    """The scale of an output: its range, if that is given. Of one with a limit, whose first values are safe and so lie close
    together, the distance to the limit if that is more: else what lies beyond it would be believed out of the question."""
    output, limit = definition.outputs[name], definition.limits.get(name)
    if output.range is not None:
        return Standardizer.from_range(*output.range)
    if limit is None:
        return None
    plain = Standardizer.from_data(y)
    gap = max(abs(bound - plain.loc) for bound in (limit.low, limit.high) if np.isfinite(bound))
    return Standardizer(plain.loc, max(plain.scale, gap))
