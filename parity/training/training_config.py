"""`TrainingConfig`: how a network is trained, in words that torch and our runtime both understand."""

from __future__ import annotations

import copy
import fnmatch
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np

from ...runtime.errors import UsageError

if TYPE_CHECKING:
    from ...runtime.amp.scalers import DynamicLossScaler
    from ...runtime.common.parameter import Parameter
    from ...runtime.nn.optim.optimizer import Optimizer

OPTIMIZERS: dict[str, tuple[str, dict[str, Any], tuple[str, ...]]] = {
    "sgd": ("SGD", {}, ()),
    "momentum": ("SGD", {"momentum": 0.9}, ("momentum_buffer",)),
    "nesterov": ("SGD", {"momentum": 0.9, "nesterov": True}, ("momentum_buffer",)),
    "adam": ("Adam", {}, ("exp_avg", "exp_avg_sq")),
    "adamw": ("AdamW", {}, ("exp_avg", "exp_avg_sq")),
}
"""By name: the class in `torch.optim` and in `runtime.optim`, its arguments, and what it keeps for each Parameter."""

DYNAMIC = "dynamic"


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
        steps: how many updates are made.
        optimizer: one of `OPTIMIZERS`, in small or capital letters.
        lr: learning rate.
        weight_decay: None for the optimizer's own (0.01 of AdamW, else 0).
        loss_scale: a number, which stays; "dynamic", which begins and moves as torch's `GradScaler`; a
            `DynamicLossScaler`, which begins and moves as it says; None for none. With a scale, an update whose
            gradients aren't finite is left out.
        clip_norm: the largest norm of all gradients together; None for any.
        accumulate: how many batches make one update, with the mean of their gradients.
        frozen: patterns (`layer1.*`) of names of parameters that aren't trained.

    Raises:
        UsageError: a field is of another kind or out of range.
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
            object.__setattr__(self, "optimizer", self.optimizer.lower())  # as torch's classes are written, too
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
            if isinstance(number, (int, float)) and not least <= number <= float(np.finfo(np.float32).max):
                raise UsageError(f"{name} must be a number from {least} to what float32 holds, given {number!r}")
        if isinstance(self.frozen, str):
            raise UsageError(f"frozen is a list of patterns, given the string {self.frozen!r}: write [{self.frozen!r}]")

    @property
    def batches(self) -> int:
        """How many batches it takes."""
        return self.steps * self.accumulate

    @property
    def kept(self) -> tuple[str, ...]:
        """What the optimizer keeps for each parameter, as torch calls it."""
        return OPTIMIZERS[self.optimizer][2]

    def is_frozen(self, name: str) -> bool:
        """Whether the parameter of that name isn't trained."""
        return any(fnmatch.fnmatchcase(name, pattern) for pattern in self.frozen)

    def made_in(self, module: Any, parameters: Sequence[Any]) -> Any:
        """The optimizer for these parameters; `module` is `torch.optim` or `runtime.optim`."""
        name, arguments, _ = OPTIMIZERS[self.optimizer]
        decay = {} if self.weight_decay is None else {"weight_decay": self.weight_decay}
        return getattr(module, name)(parameters, lr=self.lr, **arguments, **decay)

    def step_arguments(self) -> dict[str, Any]:
        """What `runtime.training_step` and `runtime.compile_train_step` take besides the network and the loss."""
        from ...runtime import optim

        def optimizer(parameters: list[Parameter]) -> Optimizer:
            made: Optimizer = self.made_in(optim, parameters)
            return made

        return {
            "optimizer": optimizer,
            "loss_scale": copy.deepcopy(self.loss_scale),  # a scaler is changed by the step that it is given to
            "clip_norm": self.clip_norm,
            "accumulate": self.accumulate,
            "frozen": self.frozen,
        }

    def __str__(self) -> str:
        said = [f"{self.optimizer}, learning rate {self.lr:g}"]
        said += [] if self.weight_decay is None else [f"weight decay {self.weight_decay:g}"]
        if self.loss_scale is not None:
            scale = self.loss_scale
            said.append(f"loss scale {scale if isinstance(scale, (int, float)) else DYNAMIC}")
        said += [] if self.clip_norm is None else [f"gradients clipped to a norm of {self.clip_norm:g}"]
        said += [f"{self.accumulate} batches per step"] if self.accumulate > 1 else []
        said += [f"frozen: {', '.join(self.frozen)}"] if self.frozen else []
        return "; ".join(said)
