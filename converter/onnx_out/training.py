"""`training_step_to_onnx`: a step of training as an ONNX file, to be run where there is no torch and no cellbridge."""

from __future__ import annotations

import json
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import onnx

from ...runtime.errors import UsageError
from ...runtime.ir.program import Program
from ...runtime.ir.types import FLOAT32, Value, is_half
from ...runtime.lowering import opsets
from ...runtime.lowering.model import lower_program, symbolic_shape
from ...runtime.lowering.rewrites import rewrite, upcast_half_precision
from ...runtime.lowering.writing import add_initializers, write
from ...runtime.nn.wrap.training_step import TrainingStep
from ...runtime.ops import elementwise
from ...runtime.ops.random import RANDOM_OPS
from ...runtime.programs.plan import plan
from ...runtime.tracing import Builder, SymbolicTensor
from ...runtime.train_step.training_program import TrainingProgram, training_program
from .metadata import program_metadata

UPDATE = "update."
"""What the output that a tensor of the state gets is called: this, and its name."""


def training_step_to_onnx(
    step: TrainingStep,
    batch: tuple[Any, ...],
    path: str | PathLike[str] | None = None,
    *,
    names: tuple[str, ...] | None = None,
    dynamic_shapes: Any = None,
    opset: int | None = None,
) -> onnx.ModelProto:
    """Write a step of training as an ONNX model of standard operators, and beside it a JSON file that describes it.

    The model takes a batch, and each tensor of its state (parameters, moving statistics, what the optimizer and the
    loss scale keep) under its name; it gives `loss` (in float32 where it is in half precision), `overflow` (whether the
    update was left out) and the new state, as `update.<name>`. The state to begin with is in the model: a tensor that
    isn't fed has that value. So has `learning_rate`, unless the optimizer computes it. The JSON file,
    `<path without .onnx>.json`, names all of them.

    Args:
        step: the step, as `runtime.training_step` makes it.
        batch: tensors of a batch, whose dtypes and shapes count.
        path: the file to write, whole or not at all.
        names: what to call the tensors of the batch; `batch_0`, ... if not given.
        dynamic_shapes: for each tensor of the batch a dict from axes to names, or None; None: all sizes are fixed.
        opset: version of the operator set; see `to_onnx`.

    Returns:
        The model. Where tensors are in the file beside it, the model refers to them.

    Raises:
        UnsupportedOperators: ops that have no ONNX form: all of them, with Cell path and source line.
        ConversionError: an op has no ONNX form with these attributes or symbolic sizes.
        UsageError: the opset isn't supported, or a file can't be written.
    """
    traced = training_program(step, batch, dynamic_shapes)
    program = rewrite(traced.program, upcast_half_precision)  # what is checked, and what runs on a CPU
    program, loss = _in_float32(program, traced.loss)
    state = {name: buffer.value for name, buffer in program.buffers.items() if buffer.update is not None}
    kept = state | traced.learning_rates
    results = [("loss", loss), ("overflow", traced.overflow)]
    results += [(f"{UPDATE}{name}", value) for name, value in program.updates.items()]
    used = {*kept, *(name for name, _ in results)}
    taken: list[tuple[str, Value]] = []
    for i, value in enumerate(program.inputs):
        name = names[i] if names else f"batch_{i}"
        while name in used:  # the state has the names that it has in the network
            name = f"batch_{name}"
        used.add(name)
        taken.append((name, value))
    nodes = [node.node for node in plan(program, [value for _, value in results])]
    choice = opsets.choose(opset, draws=any(node.op in RANDOM_OPS for node in nodes))
    lowering, choice = lower_program(program, nodes, choice, [*taken, *kept.items()], results)
    lowering.optimize()
    for (name, _), (given, _) in zip(results, lowering.results, strict=True):
        if given != name:
            raise UsageError(
                f"the network has a tensor called {name!r}, which the file of a step gives something else under: the "
                f"loss, the overflow, or an update ({UPDATE}...); rename that of the network"
            )
    metadata = program_metadata(program, lowering.computed_parameters(), lowering.graph.transposed)
    model = lowering.model(symbolic_shape, [*metadata, opsets.metadata(choice)])
    begin = {lowering.tensors[value]: program.constant_data[value] for value in kept.values()}
    initializers = {**lowering.initializers(), **begin}
    if path is None:
        add_initializers(model, initializers)
        return model
    description = Path(path).with_suffix(".json")
    if description == Path(path):
        raise UsageError(f"the model can't be called {path}: {description} is the file that describes it")
    write(model, initializers, path, beside={description: _described(traced, loss, lowering.tensors, kept)})
    return model


def _in_float32(program: Program, loss: Value) -> tuple[Program, Value]:
    """The program, and the loss, in float32 where it is in half precision: NumPy has no bfloat16 to give it in."""
    if not is_half(loss.dtype):
        return program, loss
    builder = Builder.from_program(program)
    cast = elementwise.cast(SymbolicTensor(builder, loss), dtype=FLOAT32).value
    return program.replace(nodes=tuple(builder.nodes)), cast


def _described(traced: TrainingProgram, loss: Value, names: Mapping[Value, str], kept: Mapping[str, Value]) -> bytes:
    """The JSON that says what each input and output is; `names` are those of the inputs."""
    held = traced.state_tensors
    changed = traced.program.updates

    def tensor(value: Value) -> dict[str, Any]:
        return {"dtype": value.dtype.name, "shape": symbolic_shape("", value.type)}

    described: dict[str, dict[str, Any]] = {
        "inputs": {
            **{names[value]: {"is": "a tensor of the batch"} | tensor(value) for value in traced.program.inputs},
            **{
                names[value]: {"is": "the learning rate"} | tensor(value)
                for name, value in kept.items()
                if name not in changed
            },
        },
        "state": {
            names[value]: {"is": held[name].role, "update": f"{UPDATE}{name}"} | tensor(value)
            for name, value in kept.items()
            if name in changed
        },
        "outputs": {
            "loss": {"is": "the loss, not scaled"} | tensor(loss),
            "overflow": {"is": "whether a gradient wasn't finite, so that the update was left out"}
            | tensor(traced.overflow),
        },
    }
    sections = [
        f'  "{section}": {{\n'
        + ",\n".join(f"    {json.dumps(n)}: {json.dumps(item)}" for n, item in items.items())
        + "\n  }"
        for section, items in described.items()
    ]
    return ("{\n" + ",\n".join(sections) + "\n}\n").encode()
