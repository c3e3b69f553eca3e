"""The surrogate of one output in a file of its own: NPZ with a JSON header, no pickle. It predicts without the study."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hyperleaf import doors
from hyperleaf.domain import Domain
from hyperleaf.errors import InputError

if TYPE_CHECKING:
    from hyperleaf.mixture import Mixture
    from hyperleaf.surrogates.base import Diagnostics
    from hyperleaf.surrogates.learned import Learned

KIND = "hyperleaf model"


@dataclass(frozen=True)
class Model:
    """A surrogate ready for use: native units in, native units out."""

    learned: Learned
    domain: Domain
    output: str
    unit: str = ""
    certificate: Mapping[str, Any] = field(default_factory=dict, repr=False)  # what was known of it when it was written

    @property
    def diagnostics(self) -> Diagnostics:
        return self.learned.diagnostics

    export, sensitivity, optimum, level_set, propagate, derivatives = map(doors.method, doors.USES)

    def predict(self, points: Any, *, noisy: bool = False) -> Mixture:
        """The latent output at points in native units (DataFrame, list of dicts, array), or a new observation."""
        mixture = self.learned.predict(self.domain.to_unit(points))
        return mixture.noisy() if noisy else mixture


def save_model(
    path: str | Path,
    learned: Learned,
    domain: Domain,
    output: str,
    unit: str = "",
    certificate: Mapping[str, Any] | None = None,
) -> Path:
    """Write to exactly `path`, all or nothing."""
    from hyperleaf.surrogates.files import save_posterior

    content = {"kind": KIND, "learned": learned, "domain": domain.to_dict(), "output": output, "unit": unit}
    return save_posterior(path, content if certificate is None else {**content, "certificate": certificate})


def load_model(path: str | Path) -> Model:
    """The surrogate that `Study.save_model` or `hyperleaf export` wrote."""
    from hyperleaf.surrogates.files import load_posterior, whole
    from hyperleaf.surrogates.learned import Learned

    content = load_posterior(path)
    if not isinstance(content, dict) or content.get("kind") != KIND:
        raise InputError(f"{str(path)!r} holds no surrogate of a study. Write one with Study.save_model or hyperleaf export.")
    with whole(path):
        if not isinstance(content["learned"], Learned):
            raise TypeError("what it has learned is missing")
        domain = Domain.from_dict(content["domain"])
        certificate = content.get("certificate") or {}
        return Model(content["learned"], domain, str(content["output"]), str(content["unit"]), certificate)
