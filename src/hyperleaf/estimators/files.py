"""A fitted regressor in one file: an NPZ of arrays with a JSON header, no pickle.

Parameters, box, output scale and posterior are kept to the last bit: what is loaded predicts and learns on as what was saved.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from hyperleaf.domain import Domain
from hyperleaf.errors import InputError
from hyperleaf.estimators import regressors
from hyperleaf.estimators.base import SurrogateRegressor
from hyperleaf.surrogates.base import Posterior
from hyperleaf.surrogates.files import load_posterior, save_posterior, whole
from hyperleaf.surrogates.kinds import KINDS
from hyperleaf.surrogates.learned import Learned
from hyperleaf.surrogates.named import KERNELS
from hyperleaf.surrogates.robust import Robust

KIND = "hyperleaf regressor"
ROBUST = ("everything", "counted", "passed")
# By what files call them, which stays.
REGRESSORS: dict[str, type[SurrogateRegressor]] = {kind.regressor: getattr(regressors, kind.regressor) for kind in KINDS.values()}


def save_regressor(path: str | Path, model: SurrogateRegressor) -> Path:
    """Write a fitted regressor to exactly `path`, all or nothing."""
    names = [name for name, cls in REGRESSORS.items() if cls is type(model)]
    if not names:
        raise InputError(f"a file holds one of {list(REGRESSORS)}; got {type(model).__name__}. Save its posterior_ instead.")
    learned = model.learned_
    content = {
        "kind": KIND,
        "regressor": names[0],
        "params": {name: _plain(value, model) for name, value in model.get_params(deep=False).items()},
        "domain": model.domain_.to_dict(),
        "standardizer": learned.scale,
        "posterior": learned.posterior,
        "X": model._X,
        "y": learned.y,
        "noise": learned.noise,
        "notes": learned.notes,
        "rescaled": learned.rescaled,
        "robust": {name: getattr(learned, name) for name in ROBUST} if isinstance(learned, Robust) else None,
        "seed": model._seed,
        "names": [str(name) for name in getattr(model, "feature_names_in_", [])],
        "n_features": int(model.n_features_in_),
    }
    return save_posterior(path, content)


def load_regressor(path: str | Path) -> SurrogateRegressor:
    """The regressor that `save_regressor` wrote."""
    content = load_posterior(path)
    if not isinstance(content, dict) or content.get("kind") != KIND or content.get("regressor") not in REGRESSORS:
        raise InputError(f"{str(path)!r} holds no regressor but {type(content).__name__}. Read a posterior with load_posterior.")
    with whole(path):
        return _regressor(content)


def _regressor(content: Mapping[str, Any]) -> SurrogateRegressor:
    params = dict(content["params"])
    params["domain"] = None if params["domain"] is None else Domain.from_dict(params["domain"])
    model = REGRESSORS[content["regressor"]](**params)
    model.domain_ = Domain.from_dict(content["domain"]) if model.domain is None else model.domain
    if not isinstance(content["posterior"], Posterior):
        raise TypeError("its posterior is none")
    given = model.output_range is not None
    more = content.get("robust")
    model.learned_ = (Learned if more is None else Robust)(
        content["posterior"],
        content["standardizer"],
        content["y"],
        content["noise"],
        fixed_scale=given or content["posterior"].surrogate.scale_free,
        notes=content["notes"],
        given_scale=given,
        rescaled=content.get("rescaled"),
        **(more or {}),
    )
    model._X, model._seed = content["X"], content["seed"]
    model.n_features_in_ = content["n_features"]
    if content["names"]:
        model.feature_names_in_ = np.array(content["names"], dtype=object)
    return model


def _plain(value: Any, model: SurrogateRegressor) -> Any:
    """A parameter as a file can hold it: domains by their description, kernel classes by name, a RandomState by its seed."""
    if isinstance(value, Domain):
        return value.to_dict()
    if isinstance(value, np.random.RandomState):
        return model._seed
    if isinstance(value, type):
        names = [name for name, cls in KERNELS.items() if cls is value]
        if not names:
            raise InputError(
                f"a file holds kernels of hyperleaf only; got {value.__name__}. Save the regressor's posterior_ instead."
            )
        return names[0]
    return value
