"""What goes with every exported surrogate: from which data it was learned and how, how good it is, and where it holds.

The same surrogate gives the same certificate, to the last letter: no dates, no paths, no machine.
"""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np

from hyperleaf.exports.base import Wishes

if TYPE_CHECKING:
    from hyperleaf.exports.ingredients import Part
    from hyperleaf.exports.thinning import Thinned
    from hyperleaf.study.accuracy import Accuracy
    from hyperleaf.study.files import Model

REFERENCES = 128  # points of the domain over which the expected error is averaged
FIGURES = (
    "expected_rmse",
    "loo_rmse",
    "loo_coverage",
    "loo_nlpd",
    "calibration",
    "test_rmse",
    "test_coverage",
    "test_nlpd",
    "noise",
)


def data_hash(model: Model) -> str:
    """SHA-256 of inputs in the unit cube, outputs in native units and their known noise: the same data, the same letters."""
    y, noise = model.learned.y, model.learned.noise
    digest = hashlib.sha256()
    for array in (model.learned.posterior.data.x, y, np.zeros(0) if noise is None else noise):
        digest.update(str(np.shape(array)).encode())
        digest.update(np.ascontiguousarray(array, dtype="<f8").tobytes())
    return digest.hexdigest()


def measured(models: Mapping[str, Model]) -> dict[str, Accuracy]:
    """Accuracy of models that have no study to ask."""
    from hyperleaf.study.accuracy import measure

    found = {}
    for name, model in models.items():
        references = model.domain.to_unit(model.domain.design(REFERENCES, "sobol", 0))
        found[name] = measure(model.learned, references)
    return found


def certified(
    models: Mapping[str, Model],
    accuracy: Mapping[str, Accuracy],
    parts: Sequence[Part | None],
    losses: Sequence[Thinned | None],
    wishes: Wishes,
) -> dict[str, Any]:
    """As JSON can hold it."""
    outputs = [
        _output(name, model, accuracy[name], part, loss)
        for (name, model), part, loss in zip(models.items(), parts, losses, strict=True)
    ]
    return {
        "made by": f"hyperleaf {version('hyperleaf')}",
        "with": {"python": platform.python_version(), **{name: version(name) for name in ("numpy", "scipy", "jax")}},
        "predicts": "a new observation" if wishes.noisy else "the latent value, without noise",
        "outputs": outputs,
        "domain": next(iter(models.values())).domain.to_dict(),
        "outside": "flagged; values are extrapolated there, NaN where there is no such point. Constraints are not checked.",
    }


def _output(name: str, model: Model, accuracy: Accuracy, part: Part | None, loss: Thinned | None) -> dict[str, Any]:
    posterior = model.learned.posterior
    settings: dict[str, Any] = {"surrogate": type(posterior.surrogate).__name__, "inference": posterior.diagnostics.method}
    if part is not None:
        s, _, _, leaves, _ = part.shape
        trend = "linear" if part.linear else "constant" if part.constant else "zero"
        weights = "sqrt" if part.power < 1 else "product"
        settings |= {"kernel": part.profile, "leaves": leaves, "weights": weights, "mean": trend, "draws": s}
    figures = {key: getattr(accuracy, key) for key in FIGURES}
    found: dict[str, Any] = {
        "name": name,
        "unit": model.unit,
        "settings": settings,
        "data": {"runs": len(model.learned.y), "sha256": data_hash(model)},
        "accuracy": {key: None if value is None else _short(value) for key, value in figures.items()},
    }
    if loss is not None:
        found["thinned"] = {
            "draws before": loss.before,
            "draws": loss.after,
            "largest change of the mean": _short(loss.mean_loss),
            "largest change of the std": _short(loss.std_loss),
            "in units of": "the std at that place",
            "of places": loss.places,
        }
    return found


def _short(value: float) -> float | None:
    return float(f"{value:.6g}") if np.isfinite(value) else None


def summary(certificate: Mapping[str, Any]) -> list[str]:
    """Sentences for people."""
    lines = [f"Made by {certificate['made by']}; predicts {certificate['predicts']}."]
    for one in certificate["outputs"]:
        accuracy = one["accuracy"]
        lines.append(f"{one['name']}: learned from {one['data']['runs']} runs (SHA-256 {one['data']['sha256'][:16]}…).")
        if accuracy["loo_rmse"] is not None:
            share = f"{100 * accuracy['loo_coverage']:.0f} % lie in their 90 % interval"
            error = f"{accuracy['loo_rmse']:.3g} {one['unit']}".rstrip()
            lines.append(f"Leaving one run out, the error is {error}; {share}.")
        if "thinned" in one:
            loss = one["thinned"]
            mean, std = (100 * loss[f"largest change of the {what}"] for what in ("mean", "std"))
            kept = f"{loss['draws']} of {loss['draws before']} draws are kept"
            lines.append(f"{kept}; mean and std move by at most {mean:.2g} % and {std:.2g} % of the std.")
    return [*lines, f"Outside the domain: {certificate['outside']}"]
