"""Two torch modules, paired by the names of their Cells or, where a port has other names, by what they compute."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

import torch

from ...converter.structure.program_names import named_modules, named_parameters
from ...runtime.errors import CellbridgeError, UsageError
from ...runtime.ir.program import Program
from ..comparison.trial import Trial
from ..inputs.onnx_optionals import first_line
from ..modules.answers import common_answers
from ..modules.changed_inputs import compare_changed_inputs
from ..modules.compare import compare_modules
from ..modules.prefixes import Prefixes
from ..onnx_cells.compare import CANDIDATE, ModuleAndFile
from ..options import Options
from ..report.detail import pluralize
from ..report.report import Report
from ..results.comparison import Comparison
from ..sides.records import Array
from ..sides.run import ReferenceRun, Run
from ..sides.torch_side import TorchSide
from ..support.progress import Progress
from ..verdicts.deviations import error, size

ENOUGH = 0.5
"""The share of the reference's Cells with parameters that have a partner by name, from which names decide."""
SAME = 1e-6
"""How far gradients in float64, relative to their largest element, may be apart: captured code may round numbers."""
ROUNDING = 1e-12
"""The same, relative to the largest of all gradients: that of a key's bias is zero but for rounding."""
ALSO_COMPARED = f"{CANDIDATE} was also compared on"
END_TO_END = ("output", "input gradient", "call")


def compare_pair(
    reference: torch.nn.Module,
    candidate: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    options: Options,
    progress: Progress,
    cells: Mapping[str, str] | None = None,
    weights: Mapping[Any, Any] | None = None,
) -> Report:
    """Compare two torch modules; see `parity.compare`.

    Where the user says nothing of names, and names pair fewer than half of the Cells, the candidate's program is
    aligned with the reference by the values that it computes. The candidate itself, as it runs, is then compared at its
    results.
    """
    answers = common_answers(reference, candidate, args, kwargs, options)
    with contextlib.nullcontext() if answers is None else answers.applied(reference, candidate):
        pair = reference, candidate, args, kwargs, options, progress
        are_given = cells is not None or weights is not None
        if are_given or options.train or share_of_names(reference, candidate) >= ENOUGH:
            report = compare_modules(*pair, cells, weights)
        else:
            try:
                report = _by_values(*pair)
            except CellbridgeError as error:
                report = compare_modules(*pair)
                report.notes.append(f"Cells were paired by names, not by values: {first_line(error)}")
    if answers is not None:
        report.structure += answers.differences()
        report.conditions.remarks += [answers.coverage] if answers.coverage else []
    if options.grads:
        report.conditions.remarks += _coverage_of_parameters(reference, report)
    return report


def _coverage_of_parameters(reference: torch.nn.Module, report: Report) -> list[str]:
    """Return as a phrase of how many parameters the gradients were compared; nothing for all that are trained."""
    trained = {name for name, parameter in named_parameters(reference) if parameter.requires_grad}
    compared = {c.tensor for cell in report.cells.values() for c in cell.comparisons if c.kind == "parameter gradient"}
    if trained <= compared:
        return []
    return [f"with the gradients of {len(trained & compared)} of {pluralize(len(trained), 'parameter')}"]


def share_of_names(reference: torch.nn.Module, candidate: torch.nn.Module) -> float:
    """Return which share of the reference's Cells with parameters has a partner by name; 1 without any."""
    with Prefixes.between(reference, candidate).applied(candidate):
        own, other = (
            {path: {name for name, _ in inner.named_parameters(recurse=False)} for path, _, inner in named_modules(one)}
            for one in (reference, candidate)
        )
    with_parameters = [path for path, names in own.items() if names]
    paired = sum(bool(own[path] & other.get(path, set())) for path in with_parameters)
    return paired / len(with_parameters) if with_parameters else 1.0


def _by_values(
    reference: torch.nn.Module,
    candidate: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    options: Options,
    progress: Progress,
) -> Report:
    """Compare the candidate's program with the reference Cell by Cell, and the candidate itself at its results.

    Raises:
        CellbridgeError: the candidate can't be captured, its program has other gradients, or it doesn't run.
    """

    program = _program_of(candidate, args, kwargs, options)
    pair = ModuleAndFile(reference, program, options, progress, name="reference")
    alignment = pair.align_inputs(args, kwargs)
    report = pair.judge_alignment(alignment)
    computed = [name for name in _parameters(candidate) if alignment.side.is_computed(name)]
    one, other = (
        TorchSide.of_options(
            name, module, args, kwargs, options, cell_paths=[""], lone=_parameters(module), catches=name == CANDIDATE,
            computed=computed if name == CANDIDATE else (),
        )
        for name, module in (("reference", reference), (CANDIDATE, candidate))
    )  # fmt: skip
    trial = Trial(one, [other], options, progress, [one, other])
    found = [comparison for _, comparison in trial.judge(other)]
    of_itself = [c for c in found if c.feeding != "isolated" and c.kind in END_TO_END]
    root = report.cells[""]
    root.comparisons = [c for c in root.comparisons if not _is_end_to_end(c)] + of_itself
    if report.ok:
        root.comparisons += compare_changed_inputs(one, other)
    report.probes += [probe for probe in trial.report().probes if probe not in report.probes]
    report.probing_seconds += trial.probing_seconds
    report.notes = [note for note in report.notes if not note.startswith(ALSO_COMPARED)]  # those of the network itself
    report.notes += [note for note in trial.notes if note not in report.notes]
    return report


def _program_of(module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], options: Options) -> Program:
    """Return the program of the candidate on these inputs.

    Raises:
        CellbridgeError: it can't be captured, or its parameters have other gradients than the module's.
    """
    side = TorchSide.of_options(CANDIDATE, module, args, kwargs, options)
    interpreter = side.in_interpreter()
    if options.grads:
        own = side.run(Run("float64"))
        captured = interpreter.run(Run("float64", reference=ReferenceRun(cotangents=own.gradients.cotangents)))
        largest = max(map(size, own.gradients.parameters.values()), default=0.0)
        for name, gradient in own.gradients.parameters.items():
            if not _is_same(gradient, captured.gradients.parameters.get(name), largest):
                raise UsageError(f"the gradient of {name} in the {CANDIDATE} isn't that of its captured program")
    return interpreter.program


def _is_same(gradient: Array | None, other: Array | None, largest: float) -> bool:
    rounding = ROUNDING * largest
    if gradient is None or other is None or gradient.shape != other.shape:
        return max(size(gradient), size(other)) <= rounding
    return error(other, gradient)[0] <= SAME * size(gradient) + rounding


def _parameters(module: torch.nn.Module) -> list[str]:
    return [name for name, _ in module.named_parameters()]


def _is_end_to_end(comparison: Comparison) -> bool:
    return comparison.feeding == "end to end" and comparison.kind in END_TO_END
