"""Finds the Cells of one ONNX file in another that is divided otherwise, or not at all, by the values at boundaries.

Boundaries of a file are where its nodes say that they are in another Cell. An optimizer that sorts, moves or merges
nodes also changes the order of a Cell's values, or the place where it begins and ends.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ....converter.torch_out.export import to_torch
from ....runtime.errors import CellbridgeError
from ....runtime.ir.program import Program
from ....runtime.ir.types import Node
from ...inputs.onnx_reading import OnnxFile
from ...options import Options
from ...pairing.by_values.flat import without_boundaries
from ...report.globs import list_names
from ...report.report import Report
from ...sides.boundary_observer import own_key
from ...sides.interpreter_side import InterpreterSide
from ...sides.parameter_users import parameter_users_of
from ...sides.records import Array, Key
from ...sides.run import FORWARD, Run
from ...support.progress import Progress
from ...support.tensors import as_tensors
from .module_and_file import ModuleAndFile

AGREES = 1e-6  # of the largest number: the same value, but for weights that were rounded again
DIFFERS = 1e-3  # of the largest number: another value, if the network's outputs agree
Place = tuple[str, int, str]


def pair_places(first: InterpreterSide, second: InterpreterSide) -> tuple[Program, Program, list[str]]:
    """Return two programs whose Cells have the same paths, with boundaries of the same values; and a note.

    Values that cross the boundaries of a Cell in another order are paired. A Cell that begins or ends elsewhere, so
    that its values differ though those of the network agree, is not marked as one.
    """
    forward = Run("float64", FORWARD)
    programs = first.program, second.program
    try:
        values, others = first.run(forward).values, second.run(forward).values
    except CellbridgeError:  # judging reports it
        return *programs, []
    places, other_places = (_places(program) for program in programs)
    roots = [key for key in values if not key.path]
    agree = all(key in others and _apart(values[key], others[key]) <= AGREES for key in roots)
    names: dict[Key, str] = {}
    moved: dict[tuple[str, int], None] = {}
    for boundary, slots in places.items():
        keys, other_keys = (
            [Key(*boundary, slot) for slot in slots_of_side]
            for slots_of_side in (slots, other_places.get(boundary, []))
        )
        if not boundary[0] or not all(key in values for key in keys) or not all(key in others for key in other_keys):
            continue
        pairs = _pairs([values[key] for key in keys], [others[key] for key in other_keys])
        far = agree and any(_apart(values[keys[a]], others[other_keys[b]]) > DIFFERS for a, b in pairs)
        if len(pairs) < len(keys) or far:
            moved[boundary[:2]] = None
        names |= {other_keys[b]: keys[a].slot for a, b in pairs}

    def keeps(key: Key) -> bool:
        return (key.path, key.call) not in moved

    renamed = programs[1].replace(nodes=tuple(_renamed(programs[1], node, names) for node in programs[1].nodes))
    if not moved:
        return programs[0], renamed, []
    paths = list_names(list(dict.fromkeys(path for path, _ in moved)))
    ends = "begins or ends" if len(moved) == 1 else "begin or end"
    note = (
        f"{paths} {ends} at other places in the two files, and {'was' if len(moved) == 1 else 'were'}n't compared alone"
    )
    return without_boundaries(programs[0], keeps), without_boundaries(renamed, keeps), [note]


def _places(program: Program) -> dict[Place, list[str]]:
    """Return the slots of each Cell call's inputs and outputs, in order."""
    places: dict[Place, list[str]] = {}
    for node in program.nodes:
        if node.op == "boundary":
            key = own_key(program, node)
            places.setdefault((key.path, key.call, key.kind), []).append(key.slot)
    return places


def _renamed(program: Program, node: Node, names: dict[Key, str]) -> Node:
    if node.op != "boundary" or own_key(program, node) not in names:
        return node
    attributes = {**node.attributes, "slot": names[own_key(program, node)]}
    return Node(node.op, node.inputs, attributes, node.outputs, node.cell, node.source)


def _pairs(values: Sequence[Array], others: Sequence[Array]) -> list[tuple[int, int]]:
    """Pair arrays: those of the same numbers, then those of the same shape, each at the same position if possible."""
    pairs: dict[int, int] = {}
    for within in (AGREES, np.inf):
        for a in range(len(values)):
            free = sorted(set(range(len(others))) - set(pairs.values()), key=a.__ne__)
            match = next((b for b in free if _apart(values[a], others[b]) <= within), None)
            if a not in pairs and match is not None:
                pairs[a] = match
    return sorted(pairs.items())


def _apart(array: Array, other: Array) -> float:
    """The largest difference, as a part of the largest number; NaN, which is no number, if the shapes differ."""
    if array.shape != other.shape:
        return np.nan
    if array.dtype.kind not in "biufc" or other.dtype.kind not in "biufc":
        return 0.0 if np.array_equal(array, other) else np.inf
    with np.errstate(all="ignore"):
        wide, wide_other = (x.astype(np.complex128 if x.dtype.kind == "c" else np.float64) for x in (array, other))
        differs = ~((wide == wide_other) | (np.isnan(wide) & np.isnan(wide_other)))
        if not differs.any():
            return 0.0
        apart = np.abs(wide - wide_other)[differs].max() / max(np.abs(wide[np.isfinite(wide)]).max(initial=0.0), 1e-300)
    return float(apart) if np.isfinite(apart) else np.inf


def place_in_cells(
    whole: Report,
    reference: Program,
    candidate: OnnxFile,
    arrays: Sequence[Array],
    options: Options,
    progress: Progress,
) -> Report:
    """Return a report on the Cells of the reference, if two files differ as a whole and the Cells can be found.

    Args:
        whole: the report on the files as a whole, which fails.
        reference: the program of the first file.
        candidate: the second file.
        arrays: inputs of the reference.
        options: options of the run.
        progress: receives the stages of the run.
    """
    note = "the files were compared as a whole, since their Cells or parameters are not the same"
    if len(reference.calls) < 2:
        whole.notes.append(f"{note}; give the file that names Cells first, and a fault is placed in one of them")
        return whole
    try:
        module = to_torch(_with_names_of_users(reference))
        report = ModuleAndFile(module, candidate.source, options, progress).judge_inputs(as_tensors(arrays), {})
    except CellbridgeError as error:
        whole.notes.append(f"{note}; the Cells were not found: {error}".partition("\n")[0])
        return whole
    if not any(report.failing):  # the root alone, as before, or nothing
        whole.notes.append(f"{note}; none of the Cells that were found fails")
        return whole
    report.notes.append(
        f"the Cells are those of {whole.reference}; in {candidate.path}, they were found by their values"
    )
    return report


def _with_names_of_users(program: Program) -> Program:
    """Return the program with each parameter inside the only Cell that uses it, whatever its name."""
    users = parameter_users_of(program)

    def named(name: str) -> str:
        user = users.get(name, "")
        return name if not user or name.startswith(f"{user}.") else f"{user}.{name}"

    names = {name: named(name) for name in program.parameters}
    if len(set(names.values())) < len(names):
        return program
    return program.replace(parameters={names[name]: parameter for name, parameter in program.parameters.items()})
