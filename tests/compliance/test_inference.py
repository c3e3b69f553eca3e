"""What every method of inference promises, on a model that is no Gaussian process: a straight line, whose posterior is known.

Each method in the table joins by itself; one that needs much work gets settings of less in `SETTINGS`.
"""

from dataclasses import dataclass, replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hyperleaf.inference import METHODS, method
from hyperleaf.inference.base import Inference, Problem, Settled
from hyperleaf.precision import float64
from hyperleaf.surrogates import tags

SETTINGS = {
    "smc": {"particles": 128, "start_moves": 4},
    "nuts": {"warmup": 100, "draws": 100, "chains": 2, "max_depth": 4},
    "hmc": {"burn_in": 100, "draws": 400, "thin": 2, "steps": 8, "initial_step_size": 0.1},
}
NOISE = 0.25  # variance
RNG = np.random.default_rng(0)
X = np.column_stack([np.ones(12), RNG.uniform(-1, 1, 12)])
Y = X @ [0.5, -1.0] + np.sqrt(NOISE) * RNG.standard_normal(12)
KEY = jax.random.key(5)
methods = pytest.mark.parametrize("name", METHODS)


class Density(eqx.Module):
    """ln p(z) + Σᵢ powerᵢ ln p(rows of weight i | z), the prior perhaps moved."""

    x: jax.Array
    y: jax.Array
    rows: jax.Array  # (2, n), 1 where a row counts
    powers: jax.Array
    heat: jax.Array
    moved: jax.Array

    def log_likelihood(self, z):
        variance = NOISE + self.heat
        each = -0.5 * (self.y - self.x @ z) ** 2 / variance - 0.5 * jnp.log(2 * jnp.pi * variance)
        return self.powers @ (self.rows @ each)

    def __call__(self, z):
        return self.log_likelihood(z) - 0.5 * jnp.sum((z + self.moved) ** 2) - jnp.log(2 * jnp.pi)


@dataclass(frozen=True)
class Line(Problem):
    """y = z₀ + z₁ x with known noise and z ~ N(0, I), of the first rows."""

    num: int = 12
    size = 2

    @property
    def num_observations(self):
        return self.num

    def _density(self, first=0, powers=(0.0, 1.0), heat=0.0, moved=0.0):
        rows = np.stack([np.arange(12) < first, np.arange(12) < self.num]).astype(float)
        moved = jnp.broadcast_to(jnp.asarray(moved, float), (2,))
        return Density(*map(jnp.asarray, (X, Y, rows, np.array(powers), np.asarray(heat, float))), moved)

    def prior_draws(self, key, num):
        return jax.random.normal(key, (num, 2), jnp.float64)

    def target(self):
        return self._density()

    posterior = target

    def invariants(self, z):
        return {"log_likelihood": jax.vmap(self.target().log_likelihood)(z)}

    def settle(self, z, log_weights, factors=None):
        return Settled(z, log_weights, jnp.zeros(len(z)), 0, 0.0)

    def heated(self, z):
        return lambda heat: self._density(heat=heat)

    def likelihoods(self, z, heats):
        return jnp.stack([jax.vmap(self._density(heat=heat).log_likelihood)(z) for heat in heats], axis=1)

    def part(self, rows):
        raise NotImplementedError

    def since(self, num, z):
        return lambda t: self._density(num, (1.0 - t, t))

    def observe(self, z, factors, num):
        now, before = (jax.vmap(one.log_likelihood)(z) for one in (self.target(), replace(self, num=num).target()))
        return factors, now - before

    def since_other_units(self, z, moved):
        return lambda t: self._density(moved=(1.0 - t) * moved)

    def exact(self):
        """Mean and covariance of the posterior, and ln p(y)."""
        x, y = X[: self.num], Y[: self.num]
        covariance = np.linalg.inv(x.T @ x / NOISE + np.eye(2))
        marginal = x @ x.T + NOISE * np.eye(self.num)
        evidence = -0.5 * (y @ np.linalg.solve(marginal, y) + np.linalg.slogdet(2 * np.pi * marginal)[1])
        return covariance @ x.T @ y / NOISE, covariance, evidence


def check(inference, drawn):
    mean, covariance, evidence = drawn.problem.exact()
    weights = np.exp(np.asarray(drawn.log_weights))
    assert weights.sum() == pytest.approx(1.0) and drawn.diagnostics.num_draws == len(drawn.z)
    spread = np.sqrt(np.diag(covariance))
    if not inference.uses_prior:  # the least squares, then
        x = X[: drawn.problem.num]
        np.testing.assert_allclose(drawn.z[0], np.linalg.lstsq(x, Y[: drawn.problem.num], rcond=None)[0], atol=1e-3)
    else:
        np.testing.assert_allclose(weights @ np.asarray(drawn.z), mean, atol=0.5 * spread.min())
    assert (inference.evidence_of(drawn.state) is not None) == inference.gives_evidence
    if inference.gives_evidence:
        log, std = inference.evidence_of(drawn.state)
        assert abs(log - evidence) < 5 * max(std, 0.05)


@methods
@float64
def test_it_starts_moves_on_and_carries_over(name):
    inference = method(name)(**SETTINGS.get(name, {}))
    start = inference.start(Line(8), KEY)
    check(inference, start)
    again = inference.start(Line(8), KEY)
    np.testing.assert_array_equal(start.z, again.z)  # the same key, the same draws
    update = inference.update(Line(12), start, KEY)
    check(inference, update)
    # Where z stood at z + 0 in the other units, nothing has changed.
    check(inference, inference.carry_over(Line(12), update, jnp.zeros(2), KEY))
    check(inference, inference.update(Line(12), replace(start, state=None), KEY))  # draws of a method that carries nothing on


@methods
def test_it_is_an_inference_that_files_know(name):
    inference = method(name)()
    assert isinstance(inference, Inference) and inference == method(name)() and hash(inference) == hash(method(name)())
    assert tags.CLASSES[inference.tag] is type(inference)
    assert all(tags.CLASSES[tag] is cls for tag, cls in type(inference).saved().items())
    assert inference.evidence_of(None) is None and isinstance(inference.for_evidence(), Inference)
