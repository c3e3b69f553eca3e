"""ONNX: float64, standard operators of opset 18 only, points in native units in; mean, std and quantiles of the mixture out.

`onnx_moments` has the arithmetic of single draws, `onnx_nodes` what all of it is made with.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from hyperleaf.errors import InputError
from hyperleaf.exports.base import Format, Source, Wishes
from hyperleaf.exports.ingredients import SLACK, Ingredients, Part, quantile_name
from hyperleaf.exports.normal import CENTRE, coefficients
from hyperleaf.exports.onnx_moments import Moments
from hyperleaf.exports.onnx_nodes import Graph
from hyperleaf.io import replacing

OPSET, IR_VERSION = 18, 8
LARGEST = 1_500_000_000  # bytes; a file of Protocol Buffers ends at 2 GiB
HALVINGS = 60
RESERVED = ("x", "outside")  # names of the graph itself; an output of that name is called x_mean


def write(path: Path, source: Source, wishes: Wishes) -> dict[str, Any]:
    ingredients = source.ingredients(wishes)
    size = sum(8 * part.shape[0] * part.shape[1] ** 2 for part in ingredients.parts)
    if size > LARGEST:
        raise InputError(f"an ONNX file must stay below 2 GiB; this one would have {size / 2**30:.1f}. Thin it: tolerance=0.01.")
    model = model_of(ingredients)
    with replacing(path) as unfinished:
        unfinished.write_bytes(model.SerializeToString())
    what = f"an ONNX model of {', '.join(part.name for part in ingredients.parts)}"
    return {"what": what, "outputs put out": [one.name for one in model.graph.output], **ingredients.certificate}


def model_of(ingredients: Ingredients) -> Any:
    """The model, checked by ONNX itself."""
    try:
        import onnx
    except ImportError:
        raise InputError("ONNX needs the package onnx, which is not installed. Run: pip install 'hyperleaf[export]'") from None
    from onnx import TensorProto, helper

    graph = Graph()
    unit, wrong, outside = _to_unit(graph, ingredients)
    outputs = [helper.make_tensor_value_info("outside", TensorProto.BOOL, ["m"])]
    graph.add("Identity", outside, name="outside")
    for part, labels in zip(ingredients.parts, ingredients.labels(RESERVED), strict=True):
        values = _predicted(graph, part, unit, ingredients)
        for name, value in zip(labels, values, strict=True):
            graph.add("Where", wrong, graph.constant(np.nan), value, name=name)
            outputs.append(helper.make_tensor_value_info(name, TensorProto.DOUBLE, ["m"]))
    points = helper.make_tensor_value_info("x", TensorProto.DOUBLE, ["m", len(ingredients.axes)])
    made = helper.make_graph(graph.nodes, "hyperleaf", [points], outputs, graph.initializers)
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="hyperleaf")
    model.ir_version = IR_VERSION
    inputs = [{"name": axis.name, "unit": axis.unit, "values": axis.meaning()} for axis in ingredients.axes]
    units = {part.name: part.unit for part in ingredients.parts}
    facts: dict[str, Any] = {"inputs": inputs, "units": units, "certificate": ingredients.certificate}
    helper.set_model_props(model, {f"hyperleaf.{key}": json.dumps(fact) for key, fact in facts.items()})
    onnx.checker.check_model(model)
    return model


def _to_unit(graph: Graph, ingredients: Ingredients) -> tuple[str, str, str]:
    """Columns of the unit cube (m, d); whether there is no such point (m,), whether it is outside (m,)."""
    columns, wrong, outside = [], graph.constant(False, np.bool_), graph.constant(False, np.bool_)
    for k, axis in enumerate(ingredients.axes):
        x = graph.add("Gather", "x", graph.constant(k, np.int64), axis=1)  # (m,)
        low, high = axis.low - SLACK * abs(axis.low), axis.high + SLACK * abs(axis.high)
        within = graph("And", graph("GreaterOrEqual", x, low), graph("LessOrEqual", x, high))
        clipped = graph("Min", graph("Max", x, axis.low), axis.high)
        value = graph("Where", within, clipped, x)
        begin, end = axis.ends
        bad = graph("Not", within)
        outside = graph("Or", outside, bad)
        if axis.kind != "real":
            wrong = graph("Or", graph("Or", wrong, bad), graph("Not", graph("Equal", graph("Floor", value), value)))
        if axis.kind == "choice":
            hot = graph("Equal", graph.shaped(value, [-1, 1]), np.arange(axis.width, dtype=float)[None])
            columns.append(graph("Where", hot, 1.0, 0.0))
            continue
        if axis.kind == "integer":
            value = graph("Add", graph("Sub", value, 0.5), graph("Div", graph("Sub", value, axis.low), axis.high - axis.low))
        else:  # NaN and infinity are no points; differences of such from themselves are not zero
            wrong = graph("Or", wrong, graph("Not", graph("Equal", graph("Sub", value, value), 0.0)))
        if axis.log:
            wrong = graph("Or", wrong, graph("Not", graph("Greater", value, 0.0)))
            value = graph("Log", graph("Where", graph("Greater", value, 0.0), value, 1.0))
        u = graph("Div", graph("Sub", value, begin), end - begin)
        u = graph("Where", within, graph("Min", graph("Max", u, 0.0), 1.0), u)
        columns.append(graph.shaped(u, [-1, 1]))
    unit = graph.add("Concat", *columns, axis=1)
    rows = graph.shaped(wrong, [-1, 1])
    return graph("Where", rows, 0.5, unit), wrong, graph("Or", outside, wrong)


def _predicted(graph: Graph, part: Part, unit: str, ingredients: Ingredients) -> list[str]:
    """Mean, std, quantiles and slopes (m,) of one output."""
    from scipy.special import ndtri

    moments = Moments(graph, part, unit)
    means, variances = moments.values()  # (s, m)
    if ingredients.noisy:
        variances = graph("Add", variances, moments.noise())
    weights = part.weights[:, None]
    mean, spread = _mixed(graph, weights, means, variances)
    found = [graph("Add", graph("Mul", mean, part.scale), part.loc), graph("Mul", spread, part.scale)]
    std = graph("Max", graph("Sqrt", variances), 1e-300)
    for q in ingredients.quantiles:
        ends = graph("Add", means, graph("Mul", std, float(ndtri(q))))
        low = graph.add("ReduceMin", ends, graph.constant([0], np.int64), keepdims=0)
        high = graph.add("ReduceMax", ends, graph.constant([0], np.int64), keepdims=0)
        value = _quantile(graph, q, low, high, means, std, weights)
        found.append(graph("Add", graph("Mul", value, part.scale), part.loc))
    for k, axis in enumerate(ingredients.axes):
        if ingredients.derivatives and axis.kind == "real":
            factor = graph.constant(part.scale / (axis.ends[1] - axis.ends[0]))
            if axis.log:
                factor = graph("Div", factor, graph.add("Gather", "x", graph.constant(k, np.int64), axis=1))
            found += [graph("Mul", one, factor) for one in _mixed(graph, weights, *moments.slopes(axis.start))]
    return found


def _mixed(graph: Graph, weights: Any, means: str, variances: str) -> tuple[str, str]:
    """Mean and std of the mixture."""
    mean = graph.sum(graph("Mul", means, weights), 0)
    apart = graph("Sub", means, mean)
    var = graph.sum(graph("Mul", graph("Add", variances, graph("Mul", apart, apart)), weights), 0)
    return mean, graph("Sqrt", var)


def _quantile(graph: Graph, q: float, low: str, high: str, means: str, std: str, weights: Any) -> str:
    """By halving a bracket that holds it, in a loop."""
    from onnx import TensorProto, helper

    prefix = f"loop{len(graph.nodes)}_"
    body = Graph(prefix)
    middle = body("Mul", body("Add", f"{prefix}low_in", f"{prefix}high_in"), 0.5)
    z = body("Div", body("Sub", middle, means), std)
    below = body("Less", body.sum(body("Mul", _normal_cdf(body, z), weights), 0), q)
    body.add("Where", below, middle, f"{prefix}low_in", name=f"{prefix}low_out")
    body.add("Where", below, f"{prefix}high_in", middle, name=f"{prefix}high_out")
    body.add("Identity", f"{prefix}go_in", name=f"{prefix}go_out")
    row: list[str] = ["m"]
    flag: list[str] = []
    inputs = [
        helper.make_tensor_value_info(prefix + "step", TensorProto.INT64, flag),
        helper.make_tensor_value_info(prefix + "go_in", TensorProto.BOOL, flag),
        helper.make_tensor_value_info(prefix + "low_in", TensorProto.DOUBLE, row),
        helper.make_tensor_value_info(prefix + "high_in", TensorProto.DOUBLE, row),
    ]
    outputs = [
        helper.make_tensor_value_info(prefix + "go_out", TensorProto.BOOL, flag),
        helper.make_tensor_value_info(prefix + "low_out", TensorProto.DOUBLE, row),
        helper.make_tensor_value_info(prefix + "high_out", TensorProto.DOUBLE, row),
    ]
    loop = helper.make_graph(body.nodes, f"{prefix}{quantile_name(q)}", inputs, outputs, body.initializers)
    ends = [f"{prefix}low", f"{prefix}high"]
    count, go = graph.constant(HALVINGS, np.int64), graph.constant(True, np.bool_)
    graph.nodes.append(helper.make_node("Loop", [count, go, low, high], ends, body=loop))
    return graph("Mul", graph("Add", *ends), 0.5)


def _normal_cdf(graph: Graph, z: str) -> str:
    """Φ, through a Chebyshev series by Clenshaw's rule."""
    x = graph("Mul", graph("Abs", z), float(np.sqrt(0.5)))
    t = graph("Div", graph("Sub", x, CENTRE), graph("Add", x, CENTRE))
    twice = graph("Mul", t, 2.0)
    first, second = graph("Mul", t, 0.0), graph("Mul", t, 0.0)
    series = coefficients()
    for coefficient in series[:0:-1]:
        first, second = graph("Add", graph("Sub", graph("Mul", twice, first), second), coefficient), first
    value = graph("Add", graph("Sub", graph("Mul", t, first), second), series[0])
    fall = graph("Exp", graph("Neg", graph("Mul", x, x)))
    tail = graph("Mul", graph("Div", graph("Mul", value, fall), graph("Add", graph("Mul", x, 2.0), 1.0)), 0.5)
    return graph("Where", graph("Greater", z, 0.0), graph("Sub", 1.0, tail), tail)


FORMAT = Format((".onnx",), "an ONNX model in double precision", write)
