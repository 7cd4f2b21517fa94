"""`TrainingConfig`: how a network is trained, in terms that apply to torch and the runtime alike."""

from __future__ import annotations

import copy
import fnmatch
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypedDict

from ....runtime.errors import UsageError

if TYPE_CHECKING:
    from ....runtime.common.parameter import Parameter
    from ....runtime.nn.optim.optimizer import Optimizer
    from ....runtime.nn.wrap.loss_scalers import DynamicLossScaler

OPTIMIZERS: dict[str, tuple[str, dict[str, Any], tuple[str, ...]]] = {
    "sgd": ("SGD", {}, ()),
    "momentum": ("SGD", {"momentum": 0.9}, ("momentum_buffer",)),
    "nesterov": ("SGD", {"momentum": 0.9, "nesterov": True}, ("momentum_buffer",)),
    "adam": ("Adam", {}, ("exp_avg", "exp_avg_sq")),
    "adamw": ("AdamW", {}, ("exp_avg", "exp_avg_sq")),
}
"""By name: class in `torch.optim` and `runtime.optim`, arguments, and names of its state tensors per Parameter."""

DYNAMIC = "dynamic"
LARGEST = (2 - 2.0**-23) * 2.0**127
"""The largest number in float32, which the optimizers compute in."""


class TrainingConfigKeywords(TypedDict, total=False):
    """The fields of `TrainingConfig` as keyword-only parameters of the public functions."""

    steps: int
    optimizer: str
    lr: float
    weight_decay: float | None
    loss_scale: float | str | DynamicLossScaler | None
    clip_norm: float | None
    accumulate: int
    frozen: Sequence[str]


@dataclass(frozen=True)
class TrainingConfig:
    """How a network is trained.

    Attributes:
        steps: number of updates.
        optimizer: one of `OPTIMIZERS`, in any case.
        lr: learning rate.
        weight_decay: None for the optimizer's default (0.01 for AdamW, else 0).
        loss_scale: a constant number; "dynamic" for the start and updates of torch's `GradScaler`; a
            `DynamicLossScaler` for its own start and updates; None for none. With a scale, an update whose gradients
            aren't finite is skipped.
        clip_norm: the largest norm of all gradients together; None for no limit.
        accumulate: number of batches per update, which uses the mean of their gradients.
        frozen: patterns (`layer1.*`) of names of parameters that aren't trained.

    Raises:
        UsageError: a field has the wrong type or is out of range.
    """

    steps: int = 3
    optimizer: str = "adamw"
    lr: float = 1e-3
    weight_decay: float | None = None
    loss_scale: float | str | DynamicLossScaler | None = None
    clip_norm: float | None = None
    accumulate: int = 1
    frozen: Sequence[str] = ()

    def __post_init__(self) -> None:
        if isinstance(self.optimizer, str):
            object.__setattr__(self, "optimizer", self.optimizer.lower())  # torch's class names are accepted too
        if self.optimizer not in OPTIMIZERS:
            raise UsageError(f"optimizer must be one of {', '.join(OPTIMIZERS)}, given {self.optimizer!r}")
        for name in ("steps", "accumulate"):
            number = getattr(self, name)
            if not isinstance(number, int) or number < 1:
                raise UsageError(f"{name} must be a whole number of at least 1, given {number!r}")
        if isinstance(self.loss_scale, str) and self.loss_scale != DYNAMIC:
            raise UsageError(f"loss_scale must be a number, {DYNAMIC!r} or None, given {self.loss_scale!r}")
        for name, least in (("lr", 0), ("weight_decay", 0), ("clip_norm", 0), ("loss_scale", 1)):
            number = getattr(self, name)
            if isinstance(number, (int, float)) and not least <= number <= LARGEST:
                raise UsageError(f"{name} must be a number from {least} to what float32 holds, given {number!r}")
        if isinstance(self.frozen, str):
            raise UsageError(f"frozen is a list of patterns, given the string {self.frozen!r}: write [{self.frozen!r}]")

    @property
    def batches(self) -> int:
        """Number of batches that the training uses."""
        return self.steps * self.accumulate

    @property
    def state_names(self) -> tuple[str, ...]:
        """Names of the optimizer's state tensors for each parameter, as in torch."""
        return OPTIMIZERS[self.optimizer][2]

    def is_frozen(self, name: str) -> bool:
        """Whether the parameter of that name is frozen."""
        return any(fnmatch.fnmatchcase(name, pattern) for pattern in self.frozen)

    def make_optimizer(self, module: Any, parameters: Sequence[Any]) -> Any:
        """Return the optimizer for these parameters; `module` is `torch.optim` or `runtime.optim`."""
        name, arguments, _ = OPTIMIZERS[self.optimizer]
        decay = {} if self.weight_decay is None else {"weight_decay": self.weight_decay}
        return getattr(module, name)(parameters, lr=self.lr, **arguments, **decay)

    def step_arguments(self) -> dict[str, Any]:
        """Arguments of `runtime.training_step` and `runtime.compile_train_step` besides the network and the loss."""
        from ....runtime import optim

        def optimizer(parameters: list[Parameter]) -> Optimizer:
            result: Optimizer = self.make_optimizer(optim, parameters)
            return result

        return {
            "optimizer": optimizer,
            "loss_scale": copy.deepcopy(self.loss_scale),  # the step changes its scaler
            "clip_norm": self.clip_norm,
            "accumulate": self.accumulate,
            "frozen": self.frozen,
        }

    def __str__(self) -> str:
        parts = [f"{self.optimizer}, learning rate {self.lr:g}"]
        parts += [] if self.weight_decay is None else [f"weight decay {self.weight_decay:g}"]
        if self.loss_scale is not None:
            scale = self.loss_scale
            parts.append(f"loss scale {scale if isinstance(scale, (int, float)) else DYNAMIC}")
        parts += [] if self.clip_norm is None else [f"gradients clipped to a norm of {self.clip_norm:g}"]
        parts += [f"{self.accumulate} batches per step"] if self.accumulate > 1 else []
        parts += [f"frozen: {', '.join(self.frozen)}"] if self.frozen else []
        return "; ".join(parts)
