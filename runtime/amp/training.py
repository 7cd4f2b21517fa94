"""`build_train_network`: combines a network, its loss and an optimizer in one Cell that trains in mixed precision."""

from __future__ import annotations

from typing import Any

from .. import checks
from ..common.dtype import float16, float32
from ..nn.cell import Cell
from ..nn.optim.optimizer import Optimizer
from ..nn.wrap.cell_wrapper import TrainOneStepCell, WithLossCell
from ..nn.wrap.loss_scale import TrainOneStepWithLossScaleCell
from .managers import DynamicLossScaleManager, LossScaleManager
from .mixed_precision import LEVELS, auto_mixed_precision, cast_floating


class _WithLossInFloat32(WithLossCell):
    """A network with its loss, which is computed in float32."""

    def construct(self, data: Any, label: Any) -> Any:
        """The loss."""
        return self._loss_fn(cast_floating(self._backbone(data), float32), cast_floating(label, float32))


def build_train_network(
    network: Cell,
    optimizer: Optimizer,
    loss_fn: Cell | None = None,
    level: str = "O0",
    boost_level: str = "O0",
    **kwargs: Any,
) -> Cell:
    """Build the Cell of a training step, in training mode.

    Args:
        network: the network; without `loss_fn` its output is the loss.
        optimizer: updates its `parameters`.
        loss_fn: computes the loss from the network's output and the label, in float32 for levels above "O1".
        level: see `auto_mixed_precision`.
        boost_level: only "O0" is supported.
        **kwargs: override the settings of the level: `cast_model_type`, float16 or float32: the compute dtype;
            `keep_batchnorm_fp32`: whether Cells of the black list then compute in float32; `loss_scale_manager`: a
            `LossScaleManager`, or None for no loss scale ("O2" has a `DynamicLossScaleManager`, the others none).

    Returns:
        A `TrainOneStepWithLossScaleCell` if there is a loss scale and updates are skipped after an overflow, otherwise
        a `TrainOneStepCell`.

    Raises:
        TypeError: an argument has a wrong type.
        ValueError: a level or a keyword argument is unknown.
    """
    of = "build_train_network"
    checks.of_type(optimizer, "optimizer", Optimizer, of=of)
    checks.one_of(level, "level", LEVELS, of=of)
    checks.one_of(boost_level, "boost_level", ("O0",), of=of)
    for name in kwargs:
        checks.one_of(name, "kwargs", ("cast_model_type", "keep_batchnorm_fp32", "loss_scale_manager"), of=of)
    requested, level = level, _level(level, kwargs)
    network = auto_mixed_precision(network, level)
    if loss_fn is not None:
        checks.of_type(loss_fn, "loss_fn", Cell, of=of)
        with_loss = _WithLossInFloat32 if level in ("O2", "O3", "auto") else WithLossCell
        network = with_loss(network, loss_fn)
    manager = kwargs.get("loss_scale_manager", DynamicLossScaleManager() if requested == "O2" else None)
    if manager is None:
        return TrainOneStepCell(network, optimizer).set_train()
    checks.of_type(manager, "loss_scale_manager", LossScaleManager, of=of)
    update = manager.get_update_cell()
    if update is None:
        return TrainOneStepCell(network, optimizer, manager.get_loss_scale()).set_train()
    return TrainOneStepWithLossScaleCell(network, optimizer, update).set_train()


def _level(level: str, kwargs: dict[str, Any]) -> str:
    """Return the level with the settings of the keyword arguments."""
    if "cast_model_type" not in kwargs and "keep_batchnorm_fp32" not in kwargs:
        return level
    model_type = kwargs.get("cast_model_type", float16 if level in ("O2", "O3") else float32)
    checks.one_of(model_type, "cast_model_type", (float16, float32), of="build_train_network")
    keep = kwargs.get("keep_batchnorm_fp32", level == "O2")
    checks.of_type(keep, "keep_batchnorm_fp32", bool, of="build_train_network")
    if model_type == float16:
        return "O2" if keep else "O3"
    return "O0" if level in ("O2", "O3") else level
