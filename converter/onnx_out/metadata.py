"""What a model's metadata say of the program that it was written from, so that it can be read back."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping

import onnx

from ...runtime.ir.program import Program

PROGRAM = "cellbridge.program"  # metadata of the model: the Cell tree, what each stored tensor is, how it is called


def program_metadata(
    program: Program, computed: Mapping[str, tuple[str, ...]], transposed: Mapping[str, tuple[str, tuple[int, ...]]]
) -> list[onnx.StringStringEntryProto]:
    """What ONNX has no place for, as JSON.

    That is: the calls of Cells in order; the names of trainable parameters, frozen ones and buffers; which tensors are
    parameters transposed, and how; the structures of arguments and result, unless they hold what JSON lacks.

    Args:
        program: what is written.
        computed: names of stored tensors that are computed of others, and of these; trained if one of them is.
        transposed: names of those that are one parameter with its axes in another order, and that order.
    """
    parameters = program.parameters.items()
    trained = {name for name, parameter in parameters if parameter.trainable}
    of_parameters = {name: of for name, of in computed.items() if program.parameters.keys() & of}
    stored = {name: bool(trained.intersection(of)) for name, of in of_parameters.items()}
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
        "transposed": {name: [source, list(order)] for name, (source, order) in transposed.items()},
    }
    structures = {"arguments": program.arguments.to_json(), "result": program.result.to_json()}
    with contextlib.suppress(TypeError, ValueError):  # a constant argument of a kind that JSON lacks
        json.dumps(structures)
        written |= structures
    return [onnx.StringStringEntryProto(key=PROGRAM, value=json.dumps(written))]
