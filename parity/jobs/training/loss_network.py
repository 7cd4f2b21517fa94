"""A module and its loss as one network, and its program."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes

from ....converter.dtypes import is_inexact
from ....runtime import tree
from ....runtime.errors import UsageError
from ....runtime.ir.program import Program
from ...dtypes import HALVES
from ...options import Options
from ...sides.torch_program import capture_program

Loss = Callable[[Any], torch.Tensor]

INSIDE = "network."
"""The prefix of the names of the module's parameters in `LossNetwork`."""


def mean_square(outputs: Any) -> torch.Tensor:
    """The mean of the squares of all floating-point outputs, which is the default loss.

    Raises:
        UsageError: no output is floating-point.
    """
    tensors = [x for x in pytree.tree_leaves(outputs) if isinstance(x, torch.Tensor) and is_inexact(x)]
    if not tensors:
        raise UsageError("the model has no floating-point output to make a loss of: give loss(outputs)")
    real = [torch.view_as_real(x.resolve_conj()) if x.is_complex() else x for x in tensors]
    sums = [x.float().square().sum() for x in real]
    return torch.stack(sums).sum() / sum(x.numel() for x in real)


class LossNetwork(torch.nn.Module):
    """A module followed by its loss.

    Args:
        module: the module to train.
        loss: maps the module's result to a scalar; None for `mean_square`.
        autocast: dtype of torch's autocast for module and loss; None for no autocast.
    """

    def __init__(self, module: torch.nn.Module, loss: Loss | None, autocast: torch.dtype | None) -> None:
        super().__init__()
        self.network = module
        self.loss = loss or mean_square
        self.autocast = autocast
        self.training = module.training  # so that the modes of the whole don't look mixed

    def forward(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        """Return the loss of a batch."""
        with contextlib.nullcontext() if self.autocast is None else torch.autocast("cpu", dtype=self.autocast):
            outputs = self.network(*args, **kwargs)
            with SeededDraws():
                return self.loss(outputs)


def with_signature(network: LossNetwork) -> LossNetwork:
    """Give `forward` the signature of the module's, by whose names torch.export identifies axes."""

    def forward(self: LossNetwork, *args: Any, **kwargs: Any) -> torch.Tensor:
        return LossNetwork.forward(self, *args, **kwargs)

    itself = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    signature = inspect.signature(network.network.forward)
    forward.__signature__ = signature.replace(parameters=[itself, *signature.parameters.values()])  # type: ignore[attr-defined]
    network.__class__ = type("LossNetwork", (LossNetwork,), {"forward": forward})
    return network


class SeededDraws(TorchFunctionMode):
    """A mode in which random numbers from the user's own generator (labels, ...) are data, not part of the network."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        keywords = kwargs or {}
        if isinstance(keywords.get("generator"), torch.Generator):
            with _disable_current_modes():
                return func(*args, **keywords)
        return func(*args, **keywords)


def loss_program(
    module: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None = None,
    *,
    loss: Loss | None = None,
    dtype: str = "float32",
    dynamic_shapes: Any = None,
) -> Program:
    """Return the program of a module and its loss, in train mode.

    It takes the tensors of a batch by position, and returns the loss. Its parameters and buffers have their names in
    the module.

    Args:
        module: the module to train; it is left unchanged.
        args: positional example inputs.
        kwargs: keyword example inputs.
        loss: maps the module's result to a scalar; None for `mean_square`.
        dtype: "float32" or "float64"; or "float16" or "bfloat16" for torch's autocast, with parameters in float32.
        dynamic_shapes: axes that may vary, as for `from_torch`.

    Raises:
        UsageError: the inputs don't fit the module, or the loss isn't a scalar.
        ConversionError: the module or its loss can't be converted.
    """
    for name, parameter in module.named_parameters():
        if parameter._backward_hooks or getattr(parameter, "_post_accumulate_grad_hooks", None):
            raise UsageError(
                f"parameter '{name}' has a hook, which changes its gradient outside of the network: a "
                "training program can't include it; move its effect into the loss or the optimizer, and remove the hook"
            )
    autocast = autocast_dtype(dtype)
    network = with_signature(LossNetwork(module, loss, autocast))
    options = Options(dtype="float32" if autocast is not None else dtype, train=True)
    try:
        program = capture_program(network, args, dict(kwargs or {}), dynamic_shapes, options.dtype, options.train)
    except UsageError as error:
        if autocast is None:
            raise
        raise UsageError(f"{under_autocast(dtype)}{error}") from error
    if program.result != tree.TENSOR or program.outputs[0].type.sizes not in ((), (1,)):
        types = ", ".join(str(value.type) for value in program.outputs) or "no tensor"
        raise UsageError(f"loss(outputs) must return a scalar tensor; it returned {types}")
    parameters = {
        _outside(name): replace(item, aliases=tuple(map(_outside, item.aliases)))
        for name, item in program.parameters.items()
    }
    buffers = {_outside(name): item for name, item in program.buffers.items()}
    positional = tree.positional_arguments(len(program.inputs))
    return program.replace(parameters=parameters, buffers=buffers, arguments=positional)


def autocast_dtype(dtype: str) -> torch.dtype | None:
    """The dtype of autocast when a network is trained in `dtype`; None for no autocast."""
    return getattr(torch, dtype) if dtype in HALVES else None


def under_autocast(dtype: str) -> str:
    """A prefix for the module's errors when it is trained in `dtype`, for which torch may lack a kernel."""
    return "" if autocast_dtype(dtype) is None else f"under torch's autocast in {dtype}: "


def _outside(name: str) -> str:
    return name.removeprefix(INSIDE)
