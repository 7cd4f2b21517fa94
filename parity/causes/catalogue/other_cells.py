"""A Cell that has the parameters of another Cell: layers, norms or towers that a port exchanges, or uses twice."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import islice

import numpy as np

from ....runtime.ir.program import Program
from ....runtime.visible import visible_name
from ...results.cause import Cause
from ...sides.records import Array
from ..cell_program import CellProgram
from ..evidence import Evidence
from .hypothesis import Hypothesis

MAX_CELLS = 64
"""The most Cells whose parameters are tried."""


def parameters_of_others(cell: CellProgram, evidence: Evidence) -> Iterator[Hypothesis]:
    """Yield the Cell with the parameters of each other Cell that has some of the same names and shapes.

    The gradients of its own parameters come from where the candidate uses these, if it does.
    """
    own = {name: name.removeprefix(f"{cell.path}.") for name in cell.program.parameters}
    if not own or not cell.path or any(name == inner for name, inner in own.items()):
        return
    elsewhere = frozenset(("parameter", name) for name in own)
    for path in islice(_alike(cell, own, evidence), MAX_CELLS):
        arrays = {name: evidence.reference_parameters[f"{path}.{inner}"] for name, inner in own.items()}
        if all(np.array_equal(array, cell.program.parameters[name].data) for name, array in arrays.items()):
            continue
        names = [visible_name(p) for p in (cell.path, path)]
        summary = f"{names[0]} has the parameters of {names[1]} in the candidate"
        cause = Cause("weight", summary, f"give {names[0]} its own parameters")
        yield Hypothesis(cause, partial(_with_arrays, cell.program, arrays), elsewhere=elsewhere)


def _alike(cell: CellProgram, own: dict[str, str], evidence: Evidence) -> Iterator[str]:
    """Yield the paths of the other Cells whose parameters have the names and shapes of a Cell's own."""
    known = evidence.reference_parameters
    first = f".{next(iter(own.values()))}"
    shapes = {inner: cell.program.parameters[name].data.shape for name, inner in own.items()}
    for name in known:
        path = name.removesuffix(first)
        is_other = path not in (name, cell.path)
        if is_other and all(_shape(known.get(f"{path}.{inner}")) == shape for inner, shape in shapes.items()):
            yield path


def _shape(array: Array | None) -> tuple[int, ...] | None:
    return None if array is None else array.shape


def _with_arrays(program: Program, arrays: dict[str, Array]) -> Program:
    changed = {name: replace(program.parameters[name], data=array) for name, array in arrays.items()}
    return program.replace(parameters={**program.parameters, **changed})
