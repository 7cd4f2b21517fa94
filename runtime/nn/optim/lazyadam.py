"""LazyAdam: here the same as Adam, since gradients are dense."""

from __future__ import annotations

from typing import Any

from .adam import Adam


class LazyAdam(Adam):
    """Adam that skips rows without a gradient if gradients are sparse; since they are dense here, it equals `Adam`.

    Arguments, inputs, outputs and errors are those of `Adam`.
    """

    def __init__(
        self, params: Any, learning_rate: Any = 1e-3, beta1: float = 0.9, beta2: float = 0.999, eps: float = 1e-8,
        use_locking: bool = False, use_nesterov: bool = False, weight_decay: Any = 0.0, loss_scale: float = 1.0,
    ) -> None:  # fmt: skip
        super().__init__(params, learning_rate, beta1, beta2, eps, use_locking, use_nesterov, weight_decay, loss_scale)
