"""The types of values that a model declares and that onnx infers."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterable, Iterator, Mapping

import onnx
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, TypeProto

from ....runtime.ir.types import Type
from . import protos

MAX_STORED_BYTES = 2**16  # shape inference gets the data of tensors up to this size: larger ones aren't shapes
MAX_SHAPE_LENGTH = 2**10  # elements of a tensor that may be a shape
HIDDEN = "hidden from inference"  # an unknown domain, which inference skips


def infer_shapes(model: ModelProto, *, data_prop: bool = False) -> ModelProto:
    """Return a copy of a model with the types that onnx infers.

    A `Split` into another number of pieces than it has outputs is hidden: it would end the process, since onnx 1.23
    reads beyond a vector there.

    Raises:
        InferenceError, RuntimeError, ValueError: the model is wrong.
    """
    checked = ModelProto()
    checked.CopyFrom(model)
    for node in _nodes(checked.graph.node, *(function.node for function in checked.functions)):
        counts = [attribute.i for attribute in node.attribute if attribute.name == "num_outputs"]
        if node.op_type == "Split" and any(count != len(node.output) for count in counts):
            node.domain = HIDDEN
    return onnx.shape_inference.infer_shapes(checked, data_prop=data_prop)


def _nodes(*lists: Iterable[NodeProto]) -> Iterator[NodeProto]:
    """Yield the nodes of these lists, and of all sub-graphs."""
    for node in itertools.chain(*lists):
        yield node
        for attribute in node.attribute:
            inner = [attribute.g] if attribute.HasField("g") else []
            yield from _nodes(*(graph.node for graph in (*inner, *attribute.graphs)))


def infer_types(model: ModelProto, symbols: protos.Symbols) -> Mapping[str, Type]:
    """The types of values by name, as the model declares them and onnx infers them.

    Inference runs first without onnx's data propagation, then with it. Propagation creates a symbol for each element of
    a vector, however long, so nodes whose results are long vectors, or vectors of a length unknown so far, are hidden
    from it.
    """
    stripped, types = _strip_large_tensors(model), dict[str, Type]()
    try:
        typed = infer_shapes(stripped)
        _add_types(types, typed, symbols)
        _hide_vectors(typed.graph, {})
        del typed.functions[:]
        typed = infer_shapes(typed, data_prop=True)
    except (onnx.shape_inference.InferenceError, RuntimeError, ValueError):
        typed = stripped  # data-dependent ranks are then known only if the model declares them
    _add_types(types, typed, symbols)
    return types


def _add_types(types: dict[str, Type], model: ModelProto, symbols: protos.Symbols) -> None:
    """Add the types that a model declares; types whose sizes are all known already are kept."""
    for graph in protos.graphs_of(model.graph):
        for info in (*graph.value_info, *graph.output):
            if info.name in types and types[info.name].sizes is not None:
                continue
            declared = protos.declared_type(info.type, info.name, symbols, f"value {info.name!r}")
            if declared is not None:
                types[info.name] = declared


def _strip_large_tensors(model: ModelProto) -> ModelProto:
    """The model without the data of large tensors."""
    graph = model.graph
    stripped = ModelProto(ir_version=model.ir_version, opset_import=model.opset_import, functions=model.functions)
    for field in ("node", "input", "output", "value_info"):
        getattr(stripped.graph, field).extend(getattr(graph, field))
    for tensor in graph.initializer:
        small = tensor.ByteSize() <= MAX_STORED_BYTES
        kept = tensor if small else TensorProto(name=tensor.name, dims=tensor.dims, data_type=tensor.data_type)
        stripped.graph.initializer.append(kept)
        stripped.graph.initializer[-1].data_location = tensor.data_location if small else TensorProto.EXTERNAL
    return stripped


def _hide_vectors(graph: GraphProto, outer_types: Mapping[str, TypeProto]) -> None:
    """Hide vectors that are long or of unknown length from onnx's data propagation, in sub-graphs too; in place."""
    infos = (*graph.input, *graph.value_info, *graph.output)
    types = {**outer_types, **{info.name: copy.deepcopy(info.type) for info in infos}}
    for info in infos:
        if not _is_harmless(info.type):
            for dim in info.type.tensor_type.shape.dim:
                dim.Clear()
    long = [tensor for tensor in graph.initializer if len(tensor.dims) == 1 and tensor.dims[0] > MAX_SHAPE_LENGTH]
    for tensor in long:
        graph.initializer.remove(tensor)
        graph.input.append(onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, [None]))
    for node in graph.node:
        if not all(_is_harmless(types.get(name)) for name in node.output if name):
            node.domain = HIDDEN
        for attribute in node.attribute:
            for inner in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
                _hide_vectors(inner, types)


def _is_harmless(declared: TypeProto | None) -> bool:
    """Whether a value is known not to be a vector, or to be a vector short enough for a shape."""
    if declared is None or not declared.HasField("tensor_type") or not declared.tensor_type.HasField("shape"):
        return False
    dims = declared.tensor_type.shape.dim
    return len(dims) != 1 or (dims[0].HasField("dim_value") and dims[0].dim_value <= MAX_SHAPE_LENGTH)
