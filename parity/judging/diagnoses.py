"""`Diagnoses`: the searches for the causes of a side's failures, on whole networks or on single Cells."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ...runtime.errors import CellbridgeError
from ..causes.budget import CAPTURE
from ..causes.cell_program import Network
from ..causes.diagnose import Diagnosis
from ..causes.evidence import Evidence
from ..results.notes import warnings_as_notes
from ..sides.abilities import HasProgram, RunsModule
from ..sides.cell_capture import cell_in_interpreter
from ..sides.run import Run
from ..sides.side import Side
from .networks import network_of


@dataclass
class Diagnoses:
    """One search on both networks or, where one of them can't be captured as a whole, one for each failing Cell.

    Attributes:
        reference: the reference as a program; None if it can't be captured as a whole.
        candidate: the candidate; None if it has no program, or can't be captured as a whole.
        notes: which can't be, and why.
        whole: the search on both networks; None if the reference can't be captured as a whole.
    """

    evidence: Evidence
    sides: tuple[Side, Side]
    run: Run
    reference: Network | None = field(init=False)
    candidate: Network | None = field(init=False)
    notes: list[str] = field(init=False, default_factory=list)
    whole: Diagnosis | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        others = "no cause was looked for", "common mistakes were tried to find causes"
        self.reference, self.candidate = map(self._read, self.sides, others)
        if self.reference is not None:
            self.whole = Diagnosis(self.evidence, self.reference, self.candidate)

    def of(self, path: str, index: int) -> Diagnosis | None:
        """Return the search for a Cell that fails in the call of that number; None if it can't be captured."""
        reference, candidate = self.reference, self.candidate
        is_read = reference is not None and (candidate is not None or not isinstance(self.sides[1], RunsModule))
        if is_read or self.evidence.budget.is_spent:
            return self.whole
        self.evidence.budget.spend(CAPTURE)
        reference, candidate = (
            network or self._read_cell(side, path, index)
            for network, side in zip((reference, candidate), self.sides, strict=True)
        )
        if reference is None or (candidate is None and reference is self.reference):
            return self.whole
        return Diagnosis(self.evidence, reference, candidate)

    def _read(self, side: Side, otherwise: str) -> Network | None:
        if not isinstance(side, HasProgram):
            return None
        try:
            return network_of(side, self.run)
        except CellbridgeError as error:
            reason = f"{error}".partition("\n")[0]
            how = "each failing Cell was read alone to find causes" if isinstance(side, RunsModule) else otherwise
            self.notes.append(f"{side.name} can't be read as a program, so {how}: {reason}")
            return None

    def _read_cell(self, side: Side, path: str, index: int) -> Network | None:
        if not isinstance(side, RunsModule):
            return None
        slots = {place: names for place, names in self.run.reference.slots.items() if place[0]}
        try:
            with warnings_as_notes():
                program = cell_in_interpreter(side, path, index, self.evidence.truth.calls, self.run)
            return Network.of(
                program, replace(self.run, reference=replace(self.run.reference, slots=slots, result=None))
            )
        except CellbridgeError:
            return None
