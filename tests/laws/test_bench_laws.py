"""Laws of the statistics of a comparison."""

import numpy as np
from hypothesis import given, strategies as st

from hyperleaf.bench.statistics import (
    Reach,
    bootstrap_ratio,
    censored_quantile,
    holm,
    log_rmse_area,
    paired_wilcoxon,
    queries_to_reach,
)

p_values = st.lists(st.floats(0, 1), min_size=1, max_size=8).map(np.array)
positive = st.floats(1e-3, 1e3)
pairs = st.lists(st.tuples(positive, positive), min_size=2, max_size=10).map(np.array)
curves = st.lists(positive, min_size=2, max_size=12).map(np.array)


@given(p_values, st.randoms(use_true_random=False))
def test_holm_lies_between_p_and_bonferroni_keeps_the_order_and_ignores_the_numbering(p, random):
    adjusted = holm(p)
    assert (adjusted >= p).all() and (adjusted <= np.minimum(1, len(p) * p)).all()
    assert (np.diff(adjusted[np.argsort(p, kind="stable")]) >= 0).all()
    order = np.array(random.sample(range(len(p)), len(p)))
    np.testing.assert_array_equal(holm(p[order]), adjusted[order])


@given(curves, positive)
def test_area_moves_by_the_log_of_a_change_of_unit(rmse, unit):
    n = np.arange(len(rmse)) + 5
    np.testing.assert_allclose(log_rmse_area(n, unit * rmse), log_rmse_area(n, rmse) + np.log(unit), atol=1e-9)
    np.testing.assert_allclose(log_rmse_area(3 * n + 1, rmse), log_rmse_area(n, rmse), atol=1e-12)
    assert np.log(rmse.min()) - 1e-12 <= log_rmse_area(n, rmse) <= np.log(rmse.max()) + 1e-12


@given(curves, positive, positive)
def test_a_harder_target_takes_longer_and_a_lasting_one_too(rmse, one, other):
    n = np.arange(len(rmse)) + 5
    easy, hard = (queries_to_reach(n, rmse, target) for target in (max(one, other), min(one, other)))
    assert easy.queries <= hard.queries and easy.reached >= hard.reached
    lasting = queries_to_reach(n, rmse, one, lasting=True)
    first = queries_to_reach(n, rmse, one)
    assert first.queries <= lasting.queries and first.reached >= lasting.reached
    assert first.reached == bool(rmse.min() <= one)


@given(st.lists(st.integers(0, 20), min_size=1, max_size=12), st.floats(0.05, 0.95))
def test_without_censoring_the_quantile_is_that_of_the_sample(times, q):
    ranked = np.sort(np.array(times, dtype=float))
    share = np.arange(1, len(ranked) + 1) / len(ranked)
    assert censored_quantile([Reach(t, True) for t in times], q) == ranked[(share >= q - 1e-12).argmax()]


@given(pairs)
def test_to_swap_the_samples_swaps_the_sides_of_the_test(sample):
    a, b = sample.T
    assert paired_wilcoxon(a, b, "less") == paired_wilcoxon(b, a, "greater")
    np.testing.assert_allclose(paired_wilcoxon(a, b), paired_wilcoxon(b, a))
    assert 0 < paired_wilcoxon(a, b) <= 1


@given(pairs, positive, st.sampled_from(["geometric", "median"]))
def test_ratios_scale_with_the_first_sample_and_lie_within_the_data(sample, unit, statistic):
    a, b = sample.T
    one, scaled = (bootstrap_ratio(first, b, statistic=statistic, num_resamples=200) for first in (a, unit * a))
    np.testing.assert_allclose(scaled, unit * np.array(one), rtol=1e-9)
    assert one.low <= one.high
    if statistic == "geometric":
        assert (a / b).min() * (1 - 1e-9) <= one.low and one.high <= (a / b).max() * (1 + 1e-9)
        inverse = bootstrap_ratio(b, a, num_resamples=200)
        np.testing.assert_allclose(inverse.ratio, 1 / one.ratio, rtol=1e-9)
