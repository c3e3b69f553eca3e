"""Laws of beliefs and criteria, for any posterior, candidates and pending points."""

import sys
from pathlib import Path

import numpy as np
from hypothesis import given, strategies as st

from hyperleaf.acquisition import ALC, EPIG, Belief, Variance
from hyperleaf.optimize import Trials, choose, repeats

sys.path.insert(0, str(Path(__file__).parents[1]))
from reference_posterior import reference

seeds = st.integers(0, 10_000)
noises = st.sampled_from([1e-8, 1e-4, 1e-2, 0.5])


def points(seed, m, d):
    return np.random.default_rng(seed).random((m, d))


@given(seed=seeds, d=st.integers(1, 4), s=st.integers(1, 4), noise=noises, p=st.integers(1, 6))
def test_conditioning_never_adds_variance_and_does_not_depend_on_order(seed, d, s, noise, p):
    posterior = reference(n=6, d=d, s=s, noise=noise, seed=seed)
    x, pending = points(seed + 1, 12, d), points(seed + 2, p, d)
    before = posterior.predict(x).variances
    after = Belief.of(posterior).given(pending).predict(x).variances
    assert (after <= before + 1e-9).all()
    reverse = Belief.of(posterior).given(pending[::-1]).predict(x).variances
    np.testing.assert_allclose(reverse, after, rtol=1e-4, atol=1e-6)


@given(seed=seeds, d=st.integers(1, 3), noise=st.sampled_from([1e-4, 1e-2, 0.5]))
def test_an_observation_of_unknown_value_is_worth_what_its_refit_is(seed, d, noise):
    posterior = reference(n=5, d=d, noise=noise, seed=seed)
    x, r, pending = points(seed + 1, 8, d), points(seed + 2, 5, d), points(seed + 3, 2, d)
    after = posterior.with_point(pending, points(seed, 2, 1)[:, 0])
    for criterion in (ALC(r), EPIG(r)):
        scores = criterion.score(posterior, x, pending=pending)
        np.testing.assert_allclose(scores, criterion.score(after, x), rtol=1e-4, atol=1e-7)


@given(seed=seeds, noise=noises)
def test_no_observation_lowers_the_mean_variance_by_more_than_there_is(seed, noise):
    posterior = reference(seed=seed, noise=noise)
    x, r = points(seed + 1, 10, 2), points(seed + 2, 7, 2)
    scores = ALC(r).score(posterior, x)
    assert (scores >= 0).all()
    assert (scores <= posterior.weights @ posterior.predict(r).variances.mean(axis=1) + 1e-9).all()
    assert (EPIG(r).score(posterior, x) >= 0).all()


@given(seed=seeds)
def test_scores_belong_to_candidates_not_to_their_places(seed):
    posterior, x, r = reference(seed=seed), points(seed, 20, 2), points(seed + 1, 5, 2)
    order = np.random.default_rng(seed).permutation(20)
    for criterion in (Variance(), ALC(r), EPIG(r)):
        np.testing.assert_allclose(criterion.score(posterior, x)[order], criterion.score(posterior, x[order]), rtol=1e-9)


@given(seed=seeds, m=st.integers(1, 20), k=st.integers(0, 20), noise=st.sampled_from([0.0, 0.1]))
def test_a_choice_without_note_is_the_best_new_trial(seed, m, k, noise):
    rng = np.random.default_rng(seed)
    unit = rng.integers(0, 4, (m, 2)) / 3
    finished = np.concatenate([rng.integers(0, 4, (k, 2)) / 3, np.zeros((0, 2))])
    trials = Trials(unit, rng.integers(0, 5, m).astype(float))
    again = np.array([bool(len(finished)) and (row == finished).all(axis=1).any() for row in unit])
    np.testing.assert_array_equal(repeats(unit, finished), again)
    if again.all() and noise == 0:
        return
    index, note = choose(trials, finished, noise=noise)
    assert bool(note) == again[index]
    if note:
        assert noise > 0 and (again.all() or trials.scores[index] > trials.scores[~again].max())
    else:
        assert trials.scores[index] == trials.scores[~again].max()
