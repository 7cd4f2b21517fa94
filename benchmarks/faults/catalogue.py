"""All cases of the benchmark, by kind."""

from __future__ import annotations

from . import onnx_faults, planted, port_faults
from .cases import Case


def cases() -> list[Case]:
    """Return all cases, kind by kind."""
    return [*planted.cases(), *onnx_faults.cases(), *port_faults.cases()]
