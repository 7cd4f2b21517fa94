"""Several inputs of one network: what was made of it, or stands beside it, is judged on each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ...converter.capture.containers import open_containers
from ...runtime.errors import CellbridgeError, UsageError
from ..options import Options
from ..report.report import Report
from ..support.progress import Progress

Arguments = tuple[tuple[Any, ...], dict[str, Any]]
JudgedOn = Callable[[tuple[Any, ...], dict[str, Any]], Report]


def judged_over_all(
    first: Arguments, more_inputs: Iterable[Arguments], judged_on: JudgedOn, options: Options, progress: Progress
) -> Report:
    """The report on the first inputs, joined by those on the others, which are taken one after the other.

    Raises:
        UsageError: one of the others can't be judged; it says which.
    """
    report = judged_on(*first)
    for number, arguments in enumerate(more_inputs, 2):
        if options.fail_fast and not report.ok:
            break
        progress.stage(f"input {number}", None)
        open_containers(arguments)
        try:
            report.join_input(judged_on(*arguments))
        except CellbridgeError as error:
            raise UsageError(f"input number {number} of the model can't be judged: {error}") from error
    return report
