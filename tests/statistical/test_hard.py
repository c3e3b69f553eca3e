"""Posteriors on which samplers go astray: outputs that look like noise until their structure is found.

One check needs no other software: with the noise variance learned, ln Z must be ln ∫ p(σ²) Z(σ²) dσ², with Z(σ²) from runs in
which the noise is given. Cases of our own differ in what has to be found (a bump, the place of a gate, short against long
lengthscales); those of `shared/data/hard` are points that campaigns chose on real simulators.
"""

import jax
import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

from hyperleaf.data import Dataset, Standardizer
from hyperleaf.inference.smc import EFFORTS
from hyperleaf.surrogates.gp import NOISE_PRIOR, hhk_surrogate
from hyperleaf.surrogates.named import make_surrogate

STANDARD = EFFORTS["standard"]


def bump(x):
    return np.exp(-0.5 * ((x - 0.3) / 0.04) ** 2) * np.sin(40 * x)


def step(x):
    """A jump, whose place two gates could explain."""
    return np.where(x < 0.62, 0.2 * np.sin(6 * x), 1.0 + 0.2 * np.sin(6 * x))


def two_rates(x):
    """Slow on one side, fast on the other: long lengthscales and much noise explain it nearly as well at first."""
    return np.where(x < 0.5, np.sin(4 * x), np.sin(50 * x))


def data_of(function, n=24, noise=0.01):
    x = np.linspace(0, 1, n)
    y = function(x) + noise * np.random.default_rng(0).normal(size=n)
    return Dataset(x[:, None], (y - y.mean()) / y.std())


def by_quadrature(dims, leaves, data, mean, grid):
    """ln ∫ p(σ²) Z(σ²) dσ² over a grid of ln σ², and its standard error, from runs with the noise given."""
    log_evidence, errors = [], []
    for i, log_noise in enumerate(grid):
        known = Dataset(data.x, data.y, np.full(data.num_observations, np.exp(log_noise)))
        model = hhk_surrogate(dims, leaves, inference=STANDARD, noise="known", mean=mean)
        posterior = model.fit(known, key=jax.random.key(100 + i))
        log_evidence.append(posterior.log_evidence)
        errors.append(posterior.log_evidence_std)
    log_mass = np.array(log_evidence) + stats.norm(*NOISE_PRIOR).logpdf(grid) + np.log(grid[1] - grid[0])
    total = logsumexp(log_mass)
    return total, np.sqrt(np.sum((np.exp(log_mass - total) * np.array(errors)) ** 2))


def check(dims, leaves, data, mean, grid, seeds, least):
    truth, error = by_quadrature(dims, leaves, data, mean, grid)
    model = hhk_surrogate(dims, leaves, inference=STANDARD, mean=mean)
    runs = [model.fit(data, key=jax.random.key(seed)) for seed in seeds]
    scores = [(one.log_evidence - truth) / np.hypot(one.log_evidence_std, error) for one in runs]
    told = [(round(one.log_evidence, 2), round(one.log_evidence_std, 2)) for one in runs]
    assert np.mean(np.abs(scores) < 3.0) >= least, (truth, error, told)


@pytest.mark.long
@pytest.mark.parametrize("function", [bump, step, two_rates])
def test_the_evidence_is_the_integral_over_noise_that_is_given(function):
    """With runs wrong by ten nats, as those of a sampler that takes structure for noise, no seed passes."""
    check(1, 2, data_of(function), "zero", np.arange(np.log(1e-6), np.log(4.0), 0.7), range(6), least=5 / 6)


# The best ln Z known, of data standardised by themselves, eight leaves and a linear trend, and by how much two of three starts
# may miss it. Some of the sets have modes that most starts do not find (`python -m benchmarks.hard` has twenty starts of each).
BEST = {
    ("paper", "co2_35"): (-21.3, 2.0),
    ("paper", "h2_30"): (-28.2, 2.0),
    ("paper", "foil_65"): (-23.7, 2.5),
    ("paper", "co2cp_65"): (-3.0, 2.0),
    ("paper", "foildrag_65"): (7.9, 2.0),
    ("paper", "h2_65"): (-2.2, 8.0),
    ("paper", "co2_65"): (1.0, 5.0),
    ("wide", "co2_35"): (32.7, 2.0),
    ("wide", "h2_30"): (-14.2, 2.0),
    ("wide", "foil_65"): (-13.4, 4.0),
    ("wide", "co2cp_65"): (21.2, 2.0),
    ("wide", "foildrag_65"): (21.0, 4.0),
    ("wide", "h2_65"): (28.1, 7.0),
    ("wide", "co2_65"): (94.2, 4.0),
}


def hard(shared, name):
    table = np.loadtxt(shared / "data" / "hard" / f"{name}_train.csv", delimiter=",", skiprows=1)
    scale = Standardizer.from_data(table[:, -1])
    return Dataset(table[:, :-1], scale.transform(table[:, -1]))


@pytest.mark.long
@pytest.mark.parametrize("name", ["co2_35", "h2_30", "foildrag_65"])
def test_real_data_have_the_evidence_that_the_integral_says(shared, name):
    data = hard(shared, name)
    check(data.num_dims, 8, data, "linear", np.arange(np.log(1e-5), np.log(0.3), 1.1), range(2), least=0.5)


@pytest.mark.long
@pytest.mark.parametrize(("priors", "name"), BEST)
def test_starts_come_near_the_best_evidence_that_is_known(shared, priors, name):
    data = hard(shared, name)
    model = make_surrogate("hhk", data.num_dims, priors=priors)
    found = [model.fit(data, key=jax.random.key(seed)).log_evidence for seed in range(3)]
    best, slack = BEST[priors, name]
    assert np.median(found) > best - slack, found
