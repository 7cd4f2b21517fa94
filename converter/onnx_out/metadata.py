"""What a model's metadata say of the program that it was written from, so that it can be read back."""

from __future__ import annotations

import json

import onnx

from ...runtime.ir.program import Program

PROGRAM = "cellbridge.program"  # metadata of the model: the Cell tree, and what each stored tensor is


def program_metadata(program: Program) -> list[onnx.StringStringEntryProto]:
    """The calls of Cells in order, and the names of trainable parameters, frozen ones and buffers, as JSON."""
    parameters = program.parameters.items()
    written = {
        "calls": [[call.path, call.class_name, call.index, call.parent] for call in program.calls],
        "parameters": [name for name, parameter in parameters if parameter.trainable],
        "frozen": [name for name, parameter in parameters if not parameter.trainable],
        "buffers": list(program.buffers),
    }
    return [onnx.StringStringEntryProto(key=PROGRAM, value=json.dumps(written))]
