"""Optimisers and `suggest`: against exhaustive evaluation and random points; constraints, repetitions, batches, errors."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hyperleaf.acquisition import ACQUISITIONS, ALC, Acquisition, Belief, Entropy, Variance, as_acquisition
from hyperleaf.data import Dataset, Pool
from hyperleaf.domain import Choice, Domain, Integer, Real
from hyperleaf.errors import DataError, DomainError, InputError, NotFittedYetError
from hyperleaf.optimize import CMAES, OPTIMIZERS, Gradients, LocalSearch, Problem, Shooting, Trials, as_optimizer, choose
from hyperleaf.suggestion import Suggestion, suggest

sys.path.insert(0, str(Path(__file__).parents[1]))
from reference_posterior import ReferencePosterior, TracedPosterior, reference

BOX = Domain(a=Real(-2, 3), b=Real(1, 100, log=True))
RNG = np.random.default_rng(11)
POOL = Pool(np.column_stack([RNG.uniform(-2, 3, 300), np.exp(RNG.uniform(0, np.log(100), 300))]), BOX)


# --- pools


@pytest.mark.parametrize("name", [name for name in ACQUISITIONS if name != "random"])
def test_the_best_of_a_pool_is_that_of_exhaustive_evaluation(name):
    posterior = reference()
    pool = POOL.without(range(0, 300, 3))
    criterion = as_acquisition(name)
    if criterion.uses_joint:
        criterion = replace(criterion, references=criterion.thinned(POOL.unit))
    one_by_one = [criterion.score(posterior, pool.unit[[i]])[0] for i in pool.remaining]
    (suggestion,) = suggest(posterior, pool, name)
    assert suggestion.index == pool.remaining[int(np.argmax(one_by_one))]
    assert suggestion.score == pytest.approx(max(one_by_one), abs=1e-6)
    assert suggestion.point == POOL.points(suggestion.index)[0]


def test_a_small_chance_of_success_never_makes_a_point_worth_more():
    """Also where the known noise of the data exceeds all that is left to learn: entropy has no natural zero."""
    posterior = reference(n=8)
    data = posterior.data
    posterior = replace(posterior, data=Dataset(data.x, data.y, np.full(8, 4.0)))
    chance = np.where(np.arange(300) == 17, 0.02, 0.98)
    lookup = {row.tobytes(): p for row, p in zip(POOL.unit, chance, strict=True)}
    everywhere = suggest(posterior, POOL, n=1)
    (careful,) = suggest(posterior, POOL, feasibility=lambda rows: np.array([lookup[row.tobytes()] for row in rows]))
    assert careful.index != 17 and careful.index == everywhere[0].index
    (banned,) = suggest(posterior, POOL, feasibility=lambda rows: np.where((rows == everywhere[0].unit).all(axis=1), 0.0, 1.0))
    assert banned.index != everywhere[0].index


def test_a_batch_of_one_is_the_single_query_and_the_beginning_of_every_batch():
    posterior = reference()
    single, batch = suggest(posterior, POOL), suggest(posterior, POOL, n=4)
    assert batch[0] == single[0]
    assert len({s.index for s in batch}) == 4
    # the rest of the batch is what would be asked with the first ones pending, in whatever form they are given
    for pending in (batch[:2], [s.index for s in batch[:2]]):
        assert [s.index for s in suggest(posterior, POOL, n=2, pending=pending)] == [s.index for s in batch[2:]]
    in_box = suggest(posterior, BOX, "variance", n=2, optimizer="sobol", pending=[s.point for s in batch[:1]])
    assert in_box[0].score != suggest(posterior, BOX, "variance", optimizer="sobol")[0].score


def information(posterior, unit):
    """E_θ ½ ln|I + K/σ²| of the points, given the data."""
    cov = posterior.joint(unit, unit).cov
    return sum(
        w * 0.5 * np.linalg.slogdet(np.eye(len(unit)) + c / noise)[1]
        for w, c, noise in zip(posterior.weights, cov, posterior.noise, strict=True)
    )


def information_about_draws(posterior, unit, num=20_000):
    """I(y; θ) of observations at the points, by sampling, and its standard error."""
    joint, rng = posterior.joint(unit, unit), np.random.default_rng(0)
    factors = [np.linalg.cholesky(c + v * np.eye(len(unit))) for c, v in zip(joint.cov, posterior.noise, strict=True)]
    theta = rng.choice(len(factors), num, p=posterior.weights)
    y = joint.mean_x[theta] + np.einsum("nij,nj->ni", np.stack(factors)[theta], rng.standard_normal((num, len(unit))))
    logs = np.stack(
        [
            -0.5 * np.sum(np.linalg.solve(factor, (y - mean).T) ** 2, axis=0) - np.log(np.diag(factor)).sum()
            for factor, mean in zip(factors, joint.mean_x, strict=True)
        ]
    )
    gained = logs[theta, np.arange(num)] - np.logaddexp.reduce(logs + np.log(posterior.weights)[:, None], axis=0)
    return gained.mean(), gained.std() / np.sqrt(num)


def batch_and_best(posterior, name, n=4):
    """A batch on a grid, and the n best points without conditioning."""
    grid = np.stack(np.meshgrid(*[np.linspace(0, 1, 16)] * 2), -1).reshape(-1, 2)
    pool = Pool(grid, Domain(a=Real(0, 1), b=Real(0, 1)))
    batch = np.stack([s.unit for s in suggest(posterior, pool, name, n=n)])
    return batch, grid[np.argsort(-as_acquisition(name).score(posterior, grid), kind="stable")[:n]]


@pytest.mark.parametrize("name", ["bald", "qbc"])
def test_a_batch_of_four_tells_more_about_the_draws_than_the_four_best_without_conditioning(name):
    posterior = reference(n=10)  # these two criteria are after θ, not after f
    (ours, error), (naive, _) = (information_about_draws(posterior, unit) for unit in batch_and_best(posterior, name))
    assert ours > naive + 4 * error


@pytest.mark.parametrize("name", ["entropy", "variance", "alc", "epig", "qbc"])
def test_a_batch_of_four_learns_more_than_the_four_best_without_conditioning(name):
    posterior = reference(n=10)
    batch, naive = batch_and_best(posterior, name)
    assert information(posterior, batch) > 1.2 * information(posterior, naive)


def test_pending_points_are_not_asked_again_and_push_the_next_query_away():
    posterior = reference()
    (first,) = suggest(posterior, POOL)
    (second,) = suggest(posterior, POOL, pending=[first])
    assert second.index != first.index
    assert np.linalg.norm(second.unit - first.unit) > 0.1


# --- domains


MIXED = Domain(
    a=Real(0, 10),
    k=Integer(1, 7),
    m=Choice("x", "y", "z"),
    constraints=["a * k <= 30", "m != 'z' or a > 2", "abs(a - 5) > 0.5"],
)


SPACES = {"line": Domain(a=Real(-2, 3)), "box": BOX, "cube": Domain({f"x{i}": Real(0, 1) for i in range(4)}), "mixed": MIXED}


@pytest.mark.parametrize("optimizer", ["local", "cmaes", "gradients"])
@pytest.mark.parametrize("space", SPACES)
def test_every_search_finds_what_ten_thousand_random_points_do_not(optimizer, space):
    domain = SPACES[space]
    points = domain.to_unit(domain.design(10_000, "uniform", 5))
    for seed, criterion in ((1, Entropy()), (0, ALC(np.random.default_rng(0).random((20, domain.num_dims))))):
        posterior = reference(n=12, d=domain.num_dims, kind=TracedPosterior, seed=seed)
        (suggestion,) = suggest(posterior, domain, criterion, optimizer=optimizer)
        assert suggestion.score >= criterion.score(posterior, points).max() - 1e-9
        assert suggestion.score == pytest.approx(criterion.score(posterior, domain.to_unit([suggestion.point]))[0], abs=1e-6)


@pytest.mark.parametrize("kind", [ReferencePosterior, TracedPosterior], ids=["no gradients", "gradients"])
def test_the_default_search_does_so_with_and_without_gradients(kind):
    posterior = reference(n=12, kind=kind)
    (suggestion,) = suggest(posterior, BOX)
    assert suggestion.score >= Entropy().score(posterior, np.random.default_rng(5).random((10_000, 2))).max() - 1e-9


@pytest.mark.parametrize("optimizer", ["random", "sobol", "lhs"])
@pytest.mark.parametrize("space", SPACES)
def test_the_best_shot_is_among_the_best_of_ten_thousand_random_points(optimizer, space):
    domain, posterior = SPACES[space], reference(n=12, d=SPACES[space].num_dims)
    scores = Variance().score(posterior, domain.to_unit(domain.design(10_000, "uniform", 5)))
    (suggestion,) = suggest(posterior, domain, "variance", optimizer=optimizer)
    assert np.mean(scores > suggestion.score) < 0.002  # the best of 4096 random ones fails once in 3600 times


def test_starts_are_the_best_that_are_apart():
    unit = np.array([[0.5, 0.5], [0.55, 0.45], [0.9, 0.5], [0.1, 0.1], [0.5, 0.39]])
    spread = Trials(unit, np.array([5.0, 4.0, 1.0, 2.0, 3.0])).spread(3)
    np.testing.assert_array_equal(spread.scores, [5.0, 3.0, 2.0])
    assert len(Trials(unit[:2], np.array([1.0, 2.0])).spread(3).unit) == 1


@pytest.mark.parametrize("optimizer", [LocalSearch(), CMAES(), Gradients(), Shooting("lhs", 20_000)], ids=str)
@pytest.mark.parametrize("d", [1, 3])
def test_every_optimizer_finds_the_top_of_a_smooth_hill(optimizer, d):
    top = np.linspace(0.3, 0.8, d)

    def gradient(u):
        return -((u - top) ** 2).sum(1), -2 * (u - top)

    domain = Domain({f"x{i}": Real(0, 1) for i in range(d)})
    problem = Problem(domain, lambda u: gradient(u)[0], gradient, seed=1)
    best = optimizer.search(problem).best(1)
    assert best.scores[0] > (-3e-3 if isinstance(optimizer, Shooting) else -1e-5)


def test_optimizers_walk_along_the_border_of_a_constraint():
    domain = Domain(a=Real(0, 1), b=Real(0, 1), constraints=["a + b <= 1"])
    top = np.array([0.9, 0.7])  # infeasible; the best feasible point is (0.6, 0.4)

    def gradient(u):
        return -((u - top) ** 2).sum(1), -2 * (u - top)

    for optimizer in (LocalSearch(), CMAES(), Gradients()):
        best = optimizer.search(Problem(domain, lambda u: gradient(u)[0], gradient)).best(1)
        np.testing.assert_allclose(best.unit[0], [0.6, 0.4], atol=0.02)


def test_no_suggestion_or_trial_violates_a_constraint():
    posterior = reference(d=MIXED.num_dims, kind=TracedPosterior)
    tried, seen = 0, set()
    for name in OPTIMIZERS:
        if name == "exhaustive":
            continue
        scored = []

        def score(u, scored=scored):
            scored.append(u)
            return Variance().score(posterior, u)

        def gradient(u):
            return -((u - 0.7) ** 2).sum(1), -2 * (u - 0.7)

        optimizer = as_optimizer(name, Problem(MIXED, score))
        trials = optimizer.search(Problem(MIXED, score, gradient, seed=2))
        assert MIXED.feasible(MIXED.from_unit(trials.unit)).all()
        every = np.concatenate(scored)
        assert MIXED.feasible_unit(every).all()
        np.testing.assert_array_equal(MIXED.snap(every), every)
        tried += len(every)
        suggestions = suggest(posterior, MIXED, "variance", n=2, optimizer=name)
        assert MIXED.feasible([s.point for s in suggestions]).all()
        seen |= {type(s.point["k"]) for s in suggestions} | {s.point["m"] for s in suggestions}
    assert tried > 10_000
    assert int in seen and seen - {int} <= {"x", "y", "z"}


@pytest.mark.parametrize("kind", ["sobol", "lhs", "uniform"])
def test_no_point_of_ten_thousand_of_a_design_violates_a_constraint(kind):
    points = MIXED.design(10_000, kind)
    assert len(points) == 10_000
    for p in points:  # said again in Python
        assert p["a"] * p["k"] <= 30 and (p["m"] != "z" or p["a"] > 2) and abs(p["a"] - 5) > 0.5


def test_a_small_finite_domain_is_listed():
    domain = Domain(k=Integer(1, 6), m=Choice("x", "y"), constraints=["k != 3"])
    posterior = reference(d=3)
    trials = as_optimizer("auto", Problem(domain, lambda u: u[:, 0])).search(Problem(domain, lambda u: u[:, 0]))
    assert len(trials.unit) == 10
    everything = domain.to_unit([{"k": k, "m": m} for k in (1, 2, 4, 5, 6) for m in "xy"])
    (suggestion,) = suggest(posterior, domain, "variance")
    assert suggestion.score == pytest.approx(Variance().score(posterior, everything).max())


def test_the_same_seed_gives_the_same_suggestions():
    posterior = reference(kind=TracedPosterior)
    for acquisition in ("variance", "random"):
        first, again = (suggest(posterior, BOX, acquisition, n=2, seed=3) for _ in range(2))
        assert first == again
    assert suggest(posterior, BOX, "random", seed=3) != suggest(posterior, BOX, "random", seed=4)


# --- asking again


def replicated(noise):
    """Much is known but for one point of three that is only seen once, with noise."""
    x = np.concatenate([np.zeros((30, 1)), np.full((30, 1), 0.5), np.ones((1, 1))])
    return ReferencePosterior(Dataset(x, np.zeros(61)), np.array([0.05]), np.array([1.0]), np.array([noise]), np.ones(1))


THREE = Domain(k=Integer(1, 3))


def test_a_noisy_point_is_asked_again_where_that_is_worth_it_and_it_says_so():
    (suggestion,) = suggest(replicated(0.1), THREE, "variance")
    assert suggestion.point == {"k": 3}
    assert "repeats a finished point" in suggestion.note
    with pytest.raises(DataError, match="all 3 candidates are finished"):
        suggest(replicated(1e-9), THREE, "variance")


def test_new_points_come_before_repetitions():
    trials = Trials(np.array([[0.1], [0.5], [0.9]]), np.array([3.0, 2.0, 1.0]))
    finished = np.array([[0.1 + 1e-9], [0.9]])
    assert choose(trials, finished, noise=0.0) == (1, "")
    assert choose(trials, finished, noise=0.1, informed=False) == (1, "")
    index, note = choose(trials, finished, noise=0.1)
    assert index == 0 and "scores 1 above" in note
    assert choose(trials, finished[1:], noise=0.1) == (0, "")
    assert choose(Trials(trials.unit, np.array([np.nan, 2.0, 1.0])), finished, noise=0.1) == (1, "")


def test_the_finished_rows_of_a_pool_are_not_asked_again_even_if_it_does_not_know_them():
    posterior = reference(noise=1e-9)
    domain = Domain(a=Real(0, 1), b=Real(0, 1))
    pool = Pool(np.concatenate([posterior.data.x, [[0.5, 0.5]]]), domain)
    for name in ("entropy", "random"):
        assert suggest(posterior, pool, name)[0].index == len(posterior.data.x)


# --- errors


class Unfitted:
    def fit(self, X, y):
        return self


class Fitted:
    posterior_ = reference()
    domain_ = BOX


def test_a_fitted_estimator_brings_its_posterior_and_domain():
    assert suggest(Fitted(), acquisition="variance", optimizer="sobol") == suggest(
        Fitted.posterior_, BOX, "variance", optimizer="sobol"
    )
    assert isinstance(suggest(Fitted(), POOL)[0], Suggestion)


def test_wrong_arguments_meet_clear_errors():
    posterior = reference()
    with pytest.raises(NotFittedYetError, match="Call fit first"):
        suggest(Unfitted(), BOX)
    with pytest.raises(InputError, match="posterior or a fitted estimator"):
        suggest(3, BOX)
    with pytest.raises(InputError, match="Domain or a Pool; got ndarray"):
        suggest(posterior, np.zeros((3, 2)))
    with pytest.raises(InputError, match=r"must be one of .*'entropy'"):
        suggest(posterior, BOX, "entropie?")
    with pytest.raises(InputError, match="optimizer must be one of"):
        suggest(posterior, BOX, optimizer="newton")
    with pytest.raises(InputError, match="these have none"):
        suggest(posterior, BOX, optimizer="gradients")
    with pytest.raises(InputError, match="finite domain"):
        suggest(posterior, BOX, optimizer="exhaustive")
    with pytest.raises(InputError, match="unit columns"):
        suggest(posterior, THREE)
    with pytest.raises(InputError, match="n must be"):
        suggest(posterior, BOX, n=0)
    with pytest.raises(InputError, match="seed must be"):
        suggest(posterior, BOX, seed=-1)
    with pytest.raises(DomainError, match="feasible"):
        suggest(posterior, Domain(a=Real(0, 1), b=Real(0, 1), constraints=["a + b > 3"]))
    with pytest.raises(DataError, match="2 of 300 are left and n is 3"):
        suggest(posterior, POOL.without(range(298)), n=3)
    with pytest.raises(DataError, match="1 of 300 are left"):
        suggest(posterior, POOL.without(range(297)), n=2, pending=[298, 299])
    with pytest.raises(DataError, match="missing"):
        Pool(np.array([[0.0, 2.0], [np.nan, 3.0]]), BOX)
    with pytest.raises(DataError, match="index of a pool"):
        suggest(posterior, POOL, pending=[300])
    with pytest.raises(DomainError):
        suggest(posterior, BOX, pending=[{"a": 99, "b": 2}])


def test_criteria_are_nouns_that_can_be_compared():
    assert as_acquisition("entropy") == Entropy() and isinstance(Entropy(), Acquisition)
    assert Belief.of(Belief.of(reference())).points.shape == (0, 2)
