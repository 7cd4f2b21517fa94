"""All cases of the benchmark, by kind."""

from __future__ import annotations

from . import (
    distributed_faults,
    generation_faults,
    hidden_faults,
    jax_port_faults,
    onnx_faults,
    opaque_faults,
    planted,
    port_faults,
    sound,
    training_faults,
    two_faults,
)
from .cases import Case

KINDS = (
    planted, opaque_faults, two_faults, hidden_faults, port_faults, jax_port_faults, onnx_faults, training_faults,
    generation_faults, distributed_faults,
)  # fmt: skip


def cases() -> list[Case]:
    """Return all cases, kind by kind, sound pairs last."""
    found = [case for part in (*KINDS, sound) for case in part.cases()]
    return sorted(found, key=lambda case: not case.is_fault)
