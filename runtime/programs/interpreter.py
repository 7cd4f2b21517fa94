"""The interpreter: runs a program node by node with the NumPy kernels. It is the reference executor."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import CellbridgeError, ProgramError, ShapeError, UsageError
from ..ir.dims import Dim, SymbolicDim, substitute, symbols_in
from ..ir.program import Program
from ..ir.types import Attributes, Node, Type, Value
from ..memory import check_memory
from ..ops.registry import Op
from ..ops.registry import evaluate as evaluate_op
from ..precision import effective_dtype
from ..tree import argument_paths
from .evaluation import Evaluation
from .plan import Step, plan

Array = np.ndarray[Any, Any]
Observer = Callable[[Node, Array], Array]
Evaluate = Callable[[Op, list[Array | None], Attributes, tuple[Type, ...]], tuple[Array, ...]]


def execute(
    program: Program,
    inputs: Sequence[Array],
    *,
    wanted: Sequence[Value] | None = None,
    stored: Mapping[Value, Array] | None = None,
    draws: Mapping[str, Array] | None = None,
    observe: Observer | None = None,
    evaluate: Evaluate = evaluate_op,
) -> list[Array]:
    """Run a program.

    Args:
        program: the program to run.
        inputs: one array per `program.inputs`, with their dtypes and shapes.
        wanted: the values to return; `program.outputs` if not given.
        stored: arrays to use for parameters and buffers instead of the program's, with the same dtypes and shapes.
        draws: results of random nodes to replay, by value name; other random nodes draw new numbers.
        observe: called with each `boundary` node and its array; its return value replaces the array. With an observer
            every boundary is computed, otherwise only those that `wanted` needs.
        evaluate: computes an op, as `runtime.ops.registry.evaluate` does; the same results from where they are known.

    Returns:
        One array per wanted value.

    Raises:
        UsageError: the number, a dtype or a shape of the inputs differs from the program's.
        CellbridgeError: an op failed; the message names the op, its operands, the Cell and the source line.
    """
    wanted = program.outputs if wanted is None else wanted
    values: dict[Value, Array] = program.constant_data.arrays() | dict(stored or {})
    sizes = bind(program, inputs)
    values.update(zip(program.inputs, inputs, strict=True))
    run = _Interpretation(program, values, sizes, draws or {}, observe, evaluate)
    with np.errstate(all="ignore"):
        run.run(plan(program, wanted, every_boundary=observe is not None))
    return [run.values[value] for value in wanted]


class _Interpretation(Evaluation):
    """The evaluation of a program on arrays by the kernels of its ops; see `execute`."""

    def __init__(
        self,
        program: Program,
        values: dict[Value, Array],
        sizes: Mapping[str, Dim],
        draws: Mapping[str, Array],
        observe: Observer | None,
        evaluate: Evaluate,
    ) -> None:
        super().__init__(values, sizes)
        self.program = program
        self.draws = draws
        self.observe = observe
        self.evaluate = evaluate

    def run(self, steps: Iterable[Step]) -> None:
        """Apply steps in order; written out, since calls of methods would take longer than a small kernel."""
        values = self.values
        for step in steps:
            results = self.apply(step, [None if value is None else values[value] for value in step.node.inputs])
            if step.readings:
                self.sizes.update(self.new_sizes(step, results))
            for value, array in zip(step.node.outputs, results, strict=True):
                values[value] = array
            for value in step.last_uses:
                values.pop(value, None)

    def apply(self, step: Step, operands: list[Any]) -> tuple[Array, ...]:
        """Return the outputs of a node: replayed draws, computed results, or the observer's replacements."""
        node = step.node
        if node.op == "boundary":  # an identity
            return (operands[0] if self.observe is None else self.observe(node, operands[0]),)
        if self.draws and node.outputs and node.outputs[0].name in self.draws:
            return (self.draws[node.outputs[0].name].astype(node.outputs[0].dtype, copy=False),)
        try:
            for value in step.symbolic_outputs:
                if (shape := self._static_shape(value)) is not None:
                    check_memory(shape, value.dtype)
            attributes = self.attributes(step) if step.symbolic else node.attributes
            return self.evaluate(step.op, operands, attributes, step.types)
        except ProgramError:
            raise
        except FAILURES as error:
            raise failure(self.program, node, operands, error) from error

    def _static_shape(self, value: Value) -> tuple[int, ...] | None:
        """Return the shape that a value will have; None if only the node that computes it determines a size."""
        shape = tuple(substitute(dim, self.sizes) for dim in value.shape)
        return shape if all(isinstance(dim, int) for dim in shape) else None  # type: ignore[return-value]


def bind(program: Program, inputs: Sequence[Any]) -> dict[str, int]:
    """Return the sizes of the program's symbols, from the shapes of `inputs` (arrays or tensors).

    Raises:
        UsageError: the inputs don't fit the program.
    """
    if len(inputs) != len(program.inputs):
        raise UsageError(f"the program takes {len(program.inputs)} tensors, given {len(inputs)}")
    sizes: dict[str, int] = {}
    expressions: list[tuple[int, int, Dim, int]] = []
    for i, (value, array) in enumerate(zip(program.inputs, inputs, strict=True)):
        if array.dtype != effective_dtype(value.dtype) or array.ndim != len(value.shape):
            actual = f"{array.dtype.name}{list(array.shape)}"
            raise UsageError(f"{_input_label(program, i)}: needed {value.type}, given {actual}")
        for axis, (dim, size) in enumerate(zip(value.shape, array.shape, strict=True)):
            if isinstance(dim, SymbolicDim) and (solution := dim.solve(size)):
                sizes.setdefault(*solution)
            expressions.append((i, axis, dim, size))
    for i, axis, dim, size in expressions:
        if symbols_in(dim) - sizes.keys():
            continue  # known only when the program runs: the cotangent of a value whose size depends on data
        try:
            needed = substitute(dim, sizes)
        except ZeroDivisionError as error:
            where = f"{_input_label(program, i)}, dimension {axis}"
            raise UsageError(f"{where}: the size {dim} divides by 0 for inputs of these shapes") from error
        if needed != size:
            where = f"{_input_label(program, i)}, dimension {axis}"
            message = f"{where}: needed size {dim}{'' if needed == dim else f' = {needed}'}, given {size}"
            hint = "; `dynamic_shapes` leaves a size open when a program is captured" if isinstance(dim, int) else ""
            raise UsageError(message + hint)
    return sizes


def _input_label(program: Program, position: int) -> str:
    """Return the label of an input in errors: its name and its place among the arguments."""
    labels = argument_paths(program.arguments)
    argument = f" (argument {labels[position]})" if len(labels) == len(program.inputs) else ""
    return f"input {program.inputs[position].name!r}{argument}"


FAILURES = (ShapeError, ValueError, IndexError, TypeError, ZeroDivisionError, MemoryError)
"""The exceptions that kernels raise for operands that they can't process."""


def failure(program: Program, node: Node, operands: Sequence[Any], error: Exception) -> CellbridgeError:
    """Return the error for a node that failed, which names the op, its operands, the Cell and the source line."""
    shown = ", ".join("absent" if x is None else f"{x.dtype.name}{list(x.shape)}" for x in operands)
    return CellbridgeError(
        f"op {node.op}({shown}) failed in Cell {program.calls[node.cell]}: {error}"
        + (f"\n  at {node.source}" if node.source else "")
    )
