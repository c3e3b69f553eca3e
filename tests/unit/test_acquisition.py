"""Criteria against brute force: refits with fixed hyperparameters, sampling, closed forms."""

import sys
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import pytest

from hyperleaf.acquisition import (
    ACQUISITIONS,
    ALC,
    BALD,
    EPIG,
    Belief,
    Entropy,
    Handover,
    QueryByCommittee,
    Random,
    SpaceFilling,
    Variance,
    as_acquisition,
)
from hyperleaf.data import Dataset, Standardizer
from hyperleaf.errors import InputError
from hyperleaf.inference.smc import SMC
from hyperleaf.mixture import Mixture
from hyperleaf.precision import float64
from hyperleaf.surrogates.learned import Learned
from hyperleaf.surrogates.named import make_surrogate

sys.path.insert(0, str(Path(__file__).parents[1]))
from reference_posterior import ReferencePosterior, TracedPosterior, reference

RNG = np.random.default_rng(7)
X = RNG.random((40, 2))
R = RNG.random((15, 2))
PENDING = RNG.random((3, 2))
KEY = jax.random.key(3)


def mean_latent_variance(posterior, draw, r):
    return posterior.predict(r).variances[draw].mean()


def test_alc_is_the_fall_of_the_mean_posterior_variance_when_the_point_is_added():
    posterior = reference()
    scores = ALC(R).score(posterior, X[:6])
    for x, score in zip(X, scores, strict=False):
        after = posterior.with_point(x, 123.0)  # any y: the variance does not depend on it
        falls = [mean_latent_variance(posterior, i, R) - mean_latent_variance(after, i, R) for i in range(3)]
        assert score == pytest.approx(posterior.weights @ falls, rel=1e-8)


def test_alc_of_the_mixture_and_with_doubt_follow_their_formulas():
    posterior = reference()
    joint = posterior.joint(X, R)
    w = joint.weights
    off_x, off_r = joint.mean_x - w @ joint.mean_x, joint.mean_r - w @ joint.mean_r
    cov = sum(w[i] * (joint.cov[i] + np.outer(off_x[i], off_r[i])) for i in range(3))
    total = posterior.predict(X).noisy().var()
    np.testing.assert_allclose(ALC(R, moments="mixture").score(posterior, X), (cov**2).mean(1) / total, rtol=1e-9)
    extra = ALC(R, doubt=True).score(posterior, X) - ALC(R).score(posterior, X)
    np.testing.assert_allclose(extra, QueryByCommittee().score(posterior, X), rtol=1e-9)


def test_epig_of_one_draw_is_the_mutual_information_of_two_gaussians():
    posterior = reference(s=1)
    joint, sigma2 = posterior.joint(X[:5], R), posterior.noise[0]
    for j, score in enumerate(EPIG(R).score(posterior, X[:5])):
        information = []
        for k in range(len(R)):
            a, b, c = joint.var_x[0, j] + sigma2, joint.var_r[0, k] + sigma2, joint.cov[0, j, k]
            information.append(0.5 * np.log(a * b / np.linalg.det([[a, c], [c, b]])))
        assert score == pytest.approx(np.mean(information), rel=1e-7)


def test_epig_averages_draws_and_both_kinds_agree_where_there_is_one_draw():
    posterior = reference()
    joint = posterior.joint(X, R)
    noise = joint.noise[:, None]
    rho2 = joint.cov**2 / (joint.var_x + noise)[:, :, None] / (joint.var_r + noise)[:, None, :]
    expected = joint.weights @ (-0.5 * np.log(1 - rho2)).mean(axis=2)
    np.testing.assert_allclose(EPIG(R).score(posterior, X), expected, rtol=1e-7)
    single = reference(s=1)
    np.testing.assert_allclose(EPIG(R, moments="mixture").score(single, X), EPIG(R).score(single, X), rtol=1e-9)


def test_entropy_by_quadrature_agrees_with_sampling():
    posterior = reference()
    num = 20_000
    exact = Entropy().score(posterior, X)
    mixture = posterior.predict(X).noisy()
    surprise = -mixture.log_prob(mixture.sample(KEY, num))
    error = surprise.std(axis=0) / np.sqrt(num)
    for sampled in (surprise.mean(axis=0), Entropy("sampling", num_samples=num).score(posterior, X, key=KEY)):
        scores = (sampled - exact) / error
        assert np.abs(scores).max() < 5
        assert np.mean(scores**2) < 1 + 5 * np.sqrt(2 / len(X))  # candidates are sampled independently: a small bias adds up


def test_bald_is_the_information_about_the_draw():
    posterior = reference()
    num = 4000
    mixture = posterior.predict(X[:10]).noisy()
    y = mixture.sample(KEY, num)
    log_densities = -0.5 * (np.log(2 * np.pi * mixture.variances) + (y[:, None] - mixture.means) ** 2 / mixture.variances)
    share = np.exp(log_densities + np.log(mixture.weights)[:, None] - mixture.log_prob(y)[:, None])
    # I(y; θ) = H(θ) − E_y H(θ | y)
    prior = -np.sum(mixture.weights * np.log(mixture.weights))
    sampled = prior + np.sum(share * np.log(np.maximum(share, 1e-300)), axis=1)
    error = sampled.std(axis=0) / np.sqrt(num)
    scores = BALD().score(posterior, X[:10])
    assert (np.abs(sampled.mean(axis=0) - scores) < 5 * error).all()
    assert (scores > -1e-6).all() and scores.max() < np.log(3)


def test_bald_and_committee_are_zero_with_one_draw():
    posterior = reference(s=1)
    assert np.abs(BALD().score(posterior, X)).max() < 1e-6
    assert np.abs(QueryByCommittee().score(posterior, X)).max() == 0


def test_variance_adds_up():
    posterior = reference()
    mixture = posterior.predict(X)
    mean = mixture.weights @ mixture.means
    latent = mixture.weights @ mixture.variances + mixture.weights @ (mixture.means - mean) ** 2
    np.testing.assert_allclose(Variance(noisy=False).score(posterior, X), latent, rtol=1e-12)
    np.testing.assert_allclose(Variance().score(posterior, X), latent + mixture.weights @ posterior.noise, rtol=1e-12)


def test_pending_points_count_as_finished_observations_of_unknown_value():
    posterior = reference()
    belief = Belief.of(posterior).given(PENDING)
    after = posterior.with_point(PENDING, [5.0, -3.0, 0.0])
    np.testing.assert_allclose(belief.predict(X).variances, after.predict(X).variances, rtol=1e-8, atol=1e-10)
    np.testing.assert_array_equal(belief.predict(X).means, posterior.predict(X).means)
    ours, exact = belief.joint(X, R), after.joint(X, R)
    for name in ("var_x", "var_r", "cov"):
        np.testing.assert_allclose(getattr(ours, name), getattr(exact, name), rtol=1e-7, atol=1e-9)
    # a criterion made of covariances alone is the same before and after
    np.testing.assert_allclose(ALC(R).score(posterior, X, pending=PENDING), ALC(R).score(after, X), rtol=1e-7)
    np.testing.assert_allclose(EPIG(R).score(posterior, X, pending=PENDING), EPIG(R).score(after, X), rtol=1e-7)


def test_believed_means_are_those_after_observing_the_mean_of_the_mixture():
    posterior = reference()
    after = posterior.with_point(PENDING, posterior.predict(PENDING).mean())
    belief = Belief.of(posterior).given(PENDING)
    np.testing.assert_allclose(belief.predict(X, believe=True).means, after.predict(X).means, rtol=1e-6, atol=1e-8)
    for criterion in (BALD(), QueryByCommittee(), ALC(R, doubt=True), ALC(R, moments="mixture"), EPIG(R, moments="mixture")):
        scores = criterion.score(posterior, X, pending=PENDING)
        np.testing.assert_allclose(scores, criterion.score(after, X), rtol=1e-5, atol=1e-8)


def test_entropy_of_one_draw_with_pending_is_that_of_the_refit():
    posterior = reference(s=1)
    after = posterior.with_point(PENDING, np.zeros(3))
    np.testing.assert_allclose(Entropy().score(posterior, X, pending=PENDING), Entropy().score(after, X), atol=1e-6)


def test_points_given_one_by_one_or_at_once_are_the_same():
    posterior = reference()
    once = Belief.of(posterior).given(PENDING)
    slowly = Belief.of(posterior)
    for point in PENDING:
        slowly = slowly.given(point[None])
    np.testing.assert_allclose(once.whitener, slowly.whitener, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(once.predict(X, believe=True).means, slowly.predict(X, believe=True).means, rtol=1e-9)


def test_space_filling_is_the_distance_to_the_nearest_known_point():
    posterior = reference()
    known = np.concatenate([posterior.data.x, PENDING])
    expected = np.sqrt(((X[:, None] - known) ** 2).sum(-1)).min(1)
    np.testing.assert_allclose(SpaceFilling().score(posterior, X, pending=PENDING), expected, rtol=1e-12)


def test_random_scores_follow_the_key():
    posterior = reference()
    scores = Random().score(posterior, X, key=KEY)
    np.testing.assert_array_equal(scores, Random().score(posterior, X, key=KEY))
    assert (scores != Random().score(posterior, X, key=jax.random.key(4))).all()
    with pytest.raises(InputError, match="need a key"):
        Random().score(posterior, X)


@pytest.mark.parametrize("name", [name for name in ACQUISITIONS if name != "random"])
def test_chunks_do_not_show(name, monkeypatch):
    posterior, criterion = reference(), as_acquisition(name)
    whole = criterion.score(posterior, X, pending=PENDING)
    for room in ("base", "criteria"):
        monkeypatch.setattr(f"hyperleaf.acquisition.{room}.ROWS", 7)
    monkeypatch.setattr("hyperleaf.acquisition.criteria._ELEMENTS", 3 * 44 * 9)
    np.testing.assert_allclose(criterion.score(posterior, X, pending=PENDING), whole, rtol=1e-7, atol=1e-9)
    assert criterion.score(posterior, X[:0]).shape == (0,)


class NoiseByPlace(ReferencePosterior):
    """Noise that depends on x, as trees have it; here it happens to be the same everywhere, times `factor`."""

    factor = 1.0

    def joint(self, x, r):
        joint = super().joint(x, r)
        return replace(joint, noise=self.factor * np.tile(self.noise[:, None], (1, len(x))))

    def predict(self, x):
        joint = self.joint(x, x[:1])
        return Mixture(self.weights, joint.mean_x, joint.var_x, joint.noise)


class LouderByPlace(NoiseByPlace):
    factor = 4.0


@pytest.mark.parametrize("criterion", [*(a() for a in ACQUISITIONS.values() if a is not Random), EPIG(moments="mixture")])
def test_noise_may_depend_on_the_place(criterion):
    plain, placed = reference(), reference(kind=NoiseByPlace)
    expected = criterion.score(plain, X, pending=PENDING)
    np.testing.assert_allclose(criterion.score(placed, X, pending=PENDING), expected, rtol=1e-6, atol=1e-9)
    if criterion.uses_joint:
        assert (criterion.score(reference(kind=LouderByPlace), X, pending=PENDING) < expected).all()


@pytest.mark.parametrize("name", list(ACQUISITIONS))
def test_no_criterion_is_nan_where_nothing_is_uncertain(name):
    posterior = reference(noise=0.0)
    at_data = posterior.data.x
    scores = as_acquisition(name).score(posterior, np.concatenate([at_data, X]), pending=at_data[:2], key=KEY)
    assert not np.isnan(scores).any()


@pytest.mark.parametrize("pending", [None, PENDING], ids=["free", "pending"])
@pytest.mark.parametrize(
    "criterion", [Entropy(), BALD(), QueryByCommittee(), ALC(R), EPIG(R), EPIG(R, moments="mixture")], ids=repr
)
def test_gradients_agree_with_differences(criterion, pending):
    belief = Belief.of(reference(kind=TracedPosterior)).given(pending)
    assert belief.differentiable(criterion)
    slope = float64(jax.grad(lambda x: criterion.measure(belief, x).sum()))
    got, step = np.asarray(slope(X[:4])), 1e-4
    for j in range(2):
        shift = np.eye(2)[j] * step
        expected = (criterion.score(belief, X[:4] + shift) - criterion.score(belief, X[:4] - shift)) / (2 * step)
        np.testing.assert_allclose(got[:, j], expected, rtol=1e-3, atol=1e-5)


def test_without_references_the_candidates_are_taken_and_thinned():
    posterior = reference()
    np.testing.assert_array_equal(ALC().score(posterior, X), ALC(X).score(posterior, X))
    thin = ALC(num_references=5).thinned(X)
    assert len(thin) == 5 and all((row == X).all(axis=1).any() for row in thin)


def test_wrong_arguments_meet_clear_errors():
    posterior = reference()
    with pytest.raises(InputError, match="one of .*did you mean 'entropy'".replace("d", "[dD]", 1)):
        as_acquisition("entrpy")
    with pytest.raises(InputError, match="got 3"):
        as_acquisition(3)
    with pytest.raises(InputError, match=r"shape \(m, 2\)"):
        Entropy().score(posterior, np.zeros((3, 4)))
    with pytest.raises(InputError, match=r"pending must be finite.*row 1"):
        Entropy().score(posterior, X, pending=[[0.1, 0.2], [np.nan, 0.3]])
    with pytest.raises(InputError, match="at least one point"):
        ALC(np.zeros((0, 2))).score(posterior, X)
    with pytest.raises(InputError, match="num_references"):
        EPIG(num_references=0)
    with pytest.raises(InputError, match="moments"):
        EPIG(R, moments="median").score(posterior, X)


def test_what_was_learned_travels_with_its_scale():
    posterior = reference()
    learned = Learned(posterior, Standardizer(100.0, 7.0), 100.0 + 7.0 * posterior.data.y)
    belief = Belief.of(learned).given(PENDING)
    assert belief.scale == learned.scale
    np.testing.assert_allclose(belief.native(belief.predict(X)).mean(), 100.0 + 7.0 * belief.predict(X).mean())
    for acquisition in (Entropy(), ALC(R)):
        np.testing.assert_array_equal(acquisition.score(learned, X), acquisition.score(posterior, X))
    with pytest.raises(InputError, match="does not know the units"):
        Belief.of(posterior).native(posterior.predict(X))


def test_handover_is_alc_of_the_mixture_at_first_and_entropy_then():
    posterior = reference()
    num, dims = posterior.data.num_observations, posterior.data.num_dims
    early, late = Handover(early=num // dims + 1), Handover(early=num // dims)
    assert isinstance(early.at_hand(posterior.data), ALC) and isinstance(late.at_hand(posterior.data), Entropy)
    np.testing.assert_array_equal(early.score(posterior, X), ALC(moments="mixture").score(posterior, X))
    np.testing.assert_array_equal(late.score(posterior, X), Entropy().score(posterior, X))
    assert Entropy().at_hand(posterior.data) == Entropy()
    with pytest.raises(InputError, match="early"):
        Handover(early=-1)


def test_early_a_few_draws_and_references_say_what_all_of_them_say():
    grid, x = np.random.default_rng(0).random((200, 2)), np.random.default_rng(1).random((8, 2))
    surrogate = make_surrogate("stationary", 2, inference=SMC(particles=64))
    posterior = surrogate.fit(Dataset(x, np.sin(5 * x[:, 0])), key=jax.random.key(0))
    whole = ALC(grid, moments="mixture").score(posterior, grid)
    few = ALC(grid[:50], moments="mixture", draws=24).score(posterior, grid)
    assert not np.array_equal(few, ALC(grid[:50], moments="mixture").score(posterior, grid))
    assert whole[np.argmax(few)] > 0.8 * whole.max() and whole.max() > 1.3 * np.median(whole)
    assert Handover().at_hand(posterior.data).coarse and not ALC().coarse
    with pytest.raises(InputError, match="draws"):
        Handover(draws=0)
