"""`TrainingStep`: forward, backward, loss scale, accumulation, clipping and update as one Cell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ... import checks
from ...common.dtype import bool_, int32
from ...common.parameter import Parameter, ParameterTuple
from ...common.tensor import Tensor, from_array, zeros_like
from ...eager.backward import run_with_gradients
from ...errors import UsageError
from ...functional.clipping import clip_by_norm
from ...ir.types import is_floating
from ...ops import comparison, elementwise
from ..cell import Cell
from ..optim.optimizer import Optimizer
from .conditional_update import update_unless
from .loss_scalers import LossScaler, all_finite


def _require_number(loss: Any) -> None:
    """Raise `UsageError` unless the loss is a tensor with one floating-point number."""
    description = f"{loss.dtype} of shape {tuple(loss.shape)}" if isinstance(loss, Tensor) else type(loss).__name__
    if not isinstance(loss, Tensor) or not is_floating(loss.dtype) or tuple(loss.shape) not in ((), (1,)):
        raise UsageError(f"the loss must be a tensor with one floating-point number, given {description}")


class TrainingStep(Cell):
    """A training step.

    It computes, in this order: the loss; the gradients of loss / `accumulate` times the loss scale; their sum over
    `accumulate` calls; the division by the loss scale; whether all gradients are finite; clipping to a norm of
    `clip_norm`; the optimizer's update; the update of the loss scale. A Parameter that the loss doesn't depend on stays
    unchanged, like a torch parameter whose `grad` is None. Only the last of every `accumulate` calls updates; the
    others only add to the sums. With a loss scale, an update with non-finite gradients is skipped.

    Args:
        network: computes the loss of a batch or, with `loss`, an output from all tensors of the batch except the last.
        loss: a Cell or function of that output and the last tensor of the batch; None if the network computes the loss.
        optimizer: updates its `parameters`; its own `loss_scale` must be 1.
        loss_scaler: the loss scale (`amp.StaticLossScaler`, `amp.DynamicLossScaler`); None for no scale.
        clip_norm: the largest norm of all gradients together, as in torch's `clip_grad_norm_`; None for no clipping.
        accumulate: the number of calls for one update.
        frozen: Parameters of the optimizer that aren't trained.

    Inputs:
        *batch: tensors.

    Outputs:
        A dict: `loss`, without the loss scale; `overflow`, a 0-d bool tensor: whether the update was skipped;
        `gradients`, a dict of gradients by Parameter name, without the loss scale; and `clipped`, a dict of the
        gradients that the optimizer gets.

    Raises:
        TypeError: an argument has a wrong type.
        ValueError: `clip_norm` isn't above 0, or `accumulate` is below 1.
    """

    _shares_parameters = True

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
        frozen_ids = {id(parameter) for parameter in frozen}
        self.weights = ParameterTuple(p for p in optimizer.parameters if id(p) not in frozen_ids)
        if accumulate > 1:
            self.calls_made = Parameter(np.zeros((), int32), name="calls_made", requires_grad=False)
            self.gradient_sums = self.weights.clone(prefix="gradient_sum", init="zeros")

    def construct(self, *batch: Any) -> Any:
        """Run a step."""
        scaler = self.loss_scaler

        def forward(*batch: Any) -> tuple[Any, Any]:
            loss = self.network(*batch) if self.loss is None else self.loss(self.network(*batch[:-1]), batch[-1])
            _require_number(loss)
            share = loss if self.accumulate == 1 else loss / self.accumulate
            return share if scaler is None else scaler.scale(share), loss

        run = run_with_gradients(forward, batch, {}, (), tuple(self.weights), has_aux=True)
        (_, loss), gradients = run.outputs, run.weights
        incomplete: Any = False
        if self.accumulate > 1:
            gradients, incomplete = self._accumulate(gradients)
        infinite: Any = False
        if scaler is not None:
            gradients = scaler.unscale(gradients)
            infinite = comparison.logical_not(all_finite(gradients))
            update_unless(incomplete, lambda: scaler.adjust(comparison.logical_not(infinite)))
        clipped = gradients if self.clip_norm is None else clip_by_norm(gradients, self.clip_norm)
        update_unless(_either(incomplete, infinite), lambda: self._update(clipped, run.has_gradient))
        names = [weight.name for weight in self.weights]
        return {
            "loss": loss,
            "overflow": _and_not(infinite, incomplete),
            "gradients": dict(zip(names, gradients, strict=True)),
            "clipped": dict(zip(names, clipped, strict=True)),
        }

    def _accumulate(self, gradients: Sequence[Any]) -> tuple[tuple[Any, ...], Any]:
        """Return the sum of the gradients of the calls so far, and whether more calls come before the update."""
        count = self.calls_made.value() + 1
        incomplete = comparison.less(count, self.accumulate)
        self.calls_made.set_data(elementwise.where(incomplete, count, from_array(np.zeros((), int32))))
        sums = []
        for previous, gradient in zip(self.gradient_sums, gradients, strict=True):
            total = previous.value() + gradient
            previous.set_data(elementwise.where(incomplete, total, from_array(np.zeros((), previous.dtype))))
            sums.append(total)
        return tuple(sums), incomplete

    def _update(self, gradients: Sequence[Any], has_gradient: Sequence[bool]) -> None:
        """Let the optimizer update its Parameters, except frozen ones and those without a gradient."""
        entries = zip(self.weights, gradients, has_gradient, strict=True)
        by_id = {id(weight): gradient for weight, gradient, has_one in entries if has_one}
        unchanged = [(parameter, parameter.value()) for parameter in self._untouched_state(by_id)]
        self.optimizer(tuple(by_id[id(p)] if id(p) in by_id else zeros_like(p) for p in self.optimizer.parameters))
        for parameter, value in unchanged:
            parameter.set_data(value)

    def _untouched_state(self, gradients: Mapping[int, Any]) -> Iterator[Parameter]:
        """Yield the optimizer's Parameters that get no gradient, and its state for each of them."""
        trained = self.optimizer.parameters
        tuples = [item for item in vars(self.optimizer).values() if isinstance(item, ParameterTuple)]
        for states in (item for item in tuples if len(item) == len(trained)):
            yield from (s for parameter, s in zip(trained, states, strict=True) if id(parameter) not in gradients)


def _either(a: Any, b: Any) -> Any:
    """Return `a or b`, for bool tensors or False."""
    return b if a is False else a if b is False else comparison.logical_or(a, b)


def _and_not(a: Any, b: Any) -> Any:
    """Return `a and not b` as a tensor, for bool tensors or False."""
    if a is False:
        return Tensor(np.zeros((), bool_))
    return a if b is False else comparison.logical_and(a, comparison.logical_not(b))
