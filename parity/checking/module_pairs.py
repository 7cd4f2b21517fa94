"""Two torch modules, paired by the names of their Cells or, where a port has other names, by what they compute."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch

from ...converter.structure.program_names import named_modules
from ...runtime.errors import CellbridgeError
from ..comparison.trial import Trial
from ..inputs.onnx_optionals import first_line
from ..modules.answers import common_answers
from ..modules.compare import compare_modules
from ..modules.prefixes import Prefixes
from ..onnx_cells.compare import CANDIDATE, ModuleAndFile
from ..options import Options
from ..report.report import Report
from ..results.comparison import Comparison
from ..sides.torch_side import TorchSide
from ..support.progress import Progress

ENOUGH = 0.5
"""The share of the reference's Cells with parameters that have a partner by name, from which names decide."""
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
        why_not = "cells= or weights= is given" if cells is not None or weights is not None else ""
        if why_not or options.train or share_of_names(reference, candidate) >= ENOUGH:
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
    return report


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
        CellbridgeError: the candidate can't be captured, or runs on no such inputs.
    """
    whole = [
        TorchSide.of_options(
            name, module, args, kwargs, options, cell_paths=[""], lone=_parameters(module), catches=name == CANDIDATE
        )
        for name, module in (("reference", reference), (CANDIDATE, candidate))
    ]
    program = whole[1].in_interpreter().program
    by_program = replace(options, probe=False)  # the candidate itself is probed, at other sizes too
    report = ModuleAndFile(reference, program, by_program, progress, name="reference").judge_inputs(args, kwargs)
    trial = Trial(whole[0], whole[1:], options, progress, whole)
    found = [comparison for _, comparison in trial.judge(whole[1])]
    of_itself = [c for c in found if c.feeding != "isolated" and c.kind in END_TO_END]
    root = report.cells[""]
    root.comparisons = [c for c in root.comparisons if not _is_end_to_end(c)] + of_itself
    report.probes, report.probing_seconds = trial.report().probes, trial.probing_seconds
    report.conditions = replace(report.conditions, options=options)
    report.notes += [note for note in trial.notes if note not in report.notes]
    return report


def _parameters(module: torch.nn.Module) -> list[str]:
    return [name for name, _ in module.named_parameters()]


def _is_end_to_end(comparison: Comparison) -> bool:
    return comparison.feeding == "end to end" and comparison.kind in END_TO_END
