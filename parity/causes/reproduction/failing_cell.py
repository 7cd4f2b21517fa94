"""`FailingCell`: shrinks a failing Cell to a minimal reproduction, writes it, and runs it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ....converter.onnx_out.export import to_onnx
from ....runtime.errors import CellbridgeError, ConversionError
from ....runtime.storage.safetensors_bytes import to_bytes
from ...results.cell_report import CellReport
from ..cell_program import CellProgram
from ..rebuilding import INVALID
from .case import Case, cases
from .gaps import Gap, Measure, in_float32, in_float64, in_onnxruntime, onnx_program, rounding_bar
from .nodes import fewer_nodes
from .readme import README, readme
from .running import run_script
from .script import INPUTS, MODEL, SCRIPT, WEIGHTS, Script, of_onnx, of_programs
from .search import Search
from .sizes import smaller

LEAST_GAP = 1e-9
"""Two programs differ if their results in float64 do by more than this, relative to the largest."""
KEPT = 1e-3
"""A smaller case must keep this part of the gap, so that it doesn't drift to mere rounding."""


@dataclass(frozen=True)
class FailingCell:
    """A failing Cell of one side.

    Attributes:
        path: path of the Cell.
        side: name of the side.
        reference: the reference's program of the failing call.
        candidate: the candidate's; the reference's for one that only ONNX Runtime computes otherwise; None if the
            candidate can't be read as a program.
        in_onnxruntime: whether the candidate is an ONNX file, or a side that ONNX Runtime runs.
        changed: for a candidate without a program, the reference's with the cause that was proved, if there is one.
    """

    path: str
    side: str
    reference: CellProgram
    candidate: CellProgram | None
    in_onnxruntime: bool
    changed: CellProgram | None = None

    def write(self, folder: Path, cell: CellReport) -> str:
        """Write a script that shows the failure, and all it needs, to an empty folder, and run it.

        Returns:
            That the search for a smaller case was cut; empty if it came to its end.

        Raises:
            ConversionError: there is no script that shows the failure; the message says why.
        """
        case, search = self._failing_case()
        runs_file = search.measure is in_onnxruntime
        if runs_file or (self.in_onnxruntime and _gap(case, in_onnxruntime).relative > 0):
            try:
                self._write_with_onnxruntime(folder, case, search, cell)
                return search.note
            except CellbridgeError:
                if runs_file:
                    raise
        self._write_with_torch(folder, case, search, cell)
        return search.note

    def _failing_case(self) -> tuple[Case, Search]:
        """Return the smallest case that was found, and the search.

        Raises:
            ConversionError: the candidate has no program, or no output and no gradient differs.
        """
        candidate = self.candidate or self.changed
        if candidate is None:
            raise ConversionError("the candidate can't be read as a program, and no cause was proved")
        for measure in (in_float64, *((in_onnxruntime,) if self.in_onnxruntime else ())):
            for case in cases(self.reference, candidate):
                gap = _gap(case, measure).relative
                if gap > LEAST_GAP:
                    search = Search(measure, max(LEAST_GAP, KEPT * min(gap, 1.0)), finite=bool(np.isfinite(gap)))
                    case = smaller(fewer_nodes(case, search), search).without_unused()
                    return case, search
        raise ConversionError("the programs of both sides compute the same when they are run alone")

    def _write_with_onnxruntime(self, folder: Path, case: Case, search: Search, cell: CellReport) -> None:
        """Write the reproduction whose candidate is run by ONNX Runtime."""
        case = in_float32(case)
        model = to_onnx(onnx_program(case))
        script = of_onnx(case, rounding_bar(case), [value.name for value in model.graph.input])
        (folder / MODEL).write_bytes(model.SerializeToString())
        self._finish(folder, case, script, search, cell, ("torch", "onnxruntime"))

    def _write_with_torch(self, folder: Path, case: Case, search: Search, cell: CellReport) -> None:
        """Write the reproduction whose candidate is run by torch."""
        bar = search.threshold * in_float64(case).scale
        self._finish(folder, case, of_programs(case, bar), search, cell, ("torch",))

    def _finish(
        self, folder: Path, case: Case, script: Script, search: Search, cell: CellReport, packages: tuple[str, ...]
    ) -> None:
        """Write the files, run the script, and write what it printed; remove all of them if it shows nothing.

        Raises:
            ConversionError: the script doesn't show the failure.
        """
        (folder / SCRIPT).write_text(script.text, encoding="utf-8")
        (folder / INPUTS).write_bytes(to_bytes(script.inputs))
        (folder / WEIGHTS).write_bytes(to_bytes(script.weights))
        try:
            printed = run_script(folder / SCRIPT)
        except ConversionError:
            for file in folder.iterdir():
                file.unlink()
            raise
        text = readme(case, script, cell, self.side, printed, packages, search.note, is_changed=self.candidate is None)
        (folder / README).write_text(text, encoding="utf-8")


def _gap(case: Case, measure: Measure) -> Gap:
    """Return the gap of a case; none if it can't be run."""
    try:
        return measure(case)
    except INVALID:
        return Gap(0.0, 1.0)
