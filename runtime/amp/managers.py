"""Loss scales for Cells that train: managers that say what scale to use, and make the Cell that changes it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from .. import checks
from ..nn.cell import Cell
from ..nn.wrap.loss_scale import DynamicLossScaleUpdateCell, FixedLossScaleUpdateCell
from .scalers import FLOAT32_MAX


class LossScaleManager(ABC):
    """What keeps a loss scale."""

    @abstractmethod
    def get_loss_scale(self) -> float:
        """The scale."""

    @abstractmethod
    def update_loss_scale(self, overflow: Any) -> None:
        """Change the scale after a step that did, or didn't, overflow."""

    @abstractmethod
    def get_update_cell(self) -> Cell | None:
        """A Cell that changes the scale during training; None if the overflow is to be ignored."""


class FixedLossScaleManager(LossScaleManager):
    """A loss scale that stays the same.

    Args:
        loss_scale: the scale, >= 1. Without `drop_overflow_update` the optimizer must be given the same `loss_scale`.
        drop_overflow_update: whether an update is left out if a gradient overflowed.

    Raises:
        TypeError: an argument is of another type.
        ValueError: `loss_scale` is below 1.
    """

    def __init__(self, loss_scale: float = 128.0, drop_overflow_update: bool = True) -> None:
        self._loss_scale = checks.in_range(loss_scale, "loss_scale", "[1, inf)", of=type(self).__name__)
        self._drop_overflow_update = checks.of_type(
            drop_overflow_update, "drop_overflow_update", bool, of=type(self).__name__
        )

    def get_loss_scale(self) -> float:
        """The scale."""
        scale: float = self._loss_scale
        return scale

    def get_drop_overflow_update(self) -> bool:
        """Whether an update is left out if a gradient overflowed."""
        drop: bool = self._drop_overflow_update
        return drop

    def update_loss_scale(self, overflow: Any) -> None:
        """Change nothing."""

    def get_update_cell(self) -> Cell | None:
        """A Cell that leaves the scale alone; None without `drop_overflow_update`."""
        return FixedLossScaleUpdateCell(self._loss_scale) if self._drop_overflow_update else None


class DynamicLossScaleManager(LossScaleManager):
    """A loss scale that falls at an overflow, and rises after a time without.

    Args:
        init_loss_scale: the scale to begin with, >= 1.
        scale_factor: what the scale is divided by at an overflow (down to 1) and multiplied by otherwise, > 0.
        scale_window: after how many steps without overflow it is multiplied.

    Raises:
        TypeError: an argument is of another type.
        ValueError: `init_loss_scale` is below 1, `scale_factor` isn't above 0, or `scale_window` is below 1.
    """

    MAX_OVERFLOWS = 1000

    def __init__(self, init_loss_scale: float = 2**24, scale_factor: float = 2, scale_window: int = 2000) -> None:
        of = type(self).__name__
        self.loss_scale = checks.in_range(init_loss_scale, "init_loss_scale", "[1, inf)", of=of)
        self.scale_factor = checks.in_range(scale_factor, "scale_factor", "(0, inf)", of=of)
        self.scale_window = checks.positive_int(scale_window, "scale_window", of=of)
        self.cur_iter = 1
        self.last_overflow_iter = 0
        self._overflows = 0

    def get_loss_scale(self) -> float:
        """The scale."""
        scale: float = self.loss_scale
        return scale

    def get_drop_overflow_update(self) -> bool:
        """True: an update is left out if a gradient overflowed."""
        return True

    def update_loss_scale(self, overflow: Any) -> None:
        """Lower the scale after an overflow, raise it after every `scale_window` steps without.

        Raises:
            RuntimeError: more than 1000 steps in a row overflowed: the gradients aren't finite at any scale.
        """
        if overflow:
            self.loss_scale = max(self.loss_scale / self.scale_factor, 1)
            self.last_overflow_iter = self.cur_iter
            self._overflows += 1
        else:
            raised = self.loss_scale * self.scale_factor
            is_time = (self.cur_iter - self.last_overflow_iter) % self.scale_window == 0
            if is_time and raised <= FLOAT32_MAX:
                self.loss_scale = raised
            self._overflows = 0
        if self._overflows > self.MAX_OVERFLOWS:
            raise RuntimeError(
                f"gradients overflowed in {self._overflows} steps in a row, down to loss scale {self.loss_scale:g}: "
                "the loss or a gradient isn't finite without a scale either"
            )
        self.cur_iter += 1

    def get_update_cell(self) -> Cell | None:
        """A Cell that changes the scale by the same rule."""
        return DynamicLossScaleUpdateCell(self.loss_scale, self.scale_factor, self.scale_window)
