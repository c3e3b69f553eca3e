"""The machine code agrees with JAX: value, gradient, likelihoods, random numbers, trajectories and whole starts."""

import logging
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

from hyperleaf import native
from hyperleaf.data import Dataset
from hyperleaf.gp import GP, pad
from hyperleaf.inference import trajectories
from hyperleaf.inference.smc import SMC
from hyperleaf.kernels import RBF, Constant, Gates, Matern12, Matern32, Matern52, Partition, RationalQuadratic
from hyperleaf.machine import library as machine
from hyperleaf.native import library
from hyperleaf.parallel import over_draws
from hyperleaf.precision import float64
from hyperleaf.priors import Prior, hhk_prior, stationary_prior, wide_priors
from hyperleaf.surrogates.gp import hhk_surrogate, noise_by_leaf
from hyperleaf.surrogates.gp.draws import noisier_likelihoods
from hyperleaf.surrogates.gp.problem import tempered

# With a compiler the code has to be there: a library that cannot be built is a failure, not a skip.
pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="no compiler")
LEARNED = dist.LogNormal(-4.0, 1.0)

# kernel, noise, mean, observations
CASES = {
    "one leaf in 1-D": (stationary_prior(1), LEARNED, "zero", 13),
    "two leaves, an RBF over 3 inputs": (hhk_prior(3, 2), LEARNED, "constant", 30),
    "the default": (hhk_prior(2, 8, **wide_priors(2)), LEARNED, "linear", 41),
    "roots of weights, 6 inputs": (hhk_prior(6, 4, weights="sqrt", **wide_priors(6)), dist.Exponential(20.0), "linear", 24),
    "an odd tree": (hhk_prior(2, tree=((0, (1, 2)), (3, 4))), LEARNED, "zero", 9),
    "Matérn 1/2": (hhk_prior(2, 4, leaf=Matern12), LEARNED, "zero", 20),
    "Matérn 3/2": (hhk_prior(1, 4, leaf=Matern32, weights="sqrt"), LEARNED, "linear", 17),
    "Matérn 5/2": (hhk_prior(2, 3, leaf=Matern52), LEARNED, "zero", 33),
    "a single Matérn": (stationary_prior(4, Matern52), LEARNED, "linear", 25),
    "fixed noise": (hhk_prior(2, 8), 0.01, "zero", 20),
    "one lengthscale for all": (RBF(dist.Gamma(2.0, 2.0), dist.Gamma(2.0, 3.0)), LEARNED, "zero", 12),
    "noise by leaf": (hhk_prior(2, 4, **wide_priors(2)), noise_by_leaf(4), "linear", 26),
    "roots of weights, noise by leaf": (hhk_prior(3, 3, weights="sqrt"), noise_by_leaf(3), "zero", 15),
    "fixed gates, one steepness": (
        Partition(
            Gates(np.array([0.3]), np.array([[1.0, -1.0]]), dist.Gamma(6.0, 2.0)),
            RBF(dist.Gamma(2.0, 2.0).expand((2,)), np.array([1.0, 2.0])),
        ),
        LEARNED,
        "zero",
        12,
    ),
}


def data_of(d: int, n: int, known: bool = False):
    rng = np.random.default_rng(n)
    x = rng.random((n, d))
    x[n // 2] = x[0]  # a point seen twice
    y = np.sin(5 * x[:, 0]) + 0.1 * rng.normal(size=n)
    return pad(Dataset(x, y, 0.02 * rng.random(n) if known else None))


def dims_of(kernel) -> int:
    if isinstance(kernel, Partition):
        shape = kernel.gates.normal.shape
        return (shape() if callable(shape) else shape)[1]
    return kernel.lengthscale.shape()[0] if kernel.lengthscale.shape() else 1


def value_and_grad(z, target):
    return target.value_and_grad(z)


def look(core, z):
    """Values and gradients by trajectories of no steps."""
    num, size = z.shape
    mass = np.ones((2, size))
    nothing = np.zeros(num)
    _, value, gradient, _ = core.trajectories(z, nothing, nothing, np.zeros((num, size)), nothing, mass[:, 0], mass, 0.0)
    return value, gradient


def apart(a, b):
    """The largest difference, relative to the largest entry of a row."""
    a, b = np.asarray(a), np.asarray(b)
    if a.ndim == 1:
        return np.max(np.abs(a - b) / (1.0 + np.abs(b)))
    return np.max(np.abs(a - b).max(axis=1) / (1.0 + np.abs(b).max(axis=1)))


QUICK = (
    "the default",
    "Matérn 1/2",
    "a single Matérn",
    "roots of weights, noise by leaf",
    "fixed gates, one steepness",
)  # JAX takes seconds to compile each


@pytest.mark.parametrize("case", [case if case in QUICK else pytest.param(case, marks=pytest.mark.long) for case in CASES])
@float64
def test_value_and_gradient_agree_with_jax_wherever_the_prior_is(case):
    kernel, noise, mean, n = CASES[case]
    prior, data = Prior(GP(kernel, noise, mean)), data_of(dims_of(kernel), n, known=n % 2 == 0)
    z = prior.sample_vectors(jax.random.key(n), 64)
    # Half of the observations with one power, all with another; and a prior on its way between units.
    target = tempered(prior, data, 0.04, (0.3, 0.7), n // 2, 0.1, 0.4)
    value, gradient = look(native.core_of(target), z)
    expected, slopes = over_draws(value_and_grad, z, target)
    assert apart(value, expected) < 1e-9
    assert apart(gradient, slopes) < 1e-9


@pytest.mark.long
@pytest.mark.parametrize("case", ["the default", "Matérn 5/2"])
@float64
def test_ten_thousand_draws_agree_with_jax(case):
    """Half of them as the prior has them, a quarter with gates far steeper, a quarter far flatter; a point is seen twice."""
    kernel, noise, mean, n = CASES[case]
    prior, data = Prior(GP(kernel, noise, mean)), data_of(dims_of(kernel), n)
    z = np.array(prior.sample_vectors(jax.random.key(11), 10_000))
    steepness = prior.chart.log_steepness.any(axis=0)
    z[:2500, steepness] += 4.0
    z[2500:5000, steepness] -= 4.0
    target = tempered(prior, data, 0.04, (0.0, 1.0))
    value, gradient = look(native.core_of(target), z)
    expected, slopes = over_draws(value_and_grad, jnp.asarray(z), target)
    usable = np.isfinite(np.asarray(expected))
    assert usable.mean() > 0.99 and np.array_equal(usable, np.isfinite(value))
    assert apart(value[usable], np.asarray(expected)[usable]) < 1e-9
    assert apart(gradient[usable], np.asarray(slopes)[usable]) < 1e-9


@float64
def test_the_gradient_is_that_of_the_value():
    kernel, noise, mean, n = CASES["the default"]
    prior, data = Prior(GP(kernel, noise, mean)), data_of(2, n)
    core = native.core_of(tempered(prior, data, 0.04, (0.0, 1.0)))
    z = np.asarray(prior.sample_vectors(jax.random.key(1), 1))[0]
    _, gradient = look(core, z[None])
    step = 1e-5
    shifts = step * np.eye(len(z))
    differences = (look(core, z + shifts)[0] - look(core, z - shifts)[0]) / (2 * step)
    np.testing.assert_allclose(gradient[0], differences, rtol=1e-5, atol=1e-5)


@float64
def test_gates_that_are_wide_open_or_shut_are_no_trouble():
    prior, data = Prior(GP(hhk_prior(2, 8), LEARNED)), data_of(2, 30)
    z = np.array(prior.sample_vectors(jax.random.key(2), 32))
    steepness = slice(7 + 14, 7 + 14 + 7)  # after offsets and normals
    z[:16, steepness] = np.log(1e6)
    z[16:, steepness] = np.log(1e-6)
    target = tempered(prior, data, 0.04, (0.0, 1.0))
    value, gradient = look(native.core_of(target), z)
    expected, slopes = over_draws(value_and_grad, jnp.asarray(z), target)
    assert apart(value, expected) < 1e-9 and apart(gradient, slopes) < 1e-9


@float64
def test_what_has_no_factor_has_no_density_and_harms_nothing():
    prior, data = Prior(GP(hhk_prior(2, 4), LEARNED)), data_of(2, 12)
    z = np.array(prior.sample_vectors(jax.random.key(0), 4))
    z[1] = 800.0  # variances that overflow
    z[2, -1] = np.nan
    value, gradient = look(native.core_of(tempered(prior, data, 0.04, (0.0, 1.0))), z)
    assert np.isfinite(value[[0, 3]]).all() and (value[[1, 2]] == -np.inf).all()
    assert np.isfinite(gradient).all()


@float64
def test_likelihoods_with_more_noise_agree_with_jax():
    kernel, noise, mean, n = CASES["the default"]
    prior, data, heats = Prior(GP(kernel, noise, mean)), data_of(2, n), np.array([100.0, 1.0, 0.01, 0.0])
    z = prior.sample_vectors(jax.random.key(4), 32)
    ours = native.core_of((prior, data)).likelihoods(z, heats)
    assert apart(ours, over_draws(noisier_likelihoods, z, prior, data, jnp.asarray(heats))) < 1e-9


@float64
def test_random_numbers_are_those_of_jax():
    keys = jax.random.split(jax.random.key(5), 50)
    for steps in (0, 1, 8, 24):
        ours = native.chances(keys, steps, 7, trajectories.JITTER)
        theirs = trajectories._chances(keys, steps, 7)
        for one, other in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)
        np.testing.assert_array_equal(ours[0], theirs[0])
    other_generator = jax.random.split(jax.random.key(0, impl="rbg"), 3)
    assert native.chances(other_generator, 8, 7, trajectories.JITTER) is None


@pytest.mark.parametrize("power", trajectories.POWERS)
@float64
def test_a_trajectory_ends_where_that_of_jax_does(monkeypatch, power):
    prior, data = Prior(GP(hhk_prior(2, 4), LEARNED, "linear")), data_of(2, 20)
    z = prior.sample_vectors(jax.random.key(6), 40)
    draws = (z, jax.random.split(jax.random.key(7), 40))
    # Short steps, so that rounding does not grow; strata on both sides of the border.
    target = tempered(prior, data, 0.02, (0.0, 1.0))
    settings = (
        np.array([0.01, 0.005]),
        np.stack([np.full(z.shape[1], 1.0), np.full(z.shape[1], 3.0)]),
        6,
        power,
    )
    ours = trajectories.trajectories(draws, target, *settings)
    monkeypatch.setenv(native.VARIABLE, "off")
    theirs = trajectories.trajectories(draws, target, *settings)
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-7, atol=1e-7)
    assert np.mean(np.asarray(ours[0]) != np.asarray(z)) > 0


def test_a_start_finds_what_that_of_jax_finds(monkeypatch):
    rng = np.random.default_rng(0)
    x = rng.random((12, 1))
    data = Dataset(x, np.sin(6 * x[:, 0]))
    surrogate = hhk_surrogate(1, 2, inference=SMC(particles=64, chains=32, start_moves=4))
    grid = np.linspace(0, 1, 9)[:, None]
    ours = surrogate.fit(data, key=jax.random.key(0))
    assert ours.diagnostics.extra["code"] == "machine"
    monkeypatch.setenv(native.VARIABLE, "off")
    theirs = surrogate.fit(data, key=jax.random.key(0))
    assert theirs.diagnostics.extra["code"] == "jax"
    # Rounding grows along thousands of steps: the same posterior, by other draws.
    spread = np.sqrt(theirs.predict(grid).var())
    assert (np.abs(ours.predict(grid).mean() - theirs.predict(grid).mean()) < 0.5 * spread + 0.02).all()
    assert abs(ours.log_evidence - theirs.log_evidence) < 4 * np.hypot(ours.log_evidence_std, theirs.log_evidence_std) + 1.0


@float64
def test_one_thread_and_several_give_the_same_numbers(monkeypatch):
    prior, data = Prior(GP(hhk_prior(2, 8), LEARNED, "linear")), data_of(2, 30)
    z = prior.sample_vectors(jax.random.key(8), 33)
    core = native.core_of(tempered(prior, data, 0.04, (0.0, 1.0)))
    monkeypatch.setattr("hyperleaf.native.model.num_threads", lambda: 1)
    alone = look(core, z)
    monkeypatch.setattr("hyperleaf.native.model.num_threads", lambda: 3)
    for one, other in zip(look(core, z), alone, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    "kernel",
    [
        hhk_prior(2, 4, leaf=RationalQuadratic),
        hhk_prior(2, 4) + Constant(1.0),
        stationary_prior(2, lengthscale=dist.HalfNormal(1.0)),
        RBF(0.5, 1.0),
    ],
)
@float64
def test_other_models_are_left_to_jax(kernel):
    assert native.core_of((Prior(GP(kernel, 0.1)), data_of(2, 8))) is None


def run(code: str, **environment: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **environment}, capture_output=True, text=True, timeout=120
    )


def test_without_a_compiler_jax_serves_and_says_so(tmp_path):
    folder = tmp_path / "cache"
    told = run("from hyperleaf.native import status; print(status())", CC="no-such-compiler", HYPERLEAF_CACHE=str(folder))
    assert told.stdout.startswith("JAX (no machine code: there is no compiler")
    broken = tmp_path / "cc"
    broken.write_text('#!/bin/sh\ntest "$1" = --version && echo broken 1.0 && exit 0\necho cannot >&2\nexit 1\n')
    broken.chmod(0o755)
    told = run("from hyperleaf.native import status; print(status())", CC=str(broken), HYPERLEAF_CACHE=str(folder))
    assert "failed: cannot" in told.stdout
    assert list(folder.iterdir()) == []


def test_a_library_is_made_once_and_found_again(tmp_path, monkeypatch):
    monkeypatch.setenv("HYPERLEAF_CACHE", str(tmp_path / "cache"))
    library.load()
    (made,) = (tmp_path / "cache").iterdir()
    before = made.stat().st_mtime_ns
    monkeypatch.setattr(machine, "_compile", lambda *_: pytest.fail("compiled again"))
    library.load()
    assert made.stat().st_mtime_ns == before


def test_a_compiler_that_hangs_is_ended_with_its_children(tmp_path, monkeypatch):
    """The driver `cc` waits for the compiler proper, which would go on alone and hold the pipe that is read."""
    slow = tmp_path / "cc"
    slow.write_text(f"#!/bin/sh\nsleep 600 &\necho $! > {tmp_path}/child\nwait\n")
    slow.chmod(0o755)
    for seconds in (2, 8, 32, 128):  # on a crowded machine it may be ended before it has begun
        monkeypatch.setattr(machine, "SECONDS", seconds)
        with pytest.raises(OSError, match="was ended before it had finished"):
            machine._compile([str(slow)], library.SOURCE, tmp_path / "made.so")
        if (tmp_path / "child").is_file() and (tmp_path / "child").read_text().strip():
            break
    child = (tmp_path / "child").read_text().strip()
    deadline = time.monotonic() + 60
    while Path(f"/proc/{child}").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not Path(f"/proc/{child}").exists()
    assert sorted(one.name for one in tmp_path.iterdir()) == ["cc", "child"]


def test_a_folder_that_others_may_write_to_is_not_loaded_from(tmp_path, monkeypatch, caplog):
    folder = tmp_path / "open"
    folder.mkdir()
    folder.chmod(0o777)
    monkeypatch.setenv("HYPERLEAF_CACHE", str(folder))
    with caplog.at_level(logging.INFO):
        found, why = machine.built.__wrapped__(library.SOURCE, library.definitions(0, 2))
    assert found is None and "writable by you alone" in why
    assert "JAX serves instead" in caplog.text
