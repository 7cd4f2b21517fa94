"""`LossCalls`: the loss functions of torch that a script calls, recorded or called otherwise."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.nn import functional
from torch.nn._reduction import legacy_get_string
from torch.overrides import TorchFunctionMode

from ....support.user_code import calling_line

LOSSES = {
    function.__name__: function
    for function in (
        functional.binary_cross_entropy, functional.binary_cross_entropy_with_logits, functional.cross_entropy,
        functional.huber_loss, functional.kl_div, functional.l1_loss, functional.mse_loss, functional.nll_loss,
        functional.smooth_l1_loss,
    )
}  # fmt: skip
"""The loss functions, each of predictions, a target and settings, by name."""

LEGACY = ("size_average", "reduce")
"""Arguments of which torch makes `reduction`."""


@dataclass(frozen=True)
class LossCall:
    """A call of a loss function.

    Attributes:
        name: of the function in `torch.nn.functional`.
        predictions: its first argument.
        target: its second argument.
        settings: the other arguments by name, with defaults.
        source: file, line and text of the call; empty if unknown.
    """

    name: str
    predictions: torch.Tensor
    target: torch.Tensor
    settings: Mapping[str, Any]
    source: str = ""

    def run(self) -> torch.Tensor:
        """Call the function."""
        result: torch.Tensor = LOSSES[self.name](self.predictions, self.target, **self.settings)
        return result

    def with_settings(self, **settings: Any) -> LossCall:
        """Return the call with other settings."""
        return replace(self, settings={**self.settings, **settings})


@dataclass(frozen=True)
class RecordedLoss:
    """What is kept of a call of a loss function.

    Attributes:
        name: of the function in `torch.nn.functional`.
        settings: the arguments besides predictions and target, with defaults.
        shape: of the predictions.
        target: a copy of the target.
        offset: how many labels after an output its label is; None if unknown, see `offset_of`.
        source: file, line and text of the call; empty if unknown.
    """

    name: str
    settings: Mapping[str, Any]
    shape: tuple[int, ...]
    target: torch.Tensor
    offset: int | None
    source: str


@dataclass(frozen=True)
class Surroundings:
    """What a loss function might have been called with.

    Attributes:
        outputs: the floating-point tensors that the network returned last.
        labels: the tensors of integers in the batches.
    """

    outputs: tuple[torch.Tensor, ...]
    labels: tuple[torch.Tensor, ...]


Change = Callable[[LossCall, int, Surroundings], LossCall | torch.Tensor]
"""Returns the call to make instead, or its result; gets a call, its number, from 0, and what surrounds it."""


class LossCalls(TorchFunctionMode):
    """A mode that records the calls of loss functions, and may change what they return.

    Args:
        change: returns what is called instead; None for what the script calls.
        record: is called with each call and what surrounds it.
    """

    def __init__(self, change: Change | None, record: Callable[[LossCall, Surroundings], None]) -> None:
        super().__init__()
        self.change = change
        self.record = record
        self.count = 0
        self.surroundings = Surroundings((), ())

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        keywords = kwargs or {}
        call = _bind(func, args, keywords) if func in LOSSES.values() else None
        if call is None:
            return func(*args, **keywords)
        self.record(call, self.surroundings)
        self.count += 1
        if self.change is None:
            return func(*args, **keywords)
        changed = self.change(call, self.count - 1, self.surroundings)
        return changed.run() if isinstance(changed, LossCall) else changed


def _bind(func: Any, args: Any, kwargs: Any) -> LossCall | None:
    """Return the call of a loss function; None where its arguments aren't those of its signature."""
    try:
        bound = inspect.signature(func).bind(*args, **kwargs)
    except TypeError:  # torch raises its own error
        return None
    bound.apply_defaults()
    (_, predictions), (_, target), *rest = bound.arguments.items()
    if not isinstance(predictions, torch.Tensor) or not isinstance(target, torch.Tensor):
        return None
    settings = dict(rest)
    legacy = [settings.pop(name, None) for name in LEGACY]
    if legacy != [None, None]:
        settings["reduction"] = legacy_get_string(*legacy)
    return LossCall(func.__name__, predictions, target, settings, calling_line())
