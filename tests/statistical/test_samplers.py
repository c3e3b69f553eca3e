"""HMC and NUTS draw from what they are asked for: exact moments, the prior with the likelihood off, simulation-based calibration.

Every tolerance is four Monte-Carlo standard errors, estimated from the chains themselves. A target with a wrong Jacobian
shows that the tests would notice.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy.special import digamma, polygamma
from scipy.stats import chi2

from hyperleaf.data import Dataset
from hyperleaf.gp import GP, Target, condition, moments, pad
from hyperleaf.inference.diagnostics import mcse_mean, mcse_std, named_parameters
from hyperleaf.inference.hmc import HMC, NUTS, sample
from hyperleaf.precision import float64
from hyperleaf.priors import Prior, hhk_prior

LIMIT = 4.0
SAMPLERS = [
    pytest.param(NUTS(warmup=400, draws=500, chains=4), id="nuts"),
    pytest.param(HMC(burn_in=500, draws=4000, thin=4, chains=4, steps=10), id="hmc"),
]


class Lopsided(eqx.Module):
    """Two correlated Gaussians of unlike scale beside the logarithm of a Gamma(2) variable, whose left tail is long."""

    mean: jax.Array
    factor: jax.Array

    def __call__(self, z):
        white = jax.scipy.linalg.solve_triangular(self.factor, z[:2] - self.mean, lower=True)
        return -0.5 * white @ white + 2.0 * z[2] - jnp.exp(z[2])


class Conjugate(eqx.Module):
    """y ~ N(μ, 1), μ ~ N(0, 1)."""

    y: jax.Array

    def __call__(self, z):
        return -0.5 * z[0] ** 2 - 0.5 * jnp.sum((self.y - z[0]) ** 2)


class WrongJacobian(Target):
    """Only half of the map's log Jacobian. (Without any, the density of ln noise would be flat to the left, and improper.)"""

    def log_prior(self, z):
        return 0.5 * (self.prior.log_density(z) + self.prior.log_prob(self.prior.from_vector(z)))


def z_scores(draws, mean, std=None):
    """Deviations of the mean (and standard deviation) of (chains, draws) from the truth, in standard errors."""
    scores = [(draws.mean() - mean) / mcse_mean(draws)]
    if std is not None:
        scores.append((draws.std(ddof=1) - std) / mcse_std(draws))
    return np.abs(scores)


@pytest.mark.parametrize("config", SAMPLERS)
def test_moments_of_a_lopsided_target(config) -> None:
    factor = np.array([[2.0, 0.0], [0.45, 0.3]])
    target = float64(lambda: Lopsided(jnp.array([1.0, -2.0]), jnp.asarray(factor)))()
    starts = np.random.default_rng(0).normal(size=(4, 3)) * 2
    z = sample(target, starts, jax.random.key(0), config).z
    stds = np.sqrt(np.diag(factor @ factor.T))
    assert z_scores(z[..., 0], 1.0, stds[0]).max() < LIMIT
    assert z_scores(z[..., 1], -2.0, stds[1]).max() < LIMIT
    assert z_scores((z[..., 0] - 1) * (z[..., 1] + 2), (factor @ factor.T)[0, 1]).max() < LIMIT
    assert z_scores(z[..., 2], digamma(2), np.sqrt(polygamma(1, 2))).max() < LIMIT


@pytest.mark.parametrize("config", SAMPLERS)
def test_a_conjugate_posterior(config) -> None:
    y = np.random.default_rng(3).normal(0.7, 1.0, size=10)
    target = float64(lambda: Conjugate(jnp.asarray(y)))()
    z = sample(target, np.linspace(-2, 2, 4)[:, None], jax.random.key(1), config).z[..., 0]
    assert z_scores(z, y.sum() / 11, np.sqrt(1 / 11)).max() < LIMIT


@float64
def prior_target(kind=Target, leaves: int = 2):
    """A target whose likelihood is off: what remains is the prior."""
    prior = Prior(GP(hhk_prior(1, leaves), dist.Exponential(10.0)))
    data = pad(Dataset(np.linspace(0, 1, 6)[:, None], np.sin(np.arange(6.0))))
    return kind(prior, data, jnp.asarray(0.0)), np.asarray(prior.sample_vectors(jax.random.key(5), 4))


def prior_scores(target, starts, config):
    """Deviations from the exact prior moments of all parameters of the hyperplane kernel."""
    named = named_parameters(target.prior, sample(target, starts, jax.random.key(2), config).z)
    gamma = {"lengthscale": (2, 2), "variance": (2, 3), "steepness": (6, 2)}
    scores = []
    for name, values in named.items():
        columns = np.moveaxis(values.reshape(*values.shape[:2], -1), 2, 0)
        for x in columns:
            field = name.split(".")[-1]
            if field in gamma:
                shape, rate = gamma[field]
                scores.append(z_scores(np.log(x), digamma(shape) - np.log(rate), np.sqrt(polygamma(1, shape))))
            elif field == "noise":
                scores.append(z_scores(np.log(x), digamma(1) - np.log(10), np.sqrt(polygamma(1, 1))))
            else:
                scores.append(z_scores(x, 0.0, 1.0))
    return np.array(scores)


@pytest.mark.parametrize("config", SAMPLERS[:1])
def test_without_likelihood_the_prior_comes_back(config) -> None:
    scores = prior_scores(*prior_target(), config)
    assert scores.shape == (8, 2)
    assert scores.max() < LIMIT


def test_a_wrong_jacobian_would_be_seen() -> None:
    assert prior_scores(*prior_target(WrongJacobian), NUTS(warmup=400, draws=500, chains=4)).max() > 3 * LIMIT


X_NEW = np.array([[0.37]])


@eqx.filter_jit
def _simulate(prior, x, key):
    """θ from the prior; f at x and x*, and y with noise, from the GP of θ."""
    keys = jax.random.split(key, 3)
    gp = prior.sample(keys[0])
    points = jnp.concatenate([x, X_NEW])
    gram = gp.covariance.gram(points, points)
    factor = jnp.linalg.cholesky(gram + 1e-10 * jnp.trace(gram) / len(points) * jnp.eye(len(points)))
    f = factor @ jax.random.normal(keys[1], (len(points),))
    return prior.to_vector(gp), f[:-1] + jnp.sqrt(gp.noise) * jax.random.normal(keys[2], (len(x),)), f[-1]


@eqx.filter_jit
def _invariants(target, z, f_new, keys):
    """Log likelihood, noise, and f(x*) of draws z: given for the truth, drawn from the conditional for the posterior."""

    def one(z, key):
        gp = target.prior.from_vector(z)
        mean, variance = moments(gp, target.data, condition(gp, target.data), jnp.asarray(X_NEW))
        f = mean[0] + jnp.sqrt(variance[0]) * jax.random.normal(key)
        return jnp.stack([target.log_likelihood(z), gp.noise, f if f_new is None else f_new])

    return jax.lax.map(lambda pair: one(*pair), (z, keys))


@float64
def calibration_ranks(leaves: int, repetitions: int, kept: int, thin: int, wrong=Target, n: int = 8):
    """Ranks (repetitions, 3) of the truth among `kept` posterior draws; uniform on 0 … kept if the sampler is right."""
    prior = Prior(GP(hhk_prior(1, leaves), dist.Exponential(10.0)))
    x = np.linspace(0.05, 0.95, n)[:, None]
    config = NUTS(warmup=200, draws=kept * thin, chains=1, max_depth=6)
    ranks = []
    for key in jax.random.split(jax.random.key(11), repetitions):
        simulated, started, sampled, drawn = jax.random.split(key, 4)
        truth, y, f_new = _simulate(prior, jnp.asarray(x), simulated)
        target = wrong(prior, pad(Dataset(x, np.asarray(y))), jnp.asarray(1.0))
        start = np.asarray(prior.sample_vectors(started, 1))
        z = jnp.asarray(sample(target, start, sampled, config).z[0, thin - 1 :: thin])
        posterior = np.asarray(_invariants(target, z, None, jax.random.split(drawn, kept)))
        true = np.asarray(_invariants(target, truth[None], f_new, drawn[None]))[0]
        ranks.append((posterior < true).sum(axis=0))
    return np.array(ranks)


def uniformity(ranks, kept: int, bins: int):
    """p-values of the chi-square test that ranks on 0 … kept are uniform, per quantity."""
    counts = np.stack([np.bincount(column * bins // (kept + 1), minlength=bins) for column in ranks.T])
    expected = len(ranks) / bins
    return chi2.sf(((counts - expected) ** 2 / expected).sum(axis=1), bins - 1)


@pytest.mark.long
def test_simulation_based_calibration() -> None:
    """Short: it finds gross errors only. Three tests at 1e-4 raise a false alarm three times in ten thousand keys."""
    ranks = calibration_ranks(leaves=1, repetitions=60, kept=19, thin=8)
    assert uniformity(ranks, 19, 4).min() > 1e-4


@pytest.mark.long
@pytest.mark.parametrize("leaves", [1, 2])
def test_simulation_based_calibration_at_length(leaves: int) -> None:
    ranks = calibration_ranks(leaves=leaves, repetitions=400, kept=39, thin=8, n=10)
    assert uniformity(ranks, 39, 10).min() > 1e-4


@pytest.mark.long
def test_calibration_would_see_a_wrong_jacobian() -> None:
    ranks = calibration_ranks(leaves=1, repetitions=400, kept=39, thin=8, wrong=WrongJacobian)
    assert uniformity(ranks, 39, 10).min() < 1e-4
