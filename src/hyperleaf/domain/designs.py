"""First designs: points that fill a domain and satisfy its constraints."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from numbers import Integral

import numpy as np
from numpy.typing import NDArray

from hyperleaf.domain.axes import Axis, Codes
from hyperleaf.domain.constraints import Constraint, constraint_columns, holding
from hyperleaf.domain.sobol import sobol
from hyperleaf.errors import DomainError

_MAX_DESIGN = 2**16
_MAX_TRIES = 2**18  # points a design may draw, and points of a finite domain it may list, before it gives up


def num_points(axes: Mapping[str, Axis]) -> int | None:
    """How many points there are before constraints; None if an axis is continuous."""
    counts = [axis.num_values for axis in axes.values()]
    return None if None in counts else math.prod(count for count in counts if count is not None)


def design_codes(axes: Mapping[str, Axis], constraints: Sequence[Constraint], n: int, kind: str, seed: int) -> list[Codes]:
    """The codes of n feasible points, one array for each axis; see `Domain.design`."""
    if isinstance(n, bool) or not isinstance(n, Integral) or n < 0:
        raise DomainError(f"the size of a design must be a whole number ≥ 0; got {n!r}.")
    if isinstance(seed, bool) or not isinstance(seed, Integral) or seed < 0:
        raise DomainError(f"a seed must be a whole number ≥ 0; got {seed!r}. Pass an int, the same for the same design.")
    if kind not in ("sobol", "lhs", "uniform"):
        raise DomainError(f'the kind of a design must be "sobol", "lhs" or "uniform"; got {kind!r}.')
    n, seed, size = int(n), int(seed), num_points(axes)
    if n == 0:
        return [axis.quantile(np.zeros(0)) for axis in axes.values()]
    if n > _MAX_DESIGN:
        raise DomainError(f"a design must have at most {_MAX_DESIGN} points; got {n}. Ask for fewer.")
    tries = n if kind == "lhs" else 1 << (n - 1).bit_length()
    while True:
        drawn = _draw(axes, tries, kind, seed)
        kept = _take(drawn, np.flatnonzero(holding(constraints, axes, drawn)))
        if size is not None:
            kept = _distinct(kept)
        if len(kept[0]) >= n:
            return _take(kept, np.arange(n))
        if size is not None and size <= _MAX_TRIES and tries >= min(16 * n, _MAX_TRIES):
            return _filled(axes, constraints, kept, n, seed)
        if tries == _MAX_TRIES:
            raise DomainError(_why_infeasible(axes, constraints, drawn, len(kept[0]), n))
        tries = min(4 * tries, _MAX_TRIES)


def _draw(axes: Mapping[str, Axis], tries: int, kind: str, seed: int) -> list[Codes]:
    if kind == "uniform":
        v = np.random.default_rng(seed).random((tries, len(axes)))
    elif kind == "lhs":
        from scipy.stats import qmc  # slow to import

        v = qmc.LatinHypercube(len(axes), rng=seed).random(tries)
    else:  # a longer Sobol sequence begins with the shorter one, so drawing again only adds points; it wants powers of two
        v = sobol(1 << (tries - 1).bit_length(), len(axes), seed)
    return [axis.quantile(v[:, i]) for i, axis in enumerate(axes.values())]


def _filled(axes: Mapping[str, Axis], constraints: Sequence[Constraint], kept: list[Codes], n: int, seed: int) -> list[Codes]:
    """The kept points, then the other feasible points of a small finite domain in random order, then all of them again."""
    grids = np.meshgrid(*[axis.codes() for axis in axes.values()], indexing="ij")
    every = [grid.ravel() for grid in grids]
    places = np.flatnonzero(holding(constraints, axes, every))
    if not len(places):
        raise DomainError(_why_infeasible(axes, constraints, every, 0, n))
    others = _take(every, np.random.default_rng(seed).permutation(places))
    merged = _distinct([np.concatenate(pair) for pair in zip(kept, others, strict=True)])
    return _take(merged, np.arange(n) % len(merged[0]))


def _why_infeasible(axes: Mapping[str, Axis], constraints: Sequence[Constraint], drawn: list[Codes], found: int, n: int) -> str:
    columns, tries = constraint_columns(axes, drawn), len(drawn[0])
    shares = "; ".join(f"{c.source!r} holds at {c.holds(columns).mean():.2%}" for c in constraints)
    reason = f"a design of {n} needs as many feasible points; got {found} among {tries} tried in the box"
    return f"{reason} ({shares or 'no constraints'}). Loosen the constraints, or move the bounds closer around where they hold."


def _take(codes: list[Codes], rows: NDArray[np.intp]) -> list[Codes]:
    return [code[rows] for code in codes]


def _distinct(codes: list[Codes]) -> list[Codes]:
    """Rows without repetition, in the order of their first appearance."""
    _, first = np.unique(np.stack(codes, axis=1), axis=0, return_index=True)
    return _take(codes, np.sort(first))
