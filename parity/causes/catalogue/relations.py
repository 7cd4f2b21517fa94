"""What a candidate's parameters are to the reference's, beside which another change of the Cell is looked for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ....runtime.ir.program import Program
from ...results.cause import Cause
from ..cell_program import CellProgram
from ..evidence import Evidence
from ..rebuilding import INVALID
from .readings import transposes
from .weights import buffers, values


@dataclass(frozen=True)
class Relation:
    """The reference's Cell with the candidate's parameters.

    Attributes:
        causes: how they differ from the reference's.
        program: the changed program.
    """

    causes: tuple[Cause, ...]
    program: Program


def relations(cell: CellProgram, evidence: Evidence) -> Iterator[Relation]:
    """Yield what the parameters may be: those that are known to differ, all together; else each one transposed."""
    program, causes = cell.program, []
    for hypothesis in [*values(cell, evidence)][-1:]:  # the last one is all parameters together
        program = hypothesis.make()
        causes.append(hypothesis.cause)
    for hypothesis in buffers(cell, evidence):
        name = hypothesis.cause.attribute
        program = program.replace(buffers={**program.buffers, name: hypothesis.make().buffers[name]})
        causes.append(hypothesis.cause)
    if causes:
        yield Relation(tuple(causes), program)
        return
    for hypothesis in transposes(cell, evidence):
        try:
            yield Relation((hypothesis.cause,), hypothesis.make())
        except INVALID:
            continue
