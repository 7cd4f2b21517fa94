"""Running a traced program on the live Parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..interpreter import execute
from .traced import TracedProgram

Array = np.ndarray[Any, Any]


def run(traced: TracedProgram, inputs: Sequence[Array]) -> list[Array]:
    """Run a program with the values that its Parameters have now, and give them those that it computes.

    Args:
        traced: the program and its Parameters.
        inputs: one array for each input of the program.

    Returns:
        One array for each output.
    """
    program = traced.program
    values = {name: item.value for kind in (program.parameters, program.buffers) for name, item in kind.items()}
    stored = {values[name]: parameter._array for name, parameter in traced.parameters.items()}
    results = execute(program, inputs, wanted=[*program.outputs, *program.updates.values()], stored=stored)
    count = len(program.outputs)
    for name, array in zip(program.updates, results[count:], strict=True):
        traced.parameters[name]._array = array
    return results[:count]
