"""`to_onnx`: converts a program to one ONNX model of standard operators."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import Literal

import onnx

from ...runtime.errors import UsageError
from ...runtime.ir.program import Program, require_program
from ...runtime.ir.types import Value
from ...runtime.lowering import opsets
from ...runtime.lowering.model import lower_program
from ...runtime.lowering.writing import Tensors, add_initializers, write
from ...runtime.ops.registry import get
from ...runtime.programs import random_inputs
from ...runtime.programs.plan import plan
from .axes import AxisNames, DynamicAxes
from .metadata import program_metadata
from .naming import input_names, output_names

Named = list[tuple[str, Value]]


def to_onnx(
    program: Program,
    path: str | PathLike[str] | None = None,
    *,
    opset: int | None = None,
    dynamic_axes: DynamicAxes | None = None,
    external_data: bool | Literal["auto"] = "auto",
    observe: Sequence[Value] = (),
    draws_as_inputs: bool = False,
    optimize: bool = True,
) -> onnx.ModelProto:
    """Write a program as an ONNX model of standard operators.

    An input has the name of the keyword argument that it was captured from (`input_ids`), or else that of its value. An
    output has the name of its key in the result (`logits`), `output_0`, ... if the result is a sequence, or `output` if
    it is one tensor. The new values of the buffers that the program changes follow, as `update.<buffer>`. Initializers
    have the qualified names of parameters and buffers; symbolic dimensions keep their names. The name of a node starts
    with the path of its Cell; its metadata contain the call of the Cell (`cellbridge.cell`) and the source line
    (`cellbridge.source`). A value without an ONNX form that depends on parameters, buffers and constants alone is
    computed on export, and the model contains the result (`weight.matrix_exp`).

    Args:
        program: the program. Nodes, parameters and constants that no output depends on are left out.
        path: the file, which is written atomically.
        opset: version of the operator set, 17 to the newest that onnx has. By default the lowest that holds the model
            without loss: each op that ONNX Runtime has a kernel for is one operator (LayerNormalization from 17 on,
            Gelu from 20 on, Attention and RMSNormalization from 23 on; 21 is the newest with random draws). In a newer
            one that is asked for, CumProd (from 26 on) is one operator too, and so are those that an ONNX file that was
            read had (Swish, LinearAttention, SwiGLU, ...), which ONNX Runtime may not run.
        dynamic_axes: names for symbolic dimensions, by names of inputs and outputs, as `torch.onnx.export` takes them:
            `{"x": {0: "batch"}}`, or `{"x": [0]}` for axes that are symbolic and keep their names.
        external_data: whether tensors go to `<path>.data` beside the file (`<path>.<16 digits>.data` where that is
            taken: tensors of another model are never overwritten): `"auto"`, if they take 2 GB or more, or 256 MB of a
            program that reads them from a checkpoint; they are written one by one. Those of less than a kilobyte stay
            in the file.
        observe: further values of the program to return after the outputs, under the names of the values.
        draws_as_inputs: make the random numbers of random ops inputs, after the program's own, under the names of the
            values, so that recorded random numbers can be replayed.
        optimize: make the model smaller, across Cells, without changing its results: equal nodes are merged, values
            that depend on no input are computed, batch normalizations are folded into convolutions. Some parameters
            are then stored in the form that operators take (a transposed weight, `fc.weight.transpose`). Otherwise
            every parameter that is used is stored as in the program, to be trained or read back.

    Returns:
        The model. If tensors are in a file beside it, the model refers to them.

    Raises:
        UnsupportedOperators: ops that depend on inputs and have no ONNX form: all, with Cell path and source line.
        ConversionError: an op has no ONNX form with these attributes or symbolic sizes, or the model is above 2 GB and
            there is no path to write it to.
        UsageError: it isn't a program, the opset isn't supported, an axis in `dynamic_axes` was fixed at capture,
            external data have no path, or the path can't be written.
    """
    require_program(program)
    if path is None and external_data is True:
        raise UsageError("external_data=True needs a path: the tensors are written to a file beside it")
    model, initializers = onnx_parts(
        program,
        opset=opset,
        dynamic_axes=dynamic_axes,
        observe=observe,
        draws_as_inputs=draws_as_inputs,
        optimize=optimize,
    )
    if path is None:
        add_initializers(model, initializers)
    else:
        write(model, initializers, path, external_data)
    return model


def onnx_parts(
    program: Program,
    *,
    opset: int | None = None,
    dynamic_axes: DynamicAxes | None = None,
    observe: Sequence[Value] = (),
    draws_as_inputs: bool = False,
    optimize: bool = True,
) -> tuple[onnx.ModelProto, Tensors]:
    """Return the model of a program without its tensors, and the tensors by name; see `to_onnx`."""
    results: Named = list(zip(output_names(program), program.outputs, strict=True))
    results += [(f"update.{name}", value) for name, value in program.updates.items()]
    results += [(value.name, value) for value in observe]
    nodes = [step.node for step in plan(program, list(dict.fromkeys(value for _, value in results)))]
    if draws_as_inputs:
        draws = [node for node in nodes if get(node.op).traits.draws]
        program = random_inputs.draws_as_inputs(program, draws)
        nodes = [node for node in nodes if node not in draws]
    inputs: Named = list(zip(input_names(program), program.inputs, strict=True))

    axes = AxisNames([*inputs, *results], dynamic_axes or {})
    choice = opsets.choose(opset, draws=any(get(node.op).traits.draws for node in nodes))
    lowering, choice = lower_program(program, nodes, choice, inputs, results)
    if optimize:
        lowering.optimize()
    metadata = program_metadata(program, lowering.computed_parameters(), lowering.graph.transposed)
    model = lowering.model(axes.shape, [*metadata, opsets.metadata(choice)])
    return model, lowering.initializers()
