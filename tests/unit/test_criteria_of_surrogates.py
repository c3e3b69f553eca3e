"""Every criterion works with every surrogate: scores, pending points, batches, pools, and gradients where there are some."""

from dataclasses import replace

import jax
import numpy as np
import pytest

from hyperleaf.acquisition import ACQUISITIONS, ALC, EPIG, Belief, Entropy, Random, Referenced, Variance, as_acquisition
from hyperleaf.data import Dataset, Pool
from hyperleaf.domain import Choice, Domain, Integer, Real
from hyperleaf.gp import pad
from hyperleaf.inference.map import Map
from hyperleaf.inference.smc import SMC
from hyperleaf.parallel import over_draws
from hyperleaf.precision import float64
from hyperleaf.suggestion import suggest
from hyperleaf.surrogates.deep.surrogate import DeepGP
from hyperleaf.surrogates.ensemble import Averaged
from hyperleaf.surrogates.gp import hhk_surrogate, stationary_surrogate
from hyperleaf.surrogates.gp.draws import MANY, draw_condition
from hyperleaf.surrogates.treed import TreedGP

KEY = jax.random.key(0)
RNG = np.random.default_rng(4)
SMALL = SMC(particles=16)
SURROGATES = {
    "stationary by MAP": stationary_surrogate(2, inference=Map(restarts=2)),
    "HHK by SMC": hhk_surrogate(2, 2, inference=SMALL),
    "average of trees": Averaged((hhk_surrogate(2, 1, inference=SMALL), hhk_surrogate(2, 2, inference=SMALL))),
    "treed": TreedGP(burn_in=60, total=120, thin=4, min_leaf=4),
    "deep": DeepGP(sweeps=60, draws=10),
}
BOX = Domain(a=Real(-2, 3), b=Real(1, 100, log=True))
POOL = Pool(BOX.design(24, "uniform", seed=2), BOX)
X, R, PENDING = RNG.random((9, 2)), RNG.random((6, 2)), RNG.random((2, 2))


def data() -> Dataset:
    x = np.random.default_rng(1).random((14, 2))
    y = np.where(x[:, 0] < 0.5, np.sin(9 * x[:, 1]), 0.1 * x[:, 0]) + 0.05 * np.random.default_rng(2).normal(size=14)
    return Dataset(x, (y - y.mean()) / y.std())


@pytest.fixture(scope="module")
def posteriors():
    made = {}

    def get(name):
        if name not in made:
            made[name] = SURROGATES[name].fit(data(), key=KEY)
        return made[name]

    return get


@pytest.mark.parametrize("name", ["treed", "deep"])
def test_a_posteriors_own_alc_is_that_of_the_covariances(posteriors, name, monkeypatch):
    posterior = posteriors(name)
    own = ALC(R).score(posterior, X)
    monkeypatch.delattr(type(posterior), "alc")
    np.testing.assert_allclose(own, ALC(R).score(posterior, X), rtol=1e-9)


@pytest.mark.parametrize("name", SURROGATES)
@pytest.mark.parametrize("criterion", ACQUISITIONS)
def test_scores_are_finite_each_candidate_has_its_own_and_the_pool_gives_the_best(posteriors, name, criterion):
    posterior = posteriors(name)
    how = as_acquisition(criterion)
    ready = replace(how, references=POOL.unit) if isinstance(how, Referenced) else how
    scores = ready.score(posterior, POOL.unit, pending=PENDING, key=KEY)
    assert scores.shape == (24,) and np.isfinite(scores).all()
    batch = suggest(posterior, POOL, criterion, n=2)
    assert len({s.index for s in batch}) == 2
    if isinstance(how, Random):
        return
    alone = np.array([ready.score(posterior, POOL.unit[[i]])[0] for i in range(24)])
    assert batch[0].score == pytest.approx(alone.max(), rel=1e-6, abs=1e-6)
    if alone.max() > np.sort(alone)[-2] + 1e-6:  # with one draw BALD and committees are zero everywhere
        assert batch[0].index == alone.argmax()


@pytest.mark.parametrize("name", SURROGATES)
def test_what_is_pending_tells_less_the_second_time(posteriors, name):
    posterior = posteriors(name)
    for criterion in (Variance(noisy=False), ALC(R), EPIG(R)):
        before, after = (criterion.score(posterior, PENDING, pending=p) for p in (None, PENDING))
        # not compared with no pending point at all: a treed posterior then predicts with more of its draws
        assert (after < before).all()
    assert (Belief.of(posterior).given(PENDING).joint(X, R).var_x <= Belief.of(posterior).joint(X, R).var_x + 1e-12).all()


@float64
def observed(posterior, x, y):
    """The same draws after more observations: refitted directly, hyperparameters held."""
    more = posterior.data.append(x, y)
    padded = pad(more)
    seen = over_draws(draw_condition, posterior.z, posterior.surrogate.prior, padded)
    return replace(posterior, data=more, padded=padded, seen=seen)


@pytest.mark.parametrize("name", ["stationary by MAP", "HHK by SMC"])
def test_alc_is_what_a_direct_refit_of_every_draw_gains(posteriors, name):
    posterior = posteriors(name)
    scores = ALC(R).score(posterior, X[:3])
    before = posterior.predict(R).variances.mean(axis=1)
    for x, score in zip(X, scores, strict=False):
        after = observed(posterior, x[None], [3.0]).predict(R).variances.mean(axis=1)
        assert score == pytest.approx(posterior.weights @ (before - after), rel=1e-5)


@pytest.mark.parametrize("name", ["stationary by MAP", "HHK by SMC"])
def test_pending_points_count_as_observations_whatever_their_values(posteriors, name):
    posterior = posteriors(name)
    for values in ([0.0, 0.0], [4.0, -2.0]):
        after = observed(posterior, PENDING, values)
        for criterion in (ALC(R), EPIG(R)):
            scores = criterion.score(posterior, X, pending=PENDING)
            np.testing.assert_allclose(scores, criterion.score(after, X), rtol=1e-5, atol=1e-9)
        ours = Belief.of(posterior).given(PENDING).predict(X).variances
        np.testing.assert_allclose(ours, after.predict(X).variances, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("name", ["HHK by SMC", "average of trees"])
def test_traced_predictions_are_the_predictions_and_gradients_are_climbed(posteriors, name):
    posterior = posteriors(name)
    mixture, joint = (float64(function)(*at) for function, at in zip(posterior.traced(), ((X,), (X, R)), strict=True))
    plain = posterior.predict(X)
    np.testing.assert_allclose(joint.weights, plain.weights, rtol=1e-12)
    np.testing.assert_allclose(mixture.mean(), plain.mean(), rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(mixture.noisy().var(), plain.noisy().var(), rtol=1e-8)
    for field in ("weights", "mean_x", "var_x", "mean_r", "var_r", "cov", "noise"):
        np.testing.assert_allclose(getattr(joint, field), getattr(posterior.joint(X, R), field), rtol=1e-7, atol=1e-9)
    assert Belief.of(posterior).differentiable(Entropy())
    (suggestion,) = suggest(posterior, BOX, optimizer="gradients")
    assert suggestion.score >= Entropy().score(posterior, RNG.random((10_000, 2))).max() - 1e-6


def test_many_points_at_once_are_predicted_as_few_are(posteriors):
    posterior = posteriors("stationary by MAP")
    many = RNG.random((MANY, 2))
    rows = np.array([0, 63, 64, 1023, 1024, MANY - 1])
    whole, few = posterior.predict(many), posterior.predict(many[rows])
    np.testing.assert_allclose(whole.means[:, rows], few.means, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(whole.variances[:, rows], few.variances, rtol=1e-7, atol=1e-10)
    joint, part = posterior.joint(many[:300], many[300:600]), posterior.joint(many[[0, 63, 64, 299]], many[300:600])
    for field in ("mean_x", "var_x", "cov"):
        np.testing.assert_allclose(getattr(joint, field)[:, [0, 63, 64, 299]], getattr(part, field), rtol=1e-7, atol=1e-10)
    np.testing.assert_allclose(joint.var_r, posterior.predict(many[300:600]).variances, rtol=1e-7, atol=1e-10)


MIXED = Domain(a=Real(0, 10), k=Integer(1, 4), m=Choice("x", "y"), constraints=["a * k <= 25", "m != 'y' or a > 2"])


@pytest.mark.parametrize("optimizer", ["auto", "local", "cmaes", "gradients"])
def test_integers_choices_and_constraints_with_a_real_surrogate(optimizer):
    points = MIXED.design(12, "uniform")
    y = np.array([np.sin(p["a"]) + p["k"] * (p["m"] == "x") for p in points])
    surrogate = stationary_surrogate(4, inference=Map(restarts=2))
    posterior = surrogate.fit(Dataset(MIXED.to_unit(points), (y - y.mean()) / y.std()), key=KEY)
    batch = suggest(posterior, MIXED, "entropy", n=2, optimizer=optimizer)
    assert MIXED.feasible([s.point for s in batch]).all()
    for s in batch:
        assert isinstance(s.point["k"], int) and s.point["m"] in ("x", "y")
        np.testing.assert_array_equal(MIXED.snap(s.unit[None])[0], s.unit)
    every = Entropy().score(posterior, MIXED.to_unit(MIXED.design(5000, "uniform", 3)))
    assert batch[0].score >= every.max() - 1e-9
