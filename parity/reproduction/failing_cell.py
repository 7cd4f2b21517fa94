"""`FailingCell`: shrinks a failing Cell to a minimal reproduction, writes it, and runs it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ...converter.onnx_out.export import to_onnx
from ...runtime.errors import CellbridgeError, ConversionError
from ...runtime.storage.safetensors_bytes import to_bytes
from ..diagnosis.cell_program import CellProgram
from ..diagnosis.rebuilding import INVALID
from ..results.cell_report import CellReport
from .case import Case, cases
from .gaps import Gap, Measure, in_float32, in_float64, in_onnxruntime, onnx_program, rounding_bar
from .nodes import fewer_nodes
from .readme import README, readme
from .running import run_script
from .script import INPUTS, MODEL, SCRIPT, WEIGHTS, Script, of_onnx, of_programs
from .sizes import smaller

LEAST_GAP = 1e-9
"""Two programs differ if their results in float64 do by more than this, relative to the largest."""
KEPT = 1e-3
"""A smaller case must keep this part of the gap, so that it doesn't drift to mere rounding."""
SECONDS = 20.0
"""The longest search for a smaller case."""


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

    def write(self, folder: Path, cell: CellReport) -> None:
        """Write a script that shows the failure, and all it needs, to an empty folder, and run it.

        Raises:
            ConversionError: there is no script that shows the failure; the message says why.
        """
        case, measure, threshold = self._failing_case()
        runs_file = measure is in_onnxruntime or (self.in_onnxruntime and _gap(case, in_onnxruntime).relative > 0)
        if not runs_file:
            return self._write_with_torch(folder, case, threshold, cell)
        try:
            return self._write_with_onnxruntime(folder, case, cell)
        except CellbridgeError:
            if measure is in_onnxruntime:
                raise
            return self._write_with_torch(folder, case, threshold, cell)

    def _failing_case(self) -> tuple[Case, Measure, float]:
        """Return the smallest case found, by which measure it fails, and the relative gap from which on it does.

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
                    deadline = time.monotonic() + SECONDS
                    threshold = max(LEAST_GAP, KEPT * min(gap, 1.0))
                    fails = _finite(measure) if np.isfinite(gap) else measure
                    case = fewer_nodes(case, fails, threshold, deadline)
                    return smaller(case, fails, threshold, deadline).without_unused(), measure, threshold
        raise ConversionError("the programs of both sides compute the same when they are run alone")

    def _write_with_onnxruntime(self, folder: Path, case: Case, cell: CellReport) -> None:
        """Write the reproduction whose candidate is run by ONNX Runtime."""
        case = in_float32(case)
        model = to_onnx(onnx_program(case))
        script = of_onnx(case, rounding_bar(case), [value.name for value in model.graph.input])
        (folder / MODEL).write_bytes(model.SerializeToString())
        self._finish(folder, case, script, cell, ("torch", "onnxruntime"))

    def _write_with_torch(self, folder: Path, case: Case, threshold: float, cell: CellReport) -> None:
        """Write the reproduction whose candidate is run by torch."""
        bar = threshold * in_float64(case).scale
        self._finish(folder, case, of_programs(case, bar), cell, ("torch",))

    def _finish(self, folder: Path, case: Case, script: Script, cell: CellReport, packages: tuple[str, ...]) -> None:
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
        text = readme(case, script, cell, self.side, printed, packages, is_changed=self.candidate is None)
        (folder / README).write_text(text, encoding="utf-8")


def _finite(measure: Measure) -> Measure:
    """Return the measure for a case whose results have one shape: a smaller one of other shapes is another failure."""

    def measured(case: Case) -> Gap:
        found = measure(case)
        return found if np.isfinite(found.relative) else Gap(0.0, 1.0)

    return measured


def _gap(case: Case, measure: Measure) -> Gap:
    """Return the gap of a case; none if it can't be run."""
    try:
        return measure(case)
    except INVALID:
        return Gap(0.0, 1.0)
