"""Noise by leaf at any points, in NumPy: for predictions from draws that machine code has made, so that JAX compiles nothing."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]


class Slotted(Protocol):
    """A model as machine code takes it: where each of its numbers stands in z, or its fixed value."""

    d: int
    leaves: int
    gates: int
    path: NDArray[np.int64]  # (l, g): 1 where a leaf lies left of a gate, −1 right of it
    place: NDArray[np.int64]
    fixed: Values
    is_log: NDArray[np.int64]


class _Draw(NamedTuple):
    offset: Values  # (g,), times the steepness, as the normals are
    normal: Values  # (g, d)
    level: float  # ln of the variance that all leaves share
    tilt: Values  # (l,), what each leaf adds to it


def log_noise_at(model: Slotted, z: Values, x: Values) -> Values:
    """ln σ²(x) of each draw (s, m)."""
    found = np.empty((len(z), len(x)))
    for i, draw in enumerate(_draws(model, z)):
        found[i] = draw.level + _weights(model, draw, x) @ draw.tilt
    return found


def noise_slopes(model: Slotted, z: Values, x: Values) -> Values:
    """∂σ²/∂x of each draw (s, m, d)."""
    found = np.empty((len(z), *x.shape))
    left, right = np.maximum(model.path, 0).astype(np.float64), np.maximum(-model.path, 0).astype(np.float64)
    for i, draw in enumerate(_draws(model, z)):
        logits = draw.offset + x @ draw.normal.T
        open_ = np.exp(-np.logaddexp(0.0, -logits))
        weights = _weights(model, draw, x)
        by_logit = (weights * draw.tilt) @ left * (1.0 - open_) - (weights * draw.tilt) @ right * open_
        found[i] = np.exp(draw.level + weights @ draw.tilt)[:, None] * (by_logit @ draw.normal)
    return found


def _weights(model: Slotted, draw: _Draw, x: Values) -> Values:
    """λ (m, l)."""
    logits = draw.offset + x @ draw.normal.T
    shut = -np.logaddexp(0.0, -logits)  # ln σ(z); ln σ(−z) is that less z
    side = model.path.astype(np.float64)
    return np.exp(shut @ np.abs(side).T - logits @ np.maximum(-side, 0.0).T)


def _draws(model: Slotted, z: Values) -> list[_Draw]:
    g, d, leaves = model.gates, model.d, model.leaves
    logs = np.where(model.place >= 0, model.is_log[model.place], 0).astype(bool)
    raw = np.where(model.place >= 0, z[:, model.place], model.fixed)
    with np.errstate(over="ignore", divide="ignore"):
        values = np.where(logs, np.exp(np.where(logs, raw, 0.0)), raw)
        begin = g * (d + 2) + leaves * (d + 1)
        level = np.where(logs[begin], raw[:, begin], np.log(values[:, begin]))
    steepness = values[:, g * (d + 1) : g * (d + 2)]
    offset, normal = steepness * values[:, :g], steepness[:, :, None] * values[:, g : g * (d + 1)].reshape(-1, g, d)
    tilt = values[:, begin + 1, None] * values[:, begin + 2 :]
    return [_Draw(*parts) for parts in zip(offset, normal, level, tilt, strict=True)]
