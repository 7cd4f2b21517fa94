"""Checks the arguments of `compile_train_step`, and builds the Cell of the training step from them."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypedDict

from .. import tree
from ..checks import belongs_to_torch
from ..common.parameter import Parameter
from ..errors import UsageError
from ..ir.program import Program
from ..nn.cell import Cell
from ..nn.graph_cell import GraphCell
from ..nn.optim.optimizer import Optimizer
from ..nn.wrap.loss_scalers import DynamicLossScaler, LossScaler, StaticLossScaler
from ..nn.wrap.training_step import TrainingStep

DYNAMIC_SCALE = (2.0**16, 2, 2000)
"""The defaults of torch's `GradScaler`: the scale, the factor by which it changes, and the steps until it grows."""


class StepKeywords(TypedDict, total=False):
    """Keyword-only parameters of `training_step`, which `compile_train_step` passes on."""

    loss_scale: float | str | LossScaler | None
    clip_norm: float | None
    accumulate: int
    frozen: Sequence[str]


def training_step(
    network: Cell | Program,
    loss: Callable[..., Any] | None,
    optimizer: Optimizer | Callable[[list[Parameter]], Optimizer],
    *,
    loss_scale: float | str | LossScaler | None = None,
    clip_norm: float | None = None,
    accumulate: int = 1,
    frozen: Sequence[str] = (),
) -> TrainingStep:
    """Return the step that `compile_train_step` compiles, as a Cell; it has the same arguments and errors."""
    if isinstance(network, Program):  # a batch is passed by position, whatever the captured signature
        network = network.replace(arguments=tree.positional_arguments(len(network.inputs)))
    cell = GraphCell(network) if isinstance(network, Program) else network
    if not isinstance(cell, Cell):
        raise UsageError(
            f"only a Cell or a program can be trained, given {_describe(network)}: write it as a Cell, or capture a "
            "torch module, converter.from_torch(module, inputs, train=True)"
        )
    if isinstance(loss, Optimizer):
        raise UsageError("an optimizer was given as loss: the order is network, loss, optimizer")
    frozen_parameters = _match(cell, frozen)
    if not isinstance(optimizer, Optimizer):
        trained = [p for p in cell.trainable_params() if not any(p is other for other in frozen_parameters)]
        if not trained:
            raise UsageError("there is nothing to train: every Parameter is frozen")
        if not callable(optimizer):
            raise UsageError(f"needed an optimizer, or a function that creates one, given {_describe(optimizer)}")
        optimizer = optimizer(trained)
        if not isinstance(optimizer, Optimizer):
            raise UsageError(
                f"the function returned {_describe(optimizer)}: needed an optimizer of runtime.optim or nn"
            )
    if all(any(p is other for other in frozen_parameters) for p in optimizer.parameters):
        raise UsageError("there is nothing to train: every Parameter of the optimizer is frozen")
    if optimizer.loss_scale != 1:
        raise UsageError(
            f"the optimizer divides gradients by a loss scale of its own, {optimizer.loss_scale:g}: leave it 1, since "
            "the step divides them by its loss_scale"
        )
    if loss is not None and (not callable(loss) or isinstance(loss, type) or belongs_to_torch(loss)):
        raise UsageError(
            "loss must be a Cell (nn.CrossEntropyLoss()), a function of runtime's Tensors or None, given "
            f"{_describe(loss)}"
        )
    identities = {id(p) for part in (cell, loss) if isinstance(part, Cell) for p in part.get_parameters()}
    if not any(id(p) in identities for p in optimizer.parameters):
        raise UsageError(
            "the optimizer has none of the network's Parameters: create it for `network.trainable_params()`"
        )
    return TrainingStep(cell, loss, optimizer, _scaler(loss_scale), clip_norm, accumulate, frozen_parameters)


def _match(cell: Cell, patterns: Sequence[str]) -> list[Parameter]:
    if isinstance(patterns, str):
        raise UsageError(f"frozen must be a list of patterns, given the string {patterns!r}: write [{patterns!r}]")
    result: list[Parameter] = []
    names = list(_all_names(cell))
    for pattern in patterns:
        matching = [parameter for name, parameter in names if fnmatch.fnmatchcase(name, pattern)]
        if not matching:
            raise UsageError(
                f"frozen: {pattern!r} matches no Parameter; there are {', '.join(name for name, _ in names[:8])}"
                + (", ..." if len(names) > 8 else "")
            )
        result += matching
    return result


def _describe(value: Any) -> str:
    """Describe a wrong argument: an object of torch by its class, which shows the mistake."""
    cls = type(value)
    by_class = belongs_to_torch(value) and not isinstance(value, type) and cls.__name__ != "function"
    return f"a {cls.__module__}.{cls.__qualname__}" if by_class else repr(value)


def _all_names(cell: Cell) -> Iterator[tuple[str, Parameter]]:
    """Yield the Parameters of a Cell with their names; a Parameter that several inner Cells share has several."""
    for path, holder in cell.cells_and_names():
        for name, parameter in holder._params.items():
            yield f"{path}.{name}" if path else name, parameter
    if isinstance(cell, GraphCell):
        yield from cell.aliases()


def _scaler(loss_scale: float | str | LossScaler | None) -> LossScaler | None:
    if loss_scale is None or isinstance(loss_scale, LossScaler):
        return loss_scale
    if loss_scale == "dynamic":
        return DynamicLossScaler(*DYNAMIC_SCALE)
    if not isinstance(loss_scale, (int, float)):
        raise UsageError(
            "loss_scale must be a number, 'dynamic', a scaler (amp.StaticLossScaler, amp.DynamicLossScaler) or None, "
            f"given {loss_scale!r}"
        )
    return StaticLossScaler(loss_scale)
