"""Hooks of Cells: user functions that observe, and may replace, the inputs, outputs and gradients of a Cell."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ..common import tape
from ..common.hooks import Hook, HookHandle, check_hook_gradient
from ..common.tensor import Tensor, identity_entry, zeros_like
from ..current_trace import current
from ..tree import leaves_of, replace_leaves
from .cell_base import CellBase
from .custom_backward import run_with_bprop

Args = tuple[Any, ...]
Hooks = dict[int, Hook]


class Hookable(CellBase):
    """The part of a Cell that manages hooks."""

    _forward_pre_hooks: Hooks
    _forward_hooks: Hooks
    _backward_pre_hooks: Hooks
    _backward_hooks: Hooks

    def _init_hooks(self) -> None:
        self._forward_pre_hooks, self._forward_hooks = {}, {}
        self._backward_pre_hooks, self._backward_hooks = {}, {}

    @property
    def has_hooks(self) -> bool:
        """Whether a hook is registered on this Cell."""
        return bool(self._forward_pre_hooks or self._forward_hooks or self._backward_pre_hooks or self._backward_hooks)

    def hooks(self) -> Iterator[Hook]:
        """Yield the hooks that are registered on this Cell."""
        for kind in (self._forward_pre_hooks, self._forward_hooks, self._backward_pre_hooks, self._backward_hooks):
            yield from kind.values()

    def backward_hooks(self) -> Iterator[Hook]:
        """Yield the backward hooks that are registered on this Cell."""
        yield from self._backward_pre_hooks.values()
        yield from self._backward_hooks.values()

    def register_forward_pre_hook(
        self, hook_fn: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> HookHandle:
        """Call `hook_fn(cell, inputs)` before `construct`; a result other than None replaces the inputs.

        Args:
            hook_fn: takes the Cell and the tuple of positional inputs, and returns a value or tuple, or None. With
                `with_kwargs`, it also takes the dict of keyword arguments, and returns a pair of both, or None.
            prepend: whether the hook runs before hooks that are already registered.
            with_kwargs: whether the hook gets the keyword arguments.

        Returns:
            A handle whose `remove()` unregisters it.

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
        """Call `hook_fn(cell, inputs, output)` after `construct`; a result other than None replaces the output.

        Args:
            hook_fn: takes the Cell, the tuple of positional inputs, the dict of keyword arguments if `with_kwargs`, and
                the output.
            prepend: whether the hook runs before hooks that are already registered.
            with_kwargs: whether the hook gets the keyword arguments.
            always_call: whether to call the hook even if `construct` raises an exception, with None as the output.

        Returns:
            A handle whose `remove()` unregisters it.

        Raises:
            TypeError: `hook_fn` isn't callable.
        """
        return HookHandle(self._forward_hooks, Hook(hook_fn, with_kwargs, always_call), first=prepend)

    def register_backward_pre_hook(self, hook_fn: Callable[..., Any]) -> HookHandle:
        """Call `hook_fn(cell, grad_output)` before the backward pass of the Cell.

        `grad_output` is the tuple of gradients of the outputs; the result of the hook, unless None, replaces them.
        Returns a handle. Raises `TypeError` if the hook isn't callable.
        """
        return HookHandle(self._backward_pre_hooks, Hook(hook_fn))

    def register_backward_hook(self, hook_fn: Callable[..., Any]) -> HookHandle:
        """Call `hook_fn(cell, grad_input, grad_output)` after the backward pass of the Cell.

        `grad_input` is the tuple of gradients of the inputs, with None for an input without a gradient; the result of
        the hook, unless None, replaces them. `grad_output` is the tuple of gradients of the outputs. Returns a handle.
        Raises `TypeError` if the hook isn't callable.
        """
        return HookHandle(self._backward_hooks, Hook(hook_fn))


# ---- running hooks ----


def run_with_hooks(cell: Hookable, /, *args: Any, **kwargs: Any) -> Any:
    """Run `construct` of a Cell, with `bprop` as its backward pass if there is one, and the hooks around it."""
    called_hooks: list[Hook] = []
    try:
        return _run(cell, args, kwargs, called_hooks)
    except Exception:
        for hook in list(cell._forward_hooks.values()):
            if hook.always_call and not any(hook is other for other in called_hooks):
                _call_forward_hook(hook, cell, args, kwargs, None)
        raise


def _run(cell: Hookable, args: Args, kwargs: dict[str, Any], called_hooks: list[Hook]) -> Any:
    args, kwargs = _run_forward_pre_hooks(cell, args, kwargs)
    output_gradients: list[Args] = []
    backward_hooks = dict(cell._backward_hooks)
    if backward_hooks:
        args = _mark_inputs(cell, args, backward_hooks, output_gradients)
    if cell.bprop is not None and (tape.current() is not None or current() is not None):
        output = run_with_bprop(cell, args, kwargs)
    else:
        output = cell.construct(*args, **kwargs)
    for hook in list(cell._forward_hooks.values()):
        called_hooks.append(hook)
        replacement = _call_forward_hook(hook, cell, args, kwargs, output)
        output = output if replacement is None else replacement
    if backward_hooks:

        def record(gradients: Args) -> Args:
            output_gradients.append(gradients)
            return gradients

        output = _mark_outputs(output, record)
    if cell._backward_pre_hooks:
        output = _mark_outputs(output, lambda gradients: _run_backward_pre_hooks(cell, gradients))
    return output


def _call_forward_hook(hook: Hook, cell: Hookable, args: Args, kwargs: dict[str, Any], output: Any) -> Any:
    return hook.function(cell, args, kwargs, output) if hook.with_kwargs else hook.function(cell, args, output)


def _run_forward_pre_hooks(cell: Hookable, args: Args, kwargs: dict[str, Any]) -> tuple[Args, dict[str, Any]]:
    for hook in list(cell._forward_pre_hooks.values()):
        if hook.with_kwargs:
            result = hook.function(cell, args, kwargs)
            if result is not None:
                if not (isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], dict)):
                    raise RuntimeError(
                        f"a forward pre-hook of {cell.cls_name} with with_kwargs=True must return None or a pair "
                        f"(inputs, keyword inputs), but got {result!r}"
                    )
                args, kwargs = result
        else:
            result = hook.function(cell, args)
            if result is not None:
                args = result if isinstance(result, tuple) else (result,)
    return args, kwargs


def _mark_inputs(cell: Hookable, args: Args, hooks: dict[int, Any], output_gradients: list[Args]) -> Args:
    """Mark the inputs so that the backward hooks run when the backward pass reaches them."""
    positions = [i for i, x in enumerate(args) if isinstance(x, Tensor)]
    tensors = tuple(args[i] for i in positions)
    recording = tape.current()
    tracked = [recording is not None and x.number_on(recording) is not None for x in tensors]

    def pull(output_cotangents: list[Any]) -> Sequence[Any]:
        if not output_gradients:  # no gradient reached the outputs
            return output_cotangents
        grad_output = output_gradients.pop()
        gradients: Args = tuple(
            zeros_like(x) if g is None and is_tracked else g
            for x, g, is_tracked in zip(tensors, output_cotangents, tracked, strict=True)
        )
        for key, hook in hooks.items():
            if key in cell._backward_hooks:
                grad_input = gradients or (None,)
                result = hook.function(cell, grad_input, grad_output)
                gradients = _check_gradients(hook.function, result, grad_input, "grad input")
        return gradients[: len(tensors)]

    marked = dict(zip(positions, identity_entry(tensors, pull, always=True), strict=True))
    return tuple(marked.get(i, x) for i, x in enumerate(args))


def _mark_outputs(output: Any, replace: Any) -> Any:
    """Mark the output tensors so that `replace` replaces their gradients in the backward pass."""
    tensors = tuple(leaves_of(output, Tensor))

    def pull(output_cotangents: list[Any]) -> Sequence[Any]:
        gradients = tuple(zeros_like(x) if g is None else g for x, g in zip(tensors, output_cotangents, strict=True))
        result: Sequence[Any] = replace(gradients)
        return result

    return replace_leaves(output, Tensor, iter(identity_entry(tensors, pull)))


def _run_backward_pre_hooks(cell: Hookable, gradients: Args) -> Args:
    for hook in list(cell._backward_pre_hooks.values()):
        gradients = _check_gradients(hook.function, hook.function(cell, gradients), gradients, "grad output")
    return gradients


def _check_gradients(hook: Any, result: Any, gradients: Args, role: str) -> Args:
    if result is None:
        return gradients
    items = tuple(result) if isinstance(result, (tuple, list)) else (result,)
    if len(items) != len(gradients):
        raise TypeError(
            f"the backward hook returned {len(items)} gradients, which is not equal to the {role} size {len(gradients)}"
        )
    return tuple(check_hook_gradient(hook, r, g) for r, g in zip(items, gradients, strict=True))
