"""The words of the source for what a node computes: the expression in its line, and which of several results it is."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ...runtime.ir.program import Program
from ...runtime.ir.types import Node, Source
from ...runtime.visible import visible_name

TORCH_OPERATOR = re.compile(r"\w+\.\w+\.\w+")
"""How torch spells an operator: `aten.detach.default`."""
MAX_LENGTH = 60
"""Characters of an expression or a line that are shown."""
MAX_LINE = 500
"""Longer lines aren't parsed: their expressions may be nested more deeply than Python can follow."""
ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth")
BINARY = {
    "add": ast.Add,
    "sub": ast.Sub,
    "mul": ast.Mult,
    "div": ast.Div,
    "matmul": ast.MatMult,
    "pow": ast.Pow,
    "remainder": ast.Mod,
    "floor_divide": ast.FloorDiv,
}
"""Python's operators, by torch's names."""
INDEXING = ("select", "slice", "index")
"""Operators of torch that are written in brackets."""
OTHER_NAMES = {
    "split_with_sizes": ("split",),
    "view": ("reshape", "flatten", "unflatten", "view_as"),
    "permute": ("transpose", "movedim", "T", "mT"),
    "_softmax": ("softmax",),
}
"""Functions of torch that become an operator of another name."""


def result_in_words(program: Program, node: Node, output: int = 0) -> str:
    """Return what a node of a program computes, as "the result of `x.relu()`"; empty if its source isn't known.

    Args:
        program: the program.
        node: one of its nodes.
        output: which of the node's outputs is meant.
    """
    source = node.source
    if source is None or (not source.file and TORCH_OPERATOR.fullmatch(source.operator)):
        return ""
    if not source.file:
        return f"the result of {visible_name(source.operator)}"
    expression = _expression(program, source)
    if not expression:
        if not source.text or sum(n.op == node.op for n in program.nodes) == 1:  # the op says it
            return ""
        alike = [n for n in program.nodes if n.op == node.op and _is_in_line(n, source)]
        number = f" {alike.index(node) + 1} of {len(alike)}" if len(alike) > 1 else ""
        return f"the result of {node.op}{number} in `{_shortened(source.text)}`"
    taken = {v for other in program.nodes if other.source is not source for v in other.inputs} | {*program.outputs}
    if taken.isdisjoint(node.outputs):
        return f"the result of {node.op} in {expression}"
    return f"the {_ordinal(output)} result of {expression}" if len(node.outputs) > 1 else f"the result of {expression}"


def piece_in_words(program: Program, node: Node) -> str:
    """Return which part a node takes of a tensor that its operator divides, as "the second chunk of `x.chunk(2)`".

    It is empty for a node that takes no such part, or whose source isn't known.
    """
    cut = node if node.op == "slice" else selected_by(program, node)
    if cut is None or cut.inputs[0] is None or node.source is None or len(cut.attributes["axes"]) != 1:
        return ""
    operator = node.source.operator.split(".")[1:2]
    piece, settings = "", dict(node.source.settings)
    (start,), (axis,) = cut.attributes["starts"], cut.attributes["axes"]
    size = cut.inputs[0].type.shape[axis]
    match operator, settings.get("split_sizes", settings.get("split_size")):
        case ["chunk"], _ if "chunks" in settings:
            piece = f"{_ordinal(start // -(-size // settings['chunks']))} chunk"
        case ["unbind"], _:
            piece = f"{_ordinal(start)} element"
        case ["split"], int(length):
            piece = f"{_ordinal(start // length)} part"
        case ["split" | "split_with_sizes"], (*lengths,):
            piece = next((f"{_ordinal(n)} part" for n in range(len(lengths)) if sum(lengths[:n]) == start), "")
    expression = _expression(program, node.source) if piece else ""
    return f"the {piece} of {expression}" if expression else ""


def selected_by(program: Program, node: Node) -> Node | None:
    """Return the slice of one element whose axis a node leaves out, as `x[:, 0]` does; else None."""
    before = program.producers.get(node.inputs[0]) if node.op == "reshape" and node.inputs[0] is not None else None
    if before is None or before.op != "slice" or before.source is not node.source or node.source is None:
        return None
    shape, axes = before.outputs[0].type.shape, before.attributes["axes"]
    rest = tuple(size for axis, size in enumerate(shape) if axis not in axes)
    return before if node.outputs[0].type.shape == rest and all(shape[axis] == 1 for axis in axes) else None


def _ordinal(number: int) -> str:
    """Return the word for a position from 0."""
    return ORDINALS[number] if number < len(ORDINALS) else f"{number + 1}th"


def _expression(program: Program, source: Source) -> str:
    """Return the expression in a line that is an operator, in backquotes; empty if it can't be told.

    Operators of one kind in a line are in the order in which Python evaluates them, in each turn of a loop.
    """
    expressions = [*_expressions(source)]
    calls = [n.source for n in program.nodes if _is_in_line(n, source) and n.source.operator == source.operator]  # type: ignore[union-attr]
    calls = [call for n, call in enumerate(calls) if not any(call is other for other in calls[:n])]
    if not expressions or len(calls) % len(expressions):
        return ""
    number = next(n for n, call in enumerate(calls) if call is source)
    turn = (
        f" (call {number // len(expressions) + 1} of {len(calls) // len(expressions)})"
        if len(calls) > len(expressions)
        else ""
    )
    return f"`{_shortened(expressions[number % len(expressions)])}`{turn}"


def _is_in_line(node: Node, source: Source) -> bool:
    return node.source is not None and (node.source.file, node.source.line) == (source.file, source.line)


def _expressions(source: Source) -> Iterator[str]:
    """Yield the expressions of a line that may be an operator, in the order of their evaluation."""
    if len(source.text) > MAX_LINE:
        return
    try:
        tree = ast.parse(source.text if not source.text.endswith(":") else f"{source.text} pass")
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # a part of a statement
        return
    name = source.operator.split(".")[1] if TORCH_OPERATOR.fullmatch(source.operator) else source.operator
    name = name.removesuffix("_")
    names = {name, *OTHER_NAMES.get(name, ())}
    for part in _evaluated(tree):
        if (
            (isinstance(part, ast.BinOp) and type(part.op) is BINARY.get(name))
            or (isinstance(part, ast.Subscript) and name in INDEXING and isinstance(part.ctx, ast.Load))
            or (isinstance(part, ast.Call) and getattr(part.func, "attr", getattr(part.func, "id", "")) in names)
        ):
            yield ast.get_source_segment(source.text, part) or ""


def _evaluated(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a tree, operands before what is computed from them."""
    for child in ast.iter_child_nodes(tree):
        yield from _evaluated(child)
    yield tree


def _shortened(text: str) -> str:
    text = visible_name(text)
    return text if len(text) <= MAX_LENGTH else f"{text[: MAX_LENGTH - 1]}…"
