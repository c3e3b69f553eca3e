"""Priors over kernels: sizes, samples, densities and the map to unconstrained vectors, against SciPy and finite differences."""

import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy import stats

from hyperleaf.errors import InputError
from hyperleaf.kernels import RBF, Constant, Linear, Matern12, Matern32, Matern52, Partition, RationalQuadratic
from hyperleaf.precision import float64
from hyperleaf.priors import Prior, check_count, hhk_prior, stationary_prior, warped_bounds, warped_prior, wide_priors


@pytest.fixture
def unchecked():
    """As users have it: without the run-time check of signatures, which would speak first."""
    before = jaxtyping.config.jaxtyping_disable
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", before)


@float64
def mixed_prior() -> Prior:
    """Several supports, a fixed number among them, and a kernel inside a dictionary."""
    tree = {
        "half": dist.HalfNormal(1.5),
        "fixed": np.array([3.0, 4.0]),
        "interval": dist.Uniform(1.0, 3.0).expand((2,)),
        "kernel": RBF(dist.Gamma(2.0, 2.0).expand((2,)), 0.7) + Constant(dist.LogNormal(0.3, 0.8)),
        "real": dist.Normal(-1.0, 2.0).expand((2, 2)),
        "unit": dist.Beta(2.0, 5.0),
    }
    return Prior(tree)


@float64
def draw_at(prior, z):
    return jax.tree.map(np.asarray, jax.jit(lambda z: prior.from_vector(z))(z))


@float64
def log_prob_of(prior, value) -> float:
    return float(jax.jit(lambda v: prior.log_prob(v))(value))


def numbers(tree):
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(tree)])


# --- sizes -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [1, 2, 7])
def test_size_is_the_papers(d: int) -> None:
    assert Prior(hhk_prior(d)).size == 15 * d + 22  # eight leaves, without the noise
    assert Prior({"kernel": hhk_prior(d), "noise": dist.Exponential(10.0)}).size == 15 * d + 23
    for leaves in (2, 3, 4):
        g = leaves - 1
        assert Prior(hhk_prior(d, leaves)).size == g * (d + 1) + g + leaves * d + leaves
    assert Prior(stationary_prior(d)).size == d + 1


def test_one_leaf_is_the_stationary_kernel() -> None:
    kernel = hhk_prior(3, 1, leaf=Matern52)
    assert type(kernel) is Matern52 and kernel.lengthscale.shape() == (3,) and kernel.variance.shape() == ()


@pytest.mark.parametrize(("d", "indices"), [(1, None), (3, None), (3, 1), (2, 5)])
def test_size_of_the_warped_priors(d: int, indices: int | None) -> None:
    q = d if indices is None else indices
    for prior in (warped_prior(d, indices), warped_bounds(d, indices)):
        assert Prior(prior).size == q * d + 3 * q + 1
        np.testing.assert_array_equal(prior.index.mean, [np.eye(d)[i % d] for i in range(q)])


def test_warped_samples_have_the_stated_distributions() -> None:
    draws = float64(jax.jit(jax.vmap(Prior(warped_prior(2)).sample)))(jax.random.split(jax.random.key(0), 2000))
    assert stats.kstest(np.ravel(np.asarray(draws.index) - np.eye(2)), stats.norm(0, 0.5).cdf).pvalue > 1e-3
    for shape in (draws.a, draws.b):
        assert stats.kstest(np.log(np.ravel(shape)), stats.norm(0, 0.75).cdf).pvalue > 1e-3
    assert stats.kstest(np.ravel(draws.lengthscale), stats.gamma(2, scale=1 / 2).cdf).pvalue > 1e-3
    assert stats.kstest(draws.variance, stats.gamma(2, scale=1 / 3).cdf).pvalue > 1e-3


def test_within_bounds_every_vector_maps_and_starts_are_even_in_the_logarithm(unchecked) -> None:
    prior = Prior(warped_bounds(2, shape=(0.2, 4.0)))
    draws = float64(jax.jit(jax.vmap(prior.sample)))(jax.random.split(jax.random.key(0), 1000))
    for values, (low, high) in ((draws.a, (0.2, 4.0)), (draws.lengthscale, (0.05, 10.0)), (draws.variance, (0.05, 20.0))):
        even = stats.uniform(np.log(low), np.log(high / low))
        assert stats.kstest(np.log(np.ravel(values)), even.cdf).pvalue > 1e-3
    for z in (-50.0, 50.0):
        end = draw_at(prior, np.full(prior.size, z))
        assert (end.a >= 0.2).all() and (end.a <= 4.0).all() and np.isfinite(numbers(end)).all()
    for wrong in ((4.0, 0.2), (0.0, 1.0), 3.0):
        with pytest.raises(InputError, match=r"bounds? of shape"):
            warped_bounds(2, shape=wrong)


def test_tree_and_weights_are_passed_on() -> None:
    kernel = hhk_prior(2, tree=[[0, 1], 2], weights="sqrt")
    assert isinstance(kernel, Partition)
    assert (kernel.tree, kernel.weights, kernel.num_leaves) == (((0, 1), 2), "sqrt", 3)
    assert kernel.gates.normal.shape() == (2, 2) and kernel.leaves.lengthscale.shape() == (3, 2)
    assert hhk_prior(2, 4).tree == ((0, 1), (2, 3))


@pytest.mark.parametrize("leaf", [RBF, Matern12, Matern32, Matern52, RationalQuadratic])
def test_a_draw_with_any_stationary_leaf_is_a_kernel(leaf) -> None:
    prior = Prior(hhk_prior(2, 3, leaf=leaf))
    x = np.random.default_rng(0).uniform(size=(4, 2))
    gram = np.asarray(float64(jax.jit(lambda z, x: prior.from_vector(z).gram(x)))(np.linspace(-1, 1, prior.size), x))
    assert gram.dtype == np.float64 and np.linalg.eigvalsh(gram).min() > 0


# --- samples -----------------------------------------------------------------------------------------------------------------


def draws(prior, num, seed=0):
    return jax.tree.map(np.asarray, float64(jax.jit(jax.vmap(prior.sample)))(jax.random.split(jax.random.key(seed), num)))


def assert_distributed(samples, reference):
    """Mean and variance within five standard errors of the reference, and the whole by Kolmogorov and Smirnov."""
    samples = np.ravel(samples)
    mean, variance, _, excess = (float(v) for v in reference.stats(moments="mvsk"))
    assert abs(samples.mean() - mean) < 5 * np.sqrt(variance / samples.size)
    assert abs(samples.var() - variance) < 5 * variance * np.sqrt((excess + 2) / samples.size)
    assert stats.kstest(samples, reference.cdf).pvalue > 1e-4


def test_samples_have_the_papers_distributions() -> None:
    kernel = draws(Prior(hhk_prior(2, 4)), 2000)
    assert kernel.gates.normal.shape == (2000, 3, 2) and kernel.gates.normal.dtype == np.float64
    assert_distributed(kernel.gates.offset, stats.norm(0, 1))
    assert_distributed(kernel.gates.normal, stats.norm(0, 1))
    assert_distributed(kernel.gates.steepness, stats.gamma(6, scale=1 / 2))
    assert_distributed(kernel.leaves.lengthscale, stats.gamma(2, scale=1 / 2))
    assert_distributed(kernel.leaves.variance, stats.gamma(2, scale=1 / 3))
    everything = np.concatenate([np.reshape(v, (2000, -1)) for v in jax.tree.leaves(kernel)], axis=1)
    correlation = np.corrcoef(everything.T) - np.eye(everything.shape[1])
    assert np.abs(correlation).max() < 6 / np.sqrt(2000)  # no two numbers share their randomness


def test_the_key_alone_decides_the_sample() -> None:
    prior = Prior({"a": dist.Normal(0.0, 1.0).expand((3,)), "b": dist.Normal(0.0, 1.0).expand((3,))})
    first, again, other = (numbers(float64(prior.sample)(jax.random.key(seed))) for seed in (3, 3, 4))
    assert not np.allclose(first[:3], first[3:])
    np.testing.assert_array_equal(first, again)
    assert not np.allclose(first, other)


# --- vectors and densities -----------------------------------------------------------------------------------------------------


@float64
@pytest.mark.parametrize("prior", [mixed_prior(), Prior(hhk_prior(2, 3))], ids=["mixed", "hhk"])
def test_vectors_and_draws_map_to_each_other(prior) -> None:
    vectors = np.random.default_rng(0).normal(size=(7, prior.size))
    values = jax.jit(jax.vmap(prior.from_vector))(vectors)
    back = jax.jit(jax.vmap(prior.to_vector))(values)
    assert back.shape == vectors.shape and back.dtype == jnp.float64
    np.testing.assert_allclose(back, vectors, rtol=1e-11, atol=1e-12)
    returned = jax.jit(jax.vmap(prior.from_vector))(back)
    assert jax.tree.structure(returned) == jax.tree.structure(values)
    np.testing.assert_allclose(numbers(returned), numbers(values), rtol=1e-12)


@float64
def test_sampled_vectors_are_samples_seen_without_constraints() -> None:
    prior = Prior({"interval": dist.Uniform(1.0, 3.0).expand((2,)), "scale": dist.LogNormal(0.3, 0.8), "fixed": 2.0})
    vectors = np.asarray(jax.jit(lambda key: prior.sample_vectors(key, 4000))(jax.random.key(0)))
    assert vectors.shape == (4000, 3) and vectors.dtype == np.float64
    assert_distributed(vectors[:, :2], stats.logistic())  # the logit of a uniform variable
    assert_distributed(vectors[:, 2], stats.norm(0.3, 0.8))


@float64
def test_any_vector_maps_into_the_support() -> None:
    prior = mixed_prior()
    z = np.random.default_rng(0).normal(scale=5.0, size=(50, prior.size))
    value = jax.jit(jax.vmap(prior.from_vector))(z)
    assert (value["half"] > 0).all() and (value["kernel"].first.lengthscale > 0).all()
    assert ((value["interval"] > 1) & (value["interval"] < 3)).all() and ((value["unit"] > 0) & (value["unit"] < 1)).all()
    np.testing.assert_allclose(value["real"], z[:, -5:-1].reshape(50, 2, 2))  # unconstrained as it is, between kernel and unit


@float64
def test_fixed_fields_stay_fixed() -> None:
    prior = mixed_prior()
    value = draw_at(prior, np.zeros(prior.size))
    np.testing.assert_array_equal(value["fixed"], [3.0, 4.0])
    assert float(value["kernel"].first.variance) == 0.7
    sample = Prior(RBF(dist.LogNormal(0.0, 1.0), 0.7)).sample(jax.random.key(0))
    assert float(sample.variance) == 0.7 and float(sample.lengthscale) != 0.7
    # Other numbers in a fixed place do not count.
    value["fixed"] = np.array([9.0, 9.0])
    np.testing.assert_allclose(jax.jit(lambda v: prior.to_vector(v))(value), 0.0, atol=1e-15)


@float64
def test_log_prob_equals_scipy() -> None:
    prior = mixed_prior()
    value = draw_at(prior, np.linspace(-1.5, 1.5, prior.size))
    expected = (
        stats.halfnorm(scale=1.5).logpdf(value["half"])
        + stats.uniform(1, 2).logpdf(value["interval"]).sum()
        + stats.gamma(2, scale=1 / 2).logpdf(value["kernel"].first.lengthscale).sum()
        + stats.lognorm(0.8, scale=np.exp(0.3)).logpdf(value["kernel"].second.variance)
        + stats.norm(-1, 2).logpdf(value["real"]).sum()
        + stats.beta(2, 5).logpdf(value["unit"])
    )
    assert log_prob_of(prior, value) == pytest.approx(float(expected), rel=1e-12)


@float64
@pytest.mark.parametrize(
    "given",
    [{}, {"lengthscale": (3.0, 5.0), "variance": (4.0, 1.5), "steepness": (9.0, 0.5), "hyperplane_std": 2.5}],
    ids=["paper", "other numbers"],
)
def test_log_prob_of_the_partition_prior_equals_scipy(given) -> None:
    numbers = {"lengthscale": (2, 2), "variance": (2, 3), "steepness": (6, 2), "hyperplane_std": 1.0} | given
    gamma = {name: stats.gamma(numbers[name][0], scale=1 / numbers[name][1]) for name in ("lengthscale", "variance", "steepness")}
    normal = stats.norm(0, numbers["hyperplane_std"])
    prior = Prior(hhk_prior(2, 3, **given))
    kernel = draw_at(prior, np.linspace(-1.5, 1.5, prior.size))
    leaves = gamma["lengthscale"].logpdf(kernel.leaves.lengthscale).sum() + gamma["variance"].logpdf(kernel.leaves.variance).sum()
    gates = normal.logpdf(kernel.gates.offset).sum() + normal.logpdf(kernel.gates.normal).sum()
    gates += gamma["steepness"].logpdf(kernel.gates.steepness).sum()
    assert log_prob_of(prior, kernel) == pytest.approx(float(leaves + gates), rel=1e-12)

    given = {name: given[name] for name in ("lengthscale", "variance") if name in given}
    alone = Prior(stationary_prior(2, Matern32, **given))
    kernel = draw_at(alone, np.array([-1.0, 0.5, 0.8]))
    expected = gamma["lengthscale"].logpdf(kernel.lengthscale).sum() + gamma["variance"].logpdf(kernel.variance)
    assert log_prob_of(alone, kernel) == pytest.approx(float(expected), rel=1e-12)


@float64
@pytest.mark.parametrize("prior", [mixed_prior(), Prior(hhk_prior(1, 2))], ids=["mixed", "hhk"])
def test_log_density_adds_the_jacobian_determinant(prior) -> None:
    z = np.random.default_rng(2).normal(size=prior.size)
    constrained = jax.jit(lambda z: [v for _, v in zip(prior.distributions, prior._values(prior.from_vector(z)), strict=True)])
    h = 1e-5
    steps = h * np.eye(prior.size)
    jacobian = np.stack([(numbers(constrained(z + e)) - numbers(constrained(z - e))) / (2 * h) for e in steps], axis=1)
    sign, log_determinant = np.linalg.slogdet(jacobian)
    assert sign == 1
    expected = log_prob_of(prior, draw_at(prior, z)) + log_determinant
    assert float(jax.jit(lambda z: prior.log_density(z))(z)) == pytest.approx(expected, abs=1e-8)


@float64
def test_gradient_of_log_density_equals_finite_differences() -> None:
    prior = Prior(hhk_prior(1, 2))
    z = np.random.default_rng(3).normal(size=prior.size)
    value_and_grad = jax.jit(jax.value_and_grad(prior.log_density))
    h = 1e-5
    ends = [(float(value_and_grad(z + e)[0]), float(value_and_grad(z - e)[0])) for e in h * np.eye(prior.size)]
    np.testing.assert_allclose(value_and_grad(z)[1], [(a - b) / (2 * h) for a, b in ends], rtol=1e-6, atol=1e-8)


@float64
def test_a_prior_without_unknowns() -> None:
    prior = Prior(Linear(0.5))
    assert prior.size == 0 and prior.distributions == []
    assert prior.to_vector(prior.tree).shape == (0,) and float(prior.log_density(jnp.zeros(0))) == 0.0
    assert float(prior.log_prob(prior.tree)) == 0.0
    assert float(prior.sample(jax.random.key(0)).variance) == float(prior.from_vector(jnp.zeros(0)).variance) == 0.5


# --- errors ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [0, -3, True, 2.5, "2", None])
def test_counts_must_be_whole_and_positive(unchecked, bad) -> None:
    for name, call in (
        ("d", lambda: hhk_prior(bad)),
        ("d", lambda: stationary_prior(bad)),
        ("leaves", lambda: hhk_prior(2, bad)),
        ("anything", lambda: check_count("anything", bad)),
    ):
        with pytest.raises(InputError) as caught:
            call()
        assert str(caught.value) == f"{name} must be a whole number ≥ 1; got {bad!r}."


def test_counts_may_come_from_numpy(unchecked) -> None:
    assert Prior(hhk_prior(np.int64(2), np.int32(2))).size == 10
    assert type(check_count("d", np.int64(2))) is int


@pytest.mark.parametrize("name", ["lengthscale", "variance", "steepness"])
@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ((0.0, 1.0), "{name} shape must be positive and finite; got 0.0."),
        ((2.0, -1.0), "{name} rate must be positive and finite; got -1.0."),
        ((2.0, float("inf")), "{name} rate must be positive and finite; got inf."),
        ((float("nan"), 2.0), "{name} shape must be positive and finite; got nan."),
        (3.0, "the prior of {name} is a pair (shape, rate) of a Gamma distribution, or a distribution; got 3.0."),
        (
            (1.0, 2.0, 3.0),
            "the prior of {name} is a pair (shape, rate) of a Gamma distribution, or a distribution; got (1.0, 2.0, 3.0).",
        ),
        (("a", 1.0), "the prior of {name} is a pair (shape, rate) of a Gamma distribution, or a distribution; got ('a', 1.0)."),
    ],
)
def test_bad_gamma_parameters_are_refused(unchecked, name, bad, message) -> None:
    makers = [lambda **kw: hhk_prior(2, 2, **kw)] + [lambda **kw: stationary_prior(2, **kw)] * (name != "steepness")
    for make in makers:
        with pytest.raises(InputError) as caught:
            make(**{name: bad})
        assert str(caught.value) == message.format(name=name)


@pytest.mark.parametrize("bad", [0.0, -1.0, float("nan"), float("inf"), "wide", None])
def test_bad_hyperplane_std_is_refused(unchecked, bad) -> None:
    with pytest.raises(InputError) as caught:
        hhk_prior(2, hyperplane_std=bad)
    assert str(caught.value) == f"hyperplane_std must be positive and finite; got {bad!r}."


def test_bad_trees_and_weights_are_refused(unchecked) -> None:
    with pytest.raises(InputError, match=r"a tree is made of pairs; got a node with 3 children"):
        hhk_prior(2, tree=(0, 1, 2))
    with pytest.raises(InputError, match=r"weights must be .* got 'cube'"):
        hhk_prior(2, weights="cube")


# The wider priors of studies and regressors.


@float64
@pytest.mark.parametrize("d", [2, 6, 12])
def test_under_wide_priors_two_points_of_the_cube_are_correlated_whatever_the_number_of_inputs(d):
    """Under the paper's the median correlation falls from 0.8 at two inputs to 0.02 at twelve."""

    def median(priors):
        rng = np.random.default_rng(0)
        lengthscale = draws(Prior(stationary_prior(d, **priors)), 2000).lengthscale
        distance = rng.uniform(size=(2000, d)) - rng.uniform(size=(2000, d))
        return np.median(np.exp(-0.5 * np.sum((distance / lengthscale) ** 2, axis=1)))

    wide = median({"lengthscale": wide_priors(d)["lengthscale"]})
    assert 0.75 < wide < 0.92
    assert d == 2 or median({}) < 0.4 * wide


@float64
def test_wide_priors_have_gates_that_are_soft_and_gates_that_are_sharp():
    steepness = np.ravel(draws(Prior(hhk_prior(2, 4, **wide_priors(2))), 2000).gates.steepness)
    paper = np.ravel(draws(Prior(hhk_prior(2, 4)), 2000).gates.steepness)
    assert np.mean(steepness < 3) > 0.25 and np.mean(steepness > 20) > 0.15 and np.mean(paper > 20) < 0.001


def test_a_prior_that_is_given_must_be_of_one_positive_number():
    with pytest.raises(InputError, match="one positive number"):
        hhk_prior(2, 2, steepness=dist.Normal(0.0, 1.0))
    with pytest.raises(InputError, match="one positive number"):
        stationary_prior(2, lengthscale=dist.LogNormal(0.0, 1.0).expand((3,)))
