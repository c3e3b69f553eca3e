"""A function for MATLAB and GNU Octave that needs no toolbox. Draws are factorised at the first call and kept until `clear`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from hyperleaf.exports.base import Format, Source, Wishes
from hyperleaf.exports.c_source import identifier
from hyperleaf.exports.ingredients import SLACK, Ingredients, Part, Values
from hyperleaf.exports.texts import filled, lines_of, template
from hyperleaf.io import replacing

_KINDS = {"real": 0, "integer": 1, "choice": 2}


def write(path: Path, source: Source, wishes: Wishes) -> dict[str, Any]:
    ingredients = source.ingredients(wishes)
    # MATLAB finds a function by the name of its file.
    target = path.with_name(identifier(path.stem) + path.suffix)
    with replacing(target) as unfinished:
        unfinished.write_text(text_of(ingredients, target.stem), encoding="utf-8")
    named = "" if target == path else f", {target.name} by name, as the function must be called"
    return {
        "what": f"a MATLAB function of {', '.join(part.name for part in ingredients.parts)}{named}",
        **ingredients.certificate,
    }


def text_of(ingredients: Ingredients, name: str) -> str:
    from scipy.special import ndtri

    parts, axes = ingredients.parts, ingredients.axes
    quantiles = ingredients.quantiles
    rows = "; ".join(f"{q!r}, {float(ndtri(q))!r}" for q in quantiles)
    listed = ", ".join(f"{q:g}" for q in quantiles)
    return filled(
        template("surrogate.m"),
        {
            "name": name,
            "NAME": name.upper(),
            "TITLE": f"{', '.join(part.name for part in parts)}, a surrogate by hyperleaf".replace("\n", " "),
            "INPUT_LINES": lines_of("\n".join(f"{axis.name}: {axis.meaning()}" for axis in axes), "%     "),
            "OUTPUT_LINES": lines_of("\n".join(part.name + (f" [{part.unit}]" if part.unit else "") for part in parts), "%     "),
            "QUANTILE_OUTPUT": ", quantiles" if quantiles else "",
            "QUANTILE_LINES": f"%   quantiles: (points, levels, outputs) at the levels {listed}.\n" if quantiles else "",
            **_slopes(ingredients),
            "CERTIFICATE": lines_of(json.dumps(ingredients.certificate, indent=1), "%   "),
            "what": "a new observation, with its noise" if ingredients.noisy else "the latent value, without noise",
            "LEVELS": f"[{rows}]" if quantiles else "zeros(0, 2)",
            "NOISY": "true" if ingredients.noisy else "false",
            "slack": repr(SLACK),
            "AXES": "\n".join(
                f"    axes{{{k}}} = struct('kind', {_KINDS[axis.kind]}, 'is_log', {str(axis.log).lower()}, 'low', {axis.low!r}, "
                f"'high', {axis.high!r}, 'first', {axis.ends[0]!r}, 'last', {axis.ends[1]!r}, 'start', {axis.start}, "
                f"'width', {axis.width});"
                for k, axis in enumerate(axes, 1)
            ),
            "PARTS": "\n".join(line for p, part in enumerate(parts, 1) for line in _part(p, part)),
        },
    )


def _slopes(ingredients: Ingredients) -> dict[str, str]:
    """What stands in the template where derivatives are asked for."""
    if not ingredients.derivatives:
        return {"SLOPES_OUTPUT": "", "SLOPES_LINES": "", "SLOPES_CALL": "", "SLOPES": ""}
    words = "%   slopes, slope_stds: (points, inputs, outputs), derivatives by the real inputs, NaN for others.\n"
    call = filled(template("slopes_call.m"), {"QUANTILED": int(bool(ingredients.quantiles))})
    return {"SLOPES_OUTPUT": ", slopes, slope_stds", "SLOPES_LINES": words, "SLOPES_CALL": call, "SLOPES": template("slopes.m")}


def _part(p: int, part: Part) -> Iterator[str]:
    s, _, d, leaves, gates = part.shape
    yield "    part = struct();"
    for name in ("loc", "scale", "power", "constant", "linear"):
        yield f"    part.{name} = {float(getattr(part, name))!r};"
    yield f"    part.profile = '{part.profile}';"
    for name in ("weights", "noise", "y"):
        yield f"    part.{name} = {_matrix(getattr(part, name)[None])};"
    for name in ("offset", "variance", "tilt", "x", "nugget"):
        yield f"    part.{name} = {_matrix(getattr(part, name))};"
    # Columns run fastest there, and the draw is the last index.
    for name, shape in (("normal", (gates, d)), ("side", (leaves, gates)), ("lengthscale", (leaves, d))):
        flat = np.transpose(np.asarray(getattr(part, name), dtype=np.float64), (0, 2, 1)).reshape(1, -1)
        yield f"    part.{name} = reshape({_matrix(flat)}, [{shape[0]}, {shape[1]}, {s}]);"
    yield "    part.factor = {};"
    yield "    part.at_data = {};"
    yield f"    part.whitened = zeros({len(part.y)}, {s});"
    yield f"    parts{{{p}}} = part;"


def _matrix(array: Values) -> str:
    """Rows in lines of bounded length; a number as short as it can be without losing a digit."""
    rows = []
    for row in array.tolist():
        texts = [repr(float(value)) for value in row]
        rows.append(", ...\n        ".join(", ".join(texts[i : i + 6]) for i in range(0, len(texts), 6)))
    return "[" + "; ...\n        ".join(rows) + "]"


FORMAT = Format((".m",), "a MATLAB or Octave function", write)
