"""Finds the Cells of one ONNX file in another that is divided otherwise, or not at all."""

from __future__ import annotations

from collections.abc import Sequence

from ....converter.torch_out.export import to_torch
from ....runtime.errors import CellbridgeError
from ....runtime.ir.program import Program
from ...inputs.onnx_reading import OnnxFile
from ...options import Options
from ...report.report import Report
from ...sides.parameter_users import parameter_users_of
from ...sides.records import Array
from ...support.progress import Progress
from ...support.tensors import as_tensors
from .module_and_file import ModuleAndFile


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
