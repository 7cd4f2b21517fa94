"""A training step with a loss scale that adapts to overflows of the gradients."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import checks
from ...common.dtype import float32, int32
from ...common.parameter import Parameter
from ...common.tensor import Tensor
from ...functional.operands import as_tensor
from ...ops import elementwise, shaping
from ..cell import Cell
from .cell_wrapper import TrainOneStepCell
from .conditional_update import update_unless
from .loss_scalers import adjust_scale, all_finite, inverse, scale_tensors


class DynamicLossScaleUpdateCell(Cell):
    """Lowers a loss scale after an overflow, and raises it after a number of steps without one.

    Args:
        loss_scale_value: the initial scale.
        scale_factor: > 0; the scale is divided by it after an overflow, down to 1, and multiplied by it when it rises.
        scale_window: the number of steps without overflow after which the scale rises.

    Inputs:
        loss_scale: the Parameter to change.
        overflow: bool tensor: whether this step overflowed.

    Outputs:
        `overflow`.

    Raises:
        TypeError: an argument has a wrong type.
        ValueError: `scale_factor` isn't above 0, or `scale_window` is below 1.
    """

    def __init__(self, loss_scale_value: float, scale_factor: float, scale_window: int) -> None:
        super().__init__()
        self.loss_scale_value = loss_scale_value
        self.scale_factor = checks.in_range(scale_factor, "scale_factor", "(0, inf)", of=self.cls_name)
        self.scale_window = checks.positive_int(scale_window, "scale_window", of=self.cls_name)
        self.cur_iter = Parameter(np.asarray(1, int32), name="current_iterator_step")
        self.last_overflow_iter = Parameter(np.asarray(0, int32), name="last_overflow_iterator_step")

    def get_loss_scale(self) -> float:
        """Return the initial scale."""
        return self.loss_scale_value

    def construct(self, loss_scale: Parameter, overflow: Any) -> Any:
        """Change the scale."""
        overflowed = shaping.reshape(as_tensor(overflow, "overflow", of=self.cls_name), shape=())
        step, last = self.cur_iter.value(), self.last_overflow_iter.value()
        due = step - last >= self.scale_window
        loss_scale.set_data(adjust_scale(loss_scale, overflowed, due, self.scale_factor))
        self.last_overflow_iter.set_data(elementwise.where(overflowed.logical_or(due), step, last))
        self.cur_iter.set_data(step + 1)
        return overflow


class FixedLossScaleUpdateCell(Cell):
    """Keeps a loss scale constant.

    Args:
        loss_scale_value: the scale.

    Inputs:
        loss_scale: Parameter.
        overflow: bool tensor: whether this step overflowed.

    Outputs:
        `overflow`.
    """

    def __init__(self, loss_scale_value: float) -> None:
        super().__init__()
        self.loss_scale_value = loss_scale_value

    def get_loss_scale(self) -> float:
        """Return the scale."""
        return self.loss_scale_value

    def construct(self, loss_scale: Parameter, overflow: Any) -> Any:
        """Return `overflow`."""
        return overflow


class TrainOneStepWithLossScaleCell(TrainOneStepCell):
    """A training step with a loss scale: gradients are unscaled, and the update is skipped if one overflowed.

    Args:
        network: the Cell that computes the loss, e.g. a `WithLossCell`.
        optimizer: updates its `parameters`; its `loss_scale` must be 1, because the gradients it gets are unscaled.
        scale_sense: the scale, a tensor of shape () or (1,); or a Cell that changes it after each step
            (`DynamicLossScaleUpdateCell`, `FixedLossScaleUpdateCell`).

    Inputs:
        *inputs: inputs of the network.

    Outputs:
        The unscaled loss; a 0-d bool tensor: whether a gradient overflowed; the scale of this step.

    Raises:
        TypeError: `scale_sense` is neither a tensor nor a Cell.
        ValueError: `scale_sense` is a tensor of another shape.
    """

    def __init__(self, network: Cell, optimizer: Any, scale_sense: Any) -> None:
        super().__init__(network, optimizer)
        self.loss_scaling_manager = None
        if isinstance(scale_sense, Cell):
            self.loss_scaling_manager = scale_sense
            scale_sense = Tensor(scale_sense.get_loss_scale(), float32)
        elif not isinstance(scale_sense, Tensor):
            raise TypeError(
                f"For '{self.cls_name}', 'scale_sense' must be a Tensor or a Cell, but got "
                f"{type(scale_sense).__name__}: {scale_sense!r}"
            )
        if scale_sense.shape not in ((), (1,)):
            raise ValueError(
                f"For '{self.cls_name}', 'scale_sense' must have shape () or (1,), but got {scale_sense.shape}"
            )
        self.scale_sense = Parameter(scale_sense, name="scale_sense")

    def construct(self, *inputs: Any) -> Any:
        """Run a step, and return the loss, whether there was an overflow, and the scale."""
        scale = self.scale_sense.copy()
        loss, gradients = self.loss_and_gradients(inputs, scale)
        gradients = self.grad_reducer(scale_tensors(gradients, inverse(scale)))
        overflow = self.get_overflow_status(None, gradients)
        update_unless(self.process_loss_scale(overflow), lambda: self.optimizer(gradients))
        return loss, overflow, scale

    def set_sense_scale(self, sens: Tensor) -> None:
        """Replace the scale; `TypeError` if `sens` isn't a tensor."""
        self.scale_sense.set_data(checks.of_type(sens, "sens", Tensor, of="set_sense_scale"))

    def get_overflow_status(self, status: Any, compute_output: Any) -> Tensor:
        """Return whether an element of the tensors `compute_output` isn't finite, as a 0-d bool tensor.

        `status` is ignored.
        """
        overflow: Tensor = all_finite(compute_output).logical_not()
        return overflow

    def process_loss_scale(self, overflow: Any) -> Any:
        """Let the Cell that manages the scale, if any, change it; return whether to skip the update."""
        if self.loss_scaling_manager is not None:
            return self.loss_scaling_manager(self.scale_sense, overflow)
        return overflow
