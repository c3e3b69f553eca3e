"""ONNX: float64, standard operators of opset 18 only, points in native units in; mean, std and quantiles of the mixture out.

Draws go side by side in the first axis of every array; leaves and columns one after the other, so that what is held at once is
one array (draws, points, observations). Distances are made of differences, since the expanded square loses half the digits.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hyperleaf.errors import InputError
from hyperleaf.exports.base import Format, Source, Wishes
from hyperleaf.exports.ingredients import SLACK, Ingredients, Part, quantile_name
from hyperleaf.exports.normal import CENTRE, coefficients
from hyperleaf.io import replacing

OPSET, IR_VERSION = 18, 8
LARGEST = 1_500_000_000  # bytes; a file of Protocol Buffers ends at 2 GiB
HALVINGS = 60
RESERVED = ("x", "outside")  # names of the graph itself; an output of that name is called x_mean
_ROOTS = {"matern12": 1.0, "matern32": 3.0, "matern52": 5.0}


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

    graph = _Graph()
    unit, wrong, outside = _to_unit(graph, ingredients)
    outputs = [helper.make_tensor_value_info("outside", TensorProto.BOOL, ["m"])]
    graph.add("Identity", outside, name="outside")
    for part in ingredients.parts:
        values = _predicted(graph, part, unit, ingredients)
        for column, value in zip(ingredients.columns, values, strict=True):
            name = part.name if column == "mean" and part.name not in RESERVED else f"{part.name}_{column}"
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


class _Graph:
    """Nodes and initializers in the making; values are names, which in a body begin with a prefix of its own."""

    def __init__(self, prefix: str = "") -> None:
        self.prefix = prefix
        self.nodes: list[Any] = []
        self.initializers: list[Any] = []
        self._constants: dict[tuple[Any, ...], str] = {}

    def constant(self, value: Any, dtype: Any = np.float64) -> str:
        from onnx import numpy_helper

        array = np.asarray(value, dtype=dtype)
        key = (array.shape, array.dtype.str, array.tobytes()) if array.size < 100 else (len(self.initializers),)
        if key not in self._constants:
            name = f"{self.prefix}_c{len(self.initializers)}"
            self.initializers.append(numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name))
            self._constants[key] = name
        return self._constants[key]

    def add(self, operator: str, *inputs: str, name: str | None = None, **attributes: Any) -> str:
        from onnx import helper

        output = name or f"{self.prefix}_v{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, list(inputs), [output], **attributes))
        return output

    # A number among the operands stands for a constant.

    def _value(self, one: Any) -> str:
        return one if isinstance(one, str) else self.constant(one)

    def __call__(self, operator: str, *operands: Any, **attributes: Any) -> str:
        return self.add(operator, *map(self._value, operands), **attributes)

    def sum(self, value: str, axis: int, keep: bool = False) -> str:
        return self.add("ReduceSum", value, self.constant([axis], np.int64), keepdims=int(keep))

    def shaped(self, value: str, shape: Sequence[int]) -> str:
        return self.add("Reshape", value, self.constant(shape, np.int64))


def _to_unit(graph: _Graph, ingredients: Ingredients) -> tuple[str, str, str]:
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


def _predicted(graph: _Graph, part: Part, unit: str, ingredients: Ingredients) -> list[str]:
    """Mean, std and quantiles (m,) of one output."""
    from scipy.special import ndtri

    means, variances, shares = _moments(graph, part, unit)  # (s, m)
    if ingredients.noisy and part.tilt.any():
        own = shares if part.power == 1.0 else graph("Mul", shares, shares)
        total = graph.sum(graph("Mul", own, part.tilt[:, None, :]), 2)
        variances = graph("Add", variances, graph("Mul", graph("Exp", total), part.noise[:, None]))
    elif ingredients.noisy:
        variances = graph("Add", variances, part.noise[:, None])
    weights = part.weights[:, None]
    mean = graph.sum(graph("Mul", means, weights), 0)
    apart = graph("Sub", means, mean)
    var = graph.sum(graph("Mul", graph("Add", variances, graph("Mul", apart, apart)), weights), 0)
    found = [graph("Add", graph("Mul", mean, part.scale), part.loc), graph("Mul", graph("Sqrt", var), part.scale)]
    std = graph("Max", graph("Sqrt", variances), 1e-300)
    for q in ingredients.quantiles:
        ends = graph("Add", means, graph("Mul", std, float(ndtri(q))))
        low = graph.add("ReduceMin", ends, graph.constant([0], np.int64), keepdims=0)
        high = graph.add("ReduceMax", ends, graph.constant([0], np.int64), keepdims=0)
        value = _quantile(graph, q, low, high, means, std, weights)
        found.append(graph("Add", graph("Mul", value, part.scale), part.loc))
    return found


def _mixing(graph: _Graph, part: Part, unit: str) -> str:
    """Weights of the leaves, (s, m, l)."""
    s, _, d, _, g = part.shape
    logits = graph("MatMul", unit, part.normal.reshape(s * g, d).T)  # (m, s g)
    z = graph("Add", graph.add("Transpose", graph.shaped(logits, [-1, s, g]), perm=[1, 0, 2]), part.offset[:, None, :])
    tail = graph("Log", graph("Add", graph("Exp", graph("Neg", graph("Abs", z))), 1.0))
    shut = graph("Sub", graph("Min", z, 0.0), tail)
    side = np.swapaxes(part.side.astype(np.float64), 1, 2)  # (s, g, l)
    total = graph("Sub", graph("MatMul", shut, np.abs(side)), graph("MatMul", z, np.maximum(-side, 0.0)))
    return graph("Exp", graph("Mul", total, part.power))


def _moments(graph: _Graph, part: Part, unit: str) -> tuple[str, str, str]:
    """Mean and variance of f under each draw, standardised, (s, m); and the weights of the leaves, to the power of the kernel."""
    from hyperleaf.exports.numerics import mixing

    s, n, d, leaves, _ = part.shape
    weights = _mixing(graph, part, unit)
    there = np.stack([mixing(part, i, part.x) for i in range(s)])  # (s, n, l)
    squares = []
    for k in range(d):
        column = graph.add("Gather", unit, graph.constant([k], np.int64), axis=1)  # (m, 1)
        apart = graph("Sub", column, part.x[None, :, k])
        squares.append(graph.shaped(graph("Mul", apart, apart), [-1, n, 1]))
    squared = squares[0] if d == 1 else graph.add("Concat", *squares, axis=2)  # (m, n, d)
    inside = graph("Sub", unit, 0.5)
    trend = graph("Add", graph("Mul", graph("MatMul", inside, (part.x - 0.5).T), part.linear), part.constant)  # (m, n)
    prior = graph("Add", graph("Mul", graph.sum(graph("Mul", inside, inside), 1), part.linear), part.constant)  # (m,)
    cross = ""
    for j in range(leaves):
        scaled = graph("MatMul", squared, (1.0 / part.lengthscale[:, j] ** 2).T)  # (m, n, s)
        phi = _profile(graph, part.profile, graph.add("Transpose", scaled, perm=[2, 0, 1]))
        here = graph.add("Gather", weights, graph.constant([j], np.int64), axis=2)  # (s, m, 1)
        term = graph("Mul", graph("Mul", phi, here), (part.variance[:, j, None] * there[:, :, j])[:, None, :])
        cross = term if not cross else graph("Add", cross, term)
    cross = graph("Add", cross, trend)  # (s, m, n)
    inverse = np.stack([np.linalg.solve(factor, np.eye(n)) for factor in part.factor])
    v = graph("MatMul", cross, np.swapaxes(np.tril(inverse), 1, 2))
    means = graph.shaped(graph("MatMul", v, part.whitened[:, :, None]), [s, -1])
    own = graph.shaped(graph("MatMul", graph("Mul", weights, weights), part.variance[:, :, None]), [s, -1])
    variances = graph("Sub", graph("Add", own, prior), graph.sum(graph("Mul", v, v), 2))
    return means, graph("Max", variances, 0.0), weights


def _profile(graph: _Graph, profile: str, squared: str) -> str:
    if profile == "rbf":
        return graph("Exp", graph("Mul", squared, -0.5))
    r = graph("Sqrt", graph("Mul", squared, _ROOTS[profile]))
    fall = graph("Exp", graph("Neg", r))
    if profile == "matern12":
        return fall
    front = graph("Add", r, 1.0)
    if profile == "matern52":
        front = graph("Add", front, graph("Div", graph("Mul", r, r), 3.0))
    return graph("Mul", front, fall)


def _quantile(graph: _Graph, q: float, low: str, high: str, means: str, std: str, weights: Any) -> str:
    """By halving a bracket that holds it, in a loop."""
    from onnx import TensorProto, helper

    prefix = f"loop{len(graph.nodes)}_"
    body = _Graph(prefix)
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


def _normal_cdf(graph: _Graph, z: str) -> str:
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
