"""The stored tensors of a quantized file: codes, scales and zero points."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import NodeProto, TensorProto

from ....converter.onnx_in.model import protos
from ....runtime.errors import ConversionError
from ...sides.float_operators import DEQUANTIZE, ON_CODES
from ...sides.records import Array
from .quantizers import Quantizer

CODES = (TensorProto.INT8, TensorProto.UINT8, TensorProto.INT16, TensorProto.UINT16)


class StoredTensors:
    """The stored tensors of a graph, and their quantizers.

    Attributes:
        graph: graph of the quantized file.
        folder: folder of the file; None if the model comes from memory.
        initializers: initializers by name.
        constants: values of Constant nodes, by output name.
    """

    def __init__(self, graph: onnx.GraphProto, folder: Path | None) -> None:
        self.graph = graph
        self.folder = folder
        self.initializers = {tensor.name: tensor for tensor in graph.initializer}
        self.constants = {
            node.output[0]: attribute.t
            for node in graph.node
            if node.op_type == "Constant"
            for attribute in node.attribute
            if attribute.name == "value"
        }

    def data(self, name: str) -> TensorProto | None:
        """Return the initializer or constant of a name; None if there is none."""
        return self.initializers.get(name) or self.constants.get(name)

    def array(self, name: str) -> Array:
        """Return the contents of a stored tensor.

        Raises:
            ConversionError: there is none, or its data doesn't fit.
        """
        tensor = self.data(name)
        if tensor is None:
            raise ConversionError(f"the scale or zero point {name!r} of a quantizer isn't stored in the file")
        return protos.array_of(tensor, self.folder, f"initializer {name!r}")

    def dtype(self, codes: str) -> np.dtype[Any]:
        """Return the dtype of stored codes; uint8, ONNX's default, for others."""
        tensor = self.data(codes)
        return np.dtype(np.uint8) if tensor is None else protos.dtype_of(tensor.data_type, codes)

    def quantizer(self, node: NodeProto, scale: int, zero: int, *, of: str = "", dtype: int = 0) -> Quantizer:
        """Return the quantizer of a QuantizeLinear or DequantizeLinear with these inputs as scale and zero point."""
        attributes = {a.name: a.i for a in node.attribute}
        point = node.input[zero] if len(node.input) > zero else ""
        result = self.quantizer_of(
            node.input[scale], point, attributes.get("axis", 1), of, attributes.get("block_size", 0)
        )
        if dtype and not point:
            return Quantizer(
                result.name, result.scale, result.zero_point, protos.dtype_of(dtype, node.name), result.axis,
                result.block,
            )  # fmt: skip
        return result

    def quantizer_of(self, scale: str, zero: str, axis: int, codes: str = "", block: int = 0) -> Quantizer:
        """Return the quantizer of a stored scale and zero point (empty: 0) along an axis, in blocks if `block`.

        Raises:
            ConversionError: they aren't stored, or codes aren't integers.
        """
        points = self.array(zero) if zero else np.zeros((), np.uint8)
        dtype = points.dtype if zero else self.dtype(codes)
        if "int" not in dtype.name:
            raise ConversionError(f"quantizer {scale!r} rounds to {dtype.name}: only integers can be compared in steps")
        return Quantizer(scale, self.array(scale).astype(np.float64), points.astype(np.float64), dtype, axis, block)

    def holds_codes(self, name: str) -> bool:
        """Whether the initializer of a name has a dtype of codes."""
        data = self.initializers.get(name)
        return data is not None and data.data_type in CODES

    def reader_of(self, codes: str) -> Quantizer | None:
        """Return the quantizer that reads codes."""
        for node in self.graph.node:
            if (node.domain, node.op_type) in DEQUANTIZE and node.input[0] == codes:
                return self.quantizer(node, 1, 2)
            for (domain, op), form in ON_CODES.items():
                if (node.domain, node.op_type) == (domain, op):
                    for at in form.values:
                        if node.input[at[0]] == codes:
                            return self.quantizer_of(node.input[at[1]], node.input[at[2]], 1)
        return None

    def scale_behind(self, product: NodeProto) -> str | None:
        """Return the stored scale that multiplies a product of codes with a stored weight."""
        if len(product.input) < 2 or self.data(product.input[1]) is None:
            return None
        producers = {name: node for node in self.graph.node for name in node.output}
        at = set(product.output)
        for _ in range(2):
            for node in self.graph.node:
                if node.op_type == "Cast" and at.intersection(node.input):
                    at |= set(node.output)
                elif node.op_type == "Mul" and at & set(node.input):
                    other = next((name for name in node.input if name not in at), "")
                    producer = producers.get(other)
                    stored = producer.input if producer is not None and producer.op_type == "Mul" else [other]
                    return next((name for name in stored if self.data(name) is not None), None)
        return None
