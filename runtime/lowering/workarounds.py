"""Faults of ONNX Runtime's CPU kernels that lowered models avoid, by the versions that have them.

Versions are those that are supported. `mended` is the first without the fault; None: the newest still has it. A
workaround goes when the oldest supported version is a mended one: tests/runtime/lowering/test_workarounds.py runs the
bare operator, and demands the fault of each version that is said to have it, and none of the others.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Workaround:
    """A fault, and where it is avoided.

    Attributes:
        operator: of ONNX.
        fault: what its kernel does.
        avoided_in: the modules that write something else, relative to `runtime/`.
        mended: the first version of ONNX Runtime without it, as (major, minor).
    """

    operator: str
    fault: str
    avoided_in: str
    mended: tuple[int, int] | None = None


WORKAROUNDS = {
    "sum of int64": Workaround(
        "ReduceSum", "adds int64 up in float64, which has 53 bits", "lowering/rewrites/int64_sum_as_matmul.py"
    ),
    "log-sum-exp after -inf": Workaround(
        "ReduceLogSumExp", "takes 0 for the largest where -inf comes first", "ops/reduction_onnx.py"
    ),
    "mean of nothing": Workaround("ReduceMean", "is 0, not NaN, over no elements", "ops/reduction.py"),
    "power of int64": Workaround("Pow", "computes in float64", "ops/integers_onnx.py"),
    "remainder of int64": Workaround("Mod", "computes fmod=1 in float64", "ops/integers_onnx.py", mended=(1, 32)),
    "order of int64": Workaround(
        "Max", "orders int64 wrongly on processors with AVX-512 where only the last 32 bits differ",
        "ops/declarations.py", mended=(1, 32),
    ),
    "absent bound": Workaround("Clip", "takes the largest finite number for an absent bound", "ops/elementwise.py"),
    "convolution of float64": Workaround(
        "Conv", "has a kernel for float32 only", "lowering/rewrites/float64_conv_as_matmul.py"
    ),
    "transform of float32": Workaround(
        "DFT", "loses digits in float32 where the size is no power of two", "ops/fourier.py"
    ),
    "inverse transform of float64": Workaround("DFT", "takes 1 / n in float32 in float64, too", "ops/fourier.py"),
    "choice between bools": Workaround("Where", "has no kernel for bool", "ops/elementwise.py"),
}  # fmt: skip
