"""cellbridge, as a user calls it: `parity.compare`, `parity compare` on two files, `parity.compare_training`."""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from cellbridge import parity
from cellbridge.parity.checking.onnx_files.compare import compare_onnx
from cellbridge.runtime.errors import CellbridgeError
from fixtures.planted_faults.pairs import Pair

from .finding import Finding

MAX_SAID = 400


def judge(pair: Pair) -> Finding:
    """Compare as a user would, with no option but the mode of the network."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            report = report_of(pair)
    except CellbridgeError as error:
        return Finding(False, error=f"usage error: {error}"[:MAX_SAID])
    if pair.scripts is not None:
        return _of_training(report)
    return finding_of(report)


def finding_of(report: Any) -> Finding:
    """Return what a report on a network says."""
    failing = list(report.failing) if not report.ok else []
    cells = {path: report.cells[path] for path in failing}
    return Finding(
        not report.ok,
        frozenset(failing),
        {path: list(getattr(cell, "causes", [])) for path, cell in cells.items()},
        {path: list(cell.explanations) for path, cell in cells.items()},
        said=_worst(report) if not report.ok else "",
    )


def report_of(pair: Pair) -> Any:
    """Return the report on a pair."""
    if pair.scripts is not None:
        return parity.compare_training(pair.reference, pair.candidate, *pair.scripts, pair.data)
    if pair.command is not None:
        return pair.command()
    if isinstance(pair.reference, str):
        with tempfile.TemporaryDirectory() as folder:
            inputs = Path(folder) / "inputs.npz"
            names = [value.name for value in onnx.load(pair.reference).graph.input]
            np.savez(inputs, **dict(zip(names, map(np.asarray, pair.args), strict=True)))
            return compare_onnx(pair.reference, pair.candidate, inputs=str(inputs))
    probe = pair.options.get("probe", False)
    return parity.compare(pair.reference, pair.candidate, pair.args, train=pair.train, probe=probe)


def _of_training(report: Any) -> Finding:
    first = list(dict.fromkeys(c.tensor for c in report.first))
    named = {problem.partition(":")[0] for problem in report.problems if problem.endswith(" in torch")}
    texts = [*report.problems, *(cause.summary for cause in report.causes), *report.explanations]
    message = "; ".join([f"step {report.differing}: {', '.join(first[:3])}", *texts])
    return Finding(
        not report.ok,
        frozenset([*first, *named]) - {"loss"},
        {"": list(report.causes)},
        {"": texts},
        said=message[:MAX_SAID] if not report.ok else "",
    )


def _worst(report: Any) -> str:
    """The worst comparison of up to four failing Cells, in a line."""
    parts = []
    for path in report.failing[:4]:
        failures = report.cells[path].failures
        worst = max(failures, key=lambda c: c.severity)
        parts.append(
            f"{path or '(root)'}: {worst.kind} {worst.tensor}, {worst.check} {worst.feeding}, "
            f"{worst.reason or 'differs'} (error {worst.error:.2g}, {worst.ratio:.2g}x, allowed {worst.allowed:.2g})"
        )
    return "; ".join(parts)[:MAX_SAID]
