"""What torch must know of a recurrent layer while it is traced: the shapes of its results, of any number of steps."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

_LAYERS = (
    torch.ops.aten.lstm.input,
    torch.ops.aten.gru.input,
    torch.ops.aten.rnn_tanh.input,
    torch.ops.aten.rnn_relu.input,
)
_KEYS = (torch._C.DispatchKey.CompositeImplicitAutograd, torch._C.DispatchKey.Autograd)


@contextlib.contextmanager
def any_number_of_steps() -> Iterator[None]:
    """Within the context, recurrent layers that are traced aren't run step by step to find the shapes of their results.

    torch would do so, and fix the number of steps at that of the example inputs.
    """
    held = {layer: dict(layer.py_kernels) for layer in _LAYERS}
    try:
        for layer in _LAYERS:
            layer.py_kernels.update(dict.fromkeys(_KEYS, _results))
            layer._dispatch_cache.clear()
        yield
    finally:
        for layer, kernels in held.items():
            layer.py_kernels.clear()
            layer.py_kernels.update(kernels)
            layer._dispatch_cache.clear()


def _results(input: Tensor, hx: Tensor | list[Tensor], *settings: Any) -> tuple[Tensor, ...]:
    """The outputs of all steps, (time, batch, directions * hidden) or batch first, and the last states, as `hx`."""
    states = [hx] if isinstance(hx, Tensor) else hx
    bidirectional = settings[-2]
    outputs = input.new_empty(*input.shape[:2], states[0].shape[2] * (2 if bidirectional else 1))
    return outputs, *(torch.empty_like(state) for state in states)
