"""Averages by evidence, trees grown by it, the change of output scale and the guard."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hyperleaf.data import Dataset
from hyperleaf.errors import InferenceError, InputError
from hyperleaf.inference.map import Map
from hyperleaf.inference.smc import SMC
from hyperleaf.surrogates.ensemble import Averaged, grow_tree, shape
from hyperleaf.surrogates.gp import agreement, hhk_surrogate

KEY = jax.random.key(0)
SMALL = SMC(particles=64)
GRID = np.linspace(0, 1, 9)[:, None]


def broken_line(n: int = 20) -> Dataset:
    """Wild on the left, flat on the right: two leaves explain it, one does not."""
    x = np.linspace(0.02, 0.98, n)
    y = np.where(x < 0.5, np.sin(25 * x), 0.0) + 0.02 * np.random.default_rng(0).normal(size=n)
    return Dataset(x[:, None], (y - y.mean()) / y.std())


@pytest.fixture(scope="module")
def averaged():
    return Averaged((hhk_surrogate(1, 1, inference=SMALL), hhk_surrogate(1, 2, inference=SMALL))).fit(broken_line(), key=KEY)


def nearly_level(averaged):
    """The same with an evidence of the first member that is two nats behind the second's, so that both count."""
    first, second = averaged.members
    with jax.enable_x64(True):
        particles = eqx.tree_at(lambda p: p.log_evidence, first.particles, jnp.asarray(second.log_evidence - 2.0))
    return replace(averaged, members=(replace(first, particles=particles), second))


def test_the_evidence_prefers_the_tree_that_made_the_data(averaged):
    one, two = averaged.log_evidences
    assert two > one + 1.0
    assert averaged.best is averaged.members[1]
    np.testing.assert_allclose(nearly_level(averaged).probabilities, np.exp([-2.0, 0.0]) / (1 + np.exp(-2.0)), rtol=1e-10)


def test_an_average_predicts_the_weighted_mixture_of_its_members(averaged):
    averaged = nearly_level(averaged)
    p = averaged.probabilities
    expected = sum(w * np.exp(m.predict(GRID).noisy().log_prob(0.1)) for w, m in zip(p, averaged.members, strict=True))
    np.testing.assert_allclose(np.exp(averaged.predict(GRID).noisy().log_prob(0.1)), expected, rtol=1e-8)
    joint = averaged.joint(GRID, GRID[:2])
    assert joint.cov.shape == (128, 9, 2) and joint.weights.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(joint.weights @ joint.mean_x, averaged.predict(GRID).mean(), atol=1e-10)
    assert averaged.sample(GRID, KEY, 7).shape == (7, 9)


def test_the_best_alone_predicts_if_asked(averaged):
    best = replace(averaged, surrogate=Averaged(averaged.surrogate.surrogates, "best"))
    np.testing.assert_array_equal(best.probabilities, [0.0, 1.0])
    np.testing.assert_allclose(best.predict(GRID).mean(), averaged.members[1].predict(GRID).mean(), atol=1e-12)


def test_an_update_moves_every_member(averaged):
    updated = averaged.update([0.25], 0.3, key=KEY)
    assert all(m.data.num_observations == 21 for m in updated.members) and averaged.data.num_observations == 20


def test_averages_need_evidence_and_members():
    with pytest.raises(InputError, match="only SMC"):
        Averaged((hhk_surrogate(1, 2, inference=Map()),))
    with pytest.raises(InputError, match="at least one"):
        Averaged(())
    with pytest.raises(InputError, match="average"):
        Averaged((hhk_surrogate(1, 2),), "mean")


def test_a_tree_grows_as_far_as_the_evidence_says():
    seen = []
    growth = grow_tree(broken_line(), key=KEY, max_leaves=2, inference=SMALL, progress=seen.append)
    assert growth.tree == (0, 1) and [step.kept for step in growth.steps] == [True, True]
    assert seen == list(growth.steps)
    assert growth.steps[1].log_evidence > growth.steps[0].log_evidence
    stubborn = grow_tree(broken_line(), key=KEY, max_leaves=2, inference=SMALL, margin=1e6)
    assert stubborn.tree == 0 and [step.kept for step in stubborn.steps] == [True, False]


def test_shapes_do_not_see_labels_or_the_order_of_children():
    assert shape(((0, 1), 2)) == shape((2, (1, 0))) == shape((0, (1, 2)))
    assert shape(((0, 1), (2, 3))) != shape((((0, 1), 2), 3))


def test_a_change_of_units_agrees_with_a_fit_in_the_new_units(averaged):
    """Carried over or afresh, the posterior of y' = (y − shift)/factor is that of a fit to y'."""
    posterior = averaged.members[1]
    for factor in (1.3, 4.0):
        carried = posterior.rescaled(0.2, factor, key=KEY)
        np.testing.assert_allclose(carried.data.y, (posterior.data.y - 0.2) / factor)
        fitted = posterior.surrogate.fit(carried.data, key=jax.random.key(5))
        assert agreement(carried, fitted, GRID).mean_score < 4.0
    with pytest.raises(InputError, match="positive factor"):
        posterior.rescaled(0.0, -1.0, key=KEY)


def test_the_guard_keeps_a_good_run_and_replaces_a_bad_one(averaged):
    posterior = averaged.members[1]
    kept = posterior.checked(key=jax.random.key(9))
    assert kept.z is posterior.z and "agrees" in kept.diagnostics.sentences[-1]
    # A run whose evidence is off by 50 has drifted, whatever its predictions say.
    drifted = eqx.tree_at(lambda p: p.log_evidence, posterior.particles, posterior.log_evidence + 50.0)
    wrong = replace(posterior, particles=drifted)
    replaced = wrong.checked(key=jax.random.key(9))
    assert replaced.z is not posterior.z and "takes over" in replaced.diagnostics.sentences[-1]
    assert abs(replaced.log_evidence - posterior.log_evidence) < 25.0


def test_the_guard_runs_by_itself_every_so_many_updates():
    surrogate = hhk_surrogate(1, 1, inference=SMC(particles=32, guard_every=2))
    posterior = surrogate.fit(broken_line(6), key=KEY)
    assert "guard" in posterior.update([0.3], 0.1, key=KEY).diagnostics.extra
    posterior = hhk_surrogate(1, 1, inference=SMC(particles=32)).fit(broken_line(6), key=KEY)
    assert "guard" not in posterior.update([0.3], 0.1, key=KEY).diagnostics.extra


def test_the_evidence_and_the_guard_come_with_smc_only():
    posterior = hhk_surrogate(1, 1, inference=Map(restarts=2)).fit(broken_line(6), key=KEY)
    with pytest.raises(InferenceError, match="SMC only"):
        _ = posterior.log_evidence
    with pytest.raises(InferenceError, match="SMC only"):
        posterior.checked(key=KEY)
