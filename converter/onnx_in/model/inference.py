"""The types of values that a model declares and that onnx infers."""

from __future__ import annotations

import copy
from collections.abc import Mapping

import onnx
from onnx import GraphProto, ModelProto, TensorProto, TypeProto

from ....runtime.ir.types import Type
from . import protos

MAX_STORED_BYTES = 2**16  # bytes of a tensor whose data shape inference gets: larger ones are no shapes
MAX_SHAPE_LENGTH = 2**10  # elements of a tensor that may be a shape
HIDDEN = "hidden from inference"  # an unknown domain, which inference skips


def infer_types(model: ModelProto, symbols: protos.Symbols) -> Mapping[str, Type]:
    """The types of values by name, as the model declares them and onnx infers them.

    Inference runs first without onnx's data propagation, then with it. Propagation creates a symbol for each element of
    a vector, however long, so nodes whose results are long vectors, or vectors of a length unknown so far, are hidden
    from it.
    """
    light, found = _without_large_tensors(model), dict[str, Type]()
    try:
        typed = onnx.shape_inference.infer_shapes(light)
        _enter(found, typed, symbols)
        _hide_vectors(typed.graph, {})
        del typed.functions[:]
        typed = onnx.shape_inference.infer_shapes(typed, data_prop=True)
    except (onnx.shape_inference.InferenceError, RuntimeError, ValueError):
        typed = light  # ranks that depend on data are then those that the model declares
    _enter(found, typed, symbols)
    return found


def _enter(found: dict[str, Type], model: ModelProto, symbols: protos.Symbols) -> None:
    """Add the types that a model declares, except those whose sizes are known."""
    for graph in protos.graphs_of(model.graph):
        for info in (*graph.value_info, *graph.output):
            if info.name in found and found[info.name].sizes is not None:
                continue
            declared = protos.declared_type(info.type, info.name, symbols, f"value {info.name!r}")
            if declared is not None:
                found[info.name] = declared


def _without_large_tensors(model: ModelProto) -> ModelProto:
    """The model without the data of large tensors."""
    graph = model.graph
    light = ModelProto(ir_version=model.ir_version, opset_import=model.opset_import, functions=model.functions)
    for field in ("node", "input", "output", "value_info"):
        getattr(light.graph, field).extend(getattr(graph, field))
    for tensor in graph.initializer:
        small = tensor.ByteSize() <= MAX_STORED_BYTES
        kept = tensor if small else TensorProto(name=tensor.name, dims=tensor.dims, data_type=tensor.data_type)
        light.graph.initializer.append(kept)
        light.graph.initializer[-1].data_location = tensor.data_location if small else TensorProto.EXTERNAL
    return light


def _hide_vectors(graph: GraphProto, around: Mapping[str, TypeProto]) -> None:
    """Change the graph and its sub-graphs so that onnx propagates no vector that is long or of unknown length."""
    infos = (*graph.input, *graph.value_info, *graph.output)
    known = {**around, **{info.name: copy.deepcopy(info.type) for info in infos}}
    for info in infos:
        if not _is_harmless(info.type):
            for dim in info.type.tensor_type.shape.dim:
                dim.Clear()
    long = [tensor for tensor in graph.initializer if len(tensor.dims) == 1 and tensor.dims[0] > MAX_SHAPE_LENGTH]
    for tensor in long:
        graph.initializer.remove(tensor)
        graph.input.append(onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, [None]))
    for node in graph.node:
        if not all(_is_harmless(known.get(name)) for name in node.output if name):
            node.domain = HIDDEN
        for attribute in node.attribute:
            for inner in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
                _hide_vectors(inner, known)


def _is_harmless(declared: TypeProto | None) -> bool:
    """Whether a value is known to be no vector, or a vector short enough to be a shape."""
    if declared is None or not declared.HasField("tensor_type") or not declared.tensor_type.HasField("shape"):
        return False
    dims = declared.tensor_type.shape.dim
    return len(dims) != 1 or (dims[0].HasField("dim_value") and dims[0].dim_value <= MAX_SHAPE_LENGTH)
