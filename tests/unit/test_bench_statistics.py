"""Scores, areas, censored times, tests and tables: against SciPy, against calculations done another way, and on simulated
campaigns whose answer is known."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from hyperleaf.bench.statistics import (
    Reach,
    bootstrap_ratio,
    censored_quantile,
    holm,
    log_rmse_area,
    paired_wilcoxon,
    queries_to_reach,
    scores,
    smallest_p,
)
from hyperleaf.bench.summaries import (
    COLUMNS,
    check,
    compare,
    quartiles,
    rankings,
    reach_table,
    runs,
    significance,
    to_markdown,
    write_tables,
)
from hyperleaf.errors import DataError, InputError
from hyperleaf.mixture import Mixture

# --- scores of a prediction


def test_scores_of_a_gaussian_are_those_of_the_formulas():
    rng = np.random.default_rng(0)
    mean, std, y = rng.normal(size=50), rng.uniform(0.5, 2, 50), rng.normal(size=50)
    result = scores(Mixture(np.ones(1), mean[None], std[None] ** 2), y)
    z = (y - mean) / std
    assert result.rmse == pytest.approx(np.linalg.norm(mean - y) / np.sqrt(50))
    assert result.nlpd == pytest.approx(-stats.norm.logpdf(y, mean, std).mean())
    crps = std * (z * (2 * stats.norm.cdf(z) - 1) + 2 * stats.norm.pdf(z) - 1 / np.sqrt(np.pi))
    assert result.crps == pytest.approx(crps.mean())
    assert result.coverage == pytest.approx(np.mean(np.abs(z) <= stats.norm.ppf(0.95)))


def test_a_calibrated_mixture_has_its_coverage_and_noise_is_asked_for():
    rng, m = np.random.default_rng(1), 1000
    means = np.stack([np.zeros(m), np.ones(m)])
    latent = Mixture(np.array([0.3, 0.7]), means, np.full((2, m), 0.25), np.full(2, 1.0))
    f = means[(rng.uniform(size=m) > 0.3).astype(int), 0] + 0.5 * rng.normal(size=m)
    error = np.sqrt(0.9 * 0.1 / m)
    assert abs(scores(latent, f).coverage - 0.9) < 4 * error
    assert abs(scores(latent.noisy(), f + rng.normal(size=m)).coverage - 0.9) < 4 * error
    assert scores(latent, f + rng.normal(size=m)).coverage < 0.75
    assert abs(scores(latent, f, probability=0.5).coverage - 0.5) < 4 * np.sqrt(0.25 / m)


@pytest.mark.parametrize("y", [[0.0], [0.0, np.nan], [[0.0, 0.0]]])
def test_scores_want_one_finite_y_per_candidate(y):
    with pytest.raises(DataError, match="one for each of the 2"):
        scores(Mixture(np.ones(1), np.zeros((1, 2)), np.ones((1, 2))), y)


# --- areas and censored times


def test_area_of_curves_with_a_known_integral():
    n = np.array([5, 6, 10, 30, 65])
    assert log_rmse_area(n, np.exp(-0.1 * n)) == pytest.approx(-0.1 * (5 + 65) / 2)  # ln is linear: trapezoids are exact
    assert log_rmse_area(n, np.full(5, 0.2)) == pytest.approx(np.log(0.2))
    assert log_rmse_area([0, 1, 3], [1, np.e, 1]) == pytest.approx((0.5 + 1.0) / 3)  # by hand


@pytest.mark.parametrize(
    ("n", "rmse"), [([1], [1]), ([1, 2], [1, 0]), ([1, 2], [1, np.nan]), ([2, 1], [1, 1]), ([1, 1], [1, 1]), ([1, 2], [1])]
)
def test_area_refuses_what_has_none(n, rmse):
    with pytest.raises(DataError):
        log_rmse_area(n, rmse)


def test_queries_to_reach_in_all_cases():
    n, rmse = [5, 6, 7, 8, 9], [1.0, 0.4, 0.6, 0.5, np.nan]
    assert queries_to_reach(n, rmse, 2.0) == (0, True)  # from the start
    assert queries_to_reach(n, rmse, 0.5) == (1, True)  # the first time
    assert queries_to_reach(n, rmse, 0.4) == (1, True)  # met exactly
    assert queries_to_reach(n, rmse, 0.1) == (4, False)  # censored at the end
    assert queries_to_reach(n[:4], rmse[:4], 0.5, lasting=True) == (3, True)
    assert queries_to_reach(n, rmse, 0.5, lasting=True) == (4, False)  # what failed in the end did not last
    assert queries_to_reach(n[:4], rmse[:4], 0.45, lasting=True) == (3, False)
    with pytest.raises(InputError, match="target"):
        queries_to_reach(n, rmse, 0.0)


def test_censored_quantiles_by_hand():
    met, not_met = lambda t: Reach(t, True), lambda t: Reach(t, False)
    assert censored_quantile([met(3), met(1), met(2)]) == 2
    assert censored_quantile([met(3), not_met(60), not_met(60)]) == np.inf
    assert censored_quantile([met(3), met(9), not_met(60)]) == 9
    # Kaplan–Meier: S(1) = 3/4; the run lost at 2 leaves two at risk; S(3) = 3/8
    lost = [met(1), not_met(2), met(3), not_met(4)]
    assert censored_quantile(lost) == 3 and censored_quantile(lost, 0.25) == 1 and censored_quantile(lost, 0.7) == np.inf
    with pytest.raises(InputError):
        censored_quantile([])


def test_censored_quantiles_agree_with_scipy():
    rng = np.random.default_rng(0)
    for _ in range(50):
        times, ends = rng.integers(1, 20, 15).astype(float), rng.integers(5, 25, 15).astype(float)
        reaches = [Reach(min(t, c), bool(t <= c)) for t, c in zip(times, ends, strict=True)]
        data = stats.CensoredData(
            uncensored=[r.queries for r in reaches if r.reached], right=[r.queries for r in reaches if not r.reached]
        )
        curve = stats.ecdf(data).cdf
        for q in (0.25, 0.5, 0.75):
            reached = curve.quantiles[curve.probabilities >= q - 1e-12]
            assert censored_quantile(reaches, q) == (reached[0] if len(reached) else np.inf)


# --- tests and intervals


def enumerated_p(difference, alternative):
    """The signed-rank p-value by writing out all 2^n signs."""
    ranks = stats.rankdata(np.abs(difference))
    observed = ranks[difference > 0].sum()
    every = np.array([ranks @ signs for signs in product((0, 1), repeat=len(ranks))])
    less, greater = np.mean(every <= observed + 1e-9), np.mean(every >= observed - 1e-9)
    return {"less": less, "greater": greater, "two-sided": min(1.0, 2 * min(less, greater))}[alternative]


@pytest.mark.parametrize("alternative", ["two-sided", "less", "greater"])
@pytest.mark.parametrize("ties", [False, True])
def test_wilcoxon_equals_the_enumeration_of_all_signs(alternative, ties):
    rng = np.random.default_rng(3)
    for n in (1, 2, 5, 9):
        difference = rng.normal(0.5, 1, n)
        if ties:
            difference = np.round(2 * difference) / 2 + 0.25 * (rng.uniform(size=n) < 0.5)
        kept = difference[difference != 0]
        expected = enumerated_p(kept, alternative) if len(kept) else 1.0
        assert paired_wilcoxon(difference, np.zeros(n), alternative) == pytest.approx(expected)


def test_wilcoxon_of_a_textbook_example():
    # Darwin's plants: 15 pairs of crossed and self-fertilised heights in eighths of an inch; W⁺ = 96 of 120
    difference = np.array([49, -67, 8, 16, 6, 23, 28, 41, 14, 29, 56, 24, 75, 60, -48])
    assert paired_wilcoxon(difference, np.zeros(15)) == pytest.approx(0.0413, abs=5e-5)
    assert paired_wilcoxon(difference, np.zeros(15)) == pytest.approx(stats.wilcoxon(difference).pvalue)


def test_wilcoxon_of_equal_samples_is_one_and_many_pairs_use_the_normal_law():
    assert paired_wilcoxon([1.0, 2.0], [1.0, 2.0]) == 1.0
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=60), rng.normal(0.2, 1, 60)
    assert paired_wilcoxon(a, b) == pytest.approx(stats.wilcoxon(a, b, method="exact").pvalue, rel=0.03)
    with pytest.raises(DataError, match="NaN"):
        paired_wilcoxon([1.0, np.nan], [1.0, 2.0])


@pytest.mark.parametrize(("n", "step"), [(6, 0.0), (15, 0.0), (15, 0.5), (60, 0.0)])
def test_wilcoxon_keeps_its_size_under_the_null(n, step):
    rng, repeats = np.random.default_rng(n), 600
    draws = rng.standard_t(3, size=(repeats, n))
    draws = np.round(draws / step) * step if step else draws  # with ties and zeros
    p = np.array([paired_wilcoxon(row, np.zeros(n)) for row in draws])
    for level in (0.05, 0.2):
        assert np.mean(p <= level) < level + 4 * np.sqrt(level * (1 - level) / repeats)
    if n == 60:  # and is almost uniform where it is almost continuous
        assert stats.kstest(p, "uniform").pvalue > 1e-3


def test_the_smallest_p_is_reached_by_samples_that_all_point_one_way():
    for n, alternative in product((1, 5, 7), ("two-sided", "less")):
        difference = -np.arange(1.0, n + 1)
        assert paired_wilcoxon(difference, np.zeros(n), alternative) == pytest.approx(smallest_p(n, alternative))
    assert smallest_p(5) > 0.05  # five seeds cannot be significant, two-sided


def test_holm_on_a_worked_example():
    np.testing.assert_allclose(holm([0.01, 0.04, 0.03, 0.005]), [0.03, 0.06, 0.06, 0.02])
    np.testing.assert_allclose(holm([0.5, 0.6]), [1.0, 1.0])
    np.testing.assert_allclose(holm([0.02, np.nan, 0.04]), [0.04, np.nan, 0.04])
    assert holm([]).shape == (0,)
    with pytest.raises(InputError, match=r"\[0, 1\]"):
        holm([1.2])


def test_holm_keeps_the_family_wise_error():
    rng, repeats = np.random.default_rng(0), 4000
    p = rng.uniform(size=(repeats, 6))
    p[:, :2] = 1e-6  # two are truly different and must not spoil it
    false = np.mean([(holm(row)[2:] <= 0.05).any() for row in p])
    error = np.sqrt(0.05 * 0.95 / repeats)
    assert 0.05 - 5 * error < false < 0.05 + 4 * error  # at most 5 %, and not much less: 1 − (1 − 0.05/4)^4 = 4.9 %


def test_bootstrap_ratio_of_known_samples():
    a = np.array([2.0, 8.0, 4.0])
    result = bootstrap_ratio(a, np.ones(3))
    assert result.ratio == pytest.approx(4) and 2 - 1e-12 <= result.low < 4 < result.high <= 8 + 1e-12
    assert bootstrap_ratio([1.0, 3.0, 100.0], [2.0, 2.0, 2.0], statistic="median").ratio == pytest.approx(1.5)
    np.testing.assert_allclose(bootstrap_ratio(3 * a, a), [3, 3, 3])  # pairs: a constant ratio is sure
    np.testing.assert_allclose(bootstrap_ratio(3 * a, a, statistic="median"), [3, 3, 3])
    a = np.random.default_rng(0).uniform(1, 2, 20)
    assert bootstrap_ratio(a, a**2, seed=1) == bootstrap_ratio(a, a**2, seed=1) != bootstrap_ratio(a, a**2, seed=2)
    assert np.isnan(bootstrap_ratio([1.0], [2.0]).low) and bootstrap_ratio([1.0], [2.0]).ratio == 0.5


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        ({"a": [0.0, 1.0]}, DataError),
        ({"a": []}, DataError),
        ({"statistic": "mean"}, InputError),
        ({"probability": 1}, InputError),
    ],
)
def test_bootstrap_refuses_what_has_no_ratio(change, kind):
    arguments = {"a": [1.0, 2.0], "b": [1.0, 1.0]} | change
    with pytest.raises(kind):
        bootstrap_ratio(arguments.pop("a"), arguments.pop("b")[: len(change.get("a", [1, 1]))], **arguments)


@pytest.mark.parametrize(("statistic", "n"), [("geometric", 6), ("geometric", 20), ("median", 20)])
def test_bootstrap_intervals_cover_the_true_ratio(statistic, n):
    rng, repeats, truth = np.random.default_rng(n), 500, 1.3
    inside = 0
    for repeat in range(repeats):
        level = rng.normal(0, 1, n)  # what pairs share
        a = truth * np.exp(level + 0.3 * rng.normal(size=n))
        b = np.exp(level + 0.3 * rng.normal(size=n))
        result = bootstrap_ratio(a, b, statistic=statistic, num_resamples=2000, seed=repeat)
        inside += result.low <= truth <= result.high
    error = np.sqrt(0.95 * 0.05 / repeats)
    assert inside / repeats > 0.95 - 4 * error
    if statistic == "geometric":
        assert inside / repeats < 0.95 + 4 * error


def test_bootstrap_agrees_with_the_t_interval_of_log_ratios():
    log_ratio = np.random.default_rng(5).normal(0.2, 0.5, 30)
    result = bootstrap_ratio(np.exp(log_ratio), np.ones(30), num_resamples=40_000)
    low, high = np.exp(stats.t.interval(0.95, 29, log_ratio.mean(), stats.sem(log_ratio)))
    assert result.ratio == pytest.approx(stats.gmean(np.exp(log_ratio)))
    np.testing.assert_allclose([result.low, result.high], [low, high], rtol=0.03)


# --- tables


def campaign(factors, *, num_seeds=10, tasks=("one", "two"), spread=0.05, seed=0):
    """Results whose RMSE is factor·exp(−n/30) up to noise: by construction the ratio of two methods is that of their factors."""
    rng = np.random.default_rng(seed)
    rows = []
    for task, run in product(tasks, range(num_seeds)):
        world = np.exp(rng.normal(0, 1))  # shared by the methods: only pairs see through it
        for method, factor in factors.items():
            luck = np.exp(spread * rng.normal())
            for n in range(5, 26):
                rmse = world * factor * luck * np.exp(-n / 30)
                rows.append((method, task, run, n, rmse, np.log(rmse), rmse / 2, 0.9, 2.0 * factor))
    return pd.DataFrame(rows, columns=COLUMNS).sample(frac=1, random_state=0)  # order must not matter


def test_check_sorts_and_refuses():
    frame = campaign({"a": 1.0}, num_seeds=2)
    assert check(frame)["n"].iloc[:3].tolist() == [5, 6, 7]
    with pytest.raises(DataError, match=r"\['rmse'\] missing"):
        check(frame.drop(columns="rmse"))
    with pytest.raises(DataError, match="twice"):
        check(pd.concat([frame, frame.iloc[:1]]))
    with pytest.raises(DataError, match="some are missing"):
        check(frame.assign(seed=np.nan))


def test_runs_have_areas_over_the_same_range_only():
    frame = check(campaign({"a": 1.0, "b": 2.0}, num_seeds=3, tasks=("one",)))
    half = (frame["method"] == "a") & (frame["seed"] == 1) & (frame["n"] > 12)
    failed = (frame["method"] == "b") & (frame["seed"] == 2) & (frame["n"] == 9)
    table = runs(frame[~half].assign(rmse=lambda f: f["rmse"].where(~failed))).set_index(["method", "seed"])
    assert table["complete"].tolist() == [True, False, True, True, True, False]
    assert table["area"].notna().tolist() == table["complete"].tolist()
    one = frame[(frame["method"] == "a") & (frame["seed"] == 0)]
    assert table.loc[("a", 0), "area"] == pytest.approx(log_rmse_area(one["n"], one["rmse"]))
    assert table.loc[("a", 0), "rmse"] == one["rmse"].iloc[-1] and table.loc[("b", 0), "seconds"] == 4.0


def test_quartiles_are_numpys():
    frame = campaign({"a": 1.0, "b": 2.0}, num_seeds=7)
    table = quartiles(frame).set_index(["task", "method", "n"])
    values = frame.query("task == 'two' and method == 'b' and n == 11")["rmse"]
    found = table.loc[("two", "b", 11), ["low", "median", "high"]].astype(float)
    np.testing.assert_allclose(found, np.quantile(values, [0.25, 0.5, 0.75]))
    assert (table["num_seeds"] == 7).all() and len(table) == 2 * 2 * 21
    assert quartiles(frame, "nlpd")["median"].lt(quartiles(frame)["median"]).all()  # ln r < r


def test_compare_finds_the_ratios_that_were_put_in():
    factors = {"best": 1.0, "same": 1.0, "worse": 1.1, "bad": 2.0}
    table = compare(campaign(factors, num_seeds=12), "best", alternative="greater").set_index(["task", "method"])
    assert len(table) == 2 * 3 and (table["num_pairs"] == 12).all() and (table["left_out"] == 0).all()
    for task, (method, factor) in product(("one", "two"), list(factors.items())[1:]):
        row = table.loc[(task, method)]
        error = 0.05 * np.sqrt(2 / 12)
        assert abs(np.log(row["ratio"] / factor)) < 4 * error
        assert row["low"] < row["ratio"] < row["high"]
        assert np.log(row["high"] / row["low"]) < 10 * error
    assert table.loc[("one", "bad"), "wins"] == 1 and table.loc[("one", "bad"), "p"] == pytest.approx(0.5**12)
    assert table.loc[("one", "bad"), "p_holm"] == pytest.approx(3 * 0.5**12)
    assert (table.xs("same", level=1)["p_holm"] > 0.05).all() and (table["smallest_p"] == 0.5**12).all()


def test_compare_leaves_out_pairs_that_are_not_complete_and_adjusts_over_the_family_asked_for():
    frame = campaign({"a": 1.0, "b": 1.5, "c": 1.6}, num_seeds=6)
    cut = frame[~((frame["method"] == "b") & (frame["seed"] == 2) & (frame["n"] > 20) & (frame["task"] == "one"))]
    table = compare(cut, "a").set_index(["task", "method"])
    assert table.loc[("one", "b"), ["num_pairs", "left_out"]].tolist() == [5, 1]
    assert table.loc[("one", "c"), ["num_pairs", "left_out"]].tolist() == [6, 0]
    per_task, over_all = compare(frame, "a"), compare(frame, "a", family="all")
    np.testing.assert_allclose(per_task["p_holm"], 2 * 2 / 64)
    np.testing.assert_allclose(over_all["p_holm"], 4 * 2 / 64)
    with pytest.raises(InputError, match=r"\['a', 'b', 'c'\]"):
        compare(frame, "d")


def test_compare_with_nothing_to_pair_says_so_with_empty_cells():
    frame = campaign({"a": 1.0, "b": 1.5}, num_seeds=4, tasks=("one",))
    apart = frame[(frame["method"] == "a") == (frame["seed"] < 2)]
    row = compare(apart, "a").iloc[0]
    assert (row["num_pairs"], row["left_out"]) == (0, 4) and np.isnan(row["p_holm"]) and np.isnan(row["ratio"])


def test_comparisons_of_equal_methods_are_rarely_significant():
    frame = campaign({"a": 1.0, "b": 1.0, "c": 1.0}, num_seeds=8, tasks=tuple(f"t{i}" for i in range(40)), spread=0.3)
    table = compare(frame, "a")
    false = table.groupby("task")["p_holm"].min().le(0.05).mean()
    assert false < 0.05 + 4 * np.sqrt(0.05 * 0.95 / 40)
    inside = ((table["low"] <= 1) & (table["high"] >= 1)).mean()
    assert inside > 0.95 - 4 * np.sqrt(0.05 * 0.95 / 40)  # of 40 independent tasks


def test_rankings_put_the_best_first_and_rank_by_pairs():
    table = rankings(campaign({"bad": 2.0, "best": 1.0, "middle": 1.4}, num_seeds=9))
    assert table["method"].tolist() == ["best", "middle", "bad"] * 2 and table["rank"].tolist() == [1, 2, 3] * 2
    assert (table["num_seeds"] == 9).all() and table["seconds"].tolist() == pytest.approx([2.0, 2.8, 4.0] * 2)
    assert (table["rmse"] < table["mean_rmse"]).all()  # curves fall
    assert rankings(campaign({"a": 1.0}).assign(rmse=np.nan)).empty


def test_significance_marks_the_rival_that_is_worse_at_each_n():
    table = significance(campaign({"ours": 1.0, "same": 1.0, "bad": 1.5}, num_seeds=10), "ours")
    marks = table.groupby("method")["significant"].mean()
    assert marks["bad"] == 1 and marks["same"] == 0 and len(table) == 2 * 2 * 21
    one = table[(table["method"] == "bad") & (table["n"] == 7) & (table["task"] == "one")].iloc[0]
    assert one["p"] == pytest.approx(0.5**10) and one["p_holm"] == pytest.approx(2 * 0.5**10)
    assert not significance(campaign({"ours": 1.0, "bad": 1.5}), "bad")["significant"].any()  # one-sided
    with pytest.raises(InputError, match="one of"):
        significance(campaign({"ours": 1.0}), "other")


def test_reach_table_counts_queries_from_the_first_point():
    rows = [("a", "one", s, n, 1.0 / (n - 4) if s else 1.0, 0, 0, 0, 0) for s in range(4) for n in range(5, 15)]
    frame = pd.DataFrame(rows, columns=COLUMNS)
    row = reach_table(frame, 0.25).iloc[0]  # 1/(n − 4) ≤ ¼ at n = 8; seed 0 never
    assert row["num_seeds"] == 4 and row["reached"] == 0.75 and row["median"] == 3 and row["high"] == 3
    assert reach_table(frame, {"one": 0.01}).iloc[0]["low"] == np.inf
    assert reach_table(frame, {"two": 0.1}).empty


def test_markdown_is_rounded_aligned_and_escaped():
    table = pd.DataFrame({"method": ["a|b", "c"], "p": [0.012345, np.nan], "seeds": [3, 12], "good": [True, False]})
    assert to_markdown(table) == (
        "| method | p | seeds | good |\n| --- | ---: | ---: | --- |\n| a\\|b | 0.0123 | 3 | True |\n| c |  | 12 | False |\n"
    )


def test_written_tables_read_back_exactly(tmp_path):
    table = compare(campaign({"a": 1.0, "b": 1.3}), "a")
    files = write_tables(tmp_path / "out", {"areas": table})
    assert [file.name for file in files] == ["areas.csv", "areas.md"]
    pd.testing.assert_frame_equal(pd.read_csv(files[0]), table, check_dtype=False, rtol=1e-14)
    assert files[1].read_text(encoding="utf-8") == to_markdown(table)
