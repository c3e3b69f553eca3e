"""The warped GP with our priors: two samplers that share only the target predict the same. Maximum likelihood finds a warp."""

import jax
import numpy as np
import pytest

from hyperleaf.data import Dataset
from hyperleaf.inference.hmc import NUTS
from hyperleaf.inference.map import Map
from hyperleaf.inference.smc import SMC
from hyperleaf.surrogates.gp import warped_surrogate

GRID = np.linspace(0, 1, 9)[:, None]


def chirp(n: int, seed: int) -> Dataset:
    """Fast near 0, slow near 1."""
    rng = np.random.default_rng(seed)
    x = rng.random((n, 1))
    y = np.sin(2 * np.pi * 4 * x[:, 0] ** 0.4) + 0.05 * rng.standard_normal(n)
    return Dataset(x, (y - y.mean()) / y.std())


def bent(n: int, seed: int) -> Dataset:
    """Steep near 0; one explanation, where the chirp has several at so few points."""
    rng = np.random.default_rng(seed)
    x = rng.random((n, 1))
    y = np.sin(5 * x[:, 0] ** 0.5) + 0.1 * rng.standard_normal(n)
    return Dataset(x, (y - y.mean()) / y.std())


@pytest.mark.long
def test_smc_and_nuts_predict_the_same():
    data = bent(14, 0)
    long_chains = NUTS(warmup=1000, draws=2000, chains=4, target_acceptance=0.95)
    nuts = warped_surrogate(1, inference=long_chains, noise=100.0).fit(data, key=jax.random.key(0))
    runs = [warped_surrogate(1, inference=SMC(particles=256), noise=100.0).fit(data, key=jax.random.key(k)) for k in range(1, 5)]
    assert nuts.diagnostics.rhat["f"] < 1.02
    ours = np.stack([run.predict(GRID).mean() for run in runs])
    theirs = nuts.predict(GRID)
    spread = np.asarray(theirs.means).std(axis=0)
    chain_error = spread / np.sqrt(min(nuts.diagnostics.ess_bulk.values()))
    # Particles that share ancestors err more than 256 independent draws would: what is seen between the runs counts, if larger.
    run_error = np.maximum(ours.std(axis=0, ddof=1), spread / np.sqrt(256)) / np.sqrt(len(ours))
    z = (ours.mean(axis=0) - theirs.mean()) / np.hypot(chain_error, run_error)
    assert np.sqrt(np.mean(z**2)) < 2.5 and np.abs(z).max() < 4.5, z
    ratio = np.mean([run.predict(GRID).std() for run in runs], axis=0) / theirs.std()
    assert np.abs(np.log(ratio)).max() < 0.25, ratio


@pytest.mark.long
def test_maximum_likelihood_finds_the_warp_of_a_chirp():
    data = chirp(40, 1)
    posterior = warped_surrogate(1).fit(data, key=jax.random.key(0))
    flat = warped_surrogate(1, shape=(0.999, 1.001), inference=Map(prior=False)).fit(data, key=jax.random.key(0))
    gain = posterior.diagnostics.extra["modes"].log_density[0] - flat.diagnostics.extra["modes"].log_density[0]
    assert gain > 3.0  # two more parameters would earn 1 by chance
    places = posterior.draw().kernel.coordinates(np.array([[0.0], [0.1], [0.9], [1.0]]))[:, 0]
    assert abs(places[1] - places[0]) > 2 * abs(places[3] - places[2])
