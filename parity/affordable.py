"""Whether a program read from a file can be run at all: what can't is refused before the sides are run."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..runtime.errors import UsageError
from ..runtime.interpreter import bind, execute, plan
from ..runtime.ir.dims import evaluate
from ..runtime.ir.program import Program
from ..runtime.ir.types import FLOAT64, Value, is_floating
from ..runtime.memory import memory_size, size_in_words
from ..runtime.trips import at_most
from .sides.records import Array

MOST_TRIPS = 2**14
LOOPS = frozenset({"loop", "scan"})
VIEWS = frozenset({"boundary", "reshape", "expand", "transpose", "slice"})  # whose results share memory


def require_affordable(program: Program, inputs: Sequence[Array]) -> None:
    """Raise an error that names what takes too much, memory or trips of loops, if the program can't be judged.

    Memory is what the values take that are needed at one time, in float64: the least that a run can do with. Loops are
    counted in a run of the program.

    Raises:
        UsageError: the values don't fit into memory together.
        CellbridgeError: loops go round too often, or a node fails.
    """
    needed, largest = memory_needed(program, inputs)
    if needed > memory_size():
        raise UsageError(
            f"a run on these inputs takes at least {size_in_words(needed)} in float64; there are "
            f"{size_in_words(memory_size())} of memory\n"
            f"  the largest tensor is {largest}\n"
            "  what to do: take smaller inputs, by --inputs"
        )
    if any(node.op in LOOPS for node in program.nodes):
        with at_most(MOST_TRIPS):
            execute(program, list(inputs))


def memory_needed(program: Program, inputs: Sequence[Array]) -> tuple[int, str]:
    """The bytes of the values that are needed at one time, in float64, and the largest one of them in words.

    Sizes that only the run tells count as nothing.
    """
    sizes = bind(program, inputs)

    def taken(value: Value) -> int:
        try:
            count = math.prod(evaluate(dim, sizes) for dim in value.shape)
        except KeyError:
            return 0
        return count * (FLOAT64 if is_floating(value.dtype) else value.dtype).itemsize

    stored = (*program.inputs, *program.constant_data)
    held = sum(map(taken, stored))
    most, largest = held, max(((taken(value), str(value)) for value in stored), default=(0, ""))
    for step in plan(program, program.outputs):
        if step.node.op not in VIEWS:
            held += sum(map(taken, step.node.outputs))
            made = f", made by {step.node.source}" if step.node.source else ""
            largest = max(largest, *((taken(value), f"{value}{made}") for value in step.node.outputs))
        most = max(most, held)
        if step.node.op not in VIEWS:
            held -= sum(taken(value) for value in step.last_uses if program.producers[value].op not in VIEWS)
    return most, largest[1]
