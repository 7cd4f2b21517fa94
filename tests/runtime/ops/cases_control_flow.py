"""Cases of the ops with sub-programs."""

from __future__ import annotations

import numpy as np
import torch

from cellbridge.runtime.ir.types import Type
from cellbridge.runtime.ops import comparison, linear, trigonometry
from cellbridge.runtime.programs.subprograms import trace_subprogram
from tests.runtime.ops.cases import OpCase

RNG = np.random.default_rng(0)
FLOAT, INT = np.dtype(np.float64), np.dtype(np.int64)
VECTOR = Type(FLOAT, (3,))
X, Y = RNG.normal(size=(2, 3))
ROWS, WEIGHT = RNG.normal(size=(4, 3)), RNG.normal(size=(3, 3))

TIMES = trace_subprogram(lambda x, y: [x * y], [VECTOR, VECTOR], "times")
MINUS = trace_subprogram(lambda x, y: [x - y], [VECTOR, VECTOR], "minus")


def recurrent_step(state, row, weight):  # type: ignore[no-untyped-def]
    after = trigonometry.tanh(linear.matmul(state, weight) + row)
    return [after, after * state]


RECURRENT = trace_subprogram(recurrent_step, [VECTOR, VECTOR, Type(FLOAT, (3, 3))], "recurrent")


def doubling_step(number, state, weight):  # type: ignore[no-untyped-def]
    return [comparison.less(number, np.array(2)), linear.matmul(state, weight), trigonometry.sin(state)]


DOUBLING = trace_subprogram(doubling_step, [Type(INT, ()), VECTOR, Type(FLOAT, (3, 3))], "doubling")


def recurrent(reverse: bool):  # type: ignore[no-untyped-def]
    def run(state: torch.Tensor, rows: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        outputs = []
        for row in reversed(rows) if reverse else rows:
            after = torch.tanh(state @ weight + row)
            outputs.append(after * state)
            state = after
        return state, torch.stack(outputs[::-1] if reverse else outputs)

    return run


def repeated(times: int):  # type: ignore[no-untyped-def]
    def run(_: object, __: object, state: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        outputs = []
        for _number in range(times):
            outputs.append(torch.sin(state))
            state = state @ weight
        return state, torch.stack(outputs) if outputs else state.new_zeros(0, 3)

    return run


TRIPLE = trace_subprogram(lambda x, y, passed, g: [g * x * y, g + passed], [VECTOR] * 4, "triple")


class Own(torch.autograd.Function):
    """What `TRIPLE` says of the gradient."""

    @staticmethod
    def forward(ctx, passed, x, y):  # type: ignore[no-untyped-def]
        ctx.save_for_backward(passed, x, y)
        return passed.clone()

    @staticmethod
    def backward(ctx, g):  # type: ignore[no-untyped-def]
        passed, x, y = ctx.saved_tensors
        return torch.zeros_like(g), g * x * y, g + passed


BRANCHES = {"then_branch": TIMES, "else_branch": MINUS}
BODY = {"body": RECURRENT, "carried": 1, "scanned": 1}
LOOP = {"body": DOUBLING, "carried": 1, "symbols": ("times",)}
NO_EMPTY_SCAN = "ONNX Runtime runs no Scan of length 0"
NOTHING = OpCase("scan", (X, ROWS[:0], WEIGHT), BODY, None, "nothing", differentiable=False, skip_onnx=NO_EMPTY_SCAN)
CASES = [
    NOTHING,
    OpCase("cond", (np.array(True), X, Y), BRANCHES, lambda p, x, y: x * y),
    OpCase("cond", (np.array(False), X, Y), BRANCHES, lambda p, x, y: x - y, "else"),
    OpCase("own_gradient", (X + Y, X, Y), {"outputs": 1, "backward": TRIPLE}, Own.apply, undifferentiated=(0,)),
    OpCase("scan", (X, ROWS, WEIGHT), BODY, recurrent(False)),
    OpCase("scan", (X, ROWS, WEIGHT), {**BODY, "reverse": True}, recurrent(True), "reverse"),
    OpCase("loop", (np.array(9), np.array(True), X, WEIGHT), LOOP, repeated(3)),
    OpCase("loop", (np.array(2), np.array(True), X, WEIGHT), LOOP, repeated(2), "limit"),
    OpCase("loop", (np.array(9), np.array(False), X, WEIGHT), LOOP, repeated(0), "never"),
]
