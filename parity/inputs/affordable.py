"""Checks that there is enough memory and time for a program from a file, before the sides are run."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ...runtime.errors import UsageError
from ...runtime.ir.dims import evaluate
from ...runtime.ir.program import Program
from ...runtime.ir.types import FLOAT64, Value, is_floating
from ...runtime.memory import memory_size, size_in_words
from ...runtime.ops.higher_order.trips import limit_trips
from ...runtime.ops.registry import ops_with
from ...runtime.programs.interpreter import bind, execute
from ...runtime.programs.plan import plan
from ..sides.records import Array

MAX_TRIPS = 2**14
LOOPS = ops_with(lambda of: of.repeats)
VIEWS = ops_with(lambda of: of.view)


def require_affordable(program: Program, inputs: Sequence[Array], *, grads: bool) -> None:
    """Raise an error if judging the program takes too much memory or too many loop iterations.

    Memory is needed for the values that are live at one time, and for the records of several runs, with gradients if
    `grads`. Loop iterations are counted in a run of the program.

    Raises:
        UsageError: the values don't fit into memory together.
        CellbridgeError: there are too many loop iterations, or a node fails.
    """
    run_bytes, largest = peak_memory(program, inputs)
    total = run_bytes + memory_of_records(program, inputs, grads=grads)
    if total > memory_size():
        raise UsageError(
            f"judging it on these inputs takes at least {size_in_words(total)}, {size_in_words(run_bytes)} of it for a "
            f"run in float64; this machine has {size_in_words(memory_size())} of memory\n"
            f"  the largest tensor is {largest}\n"
            "  what to do: use smaller inputs, with --shape or --inputs"
        )
    if any(node.op in LOOPS for node in program.nodes):
        with limit_trips(MAX_TRIPS):
            execute(program, list(inputs))


def require_room_for_values(program: Program, inputs: Sequence[Array], *, samples: int) -> None:
    """Raise `UsageError` if all values of a program, in float64 and on that many samples, don't fit into memory.

    Half of it is left for the rest.
    """
    sizes = bind(program, inputs)
    values = [*program.inputs, *(value for node in program.nodes for value in node.outputs)]
    total = sum(_count(value, sizes) for value in values) * FLOAT64.itemsize * samples
    if total > memory_size() // 2:
        raise UsageError(
            f"keeping all of its values takes {size_in_words(total)}; this machine has "
            f"{size_in_words(memory_size())} of memory"
        )


def memory_of_records(program: Program, inputs: Sequence[Array], *, grads: bool) -> int:
    """A lower bound of the bytes of the records at Cell boundaries while a side is judged.

    Floating-point values of the truth and the side are kept in float64, those of the reference in its own dtype; with
    `grads` their gradients too. Integers are kept once.
    """
    sizes = bind(program, inputs)
    total = 0
    for node in program.nodes:
        if node.op == "boundary" and node.attributes["kind"] in ("input", "output"):
            value = node.outputs[0]
            bytes_per_element = (
                2 * FLOAT64.itemsize + value.dtype.itemsize if is_floating(value.dtype) else value.dtype.itemsize
            )
            total += _count(value, sizes) * bytes_per_element * (2 if grads and is_floating(value.dtype) else 1)
    return total


def peak_memory(program: Program, inputs: Sequence[Array]) -> tuple[int, str]:
    """The largest number of bytes of live values in a run in float64, and a description of the largest value.

    Sizes that are known only in the run count as 0.
    """
    sizes = bind(program, inputs)

    def bytes_of(value: Value) -> int:
        return _count(value, sizes) * (FLOAT64 if is_floating(value.dtype) else value.dtype).itemsize

    stored = (*program.inputs, *program.constant_data)
    current = sum(map(bytes_of, stored))
    most, largest = current, max(((bytes_of(value), str(value)) for value in stored), default=(0, ""))
    for step in plan(program, program.outputs):
        if step.node.op not in VIEWS:
            sizes_of = [bytes_of(value) for value in step.node.outputs]
            current += sum(sizes_of)
            if max(sizes_of, default=0) > largest[0]:
                value = step.node.outputs[sizes_of.index(max(sizes_of))]
                source = f", computed by {step.node.source}" if step.node.source else ""
                largest = max(sizes_of), f"{value}{source}"
        most = max(most, current)
        if step.node.op not in VIEWS:
            current -= sum(bytes_of(value) for value in step.last_uses if program.producers[value].op not in VIEWS)
    return most, largest[1]


def _count(value: Value, sizes: Mapping[str, int]) -> int:
    """The number of elements; 0 if it is known only in the run."""
    if (dimensions := value.type.sizes) is not None:
        return math.prod(dimensions)
    try:
        return math.prod(evaluate(dim, sizes) for dim in value.shape)
    except KeyError:
        return 0
