"""Maps of the noise, where it differs from place to place."""

from __future__ import annotations

from typing import Any

import numpy as np

from hyperleaf.domain import Domain
from hyperleaf.errors import InputError
from hyperleaf.mixture import Mixture
from hyperleaf.plots.maps import posterior_maps
from hyperleaf.plots.sheet import Backend, Values
from hyperleaf.plots.subject import HELD, read_subject


def noise_maps(
    model: Any,
    domain: Domain | None = None,
    *,
    at: Any = None,
    output: str | None = None,
    probability: float = 0.9,
    resolution: int | None = None,
    backend: Backend = "plotly",
) -> Any:
    """The standard deviation of the noise over the inputs, with what is not known of it: like `posterior_maps`, of the noise.

    `model` is an estimator, a study, a loaded model or a posterior. A noise that is the same everywhere is a flat line.
    """
    held = read_subject(model, output, domain)
    if held is None:
        raise InputError(f"a map of the noise needs {HELD}; got {type(model).__name__}.")

    def predict(points: Values) -> Mixture:
        mixture = held.predict(points)
        noise = np.sqrt(np.maximum(np.asarray(mixture.noise_at_candidates()), 0.0))
        return Mixture(mixture.weights, noise, np.zeros_like(noise))  # each draw is sure of its own

    label = f"noise (std) of {held.label}"
    return posterior_maps(
        predict, held.domain, at=at, output=label, probability=probability, resolution=resolution, backend=backend
    )
