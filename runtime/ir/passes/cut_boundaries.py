"""`isolated_program`: a program cut at the boundaries of its Cells, so that each Cell runs on given inputs."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any

import numpy as np

from ...tree import TENSOR, Structure
from ..program import Program
from ..types import Constant, Node, Value


def isolated_program(
    program: Program,
    fed: Container[Value] | None = None,
    fixed: Mapping[Value, np.ndarray[Any, Any]] | None = None,
) -> Program:
    """Cut every boundary: its result becomes an input of the program, its operand an output.

    When the inputs are recorded values, each Cell (and the code between Cells) computes from the values recorded at
    its start, and each output can be compared with the value recorded at that boundary.

    Args:
        program: a program with `boundary` nodes; a gradient program's are cut likewise.
        fed: results of the boundaries to cut; the others are kept. None: all are cut.
        fixed: arrays for results of boundaries that are the same in every run, which become constants.

    Returns:
        A program without those boundaries. It takes the inputs of `program`, then the result of each boundary that is
        used. It returns the operands of the boundaries, each once, then the outputs of `program`, but only those that
        are computed: an operand that is an input, a constant or the result of another boundary isn't returned. Buffer
        updates are unchanged. Arguments and result are dicts keyed by value names.
    """
    kept: list[Node] = []
    boundaries: list[Node] = []
    for node in program.nodes:
        is_cut = node.op == "boundary" and (fed is None or node.outputs[0] in fed)
        (boundaries if is_cut else kept).append(node)
    used_values = {value for node in kept for value in node.inputs} | set(program.updates.values())
    computed = {value for node in kept for value in node.outputs}
    operands = [value for node in boundaries for value in node.inputs if value in computed]
    results = [node.outputs[0] for node in boundaries if node.outputs[0] in used_values]
    inputs = (*program.inputs, *(value for value in results if value not in (fixed or {})))
    constants = (Constant(value, array) for value, array in (fixed or {}).items() if value in results)
    outputs = tuple(dict.fromkeys(v for v in (*operands, *program.outputs) if v is not None and v in computed))
    return program.replace(
        inputs=inputs,
        outputs=outputs,
        nodes=tuple(kept),
        constants=(*program.constants, *constants),
        arguments=Structure("tuple", (Structure("tuple"), _by_name(inputs))),
        result=_by_name(outputs),
    )


def _by_name(values: tuple[Value, ...]) -> Structure:
    return Structure("dict", (TENSOR,) * len(values), tuple(value.name for value in values))
