"""The nodes of an ONNX graph in the making."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


class Graph:
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
