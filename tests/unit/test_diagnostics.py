"""Convergence diagnostics against ArviZ, their sentences, and the hand-over to ArviZ."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

from hyperleaf.errors import InputError
from hyperleaf.gp import GP
from hyperleaf.inference import diagnostics
from hyperleaf.inference.hmc import Chains
from hyperleaf.precision import float64
from hyperleaf.priors import Prior, hhk_prior


@pytest.fixture(scope="module")
def az():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("arviz")


def autoregressive(chains: int, draws: int, correlation: float, seed: int = 0, shift: float = 0.0):
    """Heavy-tailed AR(1) chains; `shift` moves the first chain away from the others."""
    rng = np.random.default_rng(seed)
    x = np.zeros((chains, draws))
    for t in range(1, draws):
        x[:, t] = correlation * x[:, t - 1] + rng.standard_t(4, size=chains)
    x[0] += shift
    return x


CASES = [(4, 250, 0.5, 0.0), (4, 250, 0.95, 0.0), (2, 200, 0.3, 3.0), (4, 251, -0.5, 0.0), (2, 37, 0.8, 0.0), (3, 5, 0.0, 0.0)]


@pytest.mark.parametrize(("chains", "draws", "correlation", "shift"), CASES)
def test_numbers_equal_arviz(az, chains: int, draws: int, correlation: float, shift: float) -> None:
    x = autoregressive(chains, draws, correlation, shift=shift)
    assert diagnostics.rhat(x) == pytest.approx(float(az.rhat(x)), rel=1e-10)
    assert diagnostics.ess_bulk(x) == pytest.approx(float(az.ess(x, method="bulk")), rel=1e-10)
    assert diagnostics.ess_mean(x) == pytest.approx(float(az.ess(x, method="mean")), rel=1e-10)
    assert diagnostics.mcse_mean(x) == pytest.approx(float(az.mcse(x, method="mean")), rel=1e-10)
    assert diagnostics.ess_tail(x) == pytest.approx(float(az.ess(x, method="tail")), rel=1e-10)


def test_error_of_the_standard_deviation_is_what_repetitions_show() -> None:
    runs = [autoregressive(4, 500, 0.6, seed=seed) for seed in range(200)]
    observed = np.std([run.std() for run in runs], ddof=1)
    # The spread of 200 runs of heavy tails is itself known to a tenth or so.
    assert np.median([diagnostics.mcse_std(run) for run in runs]) == pytest.approx(observed, rel=0.3)


def test_rhat_sees_what_it_is_for() -> None:
    rng = np.random.default_rng(0)
    good = rng.normal(size=(4, 500))
    assert diagnostics.rhat(good) < 1.01
    apart, wider, drifting, tied = good.copy(), good.copy(), good + np.linspace(0, 2, 500), np.repeat([[0.0], [1.0]], 50, axis=1)
    apart[0] += 1.0
    wider[0] *= 3.0  # same mean: only the folded ranks can tell
    assert diagnostics.rhat(apart) > 1.05
    assert diagnostics.rhat(wider) > 1.02
    assert diagnostics.rhat(drifting) > 1.05
    assert diagnostics.rhat(tied) == np.inf


def test_what_does_not_vary_and_what_is_not_finite() -> None:
    constant = np.full((2, 50), 0.3)
    assert np.isnan(diagnostics.rhat(constant)) and diagnostics.ess_bulk(constant) == 100
    broken = np.random.default_rng(0).normal(size=(2, 50))
    broken[1, 3] = np.inf
    for number in (diagnostics.rhat, diagnostics.ess_bulk, diagnostics.ess_tail, diagnostics.ess_mean):
        assert np.isnan(number(broken))
        assert np.isnan(number(np.zeros((2, 3))))
        with pytest.raises(InputError, match="chains, draws"):
            number(np.zeros(7))


def test_summary_reports_the_worst_column() -> None:
    rng = np.random.default_rng(1)
    f = rng.normal(size=(2, 300, 3))
    f[..., 1] = autoregressive(2, 300, 0.98, seed=3)
    f[..., 2] = 5.0
    rhat, bulk, tail = diagnostics.summarise({"f": f, "noise": f[..., 0]})
    assert rhat["f"] == diagnostics.rhat(f[..., 1]) and bulk["f"] == diagnostics.ess_bulk(f[..., 1])
    assert tail["f"] == diagnostics.ess_tail(f[..., 1])
    assert rhat["noise"] == diagnostics.rhat(f[..., 0])
    with pytest.raises(InputError, match="chains, draws"):
        diagnostics.summarise({"f": np.zeros(4)})


def chains_of(z, divergent=0, acceptance=0.8, saturated=False, num_replaced=0) -> Chains:
    shape = z.shape[:2]
    flags = np.zeros(shape, dtype=bool)
    flags.flat[:divergent] = True
    return Chains(
        z=z,
        log_density=np.zeros(shape),
        acceptance=np.full(shape, acceptance),
        divergent=flags,
        num_steps=np.full(shape, 7),
        step_size=np.full(shape[0], 0.1),
        inverse_mass=np.ones((shape[0], z.shape[2])),
        saturated=np.full(shape, saturated),
        num_divergent=flags.sum(axis=1),
        num_transitions=shape[1],
        num_replaced=num_replaced,
        seconds=1.0,
    )


def test_silence_where_all_is_well() -> None:
    z = np.random.default_rng(0).normal(size=(4, 500, 2))
    assert diagnostics.messages(*diagnostics.summarise({"noise": z[..., 0]}), chains=chains_of(z)) == ()
    assert diagnostics.messages(*diagnostics.summarise({"fixed": np.ones((4, 500))})) == ()


def test_each_trouble_has_its_sentence() -> None:
    z = np.random.default_rng(0).normal(size=(4, 50, 2))
    stuck = z.copy()
    stuck[1] = 0.0

    def said(chains) -> str:
        return " ".join(diagnostics.messages({}, {}, {}, chains=chains))

    assert "3 of 200 trajectories diverged" in said(chains_of(z, divergent=3))
    assert "1 chain of 4 never moved" in said(chains_of(stuck))
    assert "4 chains accepted almost no proposal (as few as 2.0%)" in said(chains_of(z, acceptance=0.02))
    assert "200 of 200 trajectories were cut off" in said(chains_of(z, saturated=True))
    assert "2 starts of 4 had no density" in said(chains_of(z, num_replaced=2))
    assert said(chains_of(z)) == ""

    slightly = diagnostics.messages({"noise": 1.03, "f": 1.02}, {"noise": 400.0}, {"noise": 400.0})
    assert len(slightly) == 1 and "R-hat 1.03" in slightly[0] and "noise" in slightly[0] and "1 more" in slightly[0]
    assert "not found the same distribution" in diagnostics.messages({"noise": 1.6}, {}, {})[0]
    few = diagnostics.messages({}, {"noise": 31.0, "f": 80.0}, {"noise": 12.0})
    assert "only 31 independent ones for the average of noise" in few[0] and "only 12" in few[1]
    assert diagnostics.messages({}, {"noise": 31.0}, {}, min_ess=30.0) == ()
    assert "cannot be judged" in diagnostics.messages({"f": np.nan}, {"f": np.nan}, {"f": np.nan})[0]


@float64
def two_leaves() -> tuple[Prior, np.ndarray]:
    prior = Prior(GP(hhk_prior(3, 2), dist.Exponential(10.0)))
    return prior, np.asarray(prior.sample_vectors(jax.random.key(0), 10)).reshape(2, 5, -1)


def test_parameters_have_the_names_and_values_of_the_model() -> None:
    prior, z = two_leaves()
    named = diagnostics.named_parameters(prior, z)
    assert list(named) == diagnostics.parameter_names(prior)
    shapes = {name: value.shape for name, value in named.items()}
    assert shapes["kernel.gates.offset"] == (2, 5, 1) and shapes["kernel.gates.normal"] == (2, 5, 1, 3)
    assert shapes["kernel.leaves.lengthscale"] == (2, 5, 2, 3) and shapes["noise"] == (2, 5)
    one = float64(lambda row: prior.from_vector(jnp.asarray(row)))(z[1, 3])
    np.testing.assert_allclose(named["noise"][1, 3], one.noise, rtol=1e-12)
    np.testing.assert_allclose(named["kernel.gates.normal"][1, 3], one.kernel.gates.normal, rtol=1e-12)
    np.testing.assert_allclose(named["kernel.leaves.lengthscale"][1, 3], one.kernel.leaves.lengthscale, rtol=1e-12)
    with pytest.raises(InputError, match="entries"):
        diagnostics.named_parameters(prior, z[..., 1:])


def test_groups_are_read_by_arviz(az, tmp_path) -> None:
    prior, z = two_leaves()
    groups = diagnostics.to_xarray_groups(
        z,
        prior,
        quantities={"f": np.ones((2, 5, 4))},
        stats=diagnostics.sample_stats(chains_of(z, divergent=2)),
        log_likelihood=np.zeros((2, 5, 6)),
        observed={"y": np.arange(6.0)},
        constant={"x": np.zeros((6, 3))},
        attrs={"method": "NUTS"},
    )
    assert set(groups) == {"posterior", "sample_stats", "log_likelihood", "observed_data", "constant_data"}
    assert groups["posterior"]["kernel.gates.normal"].dims[:2] == ("chain", "draw")
    assert groups["posterior"].attrs["method"] == "NUTS"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        inference = az.InferenceData(**groups)
        assert int(inference.sample_stats.diverging.sum()) == 2
        assert "noise" in az.summary(inference, var_names=["noise"]).index
        import xarray

        path = tmp_path / "chains.nc"
        xarray.DataTree.from_dict(groups).to_netcdf(path, engine="h5netcdf")
        with xarray.open_datatree(path, engine="h5netcdf") as read:
            np.testing.assert_array_equal(read["posterior"]["noise"].values, groups["posterior"]["noise"].values)
    assert set(diagnostics.to_xarray_groups(z, prior)) == {"posterior"}
    with pytest.raises(InputError, match="'f' of posterior"):
        diagnostics.to_xarray_groups(z, prior, quantities={"f": np.ones((5, 2))})
    with pytest.raises(InputError, match="leading axis"):
        diagnostics.to_xarray_groups(z[0], prior)
