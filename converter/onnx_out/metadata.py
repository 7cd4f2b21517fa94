"""What a model's metadata say of the program that it was written from, so that it can be read back."""

from __future__ import annotations

import json
from collections.abc import Mapping

import onnx

from ...runtime.ir.program import Program

PROGRAM = "cellbridge.program"  # metadata of the model: the Cell tree, and what each stored tensor is


def program_metadata(program: Program, computed: Mapping[str, tuple[str, ...]]) -> list[onnx.StringStringEntryProto]:
    """The calls of Cells in order, and the names of trainable parameters, frozen ones and buffers, as JSON.

    What is computed of others (`computed`: names of tensors, and of what each is) is trained if one of them is.
    """
    parameters = program.parameters.items()
    trained = {name for name, parameter in parameters if parameter.trainable}
    stored = {name: bool(trained.intersection(sources)) for name, sources in computed.items()}
    written = {
        "calls": [[call.path, call.class_name, call.index, call.parent] for call in program.calls],
        "parameters": [
            *(name for name in program.parameters if name in trained),
            *(name for name, trains in stored.items() if trains),
        ],
        "frozen": [
            *(name for name, parameter in parameters if not parameter.trainable),
            *(name for name, trains in stored.items() if not trains),
        ],
        "buffers": list(program.buffers),
    }
    return [onnx.StringStringEntryProto(key=PROGRAM, value=json.dumps(written))]
