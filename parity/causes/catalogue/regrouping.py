"""Axes that are split or merged in another order, halves that are read interleaved, and padding of another mode."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import permutations
from math import prod

from ....runtime.ir.program import Program
from ....runtime.ir.types import Node
from ....runtime.ops import shaping, slicing
from ....runtime.tracing import Builder, SymbolicTensor
from ...results.cause import Cause
from ..cell_program import CellProgram
from ..evidence import Evidence
from ..rebuilding import Operands, Results, append, keep, rebuild
from .hypothesis import Hypothesis, places, with_other_nodes

PADDING_MODES = ("reflect", "replicate", "circular")
MAX_SPLIT = 4
"""The most axes into which one is split, whose other orders are tried."""


def orders(cell: CellProgram, _: Evidence) -> Iterator[Hypothesis]:
    """Yield each reshape that splits an axis, or merges some, with these in another order."""
    for node, positions in places(cell.program):
        if node.op != "reshape" or node.inputs[0] is None:
            continue
        before, after = node.inputs[0].type.sizes, node.outputs[0].type.sizes
        if before is None or after is None:
            continue
        for split, (wide, axes) in ((True, (after, _group(before, after))), (False, (before, _group(after, before)))):
            for order in permutations(axes) if 1 < len(axes) <= MAX_SPLIT else ():
                if order == axes:
                    continue
                sizes = " x ".join(str(wide[axis]) for axis in order)
                how = "split into" if split else "merged from"
                cause = Cause("layout", f"in reshape, an axis is {how} {sizes} in the candidate", op="reshape")
                make = partial(with_other_nodes, cell.program, positions, partial(_reordered, split, axes, order))
                yield Hypothesis(cause, make, len(positions))


def _group(narrow: tuple[int, ...], wide: tuple[int, ...]) -> tuple[int, ...]:
    """Return the axes of a shape that are one axis in the other; none if the shapes differ in more than that."""
    count = len(wide) - len(narrow) + 1
    for axis in range(len(narrow)) if count > 1 else ():
        rest = wide[:axis] + wide[axis + count :] == narrow[:axis] + narrow[axis + 1 :]
        if rest and prod(wide[axis : axis + count]) == narrow[axis]:
            return tuple(range(axis, axis + count))
    return ()


def _reordered(
    split: bool, axes: tuple[int, ...], order: tuple[int, ...], _: Builder, node: Node, operands: Operands
) -> Results:
    """Split an axis into sizes in another order and bring them into place, or merge axes that were exchanged first."""
    (x,) = operands
    assert x is not None
    if not split:
        return merged_in_order(node, operands, axes, order)
    shape = node.attributes["shape"]
    moved = (*range(axes[0]), *order, *range(axes[-1] + 1, len(shape)))
    wide = shaping.reshape(x, shape=tuple(shape[axis] for axis in moved))
    back = tuple(moved.index(axis) for axis in range(len(shape)))
    return (shaping.transpose(wide, permutation=back),)


def merged_axes(node: Node) -> tuple[int, ...]:
    """Return the axes that a node merges into one; none if it does something else."""
    before = node.inputs[0].type.sizes if node.op == "reshape" and node.inputs[0] is not None else None
    after = node.outputs[0].type.sizes
    return () if before is None or after is None else _group(after, before)


def merged_in_order(node: Node, operands: Operands, axes: tuple[int, ...], order: tuple[int, ...]) -> Results:
    """Return the result of a node that merges axes, with these exchanged first."""
    (x,) = operands
    assert x is not None
    moved = (*range(axes[0]), *order, *range(axes[-1] + 1, len(x.value.shape)))
    return (shaping.reshape(shaping.transpose(x, permutation=moved), shape=node.attributes["shape"]),)


def interleaved(cell: CellProgram, _: Evidence) -> Iterator[Hypothesis]:
    """Yield equal parts of an axis read as each n-th of its elements, and the other way round."""
    for axis_from_end in (1, 2):
        for apart in (True, False):
            in_candidate, in_reference = ("interleaved", "one after the other")[:: 1 if apart else -1]
            cause = Cause(
                "layout", f"the parts of an axis are {in_candidate} in the candidate, {in_reference} in the reference"
            )
            for joined in (False, True):
                make = partial(_interleaved, cell.program, axis_from_end, apart, joined)
                yield Hypothesis(cause, make)


def _interleaved(program: Program, axis_from_end: int, apart: bool, joined: bool) -> Program:
    """Return the program with parts of an axis read as each n-th of its elements, or these as parts.

    Args:
        program: the Cell's.
        axis_from_end: the axis, 1 for the last.
        apart: whether parts in a row are read as each n-th element.
        joined: whether two parts that are concatenated are interleaved, too.

    Raises:
        ValueError: nothing is read so.
    """
    changed = 0

    def rule(builder: Builder, at: int, node: Node, operands: Operands) -> Results:
        nonlocal changed
        x = operands[0] if operands else None
        if x is None or axis_from_end > len(x.value.shape):
            return keep(builder, at, node, operands)
        axis = len(x.value.shape) - axis_from_end
        if node.op == "slice" and node.attributes["axes"] == (axis,):
            size = x.value.shape[axis]
            other = _other_part(node, size, apart) if isinstance(size, int) else None
            if other is not None:
                changed += 1
                (start, stop, step) = other
                return (slicing.slice(x, starts=(start,), stops=(stop,), steps=(step,), axes=(axis,)),)
        if joined and apart and node.op == "concat" and len(operands) == 2 and node.attributes["axis"] == axis:
            return (_in_turn([operand for operand in operands if operand is not None], axis),)
        return keep(builder, at, node, operands)

    result = rebuild(program, rule)
    if not changed:
        raise ValueError("an axis isn't split into equal parts")
    return result


def _other_part(node: Node, size: int, apart: bool) -> tuple[int, int, int] | None:
    """Return start, stop and step of a part that is read in the other way; None if a slice takes no such part."""
    (start,), (stop,), (step,) = (node.attributes[name] for name in ("starts", "stops", "steps"))
    if apart:
        width = stop - start
        if step != 1 or not 1 < width < size or size % width or start % width:
            return None
        return start // width, size, size // width
    if step == 1 or size % step or start >= step:
        return None
    width = size // step
    return start * width, (start + 1) * width, 1


def _in_turn(parts: list[SymbolicTensor], axis: int) -> SymbolicTensor:
    """Return two tensors of one shape interleaved along an axis."""
    sizes = parts[0].value.shape
    wide = [shaping.reshape(part, shape=(*sizes[: axis + 1], 1, *sizes[axis + 1 :])) for part in parts]
    stacked = slicing.concat(*wide, axis=axis + 1)
    size = stacked.value.shape[axis]
    assert isinstance(size, int)
    result: SymbolicTensor = shaping.reshape(stacked, shape=(*sizes[:axis], 2 * size, *sizes[axis + 1 :]))
    return result


def padding_modes(cell: CellProgram, _: Evidence) -> Iterator[Hypothesis]:
    """Yield each padded convolution with padding of another mode."""
    for node, positions in places(cell.program):
        if node.op == "conv" and any(map(any, node.attributes["padding"])):
            for mode in PADDING_MODES:
                summary = f"padding_mode is {mode!r} in the candidate, 'zeros' in the reference"
                cause = Cause(
                    "attribute", summary, op="conv", attribute="padding_mode", reference_value="zeros",
                    candidate_value=mode,
                )  # fmt: skip
                make = partial(with_other_nodes, cell.program, positions, partial(_padded, mode))
                yield Hypothesis(cause, make, len(positions))


def _padded(mode: str, builder: Builder, node: Node, operands: Operands) -> Results:
    x, *rest = operands
    assert x is not None
    padding = node.attributes["padding"]
    before, after = ((0, 0, *(pair[side] for pair in padding)) for side in (0, 1))
    padded = slicing.pad(x, before=before, after=after, mode=mode)
    return append(builder, "conv", [padded, *rest], {**node.attributes, "padding": ((0, 0),) * len(padding)})
