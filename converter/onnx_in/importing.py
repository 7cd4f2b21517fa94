"""`from_onnx`: from an ONNX model to a program."""

from __future__ import annotations

import functools
from collections import ChainMap
from os import PathLike
from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from onnx import ModelProto

from ...runtime.errors import ConversionError, UsageError
from ...runtime.ir.passes.mark_cells import mark_cells
from ...runtime.ir.program import Program
from ...runtime.programs.verify import verify
from ...runtime.tracing import Builder
from ...runtime.tree import TENSOR, Structure
from ..structure.depth import leave_room
from .choices import Choices, tried
from .importer import Importer, Scope, imported_opsets
from .inputs import ABSENT, Shapes, read_inputs, traced_inputs
from .model import protos
from .model.cells import CellPaths
from .model.functions import require_finite
from .model.inferred import inferred_types
from .model.origin import Origin, written_by_us
from .model.stored import Stored
from .model.subprograms import MISSING
from .model.values import Optional, Pieces
from .model.values import Sequence as Items


def from_onnx(model: str | PathLike[str] | ModelProto, *, shapes: Shapes | None = None) -> Program:
    """Import an ONNX model: operators of the standard domain (opset 7 and up), sub-graphs and functions.

    Floating-point initializers become trainable parameters under their own names, so that a deployed model can be
    fine-tuned with `Program.value_and_grad`; statistics of normalizations become buffers; integers, and what decides
    shapes, constants. Inputs are positional, in the order of the graph, without those that have an initializer; the
    result is a tensor, or a tuple of them in the order of the graph. A sequence is a list of tensors, whose number is
    decided on import; so is whether an optional is a value or None. Named dimensions are symbolic. Cells are found
    from the metadata of the nodes, as `to_onnx` and `torch.onnx.export` write them, else from the names of the nodes
    (`/encoder/layer.0/MatMul`).

    Args:
        model: the path of a model, or the model. External data are read from the folder of the path.
        shapes: of inputs by name, for sizes that the model leaves open. What they decide is decided on import, so that
            a model may be read whose operators or branches depend on them. Those of the items of a sequence `s` are
            named `s[0]`, `s[1]`, ..., and are as many as it has items (two if none is given); None leaves an optional
            out, which holds a value otherwise.

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


def _import(model: ModelProto, folder: Path | None, shapes: Shapes, choices: Choices) -> Program:
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
    importer = Importer(
        builder, stored, cells, functions, types, folder, require_finite(graph.node, functions), choices
    )
    scope = Scope(ChainMap(), opsets)
    declared = read_inputs(graph, symbols, shapes)
    leaves, values = traced_inputs(declared, builder.new_value)
    scope.values.update(values)
    inputs = [leaf.value for leaf in leaves]
    outputs = importer.graph(graph, scope)
    for output, value in zip(graph.output, outputs, strict=True):
        if isinstance(value, Pieces):
            reason = "SplitToSequence (a result of as many pieces as only the run tells)"
            importer.missing.append((reason, "", f"output {output.name!r}"))
    importer.finish()
    assert MISSING not in outputs, "what is missing was listed"
    results = [_tensors(value) for value in outputs]
    structures = [structure for _, structure in results]
    program = Program(
        inputs=tuple(inputs),
        outputs=tuple(stored.tensor(builder, x).value for tensors, _ in results for x in tensors),
        nodes=tuple(builder.nodes),
        parameters=stored.parameters,
        buffers=stored.buffers,
        constants=tuple(builder.constants),
        calls=tuple(cells.calls),
        arguments=Structure(
            "tuple", (Structure("tuple", tuple(one.structure for one in declared.values())), Structure("dict"))
        ),
        result=structures[0] if len(structures) == 1 else Structure("tuple", tuple(structures)),
    )
    if origin is not None:
        program = _called_as_told(program, origin)
    leave_room(max(call.path.count(".") + 1 for call in program.calls))
    program = mark_cells(program)
    verify(program)
    return program


def _tensors(value: Any) -> tuple[tuple[Any, ...], Structure]:
    """The tensors of a result, and what they are in it: one, the items of a list, or nothing of an empty optional."""
    if isinstance(value, Optional):
        value = value.value
        if value is None:
            return (), ABSENT
    if isinstance(value, Items):
        if any(isinstance(item, Items | Optional) for item in value.items):
            raise ConversionError("a result is a sequence of sequences or optionals")
        return value.items, Structure("list", (TENSOR,) * len(value.items))
    return (value,), TENSOR


def _called_as_told(program: Program, origin: Origin) -> Program:
    """The program with the structures of arguments and result that the model tells, where they fit."""
    if origin.arguments is not None and len(origin.arguments.paths()) == len(program.inputs):
        program = program.replace(arguments=origin.arguments)
    if origin.result is not None and len(origin.result.paths()) == len(program.outputs):
        program = program.replace(result=origin.result)
    return program
