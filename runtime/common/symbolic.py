"""What Python can't ask of a symbolic tensor, and what to write instead."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import UnknownSize, UnknownValue
from ..ir.dims import Dim
from ..tracing import Traced, current

if TYPE_CHECKING:
    from ..graph.recording import Trace

AS_OPS = (
    "compute with ops or methods of the tensor (`ops.exp(x)` in place of `np.exp(x)`), or outside of what is traced"
)
AS_TENSOR = "leave it a tensor: one without dimensions computes as a number does"
AS_NUMBER = "take a Python number, or a size (`x.shape[0]`)"
AS_MASKED = (
    "compute with all elements and a mask (`x * mask`, `ops.where(mask, x, 0)`), or find them outside of what is traced"
)
AS_STACK = "`ops.stack` puts tensors together"
AS_CHOICE = "choose with `ops.where(condition, a, b)`, or decide outside of what is traced"


def unknown_elements(data: Traced, what: str, instead: str) -> Exception:
    """The error to raise where `what` needs the elements of symbolic data; `instead` says what to write."""
    trace = current()
    if trace is None or data.builder is not trace.builder:
        return UnknownValue(
            f"a tensor {data.value.type} was used that a trace left behind: it was part of a program under "
            "construction. Don't keep tensors that traced Python computes: return them"
        )
    shape = tuple(data.shape)
    return trace.guard.refusal(
        UnknownValue,
        f"{what} needs the elements of a tensor of shape {shape} and dtype {data.dtype.name}, which are known only "
        "when the program runs",
        instead,
    )


def endless_iteration(trace: Trace, size: Dim) -> Exception:
    """The error to raise for a loop over an axis of symbolic size."""
    return trace.guard.refusal(
        UnknownSize,
        f"iteration over an axis of size {size}, which is known only when the program runs",
        "compute with the whole tensor, or give that axis a fixed size",
    )
