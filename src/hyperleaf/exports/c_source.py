"""C: one header and one source, for controllers and whatever else links C. C99, no allocation, libm only, `double` throughout.

The code is a template that is the same for all surrogates; what is written here are its sizes and its tables. Factors of the
covariances stand in the source where they are small enough for a compiler; otherwise `…_init()` makes them, which takes a
fraction of a second.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from hyperleaf.errors import InputError
from hyperleaf.exports.base import Format, Source, Wishes
from hyperleaf.exports.ingredients import PROFILES, SLACK, AxisForm, Ingredients, Part, Values
from hyperleaf.exports.numerics import predict
from hyperleaf.exports.texts import filled, lines_of, template
from hyperleaf.io import replacing

STORED = 100_000  # numbers of the factors of all outputs up to which they are written out; 2.5 MB of source
TEST_POINTS = 8
_KINDS = {"real": "REAL", "integer": "INTEGER", "choice": "CHOICE"}
_RESERVED = {
    "auto",
    "double",
    "float",
    "int",
    "long",
    "short",
    "signed",
    "static",
    "struct",
    "union",
    "void",
    "main",
    "parts",
    "axes",
}


def write(path: Path, source: Source, wishes: Wishes) -> dict[str, Any]:
    ingredients = source.ingredients(wishes)
    name = identifier(path.stem)
    header = path.with_suffix(".h")
    texts = sources(ingredients, name, header.name)
    for target, text in zip((header, path), texts, strict=True):
        with replacing(target) as unfinished:
            unfinished.write_text(text, encoding="utf-8")
    return {
        "what": f"C code of {', '.join(part.name for part in ingredients.parts)}, with {header.name} beside it",
        "files": [str(path), str(header)],
        "stored": _is_stored(ingredients),
        **ingredients.certificate,
    }


def identifier(text: str) -> str:
    """The text as a name in C."""
    name = re.sub(r"\W", "_", text, flags=re.ASCII).lower()
    if not name or name[0].isdigit():
        name = f"m{name}"
    return f"{name}_" if name in _RESERVED else name


def sources(ingredients: Ingredients, name: str, header: str) -> tuple[str, str]:
    """The header and the source."""
    parts, axes = ingredients.parts, ingredients.axes
    what = "a new observation" if ingredients.noisy else "the latent value"
    names: Mapping[str, Any] = {
        "TITLE": f"{', '.join(part.name for part in parts)}, a surrogate by hyperleaf".replace("*/", "* /"),
        "CERTIFICATE": lines_of(json.dumps(ingredients.certificate, indent=1), " * ").replace("*/", "* /"),
        "name": name,
        "NAME": name.upper(),
        "header": header,
        "inputs": len(axes),
        "outputs": len(parts),
        "quantiles": len(ingredients.quantiles),
        "what": what + "".join(f"; quantile {q:g}" for q in ingredients.quantiles),
        "INPUT_LINES": _comment(f"{axis.name}: {axis.meaning()}" for axis in axes),
        "OUTPUT_LINES": _comment(f"{part.name}" + (f" [{part.unit}]" if part.unit else "") for part in parts),
        "dims": parts[0].shape[2],
        "max_draws": max(part.shape[0] for part in parts),
        "max_points": max(part.shape[1] for part in parts),
        "max_leaves": max(part.shape[3] for part in parts),
        "max_gates": max(part.shape[4] for part in parts),
        "noisy": int(ingredients.noisy),
        "stored": int(_is_stored(ingredients)),
        "slack": repr(SLACK),
        **_slopes(ingredients),
        "DATA": _data(ingredients, name),
        "TEST": _test(ingredients),
    }
    return filled(template("surrogate.h"), names), filled(template("surrogate.c"), names)


def _slopes(ingredients: Ingredients) -> dict[str, str]:
    """What stands in the templates where derivatives are asked for."""
    if not ingredients.derivatives:
        return {"SLOPES_HEADER": "", "SLOPES": "", "SLOPES_TEST": ""}
    return {key: template(f"{key.lower()}.c") for key in ("SLOPES_HEADER", "SLOPES", "SLOPES_TEST")}


def _is_stored(ingredients: Ingredients) -> bool:
    return sum(part.triangle for part in ingredients.parts) <= STORED


def _comment(texts: Iterable[str]) -> str:
    return "\n".join(f" *   {text}" for text in texts).replace("*/", "* /")


def _data(ingredients: Ingredients, name: str) -> str:
    blocks = [_axes(ingredients.axes)]
    structs = []
    for p, part in enumerate(ingredients.parts):
        tables, struct = _part(p, part, _is_stored(ingredients))
        blocks += tables
        structs.append(struct)
    blocks.append("static const part_t parts[] = {\n" + ",\n".join(structs) + "\n};\n")
    if ingredients.quantiles:
        from scipy.special import ndtri

        rows = ", ".join(f"{{{q!r}, {float(ndtri(q))!r}}}" for q in ingredients.quantiles)
        blocks.append(f"static const double levels[][2] = {{{rows}}};\n")
    digests = "".join(one["data"]["sha256"] for one in ingredients.certificate.get("outputs", []))
    for label, texts in (
        ("input", [axis.name for axis in ingredients.axes]),
        ("output", [part.name for part in ingredients.parts]),
    ):
        blocks.append(f"const char *const {name}_{label}_names[{name.upper()}_{label.upper()}S] = {{{_strings(texts)}}};\n")
    blocks.append(f'const char *const {name}_data_hash = "{digests[:64]}";\n')
    return "\n".join(blocks)


def _axes(axes: tuple[AxisForm, ...]) -> str:
    rows = []
    for axis in axes:
        ends = ", ".join(repr(float(value)) for value in (axis.low, axis.high, *axis.ends))
        rows.append(f"    {{{_KINDS[axis.kind]}, {int(axis.log)}, {ends}, {axis.start}u, {axis.width}u}}")
    return "static const axis_t axes[] = {\n" + ",\n".join(rows) + "\n};\n"


def _part(p: int, part: Part, stored: bool) -> tuple[list[str], str]:
    s, n, _, leaves, gates = part.shape
    rows, columns = np.tril_indices(n)
    arrays: dict[str, Values] = {
        "weights": part.weights,
        "offset": part.offset,
        "normal": part.normal,
        "rate": 1.0 / part.lengthscale,
        "variance": part.variance,
        "noise": part.noise,
        "tilt": part.tilt,
        "x": part.x,
        "y": part.y,
        "nugget": part.nugget,
    }
    if stored:
        arrays |= {"factor": part.factor[:, rows, columns], "whitened": part.whitened}
    tables = [_table("double", f"{key}_{p}", map(repr, array.ravel().tolist())) for key, array in arrays.items()]
    tables.append(_table("signed char", f"side_{p}", map(str, part.side.ravel().tolist())))
    if not stored:
        tables.append(f"static double factor_{p}[{part.triangle}];\nstatic double whitened_{p}[{s * n}];\n")
    tables.append(f"static double mixing_{p}[{s * n * leaves}];\n")
    numbers = (part.power, part.constant, part.linear, part.loc, part.scale)
    order = (
        "weights",
        "offset",
        "normal",
        "side",
        "rate",
        "variance",
        "noise",
        "tilt",
        "x",
        "y",
        "nugget",
        "factor",
        "whitened",
        "mixing",
    )
    struct = (
        f"    {{{s}u, {n}u, {leaves}u, {gates}u, {PROFILES.index(part.profile)}, "
        f"{', '.join(repr(float(value)) for value in numbers)},\n     {', '.join(f'{key}_{p}' for key in order)}}}"
    )
    return tables, struct


def _table(kind: str, name: str, values: Iterable[str]) -> str:
    lines, line = [], "   "
    for value in values:
        if len(line) + len(value) > 126:
            lines.append(line)
            line = "   "
        line += f" {value},"
    return f"static const {kind} {name}[] = {{\n" + "\n".join([*lines, line]).rstrip(",") + "\n};\n"


def test_points(ingredients: Ingredients, num: int = TEST_POINTS) -> Values:
    """Points inside the domain: corners of it and what lies between, in native numbers."""
    rows = []
    for i in range(num):
        row = []
        for k, axis in enumerate(ingredients.axes):
            place = (0.5 + (i + 1) * (0.6180339887498949 * (k + 1))) % 1.0
            if axis.kind == "real":
                a, b = axis.ends
                value = a + place * (b - a)
                row.append(float(np.clip(np.exp(value) if axis.log else value, axis.low, axis.high)))
            else:
                row.append(float(min(axis.low + np.floor(place * (axis.high - axis.low + 1)), axis.high)))
        rows.append(row)
    return np.array(rows)


def _test(ingredients: Ingredients) -> str:
    points = test_points(ingredients)
    answer = predict(ingredients, points)
    means, stds = (np.stack([answer[part.name][key] for part in ingredients.parts], axis=1) for key in ("mean", "std"))
    sizes = [part.scale for part in ingredients.parts]
    if not np.isfinite(means).all() or not np.isfinite(stds).all():
        raise InputError("an export must predict finite numbers; this surrogate does not. See its diagnostics.")
    tables = [("test_inputs", points, "INPUTS"), ("test_means", means, "OUTPUTS"), ("test_stds", stds, "OUTPUTS")]
    if ingredients.derivatives:
        for table, ending in (("test_slopes", ""), ("test_spreads", "_std")):
            columns = [
                answer[part.name].get(f"by_{axis.name}{ending}", np.zeros(len(points)))
                for part in ingredients.parts
                for axis in ingredients.axes
            ]
            tables.append((table, np.stack(columns, axis=1), "OUTPUTS * @NAME@_INPUTS"))
    text = ""
    for name, array, width in tables:
        rows = ",\n".join("    {" + ", ".join(map(repr, row)) + "}" for row in array.tolist())
        text += f"static const double {name}[][@NAME@_{width}] = {{\n{rows}\n}};\n"
    return text + f"static const double test_sizes[] = {{{', '.join(map(repr, sizes))}}};\n"


def _strings(texts: list[str]) -> str:
    """String literals in ASCII; what is beyond it, byte by byte."""
    return ", ".join(f'"{"".join(map(_letter, text.encode()))}"' for text in texts)


def _letter(byte: int) -> str:
    return chr(byte) if 32 <= byte < 127 and chr(byte) not in '"\\?' else f"\\{byte:03o}"


FORMAT = Format((".c",), "C source and header", write)
