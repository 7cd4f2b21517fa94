"""`training_step_to_onnx`: a training step as an ONNX file, which runs without torch and cellbridge."""

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
from ...runtime.ops.registry import get
from ...runtime.programs.plan import plan
from ...runtime.storage.safetensors_bytes import to_bytes
from ...runtime.tracing import Builder, SymbolicTensor
from ...runtime.train_step.training_program import TrainingProgram, training_program
from .metadata import program_metadata

UPDATE = "update."
"""The prefix of the outputs with the new state; the name of the state tensor follows."""


def training_step_to_onnx(
    step: TrainingStep,
    batch: tuple[Any, ...],
    path: str | PathLike[str] | None = None,
    *,
    names: tuple[str, ...] | None = None,
    dynamic_shapes: Any = None,
    opset: int | None = None,
    separate_state: bool = False,
) -> onnx.ModelProto:
    """Write a training step as an ONNX model of standard operators, and a JSON file that describes it.

    The model takes a batch and each tensor of its state (parameters, moving statistics, the states of the optimizer and
    of the loss scale) under its name. It returns `loss` (in float32 if it is in half precision), `overflow` (whether
    the update was skipped) and the new state, as `update.<name>`. The model contains the initial state, which is the
    default of inputs that aren't fed. It also contains a default for `learning_rate`, unless the optimizer computes
    it. The JSON file, `<path without .onnx>.json`, lists all of them.

    Args:
        step: the step, as `runtime.training_step` returns it.
        batch: the tensors of a batch; only their dtypes and shapes matter.
        path: the file, which is written atomically.
        names: names of the tensors of the batch; by default `batch_0`, ...
        dynamic_shapes: for each tensor of the batch, a dict from axes to names, or None; if None, all sizes are fixed.
        opset: version of the operator set; see `to_onnx`.
        separate_state: write the initial state, and the default of `learning_rate`, to `<path without
            .onnx>.safetensors`, by the names of the inputs, instead of the model. onnxruntime-web and onnxruntime-node
            take no input that has a default.

    Returns:
        The model. If tensors are in a file beside it, the model refers to them.

    Raises:
        UnsupportedOperators: ops that have no ONNX form: all of them, with Cell path and source line.
        ConversionError: an op has no ONNX form with these attributes or symbolic sizes.
        UsageError: the opset isn't supported, or a file can't be written.
    """
    traced = training_program(step, batch, dynamic_shapes)
    program = rewrite(traced.program, upcast_half_precision)  # the tested form, which runs on a CPU
    program, loss = _in_float32(program, traced.loss)
    state = {name: buffer.value for name, buffer in program.buffers.items() if buffer.update is not None}
    state_inputs = state | traced.learning_rates
    results = [("loss", loss), ("overflow", traced.overflow)]
    results += [(f"{UPDATE}{name}", value) for name, value in program.updates.items()]
    names_in_use = {*state_inputs, *(name for name, _ in results)}
    inputs: list[tuple[str, Value]] = []
    for i, value in enumerate(program.inputs):
        name = names[i] if names else f"batch_{i}"
        while name in names_in_use:  # the state keeps its names
            name = f"batch_{name}"
        names_in_use.add(name)
        inputs.append((name, value))
    nodes = [node.node for node in plan(program, [value for _, value in results])]
    choice = opsets.choose(opset, draws=any(get(node.op).traits.draws for node in nodes))
    lowering, choice = lower_program(program, nodes, choice, [*inputs, *state_inputs.items()], results)
    lowering.optimize()
    for (name, _), (unique, _) in zip(results, lowering.results, strict=True):
        if unique != name:
            raise UsageError(
                f"the network has a tensor called {name!r}, a name that the file of a step uses for another output: "
                f"the loss, the overflow, or an update ({UPDATE}...); rename the tensor of the network"
            )
    metadata = program_metadata(program, lowering.computed_parameters(), lowering.graph.transposed)
    model = lowering.model(symbolic_shape, [*metadata, opsets.metadata(choice)])
    begin = {lowering.tensors[value]: program.constant_data[value] for value in state_inputs.values()}
    initializers = lowering.initializers() if separate_state else {**lowering.initializers(), **begin}
    if path is None:
        if separate_state:
            raise UsageError("separate_state=True needs a path: the state is written to a file beside it")
        add_initializers(model, initializers)
        return model
    description = Path(path).with_suffix(".json")
    if description == Path(path):
        raise UsageError(f"the model can't be called {path}: {description} is the file that describes it")
    beside = {description: _describe(traced, loss, lowering.tensors, state_inputs)}
    if separate_state:
        beside[Path(path).with_suffix(".safetensors")] = to_bytes(begin)
    write(model, initializers, path, beside=beside)
    return model


def _in_float32(program: Program, loss: Value) -> tuple[Program, Value]:
    """The program and its loss, cast to float32 if it is in half precision: NumPy has no bfloat16."""
    if not is_half(loss.dtype):
        return program, loss
    builder = Builder.from_program(program)
    cast = elementwise.cast(SymbolicTensor(builder, loss), dtype=FLOAT32).value
    return program.replace(nodes=tuple(builder.nodes)), cast


def _describe(
    traced: TrainingProgram, loss: Value, names: Mapping[Value, str], state_inputs: Mapping[str, Value]
) -> bytes:
    """The JSON description of each input and output; `names` are those of the inputs."""
    state_tensors = traced.state_tensors
    changed = traced.program.updates

    def tensor(value: Value) -> dict[str, Any]:
        return {"dtype": value.dtype.name, "shape": symbolic_shape("", value.type)}

    sections: dict[str, dict[str, Any]] = {
        "inputs": {
            **{names[value]: {"is": "a tensor of the batch"} | tensor(value) for value in traced.program.inputs},
            **{
                names[value]: {"is": "the learning rate"} | tensor(value)
                for name, value in state_inputs.items()
                if name not in changed
            },
        },
        "state": {
            names[value]: {"is": state_tensors[name].role, "update": f"{UPDATE}{name}"} | tensor(value)
            for name, value in state_inputs.items()
            if name in changed
        },
        "outputs": {
            "loss": {"is": "the loss, not scaled"} | tensor(loss),
            "overflow": {"is": "whether a gradient wasn't finite, so that the update was left out"}
            | tensor(traced.overflow),
        },
    }
    texts = [
        f'  "{section}": {{\n'
        + ",\n".join(f"    {json.dumps(n)}: {json.dumps(item)}" for n, item in items.items())
        + "\n  }"
        for section, items in sections.items()
    ]
    return ("{\n" + ",\n".join(texts) + "\n}\n").encode()
