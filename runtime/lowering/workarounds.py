"""Faults of ONNX Runtime's CPU kernels that lowered models avoid, by the versions that have them.

A model is a file that any supported version may be given, whichever wrote it: a workaround is needed until the oldest
supported version is without the fault. Rules that have a direct form as well ask `is_needed`.

tests/runtime/lowering/test_workarounds.py runs the bare operator, and demands the fault of each version that is said to
have it, and none of the others.
"""

from __future__ import annotations

from dataclasses import dataclass

OLDEST = (1, 31)
"""The oldest version of ONNX Runtime that is supported: the lower bound in pyproject.toml."""


@dataclass(frozen=True)
class Workaround:
    """A fault, and where it is avoided.

    Attributes:
        operator: of ONNX.
        fault: what its kernel does.
        avoided_in: the modules that write something else, relative to `runtime/`.
        mended: the first version of ONNX Runtime without it, as (major, minor); None: the newest still has it.
    """

    operator: str
    fault: str
    avoided_in: str
    mended: tuple[int, int] | None = None


def is_needed(name: str) -> bool:
    """Whether a supported version has the fault of this one of the `WORKAROUNDS`."""
    mended = WORKAROUNDS[name].mended
    return mended is None or mended > OLDEST


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
    "sign of a zero": Workaround(
        "Where", "drops the sign of a zero that is not its last operand", "ops/trigonometry.py"
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
    "float16 that is added up": Workaround(
        "ScatterElements", "has no kernel that adds float16", "ops/scatter_reductions.py"
    ),
    "slices in one place": Workaround(
        "ScatterND", "loses parts of a sum where several threads add slices to one place (microsoft/onnxruntime#18048)",
        "ops/scatter_reductions.py",
    ),
    "rows of a sum": Workaround(
        "ReduceSum", "adds one row to the next, so that the rounding error grows with their number",
        "ops/reduction_onnx.py",
    ),
    "last axis of nothing": Workaround(
        "ReduceSum", "doesn't drop axis -1 of a tensor without elements", "ops/sorting.py", mended=(1, 32)
    ),
    "scan of nothing": Workaround("Scan", "fails over no elements", "ops/scanning_onnx.py"),
    "scan of nothing along another axis": Workaround(
        "Scan", "ends the process over no elements along another axis than the first", "ops/scanning_onnx.py"
    ),
    "smallest integer by -1": Workaround(
        "Div", "ends the process where the smallest integer is divided by -1", "ops/integers_onnx.py"
    ),
    "remainder of the smallest integer by -1": Workaround(
        "Mod", "ends the process where the smallest integer is divided by -1", "ops/integers_onnx.py", mended=(1, 32)
    ),
    "LSTM without sequences": Workaround(
        "LSTM", "ends the process on a batch of size 0", "compiled/executable.py"
    ),
    "GRU without sequences": Workaround(
        "GRU", "ends the process on a batch of size 0", "compiled/executable.py"
    ),
    "transposed matrix by a vector": Workaround(
        "MatMul", "is fused with the Transpose of a matrix before a vector, to a wrong result", "ops/linear.py"
    ),
    "float64 factor of a product": Workaround(
        "MatMul", "is fused with a scalar factor, which is rounded to float32", "ops/attention_onnx.py", mended=(1, 32)
    ),
    "padding before a pool": Workaround(
        "Pad", "is fused with MaxPool, which pads by -inf and not by 0", "ops/slicing.py", mended=(1, 32)
    ),
}  # fmt: skip
