"""Mixtures in machine code: the rules of JAX, to rounding; and what comes of them does not depend on the threads."""

import shutil

import jax
import numpy as np
import pytest

from hyperleaf.machine import library, mixtures
from hyperleaf.mixture import Mixture, mixture_crps, mixture_entropy, mixture_entropy_with_error
from hyperleaf.mixture.entropy import _entropy_by_panels
from hyperleaf.precision import float64

# With a compiler the code has to be there: a library that cannot be built is a failure, not a skip.
pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="no compiler")


def some(s: int = 7, m: int = 21, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Weights, one of them zero, means and variances that differ by many orders of magnitude at some candidates."""
    rng = np.random.default_rng(seed)
    weights = np.append(rng.random(s - 1), 0.0)
    variances = np.exp(rng.normal(size=(s, m)) - 1.0)
    variances[:, 3] = np.exp(6.0 * rng.normal(size=s))
    return weights / weights.sum(), rng.normal(size=(s, m)), variances


@float64
def test_entropy_and_its_slopes_are_those_of_jax():
    parts = some()
    ours, error = mixtures.entropy(*parts, 96)
    expected, expected_error = mixture_entropy_with_error(*parts, num_nodes=96)
    np.testing.assert_allclose(ours, expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(error, expected_error, rtol=1e-6, atol=1e-13)
    np.testing.assert_allclose(mixtures.entropy(*parts, 0)[0], _entropy_by_panels(*parts), rtol=1e-12, atol=1e-12)
    value, by_mean, by_variance = mixtures.entropy_slopes(*parts)
    total, slopes = jax.value_and_grad(lambda mean, variance: mixture_entropy(parts[0], mean, variance).sum(), (0, 1))(*parts[1:])
    np.testing.assert_allclose(value.sum(), total, rtol=1e-12)
    np.testing.assert_allclose(by_mean, slopes[0], rtol=1e-8, atol=1e-11)
    np.testing.assert_allclose(by_variance, slopes[1], rtol=1e-8, atol=1e-8)


def test_entropy_is_refined_where_widths_differ_and_minus_infinity_at_points():
    weights, means, variances = some()
    variances[0, 5] = 0.0
    found = Mixture(weights, means, variances).entropy()
    assert found[5] == -np.inf
    kept = np.delete(np.arange(means.shape[1]), 5)
    panels, _ = mixtures.entropy(weights, means[:, kept], variances[:, kept], 0)
    np.testing.assert_allclose(found[kept], panels, atol=2e-6)


@float64
def test_scores_are_those_of_jax_with_points_too():
    weights, means, variances = some()
    variances[0, 5] = variances[1, 5] = 0.0
    y = np.random.default_rng(1).normal(size=(3, means.shape[1]))
    y[0, 5] = means[0, 5]
    np.testing.assert_allclose(
        mixtures.crps(weights, means, variances, y), mixture_crps(weights, means, variances, y), atol=1e-12
    )


def test_scores_of_many_components_by_a_rule_are_those_of_all_pairs(monkeypatch):
    parts = some(40, 11, 2)
    y = np.random.default_rng(1).normal(size=(2, 11))
    exact = mixtures.crps(*parts, y)
    monkeypatch.setattr(mixtures, "MANY", 10)
    np.testing.assert_allclose(mixtures.crps(*parts, y), exact, rtol=1e-7, atol=1e-8)
    parts[2][2, 4] = 0.0  # a point mass, which no rule sees
    pair = mixtures.crps(*parts, y)
    monkeypatch.setattr(mixtures, "MANY", 1000)
    np.testing.assert_array_equal(pair[:, 4], mixtures.crps(*parts, y)[:, 4])


def test_the_number_of_threads_changes_no_bit(monkeypatch):
    parts = some(20, 50, 4)
    monkeypatch.setattr(mixtures, "num_threads", lambda: 1)
    alone = (*mixtures.entropy(*parts, 96), *mixtures.entropy_slopes(*parts), mixtures.crps(*parts, parts[1][:2]))
    monkeypatch.setattr(mixtures, "num_threads", lambda: 3)
    several = (*mixtures.entropy(*parts, 96), *mixtures.entropy_slopes(*parts), mixtures.crps(*parts, parts[1][:2]))
    for one, other in zip(alone, several, strict=True):
        np.testing.assert_array_equal(one, other)


def test_without_machine_code_jax_serves(monkeypatch):
    parts = some(3, 5)
    ours = Mixture(*parts)
    with_code = ours.entropy(), ours.crps(0.3)
    monkeypatch.setenv(library.VARIABLE, "off")
    for one, other in zip(with_code, (ours.entropy(), ours.crps(0.3)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-10)
