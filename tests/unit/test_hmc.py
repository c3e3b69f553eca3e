"""The samplers' mechanics: shapes, thinning, schedules, reproducibility, compilations counted, failures in words."""

from contextlib import contextmanager

import equinox as eqx
import jax
import jax.monitoring
import jax.numpy as jnp
import numpy as np
import pytest

from hyperleaf.errors import InferenceError, InputError
from hyperleaf.inference import hmc
from hyperleaf.inference.hmc import HMC, NUTS, sample
from hyperleaf.precision import float64

SHORT_NUTS = NUTS(warmup=60, draws=50, chains=2)
SHORT_HMC = HMC(burn_in=60, draws=63, thin=10, chains=2)


class Gaussian(eqx.Module):
    mean: jax.Array
    std: jax.Array

    def __call__(self, z):
        return -0.5 * jnp.sum(((z - self.mean) / self.std) ** 2)


class Half(eqx.Module):
    """A Gaussian where z₀ > 0, −∞ with no gradient elsewhere."""

    def __call__(self, z):
        return jnp.where(z[0] > 0, -0.5 * jnp.sum(z**2), -jnp.inf)


class Broken(eqx.Module):
    value: jax.Array

    def __call__(self, z):
        return self.value + 0.0 * z[0]


class Needle(eqx.Module):
    """So narrow that no step size reached in a short warm-up can stay on it."""

    def __call__(self, z):
        return -1e30 * jnp.sum(z**4) - 1e30 * jnp.abs(z).sum()


@float64
def gaussian(p: int = 3, mean: float = 1.0) -> Gaussian:
    return Gaussian(jnp.full(p, mean), jnp.arange(1.0, p + 1))


@contextmanager
def compilations():
    """Counts backend compilations while it is open."""
    count, listening = [], [True]

    def listen(name: str, *_, **__) -> None:
        if listening and name == "/jax/core/compile/backend_compile_duration":
            count.append(name)

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        yield count
    finally:
        listening.clear()


@pytest.mark.parametrize("config", [SHORT_NUTS, SHORT_HMC], ids=["nuts", "hmc"])
def test_shapes_types_and_order(config) -> None:
    chains = sample(gaussian(), np.zeros((2, 3)), jax.random.key(0), config)
    kept = config.num_kept
    assert kept == (50 if config is SHORT_NUTS else 6)
    assert chains.z.shape == (2, kept, 3) and chains.z.dtype == np.float64
    for name in ("log_density", "acceptance", "divergent", "num_steps", "saturated"):
        assert getattr(chains, name).shape == (2, kept)
        assert isinstance(getattr(chains, name), np.ndarray)
    assert chains.step_size.shape == (2,) and chains.inverse_mass.shape == (2, 3)
    assert (chains.num_chains, chains.num_draws) == (2, kept)
    assert chains.num_transitions == config.draws and chains.num_replaced == 0 and chains.seconds > 0
    expected = -0.5 * (((chains.z - 1.0) / np.arange(1.0, 4.0)) ** 2).sum(axis=2)
    np.testing.assert_allclose(chains.log_density, expected, rtol=1e-10)
    assert not chains.divergent.any()
    assert not np.array_equal(chains.z[0], chains.z[1])


def test_same_key_same_draws_another_key_other_draws() -> None:
    first, again, other = (sample(gaussian(), np.zeros((2, 3)), jax.random.key(k), SHORT_NUTS).z for k in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert (first != other).all()


def test_thinning_keeps_every_tenth_and_sums_up_the_rest() -> None:
    every = sample(gaussian(), np.zeros((2, 3)), jax.random.key(0), HMC(burn_in=60, draws=63, thin=1, chains=2))
    thinned = sample(gaussian(), np.zeros((2, 3)), jax.random.key(0), SHORT_HMC)
    np.testing.assert_array_equal(thinned.z, every.z[:, 9:60:10])
    np.testing.assert_allclose(thinned.acceptance[:, 0], every.acceptance[:, :10].mean(axis=1), rtol=1e-12)
    assert (every.num_steps == 10).all() and (thinned.num_steps == 100).all()


def test_blocks_change_nothing_but_the_reports(monkeypatch) -> None:
    whole = sample(gaussian(), np.zeros((2, 3)), jax.random.key(0), SHORT_NUTS)
    told: list[tuple[int, int]] = []
    monkeypatch.setattr(hmc, "BLOCK", 40)
    parts = sample(gaussian(), np.zeros((2, 3)), jax.random.key(0), SHORT_NUTS, progress=lambda *at: told.append(at))
    assert told == [(40, 110), (80, 110), (110, 110)]
    np.testing.assert_allclose(parts.z, whole.z, rtol=1e-9)


def test_schedule_is_warmup_then_draws_then_idle() -> None:
    stages, ends = hmc._schedule(NUTS(warmup=500, draws=250))
    assert len(stages) % hmc.BLOCK == 0
    assert (stages == hmc._DRAW).sum() == 250 and (stages == hmc._IDLE).sum() == 50
    assert set(stages[:500]) == {hmc._FAST, hmc._SLOW} and (stages[500:750] == hmc._DRAW).all()
    assert ends[:450].sum() == 4 and not ends[450:].any()  # windows of 25, 50, 100, 200, and 50 steps to settle
    hmc_stages, hmc_ends = hmc._schedule(HMC())
    assert (hmc_stages[:500] == hmc._FAST).all() and not hmc_ends.any()


def test_hmc_keeps_its_mass_nuts_learns_it() -> None:
    fixed = sample(gaussian(), np.zeros((2, 3)), jax.random.key(0), SHORT_HMC)
    np.testing.assert_array_equal(fixed.inverse_mass, 1.0)
    learned = sample(gaussian(), np.zeros((2, 3)), jax.random.key(0), NUTS(warmup=400, draws=10, chains=2))
    # Window of some 275 nearly independent draws: a variance is known to √(2/275) ≈ 0.09 of itself.
    np.testing.assert_allclose(learned.inverse_mass, np.broadcast_to([1.0, 4.0, 9.0], (2, 3)), rtol=0.5)


@pytest.mark.parametrize("target_acceptance", [0.6, 0.9])
def test_step_size_reaches_the_wanted_acceptance(target_acceptance: float) -> None:
    """Fifty scales from 1 to 2: acceptance falls smoothly with the step size, whereas few scales leave a cliff that skips 0.6.

    The averaged step size accepts somewhat more than was asked for (0.68 at 0.6, 0.91 at 0.9), as acceptance is concave in it.
    """
    config = HMC(burn_in=500, draws=500, thin=1, chains=2, target_acceptance=target_acceptance)
    target = float64(lambda: Gaussian(jnp.zeros(50), jnp.linspace(1.0, 2.0, 50)))()
    chains = sample(target, np.zeros((2, 50)), jax.random.key(1), config)
    assert chains.acceptance.mean() == pytest.approx(target_acceptance, abs=0.12)


@pytest.mark.parametrize("config", [SHORT_NUTS, SHORT_HMC], ids=["nuts", "hmc"])
def test_another_target_of_the_same_shape_compiles_nothing(config) -> None:
    sample(gaussian(), np.zeros((2, 3)), jax.random.key(0), config)
    other = gaussian(mean=-2.0)
    with compilations() as count:
        chains = sample(other, np.ones((2, 3)), jax.random.key(1), config, progress=lambda *_: None)
    assert count == []
    assert chains.z.mean() < 0  # and it is the other target that was sampled
    with compilations() as count:
        sample(gaussian(4), np.ones((2, 4)), jax.random.key(1), config)
    assert count  # the counter can count


@pytest.mark.parametrize("config", [SHORT_NUTS, SHORT_HMC], ids=["nuts", "hmc"])
def test_the_first_call_compiles_its_start_and_one_block(config, monkeypatch) -> None:
    """Three blocks, one compilation: what a block hands on must have exactly the types of what it was given, weak ones too."""
    monkeypatch.setattr(hmc, "BLOCK", 41)
    traces, after_block = [], []

    class Traced(Gaussian):
        def __call__(self, z):
            traces.append(z.shape)
            return super().__call__(z)

    target = float64(lambda: Traced(jnp.zeros(5), jnp.ones(5)))()
    sample(target, np.zeros((2, 5)), jax.random.key(0), config, progress=lambda *_: after_block.append(len(traces)))
    assert len(after_block) == 3 and after_block[0] > 0
    assert after_block[0] == after_block[-1]


def test_walls_are_divergences_not_failures() -> None:
    chains = sample(Half(), np.ones((2, 2)), jax.random.key(0), SHORT_NUTS)
    assert (chains.z[..., 0] > 0).all() and np.isfinite(chains.log_density).all()
    assert chains.num_divergent.sum() > 0
    np.testing.assert_array_equal(chains.num_divergent, chains.divergent.sum(axis=1))


def test_bad_starts_are_replaced_and_counted_or_an_error() -> None:
    chains = sample(Half(), np.array([[-1.0, 0.0], [1.0, 0.0]]), jax.random.key(0), SHORT_NUTS)
    assert chains.num_replaced == 1 and (chains.z[..., 0] > 0).all()
    assert not np.array_equal(chains.z[0], chains.z[1])
    for bad in (-np.inf, np.nan):
        with pytest.raises(InferenceError, match="none of the 2 starts"):
            sample(float64(lambda value: Broken(jnp.asarray(value)))(bad), np.zeros((2, 2)), jax.random.key(0), SHORT_NUTS)
    with pytest.raises(InferenceError, match="none of the 2 starts"):
        sample(gaussian(2), np.full((2, 2), np.nan), jax.random.key(0), SHORT_NUTS)


@pytest.mark.parametrize("config", [NUTS(warmup=5, draws=20, chains=2), HMC(burn_in=5, draws=20, thin=2, chains=2)])
def test_chains_that_never_move_are_an_error(config) -> None:
    with pytest.raises(InferenceError, match=r"all 2 stood still.*Warm up for more than 5"):
        sample(Needle(), np.full((2, 2), 1e-6), jax.random.key(0), config)


def test_settings_are_checked() -> None:
    for wrong in ({"draws": 0}, {"thin": 6000}, {"target_acceptance": 1.0}, {"initial_step_size": 0.0}):
        with pytest.raises(InputError, match=next(iter(wrong))):
            HMC(**wrong)
    for wrong in ({"warmup": 0}, {"max_depth": 0}, {"target_acceptance": 0.0}, {"initial_step_size": np.inf}):
        with pytest.raises(InputError, match=next(iter(wrong))):
            NUTS(**wrong)
    with pytest.raises(InputError, match="one start for each of the 2 chains"):
        sample(gaussian(), np.zeros((3, 3)), jax.random.key(0), SHORT_NUTS)
