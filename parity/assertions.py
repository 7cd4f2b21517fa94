"""`assert_parity`: parity as an assertion, for tests."""

from __future__ import annotations

from typing import Any

from .results import Report


def assert_parity(reference: Any, candidate: Any, args: tuple[Any, ...], kwargs: Any = None, **options: Any) -> Report:
    """Compare two sides and fail the test unless they are the same network.

    Args:
        reference: a torch module or a program.
        candidate: a torch module, a program, or an ONNX file or model.
        args: positional inputs, as the reference takes them.
        kwargs: keyword inputs.
        **options: of `parity.compare`: `grads`, `train`, `dtype`, `rtol`, `atol`, `seed`, ...

    Returns:
        The report, if parity holds.

    Raises:
        ParityError: an `AssertionError` with the failing Cells in detail.
    """
    __tracebackhide__ = True
    from .engine import compare

    report = compare(reference, candidate, args, kwargs, **options)
    report.raise_if_failed()
    return report
