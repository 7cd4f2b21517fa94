"""`isolated_program`: a program cut at every boundary of a Cell, to run each Cell on values of its own."""

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
    """Cut every boundary: what comes out of one is an input, what goes into one is an output.

    Fed with recorded values, each node runs once, on what was recorded where its Cell begins; each output holds what
    the Cell (or the code between Cells) makes of that, to be compared with what was recorded there.

    Args:
        program: a program with `boundary` nodes; a gradient program's are cut likewise.
        fed: the results of those boundaries that there are values for; the others are left whole. None: all are cut.
        fixed: what to feed results of boundaries with that are the same in every run: they are constants.

    Returns:
        A program without those boundaries. It takes the inputs of `program`, then the result of each of them that is
        used. It returns what is computed of: the operands of the boundaries, each once, then the outputs of `program`.
        An operand that is an input, a constant or the result of another boundary isn't computed, and so isn't
        returned. Buffer updates stay as they are. Arguments and result are dicts keyed by value names.
    """
    kept: list[Node] = []
    boundaries: list[Node] = []
    for node in program.nodes:
        is_cut = node.op == "boundary" and (fed is None or node.outputs[0] in fed)
        (boundaries if is_cut else kept).append(node)
    used = {value for node in kept for value in node.inputs} | set(program.updates.values())
    computed = {value for node in kept for value in node.outputs}
    operands = [value for node in boundaries for value in node.inputs if value in computed]
    results = [node.outputs[0] for node in boundaries if node.outputs[0] in used]
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
