"""Cumulative sums and products that leave out the element itself, or run from the other end."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from ....runtime.ops import scanning, shaping, slicing
from ....runtime.tracing import Builder, SymbolicTensor
from ...results.cause import Cause
from ..cell_program import CellProgram
from ..evidence import Evidence
from ..rebuilding import Operands, Results
from .hypothesis import Hypothesis, places, with_other_nodes

SCANS = {"cumsum": "sum", "cumprod": "product"}


def scans(cell: CellProgram, _: Evidence) -> Iterator[Hypothesis]:
    """Yield each cumulative sum and product as an exclusive one, as one from the end, and as both."""
    for node, positions in places(cell.program):
        if node.op not in SCANS:
            continue
        for exclusive, reverse in ((True, False), (False, True), (True, True)):
            in_candidate = [*(["exclusive"] if exclusive else []), *(["taken from the end"] if reverse else [])]
            in_reference = [*(["inclusive"] if exclusive else []), *(["from the start"] if reverse else [])]
            words = f"in {node.op}, the {SCANS[node.op]} is {' and '.join(in_candidate)} in the candidate"
            cause = Cause(
                "attribute", f"{words}, {' and '.join(in_reference)} in the reference", op=node.op,
                attribute="exclusive" if exclusive else "reverse", reference_value=False, candidate_value=True,
            )  # fmt: skip
            make = partial(_scan, node.op, node.attributes["axis"], exclusive, reverse)
            yield Hypothesis(cause, partial(with_other_nodes, cell.program, positions, make), len(positions))


_SCANS = {"cumsum": scanning.cumsum, "cumprod": scanning.cumprod}


def _scan(op: str, axis: int, exclusive: bool, reverse: bool, _: Builder, node: object, operands: Operands) -> Results:
    """Return the scan of the operand. An exclusive one starts with 0 or 1, and lacks the last element."""
    (x,) = (operand for operand in operands if operand is not None)
    x = shaping.flip(x, axes=(axis,)) if reverse else x
    result: SymbolicTensor = _SCANS[op](x, axis=axis)
    if exclusive:
        size, first = x.shape[axis], [int(i == axis % x.ndim) for i in range(x.ndim)]
        longer = slicing.pad(
            result, before=tuple(first), after=(0,) * x.ndim, mode="constant", value=0 if op == "cumsum" else 1
        )
        result = slicing.slice(longer, starts=(0,), stops=(size,), steps=(1,), axes=(axis % x.ndim,))
    return (shaping.flip(result, axes=(axis,)) if reverse else result,)
