"""`draws_as_inputs`: what random ops would draw is given to the program."""

from __future__ import annotations

from ..ir.program import Program
from ..ops.random import RANDOM_OPS


def draws_as_inputs(program: Program) -> Program:
    """Take the results of random ops as inputs, after the program's own, in the order of the ops.

    Ops that draw within a sub-program (of a loop, say) keep drawing.
    """
    drawing = [node for node in program.nodes if node.op in RANDOM_OPS]
    return program.replace(
        inputs=(*program.inputs, *(node.outputs[0] for node in drawing)),
        nodes=tuple(node for node in program.nodes if node.op not in RANDOM_OPS),
    )
