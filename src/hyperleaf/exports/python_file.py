"""A Python file that needs NumPy alone: for a colleague, a server, a notebook without hyperleaf."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from pprint import pformat
from typing import Any

import numpy as np

from hyperleaf.exports.base import Format, Source, Wishes
from hyperleaf.exports.ingredients import SLACK, Ingredients, Part, quantile_name
from hyperleaf.exports.normal import CENTRE, coefficients
from hyperleaf.exports.texts import filled, template
from hyperleaf.io import replacing

STORED = 400_000  # numbers of the factors up to which they are written out; 4 MB


def write(path: Path, source: Source, wishes: Wishes) -> dict[str, Any]:
    ingredients = source.ingredients(wishes)
    with replacing(path) as unfinished:
        unfinished.write_text(text_of(ingredients), encoding="utf-8")
    return {"what": f"a Python file of {', '.join(part.name for part in ingredients.parts)}", **ingredients.certificate}


def text_of(ingredients: Ingredients) -> str:
    from scipy.special import ndtri

    axes, parts = ingredients.axes, ingredients.parts
    stored = sum(part.triangle for part in parts) <= STORED
    described = [
        {
            "name": axis.name,
            "unit": axis.unit,
            "kind": axis.kind,
            "low": axis.low,
            "high": axis.high,
            "log": axis.log,
            "begin": axis.ends[0],
            "end": axis.ends[1],
            "options": list(axis.options),
            "start": axis.start,
            "width": axis.width,
        }
        for axis in axes
    ]
    example = [axis.options[0] if axis.options else axis.low for axis in axes]
    names = [part.name for part in parts]
    text = filled(
        template("surrogate.py.txt"),
        {
            "TITLE": _safe(f"{', '.join(names)}, a surrogate by hyperleaf"),
            "EXAMPLE": _safe(repr(example)),
            "FIRST": _safe(names[0]),
            "QUANTILE_KEYS": "".join(f', "{quantile_name(q)}": array([…])' for q in ingredients.quantiles),
            "INPUT_LINES": _safe("\n".join(f"    {axis.name}: {axis.meaning()}" for axis in axes)),
            "what": "a new observation, with its noise" if ingredients.noisy else "the latent value, without noise",
            "CERTIFICATE": pformat(ingredients.certificate, width=120, sort_dicts=False),
            "AXES": pformat(described, width=120, sort_dicts=False),
            "NOISY": ingredients.noisy,
            "LEVELS": repr([(quantile_name(q), q, float(ndtri(q))) for q in ingredients.quantiles]),
            "ERFCX": pformat(list(coefficients()), width=120, compact=True) if ingredients.quantiles else "[]",
            "CENTRE": CENTRE,
            "slack": repr(SLACK),
            "PARTS": "\n".join(line for part in parts for line in _part(part, stored)),
        },
    )
    return text


def _safe(text: str) -> str:
    """As it may stand in a docstring."""
    return text.replace("\\", "\\\\").replace('"""', "'''")


def _part(part: Part, stored: bool) -> Iterator[str]:
    plain = {name: getattr(part, name) for name in ("name", "unit", "loc", "scale", "profile", "power", "constant", "linear")}
    names = ("weights", "offset", "normal", "side", "lengthscale", "variance", "noise", "tilt", "x", "y", "nugget")
    arrays = {name: np.asarray(getattr(part, name), dtype=np.float64) for name in names}
    if stored:
        arrays["factor"] = part.factor[(slice(None), *np.tril_indices(len(part.y)))]
    yield "        {"
    for name, value in plain.items():
        yield f"            {name!r}: {value!r},"
    for name, array in arrays.items():
        text = base64.b64encode(np.ascontiguousarray(array, dtype="<f8").tobytes()).decode()
        yield f"            {name!r}: ({array.shape!r}, {text!r}),"
    yield "        },"


FORMAT = Format((".py",), "a Python file that needs NumPy alone", write)
