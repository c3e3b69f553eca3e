"""Linear algebra against NumPy and SciPy: inverses by blocks, the log density and its gradient, jitter, growing factors."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import multivariate_normal

from hyperleaf import linalg
from hyperleaf.errors import InferenceError
from hyperleaf.precision import float64

density = float64(jax.jit(linalg.gaussian_log_density))
density_and_gradient = float64(jax.jit(jax.value_and_grad(linalg.gaussian_log_density, argnums=(0, 1, 2))))
jittered = float64(jax.jit(linalg.cholesky_with_jitter))


def covariance(n, seed=0, noise=0.05):
    """A well-conditioned covariance matrix of n points on a line, and observations of it."""
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(0, 1, n))
    k = 1.3 * np.exp(-0.5 * ((x[:, None] - x) / 0.3) ** 2) + noise * np.eye(n)
    return k, rng.normal(size=n)


def with_eigenvalues(values, seed=0):
    q, _ = np.linalg.qr(np.random.default_rng(seed).normal(size=(len(values), len(values))))
    k = (q * np.asarray(values)) @ q.T
    return 0.5 * (k + k.T)


def padded(k, y, size):
    """blockdiag(K, I) and (y, 0), written out here on purpose."""
    n = len(y)
    k_pad, y_pad = np.eye(size), np.zeros(size)
    k_pad[:n, :n], y_pad[:n] = k, y
    return k_pad, y_pad


def reference_density(k, y):
    _, logdet = np.linalg.slogdet(k)
    return -0.5 * y @ np.linalg.solve(k, y) - 0.5 * logdet - 0.5 * len(y) * np.log(2 * np.pi)


def test_padded_sizes_hold_their_points_and_waste_little() -> None:
    sizes = [linalg.padded_size(n) for n in range(1, 9000)]
    assert all(size >= n for n, size in enumerate(sizes, start=1))
    assert sizes == sorted(sizes)
    assert all(size < 2 * n for n, size in enumerate(sizes, start=1) if n > 24)
    assert [linalg.padded_size(n) for n in (1, 24, 25, 48, 49, 4096, 4097)] == [24, 24, 48, 48, 72, 4096, 5120]
    assert all(linalg.padded_size(size) == size for size in sizes)


@pytest.mark.parametrize("n", [1, 2, 7, 32, 33, 65, 97, 300])
def test_inverses_by_blocks_equal_numpy(n: int) -> None:
    rng = np.random.default_rng(n)
    factor = np.tril(rng.normal(size=(n, n))) / np.sqrt(n) + np.diag(rng.uniform(1, 2, n))
    dirty = factor + np.triu(rng.normal(size=(n, n)), 1)  # what stands above the diagonal must not be read

    @float64
    @jax.jit
    def both(matrix):
        inverse = linalg.triangular_inverse(matrix)
        return inverse, linalg.lower_inverse(inverse)

    inverse, lower = map(np.asarray, both(dirty))
    expected = np.linalg.inv(factor)
    assert inverse.dtype == np.float64
    np.testing.assert_allclose(inverse, expected, atol=1e-11)
    np.testing.assert_array_equal(inverse, np.tril(inverse))
    np.testing.assert_allclose(np.tril(lower), np.tril(expected.T @ expected), atol=1e-11)


@float64
def test_cholesky_reads_the_lower_triangle_only() -> None:
    k, _ = covariance(9)
    dirty = np.where(np.triu(np.ones_like(k), 1) > 0, np.nan, k)
    cholesky = jax.jit(linalg.cholesky)
    np.testing.assert_allclose(cholesky(dirty), np.linalg.cholesky(k), atol=1e-14)
    assert np.isnan(cholesky(-k)).any()


@pytest.mark.parametrize("n", [1, 7, 40])
def test_density_equals_scipy(n: int) -> None:
    k, y = covariance(n)
    expected = multivariate_normal(np.zeros(n), k).logpdf(y)
    assert float(density(np.tril(k), y, float(n))) == pytest.approx(expected, rel=1e-11)
    dirty = k + np.triu(np.full((n, n), np.nan), 1)
    dirty[np.tril_indices(n)] = k[np.tril_indices(n)]
    assert float(density(dirty, y, float(n))) == pytest.approx(expected, rel=1e-11)


def test_density_gradient_equals_finite_differences_entry_by_entry() -> None:
    n, h = 6, 1e-6
    k, y = covariance(n, seed=3, noise=0.3)
    _, (to_k, to_y, to_count) = density_and_gradient(np.tril(k), y, float(n))
    expected_k, expected_y = np.zeros((n, n)), np.zeros(n)
    for i in range(n):
        e = h * np.eye(n)[i]
        expected_y[i] = (reference_density(k, y + e) - reference_density(k, y - e)) / (2 * h)
        for j in range(i + 1):
            step = np.zeros((n, n))
            step[i, j] = step[j, i] = h  # an entry of the lower triangle stands for both of K's
            expected_k[i, j] = (reference_density(k + step, y) - reference_density(k - step, y)) / (2 * h)
    np.testing.assert_allclose(to_k, expected_k, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(to_y, expected_y, rtol=1e-6, atol=1e-7)
    assert float(to_count) == 0.0


def test_density_gradient_at_many_points_and_under_a_cotangent() -> None:
    """n = 40 goes through the recursion of the inverses; the chain rule multiplies by what comes in."""
    n, h = 40, 1e-6
    k, y = covariance(n, seed=5, noise=0.5)
    rng = np.random.default_rng(1)
    direction = rng.normal(size=(n, n))
    direction = direction + direction.T

    @float64
    @jax.jit
    def gradient(lower, y, count):
        return jax.grad(lambda a: jnp.sin(3.0 * linalg.gaussian_log_density(a, y, count)))(lower)

    lower_gradient = np.asarray(gradient(np.tril(k), y, float(n)))
    np.testing.assert_array_equal(lower_gradient, np.tril(lower_gradient))
    slope = (reference_density(k + h * direction, y) - reference_density(k - h * direction, y)) / (2 * h)
    expected = 3.0 * np.cos(3.0 * reference_density(k, y)) * slope
    assert np.sum(lower_gradient * direction) == pytest.approx(expected, rel=1e-6)


def test_padding_changes_neither_value_nor_gradient() -> None:
    n = 11
    k, y = covariance(n, seed=2)
    value, (to_k, to_y, _) = density_and_gradient(np.tril(k), y, float(n))
    for size in (16, 48):
        k_pad, y_pad = padded(k, y, size)
        value_pad, (to_k_pad, to_y_pad, _) = density_and_gradient(np.tril(k_pad), y_pad, float(n))
        assert abs(float(value) - float(value_pad)) < 1e-10
        np.testing.assert_allclose(np.asarray(to_k_pad)[:n, :n], to_k, rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(np.asarray(to_y_pad)[:n], to_y, rtol=1e-10, atol=1e-10)
        assert np.abs(np.asarray(to_k_pad)[n:, :n]).max() == 0.0
        assert np.abs(np.asarray(to_y_pad)[n:]).max() == 0.0


def test_an_indefinite_matrix_has_no_density_and_no_gradient() -> None:
    k = with_eigenvalues([2.0, 1.0, 0.5, -0.1])
    for matrix in (k, np.full((4, 4), np.nan)):
        value, gradients = density_and_gradient(np.tril(matrix), np.ones(4), 4.0)
        assert float(value) == -np.inf
        for gradient in gradients:
            np.testing.assert_array_equal(gradient, np.zeros_like(gradient))


def test_jitter_is_zero_where_none_is_needed() -> None:
    k, _ = covariance(8)
    factor, jitter = jittered(np.tril(k), 1.3)
    assert float(jitter) == 0.0
    np.testing.assert_allclose(factor, np.linalg.cholesky(k), atol=1e-13)


@pytest.mark.parametrize("scale", [1.0, 4.0, 0.03])
@pytest.mark.parametrize(("negative", "expected"), [(0.0, 1e-10), (3e-9, 1e-8), (5e-8, 1e-7), (4e-5, 1e-4)])
def test_jitter_escalates_to_the_smallest_that_helps_and_is_reported(scale: float, negative: float, expected: float) -> None:
    # In a diagonal matrix the smallest eigenvalue is met without rounding, also when it is exactly zero.
    k = scale * np.diag([3.0, 2.0, 1.0, -negative])
    factor, jitter = map(np.asarray, jittered(k, scale))
    assert float(jitter) == pytest.approx(expected * scale, rel=1e-12)
    np.testing.assert_allclose(factor @ factor.T, k + float(jitter) * np.eye(4), atol=1e-13 * scale)


def test_jitter_of_a_full_singular_matrix() -> None:
    factor, jitter = map(np.asarray, jittered(np.tril(np.ones((8, 8))), 1.0))
    assert 1e-10 * (1 - 1e-12) <= float(jitter) <= 1e-9
    np.testing.assert_allclose(factor @ factor.T, np.ones((8, 8)) + float(jitter) * np.eye(8), atol=1e-13)


@pytest.mark.parametrize("scale", [1.0, 4.0, 0.03, 0.7, 1.9, 123.0])
def test_a_hopeless_matrix_gets_nan_and_never_more_than_the_largest_jitter(scale: float) -> None:
    factor, jitter = jittered(scale * np.diag([1.0, 1.0, 1.0, -2e-4]), scale)
    assert np.isnan(factor).any()
    assert float(jitter) == pytest.approx(linalg.MAX_RELATIVE_JITTER * scale, rel=1e-12)


def test_each_matrix_of_a_batch_gets_its_own_jitter() -> None:
    batch = np.stack([np.diag([1.0, 1.0, last]) for last in (1.0, 0.0, -5e-7, -1.0)])
    factors, jitters = float64(jax.jit(jax.vmap(linalg.cholesky_with_jitter)))(batch, np.ones(4))
    np.testing.assert_allclose(jitters[:3], [0.0, 1e-10, 1e-6], rtol=1e-12)
    assert np.isfinite(factors[:3]).all() and np.isnan(factors[3]).any()


def test_appended_rows_equal_a_fresh_cholesky() -> None:
    n, start, size = 12, 5, 16
    k, y = covariance(n, seed=4)
    append = float64(jax.jit(linalg.append_row))
    factor = np.linalg.cholesky(padded(k[:start, :start], y[:start], size)[0])
    for index in range(start, n):
        cross = np.zeros(size)
        cross[:index] = k[index, :index]
        factor, row, conditional = append(factor, np.asarray(index), cross, np.asarray(k[index, index]))
        fresh = np.linalg.cholesky(padded(k[: index + 1, : index + 1], y[: index + 1], size)[0])
        np.testing.assert_allclose(factor, fresh, atol=1e-12)
        np.testing.assert_allclose(row[:index], fresh[index, :index], atol=1e-12)
        np.testing.assert_array_equal(row[index:], np.zeros(size - index))
        expected = k[index, index] - cross[:index] @ np.linalg.solve(k[:index, :index], cross[:index])
        assert float(conditional) == pytest.approx(expected, rel=1e-9)


def test_appending_a_repeated_noise_free_point_keeps_a_finite_factor() -> None:
    k = np.array([[2.0, 2.0], [2.0, 2.0]])
    factor = np.diag([np.sqrt(2.0), 1.0, 1.0])
    append = float64(jax.jit(linalg.append_row))
    grown, _, conditional = map(np.asarray, append(factor, np.asarray(1), np.array([2.0, 0.0, 0.0]), np.asarray(2.0)))
    assert 0 < float(conditional) <= 1e-13
    np.testing.assert_allclose((grown @ grown.T)[:2, :2], k, atol=1e-12)
    # Rounding at its worst: k(x, x) < k(x, y)²/k(y, y).
    below = append(factor, np.asarray(1), np.array([2.0, 0.0, 0.0]), np.asarray(1.9))
    assert 0 < float(below[2]) <= 1e-13 and np.isfinite(below[0]).all()


@float64
def test_growing_the_padding_adds_an_identity_to_every_factor() -> None:
    rng = np.random.default_rng(0)
    factors = np.tril(rng.normal(size=(3, 4, 4)))
    grown = np.asarray(linalg.grow_padding(jnp.asarray(factors), 7))
    expected = np.stack([np.block([[f, np.zeros((4, 3))], [np.zeros((3, 4)), np.eye(3)]]) for f in factors])
    np.testing.assert_array_equal(grown, expected)
    np.testing.assert_array_equal(linalg.grow_padding(jnp.asarray(factors[0]), 4), factors[0])
    with pytest.raises(InferenceError, match=r"size 4 cannot shrink to 3; pad to the same size or a larger one"):
        linalg.grow_padding(jnp.asarray(factors), 3)
