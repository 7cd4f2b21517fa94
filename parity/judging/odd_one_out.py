"""Which of three implementations is wrong where outputs differ: torch, the interpreter or ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..results.cell_report import PROGRAM, CellReport
from ..results.comparison import FAIL
from ..results.network_result import NetworkResult
from ..sides.records import Array, Key
from .boundaries import OUTPUTS

Computed = Mapping[tuple[str, str], Mapping[Key, tuple[Array, float]]]
"""By side and feeding, the arrays of the outputs that fail, each with the largest error that passes."""


@dataclass(frozen=True)
class Implementations:
    """The names of the three sides."""

    reference: str
    interpreter: str
    runtime: str


def find_odd_one_out(
    report: NetworkResult,
    sides: Implementations,
    computed: Computed,
    program_in_torch: Callable[[str], str],
) -> None:
    """Name the side that differs from the two others, in the Cells whose outputs fail.

    The two that run the same program may agree with each other and not with the reference. Then torch runs that
    program, too: if it gets what they get, the program isn't the reference; if it gets what the reference gets, torch
    computes something else from the same program.

    Args:
        report: the report, whose failing Cells get their `wrong_side`.
        sides: names of the sides.
        computed: the outputs that fail.
        program_in_torch: for the path of a Cell, the side that torch agrees with if it runs the Cell's program:
            "reference", "program", or "" if neither or unknown.
    """
    for path in report.failing:
        cell = report.cells[path]
        own = [c for c in cell.comparisons if c.status == FAIL and c.kind in OUTPUTS]
        if cell.wrong_side or not own:
            continue
        votes = _votes(report, path, sides)
        if votes is None:
            continue
        feeding, interpreter_fails, runtime_fails = votes
        if interpreter_fails and runtime_fails:
            if _agree(computed, sides, feeding, path):
                _name_program_or_reference(cell, sides, program_in_torch(path))
        elif runtime_fails:
            too = ", in float64 too" if _passes_in_float64(cell, sides.interpreter) else ""
            reason = f"the odd one out: {sides.reference} and {sides.interpreter} compute the same{too}"
            cell.wrong_side, cell.wrong_side_reason = sides.runtime, reason
        elif interpreter_fails:
            reason = f"the odd one out: {sides.reference} and {sides.runtime} compute the same"
            cell.wrong_side, cell.wrong_side_reason = sides.interpreter, reason


def _votes(report: NetworkResult, path: str, sides: Implementations) -> tuple[str, bool, bool] | None:
    """Return a feeding, and whether the interpreter and ONNX Runtime fail there; None if one wasn't compared.

    Where ONNX Runtime shows no inner Cells, the results of the whole network decide.
    """
    for feeding, where in (("isolated", path), ("end to end", "")):
        fails = [_fails(report.cells.get(where), side, feeding) for side in (sides.interpreter, sides.runtime)]
        if fails[0] is not None and fails[1] is not None:
            return feeding, fails[0], fails[1]
    return None


def _fails(cell: CellReport | None, side: str, feeding: str) -> bool | None:
    own = [] if cell is None else [c for c in cell.comparisons if (c.side, c.feeding) == (side, feeding)]
    outputs = [c for c in own if c.kind in OUTPUTS]
    return any(c.status == FAIL for c in outputs) if outputs else None


def _passes_in_float64(cell: CellReport, side: str) -> bool:
    checks: Sequence[str] = [c.status for c in cell.outputs if c.side == side and c.check == "meaning"]
    return bool(checks) and FAIL not in checks


def _agree(computed: Computed, sides: Implementations, feeding: str, path: str) -> bool:
    """Whether the interpreter and ONNX Runtime compute the same where both fail, up to what passes for each."""
    first, second = (computed.get((side, feeding), {}) for side in (sides.interpreter, sides.runtime))
    shared = [key for key in first if key in second and (feeding != "isolated" or key.path == path)]
    for key in shared:
        (array, bar), (other_array, other_bar) = first[key], second[key]
        if array.shape != other_array.shape:
            return False
        apart = np.abs(array.astype(np.float64) - other_array.astype(np.float64)).max(initial=0.0)
        if not apart <= bar + other_bar:
            return False
    return bool(shared)


def _name_program_or_reference(cell: CellReport, sides: Implementations, torch_agrees_with: str) -> None:
    alike = f"{sides.interpreter} and {sides.runtime} compute the same from it"
    if torch_agrees_with == "program":
        cell.wrong_side = PROGRAM
        cell.wrong_side_reason = f"it isn't the function of {sides.reference}: {alike}, and so does torch, in float64"
    elif torch_agrees_with == "reference":
        cell.wrong_side = sides.reference
        cell.wrong_side_reason = (
            f"the odd one out: {sides.interpreter} and {sides.runtime} compute the same from the program, and torch "
            "something else from the same program, in float64 too"
        )
    else:
        cell.wrong_side = f"{PROGRAM} or {sides.reference}"
        cell.wrong_side_reason = f"{alike}, and {sides.reference} something else"
