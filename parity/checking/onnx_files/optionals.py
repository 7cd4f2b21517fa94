"""ONNX files with optional inputs, which are also judged without each of them."""

from __future__ import annotations

import functools
from collections.abc import Callable

from ....converter.onnx_in.inputs import Shapes
from ....runtime.compiled.isolated import IsolatedSession
from ....runtime.errors import CellbridgeError
from ...inputs.onnx_inputs import DeclaredInputs, read_declared_inputs, runnable_inputs, session_inputs
from ...report.report import Report
from ...support.messages import first_line
from ..other_sizes import judge_where_reference_runs


def judge_without_optionals(
    report: Report,
    reference: str,
    candidate: str,
    declared: DeclaredInputs,
    shapes: Shapes,
    judge: Callable[[Shapes], Report],
) -> None:
    """Judge again without each given optional input that the reference runs without; add the results to the report.

    Args:
        report: the report on the file with all optionals.
        reference: the reference file.
        candidate: the other file.
        declared: the inputs of the reference.
        shapes: the requested shapes.
        judge: creates the report for other shapes.
    """
    for name, declaration in declared.inputs.items():
        if not declaration.is_optional or declaration.tensors is None or name in shapes:
            continue
        others = {key: shape for key, shape in shapes.items() if key not in declaration.tensors}
        shapes_without, label = {**others, name: None}, f"{name}=none"
        try:
            without = read_declared_inputs(reference, shapes_without)
            arrays = next(runnable_inputs(reference, without, None, 0))
            IsolatedSession(reference).run(session_inputs(without, arrays))
        except CellbridgeError as error:
            report.notes.append(f"not compared at {label}, where {reference} doesn't run: {first_line(error)}")
            continue
        judge_where_reference_runs(report, label, functools.partial(judge, shapes_without), (reference, candidate))
