"""`verify`: checks that a program follows the rules of the IR."""

from __future__ import annotations

import functools
from collections.abc import Callable

from ..errors import CellbridgeError, ProgramError, ShapeError
from ..ir.dims import SymbolicDim
from ..ir.program import Program
from ..ir.sizes import input_symbols, symbols_used
from ..ir.types import Node, Value
from ..memory import check_memory
from ..ops.registry import get


def verify(program: Program) -> None:
    """Check a program: single assignment, definition before use, known ops and attributes, inferred types, Cell tree.

    Raises:
        ProgramError: a rule is broken; the message names the rule, the node, its Cell and its source line.
    """
    _verify_cells(program)
    defined: set[Value] = set()
    names: set[str] = set()

    def define(value: Value, where: Callable[[], str]) -> None:
        if value in defined or value.name in names:
            raise ProgramError(f"{where()}: value {value} is assigned twice")
        defined.add(value)
        names.add(value.name)

    for value in program.inputs:
        define(value, lambda: "inputs")
        _verify_memory(value)
    for value, data in program.constant_data.items():
        define(value, lambda: "constants")
        if tuple(data.shape) != value.shape:
            raise ProgramError(f"value {value} has data of shape {data.shape}")
    symbols = input_symbols(program.inputs)
    for node in program.nodes:
        where = functools.partial(_place, program, node)
        if unknown := sorted(symbols_used(node) - symbols):
            raise ProgramError(f"{where()}: the size {unknown[0]!r} isn't known before it is used")
        symbols |= {reading.symbol for reading in program.symbol_readings.get(node, ())}
        for operand in node.inputs:
            if operand is not None and operand not in defined:
                raise ProgramError(f"{where()}: operand {operand} is used before it is computed")
        for name, value in node.attributes.items():
            if isinstance(value, Program):
                _verify_subprogram(value, where, name)
        _verify_types(node, where)
        for value in node.outputs:
            define(value, where)
    for value in (*program.outputs, *program.updates.values()):
        if value not in defined:
            raise ProgramError(f"output {value} is never computed")
    for kind, structure, values in (
        ("arguments", program.arguments, program.inputs),
        ("result", program.result, program.outputs),
    ):
        if structure.tensors != len(values):
            raise ProgramError(f"the {kind} hold {structure.tensors} tensors, the program has {len(values)}")


def _place(program: Program, node: Node) -> str:
    """Return the label of a node in errors: its op, its Cell, its line."""
    return f"op {node.op} in Cell {program.calls[node.cell]}" + (f" at {node.source}" if node.source else "")


def _verify_subprogram(program: Program, where: Callable[[], str], name: str) -> None:
    if program.parameters or program.buffers:
        raise ProgramError(f"{where()}, {name}: a sub-program has no parameters and no buffers of its own")
    try:
        verify(program)
    except ProgramError as error:
        raise ProgramError(f"{where()}, {name}: {error}") from error


def _verify_memory(value: Value) -> None:
    try:
        if (sizes := value.type.sizes) is not None:
            check_memory(sizes, value.dtype)
    except ShapeError as error:
        raise ProgramError(f"input {value}: {error}") from error


def _verify_types(node: Node, where: Callable[[], str]) -> None:
    op = get(node.op)
    count, required = len(node.inputs), node.inputs[: op.required_inputs]
    if not op.variadic and (count != len(op.input_names) or None in required):
        raise ProgramError(f"{where()}: op {op.name}{op.signature} is given {count - node.inputs.count(None)} operands")
    try:
        attributes = op.attributes(dict(node.attributes))
        types = op.infer_types([None if v is None else v.type for v in node.inputs], attributes)
    except (CellbridgeError, TypeError) as error:
        raise ProgramError(f"{where()}: {error}") from error
    for dim in (dim for output in types for dim in output.shape):
        if not isinstance(dim, SymbolicDim) and (type(dim) is not int or dim < 0):
            raise ProgramError(f"{where()}: a dimension must be a whole number from 0 on, given {dim!r}")
    declared = tuple(value.type for value in node.outputs)
    if types != declared:
        raise ProgramError(
            f"{where()}: outputs are {', '.join(map(str, declared))}, inferred {', '.join(map(str, types))}"
        )


def _verify_cells(program: Program) -> None:
    if not program.calls or program.calls[0].path or program.calls[0].parent is not None:
        raise ProgramError("the first Cell call must be the root: path '' without a parent")
    for position, call in enumerate(program.calls[1:], start=1):
        if not isinstance(call.parent, int) or not 0 <= call.parent < position:
            raise ProgramError(f"Cell call {call}: its parent must be an earlier call, given {call.parent}")
    for node in program.nodes:
        if not isinstance(node.cell, int) or not 0 <= node.cell < len(program.calls):
            raise ProgramError(f"op {node.op} belongs to Cell call {node.cell}, there are {len(program.calls)}")
