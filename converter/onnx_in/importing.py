"""`from_onnx`: from an ONNX model to a program."""

from __future__ import annotations

import functools
from collections import ChainMap
from os import PathLike
from pathlib import Path

from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from onnx import ModelProto

from ...runtime.errors import ConversionError, ShapeError, UsageError
from ...runtime.ir.passes.mark_cells import mark_cells
from ...runtime.ir.program import Program
from ...runtime.ir.verify import verify
from ...runtime.memory import require_room
from ...runtime.tracing import Builder
from ...runtime.tree import TENSOR, Structure
from ..structure.depth import leave_room
from . import protos
from .cells import CellPaths
from .functions import require_finite
from .inferred import inferred_types
from .origin import Origin, written_by_us
from .stored import Stored
from .subprograms import MISSING
from .walk import Scope, Walk, imported_opsets


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
    if path.exists() and not path.is_file():
        raise UsageError(f"can't read {path}: it is no regular file")
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"can't read {path}: {error.strerror or error}") from error
    try:
        read = ModelProto.FromString(data)
    except DecodeError:
        read = ModelProto()
    if not read.HasField("graph"):
        raise ConversionError(f"{path} is no ONNX model, or is cut off")
    return _import(read, path.parent)


def _import(model: ModelProto, folder: Path | None) -> Program:
    opsets = imported_opsets(model.opset_import)
    if not model.HasField("graph"):
        raise ConversionError("the model has no graph")
    protos.require_text(model.graph.name)
    graph, builder, symbols = model.graph, Builder(), protos.Symbols()
    origin = written_by_us(model)
    stored, cells = Stored(folder, origin), CellPaths(graph.name or "Model", origin.calls if origin else None)
    stored.enter(builder)
    functions = {(f.domain, f.name, f.overload): f for f in model.functions}
    if len(functions) < len(model.functions):
        raise ConversionError("two functions of the model have the same domain, name and overload")
    types = functools.cache(lambda: inferred_types(model, symbols))
    walk = Walk(builder, stored, cells, functions, types, folder, require_finite(graph.node, functions))
    has_data = {tensor.name for tensor in graph.initializer} | {t.values.name for t in graph.sparse_initializer}
    scope = Scope(ChainMap(), opsets)
    inputs = []
    for info in graph.input:
        if info.name in has_data:
            continue
        protos.require_text(info.name)
        if info.name in scope.values:
            raise ConversionError(f"two inputs are named {info.name!r}")
        declared = protos.declared_type(info.type, info.name, symbols, f"input {info.name!r}")
        if declared is None:
            kind = info.type.WhichOneof("value") or "nothing"
            raise ConversionError(
                f"input {info.name!r} is declared as {kind.removesuffix('_type')}: needed a tensor with known dtype "
                "and number of dimensions"
            )
        if (sizes := declared.sizes) is not None:
            try:
                require_room(sizes, declared.dtype)
            except ShapeError as error:
                raise ConversionError(f"input {info.name!r}: {error}") from None
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
    if origin is not None:
        program = _called_as_told(program, origin)
    leave_room(max(call.path.count(".") + 1 for call in program.calls))
    program = mark_cells(program)
    verify(program)
    return program


def _called_as_told(program: Program, origin: Origin) -> Program:
    """The program with the structures of arguments and result that the model tells, where they fit."""
    if origin.arguments is not None and len(origin.arguments.paths()) == len(program.inputs):
        program = program.replace(arguments=origin.arguments)
    if origin.result is not None and len(origin.result.paths()) == len(program.outputs):
        program = program.replace(result=origin.result)
    return program
