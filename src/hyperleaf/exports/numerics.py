"""What ingredients say, in NumPy: moments of f, its derivatives, and the mean and spread of the mixture.

All points lie in the unit cube and all values are standardised here; `native` leads from the values of inputs to the cube, with
what is outside flagged, and is what every format does in its own language.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hyperleaf.exports.ingredients import SLACK, AxisForm, Ingredients, Part, Values

ELEMENTS = 2**22  # of a (points, observations) array of one leaf at once
ROOT3, ROOT5 = np.sqrt(3.0), np.sqrt(5.0)
# φ and −2 dφ/d(r²), of r²; the second times (u − u')/ℓ² is the slope of φ, and at 0 the variance of the slope of f.
PROFILE: dict[str, tuple[Callable[[Values], Values], Callable[[Values], Values]]] = {
    "rbf": (lambda r2: np.exp(-0.5 * r2), lambda r2: np.exp(-0.5 * r2)),
    "matern12": (lambda r2: np.exp(-np.sqrt(r2)), lambda r2: np.exp(-np.sqrt(r2)) / np.sqrt(np.maximum(r2, 1e-300))),
    "matern32": (
        lambda r2: (1.0 + ROOT3 * np.sqrt(r2)) * np.exp(-ROOT3 * np.sqrt(r2)),
        lambda r2: 3.0 * np.exp(-ROOT3 * np.sqrt(r2)),
    ),
    "matern52": (
        lambda r2: (1.0 + ROOT5 * np.sqrt(r2) + 5.0 / 3.0 * r2) * np.exp(-ROOT5 * np.sqrt(r2)),
        lambda r2: 5.0 / 3.0 * (1.0 + ROOT5 * np.sqrt(r2)) * np.exp(-ROOT5 * np.sqrt(r2)),
    ),
}


def native(axes: tuple[AxisForm, ...], points: Values) -> tuple[Values, NDArray[np.bool_], NDArray[np.bool_]]:
    """Points (m, axes), choices as numbers of their options: in the unit cube, whether outside the domain, and whether there is
    such a point at all. Beyond a bound of a real number the unit cube goes on; elsewhere NaN stands for it."""
    unit = np.zeros((len(points), axes[-1].start + axes[-1].width))
    outside = np.zeros(len(points), dtype=bool)
    wrong = np.zeros(len(points), dtype=bool)
    for axis, values in zip(axes, points.T, strict=True):
        within = (values >= axis.low - SLACK * abs(axis.low)) & (values <= axis.high + SLACK * abs(axis.high))
        outside |= ~within
        v = np.where(within, np.clip(values, axis.low, axis.high), values)
        a, b = axis.ends
        if axis.kind == "choice":
            wrong |= ~within | (v != np.rint(v))
            unit[:, axis.start : axis.start + axis.width] = v[:, None] == np.arange(axis.width)
            continue
        if axis.kind == "integer":
            wrong |= ~within | (v != np.rint(v))
            t = v - 0.5 + (v - axis.low) / (axis.high - axis.low)
        else:
            wrong |= ~np.isfinite(v) | ((v <= 0) if axis.log else False)
            t = v
        with np.errstate(invalid="ignore", divide="ignore"):
            unit[:, axis.start] = ((np.log(t) if axis.log else t) - a) / (b - a)
        unit[within, axis.start] = np.clip(unit[within, axis.start], 0.0, 1.0)
    unit[wrong] = np.nan
    return unit, outside | wrong, wrong


def mixing(part: Part, i: int, unit: Values) -> Values:
    """λⱼᵖ (m, l) of draw i."""
    z = part.offset[i] + unit @ part.normal[i].T
    shut = np.minimum(z, 0.0) - np.log1p(np.exp(-np.abs(z)))  # ln σ(z); ln σ(−z) is that less z
    side = part.side[i].astype(np.float64)
    return np.exp(part.power * (shut @ np.abs(side).T - z @ np.maximum(-side, 0.0).T))


def prior_variance(part: Part, unit: Values) -> Values:
    """k(u, u), (s, m)."""
    trend = part.constant + part.linear * np.sum((unit - 0.5) ** 2, axis=1)
    return np.stack([mixing(part, i, unit) ** 2 @ part.variance[i] + trend for i in range(len(part.weights))])


def noise_at(part: Part, unit: Values) -> Values:
    """The variance of the noise of a new observation under each draw, (s, m)."""
    if not part.tilt.any():
        return np.broadcast_to(part.noise[:, None], (len(part.noise), len(unit)))
    shares = (mixing(part, i, unit) ** (1.0 / part.power) for i in range(len(part.noise)))
    return np.stack([noise * np.exp(share @ tilt) for noise, share, tilt in zip(part.noise, shares, part.tilt, strict=True)])


def cross(part: Part, i: int, unit: Values, other: Values) -> Values:
    """k(u, u') of draw i, (m, n)."""
    here, there = mixing(part, i, unit), mixing(part, i, other)
    profile = PROFILE[part.profile][0]
    total = part.constant + part.linear * ((unit - 0.5) @ (other - 0.5).T)
    for j in range(part.side.shape[1]):
        if part.variance[i, j] > 0:
            total = total + part.variance[i, j] * here[:, j, None] * there[None, :, j] * profile(
                _squared(part, i, j, unit, other)
            )
    return total


def _squared(part: Part, i: int, j: int, unit: Values, other: Values) -> Values:
    lengthscale = part.lengthscale[i, j]
    return sum(((unit[:, k, None] - other[None, :, k]) / lengthscale[k]) ** 2 for k in range(unit.shape[1]))


def blocks(part: Part, count: int) -> Iterator[slice]:
    rows = max(ELEMENTS // len(part.y), 1)
    for start in range(0, count, rows):
        yield slice(start, min(start + rows, count))


def moments(part: Part, unit: Values) -> tuple[Values, Values]:
    """Mean and variance of f under each draw, (s, m)."""
    from scipy.linalg import solve_triangular

    means = np.empty((len(part.weights), len(unit)))
    variances = prior_variance(part, unit)
    for rows in blocks(part, len(unit)):
        for i in range(len(part.weights)):
            v = solve_triangular(part.factor[i], cross(part, i, unit[rows], part.x).T, lower=True, check_finite=False)
            means[i, rows] = part.whitened[i] @ v
            variances[i, rows] = np.maximum(variances[i, rows] - np.sum(v * v, axis=0), 0.0)
    return means, variances


def mixture(part: Part, unit: Values, noisy: bool) -> tuple[Values, Values, Values, Values]:
    """Mean (m,) and std (m,) in native units, and the means and stds (s, m) they come from."""
    means, variances = moments(part, unit)
    if noisy:
        variances = variances + noise_at(part, unit)
    mean = part.weights @ means
    var = part.weights @ (variances + (means - mean) ** 2)
    return part.loc + part.scale * mean, part.scale * np.sqrt(var), means, np.sqrt(variances)


def quantiles(part: Part, means: Values, stds: Values, levels: tuple[float, ...]) -> Values:
    """(q, m) in native units, by halving a bracket that holds the quantile of the mixture."""
    from scipy.special import ndtr, ndtri

    found = np.empty((len(levels), means.shape[1]))
    for row, level in enumerate(levels):
        ends = means + ndtri(level) * stds
        low, high = ends.min(axis=0), ends.max(axis=0)
        for _ in range(60):
            middle = 0.5 * (low + high)
            below = part.weights @ ndtr((middle - means) / np.maximum(stds, 1e-300)) < level
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        found[row] = part.loc + part.scale * 0.5 * (low + high)
    return found


def predict(ingredients: Ingredients, points: Values) -> dict[str, Any]:
    """What an exported file says of native points (m, axes): by output its columns, and whether points are outside."""
    unit, outside, _ = native(ingredients.axes, points)
    answer: dict[str, Any] = {"outside": outside}
    for part in ingredients.parts:
        mean, std, means, stds = mixture(part, unit, ingredients.noisy)
        rows = [mean, std, *(quantiles(part, means, stds, ingredients.quantiles) if ingredients.quantiles else ())]
        answer[part.name] = dict(zip(ingredients.columns, rows, strict=True))
        if ingredients.derivatives:
            slopes = np.stack(native_slopes(part, ingredients.axes, unit, points), axis=2)  # (m, real inputs, 2)
            answer[part.name] |= dict(zip(ingredients.slope_columns, slopes.reshape(len(points), -1).T, strict=True))
    return answer


def native_slopes(part: Part, axes: tuple[AxisForm, ...], unit: Values, points: Values) -> tuple[Values, Values]:
    """Mean and std of the derivatives of the latent output by the inputs that are real numbers, (m, real inputs), in native
    units; `points` are those of `unit` in native numbers, one column for each input."""
    means, variances = gradients(part, unit)
    mean = np.einsum("s,smd->md", part.weights, means)
    std = np.sqrt(np.einsum("s,smd->md", part.weights, variances + (means - mean) ** 2))
    real = [(k, axis, *axis.ends) for k, axis in enumerate(axes) if axis.kind == "real"]
    stretch = np.stack([(b - a) * (points[:, k] if axis.log else np.ones(len(points))) for k, axis, a, b in real], axis=1)
    by = part.scale / np.where(stretch > 0, stretch, np.nan)  # a log axis has no zero
    columns = [axis.start for _, axis, *_ in real]
    return mean[:, columns] * by, std[:, columns] * np.abs(by)


def gradients(part: Part, unit: Values) -> tuple[Values, Values]:
    """Mean and variance of ∂f/∂u under each draw, (s, m, d); exact, from the derivatives of the kernel."""
    rows = max(ELEMENTS // part.x.size, 1)
    found = [_gradients(part, unit[start : start + rows]) for start in range(0, max(len(unit), 1), rows)]
    means, variances = (np.concatenate(one, axis=1) for one in zip(*found, strict=True))
    return means, variances


def _gradients(part: Part, unit: Values) -> tuple[Values, Values]:
    from scipy.linalg import solve_triangular

    s, _, d, leaves, _ = part.shape
    means, variances = np.empty((2, s, len(unit), d))
    profile, slope = PROFILE[part.profile]
    at_zero = slope(np.zeros(1))[0]
    for i in range(s):
        weights, there = mixing(part, i, unit), mixing(part, i, part.x)
        z = part.offset[i] + unit @ part.normal[i].T
        side = part.side[i].astype(np.float64)
        left, right = np.maximum(side, 0.0), np.maximum(-side, 0.0)
        opening, closing = _sigmoid(-z), _sigmoid(z)
        grown = np.einsum("mlg,gd->mld", opening[:, None] * left - closing[:, None] * right, part.normal[i])
        changes = part.power * weights[:, :, None] * grown  # ∂λᵖ/∂u, (m, l, d)
        prior = np.einsum("mld,l->md", changes**2, part.variance[i]) + part.linear
        prior = prior + at_zero * np.einsum("ml,ld->md", weights**2 * part.variance[i], 1.0 / part.lengthscale[i] ** 2)
        found = np.broadcast_to(part.linear * (part.x.T - 0.5), (len(unit), d, len(part.x))).copy()
        for j in range(leaves):
            r2 = _squared(part, i, j, unit, part.x)
            shared = part.variance[i, j] * there[None, :, j]
            found += changes[:, j, :, None] * (shared * profile(r2))[:, None, :]
            apart = (unit[:, :, None] - part.x.T[None]) / part.lengthscale[i, j][:, None] ** 2
            found -= (weights[:, j, None] * shared * slope(r2))[:, None, :] * apart
        v = solve_triangular(part.factor[i], found.reshape(-1, len(part.x)).T, lower=True, check_finite=False)
        means[i] = (part.whitened[i] @ v).reshape(len(unit), d)
        variances[i] = np.maximum(prior - np.sum(v * v, axis=0).reshape(len(unit), d), 0.0)
    return means, variances


def _sigmoid(z: Values) -> Values:
    return np.exp(np.minimum(z, 0.0) - np.log1p(np.exp(-np.abs(z))))
