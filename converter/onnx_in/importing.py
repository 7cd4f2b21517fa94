"""`from_onnx`: from an ONNX model to a program."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from os import PathLike
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from onnx import ModelProto

from ...runtime.errors import ConversionError, UsageError
from ...runtime.ir.passes.mark_cells import mark_cells
from ...runtime.ir.program import Program
from ...runtime.ir.types import Type
from ...runtime.ir.verify import verify
from ...runtime.tracing import Builder
from ...runtime.tree import TENSOR, Structure
from . import protos
from .cells import CellPaths
from .origin import written_by_us
from .stored import Stored
from .subprograms import MISSING
from .walk import STANDARD, Scope, Walk

LARGEST_TYPED = 2**16  # bytes of a tensor that shape inference is given: larger ones are no shapes


def from_onnx(model: str | PathLike[str] | ModelProto) -> Program:
    """Import an ONNX model: operators of the standard domain (opset 7 and up), sub-graphs and functions.

    Floating-point initializers become trainable parameters under their own names, so that a deployed model can be
    fine-tuned with `Program.value_and_grad`; statistics of normalizations become buffers; integers, and what decides
    shapes, constants. Inputs are positional, in the order of the graph, without those that have an initializer; the
    result is a tensor, or a tuple of them in the order of the graph. Named dimensions are symbolic. Cells are found
    from the metadata of the nodes, as `to_onnx` and `torch.onnx.export` write them, else from the names of the nodes
    (`/encoder/layer.0/MatMul`).

    Args:
        model: the path of a model, or the model. External data are read from the folder of the path.

    Returns:
        The program, in eval mode.

    Raises:
        UnsupportedOperators: operators that can't be imported: all of them, with the names of their nodes.
        ConversionError: the model is malformed; the message names the node, initializer or input.
        UsageError: the file can't be read.
    """
    if isinstance(model, ModelProto):
        return _import(model, None)
    path = Path(model)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"can't read {path}: {error.strerror or error}") from error
    try:
        return _import(ModelProto.FromString(data), path.parent)
    except DecodeError:
        raise ConversionError(f"{path} is no ONNX model, or is cut off") from None


def _import(model: ModelProto, folder: Path | None) -> Program:
    opsets = {"" if o.domain in STANDARD else o.domain: o.version for o in model.opset_import}
    if not model.HasField("graph"):
        raise ConversionError("the model has no graph")
    graph, builder, symbols = model.graph, Builder(), protos.Symbols()
    calls, kinds = written_by_us(model)
    stored, cells = Stored(folder, kinds), CellPaths(graph.name or "Model", calls)
    stored.enter(builder)
    functions = {(f.domain, f.name, f.overload): f for f in model.functions}
    types = functools.cache(lambda: inferred_types(model, symbols))
    walk = Walk(builder, stored, cells, functions, types, folder)
    has_data = {tensor.name for tensor in graph.initializer} | {t.values.name for t in graph.sparse_initializer}
    scope = Scope({}, opsets)
    inputs = []
    for info in graph.input:
        if info.name in has_data:
            continue
        if info.name in scope.values:
            raise ConversionError(f"two inputs are named {info.name!r}")
        declared = protos.declared_type(info.type, info.name, symbols, f"input {info.name!r}")
        if declared is None:
            kind = info.type.WhichOneof("value") or "nothing"
            raise ConversionError(
                f"input {info.name!r} is declared as {kind.removesuffix('_type')}: needed a tensor with known dtype "
                "and number of dimensions"
            )
        scope.values[info.name] = builder.new_value(info.name, declared)
        inputs.append(scope.values[info.name].value)
    outputs = walk.graph(graph, scope)
    walk.finish()
    assert MISSING not in outputs, "what is missing was listed"
    results = []
    for value in outputs:
        tensors = value.items if hasattr(value, "items") else (value,)
        results.append([stored.tensor(builder, x).value for x in tensors])
    structures = [
        TENSOR if not hasattr(value, "items") else Structure("list", (TENSOR,) * len(found))
        for value, found in zip(outputs, results, strict=True)
    ]
    program = Program(
        inputs=tuple(inputs),
        outputs=tuple(value for found in results for value in found),
        nodes=tuple(builder.nodes),
        parameters=stored.parameters,
        buffers=stored.buffers,
        constants=tuple(builder.constants),
        calls=tuple(cells.calls),
        arguments=Structure("tuple", (Structure("tuple", (TENSOR,) * len(inputs)), Structure("dict"))),
        result=structures[0] if len(structures) == 1 else Structure("tuple", tuple(structures)),
    )
    program = mark_cells(program)
    verify(program)
    return program


def inferred_types(model: ModelProto, symbols: protos.Symbols) -> Mapping[str, Type]:
    """The types of values by name, as the model declares them and onnx infers them."""
    light = ModelProto()
    light.CopyFrom(model)
    for graph in protos.graphs_of(light.graph):
        for tensor in graph.initializer:
            if tensor.ByteSize() > LARGEST_TYPED:
                light_weight(tensor)
    try:
        typed = onnx.shape_inference.infer_shapes(light, data_prop=True)
    except (onnx.shape_inference.InferenceError, RuntimeError, ValueError):
        typed = light  # the rank of what a run decides is then taken from what the model declares
    found: dict[str, Type] = {}
    for graph in protos.graphs_of(typed.graph):
        for info in (*graph.value_info, *graph.output):
            declared = protos.declared_type(info.type, info.name, symbols, f"value {info.name!r}")
            if declared is not None:
                found[info.name] = declared
    return found


def light_weight(tensor: onnx.TensorProto) -> None:
    """Take the data out of a tensor: dtype and shape stay."""
    for field in ("raw_data", "float_data", "int32_data", "int64_data", "double_data", "uint64_data"):
        tensor.ClearField(field)
    tensor.data_location = onnx.TensorProto.EXTERNAL
