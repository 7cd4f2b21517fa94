"""Whether a program read from a file can be run at all: what can't is refused before the sides are run."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ...runtime.errors import UsageError
from ...runtime.ir.dims import evaluate
from ...runtime.ir.program import Program
from ...runtime.ir.types import FLOAT64, Value, is_floating
from ...runtime.memory import memory_size, size_in_words
from ...runtime.ops.higher_order.trips import limit_trips
from ...runtime.programs.interpreter import bind, execute
from ...runtime.programs.plan import plan
from ..sides.records import Array

MAX_TRIPS = 2**14
LOOPS = frozenset({"loop", "scan"})
VIEWS = frozenset({"boundary", "reshape", "expand", "transpose", "slice"})  # whose results share memory


def require_affordable(program: Program, inputs: Sequence[Array], *, grads: bool) -> None:
    """Raise an error that names what takes too much, memory or trips of loops, if the program can't be judged.

    Memory is what the values take that are needed at one time, and those that are recorded of several runs, backward
    too with `grads`. Loops are counted in a run of the program.

    Raises:
        UsageError: the values don't fit into memory together.
        CellbridgeError: loops go round too often, or a node fails.
    """
    of_run, largest = memory_needed(program, inputs)
    needed = of_run + memory_of_records(program, inputs, grads=grads)
    if needed > memory_size():
        raise UsageError(
            f"to judge it on these inputs takes at least {size_in_words(needed)}, {size_in_words(of_run)} of it for a "
            f"run in float64; there are {size_in_words(memory_size())} of memory\n"
            f"  the largest tensor is {largest}\n"
            "  what to do: take smaller inputs, by --shape or --inputs"
        )
    if any(node.op in LOOPS for node in program.nodes):
        with limit_trips(MAX_TRIPS):
            execute(program, list(inputs))


def memory_of_records(program: Program, inputs: Sequence[Array], *, grads: bool) -> int:
    """The bytes of what is recorded at the boundaries of Cells, at least, while a side is judged.

    Floating-point values are kept of the truth and of the side, in float64, and of the reference in its own dtype; with
    `grads` their gradients too. Integers are kept once.
    """
    sizes = bind(program, inputs)
    total = 0
    for node in program.nodes:
        if node.op == "boundary" and node.attributes["kind"] in ("input", "output"):
            value = node.outputs[0]
            each = 2 * FLOAT64.itemsize + value.dtype.itemsize if is_floating(value.dtype) else value.dtype.itemsize
            total += _count(value, sizes) * each * (2 if grads and is_floating(value.dtype) else 1)
    return total


def memory_needed(program: Program, inputs: Sequence[Array]) -> tuple[int, str]:
    """The bytes of the values that are needed at one time in a run, in float64, and the largest one of them in words.

    Sizes that only the run tells count as nothing.
    """
    sizes = bind(program, inputs)

    def taken(value: Value) -> int:
        return _count(value, sizes) * (FLOAT64 if is_floating(value.dtype) else value.dtype).itemsize

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


def _count(value: Value, sizes: Mapping[str, int]) -> int:
    """Number of elements; 0 where only the run tells it."""
    try:
        return math.prod(evaluate(dim, sizes) for dim in value.shape)
    except KeyError:
        return 0
