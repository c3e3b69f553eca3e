"""Kernels against their formulas in plain NumPy, the RBF's own gradient rule, and what kernels refuse."""

import inspect
from functools import cache

import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest

from hyperleaf import kernels
from hyperleaf.data import Dataset
from hyperleaf.errors import InputError
from hyperleaf.gp import Target, pad
from hyperleaf.kernels import (
    RBF,
    ChangeHyperplane,
    Constant,
    Gates,
    Kernel,
    Linear,
    Matern12,
    Matern32,
    Matern52,
    Partition,
    Periodic,
    Product,
    RationalQuadratic,
    Sum,
    WarpedMultiIndex,
)
from hyperleaf.kernels.base import positive
from hyperleaf.kernels.stationary import power_of_two, rbf_sum, safe_root, squared_distance
from hyperleaf.parallel import over_draws
from hyperleaf.precision import float64
from hyperleaf.surrogates.gp import stationary_surrogate

ELL = np.array([0.3, 0.9, 2.0])
X = np.random.default_rng(0).uniform(-0.5, 1.5, size=(6, 3))
Y = np.random.default_rng(1).uniform(-0.5, 1.5, size=(4, 3))


def r(x, y, lengthscale=ELL):
    return np.sqrt(np.sum(((x - y) / lengthscale) ** 2))


def sigmoid(t):
    return 1 / (1 + np.exp(-t))


def gate(x, offset=-0.2, normal=(1.0, -0.5, 0.3), steepness=4.0):
    return sigmoid(steepness * (offset + np.dot(normal, x)))


def rbf(x, y):
    return 1.7 * np.exp(-(r(x, y) ** 2) / 2)


def linear(x, y):
    return sum(v * (a - c) * (b - c) for v, c, a, b in zip((0.5, 1.5, 2.5), (0.1, 0.2, 0.3), x, y, strict=True))


def periodic(x, y):
    period = np.array([0.7, 1.1, 0.4])
    return 1.7 * np.exp(-2 * np.sum(np.sin(np.pi * (x - y) / period) ** 2 / ELL**2))


INDEX = np.array([[1.2, -0.4, 0.1], [0.3, 0.8, -0.5]])  # some indices of X leave the unit interval


def warped(x, y, a=(0.6, 2.5), b=(3.0, 0.7), lengthscale=(0.4, 1.1), slope=0.7):
    total = 0.0
    for i, row in enumerate(INDEX):
        psi = []
        for point in (x, y):
            u = row @ (point - 0.5)
            z = np.clip(u + 0.5, 1e-6, 1 - 1e-6)
            psi.append((slope * (u + 0.5) + 1 - (1 - z ** a[i]) ** b[i]) / (1 + slope) - 0.5)
        total += (psi[0] - psi[1]) ** 2 / lengthscale[i] ** 2
    s = np.sqrt(5 * total)
    return 1.7 * (1 + s + s**2 / 3) * np.exp(-s)


LINEAR = Linear([0.5, 1.5, 2.5], [0.1, 0.2, 0.3])
# Each kernel class with its formula, k(x, y) of two points. A new kernel adds its line.
FORMULAS = {
    RBF: (RBF(ELL, 1.7), rbf),
    Matern12: (Matern12(ELL, 1.7), lambda x, y: 1.7 * np.exp(-r(x, y))),
    Matern32: (Matern32(ELL, 1.7), lambda x, y: 1.7 * (1 + np.sqrt(3) * r(x, y)) * np.exp(-np.sqrt(3) * r(x, y))),
    Matern52: (
        Matern52(ELL, 1.7),
        lambda x, y: 1.7 * (1 + np.sqrt(5) * r(x, y) + 5 * r(x, y) ** 2 / 3) * np.exp(-np.sqrt(5) * r(x, y)),
    ),
    RationalQuadratic: (RationalQuadratic(ELL, 1.7, 0.6), lambda x, y: 1.7 * (1 + r(x, y) ** 2 / (2 * 0.6)) ** -0.6),
    Periodic: (Periodic(ELL, 1.7, [0.7, 1.1, 0.4]), periodic),
    Constant: (Constant(2.5), lambda x, y: 2.5),
    Linear: (LINEAR, linear),
    Sum: (RBF(ELL, 1.7) + LINEAR, lambda x, y: rbf(x, y) + linear(x, y)),
    Product: (RBF(ELL, 1.7) * LINEAR, lambda x, y: rbf(x, y) * linear(x, y)),
    ChangeHyperplane: (
        ChangeHyperplane(RBF(ELL, 1.7), LINEAR, -0.2, [1.0, -0.5, 0.3], 4.0),
        lambda x, y: gate(x) * gate(y) * rbf(x, y) + (1 - gate(x)) * (1 - gate(y)) * linear(x, y),
    ),
    Partition: (
        Partition(Gates([-0.2], [[1.0, -0.5, 0.3]], [4.0]), (RBF(ELL, 1.7), LINEAR)),
        lambda x, y: gate(x) * gate(y) * rbf(x, y) + (1 - gate(x)) * (1 - gate(y)) * linear(x, y),
    ),
    WarpedMultiIndex: (WarpedMultiIndex(INDEX, [0.6, 2.5], [3.0, 0.7], [0.4, 1.1], 1.7, 0.7), warped),
}


@pytest.fixture
def unchecked():
    """As users have it: without the run-time check of signatures, which would speak first."""
    before = jaxtyping.config.jaxtyping_disable
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", before)


def test_every_exported_kernel_has_a_formula() -> None:
    exported = {v for v in vars(kernels).values() if inspect.isclass(v) and issubclass(v, Kernel)}
    assert exported - {Kernel, kernels.Stationary} == set(FORMULAS), "add the formula of the new kernel to FORMULAS"


@cache
def all_grams():
    """Compiled together, which is quicker than one by one."""
    compiled = float64(jax.jit(lambda stack, x, y: [kernel.gram(x, y) for kernel in stack]))
    return compiled([kernel for kernel, _ in FORMULAS.values()], X, Y)


@pytest.mark.parametrize("cls", FORMULAS, ids=lambda cls: cls.__name__)
def test_kernel_equals_its_formula(cls) -> None:
    (kernel, formula), gram = FORMULAS[cls], all_grams()[list(FORMULAS).index(cls)]
    assert type(kernel) is cls and gram.dtype == np.float64
    np.testing.assert_allclose(gram, [[formula(x, y) for y in Y] for x in X], rtol=1e-13, atol=1e-14)


def test_calling_computes_in_double_precision_and_leaves_jax_as_it_was() -> None:
    before = jax.config.jax_enable_x64
    gram = RBF(ELL, 1.7)(X.tolist(), Y.tolist())
    assert type(gram) is np.ndarray and gram.dtype == np.float64
    np.testing.assert_allclose(gram, [[rbf(x, y) for y in Y] for x in X], rtol=1e-13)
    assert jnp.ones(1).dtype == (jnp.float64 if before else jnp.float32)


def test_one_lengthscale_serves_all_dimensions() -> None:
    np.testing.assert_array_equal(RBF(0.7)(X), RBF([0.7] * 3)(X))


def test_numbers_scale_kernels() -> None:
    np.testing.assert_allclose((2.5 * RBF(ELL))(X, Y), 2.5 * RBF(ELL)(X, Y), rtol=1e-14)
    np.testing.assert_allclose((RBF(ELL) * 2.5)(X, Y), RBF(ELL, 2.5)(X, Y), rtol=1e-14)


def test_without_a_warp_the_multi_index_kernel_is_a_matern_of_the_indices() -> None:
    inside = np.random.default_rng(4).uniform(size=(6, 3))
    np.testing.assert_allclose(WarpedMultiIndex(np.eye(3), 1.0, 1.0, ELL, 1.7)(inside), Matern52(ELL, 1.7)(inside), rtol=1e-12)
    mixed = WarpedMultiIndex(INDEX / 3, 1.0, 1.0, 0.3, 1.7)
    np.testing.assert_allclose(mixed(inside), Matern52(0.3, 1.7)(inside @ INDEX.T / 3), rtol=1e-12)


def test_a_warp_grows_everywhere_also_outside_the_cube_and_meets_its_ends() -> None:
    for a, b in ((0.2, 5.0), (5.0, 0.2), (3.0, 3.0), (0.1, 0.1)):
        kernel = WarpedMultiIndex(np.eye(1), a, b)
        line = np.linspace(-1.0, 2.0, 601)[:, None]
        psi = kernel.coordinates(line)[:, 0]
        assert (np.diff(psi) > 0).all()
        # ψ(∓½) = ∓½, but for what the CDF has left beyond its clipped ends.
        left, right = 0.5 * (1 - (1 - 1e-6**a) ** b), 0.5 * (1 - (1 - 1e-6) ** a) ** b
        np.testing.assert_allclose([psi[200] + 0.5, 0.5 - psi[400]], [left, right], atol=1e-12)


def test_rational_quadratic_tends_to_the_rbf() -> None:
    np.testing.assert_allclose(RationalQuadratic(ELL, 1.7, 1e9)(X), RBF(ELL, 1.7)(X), rtol=1e-6)


def test_a_kernel_may_define_evaluate_alone() -> None:
    class Cosine(Kernel):
        frequency: float = 3.0

        def evaluate(self, x, y):
            return jnp.sum(jnp.cos(self.frequency * (x - y)))

    expected = np.cos(3.0 * (X[:, None] - Y[None])).sum(-1)
    np.testing.assert_allclose(Cosine()(X, Y), expected, rtol=1e-13)
    x = float64(jnp.asarray)(X)
    np.testing.assert_allclose(float64(Cosine().diagonal)(x), 3.0)
    lower = np.asarray(float64(Cosine().lower_gram)(x))
    np.testing.assert_allclose(np.tril(lower), np.tril(Cosine()(X)), rtol=1e-13)


def test_a_stationary_kernel_without_a_profile_says_what_is_missing() -> None:
    class Unfinished(kernels.Stationary):
        pass

    with pytest.raises(TypeError, match=r"Unfinished must define profile\(squared\)"):
        Unfinished()(X)


def test_lower_gram_over_several_blocks() -> None:
    x = np.random.default_rng(2).uniform(size=(150, 2))  # blocks of 64, 64 and 22
    kernel = RBF([0.2, 0.6], 1.3)
    lower = np.asarray(float64(jax.jit(lambda x: kernel.lower_gram(x)))(x))
    np.testing.assert_allclose(np.tril(lower), np.tril(kernel(x)), rtol=1e-14)
    assert not lower[:64, 64:].any() and not lower[64:128, 128:].any()  # not computed at all


def test_rbf_sum_and_its_own_gradient_rule_equal_plain_autodiff() -> None:
    leaves, d, n, m = 3, 2, 5, 4
    rng = np.random.default_rng(3)
    inputs = tuple(rng.normal(size=s) for s in ((leaves, n), (leaves, d, n), (leaves, m), (leaves, d, m)))
    cotangent = rng.normal(size=(n, m))

    def plain(wa, a, wb, b):
        squared = jnp.sum((a[:, :, :, None] - b[:, :, None, :]) ** 2, axis=1)
        return jnp.einsum("ln,lm,lnm->nm", wa, wb, jnp.exp(-0.5 * squared))

    @float64
    @jax.jit
    def both(inputs, cotangent):
        own, pull = jax.vjp(rbf_sum, *inputs)
        other, pull_other = jax.vjp(plain, *inputs)
        return (own, *pull(cotangent)), (other, *pull_other(cotangent))

    for mine, theirs in zip(*both(inputs, cotangent), strict=True):
        assert mine.dtype == np.float64
        np.testing.assert_allclose(mine, theirs, rtol=1e-12, atol=1e-13)


@float64
def test_distances_of_coincident_points_are_exactly_zero_and_so_is_their_gradient() -> None:
    a = jnp.asarray(np.array([[1e3 + 0.1, 1e3 + 0.1, 7.0], [0.3, 0.3, 0.3]]))
    squared = np.asarray(jax.jit(squared_distance)(a, a))
    assert squared[0, 1] == 0.0 and (np.diagonal(squared) == 0.0).all()
    assert squared[0, 2] == pytest.approx((1e3 + 0.1 - 7.0) ** 2, rel=1e-15)
    values, slopes = jax.jit(jax.vmap(jax.value_and_grad(safe_root)))(jnp.asarray([0.0, 4.0]))
    np.testing.assert_array_equal(values, [1e-150, 2.0])
    np.testing.assert_array_equal(slopes, [0.0, 0.25])


@pytest.mark.parametrize("kernel", [Matern12, Matern32, Matern52])
@pytest.mark.parametrize("size", [16, 17])
@float64
def test_the_density_compiled_beside_its_gradient_is_the_density(kernel, size) -> None:
    rng = np.random.default_rng(0)
    surrogate = stationary_surrogate(1, kernel)
    target = Target(surrogate.prior, pad(Dataset(rng.random((14, 1)), rng.normal(size=14)), size))
    z = surrogate.prior.sample_vectors(jax.random.key(1), 8)
    alone = jax.jit(lambda z: jax.lax.map(target, z))(z)
    beside, _ = over_draws(_value_and_gradient, z, target)
    np.testing.assert_allclose(beside, alone, rtol=1e-6, atol=1e-6)


def _value_and_gradient(z, target):
    return jax.value_and_grad(target)(z)


# --- errors ------------------------------------------------------------------------------------------------------------------


def test_an_index_that_is_no_matrix_or_of_another_dimension_is_refused() -> None:
    with pytest.raises(InputError, match=r"index must be a matrix \(q, d\).* got shape \(3,\)"):
        WarpedMultiIndex(np.ones(3))
    with pytest.raises(InputError, match=r"one column for each of x; got shape \(2, 2\) for 3 columns"):
        WarpedMultiIndex(np.eye(2))(X)


@pytest.mark.parametrize("bad", [0.0, -1.0, np.nan, np.inf, [0.5, -0.1]])
@pytest.mark.parametrize(
    ("cls", "name"),
    [(c, n) for c in (RBF, Matern12, Matern32, Matern52, RationalQuadratic, Periodic) for n in ("lengthscale", "variance")]
    + [(RationalQuadratic, "alpha"), (Periodic, "period"), (Constant, "variance"), (Linear, "variance")],
)
def test_parameters_that_must_be_positive_are_refused_with_their_name_and_value(cls, name, bad) -> None:
    with pytest.raises(InputError) as caught:
        cls(**{name: bad})
    assert f"{name} must be positive and finite; got {bad}. Pass a number above zero or a distribution." == str(caught.value)


@pytest.mark.parametrize("name", ["a", "b", "lengthscale", "variance", "slope"])
def test_a_warp_refuses_what_is_not_positive(name) -> None:
    with pytest.raises(InputError, match=f"{name} must be positive and finite; got -1"):
        WarpedMultiIndex(np.eye(2), **{name: -1.0})


def test_a_negative_factor_makes_no_kernel() -> None:
    with pytest.raises(InputError, match=r"variance must be positive and finite; got -2\.0"):
        RBF() * -2.0


def test_traced_parameters_pass_unchecked() -> None:
    assert float(jax.jit(lambda v: positive("variance", v))(-1.0)) == -1.0


@pytest.mark.parametrize("shape", [(), (3,), (2, 3, 1)])
def test_points_that_are_no_matrix_are_refused(shape) -> None:
    with pytest.raises(InputError, match=rf"x must have shape \(n, d\); got \({', '.join(map(str, shape))},?\)\. Reshape it"):
        RBF()(np.zeros(shape))
    with pytest.raises(InputError, match=r"y must have shape \(n, d\); got "):
        RBF()(np.zeros((2, 2)), np.zeros(shape))


def test_points_of_two_dimensions_are_refused(unchecked) -> None:
    """Without the check the RBF would clamp the missing column and answer."""
    with pytest.raises(InputError, match=r"x and y must have equally many columns; got shapes \(4, 2\) and \(5, 1\)"):
        RBF()(np.zeros((4, 2)), np.zeros((5, 1)))


@pytest.mark.parametrize(
    ("kernel", "name"),
    [
        (RBF([0.5, 0.5, 0.5]), "lengthscale"),
        (Matern52([0.5, 0.5, 0.5]), "lengthscale"),
        (Periodic([0.5, 0.5, 0.5]), "lengthscale"),
        (Periodic(period=[0.5, 0.5, 0.5]), "period"),
        (Linear([0.5, 0.5, 0.5]), "variance"),
        (Linear(center=[0.5, 0.5, 0.5]), "center"),
        (Partition(Gates([0.0], [[1.0]]), RBF(np.ones((2, 3)), np.ones(2))), "lengthscale"),
    ],
)
def test_points_of_another_dimension_than_the_parameters_are_refused(kernel, name) -> None:
    """One column would otherwise be broadcast against three lengthscales."""
    with pytest.raises(InputError, match=rf"{name} must be one number or one for each .*; got shape \(3,\) for x with 1 columns"):
        kernel(np.zeros((4, 1)))


def test_powers_of_two_are_right_to_the_last_bits_and_differentiable():
    y = -np.concatenate([np.linspace(0, 3, 30_001), np.linspace(0, 1020, 30_001), [0.5, 1.5, 2.5]])
    got = float64(lambda: np.asarray(power_of_two(jnp.asarray(y))))()
    np.testing.assert_allclose(got, np.exp2(y), rtol=5e-16)
    assert got[0] == 1.0  # so that a variance is met exactly where two points are equal
    far = float64(lambda: np.asarray(power_of_two(jnp.asarray([-2000.0, -np.inf, np.nan]))))()
    assert (far[:2] < 1e-300).all() and (far[:2] >= 0).all() and np.isnan(far[2])
    slope = float64(lambda: np.asarray(jax.vmap(jax.grad(power_of_two))(jnp.asarray(y[::100]))))()
    np.testing.assert_allclose(slope, np.log(2) * np.exp2(y[::100]), rtol=1e-13, atol=1e-300)
