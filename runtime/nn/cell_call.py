"""Calling a Cell: hooks around `construct`, a backward written by hand, the dtype of computation."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import tape
from ..common.hooks import Hook, replaced_gradient
from ..common.tensor import Tensor, identity_entry, wrapped, zeros_like
from ..gradients import Forward, record, tensors_in, with_tensors
from ..ir.types import is_floating
from ..ops import elementwise
from ..precision import computing_in

if TYPE_CHECKING:
    from .cell import Cell

Args = tuple[Any, ...]


@dataclass(frozen=True)
class KeptForward:
    """A recorded forward run of a Cell, and what it depended on."""

    forward: Forward
    arguments: Args
    state: list[Any]

    def holds(self, cell: Cell, args: Args) -> bool:
        """Whether `args` are the very objects of this run, and neither they nor the Cell have changed since."""
        now = _state(cell, args)
        return (
            len(args) == len(self.arguments)
            and all(a is b for a, b in zip(args, self.arguments, strict=True))
            and len(now) == len(self.state)
            and all(a is b for a, b in zip(now, self.state, strict=True))
        )


def _state(cell: Cell, args: Args) -> list[Any]:
    """What a run depends on: data of arguments and Parameters, flags and hooks of all Cells; compared by identity."""
    state = [x._data if isinstance(x, Tensor) else x for x in args]
    for _, sub in cell.cells_and_names():
        state += [sub, sub.training, sub._compute_dtype]
        for hooks in (sub._forward_pre_hooks, sub._forward_hooks, sub._backward_pre_hooks, sub._backward_hooks):
            state += hooks.values()
    for parameter in cell.get_parameters():
        state += [parameter, parameter._data, parameter.requires_grad]
    return state


def recorded(cell: Cell, args: Args, kwargs: dict[str, Any]) -> KeptForward:
    """Run a Cell so that a gradient can be computed afterwards, with respect to any input or Parameter."""
    parameters = list(cell.get_parameters())
    forward = record(
        lambda *a, **k: run(cell, a, k), args, kwargs, tape.Tape(), [i for i, x in enumerate(args)], parameters
    )
    return KeptForward(forward, args, _state(cell, args))


def run(cell: Cell, args: Args, kwargs: dict[str, Any]) -> Any:
    """Run hooks and `construct` of a Cell."""
    if not (
        cell._forward_pre_hooks
        or cell._forward_hooks
        or cell._backward_hooks
        or cell._backward_pre_hooks
        or cell.bprop is not None
    ):
        if cell._compute_dtype is None:
            return cell.construct(*args, **kwargs)
        with computing_in(cell._compute_dtype):
            return cell.construct(*args, **kwargs)
    with contextlib.nullcontext() if cell._compute_dtype is None else computing_in(cell._compute_dtype):
        called: list[Hook] = []
        try:
            return _run_with_hooks(cell, args, kwargs, called)
        except Exception:
            for hook in list(cell._forward_hooks.values()):
                if hook.always_call and not any(hook is other for other in called):
                    hook.function(cell, args, *([kwargs] if hook.with_kwargs else []), None)
            raise


def _run_with_hooks(cell: Cell, args: Args, kwargs: dict[str, Any], called: list[Hook]) -> Any:
    args, kwargs = _forward_pre(cell, args, kwargs)
    arrived_at_outputs: list[Args] = []
    backward_hooks = dict(cell._backward_hooks)
    if backward_hooks:
        args = _begin(cell, args, backward_hooks, arrived_at_outputs)
    if cell.bprop is not None and tape.current() is not None:
        output = _with_own_backward(cell, args, kwargs)
    else:
        output = cell.construct(*args, **kwargs)
    for hook in list(cell._forward_hooks.values()):
        called.append(hook)
        returned = hook.function(cell, args, *([kwargs] if hook.with_kwargs else []), output)
        output = output if returned is None else returned
    if backward_hooks:

        def noted(gradients: Args) -> Args:
            arrived_at_outputs.append(gradients)
            return gradients

        output = _at_outputs(output, noted)
    if cell._backward_pre_hooks:
        output = _at_outputs(output, lambda gradients: _backward_pre(cell, gradients))
    return output


# ---- hooks ----


def _forward_pre(cell: Cell, args: Args, kwargs: dict[str, Any]) -> tuple[Args, dict[str, Any]]:
    for hook in list(cell._forward_pre_hooks.values()):
        if hook.with_kwargs:
            returned = hook.function(cell, args, kwargs)
            if returned is not None:
                args, kwargs = returned
        else:
            returned = hook.function(cell, args)
            if returned is not None:
                args = returned if isinstance(returned, tuple) else (returned,)
    return args, kwargs


def _begin(cell: Cell, args: Args, hooks: dict[int, Any], arrived_at_outputs: list[Args]) -> Args:
    """Where the backward pass of the Cell ends: at its inputs, the backward hooks see the gradients of both ends."""

    positions = [i for i, x in enumerate(args) if isinstance(x, Tensor)]
    tensors = tuple(args[i] for i in positions)
    recording = tape.current()
    tracked = recording is not None and any(x.number_on(recording) is not None for x in tensors)

    def pull(arrived: list[Any]) -> Sequence[Any]:
        if not arrived_at_outputs:  # no gradient reached this Cell
            return arrived
        grad_output = arrived_at_outputs.pop()
        gradients: Args = tuple(
            zeros_like(x) if g is None and tracked and is_floating(x.dtype) else g
            for x, g in zip(tensors, arrived, strict=True)
        )
        for key, hook in hooks.items():
            if key in cell._backward_hooks:
                seen = gradients or (None,)
                returned = hook.function(cell, seen, grad_output)
                gradients = _replaced(hook.function, returned, seen, "grad input")
        return gradients[: len(tensors)]

    passed = dict(zip(positions, identity_entry(tensors, pull, always=True, track_all=True), strict=True))
    return tuple(passed.get(i, x) for i, x in enumerate(args))


def _at_outputs(output: Any, see: Any) -> Any:
    """Let `see` replace the gradients that arrive at the output tensors."""
    tensors = tuple(tensors_in(output))

    def pull(arrived: list[Any]) -> Sequence[Any]:
        gradients = tuple(zeros_like(x) if g is None else g for x, g in zip(tensors, arrived, strict=True))
        replaced: Sequence[Any] = see(gradients)
        return replaced

    return with_tensors(output, iter(identity_entry(tensors, pull)))


def _backward_pre(cell: Cell, gradients: Args) -> Args:
    for hook in list(cell._backward_pre_hooks.values()):
        gradients = _replaced(hook.function, hook.function(cell, gradients), gradients, "grad output")
    return gradients


def _replaced(hook: Any, returned: Any, gradients: Args, what: str) -> Args:
    if returned is None:
        return gradients
    items = tuple(returned) if isinstance(returned, (tuple, list)) else (returned,)
    if len(items) != len(gradients):
        raise TypeError(
            f"the backward hook returned {len(items)} gradients, which is not equal to the {what} size {len(gradients)}"
        )
    return tuple(g if r is None else replaced_gradient(hook, r, g) for r, g in zip(items, gradients, strict=True))


# ---- a backward written by hand ----


def _with_own_backward(cell: Cell, args: Args, kwargs: dict[str, Any]) -> Any:
    """Run `construct` unrecorded, and record `bprop` as its backward pass."""
    recording = tape.current()
    assert recording is not None
    args = inspect.signature(cell.construct).bind(*args, **kwargs).args if kwargs else args
    with tape.recording(None):
        output = cell.construct(*args)
    parameters = list(cell.__dict__.get("internal_params", ()))
    sources = [x for x in args if isinstance(x, Tensor)] + parameters
    operands = tuple(x.number_on(recording) for x in sources)
    if all(number is None for number in operands):
        return output
    items = tuple(output) if isinstance(output, (tuple, list)) else (output,)
    numbers = tuple(recording.number() if isinstance(x, Tensor) else None for x in items)
    several = isinstance(output, (tuple, list))

    def pull(arrived: list[Any]) -> Sequence[Any]:
        douts = tuple(
            g if g is not None else zeros_like(x) if isinstance(x, Tensor) else None
            for g, x in zip(arrived, items, strict=True)
        )
        returned = cell.bprop(*args, result, douts if several else douts[0])
        of_parameters: dict[Any, Any] = {}
        if parameters:
            if not (isinstance(returned, tuple) and len(returned) == 2 and isinstance(returned[1], dict)):
                raise RuntimeError(
                    f"bprop of {cell.cls_name} must return (gradients of the inputs, {{parameter: gradient}}), because "
                    f"internal_params is set, but got {type(returned).__name__}"
                )
            returned, of_parameters = returned
        elif isinstance(returned, tuple) and len(returned) == 2 and isinstance(returned[1], dict):
            returned = returned[0]
        of_inputs = _checked_bprop(cell, args, returned)
        return [*of_inputs, *(of_parameters.get(parameter) for parameter in parameters)]

    recording.append(tape.Entry(operands, numbers, pull))
    tracked = [
        x if number is None else wrapped(x._data, recording, number) for x, number in zip(items, numbers, strict=True)
    ]
    result = type(output)(tracked) if several else tracked[0]
    return result


def _checked_bprop(cell: Cell, args: Args, returned: Any) -> list[Any]:
    """Gradients of the tensors among `args`, from what `bprop` returned."""
    where = f"bprop of {cell.cls_name}"
    if returned is None:
        raise TypeError(f"{where} returned None: needed a tuple with one gradient per input ({len(args)})")
    gradients = tuple(returned) if isinstance(returned, (tuple, list)) else (returned,)
    if len(gradients) < len(args):
        raise RuntimeError(
            f"{where} must return one gradient per input of construct: it returned {len(gradients)}, but construct has "
            f"{len(args)} inputs"
        )
    return [
        _fitting(f"{where}, input {i}", x, g)
        for i, (x, g) in enumerate(zip(args, gradients, strict=False))
        if isinstance(x, Tensor)
    ]


def _fitting(where: str, x: Tensor, gradient: Any) -> Any:
    if gradient is None:
        return zeros_like(x)
    if not isinstance(gradient, Tensor):
        raise TypeError(f"{where}: a gradient must be a Tensor or None, but got {type(gradient).__name__}")
    if gradient.shape != x.shape:
        with contextlib.suppress(ValueError):
            if np.broadcast_shapes(gradient.shape, x.shape) == x.shape:
                from ..ops.shaping import expand

                gradient = expand(gradient, shape=x.shape)
        if gradient.shape != x.shape:
            raise RuntimeError(f"{where}: needed a gradient of shape {x.shape}, but got shape {gradient.shape}")
    if gradient.dtype != x.dtype and is_floating(gradient.dtype) and is_floating(x.dtype):
        gradient = elementwise.cast(gradient, dtype=x.dtype)
    return gradient
