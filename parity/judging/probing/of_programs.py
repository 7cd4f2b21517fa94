"""What is read in a program from which probes are derived."""

from __future__ import annotations

from ....runtime.ir.program import Program
from ...inputs.onnx_inputs import tables


def vocabularies_of(program: Program) -> list[int]:
    """The lengths of the tables in which the program looks up its inputs, or of all matrices; the largest first."""
    lengths = {length for value in program.inputs if value.dtype.kind in "iu" for length in tables(program, value)}
    matrices = {parameter.data.shape[0] for parameter in program.parameters.values() if parameter.data.ndim == 2}
    return sorted(lengths or matrices, reverse=True)
