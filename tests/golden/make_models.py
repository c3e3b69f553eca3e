"""Writes golden model files: `make_models.py FOLDER`. Run only when a format version is added; files are kept.

One posterior of every kind of surrogate and inference, one regressor of every kind, a model of a study, all kernels, many
kinds of prior, and a store that holds what a study has learned. `expected.json` says what each of them predicts at POINTS.
They are small and badly mixed on purpose: they tell whether a file is read as it was written, not whether a model is good.
"""

import json
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
import numpyro.distributions as dist

import hyperleaf as hl
from hyperleaf.data import Dataset
from hyperleaf.gp import GP
from hyperleaf.inference.hmc import HMC, NUTS
from hyperleaf.inference.map import Map
from hyperleaf.inference.smc import SMC
from hyperleaf.kernels import (
    RBF,
    ChangeHyperplane,
    Constant,
    Linear,
    Matern12,
    Matern32,
    Matern52,
    Periodic,
    RationalQuadratic,
)
from hyperleaf.surrogates.files import save_posterior
from hyperleaf.surrogates.gp import GPSurrogate
from hyperleaf.surrogates.named import make_surrogate

rng = np.random.default_rng(14)
X = rng.uniform(size=(8, 2))
Y = np.sin(5 * X[:, 0]) + X[:, 1] + 0.2 * rng.normal(size=8)
STEEP = 4.0 * (X[:, 0] > np.median(X[:, 0])) + 0.1 * Y  # what a treed GP splits
POINTS = [[0.1, 0.2], [0.5, 0.5], [0.9, 0.3], [0.35, 0.95], [1.0, 0.0]]
ONE = 0.4  # where densities of priors are evaluated

SMALL_SMC = SMC(particles=6, max_moves=2, start_moves=2, leapfrog=3)
INFERENCE = {
    "smc": SMALL_SMC,
    "nuts": NUTS(warmup=8, draws=3, chains=2, max_depth=3),
    "hmc": HMC(burn_in=8, draws=6, thin=2, steps=3),
    "map": Map(restarts=2, max_steps=10),
}
TREED = {"burn_in": 300, "total": 360, "thin": 20, "chains": 2, "trend": "constant", "min_leaf": 3}
DEEP = {"sweeps": 20, "draws": 4, "chains": 2}


def surrogates() -> dict[str, Any]:
    """Every kind of surrogate by the name of its file."""
    alone = Map(restarts=2, max_steps=10, prior=False)
    found = {f"hhk-{name}": make_surrogate("hhk", 2, leaves=2, inference=one) for name, one in INFERENCE.items()}
    return found | {
        "stationary": make_surrogate("stationary", 2, inference=SMALL_SMC),
        "warped-ml": make_surrogate("warped", 2, inference=alone),
        "warped-smc": make_surrogate("warped", 2, indices=1, inference=SMALL_SMC),
        "averaged": make_surrogate("hhk", 2, choose_leaves=(1, 2), inference=SMALL_SMC),
        "treed": make_surrogate("treed", 2, **TREED),
        "deep-one": make_surrogate("deep", 2, layers=1, **DEEP),
        "deep-two": make_surrogate("deep", 2, layers=2, **DEEP),
        "kernels": GPSurrogate(GP(all_kernels(), dist.InverseGamma(3.0, 0.1), "constant"), INFERENCE["map"]),
    }


def all_kernels() -> Any:
    """A sum of every kernel that the other files do not hold."""
    left, normal = Matern32(dist.Gamma(2.0, 2.0)), dist.Normal(np.zeros(2), 1.0).to_event(1)
    return (
        RBF(dist.LogNormal(0.0, 1.0).expand((2,)), dist.TruncatedNormal(1.0, 0.5, low=0.0))
        + Matern12(0.5) * Constant(0.3)
        + Linear(dist.HalfNormal(1.0))
        + RationalQuadratic(dist.Uniform(0.1, 2.0), 0.2, 2.0)
        + Periodic(1.0, 0.1, 0.7)
        + ChangeHyperplane(left, Matern52(0.4), 0.0, normal)
    )


def priors() -> dict[str, Any]:
    """Distributions that can stand in a kernel's field, with what they are made of."""
    transforms, constraints = dist.transforms, dist.constraints
    scaled = [transforms.AffineTransform(0.1, 2.0), transforms.ExpTransform()]
    simple = {
        "Beta": (2.0, 3.0),
        "Cauchy": (0.0, 1.0),
        "Chi2": (3.0,),
        "Delta": (ONE,),
        "Exponential": (2.0,),
        "Gamma": (2.0, 3.0),
        "Gumbel": (0.0, 1.0),
        "HalfCauchy": (1.0,),
        "HalfNormal": (1.0,),
        "InverseGamma": (2.0, 1.0),
        "Kumaraswamy": (2.0, 3.0),
        "Laplace": (0.0, 1.0),
        "LogNormal": (0.0, 1.0),
        "LogUniform": (0.1, 2.0),
        "Logistic": (0.0, 1.0),
        "Normal": (0.0, 1.0),
        "Pareto": (0.1, 2.0),
        "SoftLaplace": (0.0, 1.0),
        "StudentT": (4.0, 0.0, 1.0),
        "Uniform": (0.0, 2.0),
        "VonMises": (0.0, 1.0),
        "Weibull": (1.0, 2.0),
    }
    made = {name: getattr(dist, name)(*parameters) for name, parameters in simple.items()}
    mixing, parts = dist.Categorical(np.array([0.3, 0.7])), dist.LogNormal(np.array([0.0, 1.0]), np.array([1.0, 0.5]))
    return made | {
        "expanded": dist.Gamma(2.0, 3.0).expand((1,)),
        "independent": dist.Normal(np.zeros(1), 1.0).to_event(1),
        "folded": dist.FoldedDistribution(dist.Normal(0.0, 1.0)),
        "improper": dist.ImproperUniform(constraints.positive, (), ()),
        "interval": dist.ImproperUniform(constraints.interval(0.0, 1.0), (), ()),
        "left truncated": dist.TruncatedNormal(0.5, 1.0, low=0.0),
        "right truncated": dist.TruncatedNormal(0.5, 1.0, high=2.0),
        "truncated": dist.TruncatedNormal(0.5, 1.0, low=0.0, high=2.0),
        "transformed": dist.TransformedDistribution(dist.Normal(0.0, 1.0), scaled),
        "softplus": dist.TransformedDistribution(dist.Normal(0.0, 1.0), transforms.SoftplusTransform()),
        "sigmoid": dist.TransformedDistribution(dist.Normal(0.0, 1.0), transforms.SigmoidTransform()),
        "mixture": dist.MixtureSameFamily(mixing, parts),
    }


def regressors() -> dict[str, Any]:
    """Every regressor by the name of its file; their models are those of `surrogates`, which saves compilations."""
    return {
        "regressor-hhk": hl.HHKRegressor(leaves=2, inference=SMALL_SMC, domain=hl.Domain(a=hl.Real(0, 1), b=hl.Real(0, 1))),
        "regressor-stationary": hl.StationaryRegressor("rbf", inference=SMALL_SMC, output_range=(-2.0, 2.0)),
        "regressor-warped": hl.WarpedRegressor(inference=Map(restarts=2, max_steps=10, prior=False)),
        "regressor-treed": hl.TreedRegressor(**TREED),
        "regressor-deep": hl.DeepRegressor(**DEEP),
    }


def told(mixture: Any) -> dict[str, list[float]]:
    """What is compared: every moment that depends on all that a file holds."""
    noisy = mixture.noisy()
    found = {"mean": mixture.mean(), "variance": mixture.var(), "noisy_variance": noisy.var()}
    return {name: [float(one) for one in np.asarray(values)] for name, values in found.items()}


def make_study(store: Path) -> hl.Study:
    """A study that has learned from six runs and waits for a person's seventh."""
    study = hl.Study.create(
        "learned",
        hl.Domain(a=hl.Real(0, 1), b=hl.Real(0, 1)),
        {"y": {"noise": 0.1}},
        storage=f"sqlite:///{store.resolve()}",
        surrogate={"kind": "stationary", "inference": {"kind": "smc", "particles": 4, "max_moves": 2, "start_moves": 2}},
        acquisition="random",
        design=6,
        seed=3,
    )
    study.add([{"a": float(a), "b": float(b), "y": float(y)} for (a, b), y in zip(X[:6], Y[:6], strict=True)])
    study.ask(owner="person")
    study.save()
    return study


def main(folder: Path) -> None:
    folder.mkdir(parents=True)
    expected: dict[str, Any] = {}
    for name, surrogate in surrogates().items():
        posterior = surrogate.fit(Dataset(X, STEEP if name == "treed" else Y), key=jax.random.key(1))
        if name == "hhk-smc":  # uneven weights, a history and the finding of the guard
            posterior = posterior.update([0.5, 0.1], 0.3, key=jax.random.key(2))
            posterior = posterior.checked(key=jax.random.key(3), x=np.array(POINTS))
        save_posterior(folder / f"{name}.npz", posterior)
        expected[name] = told(posterior.predict(np.array(POINTS)))
        if name in ("hhk-smc", "stationary", "averaged"):
            expected[name]["log_evidence"] = posterior.log_evidence
    for name, model in regressors().items():
        model.fit(X, Y).save(folder / f"{name}.npz")
        expected[name] = told(model.predict_mixture(np.array(POINTS)))
    with jax.enable_x64(True):
        save_posterior(folder / "priors.npz", priors())
        expected["priors"] = {name: float(np.sum(np.asarray(one.log_prob(ONE)))) for name, one in priors().items()}
    study = make_study(folder / "learned.sqlite")
    study.save_model(folder / "study-model.npz")
    at = [{"a": a, "b": b} for a, b in POINTS]
    expected["study-model"] = expected["learned"] = told(study.predict(at))
    study.storage.close()
    (folder / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
