"""ONNX nodes that look random numbers up by their position, in the place of a node that draws them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from onnx import NodeProto, TensorProto, helper, numpy_helper

from ...converter.onnx_in.model.schemas import require_complete, require_valid
from ...runtime.errors import UsageError
from ...runtime.ir.types import as_dtype
from ..sides.records import Array

PERIOD = 8191  # numbers in a table, a prime
ROW_STEP, NODE_STEP, ITERATION_STEP = 3571, 1009, 2053  # between the numbers of rows of PERIOD, nodes and iterations
HIGHEST = 255 / 256  # of the uniform numbers; no dtype rounds it to 1
MAX_CONSTANT = 2**16  # elements of a result of known shape, whose positions are stored
RANGE_OPSET, LIKE_OPSET = 11, 15  # the first with Range, and with CastLike
_HALVES = (TensorProto.FLOAT16, TensorProto.BFLOAT16)


class NumberWriter:
    """Writes what replaces nodes that draw.

    Args:
        path: the file, for messages.
        opset: the version of the standard operators.
        types: element types of values, as far as they are known.
    """

    def __init__(self, path: str, opset: int, types: Mapping[str, int]) -> None:
        self.path = path
        self.opset = opset
        self.types = types

    def replacement(self, node: NodeProto, number: int, iteration: str) -> list[NodeProto]:
        """Return the nodes that replace `node`, the draw of this number, in an iteration of a loop if one is named.

        Raises:
            ConversionError: the node isn't as its operator must be.
            UsageError: the opset lacks an operator for it.
        """
        where = f"{node.op_type} node {node.name or next(filter(None, node.output))!r}"
        kinds = ["tensor" if name else "" for name in node.input]
        require_complete("", node.op_type, self.opset, kinds, {attribute.name for attribute in node.attribute}, where)
        for attribute in node.attribute:
            require_valid("", node.op_type, self.opset, attribute, attribute.name, where)
        block = _Block(self, node, number, iteration)
        attributes = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
        if node.op_type == "Dropout":
            block.dropout(*node.input[:3])
        elif node.op_type == "Bernoulli":
            block.bernoulli(node.input[0], attributes.get("dtype"))
        elif node.op_type == "Multinomial":
            block.multinomial(
                node.input[0], attributes.get("sample_size", 1), attributes.get("dtype", TensorProto.INT32)
            )
        else:
            block.numbers(node.input[0] if node.input else "", attributes)
        return block.nodes


class _Block:
    """The nodes in the place of one."""

    def __init__(self, writer: NumberWriter, node: NodeProto, number: int, iteration: str) -> None:
        self.writer = writer
        self.node = node
        self.number = number
        self.iteration = iteration
        self.nodes: list[NodeProto] = []

    def op(self, operator: str, *inputs: str, output: str = "", **attributes: Any) -> str:
        """Add a node in the Cell of the one that is replaced; return the name of its output."""
        name = output or f"{next(filter(None, self.node.output))}/number_{len(self.nodes)}"
        added = helper.make_node(operator, inputs, [name], **attributes)
        added.name = f"{self.node.name}_{len(self.nodes)}" if self.node.name else ""
        added.metadata_props.extend(self.node.metadata_props)
        self.nodes.append(added)
        return name

    def constant(self, array: Any, dtype: Any = None) -> str:
        return self.op("Constant", value=numpy_helper.from_array(np.asarray(array, dtype)))

    def numbers(self, like: str, attributes: Mapping[str, Any]) -> None:
        """RandomNormal, RandomUniform, and those that take the shape (and dtype) of a tensor."""
        normal = self.node.op_type.startswith("RandomNormal")
        first, second = ("mean", "scale") if normal else ("low", "high")
        kind = attributes.get("dtype", self.writer.types.get(like, 0) if like else TensorProto.FLOAT)
        if not kind and not self.can_cast_like:
            kind = TensorProto.FLOAT
        table = _normal_numbers() if normal else _uniform_numbers()
        start, end = attributes.get(first, 0.0), attributes.get(second, 1.0)
        table = table * end + start if normal else table * (end - start) + start
        if kind in _HALVES:
            table = table.astype(as_dtype(helper.tensor_dtype_to_np_dtype(kind)))
        if like:
            flat, shape = self.table_at(table, self.op("Size", like)), self.op("Shape", like)
        else:
            sizes = tuple(attributes["shape"])
            flat = self.table_at(table, int(np.prod(sizes, dtype=np.int64)))
            shape = self.constant(sizes, np.int64)
        if kind == TensorProto.FLOAT:
            self.op("Reshape", flat, shape, output=self.node.output[0])
        elif kind:
            self.op("Cast", self.op("Reshape", flat, shape), output=self.node.output[0], to=kind)
        else:
            self.op("CastLike", self.op("Reshape", flat, shape), like, output=self.node.output[0])

    def bernoulli(self, probability: str, kind: int | None) -> None:
        """Bernoulli."""
        uniform = self.op("CastLike", self.shaped_like(_uniform_numbers(), probability), probability)
        less = self.op("Less", uniform, probability)
        if kind:
            self.op("Cast", less, output=self.node.output[0], to=kind)
        else:
            self.op("CastLike", less, probability, output=self.node.output[0])

    def dropout(self, data: str, ratio: str, training: str) -> None:
        """Dropout, in training mode where `training` says so: data / (1 - ratio) where a number isn't below ratio."""
        ratio = self.op("Cast", ratio, to=TensorProto.FLOAT) if ratio else self.constant(0.5, np.float32)
        below = self.op("Less", self.shaped_like(_uniform_numbers(), data), ratio)
        mask = self.op("Or", self.op("Not", below), self.op("Not", training), output=(*self.node.output, "")[1])
        kept = self.op("Sub", self.constant(1.0, np.float32), ratio)
        one = self.constant(1.0, np.float32)
        scale = self.op("Where", training, self.op("Div", one, kept), one)
        if self.node.output[0]:
            factor = self.op("Mul", self.op("Cast", mask, to=TensorProto.FLOAT), scale)
            kind = self.writer.types.get(data, 0)
            factor = self.op("CastLike", factor, data) if self.can_cast_like else self.op("Cast", factor, to=kind or 1)
            self.op("Mul", data, factor, output=self.node.output[0])

    def multinomial(self, logits: str, count: int, kind: int) -> None:
        """Multinomial: the argmax of logits plus Gumbel noise has their distribution (Maddison et al. 2014)."""
        shape = self.op("Shape", logits)
        batch, classes = (self.op("Gather", shape, self.constant([axis], np.int64)) for axis in (0, 1))
        one, samples = self.constant([1], np.int64), self.constant([count], np.int64)
        size = self.op("Mul", self.op("Size", logits), self.constant(count, np.int64))
        flat = self.table_at(-np.log(-np.log(_uniform_numbers() + 1 / 512)), size)
        noise = self.op("Reshape", flat, self.op("Concat", batch, samples, classes, axis=0))
        if self.can_cast_like:
            noise = self.op("CastLike", noise, logits)
        expanded = self.op("Reshape", logits, self.op("Concat", batch, one, classes, axis=0))
        chosen = self.op("ArgMax", self.op("Add", expanded, noise), axis=2, keepdims=0)
        self.op("Cast", chosen, output=self.node.output[0], to=kind)

    @property
    def can_cast_like(self) -> bool:
        return self.writer.opset >= LIKE_OPSET

    def shaped_like(self, table: Array, like: str) -> str:
        return self.op("Reshape", self.table_at(table, self.op("Size", like)), self.op("Shape", like))

    def table_at(self, table: Array, size: int | str) -> str:
        """Return as many float32 numbers of a table as `size` says: an integer, or the name of a scalar."""
        if isinstance(size, int) and (size <= MAX_CONSTANT or self.writer.opset < RANGE_OPSET):
            at = self.constant(np.arange(size), np.int64)
        elif self.writer.opset < RANGE_OPSET:
            raise UsageError(
                f"{self.writer.path} draws random numbers ({self.node.op_type} {self.node.name or self.node.output[0]})"
                f" in opset {self.writer.opset}, in which they can't be replaced by the same numbers for all sides\n"
                f"  what to do: convert it to opset {RANGE_OPSET} or later (onnx.version_converter)"
            )
        else:
            end = self.constant(size, np.int64) if isinstance(size, int) else size
            at = self.op("Range", self.constant(0, np.int64), end, self.constant(1, np.int64))
        period = self.constant(PERIOD, np.int64)
        row = self.op("Div", at, period)
        index = self.op("Sub", at, self.op("Mul", row, self.constant(PERIOD - ROW_STEP, np.int64)))
        index = self.op("Add", index, self.constant(self.number * NODE_STEP % PERIOD, np.int64))
        if self.iteration:
            index = self.op("Add", index, self.op("Mul", self.iteration, self.constant(ITERATION_STEP, np.int64)))
        index = self.op("Sub", index, self.op("Mul", self.op("Div", index, period), period))
        return self.op("Gather", self.constant(table, np.float32), index, axis=0)


def _uniform_numbers() -> Array:
    """PERIOD numbers in [0, HIGHEST], float64 with the precision of float32."""
    uniform = np.random.default_rng(0).random(PERIOD, np.float32)
    return np.minimum(uniform, np.float32(HIGHEST)).astype(np.float64)


def _normal_numbers() -> Array:
    """PERIOD normal numbers, float64."""
    return np.random.default_rng(1).standard_normal(PERIOD)
