"""Gaussian mixtures in machine code: NumPy in and out; None where JAX has to serve."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hyperleaf.machine.library import library
from hyperleaf.parallel import num_threads

SOURCE = Path(__file__).with_name("mixtures.c")
MANY = 1000  # components from which on a rule costs less than all their pairs
Values = NDArray[np.float64]


class _Entropy(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_int64) for name in ("num", "candidates", "nodes", "threads")),
        *((name, ctypes.c_void_p) for name in ("weights", "means", "variances", "entropy", "error", "by_mean", "by_variance")),
    ]


class _Score(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_int64) for name in ("num", "candidates", "rows", "nodes", "threads")),
        *((name, ctypes.c_void_p) for name in ("weights", "means", "variances", "y", "value", "error")),
    ]


def is_there() -> bool:
    return library(SOURCE) is not None


def entropy(weights: Any, means: Any, variances: Any, nodes: int) -> tuple[Values, Values]:
    """By the rule of `mixture_entropy_with_error` with so many nodes (a multiple of 6): (m,) and its error; by panels with 0."""
    parts = _arrays(weights, means, variances)
    value, error = np.empty((2, parts[1].shape[1]))
    _run("hyperleaf_entropy" if nodes else "hyperleaf_entropy_by_panels", _entropy_of(parts, nodes, value, error))
    return value, error


def entropy_slopes(weights: Any, means: Any, variances: Any, nodes: int = 120) -> tuple[Values, Values, Values]:
    """Entropy (m,), and its derivatives in means and variances (s, m), by the rule whose nodes stay where they are."""
    parts = _arrays(weights, means, variances)
    value, by_mean, by_variance = np.empty(parts[1].shape[1]), np.empty(parts[1].shape), np.empty(parts[1].shape)
    _run("hyperleaf_entropy", _entropy_of(parts, nodes, value, value, by_mean, by_variance))
    return value, by_mean, by_variance


def crps(weights: Any, means: Any, variances: Any, y: Any, tolerance: float = 1e-9) -> Values:
    """The score (k, m) at y (k, m): all pairs of few components; of many a rule, and all pairs where its error is more than
    `tolerance` in units of the mixture's standard deviation."""
    parts = _arrays(weights, means, variances, y)
    value, error = _scored(parts, 96 if len(parts[0]) > MANY else 0)
    if len(parts[0]) > MANY:
        weights, means, variances, y = parts
        mean = weights @ means
        spread = np.sqrt(weights @ (variances + (means - mean) ** 2))
        for nodes in (288, 0):
            left = np.flatnonzero(~(error <= tolerance * spread))
            if len(left):
                group = (weights, *(np.ascontiguousarray(a[:, left]) for a in (means, variances, y)))
                value[:, left], error[left] = _scored(group, nodes)
    return value


def _scored(parts: tuple[Values, ...], nodes: int) -> tuple[Values, Values]:
    rows, candidates = parts[3].shape
    value, error = np.empty((rows, candidates)), np.empty(candidates)
    pointers = [array.ctypes.data for array in (*parts, value, error)]
    _run("hyperleaf_score", _Score(len(parts[0]), candidates, rows, nodes, num_threads(), *pointers))
    return value, error


def _arrays(*arrays: Any) -> tuple[Values, ...]:
    return tuple(np.asarray(array, np.float64, order="C") for array in arrays)


def _entropy_of(parts: tuple[Values, ...], nodes: int, *results: Values) -> _Entropy:
    pointers = [array.ctypes.data for array in (*parts, *results)]
    return _Entropy(*parts[1].shape, nodes, num_threads(), *pointers)


def _run(name: str, task: ctypes.Structure) -> None:
    code = library(SOURCE)
    assert code is not None
    function = getattr(code, name)
    function.argtypes = [ctypes.c_void_p]
    if not function(ctypes.addressof(task)):
        raise MemoryError("there is no memory for the components of a mixture; take fewer, or fewer threads.")
