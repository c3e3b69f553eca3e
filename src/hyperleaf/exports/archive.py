"""The whole surrogate of one output as NPZ, which `load_model` and `hyperleaf predict` read: every kind, every draw."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hyperleaf.exports.base import Format, Source, Wishes


def write(path: Path, source: Source, wishes: Wishes) -> dict[str, Any]:
    from hyperleaf.exports.certificate import certified
    from hyperleaf.study.files import save_model

    wishes.must_be_plain("an .npz holds the surrogate whole, and is asked for noise, quantiles and slopes when it predicts")
    name, model = source.one(wishes)
    certificate = certified({name: model}, source.accuracy, [None], [None], wishes)
    save_model(path, model.learned, model.domain, name, model.unit, certificate)
    return {"what": f"the surrogate of {name}", "output": name, **certificate}


FORMAT = Format((".npz",), "the surrogate, for hyperleaf", write)
