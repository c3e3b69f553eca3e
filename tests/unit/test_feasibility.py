"""Where runs fail: expectation propagation against the integral itself, and what it says of places."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtr

from hyperleaf.study.feasibility import Feasibility, learn_feasibility, predicted, propagate, rbf


@pytest.mark.parametrize(("labels", "size"), [([1.0, -1.0], 2.0), ([1.0, 1.0, -1.0], 6.0)])
def test_expectation_propagation_agrees_with_the_integral(labels, size) -> None:
    """Against importance sampling from the prior, which needs no approximation: moments of f, evidence and probability, which
    errs most: between places that lie far apart the posterior of f is skewed, and EP knows its moments only."""
    rng, labels = np.random.default_rng(0), np.array(labels)
    n, num = len(labels), 400_000
    x = np.concatenate([rng.random((n, 1)), [[0.5]]])
    kernel = rbf(x, x, 0.3, size)
    f = rng.multivariate_normal(np.zeros(n + 1), kernel + 1e-9 * np.eye(n + 1), size=num)
    weights = np.prod(ndtr(labels * f[:, :n]), axis=1)
    sites = propagate(kernel[:n, :n], labels)
    mean, var = predicted(sites, kernel[:n, :n], kernel[n:, :n], size**2)
    assert sites.log_evidence == pytest.approx(np.log(weights.mean()), abs=0.02)
    assert mean[0] == pytest.approx(np.average(f[:, n], weights=weights), abs=0.02 * size)
    assert ndtr(mean / np.sqrt(1 + var))[0] == pytest.approx(np.average(ndtr(f[:, n]), weights=weights), abs=0.025)


def test_a_border_is_found_and_far_away_stays_open() -> None:
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.random(60), 0.3 * rng.random(60)])
    ok = x[:, 0] < 0.6
    learned = learn_feasibility(x[ok], x[~ok])
    assert isinstance(learned, Feasibility)
    chances = learned(np.array([[0.2, 0.15], [0.9, 0.15]]))
    assert chances[0] > 0.98 and chances[1] < 0.02
    far = learn_feasibility(np.array([[0.05, 0.05]]), np.array([[0.1, 0.1]]))
    assert learned.weights.sum() == pytest.approx(1)
    assert 0.4 < far(np.array([[0.95, 0.95]]))[0] < 0.6


def test_before_anything_failed_there_is_nothing_to_learn_and_before_anything_succeeded_no_place_is_better() -> None:
    assert learn_feasibility(np.ones((3, 2)), np.zeros((0, 2))) is None
    only = learn_feasibility(np.zeros((0, 2)), np.ones((3, 2)))
    assert only(np.zeros((2, 2))).tolist() == [0.2, 0.2]


def test_swapping_success_and_failure_swaps_the_probability() -> None:
    rng = np.random.default_rng(1)
    a, b, at = rng.random((6, 2)), rng.random((5, 2)), rng.random((7, 2))
    assert learn_feasibility(a, b)(at) == pytest.approx(1 - learn_feasibility(b, a)(at), abs=1e-6)
