"""`from_onnx`: converts an ONNX model to a program."""

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
from ..structure.depth import raise_recursion_limit
from .choices import Choices, try_choices
from .importer import Importer, Scope, read_opsets
from .inputs import ABSENT, Shapes, create_inputs, read_inputs
from .model import protos
from .model.cells import CellPaths
from .model.functions import count_inlined_nodes
from .model.inference import infer_types
from .model.initializers import Initializers
from .model.origin import Origin, read_origin
from .model.subprograms import MISSING
from .model.values import Optional, Pieces
from .model.values import Sequence as Items


def from_onnx(model: str | PathLike[str] | ModelProto, *, shapes: Shapes | None = None) -> Program:
    """Import an ONNX model: operators of the standard domain (opset 7 and up), sub-graphs and functions.

    Floating-point initializers become trainable parameters under their own names, so that a deployed model can be
    fine-tuned with `Program.value_and_grad`. Statistics of normalizations become buffers. Integers, and values that
    determine shapes, become constants. Arguments are positional, in the order of the graph's inputs; an input with an
    initializer isn't one. The result is a tensor, or a tuple of tensors in the order of the graph. A sequence is a
    list of tensors. Its length is fixed on import, and so is whether an optional is a value or None. Named dimensions
    are symbolic. Cells are read from the metadata of the nodes, as `to_onnx` and `torch.onnx.export` write it, or else
    from the names of the nodes (`/encoder/layer.0/MatMul`).

    Args:
        model: the path of a model, or the model. External data is read from the folder of the path.
        shapes: shapes of inputs by name, for sizes that the model leaves open. These sizes are fixed on import, so that
            operators and branches may depend on them. The items of a sequence `s` are named `s[0]`, `s[1]`,
            ..., and their number is the length of the sequence (two if none is given). None leaves an optional empty;
            otherwise it holds a value.

    Returns:
        The program, in eval mode.

    Raises:
        UnsupportedOperators: operators can't be imported; the message lists all of them, with the names of their nodes.
        ConversionError: the model is malformed; the message names the node, initializer or input.
        UsageError: the file can't be read, or `shapes` don't fit its inputs.
    """
    if isinstance(model, ModelProto):
        return try_choices(functools.partial(_import, model, None, shapes or {}))
    loaded = read_model(model)
    return try_choices(functools.partial(_import, loaded, Path(model).parent, shapes or {}))


def read_model(path: str | PathLike[str]) -> ModelProto:
    """The model in a file, without its external data.

    Raises:
        ConversionError: the file is no ONNX model.
        UsageError: the file can't be read.
    """
    path = Path(path)
    if path.exists() and not path.is_file():
        raise UsageError(f"can't read {path}: it isn't a regular file")
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"can't read {path}: {error.strerror or error}") from error
    try:
        loaded: ModelProto = ModelProto.FromString(data)
    except DecodeError:
        loaded = ModelProto()
    if not loaded.HasField("graph"):
        raise ConversionError(f"{path} isn't an ONNX model, or it is cut off")
    return loaded


def _import(model: ModelProto, folder: Path | None, shapes: Shapes, choices: Choices) -> Program:
    opsets = read_opsets(model.opset_import)
    if not model.HasField("graph"):
        raise ConversionError("the model has no graph")
    protos.require_text(model.graph.name)
    graph, builder, symbols = model.graph, Builder(), protos.Symbols()
    origin = read_origin(model)
    initializers, cells = (
        Initializers(folder, origin),
        CellPaths(graph.name or "Model", origin.calls if origin else None),
    )
    initializers.enter(builder)
    functions = {(f.domain, f.name, f.overload): f for f in model.functions}
    if len(functions) < len(model.functions):
        raise ConversionError("two functions of the model have the same domain, name and overload")
    types = functools.cache(lambda: infer_types(model, symbols))
    importer = Importer(
        builder, initializers, cells, functions, types, folder, count_inlined_nodes(graph.node, functions), choices
    )
    scope = Scope(ChainMap(), opsets)
    declared = read_inputs(graph, symbols, shapes)
    leaves, values = create_inputs(declared, builder.new_value)
    scope.values.update(values)
    inputs = [leaf.value for leaf in leaves]
    outputs = importer.import_graph(graph, scope)
    for output, value in zip(graph.output, outputs, strict=True):
        if isinstance(value, Pieces):
            reason = "SplitToSequence (a result with a data-dependent number of pieces)"
            importer.missing.append((reason, "", f"output {output.name!r}"))
    importer.finish()
    assert MISSING not in outputs, "missing operators are listed"
    results = [_tensors(value) for value in outputs]
    structures = [structure for _, structure in results]
    program = Program(
        inputs=tuple(inputs),
        outputs=tuple(initializers.tensor(builder, x).value for tensors, _ in results for x in tensors),
        nodes=tuple(builder.nodes),
        parameters=initializers.parameters,
        buffers=initializers.buffers,
        constants=tuple(builder.constants),
        calls=tuple(cells.calls),
        arguments=Structure(
            "tuple", (Structure("tuple", tuple(entry.structure for entry in declared.values())), Structure("dict"))
        ),
        result=structures[0] if len(structures) == 1 else Structure("tuple", tuple(structures)),
    )
    if origin is not None:
        program = _restore_structures(program, origin)
    raise_recursion_limit(max(call.path.count(".") + 1 for call in program.calls))
    program = mark_cells(program)
    verify(program)
    return program


def _tensors(value: Any) -> tuple[tuple[Any, ...], Structure]:
    """The tensors of a result and its structure: a tensor, a list, or nothing for an empty optional."""
    if isinstance(value, Optional):
        value = value.value
        if value is None:
            return (), ABSENT
    if isinstance(value, Items):
        if any(isinstance(item, Items | Optional) for item in value.items):
            raise ConversionError("a result is a sequence of sequences or optionals")
        return value.items, Structure("list", (TENSOR,) * len(value.items))
    return (value,), TENSOR


def _restore_structures(program: Program, origin: Origin) -> Program:
    """The program with the structures of arguments and result from the metadata of the model, where they fit."""
    if origin.arguments is not None and len(origin.arguments.paths()) == len(program.inputs):
        program = program.replace(arguments=origin.arguments)
    if origin.result is not None and len(origin.result.paths()) == len(program.outputs):
        program = program.replace(result=origin.result)
    return program
