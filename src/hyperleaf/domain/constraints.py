"""Known constraints between axes: expressions, parsed with `ast` over a whitelist and evaluated by walking the tree.

Nothing in them is ever executed as Python, so they may come from a file.
"""

from __future__ import annotations

import ast
import math
import warnings
from collections.abc import Mapping, Sequence
from functools import reduce
from itertools import pairwise
from typing import Any, NoReturn
from unicodedata import normalize

import numpy as np
from numpy.typing import NDArray

from hyperleaf.domain.axes import Axis, Codes, Value
from hyperleaf.domain.tables import as_float, is_number
from hyperleaf.errors import DomainError

_MAX_LENGTH, _MAX_DEPTH = 2000, 100  # of a constraint: keeps Python's parser and the walk over the tree away from their limits


class Constraint:
    """A condition on the axes, safe to take from a file: `holds` tells for every point whether it is definitely true.

    Undefined numbers (log of −1) make a comparison neither true nor false, so that `not log(x) > 1` does not let x = −1 pass.
    """

    def __init__(self, source: str, axes: Mapping[str, Axis]) -> None:
        if not isinstance(source, str):
            raise DomainError(f'a constraint must be a text; got {source!r}. Write it like "mach * alpha <= 30".')
        self.source = source
        if len(source) > _MAX_LENGTH:
            raise DomainError(
                f"a constraint must have at most {_MAX_LENGTH} characters; got {len(source)}. Split it into several."
            )
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of the parser, about oddities that are refused below
                self._tree = ast.parse(source.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            self._fail(f"must be an expression over the axes ({error})", 'Write it like "mach * alpha <= 30 and mach > 0.5".')
        self._check_depth()
        if not any(isinstance(node, ast.Name) and node.id in map(identifier, axes) for node in ast.walk(self._tree)):
            self._fail("must name at least one axis", f"The axes are {list(axes)}.")
        # the walk visits every node whatever the values are, so one point tells whether the whole expression is allowed
        self.holds(constraint_columns(axes, [axis.quantile(np.array([0.5])) for axis in axes.values()]))

    def holds(self, columns: Mapping[str, Any]) -> NDArray[np.bool_]:
        num_rows = len(next(iter(columns.values()))[0])
        with np.errstate(all="ignore"):
            return np.broadcast_to(self._truth(self._tree, columns, True), (num_rows,))

    def _fail(self, rule: str, remedy: str, node: ast.AST | None = None) -> NoReturn:
        part = "" if node is None else f" at {ast.get_source_segment(self.source.strip(), node) or type(node).__name__!r}"
        raise DomainError(f"a constraint {rule}; got {self.source!r}{part}. {remedy}") from None

    def _check_depth(self) -> None:
        level: list[ast.AST] = [self._tree]
        for _ in range(_MAX_DEPTH):
            level = [child for node in level for child in ast.iter_child_nodes(node)]
        if level:
            self._fail(f"must be nested at most {_MAX_DEPTH} deep", "Split it into several.")

    def _truth(self, node: ast.AST, columns: Mapping[str, Any], wanted: bool) -> Any:
        """Where the truth value of node is definitely `wanted`."""
        if isinstance(node, ast.BoolOp):
            parts = [self._truth(value, columns, wanted) for value in node.values]
            return reduce(np.logical_and if isinstance(node.op, ast.And) == wanted else np.logical_or, parts)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return self._truth(node.operand, columns, not wanted)
        if isinstance(node, ast.Compare):
            operands = pairwise([node.left, *node.comparators])
            parts = [self._compare(op, a, b, columns, wanted) for op, (a, b) in zip(node.ops, operands, strict=True)]
            return reduce(np.logical_and if wanted else np.logical_or, parts)
        self._fail("must be true or false at every point", "Compare with <, <=, >, >=, ==, != and join with and, or, not.", node)

    def _compare(self, op: ast.cmpop, left: ast.expr, right: ast.expr, columns: Mapping[str, Any], wanted: bool) -> Any:
        for axis, other in ((left, right), (right, left)):
            values, options = columns.get(axis.id, (None, None)) if isinstance(axis, ast.Name) else (None, None)
            if options is None:
                continue
            if not isinstance(op, ast.Eq | ast.NotEq) or not isinstance(other, ast.Constant) or other.value not in options:
                self._fail(f"may compare a Choice with == and != to its options {list(options)} only", "Name one of them.", other)
            return (values == options.index(other.value)) == (isinstance(op, ast.Eq) == wanted)
        if type(op) not in _COMPARISONS:
            self._fail("may compare with <, <=, >, >=, == and != only", "Use one of these.", left)
        a, b = self._number(left, columns), self._number(right, columns)
        return ~(np.isnan(a) | np.isnan(b)) & (_COMPARISONS[type(op)](a, b) == wanted)

    def _number(self, node: ast.AST, columns: Mapping[str, Any]) -> Any:
        if isinstance(node, ast.Constant) and is_number(node.value) and math.isfinite(as_float(node.value)):
            return np.float64(as_float(node.value))
        if isinstance(node, ast.Name):
            values, options = columns.get(node.id, (None, None))
            if values is None:
                self._fail(f"may only name axes, and {node.id!r} is none", f"The axes are {list(columns)}.", node)
            if options is not None:
                self._fail(f"may not compute with the Choice {node.id!r}", f"Compare it with one of {list(options)}.", node)
            return values
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
            value = self._number(node.operand, columns)
            return -value if isinstance(node.op, ast.USub) else value
        if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
            return _ARITHMETIC[type(node.op)](self._number(node.left, columns), self._number(node.right, columns))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
            values = [self._number(argument, columns) for argument in node.args]
            if node.func.id in _FUNCTIONS and len(values) == 1:
                return _FUNCTIONS[node.func.id](values[0])
            if node.func.id in _FOLDS and len(values) >= 2:
                return reduce(_FOLDS[node.func.id], values)
        self._fail(
            "may compute with finite numbers, names of axes, + - * / // % **, "
            f"{', '.join(_FUNCTIONS)} of one and {', '.join(_FOLDS)} of several values only",
            "Write it with these, and join conditions with and, or, not.",
            node,
        )


_ARITHMETIC: dict[type, Any] = {
    ast.Add: np.add,
    ast.Sub: np.subtract,
    ast.Mult: np.multiply,
    ast.Div: np.divide,
    ast.FloorDiv: np.floor_divide,
    ast.Mod: np.mod,
    ast.Pow: np.power,
}
_COMPARISONS: dict[type, Any] = {
    ast.Lt: np.less,
    ast.LtE: np.less_equal,
    ast.Gt: np.greater,
    ast.GtE: np.greater_equal,
    ast.Eq: np.equal,
    ast.NotEq: np.not_equal,
}
_FUNCTIONS: dict[str, Any] = {"abs": np.abs, "sqrt": np.sqrt, "exp": np.exp, "log": np.log, "sin": np.sin, "cos": np.cos}
_FOLDS: dict[str, Any] = {"min": np.minimum, "max": np.maximum}


def holding(constraints: Sequence[Constraint], axes: Mapping[str, Axis], codes: Sequence[Codes]) -> NDArray[np.bool_]:
    """At which points all constraints hold."""
    columns = constraint_columns(axes, codes)
    return reduce(np.logical_and, [c.holds(columns) for c in constraints], np.ones(len(codes[0]), dtype=bool))


def constraint_columns(axes: Mapping[str, Axis], codes: Sequence[Codes]) -> dict[str, tuple[Any, tuple[Value, ...] | None]]:
    """What a constraint sees of each axis: (numbers, None), or (positions, options) of a Choice that is not of numbers."""
    return {identifier(name): axis.compared(code) for (name, axis), code in zip(axes.items(), codes, strict=True)}


def identifier(name: str) -> str:
    return normalize("NFKC", name)  # as Python's parser does with names, for instance with the micro sign
