"""What Cells inside a Cell return, read in another order: blocks or axes exchanged, pairs for halves, head by head."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import combinations, product

from ....runtime.ir.program import Program
from ....runtime.ir.types import Value, is_floating
from ....runtime.ops import shaping, slicing
from ....runtime.tracing import SymbolicTensor
from ...results.cause import Cause
from ...sides.records import INPUT_GRADIENT, OUTPUT_GRADIENT
from ..cell_program import CellProgram
from ..evidence import Evidence
from ..naming import name_of_value
from .hypothesis import Hypothesis, with_changed_value
from .weights import orders_of_blocks

COUNTS = {2: "halves", 3: "thirds"}
"""What is computed together: gate and up, or queries, keys and values."""
MAX_TOGETHER = 2
"""The most values whose heads are read alike: queries and keys."""


def blocks(cell: CellProgram, _: Evidence) -> Iterator[Hypothesis]:
    """Yield what each Cell inside returns with blocks of its features in another order."""
    for value in returned(cell):
        size = value.type.sizes[-1] if value.type.sizes else 0
        for order in orders_of_blocks(size):
            if len(order) in COUNTS:
                words = ", ".join(map(str, order))
                name = name_of_value(cell, value)
                summary = f"the {COUNTS[len(order)]} of {name} are read in the order {words} in the candidate"
                change = partial(_reordered, order)
                yield Hypothesis(Cause("structure", summary), partial(with_changed_value, cell.program, value, change))


def heads(cell: CellProgram, _: Evidence) -> Iterator[Hypothesis]:
    """Yield what Cells inside return with the halves of each head as pairs, or pairs as halves, as rotations need them.

    Rotary embeddings turn features in pairs that lie side by side, or half a head apart; weights are permuted to fit.
    """
    sizes = {value: size for value in returned(cell) if (size := _size_of_head(cell.program, value))}
    for count in range(1, MAX_TOGETHER + 1):
        for values in combinations(sizes, count):
            names = " and ".join(name_of_value(cell, value) for value in values)
            for as_pairs in (True, False):
                how = "halves of each head as pairs" if as_pairs else "pairs of each head as halves"
                cause = Cause(
                    "weight",
                    f"{names}: features are in another order in the candidate, the {how}, as if rows of the weight "
                    "were not permuted for its rotary embedding",
                    "permute the rows of the weight as the rotation pairs them: halves of a head, or neighbours",
                )
                yield Hypothesis(cause, partial(_with_heads, cell.program, {v: sizes[v] for v in values}, as_pairs))


def by_heads(cell: CellProgram, _: Evidence) -> Iterator[Hypothesis]:
    """Yield what Cells inside return, or what the Cell takes, in parts that are read head by head, or the reverse.

    Parts are queries, keys and values, say. They lie along the last axis, or along that of channels.
    """
    for value in [*returned(cell), *_taken(cell)]:
        sizes = value.type.sizes or ()
        for axis, (count, name_of_parts) in product(_axes_of_features(sizes), COUNTS.items()):
            for heads in _numbers_of_heads(cell.program, sizes[axis], count):
                for in_parts in (True, False):
                    orders = (f"as {name_of_parts} with all heads each", f"head by head, with {count} parts each")
                    in_candidate, in_reference = orders if in_parts else orders[::-1]
                    cause = Cause(
                        "weight",
                        f"the features of {name_of_value(cell, value)} are read {in_candidate} in the candidate, and "
                        f"{in_reference} in the reference, as if rows of the weight were not permuted",
                        "permute the rows of the weight, or divide the features as the reference does",
                    )
                    change = partial(_divided, axis, count, heads, in_parts)
                    yield Hypothesis(cause, partial(with_changed_value, cell.program, value, change))


def axes(cell: CellProgram, _: Evidence) -> Iterator[Hypothesis]:
    """Yield what each Cell inside returns with two axes of the same size exchanged: a table of distances, reversed."""
    for value in returned(cell):
        sizes = value.type.sizes or ()
        for axis, other in combinations(range(len(sizes)), 2):
            if sizes[axis] == sizes[other] > 1:
                cause = Cause(
                    "structure",
                    f"{name_of_value(cell, value)} is read transposed in the candidate, with its axes {axis} and "
                    f"{other} exchanged",
                )
                yield Hypothesis(cause, partial(with_changed_value, cell.program, value, partial(_turned, axis, other)))


def _axes_of_features(sizes: tuple[int, ...]) -> list[int]:
    """Return the axes along which features may lie."""
    return [axis for axis in dict.fromkeys((len(sizes) - 1, 1)) if 0 <= axis < len(sizes)]


def _numbers_of_heads(program: Program, size: int, count: int) -> list[int]:
    """Return the numbers of heads into which the program divides parts of a size, or all of it.

    Some programs count the heads of all samples along one axis.
    """
    numbers: dict[int, None] = {}
    for node in program.nodes:
        before = node.inputs[0].type.sizes if node.op == "reshape" and node.inputs[0] is not None else None
        after = node.outputs[0].type.sizes
        if before and after and len(after) > 1 and size % count == 0:
            of_samples = [after[0] // before[0]] if before[0] and after[0] % before[0] == 0 else []
            for heads in (n for n in (*after, *of_samples) if n > 1 and n * count < size and size % (n * count) == 0):
                numbers[heads] = None
    return list(numbers)


def returned(cell: CellProgram) -> list[Value]:
    """Return the floating-point values that Cells inside return."""
    pairs = zip(cell.program.inputs, cell.input_keys, strict=True)
    return [
        value
        for value, key in pairs
        if key is not None and key.kind == OUTPUT_GRADIENT and key.path != cell.path and is_floating(value.dtype)
    ]


def _taken(cell: CellProgram) -> list[Value]:
    """Return the floating-point values that a Cell takes."""
    pairs = zip(cell.program.inputs, cell.input_keys, strict=True)
    return [
        value
        for value, key in pairs
        if key is not None and key.kind == INPUT_GRADIENT and key.path == cell.path and is_floating(value.dtype)
    ]


def _size_of_head(program: Program, value: Value) -> int:
    """Return the even number of features into which a value's last axis is divided; 0 if it isn't divided."""
    before = value.type.sizes
    for node in program.nodes:
        after = node.outputs[0].type.sizes
        if node.op == "reshape" and node.inputs[0] is value and before and after and len(after) > len(before):
            size = after[-1]
            return size if size % 2 == 0 and 2 < size < before[-1] else 0
    return 0


def _reordered(order: tuple[int, ...], x: SymbolicTensor) -> SymbolicTensor:
    sizes = x.value.type.sizes
    assert sizes is not None, "only values of known shapes are read in blocks"
    axis, size = len(sizes) - 1, sizes[-1] // len(order)
    parts = [slicing.slice(x, starts=(n * size,), stops=((n + 1) * size,), steps=(1,), axes=(axis,)) for n in order]
    result: SymbolicTensor = slicing.concat(*parts, axis=axis)
    return result


def _with_heads(program: Program, sizes: dict[Value, int], as_pairs: bool) -> Program:
    for value, size in sizes.items():
        program = with_changed_value(program, value, partial(_exchanged, size, as_pairs))
    return program


def _exchanged(size: int, as_pairs: bool, x: SymbolicTensor) -> SymbolicTensor:
    shape = x.value.type.sizes
    assert shape is not None, "only values of known shapes have heads"
    inner = (2, size // 2) if as_pairs else (size // 2, 2)
    wide = shaping.reshape(x, shape=(*shape[:-1], shape[-1] // size, *inner))
    rank = len(shape) + 2
    turned = shaping.transpose(wide, permutation=(*range(rank - 2), rank - 1, rank - 2))
    result: SymbolicTensor = shaping.reshape(turned, shape=shape)
    return result


def _divided(axis: int, count: int, heads: int, in_parts: bool, x: SymbolicTensor) -> SymbolicTensor:
    shape = x.value.type.sizes
    assert shape is not None, "only values of known shapes have heads"
    parts = (count, heads) if in_parts else (heads, count)
    wide = shaping.reshape(x, shape=(*shape[:axis], *parts, shape[axis] // (count * heads), *shape[axis + 1 :]))
    order = list(range(len(shape) + 2))
    order[axis : axis + 2] = axis + 1, axis
    result: SymbolicTensor = shaping.reshape(shaping.transpose(wide, permutation=tuple(order)), shape=shape)
    return result


def _turned(axis: int, other: int, x: SymbolicTensor) -> SymbolicTensor:
    order = list(range(len(x.value.type.sizes or ())))
    order[axis], order[other] = other, axis
    result: SymbolicTensor = shaping.transpose(x, permutation=tuple(order))
    return result
