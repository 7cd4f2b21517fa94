"""Branches and loops for the graphs of `to_torch`: plain Python, so that autograd records the path that ran."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

Body = Callable[..., Any]
Empty = Sequence[tuple[tuple[int, ...], torch.dtype]]


def cond(predicate: Tensor, then_branch: Body, else_branch: Body, operands: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Run one of two branches; under `torch.compile` or `torch.export`, by `torch.cond`."""
    if torch.compiler.is_compiling():
        return _tuple(torch.cond(predicate, then_branch, else_branch, tuple(operands)))
    return _tuple((then_branch if predicate else else_branch)(*operands))


def guard(x: Tensor, condition: Tensor, message: str) -> Tensor:
    """Return `x`; raise an error if the condition doesn't hold."""
    torch._assert_async(condition, message)
    return x


def loop(
    limit: Tensor, going: Tensor, operands: Sequence[Tensor], body: Body, carried: int, empty: Empty
) -> tuple[Tensor, ...]:
    """Run a body until its condition is false, at most `limit` times; see the op `loop`."""
    state, captured = tuple(operands[:carried]), operands[carried:]
    rows: list[tuple[Tensor, ...]] = []
    while going and len(rows) < limit:
        number = torch.tensor(len(rows), device=limit.device)
        going, *results = _tuple(body(number, *state, *captured))
        state = tuple(results[:carried])
        rows.append(tuple(results[carried:]))
    return *state, *_stack(rows, empty, limit.device)


def scan(
    operands: Sequence[Tensor], body: Body, carried: int, scanned: int, reverse: bool, empty: Empty
) -> tuple[Tensor, ...]:
    """Run a body on slices along the first axis, one after the other; see the op `scan`."""
    state, sliced = tuple(operands[:carried]), operands[carried : carried + scanned]
    captured = operands[carried + scanned :]
    rows: list[tuple[Tensor, ...]] = []
    length = sliced[0].shape[0]
    for i in reversed(range(length)) if reverse else range(length):
        results = _tuple(body(*state, *(x[i] for x in sliced), *captured))
        state = results[:carried]
        rows.append(results[carried:])
    return *state, *_stack(rows[::-1] if reverse else rows, empty, sliced[0].device)


def own_gradient(tensors: Sequence[Tensor], outputs: int, backward: Body | None, refusal: str) -> tuple[Tensor, ...]:
    """Return the first tensors, with the gradient that `backward` computes; see the op `own_gradient`."""
    return _tuple(_OwnGradient.apply(backward, outputs, refusal, *tensors))  # type: ignore[no-untyped-call]


class _OwnGradient(torch.autograd.Function):
    """Takes the backward, the number of outputs, the message for a missing backward, and then outputs and operands."""

    @staticmethod
    def forward(ctx: Any, backward: Body | None, outputs: int, refusal: str, *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.pull, ctx.outputs, ctx.refusal = backward, outputs, refusal
        ctx.save_for_backward(*tensors)
        passed = tuple(x.clone() for x in tensors[:outputs])
        ctx.mark_non_differentiable(*(x for x in passed if not x.is_floating_point()))
        return passed

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor) -> Any:
        if ctx.pull is None:
            raise NotImplementedError(ctx.refusal)
        passed, operands = ctx.saved_tensors[: ctx.outputs], ctx.saved_tensors[ctx.outputs :]
        output_cotangents = [g for g, y in zip(cotangents, passed, strict=True) if y.is_floating_point()]
        operand_gradients = iter(_tuple(ctx.pull(*operands, *passed, *output_cotangents)))
        gradients = [next(operand_gradients, None) if x.is_floating_point() else None for x in operands]
        return None, None, None, *(None for _ in passed), *gradients


def _stack(rows: Sequence[tuple[Tensor, ...]], empty: Empty, device: torch.device) -> list[Tensor]:
    if not rows:
        return [torch.empty(shape, dtype=dtype, device=device) for shape, dtype in empty]
    return [torch.stack(column) for column in zip(*rows, strict=True)]


def _tuple(result: Any) -> tuple[Any, ...]:
    return tuple(result) if isinstance(result, (tuple, list)) else (result,)
