"""`from_onnx`: from an ONNX model to a program."""

from __future__ import annotations

import functools
from collections import ChainMap, Counter
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path

from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from onnx import GraphProto, ModelProto, ValueInfoProto

from ...runtime.errors import ConversionError, ShapeError, UsageError
from ...runtime.ir.dims import SymbolicDim
from ...runtime.ir.passes.mark_cells import mark_cells
from ...runtime.ir.program import Program
from ...runtime.ir.types import Type
from ...runtime.ir.verify import verify
from ...runtime.memory import require_room
from ...runtime.tracing import Builder
from ...runtime.tree import TENSOR, Structure
from ..structure.depth import leave_room
from . import protos
from .cells import CellPaths
from .choices import Choices, tried
from .functions import require_finite
from .inferred import inferred_types
from .origin import Origin, written_by_us
from .stored import Stored
from .subprograms import MISSING
from .walk import Scope, Walk, imported_opsets


def from_onnx(model: str | PathLike[str] | ModelProto, *, shapes: Mapping[str, Sequence[int]] | None = None) -> Program:
    """Import an ONNX model: operators of the standard domain (opset 7 and up), sub-graphs and functions.

    Floating-point initializers become trainable parameters under their own names, so that a deployed model can be
    fine-tuned with `Program.value_and_grad`; statistics of normalizations become buffers; integers, and what decides
    shapes, constants. Inputs are positional, in the order of the graph, without those that have an initializer; the
    result is a tensor, or a tuple of them in the order of the graph. Named dimensions are symbolic. Cells are found
    from the metadata of the nodes, as `to_onnx` and `torch.onnx.export` write them, else from the names of the nodes
    (`/encoder/layer.0/MatMul`).

    Args:
        model: the path of a model, or the model. External data are read from the folder of the path.
        shapes: of inputs by name, for sizes that the model leaves open. What they decide is decided on import, so that
            a model may be read whose operators or branches depend on them.

    Returns:
        The program, in eval mode.

    Raises:
        UnsupportedOperators: operators that can't be imported: all of them, with the names of their nodes.
        ConversionError: the model is malformed; the message names the node, initializer or input.
        UsageError: the file can't be read, or `shapes` don't fit its inputs.
    """
    if isinstance(model, ModelProto):
        return tried(functools.partial(_import, model, None, shapes or {}))
    read = read_model(model)
    return tried(functools.partial(_import, read, Path(model).parent, shapes or {}))


def read_model(path: str | PathLike[str]) -> ModelProto:
    """The model in a file, without its external data.

    Raises:
        ConversionError: the file is no ONNX model.
        UsageError: it can't be read.
    """
    path = Path(path)
    if path.exists() and not path.is_file():
        raise UsageError(f"can't read {path}: it is no regular file")
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"can't read {path}: {error.strerror or error}") from error
    try:
        read: ModelProto = ModelProto.FromString(data)
    except DecodeError:
        read = ModelProto()
    if not read.HasField("graph"):
        raise ConversionError(f"{path} is no ONNX model, or is cut off")
    return read


def _import(model: ModelProto, folder: Path | None, shapes: Mapping[str, Sequence[int]], choices: Choices) -> Program:
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
    walk = Walk(builder, stored, cells, functions, types, folder, require_finite(graph.node, functions), choices)
    scope = Scope(ChainMap(), opsets)
    inputs = []
    for name, declared in input_types(graph, symbols, shapes).items():
        scope.values[name] = builder.new_value(name, declared)
        inputs.append(scope.values[name].value)
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


def input_types(graph: GraphProto, symbols: protos.Symbols, shapes: Mapping[str, Sequence[int]]) -> dict[str, Type]:
    """The types of the inputs that have no initializer, in order, with the sizes that `shapes` give.

    Raises:
        ConversionError: an input is no tensor, two have one name, or a declared shape is too large.
        UsageError: `shapes` name what is no input, or sizes that it can't have.
    """
    has_data = {tensor.name for tensor in graph.initializer} | {t.values.name for t in graph.sparse_initializer}
    protos.require_text(*(info.name for info in graph.input))
    infos = [info for info in graph.input if info.name not in has_data]
    for name, count in Counter(info.name for info in infos).items():
        if count > 1:
            raise ConversionError(f"two inputs are named {name!r}")
    symbols.name_unsolved([_declared_input(info, symbols) for info in infos])
    declared = {info.name: _declared_input(info, symbols) for info in infos}
    symbols.sizes |= given_sizes(declared, shapes)
    found = {info.name: _declared_input(info, symbols) for info in infos}
    for name, type in found.items():
        if name in shapes and type.sizes not in (None, tuple(shapes[name])):
            raise _misfit(name, declared[name], shapes[name])
        if type.sizes is not None:
            try:
                require_room(type.sizes, type.dtype)
            except ShapeError as error:
                raise ConversionError(f"input {name!r}: {error}") from None
    return found


def _declared_input(info: ValueInfoProto, symbols: protos.Symbols) -> Type:
    declared = protos.declared_type(info.type, info.name, symbols, f"input {info.name!r}")
    if declared is None:
        kind = info.type.WhichOneof("value") or "nothing"
        raise ConversionError(
            f"input {info.name!r} is declared as {kind.removesuffix('_type')}: needed a tensor with known dtype "
            "and number of dimensions"
        )
    return declared


def given_sizes(declared: Mapping[str, Type], shapes: Mapping[str, Sequence[int]]) -> dict[str, int]:
    """What the symbols of declared inputs are where those have the given shapes.

    Raises:
        UsageError: there is no such input, or it can't have that shape.
    """
    found: dict[str, int] = {}
    for name, shape in shapes.items():
        if name not in declared:
            raise UsageError(f"the model has no input {name!r}: it takes {', '.join(declared) or 'nothing'}")
        type = declared[name]
        if len(shape) != type.rank or any(size < 0 for size in shape):
            raise _misfit(name, type, shape)
        for dim, size in zip(type.shape, shape, strict=True):
            if not isinstance(dim, SymbolicDim):
                fits = dim == size
            else:
                solved = dim.solve(size)
                fits = solved is None or found.setdefault(*solved) == solved[1]
            if not fits:
                raise _misfit(name, type, shape)
    return found


def _misfit(name: str, type: Type, shape: Sequence[int]) -> UsageError:
    return UsageError(f"input {name!r} of the model is {type}, it can't have the shape {list(shape)}")


def _called_as_told(program: Program, origin: Origin) -> Program:
    """The program with the structures of arguments and result that the model tells, where they fit."""
    if origin.arguments is not None and len(origin.arguments.paths()) == len(program.inputs):
        program = program.replace(arguments=origin.arguments)
    if origin.result is not None and len(origin.result.paths()) == len(program.outputs):
        program = program.replace(result=origin.result)
    return program
