"""Comparing a pair as a user would, without a map, and judging what is said of it."""

from __future__ import annotations

import re
import time
import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from torch import nn

from cellbridge import parity
from cellbridge.runtime.errors import CellbridgeError
from fixtures.planted_faults.cases import SOUND, Case
from fixtures.planted_faults.pairs import Pair
from fixtures.planted_faults.port_edits import PortFault

from ..faults.judge import judge
from ..faults.tools.cellbridge_tool import MAX_SAID, finding_of
from ..faults.tools.finding import Finding
from .planted import ALSO_RIGHT, FAULTS
from .twin import Twin, twins

CODE, WEIGHTS = "code", "weights"
PARTS = (SOUND, CODE, WEIGHTS)
MAX_CAUSES = 2
FOLDERS = re.compile(r"(?:/[\w.+-]+)+/(?=[\w.+-]+\.py\b)")
"""Those before a file, which another machine has elsewhere."""


def faults_of(twin: Twin) -> dict[str, PortFault]:
    """Return the two faults by where they are."""
    return dict(zip((CODE, WEIGHTS), FAULTS[twin.name], strict=True))


def measure(name: str, part: str) -> dict[str, Any]:
    """Compare a sound pair, or one with one of its faults; return JSON values, which only `seconds` and `said` vary."""
    twin = twins()[name]
    fault = None if part == SOUND else faults_of(twin)[part]
    reference = twin.reference()
    candidate = twin.candidate(reference, () if fault is None else [fault])
    start = time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            report = parity.compare(reference, candidate, twin.arguments())
    except CellbridgeError as error:
        report, finding = None, Finding(False, error=f"usage error: {error}"[:MAX_SAID])
    else:
        finding = finding_of(report)
    return _row(twin, part, finding, report, time.process_time() - start)


def crashed(name: str, part: str, error: BaseException) -> dict[str, Any]:
    """Return what `measure` returns where the comparison ends with an exception that no user should see."""
    return _row(twins()[name], part, Finding(False, error=f"crash: {error!r}"[:MAX_SAID]), None, 0.0)


def _row(twin: Twin, part: str, finding: Finding, report: Any, seconds: float) -> dict[str, Any]:
    fault = None if part == SOUND else faults_of(twin)[part]
    row = judged(_case(twin, part, fault), finding)
    if fault is not None and (other := ALSO_RIGHT.get((twin.name, fault.label))):
        cells = tuple("" if path == "." else path for path in other.split())
        also = judged(replace(_case(twin, part, fault), cells=cells), finding)
        row = also if also["placed"] else row
    if fault is None:
        row |= coverage(twin.reference(), report)
    return {**row, "seconds": round(seconds, 1)}


def _case(twin: Twin, part: str, fault: PortFault | None) -> Case:
    kind = SOUND if fault is None else part
    cells, cause, words = ((), "", ()) if fault is None else (fault.cells, fault.cause, fault.words)
    expected = () if fault is None else (fault.expected,)
    return Case(twin.name, twin.family, kind, cells, cause, expected, words, lambda: Pair(None, None))


def judged(case: Case, finding: Finding) -> dict[str, Any]:
    """Return the verdict on what was said of a case, as JSON values."""
    verdict = judge(case, finding)
    texts_by_cell = {
        path: [FOLDERS.sub("", cause.summary) for cause in causes][:MAX_CAUSES]
        for path, causes in finding.causes.items()
    }
    common = {
        "accused": sorted(finding.accused or ()),
        "causes": texts_by_cell,
        "error": finding.error,
        "said": finding.said,
    }
    if not case.is_fault:
        return {"holds": not finding.found and not finding.error, "innocent": verdict.innocent, **common}
    return {
        "found": verdict.found,
        "placed": bool(verdict.placed),
        "cause": bool(verdict.cause and verdict.found),
        "innocent": verdict.innocent,
        "cells": list(case.cells),
        **common,
    }


def coverage(reference: nn.Module, report: Any) -> dict[str, list[int]]:
    """Return of how many Cells with parameters and of how many parameters outputs and gradients were compared.

    Cells that don't run don't count. A Cell was compared if one of its outputs was, with any verdict; a parameter that
    is used twice counts once.
    """
    cells: Mapping[str, Any] = {} if report is None else report.cells
    with_parameters = {
        path for path, module in reference.named_modules() if any(True for _ in module.parameters(False))
    }
    absent = {path for path in with_parameters if path in cells and cells[path].presence in ("not reached", "inlined")}
    outputs = {path for path, cell in cells.items() if any(c.kind == "output" for c in cell.comparisons)}
    gradients = {
        c.tensor
        for cell in cells.values()
        for c in cell.comparisons
        if c.kind == "parameter gradient" and c.status != "not compared"
    }
    names: dict[int, set[str]] = {}
    for name, parameter in reference.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), set()).add(name)
    expected = with_parameters - absent
    return {
        "cells_paired": [len(expected & outputs), len(expected)],
        "gradients_compared": [sum(bool(all_names & gradients) for all_names in names.values()), len(names)],
    }
