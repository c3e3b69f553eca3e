"""Factors, predictions, slopes and covariances in machine code agree with JAX; what grows is equal to what is computed anew."""

import shutil

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

from hyperleaf.acquisition import EPIG, Entropy, Variance
from hyperleaf.acquisition.belief import Belief
from hyperleaf.data import Dataset
from hyperleaf.gp import GP, Padded, pad
from hyperleaf.inference.smc import SMC
from hyperleaf.kernels import LeafNoise, Matern12, Matern52
from hyperleaf.native import draws_of, predictions
from hyperleaf.parallel import over_draws
from hyperleaf.precision import float64
from hyperleaf.priors import Prior, hhk_prior, wide_priors
from hyperleaf.surrogates.gp import GPPosterior, draws, hhk_surrogate, noise_by_leaf
from hyperleaf.surrogates.gp.ahead import continues

# With a compiler the code has to be there: a library that cannot be built is a failure, not a skip.
pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="no compiler")
LEARNED = dist.LogNormal(-4.0, 1.0)
N, DRAWS = 21, 8
MODELS = {
    "the default": GP(hhk_prior(2, 8, **wide_priors(2)), LEARNED, "linear"),
    "noise by leaf": GP(hhk_prior(2, 3, leaf=Matern52, weights="sqrt"), noise_by_leaf(3), "zero"),
    "roots of Matérn 1/2": GP(hhk_prior(2, 4, leaf=Matern12, weights="sqrt"), LEARNED, "constant"),
}


def data_of(n: int, size: int | None = None) -> Padded:
    rng = np.random.default_rng(0)
    x = rng.random((N, 2))
    x[N // 2] = x[0]  # a point seen twice
    y = np.sin(5 * x[:, 0]) + 0.1 * rng.normal(size=N)
    return pad(Dataset(x[:n], y[:n], 0.02 * rng.random(N)[:n]), size)


@pytest.fixture(
    scope="module", params=["the default", "noise by leaf", pytest.param("roots of Matérn 1/2", marks=pytest.mark.long)]
)
def case(request):
    """The prior, the data, draws of the prior and their factors by JAX."""

    @float64
    def make():
        prior, data = Prior(MODELS[request.param]), data_of(N)
        z = prior.sample_vectors(jax.random.key(1), DRAWS)
        return prior, data, z, over_draws(draws.draw_condition, z, prior, data)

    return make()


def points(num: int, seed: int = 3) -> np.ndarray:
    return np.random.default_rng(seed).random((num, 2))


@float64
def test_factors_are_those_of_jax(case):
    prior, data, z, seen = case
    ours = draws_of(prior, data, z).settle()
    np.testing.assert_allclose(ours.factor, seen.factor, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(ours.whitened, seen.whitened, rtol=1e-8, atol=1e-9)
    np.testing.assert_array_equal(ours.jitter, 0.0)


@float64
def test_a_singular_covariance_gets_jitter_and_one_of_infinities_no_factor():
    """Ten points at one place without noise: JAX needs jitter there, and so does the machine code, of the same size."""
    prior = Prior(GP(hhk_prior(2, 2), 0.0))
    data = pad(Dataset(np.full((30, 2), 0.3), np.zeros(30)))
    z = np.array(prior.sample_vectors(jax.random.key(0), 3))
    z[2] = 800.0  # variances that overflow
    ours, theirs = draws_of(prior, data, z).settle(), over_draws(draws.draw_condition, jnp.asarray(z), prior, data)
    assert np.isfinite(ours.factor[:2]).all() and np.isnan(ours.factor[2, 0, 0])
    assert np.isnan(np.asarray(theirs.factor)[2]).any()
    for found in (ours, theirs):  # whether the smallest jitter is needed is a matter of rounding; ten times more is not
        assert (np.asarray(found.jitter)[:2] <= 1e-8).all()


@float64
def test_predictions_and_covariances_are_those_of_jax(case):
    prior, data, z, seen = case
    x, r = points(70), points(30, 4)
    ours = draws_of(prior, data, z, seen)
    mean, variance = over_draws(draws.draw_moments, (z, seen), prior, data, draws.pad_points(x))
    found, _ = ours.predict(x)
    np.testing.assert_allclose(found.mean, np.asarray(mean)[:, :70], rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(found.variance, np.asarray(variance)[:, :70], rtol=1e-8, atol=1e-10)
    expected = over_draws(draws.draw_joint, (z, seen), prior, data, draws.pad_points(x), draws.pad_points(r))
    cut = [np.asarray(expected[0])[:, :70], np.asarray(expected[1])[:, :70], *(np.asarray(e)[:, :30] for e in expected[2:4])]
    joined = ours.join(x, r)
    for one, other in zip(joined, [*cut, np.asarray(expected[4])[:, :70, :30]], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-10)
    squares = ours.join(x, r, predictions.SQUARES).result
    np.testing.assert_allclose(squares, np.mean(joined.result**2, axis=2), rtol=1e-10, atol=1e-14)
    noise = ours.noise()
    noisy_x, noisy_r = joined.variance + noise[:, None] + 1e-12, joined.variance_r + noise[:, None] + 1e-12
    rho = np.minimum(joined.result**2 / noisy_x[:, :, None] / noisy_r[:, None, :], 1.0 - 1e-12)
    information = ours.join(x, r, predictions.INFORMATION, (noise, noise)).result
    np.testing.assert_allclose(information, -0.5 * np.log1p(-rho).mean(axis=2), rtol=1e-9, atol=1e-13)


@float64
def test_noise_by_leaf_and_its_slopes_are_those_of_jax(case):
    prior, data, z, seen = case
    if not isinstance(prior.tree.noise, LeafNoise):
        return
    ours, x, r, step = draws_of(prior, data, z, seen), points(9), points(30, 4), 1e-6
    np.testing.assert_allclose(ours.noise_at(x), over_draws(draws.draw_noise_at, z, prior, jnp.asarray(x)), rtol=1e-12)
    np.testing.assert_allclose(ours.noise(), draws.draw_noise(z, prior, data), rtol=1e-12)
    slopes = ours.noise_slopes(x)
    for c in range(2):
        change = ours.noise_at(x + step * np.eye(2)[c]) - ours.noise_at(x - step * np.eye(2)[c])
        np.testing.assert_allclose(slopes[:, :, c], change / (2 * step), rtol=1e-5, atol=1e-7 * np.abs(slopes).max())
    joined, own = ours.join(x, r), (ours.noise_at(x), ours.noise_at(r))
    rho = joined.result**2 / (joined.variance + own[0] + 1e-12)[:, :, None] / (joined.variance_r + own[1] + 1e-12)[:, None, :]
    information = ours.join(x, r, predictions.INFORMATION, own).result
    np.testing.assert_allclose(information, -0.5 * np.log1p(-rho).mean(axis=2), rtol=1e-9, atol=1e-13)


@float64
def test_more_observations_grow_the_factors_as_in_jax(case):
    prior, data, z, _ = case
    known = N - 3
    seen = over_draws(draws.draw_condition, z, prior, data_of(known, len(data.y)))
    grown, gained = draws_of(prior, data, z, seen).grow(known)
    expected, total = seen, 0.0
    for i in range(known, N):
        so_far = Padded(data.x, data.y, data.noise, jnp.asarray(i))
        expected, more = over_draws(draws.draw_observe, (z, expected), prior, so_far)
        total = total + more
    np.testing.assert_allclose(grown.factor, expected.factor, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(grown.whitened, expected.whitened, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(gained, total, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("num", [1, 24, 25, 100])
@float64
def test_predictions_that_grow_have_the_bits_of_those_made_anew(case, num):
    """Through full blocks and beginnings of blocks, and through a change of the padded size."""
    prior, _, z, _ = case
    x, kept, before = points(num), None, 0
    seen = draws_of(prior, data_of(5, 24), z).settle()
    for n in (5, 6, 8, 15, 16, N):
        data = data_of(n, 24 if n < 16 else 48)
        if n > 5:
            seen, _ = draws_of(prior, data, z, seen).grow(before)
        ours, before = draws_of(prior, data, z, seen), n
        (mean, variance), kept = ours.predict(x, kept, keep=True)
        anew, _ = ours.predict(x)
        np.testing.assert_array_equal(mean, anew.mean)
        np.testing.assert_array_equal(variance, anew.variance)


@float64
def test_slopes_are_those_of_differences(case):
    prior, data, z, seen = case
    ours, x, step = draws_of(prior, data, z, seen), points(9), 1e-6
    found = ours.slopes(x)
    anew, _ = ours.predict(x)
    np.testing.assert_allclose(found.mean, anew.mean, rtol=1e-12, atol=1e-12)
    for c in range(2):
        (up, _), (down, _) = ours.predict(x + step * np.eye(2)[c]), ours.predict(x - step * np.eye(2)[c])
        for slope, one, other in zip(found[2:], up, down, strict=True):
            np.testing.assert_allclose(slope[:, :, c], (one - other) / (2 * step), rtol=1e-4, atol=1e-6)


@float64
def test_one_thread_and_several_give_the_same_bits(case, monkeypatch):
    prior, data, z, seen = case
    ours, x, r = draws_of(prior, data, z, seen), points(50), points(30, 4)

    def everything() -> list[np.ndarray]:
        return [*draws_of(prior, data, z).settle().factor, *ours.predict(x)[0], *ours.slopes(x[:5]), *ours.join(x, r)]

    monkeypatch.setattr(predictions, "num_threads", lambda: 1)
    alone = everything()
    monkeypatch.setattr(predictions, "num_threads", lambda: 3)
    for one, other in zip(alone, everything(), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.fixture(scope="module")
def posterior() -> GPPosterior:
    x = np.random.default_rng(5).random((12, 2))
    surrogate = hhk_surrogate(2, 2, inference=SMC(particles=24, chains=8, start_moves=3, threshold=0.01))
    return surrogate.fit(Dataset(x, np.sin(6 * x[:, 0])), key=jax.random.key(0))


@pytest.mark.parametrize("criterion", [Entropy(), Variance(), Variance(noisy=False)])
@float64
def test_a_criterion_climbs_by_the_slopes_that_jax_finds(posterior, criterion):
    x, belief = points(5, 7), Belief.of(posterior)
    value, slope = criterion.slopes(belief, x)

    def total(x):
        scores = criterion.measure(belief, x)
        return jnp.sum(scores), scores

    expected, scores = jax.grad(total, has_aux=True)(jnp.asarray(x))
    np.testing.assert_allclose(value, scores, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(slope, expected, rtol=1e-6, atol=1e-7)
    assert criterion.slopes(belief.given(points(1, 8)), x) is None  # with pending points JAX differentiates


@float64
def test_information_gain_needs_no_covariances(posterior):
    x, r = points(40, 9), points(20, 10)
    fast = EPIG(r).score(posterior, x)
    belief = Belief.of(posterior)
    joint = belief.joint(x, r)
    noise = joint.noise_at_x + 1e-12
    rho = joint.cov**2 / (joint.var_x + noise)[:, :, None] / (joint.var_r + noise)[:, None, :]
    np.testing.assert_allclose(fast, joint.weights @ (-0.5 * np.log1p(-rho).mean(axis=2)), rtol=1e-9)


def test_a_study_that_is_taken_up_again_finds_the_same_queries(posterior):
    """One posterior grows along with its pool; of the other nothing is kept between updates, as after a restart."""
    pool = points(60, 11)
    growing, anew, grew = posterior, posterior, 0
    for i in range(6):
        told = growing.predict(pool), anew.predict(pool)
        for part in ("means", "variances"):
            np.testing.assert_array_equal(getattr(told[0], part), getattr(told[1], part))
        best = [int(np.argmax(Entropy().score(one, pool))) for one in (growing, anew)]
        assert best[0] == best[1]
        x, y = pool[best[:1]], np.sin(6 * pool[best[:1], 0])
        before = growing
        growing, anew = (one.update(x, y, key=jax.random.key(i)) for one in (growing, anew))
        grew += bool(growing._ahead.kept)
        assert not before._ahead.kept  # handed on, not copied
        object.__setattr__(anew, "_ahead", type(anew._ahead)())
    assert grew > 0


@float64
def test_draws_that_moved_are_told_from_draws_that_grew(posterior):
    more = posterior.update([[0.4, 0.6]], [0.3], key=jax.random.key(9))
    count = posterior.data.num_observations
    assert continues(posterior.z, posterior.seen, count, more.z, more.seen)
    assert not continues(np.asarray(posterior.z) + 1e-3, posterior.seen, count, more.z, more.seen)
    moved = more.seen.factor.copy()
    moved[3, 2, 1] += 1e-12
    assert not continues(posterior.z, posterior.seen, count, more.z, type(more.seen)(moved, more.seen.whitened, 0.0))
