"""Managers of loss scales for training Cells: they provide the scale, and the Cell that changes it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from .. import checks
from ..nn.cell import Cell
from ..nn.wrap.loss_scale import DynamicLossScaleUpdateCell, FixedLossScaleUpdateCell
from ..nn.wrap.loss_scalers import FLOAT32_MAX


class LossScaleManager(ABC):
    """The base class of loss scale managers."""

    @abstractmethod
    def get_loss_scale(self) -> float:
        """Return the scale."""

    @abstractmethod
    def update_loss_scale(self, overflow: Any) -> None:
        """Update the scale after a step with or without overflow."""

    @abstractmethod
    def get_update_cell(self) -> Cell | None:
        """Return the Cell that changes the scale during training; None to ignore overflows."""


class FixedLossScaleManager(LossScaleManager):
    """A constant loss scale.

    Args:
        loss_scale: the scale, >= 1. Without `drop_overflow_update`, the optimizer must have the same `loss_scale`.
        drop_overflow_update: whether to skip an update if a gradient overflowed.

    Raises:
        TypeError: an argument has a wrong type.
        ValueError: `loss_scale` is below 1.
    """

    def __init__(self, loss_scale: float = 128.0, drop_overflow_update: bool = True) -> None:
        self._loss_scale = checks.in_range(loss_scale, "loss_scale", "[1, inf)", of=type(self).__name__)
        self._drop_overflow_update = checks.of_type(
            drop_overflow_update, "drop_overflow_update", bool, of=type(self).__name__
        )

    def get_loss_scale(self) -> float:
        """Return the scale."""
        scale: float = self._loss_scale
        return scale

    def get_drop_overflow_update(self) -> bool:
        """Whether to skip an update if a gradient overflowed."""
        drop: bool = self._drop_overflow_update
        return drop

    def update_loss_scale(self, overflow: Any) -> None:
        """Do nothing."""

    def get_update_cell(self) -> Cell | None:
        """Return a Cell that keeps the scale constant; None without `drop_overflow_update`."""
        return FixedLossScaleUpdateCell(self._loss_scale) if self._drop_overflow_update else None


class DynamicLossScaleManager(LossScaleManager):
    """A loss scale that falls after an overflow, and rises after a number of steps without one.

    Args:
        init_loss_scale: the initial scale, >= 1.
        scale_factor: > 0; the scale is divided by it after an overflow, down to 1, and multiplied by it when it rises.
        scale_window: the number of steps without overflow after which the scale rises.

    Raises:
        TypeError: an argument has a wrong type.
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
        """Return the scale."""
        scale: float = self.loss_scale
        return scale

    def get_drop_overflow_update(self) -> bool:
        """Return True: an update is skipped if a gradient overflowed."""
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
            larger = self.loss_scale * self.scale_factor
            is_time = (self.cur_iter - self.last_overflow_iter) % self.scale_window == 0
            if is_time and larger <= FLOAT32_MAX:
                self.loss_scale = larger
            self._overflows = 0
        if self._overflows > self.MAX_OVERFLOWS:
            raise RuntimeError(
                f"gradients overflowed in {self._overflows} steps in a row, down to loss scale {self.loss_scale:g}: "
                "the loss or a gradient isn't finite without a scale either"
            )
        self.cur_iter += 1

    def get_update_cell(self) -> Cell | None:
        """Return a Cell that changes the scale by the same rule."""
        return DynamicLossScaleUpdateCell(self.loss_scale, self.scale_factor, self.scale_window)
