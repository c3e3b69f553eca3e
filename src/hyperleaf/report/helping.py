"""Whether the campaign helps, in a sentence to quote and one that says where it comes from."""

from __future__ import annotations

from dataclasses import dataclass

from hyperleaf.report.facts import Known
from hyperleaf.report.words import count, number


@dataclass(frozen=True)
class Claim:
    """`short` is for the headline: "" where the runs cannot be told from random ones."""

    short: str
    claim: str
    more: str


def helping(known: Known, alone: bool = True) -> Claim:
    """What to say of the output `known`, which has something to tell of it; by its name if it is not `alone`."""
    found = known.helping
    assert found is not None
    low, middle, high = (round(value) for value in found.equal)
    runs = f"{found.num_runs} runs taught what" if alone else f"{known.name}: {found.num_runs} runs taught what"
    if found.beyond:
        claim = f"{runs} more than {found.limit} random ones would have"
    else:
        claim = f"{runs} about {middle} random ones would have"
    short = ""
    if low > found.num_runs:
        claim = short = f"{claim}."
    elif high < found.num_runs:
        claim = f"{claim}: random runs would have done better."
    else:
        claim = f"{claim}: they cannot be told from random ones."
    reach = f"more than {found.limit}" if found.equal[2] >= found.limit else f"{high}"
    more = (
        f"For eight in ten of {found.num_draws} functions that fit the runs it is between {low} and {reach}. Each function is "
        "learned once from these runs and once from runs at random places, with the same kernel; what is counted are the random "
        "runs after which the error is the same."
    )
    if found.plain and known.accuracy.loo_rmse is not None:
        plain = found.plain[-1]
        here = f"{number(plain[1], known.unit)} at runs left out, this surrogate {number(known.accuracy.loo_rmse, known.unit)}"
        more += f" A plain stationary Gaussian process with {count(plain[0], 'run')} of these misses by {here}."
    return Claim(short, claim, more)
