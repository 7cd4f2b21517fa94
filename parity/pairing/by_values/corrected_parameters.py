"""Wrong weights put right while Cells are looked for: behind a wrong weight no value is the module's.

A wrong Cell that is right with parameters of the module shows which of its own these are. With the module's numbers in
them, the Cells inside it, and those that follow, are found as in a file without the fault. What the file has is judged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ....runtime.ir.program import Program
from ....runtime.ir.types import Node
from ...sides.records import Array
from .flat import without_boundaries
from .parameters import PairedParameters


def corrected_program(program: Program, marked: Program, paired: PairedParameters) -> Program:
    """Return a file's program with the module's numbers in its wrong parameters, without boundaries.

    Args:
        program: the program as it was read.
        marked: the program in which Cells were found.
        paired: its parameters.
    """
    own = program.parameters
    if all(name in own and own[name].data.shape == data.shape for name, data in paired.corrected.items()):
        return with_numbers(program, paired.corrected)
    cells = {value: node.cell for node in program.nodes for value in node.outputs}
    plain = without_boundaries(marked)  # some of its parameters are parts of the file's
    nodes = [Node(n.op, n.inputs, n.attributes, n.outputs, cells.get(n.outputs[0], 0), n.source) for n in plain.nodes]
    return with_numbers(plain.replace(nodes=tuple(nodes), calls=program.calls), paired.corrected)


def with_numbers(program: Program, arrays: Mapping[str, Array]) -> Program:
    """Return a program with these numbers in some of its parameters."""
    parameters = dict(program.parameters)
    for name, data in arrays.items():
        parameters[name] = replace(parameters[name], data=data.astype(parameters[name].data.dtype))
    return program.replace(parameters=parameters)


def with_own_numbers(corrected: PairedParameters, paired: PairedParameters) -> PairedParameters | None:
    """Return parameters of a corrected program with the numbers that the file has; None if it lacks one of them.

    Args:
        corrected: the parameters of the corrected program.
        paired: those of the file, which have the module's names and layouts, too.
    """
    wrong = paired.wrong
    if not wrong <= corrected.paired:
        return None
    parameters = dict(corrected.program.parameters)
    for name in wrong:
        parameters[name] = replace(parameters[name], data=paired.program.parameters[name].data)
    return replace(corrected, program=corrected.program.replace(parameters=parameters))
