"""Two torch modules, paired by the names of their Cells or, where a port has other names, by what they compute."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import torch

from ...converter.structure.program_names import named_modules
from ...runtime.errors import CellbridgeError
from ..options import Options
from ..pairing.modules.answers import common_answers
from ..pairing.modules.changed_inputs import compare_changed_inputs
from ..pairing.modules.prefixes import Prefixes
from ..report.report import Report
from ..sides.torch_side import TorchSide
from ..support.progress import Progress
from .by_values import ENOUGH, Candidate, by_names_note, compare_by_values
from .modules_by_name import compare_modules
from .onnx_files.module_and_file import CANDIDATE


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
                report.notes.append(by_names_note(error))
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
    side = TorchSide.of_options(CANDIDATE, candidate, args, kwargs, options)

    def at_results(computed: Collection[str]) -> TorchSide:
        names = [name for name, _ in candidate.named_parameters()]
        return replace(side, cell_paths=[""], lone=names, catches=True, computed=computed)

    report = compare_by_values(reference, Candidate(side, at_results), args, kwargs, options, progress, "reference")
    if report.ok:
        plain = TorchSide.of_options("reference", reference, args, kwargs, options)
        report.cells[""].comparisons += compare_changed_inputs(plain, side)
    return report
