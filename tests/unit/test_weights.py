"""Weights of particles: survivors, strata, temperatures, and when particles have moved enough."""

import jax
import numpy as np
import pytest

from hyperleaf.inference.weights import (
    NEGLIGIBLE,
    allotted,
    correlation,
    effective_number,
    health,
    next_temperature,
    stratified_resample,
)
from hyperleaf.precision import float64

ONE = np.zeros(5, np.int64)


def log(weights):
    with np.errstate(divide="ignore"):
        return np.log(np.asarray(weights, float) / np.sum(weights))


@float64
def test_resampling_takes_each_in_proportion_and_never_the_dead():
    weights = np.array([0.0, 0.5, 0.25, 0.25, 0.0])
    for seed in range(20):
        survivors, log_weights = stratified_resample(jax.random.key(seed), log(weights), ONE)
        counts = np.bincount(survivors, minlength=5)
        assert counts.sum() == 5
        assert (np.abs(counts - 5 * weights) < 1).all()
        np.testing.assert_allclose(log_weights, -np.log(5))


@float64
def test_a_light_stratum_keeps_its_mass_and_a_share_of_the_particles():
    rng = np.random.default_rng(0)
    strata = np.repeat([0, 1], [80, 20])
    weights = rng.random(100) * np.where(strata == 1, 1e-5, 1.0)
    weights /= weights.sum()
    survivors, log_weights = stratified_resample(jax.random.key(0), log(weights), strata, 0.25)
    kept = strata[survivors]
    assert (kept == 1).sum() == 25
    for k in (0, 1):
        assert np.exp(log_weights[kept == k]).sum() == pytest.approx(weights[strata == k].sum(), rel=1e-12)
    # On average over the one random number, every particle keeps its weight.
    total = np.zeros(100)
    for seed in range(400):
        survivors, log_weights = stratified_resample(jax.random.key(seed), log(weights), strata, 0.25)
        np.add.at(total, survivors, np.exp(log_weights) / 400)
    heavy = weights > 1e-3
    np.testing.assert_allclose(total[heavy], weights[heavy], atol=4 * 0.5 / 75 / np.sqrt(400))


@float64
def test_a_stratum_of_negligible_mass_is_given_up_only_at_the_end_of_a_bridge():
    strata = np.repeat([0, 1], [6, 4])
    log_weights = log(np.where(strata == 1, 0.1 * NEGLIGIBLE, 1.0))
    survivors, after = stratified_resample(jax.random.key(0), log_weights, strata)
    assert (strata[survivors] == 0).all() and np.exp(after).sum() == pytest.approx(1.0)
    survivors, after = stratified_resample(jax.random.key(0), log_weights, strata, drop=False)
    assert (strata[survivors] == 1).sum() == 2
    # However light: a mass that no floating-point number can hold is still a mass.
    survivors, after = stratified_resample(jax.random.key(0), np.where(strata == 1, -5000.0, -np.log(6)), strata, drop=False)
    assert (strata[survivors] == 1).sum() == 2 and np.isfinite(after).all() and after.min() < -4990


def test_seats_add_up():
    for masses, expected in [((0.5, 0.5), (64, 64)), ((1.0, 0.0), (128, 0)), ((0.999, 0.001), (96, 32)), ((0.1, 0.9), (32, 96))]:
        np.testing.assert_array_equal(allotted(log(masses), 128, 0.25), expected)
    assert allotted(log([0.5, 0.5]), 3, 0.25).sum() == 3
    assert allotted(log([0.9, 0.1]), 2, 0.25).tolist() == [1, 1]


def test_health_is_the_share_of_the_effective_number_that_resampling_would_give():
    equal = np.full(100, -np.log(100))
    assert health(equal, np.zeros(100, np.int64)) == pytest.approx(1.0)
    few = log(np.r_[np.ones(10), np.full(90, 1e-12)])
    assert health(few, np.zeros(100, np.int64)) == pytest.approx(0.1)
    strata = np.repeat([0, 1], [75, 25])
    light = log(np.where(strata == 1, 1e-4, 1.0))
    assert health(light, strata) == pytest.approx(1.0, rel=1e-3)  # unequal between the strata, as it should be
    worn = log(np.where(strata == 1, 1e-4, 1.0) * np.where(np.arange(100) < 98, 1.0, 1e6))
    assert health(worn, strata) < 0.15  # two of the light stratum outweigh the others in it
    gone = log(np.where(strata == 1, 1e-12, 1.0) * np.where(np.arange(100) < 99, 1.0, 1e2))
    assert health(gone, strata) == pytest.approx(1.0, rel=1e-3)  # nobody needs that stratum any more
    risen = log(np.where(strata == 1, 1.0, 1e-6))
    assert health(risen, strata) < 0.5  # a quarter of the particles carries everything


def test_temperatures_hold_the_effective_number_in_every_stratum():
    rng = np.random.default_rng(0)
    increments = -0.5 * (10 * rng.normal(size=200)) ** 2
    log_weights, one = np.full(200, -np.log(200)), np.zeros(200, np.int64)
    step = next_temperature(log_weights, increments, 1.0, 0.5, one)
    assert 0 < step < 1
    assert effective_number(log_weights + step * increments) == pytest.approx(100, rel=1e-6)
    assert next_temperature(log_weights, 1e-3 * increments, 0.7, 0.5, one) == 0.7
    mostly_dead = np.where(np.arange(200) < 20, 0.0, -np.inf)
    assert 0 < next_temperature(log_weights, mostly_dead, 1.0, 0.5, one) <= 1e-6
    # A stratum with little mass counts as much as the other.
    strata = np.repeat([0, 1], [150, 50])
    uneven = np.where(strata == 1, increments, 0.0)
    light = log(np.where(strata == 1, 1e-6, 1.0))
    step = next_temperature(light, uneven, 1.0, 0.5, strata)
    assert effective_number((light + step * uneven)[strata == 1]) == pytest.approx(25, rel=1e-6)
    assert next_temperature(light, uneven, 1.0, 0.5, np.zeros(200, np.int64)) == 1.0
    assert next_temperature(log_weights, np.full(200, -np.inf), 0.3, 0.5, one) == 0.3


def test_moves_are_judged_within_strata():
    rng = np.random.default_rng(0)
    strata = np.repeat([0, 1], 50)
    before, after = rng.normal(size=(2, 100))
    level = np.where(strata == 1, 100.0, 0.0)
    assert correlation(level + before, level + after, np.zeros(100, np.int64)) > 0.99
    assert abs(correlation(level + before, level + after, strata)) < 0.4
    assert correlation(level + before, level + before, strata) == pytest.approx(1.0)
    assert correlation(np.zeros(100), after, strata) == 1.0  # after a collapse nothing is known, so moving goes on
    dead = np.where(np.arange(100) == 3, -np.inf, before)
    assert np.isfinite(correlation(dead, after, strata))
