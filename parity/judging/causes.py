"""Adds the proved causes of failures to a report."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from ...runtime.errors import CellbridgeError
from ..causes.budget import Budget, BudgetSpentError
from ..causes.cell_graphs import cell_graph
from ..causes.cell_program import Network, TensorKey
from ..causes.diagnose import Diagnosis
from ..causes.evidence import Evidence
from ..causes.reproduction.failing_cell import FailingCell
from ..causes.settings import in_words_of_settings, with_fixes
from ..options import Options
from ..report.report import Report
from ..results.cause import Cause
from ..results.cell_graph import CellGraph
from ..results.cell_report import NOT_FOUND
from ..results.comparison import FAIL, Comparison
from ..results.hunk import NOWHERE
from ..sides.abilities import HasProgram, HasSettings, ReadFromFile, settings_of
from ..sides.imported import is_imported
from ..sides.records import Key, Records
from ..sides.run import Run
from ..sides.side import Side
from ..support.progress import Progress
from ..verdicts.deviations import size
from ..verdicts.judge import MEANING_NOISE, ROUNDING_FACTOR, epsilon
from .diagnoses import Diagnoses
from .networks import network_of
from .noise import Noise
from .setting_causes import agreement_with, causes_of_settings
from .wrong_side import find_wrong_side


@contextmanager
def search(report: Report, options: Options, truth: Records, progress: Progress) -> Iterator[Budget]:
    """Within the context, causes are looked for with a budget; what ended the search is noted in the report.

    Args:
        report: the report.
        options: `diagnose_seconds` is the longest search.
        truth: the reference's records, which say how much a run computes.
        progress: receives the stage.
    """
    budget = Budget.of(options.diagnose_seconds, truth)
    progress.stage("causes", None)
    yield budget
    report.notes += [budget.note] if budget.note else []


def add_causes(
    report: Report,
    reference: Side,
    side: Side,
    truth: Records,
    records: Records,
    noise: Noise,
    budget: Budget,
    *,
    grads: bool,
    check: str = "meaning",
    feeding: str = "isolated",
) -> None:
    """Look for the causes of the Cells in which a side fails, isolated and in float64.

    Args:
        report: the report, whose failing Cells get their `causes`.
        reference: the reference.
        side: the side that fails.
        truth: the reference's records in float64.
        records: the side's records of an isolated run in float64; of one in the working dtype if that is checked.
        noise: the reference's rounding error in isolated runs.
        budget: what may be computed.
        grads: whether the runs have gradients.
        check: "meaning"; or "rounding", for a side that was recorded in the working dtype alone.
        feeding: that of the comparisons that judge a Cell itself.
    """
    shows = partial(_shows_cause, side=side, check=check, feeding=feeding)
    paths = [p for p, cell in report.cells.items() if any(map(shows, cell.comparisons))]
    paths = [path for path in paths if path not in records.faults.raising]
    if not paths or not isinstance(reference, HasProgram):
        return
    run = replace(noise.run, dtype="float64").want(grads=grads)
    candidate_parameters, reference_parameters = (
        {name: info.data.astype(np.float64) for name, info in s.parameters().items()} for s in (side, reference)
    )
    evidence = Evidence(
        truth,
        records,
        partial(_error_that_passes, noise, truth) if check == "rounding" else lambda key: noise.error(key, "meaning"),
        noise.run.dtype,
        run.wanted.grads and not records.faults.broken,
        candidate_parameters,
        reference_parameters,
        end_to_end=feeding != "isolated",
        budget=budget,
        excused=records.boundaries.excused,
    )
    budget.cells = len(paths)
    diagnoses = Diagnoses(evidence, (reference, side), run)
    report.notes += diagnoses.notes
    as_file = _AsFile(side, run, evidence, diagnoses.candidate)
    in_gradients = [path for path in paths if _only_gradients(filter(shows, report.cells[path].comparisons))]
    if in_gradients and grads and diagnoses.whole is not None and not side.capabilities.calls.recorded:
        find_wrong_side(report, (reference, truth), (side, records), in_gradients, run, diagnoses.whole)
    for budget.cell, path in enumerate(paths, 1):
        cell = report.cells[path]
        if cell.is_reference_wrong:
            continue
        # a port's class has other names for its arguments: the differences of the APIs say what to write
        class_name = "" if cell.counterpart else cell.class_name
        settings = settings_of(reference, path), settings_of(side, path)
        index = min(c.call for c in cell.comparisons if shows(c))
        diagnosis = diagnoses.of(path, index)
        if diagnosis is None:
            continue
        causes, graph = diagnosis.causes(path, class_name), diagnosis.graph(path)
        if len(causes) != 1 and (in_file := as_file.causes(path, causes)):
            causes, graph = in_file
        if class_name:
            causes = with_fixes(causes, settings[0])
        if isinstance(reference, HasSettings):
            with suppress(BudgetSpentError):
                causes = causes or causes_of_settings(path, reference, settings[1], evidence, run)
                explains = partial(_explains, path, reference, settings[1], evidence, run)
                causes = in_words_of_settings(causes, *settings, explains)
        cell.hunk = diagnosis.hunks.get(path, NOWHERE)
        cell.causes += [replace(cause, hunk=cause.hunk.filled_from(cell.hunk)) for cause in causes]
        if not causes and path in diagnosis.exchanged:
            cell.explanations.append(NOT_FOUND)
        cell.add_graph(graph)
        if path in diagnosis.failing:
            number, program = diagnosis.failing[path]
            candidate_program = diagnosis.candidate_call(number)
            of_file = diagnosis.candidate is not None and is_imported(diagnosis.candidate.program)
            changed = None if candidate_program is not None else diagnosis.changed.get(path)
            report.reproducible.append(FailingCell(path, side.name, program, candidate_program, of_file, changed))


def _explains(
    path: str, reference: HasSettings, candidate: Mapping[str, Any], evidence: Evidence, run: Run, name: str
) -> bool:
    """Whether the reference's module computes what the candidate does with one of the candidate's attributes."""
    return agreement_with(path, reference, {name: candidate[name]}, evidence, run).holds


@dataclass
class _AsFile:
    """Looks for causes with the reference as it is in an ONNX file, if the side is one.

    An exporter writes a Cell in other operators, and folds one into another. Where a fault can't be told from that, it
    can be between two files.
    """

    side: Side
    run: Run
    evidence: Evidence
    candidate: Network | None

    @cached_property
    def diagnosis(self) -> Diagnosis | None:
        """The search between two files; None if the reference can't be written to one."""
        if not isinstance(self.side, ReadFromFile) or self.side.reference_in_a_file is None or self.candidate is None:
            return None
        try:
            network = Network.of(self.side.reference_in_a_file(), self.run)
        except CellbridgeError:  # the causes stay as they are
            return None
        return Diagnosis(self.evidence, network, self.candidate)

    def causes(self, path: str, known: list[Cause]) -> tuple[list[Cause], CellGraph | None] | None:
        """Return fewer causes of a Cell than are known, and its graph; None if there are none."""
        if self.diagnosis is None:
            return None
        causes = self.diagnosis.causes(path, "")
        return (causes, self.diagnosis.graph(path)) if causes and (not known or len(causes) < len(known)) else None


def add_roundings(report: Report, reference: Side, side: Side, noise: Noise) -> None:
    """Keep the Cells in which ONNX Runtime isn't precise enough, isolated, to draw and to reproduce them.

    Args:
        report: the report.
        reference: the reference.
        side: the side that ONNX Runtime runs.
        noise: the reference's rounding error in isolated runs.
    """
    known = {failing_cell.path for failing_cell in report.reproducible}
    failing = {
        p for p, cell in report.cells.items() if p not in known and any(_is_rounding(c, side) for c in cell.failures)
    }
    if not failing or not isinstance(reference, HasProgram):
        return
    try:
        network = network_of(reference, replace(noise.run, dtype="float64").want(grads=False))
        for path in sorted(failing):
            for number in network.calls_of(path)[:1]:
                program = network.cut(number)
                report.cells[path].add_graph(cell_graph(program))
                report.reproducible.append(FailingCell(path, side.name, program, program, in_onnxruntime=True))
    except CellbridgeError:  # nothing is kept, and a reproduction that is asked for is missing with the reason
        return


def _is_rounding(c: Comparison, side: Side) -> bool:
    return (c.side, c.status, c.check, c.feeding) == (side.name, FAIL, "rounding", "isolated")


def _shows_cause(c: Comparison, side: Side, check: str, feeding: str) -> bool:
    return (c.side, c.status, c.check, c.feeding) == (side.name, FAIL, check, feeding)


def _only_gradients(comparisons: Iterable[Comparison]) -> bool:
    return all(c.kind.endswith("gradient") for c in comparisons)


def _error_that_passes(noise: Noise, truth: Records, key: TensorKey) -> float:
    """Return the error, for the bar of meaning, by which that is as high as the bar of rounding."""
    value = truth.values.get(key) if isinstance(key, Key) else truth.gradients.parameters.get(key[1])
    unit = max(noise.error(key), 0.0 if value is None else epsilon(noise.run.dtype) * size(value))
    return unit * ROUNDING_FACTOR / MEANING_NOISE * epsilon(noise.run.dtype) / epsilon("float64")
