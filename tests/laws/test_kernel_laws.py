"""What every kernel promises. Each kernel class that hyperleaf.kernels exports joins by itself; a few variants are added by hand.

A kernel is built once; hypothesis draws its numbers and the points, so each kernel compiles its functions once for all examples.
"""

import inspect
from functools import cache, partial
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra.numpy import arrays
from jax.flatten_util import ravel_pytree

from hyperleaf import kernels
from hyperleaf.kernels import RBF, Gates, Kernel, Matern32, Partition, base
from hyperleaf.precision import float64

N, M, D = 5, 3, 2
ABSTRACT = {Kernel, kernels.Stationary}
CLASSES = [c for c in (getattr(kernels, name) for name in kernels.__all__) if inspect.isclass(c) and issubclass(c, Kernel)]
RNG = np.random.default_rng(7)
GATES = Gates(np.array([-0.3, 0.2]), np.array([[1.0, -0.7], [0.4, 0.9]]), np.array([3.0, 5.0]))
STACK = RBF(np.array([[0.3, 0.8], [0.5, 0.2], [1.0, 0.4]]), np.array([0.7, 1.5, 0.9]))
# What a constructor needs that has no default, by name; a new kernel with other needs adds them here.
REQUIRED = {
    "first": RBF(np.array([0.4, 0.9]), 1.3),
    "second": Matern32(0.6, 0.8),
    "offset": -0.2,
    "normal": np.array([1.0, -0.6]),
    "gates": GATES,
    "index": np.array([[0.6, -0.3], [0.2, 0.7], [-0.4, 0.3]]),  # inside the cube, where the warp is smooth
    "leaves": STACK,
}


def example(cls):
    """An instance with every number set: given by name, or random around 0.8 where the constructor has a numeric default."""
    arguments = {}
    for name, parameter in list(inspect.signature(cls).parameters.items()):
        if parameter.default is inspect.Parameter.empty:
            arguments[name] = REQUIRED[name]
        elif isinstance(parameter.default, float):
            arguments[name] = RNG.uniform(0.5, 1.2)
    return cls(**arguments)


@float64
def build():
    found = {cls.__name__: example(cls) for cls in CLASSES if cls not in ABSTRACT}
    tuple_of_leaves = (RBF(0.4), kernels.Periodic(0.7, 1.2, 0.8), kernels.Linear(0.5) + kernels.Constant(0.3))
    return found | {
        "Partition, square roots": Partition(GATES, STACK, (2, (0, 1)), weights="sqrt"),
        "Partition, stacked Matérn": Partition(GATES, Matern32(STACK.lengthscale, STACK.variance)),
        "Partition, different leaves": Partition(GATES, tuple_of_leaves),
    }


KERNELS = build()
every_kernel = pytest.mark.parametrize("name", KERNELS)
GATED = [name for name, k in KERNELS.items() if any(".steepness" in map(str, p) for p, _ in jax.tree.leaves_with_path(k))]


@cache
@float64
def flat(name):
    """The numbers of a kernel as one vector, and the way back; the sign of a number never changes below."""
    vector, unravel = ravel_pytree(jax.tree.map(jnp.asarray, KERNELS[name]))
    return np.asarray(vector), unravel


@cache
def functions(name):
    """Compiled: all matrices of a kernel, and the gradient of a random functional of its lower triangle and diagonal."""
    _, unravel = flat(name)
    rng = np.random.default_rng(0)
    random, random_diagonal = np.tril(rng.normal(size=(N, N))), rng.normal(size=N)

    def matrices(vector, x, y):
        kernel = unravel(vector)
        # Blocks of three rows, so that five points already need two; the size is read while tracing.
        with mock.patch.object(base, "SMALL_GRAM_BLOCK", 3):
            lower = kernel.lower_gram(x)
        return kernel.gram(x), jnp.tril(lower), kernel.gram(x, y), kernel.diagonal(x)

    def functional(vector, x):
        kernel = unravel(vector)
        return jnp.sum(random * kernel.lower_gram(x)) + jnp.sum(random_diagonal * kernel.diagonal(x))

    def single(vector, x, y):
        return unravel(vector).evaluate(x, y)

    evaluate = jax.vmap(jax.vmap(single, (None, None, 0)), (None, 0, None))
    compiled = jax.jit(lambda v, x, y: (matrices(v, x, y), evaluate(v, x, y)))
    return float64(compiled), float64(jax.jit(jax.value_and_grad(functional, argnums=(0, 1))))


def matrices_of(name, vector, x, y):
    (gram, lower, cross, diagonal), single = functions(name)[0](vector, x, y)
    return tuple(map(np.asarray, (gram, lower, cross, diagonal, single)))


# Points on a coarse grid meet often; scales reach from far below to far above those of the unit cube.
coordinate = st.floats(-1.0, 2.0) | st.sampled_from([0.0, 0.25, 0.5, 1.0])
some_points = arrays(np.float64, (N, D), elements=coordinate)
other_points = arrays(np.float64, (M, D), elements=coordinate)
log_scale = st.floats(-2.0, 2.0)


@st.composite
def numbers(draw, name):
    vector, _ = flat(name)
    return vector * np.exp(draw(arrays(np.float64, len(vector), elements=log_scale)))


def test_every_exported_kernel_is_here() -> None:
    assert {cls.__name__ for cls in CLASSES} - {cls.__name__ for cls in ABSTRACT} <= set(KERNELS)
    assert len(KERNELS) >= 15 and len(GATED) >= 5


@every_kernel
@settings(max_examples=15)
@given(data=st.data())
def test_gram_is_symmetric_and_positive_semidefinite(name, data) -> None:
    gram, *_ = matrices_of(name, data.draw(numbers(name)), data.draw(some_points), np.zeros((M, D)))
    assert gram.dtype == np.float64
    scale = np.abs(gram).max()
    np.testing.assert_allclose(gram, gram.T, atol=1e-14 * scale)
    assert np.linalg.eigvalsh(gram).min() >= -1e-13 * scale
    # A point has the largest covariance with itself that its and the other's variance allow.
    variance = np.diagonal(gram)
    assert (gram**2 <= np.outer(variance, variance) * (1 + 1e-12) + 1e-300).all()


@every_kernel
@settings(max_examples=15)
@given(data=st.data())
def test_all_ways_to_evaluate_agree(name, data) -> None:
    vector, x, y = data.draw(numbers(name)), data.draw(some_points), data.draw(other_points)
    gram, lower, cross, diagonal, single = matrices_of(name, vector, x, y)
    close = {"rtol": 1e-12, "atol": 1e-14 * max(np.abs(gram).max(), np.abs(cross).max())}
    np.testing.assert_allclose(diagonal, np.diagonal(gram), **close)
    np.testing.assert_allclose(lower, np.tril(gram), **close)
    np.testing.assert_allclose(single, cross, **close)
    itself = matrices_of(name, vector, x, x[:M])[2]
    np.testing.assert_allclose(itself, gram[:, :M], **close)
    np.testing.assert_allclose(matrices_of(name, vector, np.concatenate([y, x[M:]]), x[:M])[2][:M], cross[:M].T, **close)


@every_kernel
def test_gradients_equal_finite_differences(name) -> None:
    vector, _ = flat(name)
    rng = np.random.default_rng(1)
    arguments = [vector, rng.uniform(size=(N, D))]
    gradient_of = functions(name)[1]
    _, gradients = gradient_of(*arguments)
    h = 1e-5
    for which, gradient in enumerate(gradients):
        expected = np.zeros_like(arguments[which])
        for index in np.ndindex(expected.shape):
            ends = []
            for step in (h, -h):
                moved = [a.copy() for a in arguments]
                moved[which][index] += step
                ends.append(float(gradient_of(*moved)[0]))
            expected[index] = (ends[0] - ends[1]) / (2 * h)
        np.testing.assert_allclose(gradient, expected, rtol=1e-6, atol=1e-6 * max(1.0, np.abs(expected).max()))


def assert_all_finite(name, vector, x, y):
    for matrix in matrices_of(name, vector, x, y):
        assert np.isfinite(matrix).all()
    value, gradients = functions(name)[1](vector, x)
    assert np.isfinite(float(value))
    for gradient in gradients:
        assert np.isfinite(np.asarray(gradient)).all()


@every_kernel
def test_values_and_gradients_are_finite_at_repeated_points(name) -> None:
    vector, _ = flat(name)
    x = np.array([[0.2, 0.7]] * (N - 1) + [[0.2, 0.7 + 1e-160]])
    assert_all_finite(name, vector, x, x[:M])
    gram, _, cross, _, _ = matrices_of(name, vector, x, x[:M])
    np.testing.assert_allclose(gram, gram[0, 0], rtol=1e-14)
    np.testing.assert_allclose(cross, gram[0, 0], rtol=1e-14)


@every_kernel
def test_values_and_gradients_are_finite_far_away_and_at_extreme_scales(name) -> None:
    vector, _ = flat(name)
    rng = np.random.default_rng(2)
    x, y = rng.uniform(size=(N, D)), rng.uniform(size=(M, D))
    for factor in (1e-4, 1e4):
        assert_all_finite(name, factor * vector, x, y)
        assert_all_finite(name, vector, factor * x, factor * y)


@pytest.mark.parametrize("name", GATED)
@pytest.mark.parametrize("steepness", [1e6, 1e-6])
@pytest.mark.parametrize("offset", [0.0, -0.5, 1e3, -1e3, 1e9])
def test_extreme_gates_give_no_nan(name, steepness: float, offset: float) -> None:
    kernel = KERNELS[name]

    def extreme(path, number):
        new = {".steepness": steepness, ".offset": offset}.get(str(path[-1]))
        return np.asarray(number) if new is None else np.full_like(number, new)

    vector = np.asarray(float64(ravel_pytree)(jax.tree_util.tree_map_with_path(extreme, kernel))[0])
    assert (vector == steepness).any()
    rng = np.random.default_rng(3)
    x = rng.uniform(size=(N, D))
    x[0] = 0.0  # with offset 0 this point lies exactly on every hyperplane
    assert_all_finite(name, vector, x, x[:M])


@every_kernel
def test_one_point_is_enough(name) -> None:
    kernel, x = KERNELS[name], np.array([[0.3, 0.6]])

    @float64
    @jax.jit
    @partial(jax.value_and_grad, has_aux=True)
    def at_one(x):
        gram = kernel.lower_gram(x)
        return jnp.sum(gram), (gram, kernel.diagonal(x))

    (_, (gram, diagonal)), gradient = jax.tree.map(np.asarray, at_one(x))
    assert gram.shape == (1, 1) and diagonal.shape == (1,)
    expected = matrices_of(name, flat(name)[0], np.repeat(x, N, 0), np.repeat(x, M, 0))[0][0, 0]
    np.testing.assert_allclose([gram[0, 0], diagonal[0]], expected, rtol=1e-13)
    assert np.isfinite(gradient).all()
