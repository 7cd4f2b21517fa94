"""The traits about kernels that ONNX Runtime lacks: without them its models don't run, and with them they do."""

from __future__ import annotations

import contextlib
import dataclasses

import numpy as np
import pytest

import cellbridge.runtime as ms
from cellbridge.runtime.compiled.session import SessionError
from cellbridge.runtime.errors import CellbridgeError
from cellbridge.runtime.ir.types import is_floating
from cellbridge.runtime.ops.registry import Op
from tests.runtime.ops.cases import OpCase
from tests.runtime.ops.checks import Array, inputs_of, one_node_program, run_kernel
from tests.runtime.ops.test_traits import ALL, CASES_OF
from tests.runtime.ops.trait_measures import has_body

WIDER = {"": (), "most": ("int16", "uint16", "uint32"), "all": ("int8", "uint8", "int16", "uint16", "uint32")}
"""The integers that are computed in wider ones, by `Traits.wider_integers`."""


def with_integers(op: Op, dtype: str) -> OpCase | None:
    """The first case of an op that takes whole numbers in place of floating-point ones; None if there is none."""
    for case in CASES_OF[op.name]:
        if any(x is not None and is_floating(x.dtype) for x in case.inputs) and not case.skip_onnx:
            whole = dataclasses.replace(case, inputs=tuple(_whole(x, dtype) for x in case.inputs))
            with contextlib.suppress(CellbridgeError, TypeError, ValueError, OverflowError):
                run_kernel(whole, inputs_of(whole, "float32"))
                return whole
    return None


def _whole(x: Array | None, dtype: str) -> Array | None:
    return (
        x if x is None or not is_floating(x.dtype) else np.nan_to_num(np.abs(np.rint(x * 3))).clip(1, 9).astype(dtype)
    )


def runs_compiled(case: OpCase, dtype: str) -> bool:
    """Whether ONNX Runtime computes what the interpreter does."""
    inputs = inputs_of(case, dtype)
    expected = run_kernel(case, inputs)
    try:
        result = ms.compile(one_node_program(case, dtype), "cpu")(*(x for x in inputs if x is not None))
    except SessionError:
        return False
    results = result if isinstance(result, tuple) else (result,)
    return all(map(np.array_equal, results, expected))


FOR_FLOATS = "ONNX Runtime has kernels for floating-point numbers only, and no captured network gives it others"
WITHOUT_KERNEL = {
    **dict.fromkeys(("adaptive_avg_pool_gradient", "adaptive_max_pool", "conv", "conv_transpose",
                     "conv_weight_gradient", "grouped_matmul", "grouped_outer", "gru_gradient", "lstm_gradient",
                     "rnn_gradient"), FOR_FLOATS),
    "permutation": "it is given what a factorization has as a result",
    "searchsorted": "the boundaries aren't in order when they are made whole",
    "unique": "ONNX Runtime has no kernel for int32 either",
}  # fmt: skip
"""Ops that ONNX Runtime doesn't compute with all of the small integers, though the interpreter does."""
INTEGER_OPS = [
    op for op in ALL.values()
    if not op.traits.draws and op.onnx_rule is not None and not any(map(has_body, CASES_OF[op.name]))
    and op.name not in WITHOUT_KERNEL and with_integers(op, "int16") is not None
]  # fmt: skip


@pytest.mark.every(4)
@pytest.mark.parametrize("op", INTEGER_OPS, ids=lambda op: op.name)
def test_small_integers_are_computed_in_those_with_a_kernel(op: Op, monkeypatch: pytest.MonkeyPatch) -> None:
    every, wider = WIDER["all"], WIDER[op.traits.wider_integers]
    cases = {dtype: case for dtype in every if (case := with_integers(op, dtype)) is not None}
    assert [dtype for dtype, case in cases.items() if not runs_compiled(case, "float32")] == []
    monkeypatch.setattr(op, "traits", dataclasses.replace(op.traits, wider_integers=""))
    assert not wider or not all(runs_compiled(cases[dtype], "float32") for dtype in wider), "it needs no wider integers"


NOT_IN_BFLOAT16 = {
    "nextafter": "its form needs Abs, which ONNX Runtime lacks",
    "unique": "ONNX has it from opset 28 on",
}
MOVING_HALVES = [
    case
    for op in ALL.values()
    if op.half_native and op.onnx_rule is not None and op.name not in NOT_IN_BFLOAT16
    for case in CASES_OF[op.name][:1]
    if not case.skip_onnx and not has_body(case) and any(x is not None and is_floating(x.dtype) for x in case.inputs)
]


@pytest.mark.every(4)
@pytest.mark.parametrize("case", MOVING_HALVES, ids=str)
def test_bfloat16_is_moved_where_there_is_a_kernel(case: OpCase, monkeypatch: pytest.MonkeyPatch) -> None:
    op = ALL[case.op]
    assert runs_compiled(case, "bfloat16")
    if not op.traits.bfloat16_kernel:
        monkeypatch.setattr(op, "traits", dataclasses.replace(op.traits, bfloat16_kernel=True))
        assert not runs_compiled(case, "bfloat16"), "it has a kernel"
