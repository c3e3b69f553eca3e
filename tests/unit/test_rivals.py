"""Rivals from other packages: their own numbers behind our contract, in campaigns that can be killed, and clear when missing."""

import os
import stat
import sys

import jax
import numpy as np
import pytest

from hyperleaf.bench import rankings, rivals
from hyperleaf.bench.campaign import make_campaign, measure, run_campaign, stored_campaign
from hyperleaf.bench.methods import METHODS, Method
from hyperleaf.bench.outcomes import designs, results
from hyperleaf.bench.rivals import RIVALS
from hyperleaf.bench.runs import SCORES
from hyperleaf.config.sections import SurrogateSection
from hyperleaf.data import Dataset
from hyperleaf.errors import InferenceError, InputError
from hyperleaf.storage import open_storage
from hyperleaf.surrogates.base import Posterior
from hyperleaf.surrogates.files import load_posterior, save_posterior
from hyperleaf.surrogates.kinds import KINDS, kind_of
from hyperleaf.surrogates.named import make_surrogate

RNG = np.random.default_rng(0)
DATA = Dataset(RNG.random((15, 2)), RNG.normal(size=15))
POINTS, KEY = RNG.random((6, 2)), jax.random.key(0)


def test_names_of_rivals_are_known_where_names_of_kinds_are():
    assert not set(RIVALS) & set(KINDS)
    assert kind_of("sklearn") is RIVALS["sklearn"] and kind_of("hhk") is KINDS["hhk"]
    assert SurrogateSection(kind="botorch").kind == "botorch"
    with pytest.raises(InputError, match=r"kind must be one of \['hhk'.*got 'sklear'"):
        kind_of("sklear")
    assert {one.surrogate["kind"] for one in METHODS.values()} == {*KINDS, *RIVALS}


@pytest.mark.parametrize("name", RIVALS)
def test_a_missing_package_is_named_with_the_way_to_get_it(name, monkeypatch):
    monkeypatch.setattr(rivals, "find_spec", lambda package: None)
    monkeypatch.setattr(rivals, "which", lambda program: None)
    with pytest.raises(InputError, match=f"{name!r} needs {RIVALS[name].needs}, which is not installed. To have it: .*install"):
        make_surrogate(name, 2)


def test_options_are_checked():
    with pytest.raises(InputError, match="no option 'restart'; did you mean 'restarts'"):
        make_surrogate("sklearn", 2, restart=3)
    with pytest.raises(InputError, match="restarts must be a whole number ≥ 1; got 'few'"):
        make_surrogate("sklearn", 2, restarts="few")


def test_predictions_of_sklearn_are_its_own():
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

    posterior = make_surrogate("sklearn", 2).fit(DATA, key=KEY)
    kernel = (ConstantKernel() * RBF(np.ones(2)) + WhiteKernel()).clone_with_theta(posterior.arrays["theta"])
    theirs = GaussianProcessRegressor(kernel, optimizer=None, normalize_y=True).fit(DATA.x, DATA.y)
    mean, std = theirs.predict(POINTS, return_std=True)
    noisy = posterior.predict(POINTS).noisy()
    np.testing.assert_allclose(noisy.means[0], mean, rtol=1e-10)
    np.testing.assert_allclose(noisy.variances[0], std**2, rtol=1e-8)
    shifted = theirs.log_marginal_likelihood(kernel.theta + 0.1)
    assert theirs.log_marginal_likelihood(kernel.theta) >= shifted - 1e-6  # it is at a maximum


@pytest.mark.parametrize("name", ["sklearn", "botorch"])
def test_known_noise_is_used_and_told(name, needs):
    needs(RIVALS[name].needs)
    known = Dataset(DATA.x, DATA.y, np.full(15, 0.25))
    posterior = make_surrogate(name, 2, noise="known").fit(known, key=KEY)
    assert posterior.predict(POINTS).noise == pytest.approx(0.25)
    exact = make_surrogate(name, 2, noise="none").fit(DATA, key=KEY)
    apart = [np.abs(one.predict(DATA.x).means[0] - DATA.y).max() for one in (posterior, exact)]
    assert apart[1] < 0.05 < apart[0]


def test_predictions_of_botorch_are_its_own_and_so_is_its_criterion(needs):
    needs("botorch")
    import torch
    from botorch.acquisition import qNegIntegratedPosteriorVariance
    from botorch.fit import fit_gpytorch_mll
    from botorch.models import SingleTaskGP
    from gpytorch.mlls import ExactMarginalLogLikelihood

    posterior = make_surrogate("botorch", 2).fit(DATA, key=KEY)
    model = SingleTaskGP(torch.tensor(DATA.x), torch.tensor(DATA.y)[:, None])
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    points = torch.tensor(POINTS)
    with torch.no_grad():
        theirs = model.eval().posterior(points)
        worth = qNegIntegratedPosteriorVariance(model, mc_points=points[:3])(points[:, None, :])
    mixture = posterior.predict(POINTS)
    np.testing.assert_allclose(mixture.means[0], theirs.mean[:, 0], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(mixture.variances[0], theirs.variance[:, 0], rtol=1e-4, atol=1e-7)
    own = posterior.alc(POINTS, POINTS[:3])
    np.testing.assert_allclose(own - own[0], worth - worth[0], rtol=1e-3, atol=1e-7)
    np.testing.assert_allclose(own, Posterior.alc(posterior, POINTS, POINTS[:3]), rtol=1e-6)  # which is ALC, as it should be


def test_nuts_of_botorch_gives_draws(needs, tmp_path):
    needs("botorch")
    options = {"warmup": 2, "samples": 4, "thinning": 2, "warping": True}
    posterior = make_surrogate("botorch-saas", 2, **options).fit(Dataset(DATA.x[:5], DATA.y[:5]), key=KEY)
    assert np.shape(posterior.predict(POINTS).means) == (2, 6) and posterior.diagnostics.num_draws == 2
    again = load_posterior(save_posterior(tmp_path / "saas.npz", posterior))
    np.testing.assert_array_equal(again.predict(POINTS).means, posterior.predict(POINTS).means)


# --- campaigns


def test_a_campaign_with_a_rival_goes_on_where_it_was_stopped(tmp_path):
    method = Method("sk", "scikit-learn", {"kind": "sklearn", "restarts": 1}, "variance")
    whole, cut = (f"sqlite:///{tmp_path / name}.db" for name in ("whole", "cut"))
    campaign = make_campaign("c", ["co2", "borehole-40"], [method], seeds=1, queries=3)
    assert run_campaign(campaign, whole).ended == 2
    run_campaign(make_campaign("c", ["co2"], [method], seeds=1, queries=1), cut)
    assert run_campaign(campaign, cut).ended == 2
    one, other = (results(campaign, open_storage(url)).drop(columns="seconds") for url in (whole, cut))
    assert one.equals(other) and one["n"].tolist() == [40, 5, 6, 7, 8]  # a static task has nothing to ask
    ranked = rankings(results(campaign, open_storage(whole))).set_index("task")["mean_rmse"]
    assert ranked["borehole-40"] == pytest.approx(one["rmse"][0])  # its area is that of one point
    assert designs(campaign, open_storage(whole)).equals(designs(campaign, open_storage(cut)))
    assert stored_campaign(open_storage(whole)).methods == (method,)


def test_a_static_run_that_was_killed_before_it_was_scored_is_not_complete(tmp_path):
    sklearn = Method("sk", "scikit-learn", {"kind": "sklearn", "restarts": 1})
    campaign = make_campaign("c", ["borehole-40"], [sklearn], seeds=1)
    storage = open_storage(f"sqlite:///{tmp_path / 'c.db'}")
    run_campaign(campaign, storage.url)
    assert measure(campaign, storage).ended == 1
    storage.put_artifact("borehole-40/sk/0", SCORES, b"{}")
    assert measure(campaign, storage).ended == 0
    assert run_campaign(campaign, storage.url).ended == 1


def test_a_run_whose_package_is_missing_fails_by_itself(tmp_path, monkeypatch):
    monkeypatch.setattr(rivals, "which", lambda program: None)
    sklearn = Method("sk", "scikit-learn", {"kind": "sklearn", "restarts": 1})
    campaign = make_campaign("c", ["borehole-40"], [METHODS["tgp"], sklearn], seeds=1)
    standing = run_campaign(campaign, f"sqlite:///{tmp_path / 'c.db'}")
    assert standing.ended == 1 and "needs Rscript" in standing.failed["borehole-40/tgp/0"]


# --- tgp, with a stand-in for R that speaks the same protocol

STAND_IN = """
import sys, numpy as np
vanilla, script, folder, seed, burn_in, total, thin, full = sys.argv[1:]
assert vanilla == "--vanilla" and script.endswith("tgp.R")
x, points = (np.loadtxt(f"{folder}/{name}.csv", delimiter=",", ndmin=2) for name in ("x", "points"))
y = np.loadtxt(f"{folder}/y.csv", ndmin=1)
if len(y) < 5:
    sys.exit("Error in btgp: too few")
open(__file__ + ".calls", "a").write("|")
nearest = ((points[:, None] - x[None]) ** 2).sum(-1)
np.savetxt(f"{folder}/mean.csv", y[nearest.argmin(1)] + 0.001 * int(burn_in))
spread = np.exp(-((points[:, None] - points[None]) ** 2).sum(-1))
np.savetxt(f"{folder}/covariance.csv", spread if full == "1" else np.diag(spread), delimiter=",")
"""


@pytest.fixture
def stand_in(tmp_path, monkeypatch):
    script = tmp_path / "Rscript"
    script.write_text(f"#!{sys.executable}\n{STAND_IN}")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    return tmp_path / "Rscript.calls"


def test_tgp_is_asked_through_files_and_once_for_the_same_points(stand_in):
    posterior = make_surrogate("tgp", 2, burn_in=1000).fit(DATA, key=KEY)
    mixture = posterior.predict(DATA.x)
    np.testing.assert_allclose(mixture.means[0], DATA.y + 1.0)
    np.testing.assert_allclose(mixture.variances[0], 1.0)
    posterior.predict(DATA.x)
    assert stand_in.read_text() == "|"
    joint = posterior.joint(POINTS, POINTS[:2])
    np.testing.assert_allclose(joint.cov[0], np.exp(-((POINTS[:, None] - POINTS[None, :2]) ** 2).sum(-1)))
    with pytest.raises(InferenceError, match=r"Rscript ended with 1: Error in btgp: too few.*install.packages\('tgp'\)"):
        make_surrogate("tgp", 2).fit(Dataset(DATA.x[:3], DATA.y[:3]), key=KEY).predict(POINTS)


def test_r_itself_answers(needs):
    needs("Rscript")
    x = np.random.default_rng(1).random((30, 1))
    posterior = make_surrogate("tgp", 1, burn_in=200, total=700).fit(Dataset(x, np.sin(6 * x[:, 0])), key=KEY)
    assert np.abs(posterior.predict(x).means[0] - np.sin(6 * x[:, 0])).max() < 0.3
