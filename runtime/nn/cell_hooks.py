"""Hooks of Cells: functions of the user that see, and may replace, what goes into a Cell and comes out of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ..common.hooks import Hook, HookHandle, replaced_gradient
from ..common.nested import tensors_in, with_tensors
from ..common.tensor import Tensor, identity_entry, zeros_like
from ..current_trace import current
from ..eager import tape
from .cell_base import CellBase
from .own_backward import run_with_own_backward

Args = tuple[Any, ...]
Hooks = dict[int, Hook]


class Hookable(CellBase):
    """What has hooks: the base of `Cell`."""

    _forward_pre_hooks: Hooks
    _forward_hooks: Hooks
    _backward_pre_hooks: Hooks
    _backward_hooks: Hooks

    def _begin_hooks(self) -> None:
        self._forward_pre_hooks, self._forward_hooks = {}, {}
        self._backward_pre_hooks, self._backward_hooks = {}, {}

    @property
    def has_hooks(self) -> bool:
        """Whether a hook is registered on this Cell."""
        return bool(self._forward_pre_hooks or self._forward_hooks or self._backward_pre_hooks or self._backward_hooks)

    def hooks(self) -> Iterator[Hook]:
        """The hooks that are registered on this Cell."""
        for kind in (self._forward_pre_hooks, self._forward_hooks, self._backward_pre_hooks, self._backward_hooks):
            yield from kind.values()

    def backward_hooks(self) -> Iterator[Hook]:
        """Those of them that see gradients."""
        yield from self._backward_pre_hooks.values()
        yield from self._backward_hooks.values()

    def register_forward_pre_hook(
        self, hook_fn: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> HookHandle:
        """Call `hook_fn(cell, inputs)` before `construct`; what it returns (a value or tuple) replaces the inputs.

        Args:
            hook_fn: takes the Cell and the tuple of positional inputs, with `with_kwargs` also the keyword arguments
                (then it returns None or a pair).
            prepend: whether it runs before the hooks registered already.
            with_kwargs: whether it is given the keyword arguments.

        Returns:
            A handle whose `remove()` takes it back.

        Raises:
            TypeError: `hook_fn` isn't callable.
        """
        return HookHandle(self._forward_pre_hooks, Hook(hook_fn, with_kwargs), first=prepend)

    def register_forward_hook(
        self,
        hook_fn: Callable[..., Any],
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> HookHandle:
        """Call `hook_fn(cell, inputs, output)` after `construct`; what it returns replaces the output.

        Args:
            hook_fn: takes the Cell, the tuple of positional inputs, with `with_kwargs` the keyword arguments, and the
                output.
            prepend: whether it runs before the hooks registered already.
            with_kwargs: whether it is given the keyword arguments.
            always_call: whether it is called even if `construct` raises (with None for the output).

        Returns:
            A handle whose `remove()` takes it back.

        Raises:
            TypeError: `hook_fn` isn't callable.
        """
        return HookHandle(self._forward_hooks, Hook(hook_fn, with_kwargs, always_call), first=prepend)

    def register_backward_pre_hook(self, hook_fn: Callable[..., Any]) -> HookHandle:
        """Call `hook_fn(cell, grad_output)` before the backward pass of the Cell.

        `grad_output` is the tuple of gradients arriving at the outputs; what the hook returns replaces them. Returns a
        handle; `TypeError` if not callable.
        """
        return HookHandle(self._backward_pre_hooks, Hook(hook_fn))

    def register_backward_hook(self, hook_fn: Callable[..., Any]) -> HookHandle:
        """Call `hook_fn(cell, grad_input, grad_output)` after the backward pass of the Cell.

        `grad_input` is the tuple of gradients of its inputs (None where there is none); what the hook returns replaces
        them. `grad_output` is the tuple of gradients that arrived at its outputs. Returns a handle; `TypeError` if not
        callable.
        """
        return HookHandle(self._backward_hooks, Hook(hook_fn))


# ---- running them ----


def run_with_hooks(cell: Hookable, /, *args: Any, **kwargs: Any) -> Any:
    """Run `construct` of a Cell, or with a gradient its `bprop`, and the hooks around it."""
    called: list[Hook] = []
    try:
        return _run(cell, args, kwargs, called)
    except Exception:
        for hook in list(cell._forward_hooks.values()):
            if hook.always_call and not any(hook is other for other in called):
                _call_forward(hook, cell, args, kwargs, None)
        raise


def _run(cell: Hookable, args: Args, kwargs: dict[str, Any], called: list[Hook]) -> Any:
    args, kwargs = _forward_pre(cell, args, kwargs)
    arrived_at_outputs: list[Args] = []
    backward_hooks = dict(cell._backward_hooks)
    if backward_hooks:
        args = _begin(cell, args, backward_hooks, arrived_at_outputs)
    if cell.bprop is not None and (tape.current() is not None or current() is not None):
        output = run_with_own_backward(cell, args, kwargs)
    else:
        output = cell.construct(*args, **kwargs)
    for hook in list(cell._forward_hooks.values()):
        called.append(hook)
        returned = _call_forward(hook, cell, args, kwargs, output)
        output = output if returned is None else returned
    if backward_hooks:

        def noted(gradients: Args) -> Args:
            arrived_at_outputs.append(gradients)
            return gradients

        output = _at_outputs(output, noted)
    if cell._backward_pre_hooks:
        output = _at_outputs(output, lambda gradients: _backward_pre(cell, gradients))
    return output


def _call_forward(hook: Hook, cell: Hookable, args: Args, kwargs: dict[str, Any], output: Any) -> Any:
    return hook.function(cell, args, kwargs, output) if hook.with_kwargs else hook.function(cell, args, output)


def _forward_pre(cell: Hookable, args: Args, kwargs: dict[str, Any]) -> tuple[Args, dict[str, Any]]:
    for hook in list(cell._forward_pre_hooks.values()):
        if hook.with_kwargs:
            returned = hook.function(cell, args, kwargs)
            if returned is not None:
                if not (isinstance(returned, tuple) and len(returned) == 2 and isinstance(returned[1], dict)):
                    raise RuntimeError(
                        f"a forward pre-hook of {cell.cls_name} with with_kwargs=True must return None or a pair "
                        f"(inputs, keyword inputs), but got {returned!r}"
                    )
                args, kwargs = returned
        else:
            returned = hook.function(cell, args)
            if returned is not None:
                args = returned if isinstance(returned, tuple) else (returned,)
    return args, kwargs


def _begin(cell: Hookable, args: Args, hooks: dict[int, Any], arrived_at_outputs: list[Args]) -> Args:
    """Where the backward pass of the Cell ends: at its inputs, the backward hooks see the gradients of both ends."""
    positions = [i for i, x in enumerate(args) if isinstance(x, Tensor)]
    tensors = tuple(args[i] for i in positions)
    recording = tape.current()
    tracked = [recording is not None and x.number_on(recording) is not None for x in tensors]

    def pull(output_cotangents: list[Any]) -> Sequence[Any]:
        if not arrived_at_outputs:  # no gradient reached this Cell
            return output_cotangents
        grad_output = arrived_at_outputs.pop()
        gradients: Args = tuple(
            zeros_like(x) if g is None and of_interest else g
            for x, g, of_interest in zip(tensors, output_cotangents, tracked, strict=True)
        )
        for key, hook in hooks.items():
            if key in cell._backward_hooks:
                seen = gradients or (None,)
                returned = hook.function(cell, seen, grad_output)
                gradients = _replaced(hook.function, returned, seen, "grad input")
        return gradients[: len(tensors)]

    passed = dict(zip(positions, identity_entry(tensors, pull, always=True), strict=True))
    return tuple(passed.get(i, x) for i, x in enumerate(args))


def _at_outputs(output: Any, see: Any) -> Any:
    """Let `see` replace the gradients that arrive at the output tensors."""
    tensors = tuple(tensors_in(output))

    def pull(output_cotangents: list[Any]) -> Sequence[Any]:
        gradients = tuple(zeros_like(x) if g is None else g for x, g in zip(tensors, output_cotangents, strict=True))
        replaced: Sequence[Any] = see(gradients)
        return replaced

    return with_tensors(output, iter(identity_entry(tensors, pull)))


def _backward_pre(cell: Hookable, gradients: Args) -> Args:
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
    return tuple(replaced_gradient(hook, r, g) for r, g in zip(items, gradients, strict=True))
