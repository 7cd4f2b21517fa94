"""What torch computes from the program of a Cell: the same as the reference, or as other implementations of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
import torch
from torch.utils import _pytree as pytree

from ...converter.torch_out.export import to_torch
from ...runtime.errors import CellbridgeError
from ...runtime.programs.call import as_array
from ...runtime.programs.interpreter import execute
from ..sides.records import Array
from ..verdicts.deviations import size
from .cell_program import CellProgram, Network
from .rebuilding import INVALID

NEARER = 1e-3
"""The largest distance from one result, in units of the distance from the other, of what is the same as the first."""


def program_in_torch(network: Network, path: str) -> Literal["reference", "program", ""]:
    """Return what torch agrees with, in float64, if it runs the program of a Cell on the recorded values.

    Returns:
        "reference": with the reference's records; "program": with the interpreter; "" if with neither, if they don't
        differ, or if torch can't run it.
    """
    for number in network.calls_of(path):
        try:
            agreement = _of_call(network.cut(number), network)
        except INVALID:
            continue
        if agreement:
            return agreement
    return ""


def _of_call(cell: CellProgram, network: Network) -> Literal["reference", "program", ""]:
    truth = [network.truth.values.get(key) for key in cell.output_keys]
    flat = [replace(node, cell=0) for node in cell.program.nodes]
    program = cell.program.replace(nodes=tuple(flat), calls=cell.program.calls[:1])
    try:
        with torch.no_grad():
            result = to_torch(program)(*(torch.from_numpy(np.array(array)) for array in cell.arrays))
        interpreted = execute(cell.program, cell.arrays)
    except CellbridgeError:
        return ""
    in_torch = [as_array(leaf) for leaf in pytree.tree_leaves(result)]
    from_reference = _distance(in_torch, truth)
    from_program = _distance(in_torch, interpreted)
    if from_reference < NEARER * from_program:
        return "reference"
    return "program" if from_program < NEARER * from_reference else ""


def _distance(arrays: list[Array], others: list[Array] | list[Array | None]) -> float:
    """The largest difference, relative to the largest element; infinite for different shapes."""
    worst = 0.0
    for array, other in zip(arrays, others, strict=True):
        if other is None:
            continue
        if array.shape != other.shape:
            return np.inf
        apart = np.abs(array.astype(np.float64) - other.astype(np.float64)).max(initial=0.0)
        worst = max(worst, float(apart) / (size(other) or 1.0))
    return worst
