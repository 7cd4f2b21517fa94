"""The backward pass of a torch module that a recorder has watched."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ...converter.structure.program_names import named_parameters
from ...runtime.errors import CellbridgeError, UsageError
from ...runtime.programs.call import as_array
from .cotangents import tensor_like
from .operator_faults import RightGradients
from .records import Array
from .torch_recorder import Recorder


def backward(
    module: torch.nn.Module,
    recorder: Recorder,
    outputs: Sequence[torch.Tensor],
    leaves: Sequence[torch.Tensor],
    *,
    catches: bool,
) -> dict[str, Array | None]:
    """Run backward from the recorder's cotangents; return the gradients of parameters by qualified name.

    Args:
        module: the module.
        recorder: the recorder, which records the gradients at boundaries.
        outputs: the tensors of the result.
        leaves: the inputs that have gradients.
        catches: whether an exception is recorded; otherwise it is a `UsageError`.
    """
    roots = [
        (out, tensor_like(cotangent, out))
        for out, cotangent in zip(outputs, recorder.records.gradients.cotangents, strict=True)
        if cotangent is not None and out.requires_grad
    ]
    # what crosses a boundary takes part too: it is fed a gradient even if nothing uses it
    roots += [(tap, torch.zeros_like(tap)) for tap in recorder.taps]
    parameters = {name: p for name, p in named_parameters(module) if p.requires_grad}
    targets = [*parameters.values(), *leaves]
    gradients: Sequence[torch.Tensor | None] = (None,) * len(targets)
    if roots and targets:
        with RightGradients(module) as right:
            gradients = _autograd(recorder, roots, [*targets, *recorder.leaves], catches=catches)
        recorder.records.faults.operators = list(right.faults.values())
    return {
        name: None if gradient is None else as_array(gradient)
        for name, gradient in zip(parameters, gradients, strict=False)
    }


def _autograd(
    recorder: Recorder,
    roots: Sequence[tuple[torch.Tensor, torch.Tensor]],
    targets: Sequence[torch.Tensor],
    *,
    catches: bool,
) -> Any:
    """Return the gradients of targets; None for each if the backward pass raises and that is recorded."""
    try:
        return torch.autograd.grad([out for out, _ in roots], targets, [g for _, g in roots], allow_unused=True)
    except CellbridgeError:
        raise
    except Exception as error:  # a custom backward may raise anything
        if catches:
            recorder.note_backward_exception(error)
            return (None,) * len(targets)
        raise UsageError(
            f"the model's backward pass fails: {type(error).__name__}: {error}\n"
            "  compare the outputs alone: --no-grad, or grads=False"
        ) from error
