"""Bugs in ONNX Runtime's kernels and providers that lowered models work around, with the versions that fix them.

An exported model may run in any supported version of ONNX Runtime, not only in the installed one. A workaround is
therefore needed until the oldest supported version has the fix. `is_needed` tells a lowering rule whether it can use
the direct form.

tests/runtime/test_workarounds.py runs each bare operator, and checks that exactly the versions listed here as
faulty show the bug.
"""

from __future__ import annotations

from dataclasses import dataclass

OLDEST = (1, 31)
"""The oldest version of ONNX Runtime that is supported: the lower bound in pyproject.toml."""


@dataclass(frozen=True)
class Workaround:
    """A bug in a kernel of ONNX Runtime, and the module that works around it.

    Attributes:
        operator: the ONNX operator.
        fault: the error of its kernel.
        avoided_in: the module with the workaround, relative to `runtime/`.
        fixed_in: the first version of ONNX Runtime without the bug, as (major, minor); None if the newest still has it.
        provider: the execution provider that has it, by its name in `runtime.providers`.
    """

    operator: str
    fault: str
    avoided_in: str
    fixed_in: tuple[int, int] | None = None
    provider: str = "cpu"


def is_needed(name: str) -> bool:
    """Whether any supported version of ONNX Runtime has the bug; `name` is a key of `WORKAROUNDS`."""
    fixed_in = WORKAROUNDS[name].fixed_in
    return fixed_in is None or fixed_in > OLDEST


WORKAROUNDS = {
    "sum of int64": Workaround(
        "ReduceSum", "sums int64 in float64, which has 53 bits of precision", "lowering/rewrites/int64_sum_as_matmul.py"
    ),
    "log-sum-exp after -inf": Workaround(
        "ReduceLogSumExp", "takes 0 as the maximum if the first element is -inf", "ops/reduction_onnx.py"
    ),
    "mean of an empty tensor": Workaround("ReduceMean", "returns 0 instead of NaN", "ops/reduction.py"),
    "power of int64": Workaround("Pow", "computes in float64", "ops/integers_onnx.py"),
    "remainder of int64": Workaround("Mod", "computes fmod=1 in float64", "ops/integers_onnx.py", fixed_in=(1, 32)),
    "maximum of int64": Workaround(
        "Max", "compares int64 wrongly on processors with AVX-512 if only the low 32 bits differ",
        "ops/declarations.py", fixed_in=(1, 32),
    ),
    "sign of zero": Workaround(
        "Where", "drops the sign of a zero unless it comes from the last operand", "ops/trigonometry.py"
    ),
    "absent bound": Workaround("Clip", "replaces an absent bound by the largest finite number", "ops/elementwise.py"),
    "convolution of float64": Workaround(
        "Conv", "has a kernel for float32 only", "lowering/rewrites/float64_conv_as_matmul.py"
    ),
    "DFT of float32": Workaround(
        "DFT", "loses precision in float32 if the size is not a power of two", "ops/fourier.py"
    ),
    "inverse DFT of float64": Workaround("DFT", "rounds 1 / n to float32 in float64, too", "ops/fourier.py"),
    "Where on bool": Workaround("Where", "has no kernel for bool", "ops/elementwise.py"),
    "scatter-add of float16": Workaround(
        "ScatterElements", "has no kernel that adds float16", "ops/scatter_reductions.py"
    ),
    "scatter-add to one index": Workaround(
        "ScatterND", "loses addends if several threads add slices at the same index (microsoft/onnxruntime#18048)",
        "ops/scatter_reductions.py",
    ),
    "sum over many rows": Workaround(
        "ReduceSum", "adds rows sequentially, so that the rounding error grows with their number",
        "ops/reduction_onnx.py",
    ),
    "last axis of an empty tensor": Workaround(
        "ReduceSum", "doesn't remove axis -1 of a tensor without elements", "ops/sorting.py", fixed_in=(1, 32)
    ),
    "Scan over an empty axis": Workaround("Scan", "fails on an axis of size 0", "ops/scanning_onnx.py"),
    "Scan over an empty axis that isn't the first": Workaround(
        "Scan", "crashes the process on an axis of size 0 other than the first", "ops/scanning_onnx.py"
    ),
    "smallest integer divided by -1": Workaround(
        "Div", "crashes the process if the smallest integer is divided by -1", "ops/integers_onnx.py"
    ),
    "remainder of the smallest integer by -1": Workaround(
        "Mod", "crashes the process if the smallest integer is divided by -1", "ops/integers_onnx.py", fixed_in=(1, 32)
    ),
    "LSTM on an empty batch": Workaround(
        "LSTM", "crashes the process on a batch of size 0", "compiled/executable.py"
    ),
    "GRU on an empty batch": Workaround(
        "GRU", "crashes the process on a batch of size 0", "compiled/executable.py"
    ),
    "transposed matrix times vector": Workaround(
        "MatMul", "is fused with a Transpose of its matrix, and then wrong if it is multiplied by a vector",
        "ops/linear.py",
    ),
    "float64 factor of a product": Workaround(
        "MatMul", "is fused with a scalar factor, which is rounded to float32", "ops/attention_onnx.py",
        fixed_in=(1, 32),
    ),
    "padding before a pool": Workaround(
        "Pad", "is fused with MaxPool, which pads with -inf instead of 0", "ops/slicing.py", fixed_in=(1, 32)
    ),
    "attention as one operator": Workaround(
        "Attention", "is taken by the provider, and then not read", "providers.py", provider="openvino"
    ),
    "unused input": Workaround(
        "(any)", "takes other inputs for the ones that follow an input which no node uses", "lowering/unused_inputs.py",
        provider="openvino",
    ),
}  # fmt: skip
