"""Cases of connectionist temporal classification: against the sum over all paths, one by one."""

from __future__ import annotations

import functools
import itertools
import math
from typing import Any

import numpy as np
import torch

from tests.runtime.ops.cases import OpCase


def log_probs(time: int, batch: int, classes: int) -> np.ndarray[Any, Any]:
    x = np.random.default_rng(5).standard_normal((time, batch, classes))
    return x - np.log(np.exp(x).sum(2, keepdims=True))


def collapsed(path: tuple[int, ...], blank: int) -> list[int]:
    """Repetitions joined, then blanks left out."""
    return [c for c, _ in itertools.groupby(path) if c != blank]


def over_all_paths(blank: int) -> Any:
    """The loss as it is defined: minus the logarithm of the sum of the probabilities of the paths."""

    def loss(x: Any, targets: Any, input_lengths: Any, target_lengths: Any) -> Any:
        losses = []
        for i, (steps, length) in enumerate(zip(input_lengths.tolist(), target_lengths.tolist(), strict=True)):
            target = targets[i, :length].tolist()
            paths = [
                path for path in itertools.product(range(x.shape[2]), repeat=steps) if collapsed(path, blank) == target
            ]
            assert paths
            at = torch.arange(steps)
            losses.append(-torch.logsumexp(torch.stack([x[at, i, list(path)].sum() for path in paths]), 0))
        return torch.stack(losses)

    return loss


def of_torch(blank: int) -> Any:
    return functools.partial(torch.nn.functional.ctc_loss, blank=blank, reduction="none")


def slopes(blank: int) -> Any:
    """The derivatives by what log_softmax makes the log-probabilities of; 0 where no path gives the target."""

    def gradient(x: Any, targets: Any, input_lengths: Any, target_lengths: Any, _: Any) -> Any:
        leaf = x.detach().requires_grad_()
        losses = of_torch(blank)(leaf, targets, input_lengths, target_lengths, zero_infinity=True)
        return torch.autograd.grad(losses.sum(), leaf)[0]

    return gradient


def with_alphas(x: Any, targets: Any, input_lengths: Any, target_lengths: Any) -> Any:
    """Loss and alphas of ATen, those as if every sequence had all steps."""
    loss = of_torch(0)(x, targets, input_lengths, target_lengths)
    whole = torch.full((x.shape[1],), x.shape[0])
    _, alphas = torch._ctc_loss(x, targets, whole.tolist(), target_lengths.tolist(), 0, False)
    return loss, alphas.transpose(0, 1)


def given_alphas(operands: tuple[Any, ...], blank: int = 0) -> tuple[Any, ...]:
    """The operands of `ctc_loss` and the alphas of ATen, which leaves what lies behind a target unset."""
    x, targets, _, lengths = map(torch.from_numpy, operands)
    _, alphas = torch._ctc_loss(x, targets, [len(x)] * x.shape[1], lengths.tolist(), blank, False)
    behind = torch.arange(alphas.shape[2]) > 2 * lengths[:, None, None]
    return *operands, alphas.masked_fill(behind, -math.inf).transpose(0, 1).numpy()


SEVERAL = (log_probs(5, 3, 3), np.array([[1, 2], [1, 1], [2, 0]]), np.array([5, 4, 3]), np.array([2, 2, 1]))
EMPTY = (log_probs(3, 2, 3), np.array([[2], [0]]), np.array([3, 2]), np.array([1, 0]))
OTHER_BLANK = (log_probs(4, 2, 3), np.array([[0, 1], [1, 0]]), np.array([4, 4]), np.array([2, 2]))
IMPOSSIBLE = (log_probs(3, 3, 3), np.array([[1, 2], [1, 1], [2, 1]]), np.array([3, 2, 1]), np.array([2, 2, 2]))
WHOLE = (SEVERAL[0], np.array([[1, 2], [1, 1], [2, 1]]), SEVERAL[2], np.array([2, 2, 2]))
NOTHING = (log_probs(2, 2, 3), np.zeros((2, 0), np.int64), np.array([2, 1]), np.array([0, 0]))

CASES = [
    OpCase("ctc_loss", SEVERAL, {"blank": 0}, of_torch(0), "several"),
    OpCase("ctc_loss", EMPTY, {"blank": 0}, of_torch(0), "empty"),
    OpCase("ctc_loss", NOTHING, {"blank": 0}, of_torch(0), "nothing"),
    OpCase("ctc_loss", OTHER_BLANK, {"blank": 2}, of_torch(2), "other-blank"),
    OpCase("ctc_loss", SEVERAL, {"blank": 0}, over_all_paths(0), "all paths", differentiable=False),
    OpCase("ctc_loss", OTHER_BLANK, {"blank": 2}, over_all_paths(2), "all paths-other-blank", differentiable=False),
    OpCase("ctc_loss", IMPOSSIBLE, {"blank": 0}, of_torch(0), "impossible", differentiable=False),
    OpCase("ctc_loss_gradient", given_alphas(SEVERAL), {"blank": 0}, slopes(0), "several", differentiable=False),
    OpCase(
        "ctc_loss_gradient", given_alphas(OTHER_BLANK, 2), {"blank": 2}, slopes(2), "other-blank", differentiable=False,
    ),
    OpCase("ctc_loss_gradient", given_alphas(IMPOSSIBLE), {"blank": 0}, slopes(0), "impossible", differentiable=False),
    OpCase("ctc_loss_with_alphas", WHOLE, {"blank": 0}, with_alphas, differentiable=False),
]  # fmt: skip
