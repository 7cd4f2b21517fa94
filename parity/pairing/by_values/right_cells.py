"""Which Cells of a file compute what the module does, given what the module gives them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ....runtime.errors import CellbridgeError
from ....runtime.programs.interpreter import execute
from ...causes.cell_program import CellProgram
from ...correspondence.distances import ROUNDED, distance
from ...sides.interpreter_side import InterpreterSide
from ...sides.records import OUTPUT, Array, Records
from ...sides.run import FORWARD, ReferenceRun, Run


def wrong_cells(side: InterpreterSide, truth: Records) -> set[str]:
    """Return the paths of the Cells that don't compute what the module does, in float64."""
    records = side.run(Run("float64", FORWARD, ReferenceRun.of(truth), feed=truth))
    calls = {(call.path, call.index): call for call in records.calls}
    wrong: set[str] = set()
    for key, array in records.values.items():
        expected, call = truth.values.get(key), calls.get((key.path, key.call))
        if expected is not None and call is not None and distance([array], [expected]) > ROUNDED:
            wrong.add(key.path if key.kind == OUTPUT or call.parent is None else records.calls[call.parent].path)
    return wrong


def is_right(cell: CellProgram, given: Mapping[str, Array], truth: Records) -> bool:
    """Whether a Cell computes what the module does, with these arrays in some of its parameters."""
    own = cell.program.parameters
    changed = {name: replace(own[name], data=array) for name, array in given.items()}
    program = cell.program.replace(parameters={**own, **changed})
    expected = [truth.values.get(key) for key in cell.output_keys]
    try:
        results = execute(program, cell.arrays, wanted=program.outputs)
    except CellbridgeError:
        return False
    return all(
        array is None or distance([result], [array]) <= ROUNDED for result, array in zip(results, expected, strict=True)
    )
