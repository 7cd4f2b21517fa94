"""Judging on several inputs: the conversions of a network, or its counterpart, are judged on each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ...converter.capture.containers import open_containers
from ...runtime.errors import CellbridgeError, UsageError
from ..options import Options
from ..report.report import Report
from ..support.progress import Progress

Arguments = tuple[tuple[Any, ...], dict[str, Any]]
JudgeInput = Callable[[tuple[Any, ...], dict[str, Any]], Report]


def judge_all_inputs(
    first: Arguments, more_inputs: Iterable[Arguments], judge: JudgeInput, options: Options, progress: Progress
) -> Report:
    """Return the report on the first input, joined with those on the others, which are read one at a time.

    Raises:
        UsageError: one of the other inputs can't be judged.
    """
    report = judge(*first)
    for number, arguments in enumerate(more_inputs, 2):
        if options.fail_fast and report.failed:
            break
        progress.stage(f"input {number}", None)
        open_containers(arguments)
        try:
            report.join_input(judge(*arguments))
        except CellbridgeError as error:
            raise UsageError(f"input number {number} of the model can't be judged: {error}") from error
    return report
