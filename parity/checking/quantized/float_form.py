"""The float network of a quantized file: the same graph on floating-point numbers, without quantizers.

Codes become the numbers that they represent, so that a quantizer does nothing; an operator on codes becomes its
floating-point counterpart; a stored weight becomes the tensor of the float file that it is a rounding of. The result is
the network that was quantized, which must equal that of the float file exactly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import NodeProto, helper, numpy_helper

from ....converter.onnx_in.model import protos
from ....converter.onnx_in.model.order import topological_order
from ....runtime.errors import ConversionError, require_supported
from ....runtime.programs.interpreter import FAILURES
from ...sides.float_operators import (
    ABOUT,
    BLOCKS,
    CONCAT,
    DEQUANTIZE,
    DYNAMIC,
    INTEGER,
    LSTM,
    ON_BOTH,
    ON_CODES,
    QUANTIZE,
    QUANTIZED,
    FloatOperator,
    operator_of,
)
from ...sides.records import Array
from .block_weights import block_weight
from .float_graph import CellAssigner, FloatGraph, inner_nodes
from .quantized_tensors import NOT_ROUNDED, QuantizedTensor, WrongScale
from .quantizers import Quantizer
from .removed import RemovedActivations, bounds
from .stored import StoredTensors
from .weights import FloatTensors, RoundedWeight, original_name

RESULTS = frozenset({*ON_CODES, CONCAT})
PRODUCT = 1e-3  # relative difference between a bias's scale and the expected product


class FloatForm:
    """The float network of a file.

    Attributes:
        model: the network.
        weights: the stored weights.
        quantized: the tensors that are rounded.
        wrong_scales: biases with wrong scales; see `WrongScale`.
        codes: quantizers by the names of codes in the file; None for a dynamic one.
        dynamic: names of the tensors that are rounded by their own range, and of the results, in the network.
    """

    def __init__(self, model: onnx.ModelProto, folder: Path | None, float_model: onnx.ModelProto, floats: Path) -> None:
        """
        Args:
            model: model of the quantized file.
            folder: folder of the quantized file.
            float_model: model of the float file.
            floats: folder of the float file.

        Raises:
            UnsupportedOperators: there are operators on codes without a known floating-point counterpart.
            ConversionError: the quantizers are malformed.
        """
        self.tensors = FloatTensors(float_model.graph, floats)
        self.weights: list[RoundedWeight] = []
        self.quantized: list[QuantizedTensor] = []
        self.wrong_scales: list[WrongScale] = []
        self._stored = StoredTensors(model.graph, folder)
        self.codes: dict[str, Quantizer | None] = {}
        self.dynamic: list[tuple[str, str]] = []
        self._emitted: dict[tuple[str, str], str] = {}
        self._graph = FloatGraph()
        self._missing: list[tuple[str, str, str]] = []
        self._scales: dict[str, Quantizer] = {}
        self._removed = RemovedActivations(float_model.graph, model.graph)
        float_names = {*self.tensors.protos, *self.tensors.constants}
        float_names |= {
            original_name(name) for node in model.graph.node if operator_of(node) in RESULTS for name in node.output
        }
        outputs = {name for node in model.graph.node if operator_of(node) not in RESULTS for name in node.output}
        self._outputs = {value.name for value in model.graph.output}
        self._renamed = {name: f"{name} (of the quantized file)" for name in (outputs & float_names) - self._outputs}
        nodes = topological_order(model.graph.node)
        self._scales_after = {
            node.output[0]: self._stored.scale_behind(node)
            for node in nodes
            if operator_of(node) in INTEGER and node.output
        }
        self._ones = {scale for scale in self._scales_after.values() if scale is not None}
        for node in nodes:
            try:
                self._convert(node)
            except FAILURES as error:  # missing operands, or operands of wrong shapes
                description = f"{node.op_type} node {node.name!r}"
                raise ConversionError(f"{description} is malformed ({type(error).__name__}: {error})") from error
        if self._missing:
            require_supported(self._missing, "the quantized file can't be compared: {} of operators with no float form")
        if code_outputs := [value.name for value in model.graph.output if value.name in self.codes]:
            raise ConversionError(f"outputs are codes of a quantizer: {', '.join(code_outputs)}")
        self.model = self._graph.to_model(model, self._stored, CellAssigner(float_model.graph))
        self.quantized = [replace(tensor, bounds=self._bounds_after(tensor.codes)) for tensor in self.quantized]

    def _bounds_after(self, codes: str) -> tuple[float, float]:
        """The range in which values matter, if only activations use them."""
        names, ranges = {codes}, list[tuple[float, float]]()
        clips = self._stored.initializers | self._stored.constants | self._graph.added
        clips |= {new: clips[old] for old, new in self._renamed.items() if old in clips}
        for node in self._graph.nodes:
            if not names.intersection(node.input):
                continue
            if node.op_type == "Identity":
                names |= set(node.output)
            elif node.op_type in ("Relu", "Clip") and node.input[0] in names:
                ranges.append(bounds(node, clips))
            else:
                return -np.inf, np.inf
        return (min(low for low, _ in ranges), max(high for _, high in ranges)) if ranges else (-np.inf, np.inf)

    # ---- nodes ----

    def _convert(self, node: NodeProto) -> None:
        node = self._rename_tensors(node)
        key = operator_of(node)
        if key in QUANTIZE:
            self._quantize(node)
        elif key in DEQUANTIZE:
            self._dequantize(node)
        elif key == DYNAMIC:
            self._quantize_dynamically(node)
        elif key in INTEGER:
            self._convert_product(node, *INTEGER[key])
        elif key in ON_CODES:
            self._convert_operator(node, ON_CODES[key])
        elif key == CONCAT:
            self._convert_concat(node)
        elif key == LSTM:
            self._convert_lstm(node)
        elif key == BLOCKS:
            self._convert_block_product(node)
        elif key in QUANTIZED:
            self._missing.append((f"{node.domain}.{node.op_type}".lstrip("."), "", node.name))
        else:
            self._convert_other(node)

    def _rename_tensors(self, node: NodeProto) -> NodeProto:
        """Return a copy whose output names don't clash with tensors of the float file."""
        result = NodeProto()
        result.CopyFrom(node)
        for part in (result, *inner_nodes(result)):
            part.input[:] = [self._renamed.get(name, name) for name in part.input]
            part.output[:] = [self._renamed.get(name, name) for name in part.output]
        return result

    def _quantize(self, node: NodeProto) -> None:
        """Replace a quantizer by an identity: codes become the numbers themselves."""
        dtype = next((a.i for a in node.attribute if a.name == "output_dtype"), 0)
        quantizer = self._stored.quantizer(node, 1, 2, dtype=dtype)
        self._graph.identity(self._add_quantized(node.input[0], node.output[0], quantizer), node.output[0], node)

    def _add_quantized(self, tensor: str, codes: str, quantizer: Quantizer) -> str:
        """Add a quantized tensor, restoring an activation that its quantizer replaced; return the tensor's name."""
        tensor, stored = self._removed.restore(tensor, codes, quantizer, self._graph.nodes)
        for name, proto in stored.items():
            array = protos.array_of(proto, self.tensors.folder, f"initializer {name!r}")
            self._graph.added[name] = numpy_helper.from_array(array, name)
        producer = next((node.op_type for node in self._graph.nodes if tensor in node.output), "")
        self.quantized.append(QuantizedTensor(tensor, codes, quantizer, producer))
        self.codes[codes] = quantizer
        return tensor

    def _dequantize(self, node: NodeProto) -> None:
        codes, quantizer = node.input[0], self._stored.quantizer(node, 1, 2, of=node.input[0])
        self._scales[node.output[0]] = quantizer
        self._graph.identity(self._numbers(codes, quantizer, node), node.output[0], node)

    def _numbers(self, codes: str, quantizer: Quantizer, node: NodeProto) -> str:
        """Return the name of the numbers that codes represent, as read by a quantizer."""
        if self._stored.data(codes) is not None:
            return self._weight(codes, quantizer, node)
        if codes not in self.codes:
            raise ConversionError(f"{node.op_type} node {node.name!r}: nothing computes the codes {codes!r}")
        producer = self.codes[codes]
        if producer is None or producer.same(quantizer):
            return codes
        # read by another quantizer than written: ((x / scale + zero) - other zero) * other scale
        first, second = (operand.scale.reshape(-1) for operand in (producer, quantizer))
        if max(first.size, second.size) > 1:
            raise ConversionError(f"{node.op_type} node {node.name!r} reads the codes {codes!r} by other scales")
        factor = float(second[0] / first[0])
        offset = float((producer.zero_point.reshape(-1)[0] - quantizer.zero_point.reshape(-1)[0]) * second[0])
        result = f"{codes} as read for {node.output[0]}"
        scaled = f"{result}, scaled"
        self._graph.emit("Mul", [codes, self._graph.number(factor)], scaled, node)
        self._graph.emit("Add", [scaled, self._graph.number(offset)], result, node)
        return result

    def _quantize_dynamically(self, node: NodeProto) -> None:
        """Replace a dynamic quantizer: its scale becomes 1, and products of codes become products of numbers."""
        codes, scale = node.output[:2]
        self._graph.identity(node.input[0], codes, node)
        self.codes[codes] = None
        self.dynamic.append((node.input[0], codes))
        unit_scale = numpy_helper.from_array(np.ones((), np.float32), scale)
        self._graph.nodes.append(helper.make_node("Constant", [], [scale], value=unit_scale))

    def _convert_product(self, node: NodeProto, operator: str, axis: int) -> None:
        """Replace a product of codes, which is multiplied by their scales afterwards."""
        first, second = node.input[:2]
        product = self.name_in_file(node.output[0])
        if self._stored.data(second) is not None:
            scale = self._scales_after[product]
            if scale is None:
                raise ConversionError(f"{node.op_type} node {node.name!r}: its result isn't multiplied by a scale")
            zero = node.input[3] if len(node.input) > 3 else ""
            second = self._weight(second, self._stored.quantizer_of(scale, zero, axis, second), node)
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        self._graph.emit(operator, [first, second], node.output[0], node, **attributes)

    def name_in_file(self, name: str) -> str:
        """Return the name that a tensor of the network has in the file."""
        return next((old for old, new in self._renamed.items() if new == name), name)

    def _convert_operator(self, node: NodeProto, form: FloatOperator) -> None:
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute if a.name not in form.dropped}
        axes = form.axes
        if node.op_type == "QGemm":
            axes = (1, 0 if attributes.get("transB") else 1)
        quantizers = [
            self._stored.quantizer_of(
                node.input[scale], node.input[zero] if zero < len(node.input) else "", axis, node.input[codes]
            )
            for (codes, scale, zero), axis in zip(form.values, axes, strict=False)
        ]
        inputs = [node.input[at] for at in form.plain]
        inputs += [
            self._numbers(node.input[at[0]], quantizer, node)
            for at, quantizer in zip(form.values, quantizers, strict=True)
        ]
        if 0 <= form.bias < len(node.input) and node.input[form.bias]:
            product = quantizers[0].scale.reshape(-1) * quantizers[1].scale.reshape(-1)
            of_bias = Quantizer(quantizers[1].name, product, np.zeros(1), np.dtype(np.int32), 0)
            inputs.append(self._weight(node.input[form.bias], of_bias, node))
        scale, zero = (node.input[at] if at < len(node.input) else "" for at in form.output)
        self._emit_result(form.name, inputs, node, scale, zero, attributes)

    def _emit_result(
        self,
        operator: str,
        inputs: Sequence[str],
        node: NodeProto,
        scale: str,
        zero: str,
        attributes: Mapping[str, Any],
    ) -> None:
        """Add a floating-point node, whose result is quantized if there is a scale."""
        output = node.output[0]
        if not scale:
            self._graph.emit(operator, inputs, output, node, **attributes)
            return
        result = original_name(output)
        if result == output or result in self._outputs or result in self._stored.initializers:
            result = f"{output}{NOT_ROUNDED}"
        self._graph.emit(operator, inputs, result, node, **attributes)
        self._graph.identity(
            self._add_quantized(result, output, self._stored.quantizer_of(scale, zero, 1)), output, node
        )

    def _convert_concat(self, node: NodeProto) -> None:
        triples = [node.input[i : i + 3] for i in range(2, len(node.input), 3)]
        inputs = [
            self._numbers(codes, self._stored.quantizer_of(scale, zero, 1), node) for codes, scale, zero in triples
        ]
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        self._emit_result("Concat", inputs, node, node.input[0], node.input[1], attributes)

    def _convert_lstm(self, node: NodeProto) -> None:
        """Replace an LSTM with inputs X, W, R, B, lengths, h, c, P, and the scales and zero points of W and R."""
        x, w, r, *others = node.input[:8]
        rounded = f"{x}, as {node.output[0]} takes it"
        self._graph.identity(x, rounded, node)
        self.dynamic.append((x, rounded))
        matrices = []
        for codes, at in ((w, 8), (r, 10)):
            quantizer = self._stored.quantizer_of(node.input[at], node.input[at + 1], 1)
            directions = max(quantizer.scale.shape[:1], default=1)  # each has one scale, or one per column
            scale, zero = (a.reshape(directions, 1, -1) for a in (quantizer.scale, quantizer.zero_point))
            matrices.append(
                self._weight(codes, Quantizer(quantizer.name, scale, zero, self._stored.dtype(codes)), node, swap=True)
            )  # fmt: skip
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        result = self._graph.emit("LSTM", [rounded, *matrices, *others], node.output[0], node, **attributes)
        result.output[:] = node.output

    def _convert_block_product(self, node: NodeProto) -> None:
        """Replace a product with a weight in blocks, and the addition of its bias."""
        codes, quantizer = block_weight(node, self._stored)
        inputs = [node.input[0], self._weight(node.input[1], quantizer, node, array=codes)]
        bias = node.input[5] if len(node.input) > 5 else ""
        result = f"{node.output[0]}, without bias" if bias else node.output[0]
        self._graph.emit("MatMul", inputs, result, node)
        if bias:
            self._graph.emit("Add", [result, bias], node.output[0], node)

    def _convert_other(self, node: NodeProto) -> None:
        """Add a node unchanged; its results from codes are codes."""
        quantizers = [self.codes[name] for name in node.input if name in self.codes]
        weights = [name for name in node.input if self._stored.holds_codes(name)]
        if not quantizers and weights and node.op_type in ("Gather", "GatherElements", "Transpose", "Reshape"):
            reader = self._stored.reader_of(node.output[0])
            quantizers = [reader] if reader is not None else []
        if quantizers:
            if node.op_type not in ON_BOTH | ABOUT:
                self._missing.append((f"{node.op_type} of codes", "", node.name))
                return
            quantizer = quantizers[0]
            for i, name in enumerate(node.input):
                if quantizer is not None and self._stored.holds_codes(name):
                    node.input[i] = self._weight(name, quantizer, node)
            if node.op_type not in ABOUT:
                self.codes.update(dict.fromkeys(node.output, quantizer))
        for i, name in enumerate(node.input):
            if name in self._ones:
                node.input[i] = self._graph.number(1.0)
        self._graph.nodes.append(node)
        self._check_bias(node)

    def _check_bias(self, node: NodeProto) -> None:
        """Check that the bias of a quantized convolution or Gemm has the product of the scales."""
        if node.op_type not in ("Conv", "ConvTranspose", "Gemm") or len(node.input) < 3:
            return
        x, w, bias = (self._scales.get(name) for name in node.input[:3])
        if x is None or w is None or bias is None or bias.dtype != np.int32:
            return
        product, bias_scale = x.scale.reshape(-1) * w.scale.reshape(-1), bias.scale.reshape(-1)
        if x.scale.size > 1 or not (bias_scale.size == 1 or bias_scale.shape == product.shape):
            return
        far = np.abs(bias_scale - product) > PRODUCT * np.abs(product)
        if far.any():
            at = int(np.argmax(np.broadcast_to(far, product.shape)))
            of_bias, of_both = (float(np.broadcast_to(a, far.shape)[at]) for a in (bias_scale, product))
            self.wrong_scales.append(WrongScale(node, self.name_in_file(node.input[2]), of_bias, of_both, x.name))

    def _weight(
        self, codes: str, quantizer: Quantizer, node: NodeProto, *, swap: bool = False, array: Array | None = None
    ) -> str:
        """Return the name of the float tensor that stored codes are a rounding of; `array`: they are packed."""
        array = self._stored.array(codes) if array is None else array
        rounded = self.tensors.match_weight(codes, array, quantizer, node.name)
        if not any(weight.stored == codes and weight.quantizer.same(quantizer) for weight in self.weights):
            self.weights.append(rounded)
        name = rounded.tensor
        if not name:
            name = f"{codes}, as numbers"
            self._graph.added[name] = numpy_helper.from_array(rounded.numbers.astype(np.float32), name)
        elif name in self.tensors.protos:
            self._graph.added[name] = numpy_helper.from_array(self.tensors.array(name), name)
        elif (name, "constant") not in self._emitted:
            self._emitted[name, "constant"] = name
            self._graph.nodes.append(helper.make_node("Constant", [], [name], value=self.tensors.constants[name]))
        if rounded.swapped == swap:
            return name
        transposed = f"{name}, axes exchanged"
        if (name, "turned") not in self._emitted:
            self._emitted[name, "turned"] = transposed
            order = [*range(array.ndim - 2), array.ndim - 1, array.ndim - 2]
            self._graph.emit("Transpose", [name], transposed, node, perm=order)
        return transposed
