"""A network whose program is aligned with a module by the values that it computes, and that is compared itself, too."""

from __future__ import annotations

import gc
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import torch

from ...converter.structure.program_names import named_modules
from ...runtime.errors import CellbridgeError, UnsupportedOperators, UsageError
from ...runtime.ir.program import Program
from ..judging.trial import Trial
from ..options import Options
from ..report.globs import list_names
from ..report.report import Report
from ..results.comparison import PASS, Comparison
from ..sides.abilities import HasProgram
from ..sides.records import Array
from ..sides.rounded_numbers import unmatched_buffers
from ..sides.run import ReferenceRun, Run, Wanted
from ..sides.side import Side
from ..sides.torch_side import TorchSide
from ..support.messages import first_line
from ..support.process import give_back_freed_memory
from ..verdicts.deviations import error, size
from .onnx_files.module_and_file import ModuleAndFile
from .plan import Plan

ENOUGH = 0.5
"""The share of the reference's Cells with parameters that have a partner by name, from which names decide."""
SAME = 1e-6
"""How far gradients in float64, relative to their largest element, may be apart: captured code may round numbers."""
ROUNDING = 1e-12
"""The same, relative to the largest of all gradients: that of a key's bias is zero but for rounding."""
END_TO_END = ("output", "input gradient", "call")


class SideWithProgram(Side, HasProgram, Protocol):
    """A network that can be run as it is and as a program."""


@dataclass(frozen=True)
class Candidate:
    """A network to be aligned by values.

    Attributes:
        side: the network, with its own parameters under the names that they have in its program.
        at_results: returns the network as a side that is recorded at its results alone, without parameters. It is given
            the names of the parameters that were computed from the reference's, and rounded.
        is_probed: whether the network itself is run on further inputs, too; not if no numbers lead it to other code
            than its program has.
    """

    side: SideWithProgram
    at_results: Callable[[Collection[str]], Side]
    is_probed: bool = True


@dataclass(frozen=True)
class _Results:
    """What was found out about the results of a candidate itself.

    Attributes:
        comparisons: the comparisons of the results.
        probes: names of the further inputs.
        notes: remarks for the reader of the report.
        probing_seconds: the seconds that further inputs took.
    """

    comparisons: list[Comparison]
    probes: list[str]
    notes: list[str]
    probing_seconds: float


def compare_by_values(plan: Plan, candidate: Candidate, name: str = "torch") -> Report:
    """Compare a candidate's program with a module Cell by Cell, and the candidate itself at its results.

    Args:
        plan: what is compared.
        candidate: its candidate, as sides.
        name: what the reference is called in the report.

    Raises:
        CellbridgeError: the candidate can't be captured, its program has other gradients, or it doesn't run.
    """
    side, module, options = candidate.side, plan.reference, plan.options
    program = _captured(side, options)
    names = [name for name, _ in module.named_parameters()]
    rounded = unmatched_buffers(module, program.constant_data.values())
    reference = plan.reference_side(name, cell_paths=[""], lone=names, rounded=rounded)
    pair = ModuleAndFile(module, program, options, plan.progress, name, side.name, side.capabilities.is_port)
    return _judge(pair, reference, candidate)


def _judge(pair: ModuleAndFile, reference: TorchSide, candidate: Candidate) -> Report:
    """Compare the candidate itself with the reference at the results, and its program Cell by Cell.

    On further inputs, outputs are those of the candidate itself, whose code may take another way there, and gradients
    those of its program. Only what fails there is looked for in the program, too.
    """
    alignment = pair.align_inputs(reference.args, dict(reference.kwargs))
    computed = [name for name in candidate.side.parameters() if alignment.side.is_computed(name)]
    results = _judge_results(pair, reference, candidate.at_results(computed), is_probed=candidate.is_probed)
    gc.collect()  # circles hold records
    give_back_freed_memory()
    passes = all(c.status == PASS for c in results.comparisons)
    report = pair.judge_alignment(alignment, on_probes="gradients" if passes and candidate.is_probed else "all")
    root = report.cells[""]
    root.comparisons = [c for c in root.comparisons if not _is_end_to_end(c)] + results.comparisons
    report.probes = [*results.probes, *(probe for probe in report.probes if probe not in results.probes)]
    report.probing_seconds += results.probing_seconds
    also_compared = f"{candidate.side.name} was also compared on"
    if any(note.startswith(also_compared) for note in results.notes):
        report.notes = [note for note in report.notes if not note.startswith(also_compared)]
    report.notes += [note for note in results.notes if note not in report.notes]
    return report


def _judge_results(pair: ModuleAndFile, reference: TorchSide, itself: Side, *, is_probed: bool) -> _Results:
    """Compare the candidate itself with the reference at the results."""
    options = replace(pair.options, probe=pair.options.probe and is_probed)
    trial = Trial(reference, [itself], options, pair.progress, [reference, itself], on_probes="outputs")
    found = [c for _, c in trial.judge(itself, ["end to end"]) if c.feeding != "isolated" and c.kind in END_TO_END]
    return _Results(found, trial.report().probes, trial.notes, trial.probing_seconds)


def share_of_cells(module: torch.nn.Module, is_paired: Callable[[str, Sequence[str]], bool]) -> float:
    """Return which share of a module's Cells with parameters is paired; 1 without any.

    Args:
        module: the module.
        is_paired: whether the Cell at a path is, which holds the parameters of these names.
    """
    own = {path: [name for name, _ in inner.named_parameters(path, False)] for path, _, inner in named_modules(module)}
    paired = [is_paired(path, names) for path, names in own.items() if names]
    return sum(paired) / len(paired) if paired else 1.0


def by_names_note(error: CellbridgeError) -> str:
    """Return a note on why Cells were paired by names, though few names are the same."""
    reason = first_line(error)
    if isinstance(error, UnsupportedOperators):
        reason += f" ({list_names(list(dict.fromkeys(name for name, _, _ in error.operators)))})"
    return f"Cells were paired by names, not by values: {reason}"


def _captured(side: SideWithProgram, options: Options) -> Program:
    """Return the program of a network.

    Raises:
        CellbridgeError: it can't be captured, or its parameters have other gradients than the network's.
    """
    interpreter, wanted = side.in_interpreter(), Wanted(options.grads, inner=False)
    captured = interpreter.run(Run("float64", wanted))
    cotangents = captured.gradients.cotangents if options.grads else None
    own = side.run(Run("float64", wanted, ReferenceRun.of(captured, cotangents)))
    largest = max(map(size, own.gradients.parameters.values()), default=0.0)
    for name, gradient in own.gradients.parameters.items():
        if not _is_same(gradient, captured.gradients.parameters.get(name), largest):
            raise UsageError(f"the gradient of {name} in the {side.name} isn't that of its captured program")
    return interpreter.program


def _is_same(gradient: Array | None, other: Array | None, largest: float) -> bool:
    rounding = ROUNDING * largest
    if gradient is None or other is None or gradient.shape != other.shape:
        return max(size(gradient), size(other)) <= rounding
    return error(other, gradient)[0] <= SAME * size(gradient) + rounding


def _is_end_to_end(comparison: Comparison) -> bool:
    return comparison.feeding == "end to end" and comparison.kind in END_TO_END
