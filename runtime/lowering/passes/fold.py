"""`fold`: constant folding, which computes nodes that depend on no input when the model is written."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

from ...ir.types import Type, as_dtype, is_half
from ...ops.boundary import STOP_GRADIENT
from ..deferred import Array, DeferredTensor, array_of, type_of
from ..graph import Graph
from ..onnx_node import OnnxNode, node_proto

SMALL = 2**12  # bytes; smaller tensors don't count towards the growth of a model
AT_ONCE = 2**18  # bytes; larger tensors are computed only when they are written
GROWTH = 2**20  # bytes by which a model may grow for each set of connected tensors

# Operators that onnx's reference implementation computes correctly, as tests/converter/test_onnx_passes.py checks with
# the cases of every op. (It is wrong for Pad with negative pads, GatherElements on part of an axis, Pow of integers.)
MOVING = frozenset({
    "Cast", "Concat", "ConstantOfShape", "Expand", "EyeLike", "Flatten", "Gather", "GatherND", "Identity", "OneHot",
    "Range", "Reshape", "ScatterElements", "ScatterND", "Shape", "Size", "Slice", "Split", "Squeeze", "Tile",
    "Transpose", "Trilu", "Unsqueeze", "Where",
})  # fmt: skip
COMPUTING = frozenset({
    "Abs", "Add", "And", "BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor", "Ceil", "Clip", "Cos", "CumSum",
    "Div", "Equal", "Erf", "Exp", "Floor", "Greater", "GreaterOrEqual", "IsInf", "IsNaN", "Less", "LessOrEqual",
    "Log", "MatMul", "Max", "Min", "Mod", "Mul", "Neg", "Not", "Or", "Reciprocal", "ReduceMax", "ReduceMean",
    "ReduceMin", "ReduceProd", "ReduceSum", "Relu", "Round", "Sigmoid", "Sign", "Sin", "Softmax", "Sqrt", "Sub",
    "Tanh", "Xor",
})  # fmt: skip

Tensor = Array | DeferredTensor


def fold(graph: Graph, results: set[str]) -> None:
    """Replace nodes that depend on no input by their results.

    Onnx's reference implementation computes them when the tensor is written: a transposed weight is a view, so there is
    never a second copy of the weights in memory. Nodes stay where the model would grow (a table that is also used
    transposed, a large tensor expanded from a small one), or where they stop the gradient to a parameter.
    """
    tensors: dict[str, Tensor] = dict(graph.initializers)
    of_parameters = set(graph.sources)
    folded: list[OnnxNode] = []
    for node in graph.nodes:
        if node.inputs and all(name in tensors for name in node.inputs if name) and _can_fold(node, tensors):
            if not of_parameters.isdisjoint(node.inputs):
                if STOP_GRADIENT in node.metadata:
                    continue
                of_parameters.update(node.outputs)
            computed = _compute(node, tensors, graph.opset)
            if computed is not None:
                tensors.update(computed)
                folded.append(node)
    folded = _without_growth(graph, folded, tensors, results)
    folded_ids = set(map(id, folded))
    graph.nodes = [node for node in graph.nodes if id(node) not in folded_ids]
    _add(graph, folded, tensors, {name for node in graph.nodes for name in node.used_tensors()} | results)


def _can_fold(node: OnnxNode, tensors: Mapping[str, Tensor]) -> bool:
    """Whether the reference implementation agrees with runtimes, which keep more digits between half-precision ops."""
    if node.op_type in MOVING:
        return True
    return node.op_type in COMPUTING and not any(is_half(type_of(tensors[name]).dtype) for name in node.inputs if name)


def _add(graph: Graph, folded: list[OnnxNode], tensors: Mapping[str, Tensor], used_names: set[str]) -> None:
    """Turn the results of folded nodes that other nodes use into initializers, named after their origin.

    The origin is the only large tensor that a result is computed from, else the first parameter or buffer.
    """
    stems = {name: name for name in graph.initializers}
    renamed: dict[str, str] = {}
    for node in folded:
        large = {stems[name] for name in node.inputs if name and tensors[name].nbytes > SMALL}
        sources = {source: None for name in node.inputs if name for source in graph.sources.get(name, ())}
        stems_of_inputs = large if len(large) == 1 else {stems[name] for name in node.inputs if name in graph.sources}
        stem = f"{min(stems_of_inputs)}.{node.op_type.lower()}" if stems_of_inputs else "constant"
        for output in node.outputs:
            stems[output] = stem
            if sources:
                graph.sources[output] = tuple(sources)
            if output in used_names:
                tensor = tensors[output]
                name = renamed[output] = graph.unique(stem)
                graph.initializers[name] = array_of(tensor) if tensor.nbytes <= AT_ONCE else tensor
                graph.types[name] = type_of(tensor)
                if sources:
                    graph.sources[name] = tuple(sources)
                if node.op_type == "Transpose" and graph.sources.get(node.inputs[0]) == (node.inputs[0],):
                    graph.transposed[name] = node.inputs[0], tuple(node.attributes["perm"])
    graph.replace(renamed)


def _without_growth(
    graph: Graph, nodes: list[OnnxNode], tensors: Mapping[str, Tensor], results: set[str]
) -> list[OnnxNode]:
    """Return the nodes that can be folded without making the model grow by more than `GROWTH`.

    Large tensors that nodes connect are counted together: the size of those that would be in the model minus the size
    of those that are in it.
    """
    sets: dict[str, str] = {}

    def representative(name: str) -> str:
        while sets.setdefault(name, name) != name:
            name = sets[name]
        return name

    def connected(node: OnnxNode) -> list[str]:
        return [name for name in (*node.inputs, *node.outputs) if name and tensors[name].nbytes > SMALL]

    for node in nodes:
        for name in connected(node):
            sets[representative(name)] = representative(connected(node)[0])
    folded_ids = set(map(id, nodes))
    used_names = {name for node in graph.nodes if id(node) not in folded_ids for name in node.used_tensors()} | results
    growth: dict[str, int] = {}
    for name in sets:
        change = (tensors[name].nbytes if name in used_names else 0) - (
            tensors[name].nbytes if name in graph.initializers else 0
        )
        growth[representative(name)] = growth.get(representative(name), 0) + change
    kept: list[OnnxNode] = []
    not_folded: set[str] = set()  # tensors that are no longer constants
    for node in nodes:
        large = connected(node)
        if not_folded.intersection(node.inputs) or (large and growth[representative(large[0])] > GROWTH):
            not_folded.update(node.outputs)
        else:
            kept.append(node)
    return kept


def _compute(node: OnnxNode, tensors: Mapping[str, Tensor], opset: int) -> dict[str, Tensor] | None:
    """Return the results of the node by name; None if their types can't be inferred."""
    proto = node_proto(node, {})
    inputs = {name: tensors[name] for name in node.inputs if name}
    types = _infer_types(proto, inputs, opset)
    if types is None:
        return None
    result: dict[str, Tensor] = {}
    for position, (name, type) in enumerate(zip(node.outputs, types, strict=True)):
        compute = partial(_evaluate, proto, inputs, opset, position, type)
        tensor = DeferredTensor(type, compute, any(_is_in_file(operand) for operand in inputs.values()))
        result[name] = tensor.compute() if tensor.nbytes <= AT_ONCE else tensor
    return result


def _is_in_file(tensor: Tensor) -> bool:
    return isinstance(tensor, DeferredTensor) and tensor.in_file


def _infer_types(node: onnx.NodeProto, inputs: Mapping[str, Tensor], opset: int) -> list[Type] | None:
    types = {name: _type_proto(type_of(tensor)) for name, tensor in inputs.items()}
    data = {
        name: onnx.numpy_helper.from_array(tensor, name)
        for name, tensor in inputs.items()
        if not isinstance(tensor, DeferredTensor) and tensor.nbytes <= SMALL
    }
    operators = [onnx.helper.make_opsetid("", opset)]
    schema = onnx.defs.get_schema(node.op_type, opset)
    inferred = onnx.shape_inference.infer_node_outputs(schema, node, types, data, opset_imports=operators)
    if any(name not in inferred or not _is_complete(inferred[name]) for name in node.output):
        return None
    return [_type(inferred[name].tensor_type) for name in node.output]


def _is_complete(type: onnx.TypeProto) -> bool:
    tensor = type.tensor_type
    return tensor.HasField("shape") and all(dim.HasField("dim_value") for dim in tensor.shape.dim)


def _type_proto(type: Type) -> onnx.TypeProto:
    shape = [dim if isinstance(dim, int) else None for dim in type.shape]  # all are known
    return onnx.helper.make_tensor_type_proto(onnx.helper.np_dtype_to_tensor_dtype(type.dtype), shape)


def _type(tensor: onnx.TypeProto.Tensor) -> Type:
    dtype = as_dtype(onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type))
    return Type(dtype, tuple(dim.dim_value for dim in tensor.shape.dim))


def _evaluate(node: onnx.NodeProto, inputs: Mapping[str, Tensor], opset: int, position: int, type: Type) -> Array:
    """Compute output `position` of the node by onnx's reference implementation."""
    graph = onnx.GraphProto(name="folded", node=[node])
    graph.input.extend(onnx.ValueInfoProto(name=name) for name in inputs)
    graph.output.add(name=node.output[position])
    model = onnx.ModelProto(ir_version=onnx.IR_VERSION, opset_import=[onnx.helper.make_opsetid("", opset)], graph=graph)
    feeds = {name: array_of(tensor) for name, tensor in inputs.items()}
    with np.errstate(all="ignore"):
        (result,) = ReferenceEvaluator(model).run(None, feeds)
    array = np.asarray(result)
    if type_of(array) != type:
        raise RuntimeError(f"onnx's reference of {node.op_type} computed {type_of(array)}, its schema says {type}")
    return array
