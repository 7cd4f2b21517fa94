"""The interpreter: walks a program node by node with the NumPy kernels. It is the reference executor."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..errors import CellbridgeError, ProgramError, ShapeError, UsageError
from ..ir.dims import Dim, SymbolicDim, evaluate, substitute, symbols_in
from ..ir.program import Program
from ..ir.sizes import Reading, symbols_used
from ..ir.types import Node, Type, Value
from ..memory import require_room
from ..ops.registry import Op, get
from ..ops.registry import evaluate as evaluate_op
from ..precision import overruled_dtype
from ..tree import argument_paths
from .share_forward import forward_once

Array = np.ndarray[Any, Any]
Observer = Callable[[Node, Array], Array]


@dataclass(frozen=True, slots=True)
class Step:
    """A node made ready to run: its op, whether attributes hold symbolic sizes, and the values that die with it.

    `readings` are the symbols whose sizes are known once it has run, `sized` outputs with symbolic dimensions, which
    must fit into memory: that is looked at before it runs.
    """

    node: Node
    op: Op
    symbolic: bool
    last_uses: tuple[Value, ...]
    readings: tuple[Reading, ...] = ()
    sized: tuple[Value, ...] = ()


def execute(
    program: Program,
    inputs: Sequence[Array],
    *,
    wanted: Sequence[Value] | None = None,
    stored: Mapping[Value, Array] | None = None,
    draws: Mapping[str, Array] | None = None,
    observe: Observer | None = None,
) -> list[Array]:
    """Run a program.

    Args:
        program: what to run.
        inputs: one array per `program.inputs`, with their dtypes and shapes.
        wanted: the values to return; `program.outputs` if not given.
        stored: arrays in place of those that the program stores (parameters, buffers), with their dtypes and shapes.
        draws: results of random nodes by value name, to be replayed; others are drawn.
        observe: called with each `boundary` node and its array; what it returns takes the array's place. With an
            observer every boundary is computed, otherwise only what `wanted` needs.

    Returns:
        One array per wanted value.

    Raises:
        UsageError: inputs of another count, dtype or shape than the program's.
        CellbridgeError: an op failed; the message names the op, its operands, the Cell and the source line.
    """
    wanted = program.outputs if wanted is None else wanted
    environment: dict[Value, Array] = program.constant_data | dict(stored or {})
    sizes = bind(program, inputs)
    environment.update(zip(program.inputs, inputs, strict=True))
    with np.errstate(all="ignore"):
        for step in plan(program, wanted, every_boundary=observe is not None):
            node = step.node
            operands = [None if value is None else environment[value] for value in node.inputs]
            if draws is not None and node.outputs and node.outputs[0].name in draws:
                results: tuple[Array, ...] = (draws[node.outputs[0].name].astype(node.outputs[0].dtype, copy=False),)
            else:
                results = _run(program, step, operands, sizes)
            if observe is not None and node.op == "boundary":
                results = (observe(node, results[0]),)
            for reading in step.readings:
                sizes[reading.symbol] = reading.size(results)
            environment.update(zip(node.outputs, results, strict=True))
            for value in step.last_uses:
                del environment[value]
    return [environment[value] for value in wanted]


def plan(program: Program, wanted: Sequence[Value], *, every_boundary: bool = False) -> list[Step]:
    """The nodes that `wanted` needs (and those that every boundary needs), in order."""
    key = (tuple(wanted), every_boundary)
    plans: dict[Any, list[Step]] = program.__dict__.setdefault("_plans", {})
    if key not in plans:
        plans[key] = _plan(program, wanted, every_boundary)
    return plans[key]


def _plan(program: Program, wanted: Sequence[Value], every_boundary: bool) -> list[Step]:
    used_later = set(wanted)
    steps: list[Step] = []
    kept = set(program.constant_data) | set(program.inputs)
    for node in reversed(forward_once(_needed(program, wanted, every_boundary), wanted)):
        operands = {value for value in node.inputs if value is not None}
        last_uses = {value for value in operands | set(node.outputs) if value not in used_later} - kept
        told = tuple(program.symbol_readings.get(node, ()))
        steps.append(Step(node, get(node.op), bool(symbols_used(node)), tuple(last_uses), told))
        used_later |= operands
    checked: set[Type] = set()
    return [_sized(step, checked) for step in reversed(steps)]


def _needed(program: Program, wanted: Sequence[Value], every_boundary: bool) -> list[Node]:
    """The nodes that `wanted` depends on, by their operands or by the sizes that they tell, in order."""
    needed = set(wanted)
    nodes: list[Node] = []
    told_by = {reading.symbol: node for node, told in program.symbol_readings.items() for reading in told}
    telling: set[Node] = set()
    for node in reversed(program.nodes):
        wanted_here = needed.intersection(node.outputs) or node in telling
        if wanted_here or (every_boundary and node.op == "boundary"):
            telling |= {told_by[name] for name in symbols_used(node) if name in told_by}
            needed.update(value for value in node.inputs if value is not None)
            nodes.append(node)
    return nodes[::-1]


def _sized(step: Step, checked: set[Type]) -> Step:
    """The step with the outputs whose sizes must be looked at in each run: one of each type, in all steps together."""
    told = {reading.symbol for reading in step.readings}
    sized = [v for v in step.node.outputs if v.type.sizes is None and not told & symbols_in(v.shape)]
    new = tuple(value for value in sized if value.type not in checked)
    checked.update(value.type for value in new)
    return replace(step, sized=new) if new else step


def bind(program: Program, inputs: Sequence[Any]) -> dict[str, int]:
    """Sizes of the program's symbols, read off the shapes of `inputs` (arrays or tensors).

    Raises:
        UsageError: the inputs don't fit the program.
    """
    if len(inputs) != len(program.inputs):
        raise UsageError(f"the program takes {len(program.inputs)} tensors, given {len(inputs)}")
    sizes: dict[str, int] = {}
    expressions: list[tuple[int, int, Dim, int]] = []
    for i, (value, array) in enumerate(zip(program.inputs, inputs, strict=True)):
        if array.dtype != overruled_dtype(value.dtype) or array.ndim != len(value.shape):
            given = f"{array.dtype.name}{list(array.shape)}"
            raise UsageError(f"{_input_label(program, i)}: needed {value.type}, given {given}")
        for axis, (dim, size) in enumerate(zip(value.shape, array.shape, strict=True)):
            if isinstance(dim, SymbolicDim) and (found := dim.solve(size)):
                sizes.setdefault(*found)
            expressions.append((i, axis, dim, size))
    for i, axis, dim, size in expressions:
        if symbols_in(dim) - sizes.keys():
            continue  # told only when the program runs: of the cotangent of a value whose size depends on data
        try:
            needed = substitute(dim, sizes)
        except ZeroDivisionError as error:
            where = f"{_input_label(program, i)}, dimension {axis}"
            raise UsageError(f"{where}: the size {dim} divides by 0 for inputs of these shapes") from error
        if needed != size:
            where = f"{_input_label(program, i)}, dimension {axis}"
            said = f"{where}: needed size {dim}{'' if needed == dim else f' = {needed}'}, given {size}"
            fixed = "; `dynamic_shapes` leaves a size open when a program is captured" if isinstance(dim, int) else ""
            raise UsageError(said + fixed)
    return sizes


def _input_label(program: Program, position: int) -> str:
    """What an error calls an input: its name, and where it stands among the arguments."""
    labels = argument_paths(program.arguments)
    argument = f" (argument {labels[position]})" if len(labels) == len(program.inputs) else ""
    return f"input {program.inputs[position].name!r}{argument}"


def _resolve(attribute: Any, sizes: Mapping[str, int]) -> Any:
    if isinstance(attribute, tuple):
        return tuple(_resolve(item, sizes) for item in attribute)
    return attribute.evaluate(sizes) if isinstance(attribute, SymbolicDim) else attribute


def _known_shape(value: Value, sizes: Mapping[str, int]) -> tuple[int, ...] | None:
    """The shape that a value will have; None where a size is told only by the node that computes it."""
    try:
        return tuple(evaluate(dim, sizes) for dim in value.shape)
    except KeyError:
        return None


def attributes_of(step: Step, sizes: Mapping[str, int]) -> dict[str, Any]:
    """Attributes of a node with concrete sizes."""
    attributes = dict(step.node.attributes)
    return {name: _resolve(value, sizes) for name, value in attributes.items()} if step.symbolic else attributes


FAILURES = (ShapeError, ValueError, IndexError, TypeError, ZeroDivisionError, MemoryError)
"""What a kernel raises on operands that it can't take."""


def failure(program: Program, node: Node, operands: Sequence[Any], error: Exception) -> CellbridgeError:
    """The error to raise when a node failed: names the op, its operands, the Cell and the source line."""
    shown = ", ".join("absent" if x is None else f"{x.dtype.name}{list(x.shape)}" for x in operands)
    return CellbridgeError(
        f"op {node.op}({shown}) failed in Cell {program.calls[node.cell]}: {error}"
        + (f"\n  at {node.source}" if node.source else "")
    )


def _run(program: Program, step: Step, operands: list[Array | None], sizes: Mapping[str, int]) -> tuple[Array, ...]:
    node = step.node
    try:
        for value in step.sized:
            if (shape := _known_shape(value, sizes)) is not None:
                require_room(shape, value.dtype)
        return evaluate_op(step.op, operands, attributes_of(step, sizes), tuple(value.type for value in node.outputs))
    except ProgramError:
        raise
    except FAILURES as error:
        raise failure(program, node, operands, error) from error
