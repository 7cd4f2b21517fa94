"""`assert_parity`: parity as an assertion, for tests."""

from __future__ import annotations

import warnings
from typing import Any

from .results import Report


class UnpairedWarning(UserWarning):
    """Parity holds, and some modules or Cells were not compared one by one."""


def assert_parity(reference: Any, candidate: Any, args: Any, kwargs: Any = None, **options: Any) -> Report:
    """Compare two sides and fail the test unless they are the same network.

    Args:
        reference: a torch module or a program.
        candidate: a torch module, a program, an ONNX file or model, or a Cell that is the port of a torch module.
        args: positional inputs, as the reference takes them.
        kwargs: keyword inputs.
        **options: of `parity.compare`: `grads`, `train`, `dtype`, `rtol`, `atol`, `seed`, for a Cell `cells` and
            `weights`, ...

    Returns:
        The report, if parity holds.

    Raises:
        ParityError: an `AssertionError` with the failing Cells in detail.

    Warns:
        UnpairedWarning: parity holds, but some modules or Cells have no partner: they were judged in the Cells around.
    """
    __tracebackhide__ = True
    from .engine import compare

    report = compare(reference, candidate, args, kwargs, **options)
    report.raise_if_failed()
    if alone := [f"module {path}" for path in report.unpaired] + [f"Cell {cell}" for cell in report.lone_cells]:
        warnings.warn(
            f"judged in the Cells around them, having no partner of their own: {', '.join(alone)}",
            UnpairedWarning,
            stacklevel=2,
        )
    return report
