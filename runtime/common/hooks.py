"""Hooks: user functions that observe, and may replace, the values that pass through a tensor or a Cell."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..current_trace import current
from ..errors import UnsupportedPython
from ..ops import elementwise
from .tensor import Tensor

_keys = itertools.count()


@dataclass(frozen=True)
class Hook:
    """A hook function and its options.

    Attributes:
        function: the user's function.
        with_kwargs: whether to pass it the keyword arguments of the call.
        always_call: whether to call it even if the Cell raises.
    """

    function: Callable[..., Any]
    with_kwargs: bool = False
    always_call: bool = False


class HookHandle:
    """The handle of a registered hook: `handle.remove()` unregisters it, and a second call has no effect."""

    def __init__(self, hooks: dict[int, Hook], hook: Hook, *, first: bool = False) -> None:
        if not callable(hook.function):
            raise TypeError(f"needed a callable hook function, but got {type(hook.function).__name__}")
        self._hooks = hooks
        self._key = next(_keys)
        hooks[self._key] = hook
        if first:
            for key in [key for key in hooks if key != self._key]:
                hooks[key] = hooks.pop(key)

    def remove(self) -> None:
        """Unregister the hook."""
        self._hooks.pop(self._key, None)


def register_gradient_hook(tensor: Tensor, hook: Callable[[Tensor], Any]) -> HookHandle:
    """Implement `Tensor.register_hook`."""
    refuse_while_tracing(f"a hook was registered on a tensor of shape {tuple(tensor.shape)}")
    hooks = tensor.__dict__.setdefault("_gradient_hooks", {})
    handle = HookHandle(hooks, Hook(hook))
    if tensor._tape is not None and not tensor._is_leaf:
        tensor._tape.hooks[tensor._number] = lambda gradient: apply_gradient_hooks(tensor, gradient)
    return handle


def has_gradient_hooks(tensor: Tensor) -> bool:
    """Whether a tensor has hooks for its gradient."""
    return bool(tensor.__dict__.get("_gradient_hooks"))


def apply_gradient_hooks(tensor: Tensor, gradient: Tensor) -> Tensor:
    """Run the hooks of `tensor` on its gradient, and return the result."""
    hooks = tensor.__dict__.get("_gradient_hooks", {})
    if hooks:
        refuse_while_tracing(f"a tensor of shape {tuple(tensor.shape)} that is differentiated has hooks")
    for hook in list(hooks.values()):
        gradient = check_hook_gradient(hook.function, hook.function(gradient), gradient)
    return gradient


def refuse_while_tracing(what: str) -> None:
    """Raise `UnsupportedPython` while Python is traced, because hooks need numbers."""
    trace = current()
    if trace is not None:
        instead = "hooks work in eager mode only: set_context(mode=PYNATIVE_MODE), and no jit"
        raise trace.guard.refusal(UnsupportedPython, what, instead)


def check_hook_gradient(hook: Callable[..., Any], returned: Any, gradient: Any) -> Any:
    """Return the gradient that a hook returned, cast to the dtype of the original; for None, return the original.

    Raises:
        TypeError: `returned` isn't a tensor.
        ValueError: `returned` has another shape.
    """
    if returned is None:
        return gradient
    name = getattr(hook, "__name__", hook)
    if not isinstance(returned, Tensor):
        raise TypeError(f"hook {name!r} must return None or a Tensor, but got {type(returned).__name__}")
    if not isinstance(gradient, Tensor):  # this gradient wasn't requested
        return returned
    if returned.shape != gradient.shape:
        raise ValueError(
            f"hook {name!r} must return a gradient of shape {gradient.shape}, like the one it was given, but got shape "
            f"{returned.shape}"
        )
    return returned if returned.dtype == gradient.dtype else elementwise.cast(returned, dtype=gradient.dtype)
