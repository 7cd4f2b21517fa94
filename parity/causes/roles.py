"""What a node is for, by its operand: a mask, bias, residual, position or scale, as a person would name it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...runtime.ir.types import Node, Value, is_floating
from ...runtime.programs.interpreter import execute
from ...runtime.visible import visible_name
from ..sides.records import INPUT_GRADIENT, Array
from .cell_program import CellProgram
from .naming import name_of_value
from .rebuilding import INVALID

VERBS = {"add": "added", "sub": "subtracted", "mul": "applied", "div": "applied", "where": "applied"}
NUMBERS = {"add": "number", "mul": "scale", "div": "divisor"}
"""What a single number is called as an operand."""
POSITION = re.compile(r"(?:^|[._])pos(?!t)", re.IGNORECASE)
"""A name of positions: `pos_embed`, `wpe.positions`; `post_norm` is none."""
MASKED = -1e4
"""Added to a score, numbers of at most this leave nothing of it."""
STEPS_TO_SOFTMAX = 4
"""The most nodes between a mask and the softmax that it is for."""


@dataclass(frozen=True)
class Role:
    """What a node is for.

    Attributes:
        noun: its operand, as "the attention mask".
        verb: what is done with it, as "added".
    """

    noun: str
    verb: str

    @property
    def left_out(self) -> str:
        """The words for a candidate without the node."""
        return f"{self.noun} isn't {self.verb} in the candidate"

    @property
    def in_addition(self) -> str:
        """The words for a candidate that alone has the node."""
        return f"{self.noun} is {self.verb} in the candidate in addition"


def role_of_run(cell: CellProgram, nodes: Sequence[Node]) -> tuple[Node, Role] | None:
    """Return what a run of nodes is for, and the node that does it: the only one whose result others take."""
    used = {v for node in cell.program.nodes if node not in nodes for v in node.inputs} | {*cell.program.outputs}
    last = [node for node in nodes if not used.isdisjoint(node.outputs)]
    role = role_of(cell, last[0]) if len(last) == 1 else None
    return None if role is None else (last[0], role)


def role_of(cell: CellProgram, node: Node) -> Role | None:
    """Return what a node of a Cell is for; None if that isn't known."""
    if node.op == "where":
        is_mask = any(map(_hides, _arrays(cell, [v for v in node.inputs[1:] if v is not None])))
        return Role(_mask(cell, node), "applied") if is_mask else None
    if node.op not in VERBS or len(node.inputs) != 2 or None in node.inputs:
        return None
    stored = {p.value: name for name, p in cell.program.parameters.items()}
    stored |= {b.value: name for name, b in cell.program.buffers.items()}
    first, second = (value for value in node.inputs if value is not None)
    arrays = _arrays(cell, [first, second])
    operands = list(zip((first, second), arrays, (second, first), strict=True))
    operands.sort(key=lambda operand: operand[0] not in cell.program.constant_data or operand[1].size > 1)
    for value, array, other in operands:
        noun = ""
        if node.op == "add" and _is_mask(array):
            noun = _mask(cell, node)
        elif value in stored:
            noun = _of_stored(visible_name(stored[value]))
        elif array.size == 1 and value in cell.program.constant_data and node.op in NUMBERS:
            noun = f"the {NUMBERS[node.op]} {array.reshape(-1)[0].item():.6g}"
        elif node.op == "add" and _enters(cell, value) and _follows(cell, other, value):
            noun = f"the residual, {name_of_value(cell, value)},"
        if noun:
            return Role(noun, VERBS[node.op])
    return None


def _arrays(cell: CellProgram, values: list[Value]) -> list[Array]:
    try:
        return execute(cell.program, cell.arrays, wanted=values)
    except INVALID:  # nothing is known of them
        return [np.zeros(2) for _ in values]


def _is_mask(array: Array) -> bool:
    """Whether an array has nothing but zeros and numbers that hide what they are added to."""
    return _hides(array) and bool(np.all((array == 0) | (array <= MASKED)))


def _hides(array: Array) -> bool:
    return is_floating(array.dtype) and bool(np.any(array <= MASKED))


def _mask(cell: CellProgram, node: Node) -> str:
    """Name a mask by whether a softmax follows the node."""
    reached = set(node.outputs)
    for _ in range(STEPS_TO_SOFTMAX):
        users = [other for other in cell.program.nodes if not reached.isdisjoint(other.inputs)]
        if any(user.op in ("softmax", "log_softmax") for user in users):
            return "the attention mask"
        reached |= {value for user in users for value in user.outputs}
    return "the mask"


def _of_stored(name: str) -> str:
    last = name.rpartition(".")[2]
    if "bias" in last:
        return f"the bias {name}"
    return f"the position embedding {name}" if POSITION.search(name) else name


def _enters(cell: CellProgram, value: Value) -> bool:
    """Whether a value is an input of the Cell, or is passed to a Cell inside it, around which it may lead."""
    return _is_input(cell, value) or (value in cell.program.outputs and value.type.rank > 1)


def _is_input(cell: CellProgram, value: Value) -> bool:
    """Whether a value is an input of the Cell itself."""
    keys = dict(zip(cell.program.inputs, cell.input_keys, strict=True))
    key = keys.get(value)
    return key is not None and key.kind == INPUT_GRADIENT and key.path == cell.path


def _follows(cell: CellProgram, value: Value, source: Value) -> bool:
    """Whether a value is computed from another one, as far as this Cell and the Cells that it calls show it."""
    keys = dict(zip(cell.program.inputs, cell.input_keys, strict=True))
    needed, visited = [value], set[Value]()
    while needed:
        current = needed.pop()
        if current is source or (current in keys and not _is_input(cell, current) and keys[current] is not None):
            return True
        if current in visited or current not in cell.program.producers:
            continue
        visited.add(current)
        needed += [v for v in cell.program.producers[current].inputs if v is not None]
    return False
