"""The random draws of a program that were recorded in another run."""

from __future__ import annotations

from ...runtime.ir.program import Program
from ...runtime.ops.registry import get
from .records import Array, Draw
from .run import Run


def without_leading_ones(array: Array, rank: int) -> Array:
    """Return `array` without leading axes of size 1 in excess of this rank.

    Since torch 2.14, three-dimensional attention draws its dropout mask with a fourth, leading dimension.
    """
    excess = max(0, array.ndim - rank)
    return array.reshape(array.shape[excess:]) if array.shape[:excess] == (1,) * excess else array


def recorded_draws(program: Program, run: Run) -> dict[str, Array]:
    """Return the draws that were recorded in the Cells of the program's random nodes, in order, by value name."""
    counts: dict[tuple[str, int], int] = {}
    draws: dict[str, Array] = {}
    for node in program.nodes:
        if get(node.op).traits.draws:
            call, value = program.calls[node.cell], node.outputs[0]
            cell = (call.path, call.index)
            recorded = run.reference.draws.get(Draw(*cell, counts.get(cell, 0)))
            counts[cell] = counts.get(cell, 0) + 1
            if recorded is not None:
                recorded = without_leading_ones(recorded, len(value.shape))
                if len(recorded.shape) == len(value.shape):
                    draws[value.name] = recorded.astype(value.dtype)
    return draws
