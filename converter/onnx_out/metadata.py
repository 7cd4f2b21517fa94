"""The metadata of a model that describe its program, so that the program can be read back."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping

import onnx

from ...runtime.ir.program import Program

PROGRAM = "cellbridge.program"  # key of the metadata: the Cell tree, kinds of stored tensors, structure of the call


def program_metadata(
    program: Program, computed: Mapping[str, tuple[str, ...]], transposed: Mapping[str, tuple[str, tuple[int, ...]]]
) -> list[onnx.StringStringEntryProto]:
    """The parts of a program that ONNX can't represent, as JSON.

    These are the Cell calls in order; the names of trainable parameters, frozen ones and buffers; the tensors that are
    transposed parameters, with the permutation; and the structures of arguments and result, unless they contain
    constants that JSON lacks.

    Args:
        program: the program of the model.
        computed: for each stored tensor that is computed from others, their names; it is trained if one of them is.
        transposed: stored tensors that are a parameter with permuted axes: the parameter's name and the permutation.
    """
    parameters = program.parameters.items()
    trained = {name for name, parameter in parameters if parameter.trainable}
    of_parameters = {name: of for name, of in computed.items() if program.parameters.keys() & of}
    stored = {name: bool(trained.intersection(of)) for name, of in of_parameters.items()}
    data = {
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
        data |= structures
    return [onnx.StringStringEntryProto(key=PROGRAM, value=json.dumps(data))]
