"""The warped GP with our priors: its samplers against importance sampling. Maximum likelihood finds a warp."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hyperleaf.data import Dataset
from hyperleaf.gp import Target, pad
from hyperleaf.inference.hmc import NUTS
from hyperleaf.inference.map import Map
from hyperleaf.inference.smc import SMC
from hyperleaf.parallel import over_draws
from hyperleaf.precision import float64
from hyperleaf.surrogates.gp import warped_surrogate
from hyperleaf.surrogates.gp.draws import invariants


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


@float64
def by_importance(model, data: Dataset, num: int = 200_000) -> tuple[np.ndarray, np.ndarray, float]:
    """Means and standard deviations of what is compared, from prior draws weighted by their likelihood; and their ESS."""
    target = Target(model.prior, pad(data))
    z = model.prior.sample_vectors(jax.random.key(5), num)
    logs = np.asarray(jax.jit(lambda z: jax.lax.map(target.log_likelihood, z, batch_size=2000))(z))
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    picks = np.random.default_rng(0).choice(num, 4000, p=weights)
    seen = quantities(model, data, z[picks])
    return seen.mean(axis=1), seen.std(axis=1), float(1.0 / np.sum(weights**2))


@float64
def quantities(model, data: Dataset, z) -> np.ndarray:
    """Log likelihood, log noise and f in the middle, of each draw: (3, s)."""
    likelihood, noise, middle = over_draws(invariants, z, model.prior, pad(data))
    return np.stack([np.asarray(likelihood), np.log(np.asarray(noise)), np.asarray(middle)])


@pytest.mark.long
@pytest.mark.parametrize("inference", [SMC(particles=256), NUTS(warmup=1000, draws=1000, chains=4, target_acceptance=0.95)])
def test_samplers_agree_with_importance_sampling(inference):
    data, model = bent(14, 0), warped_surrogate(1, inference=inference, noise=100.0)
    mean, spread, ess = by_importance(model, data)
    assert ess > 200
    if isinstance(inference, SMC):
        posteriors = [model.fit(data, key=jax.random.key(k)) for k in range(4)]
        runs = np.stack([quantities(model, data, p.z) @ p.weights for p in posteriors])
    else:  # four chains are four runs
        z = model.fit(data, key=jax.random.key(0)).diagnostics.extra["chains"].z
        runs = np.stack([quantities(model, data, jnp.asarray(chain)).mean(axis=1) for chain in z])
    # Draws that share ancestors, or a chain, err more than independent ones: what is seen between the runs counts, if larger.
    error = np.hypot(np.maximum(runs.std(axis=0, ddof=1), spread / 16) / 2, spread / np.sqrt(ess))
    z = (runs.mean(axis=0) - mean) / error
    assert np.abs(z).max() < 4.5 and error[0] < 0.3 * spread[0], (z, runs, mean)


@pytest.mark.long
def test_maximum_likelihood_finds_the_warp_of_a_chirp():
    data = chirp(40, 1)
    posterior = warped_surrogate(1).fit(data, key=jax.random.key(0))
    flat = warped_surrogate(1, shape=(0.999, 1.001), inference=Map(prior=False)).fit(data, key=jax.random.key(0))
    gain = posterior.diagnostics.extra["modes"].log_density[0] - flat.diagnostics.extra["modes"].log_density[0]
    assert gain > 3.0  # two more parameters would earn 1 by chance
    places = posterior.draw().kernel.coordinates(np.array([[0.0], [0.1], [0.9], [1.0]]))[:, 0]
    assert abs(places[1] - places[0]) > 2 * abs(places[3] - places[2])
