"""`TrainingStep`: forward, backward, loss scale, accumulation, clipping and update as one Cell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ... import checks
from ...amp.scalers import LossScaler, all_finite
from ...common.dtype import bool_, int32
from ...common.parameter import Parameter, ParameterTuple
from ...common.tensor import Tensor, wrapped, zeros_like
from ...eager.backward import run_with_gradients
from ...errors import UsageError
from ...functional.clipping import clip_by_norm
from ...ir.types import is_floating
from ...ops import comparison, elementwise
from ..cell import Cell
from ..optim.optimizer import Optimizer
from .conditional_update import update_unless


def _require_number(loss: Any) -> None:
    """`UsageError` unless it is a tensor with one floating-point number."""
    given = f"{loss.dtype} of shape {tuple(loss.shape)}" if isinstance(loss, Tensor) else type(loss).__name__
    if not isinstance(loss, Tensor) or not is_floating(loss.dtype) or tuple(loss.shape) not in ((), (1,)):
        raise UsageError(f"the loss must be a tensor with one floating-point number, given {given}")


class TrainingStep(Cell):
    """One step of training.

    In this order: the loss; gradients of the loss over `accumulate`, times the loss scale; their sum over `accumulate`
    calls; division by the loss scale; whether all are finite; scaling down to a norm of `clip_norm`; the optimizer's
    update; the update of the loss scale. A Parameter that the loss doesn't depend on is left as it is, as torch does
    with one whose `grad` is None. A call that isn't the last of `accumulate` only adds its gradients up. With a loss
    scale, an update whose gradients aren't finite is left out.

    Args:
        network: computes the loss of a batch or, with `loss`, an output of all of the batch but its last tensor.
        loss: a Cell or function of that output and the last tensor of the batch; None if there is none.
        optimizer: updates its `parameters`; its own `loss_scale` is 1.
        loss_scaler: the loss scale (`amp.StaticLossScaler`, `amp.DynamicLossScaler`); None for none.
        clip_norm: the largest norm of all gradients together, as torch's `clip_grad_norm_` has it; None for any.
        accumulate: how many calls make an update.
        frozen: those of the optimizer's Parameters that are left as they are.

    Inputs:
        *batch: tensors.

    Outputs:
        A dict: `loss`, not scaled; `overflow`, a 0-d bool tensor: whether the update was left out; by Parameter name,
        `gradients`, unscaled, and `clipped`, as the optimizer gets them.

    Raises:
        TypeError: an argument is of another type.
        ValueError: `clip_norm` isn't above 0, or `accumulate` is below 1.
    """

    _holds_others = True

    def __init__(
        self,
        network: Cell,
        loss: Any,
        optimizer: Optimizer,
        loss_scaler: LossScaler | None = None,
        clip_norm: float | None = None,
        accumulate: int = 1,
        frozen: Sequence[Parameter] = (),
    ) -> None:
        super().__init__(auto_prefix=False)
        of = self.cls_name
        self.network = checks.of_type(network, "network", Cell, of=of)
        self.loss = loss
        self.optimizer = checks.of_type(optimizer, "optimizer", Optimizer, of=of)
        self.loss_scaler = loss_scaler
        if clip_norm is not None:
            checks.in_range(clip_norm, "clip_norm", "(0, inf)", of=of)
        self.clip_norm = clip_norm
        self.accumulate = checks.positive_int(accumulate, "accumulate", of=of)
        left = {id(parameter) for parameter in frozen}
        self.weights = ParameterTuple(p for p in optimizer.parameters if id(p) not in left)
        if accumulate > 1:
            self.calls_made = Parameter(np.zeros((), int32), name="calls_made", requires_grad=False)
            self.gradient_sums = self.weights.clone(prefix="gradient_sum", init="zeros")

    def construct(self, *batch: Any) -> Any:
        """Make a step."""
        scaler = self.loss_scaler

        def forward(*batch: Any) -> tuple[Any, Any]:
            loss = self.network(*batch) if self.loss is None else self.loss(self.network(*batch[:-1]), batch[-1])
            _require_number(loss)
            share = loss if self.accumulate == 1 else loss / self.accumulate
            return share if scaler is None else scaler.scale(share), loss

        found = run_with_gradients(forward, batch, {}, (), tuple(self.weights), has_aux=True)
        (_, loss), gradients = found.outputs, found.weights
        incomplete: Any = False
        if self.accumulate > 1:
            gradients, incomplete = self._accumulated(gradients)
        infinite: Any = False
        if scaler is not None:
            gradients = scaler.unscale(gradients)
            infinite = comparison.logical_not(all_finite(gradients))
            update_unless(incomplete, lambda: scaler.adjust(comparison.logical_not(infinite)))
        clipped = gradients if self.clip_norm is None else clip_by_norm(gradients, self.clip_norm)
        update_unless(_either(incomplete, infinite), lambda: self._update(clipped, found.reached))
        names = [weight.name for weight in self.weights]
        return {
            "loss": loss,
            "overflow": _but_not(infinite, incomplete),
            "gradients": dict(zip(names, gradients, strict=True)),
            "clipped": dict(zip(names, clipped, strict=True)),
        }

    def _accumulated(self, gradients: Sequence[Any]) -> tuple[tuple[Any, ...], Any]:
        """The sum of the gradients of the calls so far, and whether there are calls to come before the update."""
        count = self.calls_made.value() + 1
        incomplete = comparison.less(count, self.accumulate)
        self.calls_made.set_data(elementwise.where(incomplete, count, wrapped(np.zeros((), int32))))
        sums = []
        for held, gradient in zip(self.gradient_sums, gradients, strict=True):
            total = held.value() + gradient
            held.set_data(elementwise.where(incomplete, total, wrapped(np.zeros((), held.dtype))))
            sums.append(total)
        return tuple(sums), incomplete

    def _update(self, gradients: Sequence[Any], reached: Sequence[bool]) -> None:
        """Let the optimizer update its Parameters, but for those that are frozen or that no gradient reached."""
        each = zip(self.weights, gradients, reached, strict=True)
        given = {id(weight): gradient for weight, gradient, arrived in each if arrived}
        kept = [(held, held.value()) for held in self._held_for(given)]
        self.optimizer(tuple(given[id(p)] if id(p) in given else zeros_like(p) for p in self.optimizer.parameters))
        for parameter, value in kept:
            parameter.set_data(value)

    def _held_for(self, given: Mapping[int, Any]) -> Iterator[Parameter]:
        """The optimizer's Parameters that get no gradient, and what it keeps for each of them."""
        trained = self.optimizer.parameters
        tuples = [item for item in vars(self.optimizer).values() if isinstance(item, ParameterTuple)]
        for of_each in (item for item in tuples if len(item) == len(trained)):
            yield from (held for parameter, held in zip(trained, of_each, strict=True) if id(parameter) not in given)


def _either(a: Any, b: Any) -> Any:
    """`a` or `b`: bool tensors, or False."""
    return b if a is False else a if b is False else comparison.logical_or(a, b)


def _but_not(a: Any, b: Any) -> Any:
    """`a` and not `b`, a tensor: of bool tensors, or False."""
    if a is False:
        return Tensor(np.zeros((), bool_))
    return a if b is False else comparison.logical_and(a, comparison.logical_not(b))
