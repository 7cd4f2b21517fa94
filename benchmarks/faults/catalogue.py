"""All cases of the benchmark, by kind."""

from __future__ import annotations

from . import hidden_faults, onnx_faults, opaque_faults, planted, port_faults, sound, training_faults, two_faults
from .cases import Case


def cases() -> list[Case]:
    """Return all cases, kind by kind, sound pairs last."""
    parts = (planted, opaque_faults, two_faults, hidden_faults, port_faults, onnx_faults, training_faults, sound)
    found = [case for part in parts for case in part.cases()]
    return sorted(found, key=lambda case: not case.is_fault)
