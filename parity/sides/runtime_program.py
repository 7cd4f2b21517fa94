"""The program that ONNX Runtime runs in the place of a captured one, and the one that `parity export` writes.

They are the same wherever ONNX Runtime is judged in the working dtype.
"""

from __future__ import annotations

from collections import Counter

from ...runtime.ir.program import Program
from ...runtime.lowering.rewrites import MIXED_ON_CPU, rewrite
from ..dtypes import WORKING_DTYPES

_NOTES = {
    "upcast_bfloat16": "what the model computes in bfloat16 is computed in float32 and then rounded to bfloat16 in the "
    "ONNX model: ONNX Runtime has kernels in bfloat16 for few operators",
    "float64_conv_as_matmul": "convolutions and average pools in float64 are products of matrices in the ONNX model: "
    "ONNX Runtime has kernels for them in float32 alone",
}
"""By name of the rewrite."""


def runtime_program(program: Program, working_dtype: str, provider: str = "cpu") -> Program:
    """Return the program that ONNX Runtime runs.

    Args:
        program: a program that was captured in the working dtype.
        working_dtype: a key of `WORKING_DTYPES`.
        provider: the execution provider.
    """
    judged = WORKING_DTYPES[working_dtype].onnxruntime
    return written_program(program, working_dtype, provider)[0] if judged == working_dtype else program.astype(judged)


def written_program(program: Program, working_dtype: str, provider: str = "cpu") -> tuple[Program, list[str]]:
    """Return the program that is written to a file, and remarks on what differs from the program as it is captured.

    Parts keep a dtype that isn't the working dtype. What the CPU has no kernels for is rewritten: ops in bfloat16
    compute in float32 and round their results to bfloat16, and convolutions in float64 are products of matrices. If
    ONNX Runtime isn't judged in the working dtype, nothing is rewritten.
    """
    if provider != "cpu" or WORKING_DTYPES[working_dtype].onnxruntime != working_dtype:
        return program, []
    notes = []
    for rule in MIXED_ON_CPU:
        rewritten = rewrite(program, rule)
        if rewritten is not program:
            notes.append(_NOTES[rule.__name__])
        program = rewritten
    return program, notes


def own_working_dtype(program: Program) -> str:
    """Return the working dtype that has most of the numbers in a program's parameters; float32 if there are none."""
    sizes: Counter[str] = Counter()
    for parameter in program.parameters.values():
        sizes[parameter.value.dtype.name] += parameter.data.size
    return next((name for name, _ in sizes.most_common() if name in WORKING_DTYPES), "float32")
