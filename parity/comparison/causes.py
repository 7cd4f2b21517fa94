"""Adds the proved causes of failures to a report."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ...runtime.errors import CellbridgeError
from ..diagnosis.diagnose import Diagnosis
from ..diagnosis.evidence import Evidence
from ..diagnosis.settings import in_words_of_settings
from ..report.report import Report
from ..reproduction.failing_cell import FailingCell
from ..results.comparison import FAIL, Comparison
from ..sides.exported_side import ExportedSide
from ..sides.imported import is_imported
from ..sides.records import Records, Side
from .networks import HasProgram, network_of
from .noise import Noise
from .wrong_side import find_wrong_side

LEAST_SECONDS = 10.0
"""The search for causes may take as long as the run that found the failures, and at least this long."""


def add_causes(
    report: Report,
    reference: Side,
    side: Side,
    truth: Records,
    records: Records,
    noise: Noise,
    seconds: float,
    *,
    grads: bool,
) -> None:
    """Look for the causes of the Cells in which a side fails, isolated and in float64.

    Args:
        report: the report, whose failing Cells get their `causes`.
        reference: the reference.
        side: the side that fails.
        truth: the reference's records in float64.
        records: the side's records of an isolated run in float64.
        noise: the reference's rounding error in isolated runs.
        seconds: the longest search.
        grads: whether the runs have gradients.
    """
    paths = [path for path, cell in report.cells.items() if any(_shows_cause(c, side) for c in cell.comparisons)]
    paths = [path for path in paths if path not in records.raising_cells]
    if not paths or not isinstance(reference, HasProgram):
        return
    run = replace(noise.run, dtype="float64", grads=grads)
    try:
        network = network_of(reference, run)
    except CellbridgeError as error:
        report.notes.append(f"causes were not looked for: {error}".partition("\n")[0])
        return
    candidate = None
    if isinstance(side, HasProgram):
        try:
            candidate = network_of(side, run)
        except CellbridgeError as error:
            reason = f"{error}".partition("\n")[0]
            report.notes.append(
                f"{side.name} can't be read as a program, so causes were looked for among common mistakes: {reason}"
            )
    evidence = Evidence(
        truth,
        records,
        lambda key: noise.error(key, "meaning"),
        noise.run.dtype,
        run.grads and not records.broken,
        *({name: info.data.astype(np.float64) for name, info in s.parameters().items()} for s in (side, reference)),
    )
    diagnosis = Diagnosis(evidence, network, candidate, time.monotonic() + seconds)
    in_gradients = [path for path in paths if _only_gradients(report.cells[path].comparisons, side)]
    if in_gradients and grads:
        find_wrong_side(report, (reference, truth), (side, records), in_gradients, run, diagnosis)
    for path in paths:
        cell = report.cells[path]
        if cell.is_reference_wrong:
            continue
        # a port's class has other names for its arguments: the differences of the APIs say what to write
        class_name = "" if cell.counterpart else cell.class_name
        settings = (reference.settings(path), side.settings(path) if isinstance(side, HasProgram) else {})
        cell.causes += in_words_of_settings(diagnosis.causes(path, class_name), path, *settings)
        cell.add_graph(diagnosis.graph(path))
        if path in diagnosis.failing:
            number, program = diagnosis.failing[path]
            theirs = diagnosis.candidate_call(number)
            of_file = candidate is not None and is_imported(candidate.program)
            changed = None if theirs is not None else diagnosis.changed.get(path)
            report.reproducible.append(FailingCell(path, side.name, program, theirs, of_file, changed))


def add_roundings(report: Report, reference: Side, side: ExportedSide, noise: Noise) -> None:
    """Keep the Cells in which ONNX Runtime isn't precise enough, isolated, so that they can be reproduced.

    Args:
        report: the report.
        reference: the reference.
        side: the side that ONNX Runtime runs.
        noise: the reference's rounding error in isolated runs.
    """
    known = {one.path for one in report.reproducible}
    failing = {
        p for p, cell in report.cells.items() if p not in known and any(_is_rounding(c, side) for c in cell.failures)
    }
    if not failing or not isinstance(reference, HasProgram):
        return
    try:
        network = network_of(reference, replace(noise.run, dtype="float64", grads=False))
        for path in sorted(failing):
            for number in network.calls_of(path)[:1]:
                program = network.cut(number)
                report.reproducible.append(FailingCell(path, side.name, program, program, in_onnxruntime=True))
    except CellbridgeError:  # nothing is kept, and a reproduction that is asked for is missing with the reason
        return


def _is_rounding(c: Comparison, side: Side) -> bool:
    return (c.side, c.status, c.check, c.feeding) == (side.name, FAIL, "rounding", "isolated")


def _shows_cause(c: Comparison, side: Side) -> bool:
    return (c.side, c.status, c.check, c.feeding) == (side.name, FAIL, "meaning", "isolated")


def _only_gradients(comparisons: Sequence[Comparison], side: Side) -> bool:
    return all(c.kind.endswith("gradient") for c in comparisons if _shows_cause(c, side))
