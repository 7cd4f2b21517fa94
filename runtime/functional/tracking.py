"""Stopping gradients, hooks on gradients, assignment to Parameters, and printing."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from ..common import tape
from ..common.dtype import bool_, dtype_name
from ..common.hooks import HookHandle, check_hook_gradient, refuse_while_tracing, register_gradient_hook
from ..common.tensor import Tensor, identity_entry, zeros_like
from ..current_trace import current
from ..ir.types import is_floating
from ..ops import boundary, elementwise
from ..tensor_like import TensorLike
from ..tree import map_leaves
from .operands import as_tensor
from .public_op import operator_object, public_op, tensor_method

# ---- gradients ----


@public_op(primitive="StopGradient")
def stop_gradient(value: Any) -> Any:
    """`value` without a gradient: a tensor, or nested tuples, lists and dicts with tensors."""
    return map_leaves(lambda leaf: boundary.stop_gradient(leaf) if isinstance(leaf, TensorLike) else leaf, value)


@public_op(primitive="Identity")
def identity(input_x: Any) -> Any:
    """`input_x` itself."""
    return as_tensor(input_x, "input_x", of="identity")


@operator_object
class HookBackward:
    """Returns its tensors unchanged, and calls a hook with their gradients.

    Args:
        hook_fn: called with the tuple of gradients, one for each tensor, when they are computed. Its result replaces
            them: None keeps them, a tensor replaces the only one, a tuple or list replaces all.
        cell_id: stored as an attribute.

    Inputs:
        One or more tensors.

    Outputs:
        The tensor, or a tuple of several.

    Raises:
        TypeError: `hook_fn` isn't callable, an input isn't a tensor, or `hook_fn` returned something else.
    """

    def __init__(self, hook_fn: Callable[[tuple[Any, ...]], Any], cell_id: str = "") -> None:
        if not callable(hook_fn):
            raise TypeError(
                f"For 'HookBackward', needed a callable hook function 'hook_fn', but got {type(hook_fn).__name__}"
            )
        self.hook_fn = hook_fn
        self.cell_id = cell_id
        self.name = "HookBackward"

    def __call__(self, *inputs: Any) -> Any:
        """Return the tensors."""
        refuse_while_tracing("HookBackward was called")
        if not inputs:
            raise TypeError("For 'HookBackward', needed at least one Tensor, but got none")
        for x in inputs:
            if not isinstance(x, TensorLike):
                raise TypeError(f"For 'HookBackward', each input must be a Tensor, but got {type(x).__name__}: {x!r}")

        def call_hook(output_cotangents: list[Any]) -> tuple[Any, ...]:
            gradients = tuple(zeros_like(x) if g is None else g for x, g in zip(inputs, output_cotangents, strict=True))
            return self._run_hook(gradients)

        outputs = identity_entry(inputs, call_hook)
        return outputs[0] if len(outputs) == 1 else outputs

    def _run_hook(self, gradients: tuple[Any, ...]) -> tuple[Any, ...]:
        returned = self.hook_fn(gradients)
        replacements = returned if isinstance(returned, (tuple, list)) else (returned,) * len(gradients)
        if (isinstance(returned, Tensor) and len(gradients) > 1) or len(replacements) != len(gradients):
            count = len(replacements) if isinstance(returned, (tuple, list)) else 1
            raise TypeError(f"For 'HookBackward', the hook returned {count} gradients for {len(gradients)} inputs")
        return tuple(check_hook_gradient(self.hook_fn, r, g) for r, g in zip(replacements, gradients, strict=True))

    def __repr__(self) -> str:
        return f"HookBackward(hook_fn={self.hook_fn!r}, cell_id={self.cell_id!r})"


@operator_object
class InsertGradientOf:
    """Returns a tensor unchanged, and applies a function to its gradient.

    Args:
        f: takes the gradient and returns the new one.

    Raises:
        TypeError: `f` isn't callable.
    """

    def __init__(self, f: Callable[[Any], Any]) -> None:
        if not callable(f):
            raise TypeError(f"For 'InsertGradientOf', 'f' must be callable, but got {type(f).__name__}")
        self.f = f

    def __call__(self, x: Any) -> Any:
        """Return the tensor."""
        tensor = as_tensor(x, "x", of="InsertGradientOf")
        trace = current()
        if trace is not None and tape.current() is None and is_floating(tensor.dtype):
            (output,) = trace.with_custom_backward(
                "InsertGradientOf",
                [tensor],
                [tensor],
                lambda _x, _y, g: [check_hook_gradient(self.f, self.f(g[0]), g[0])],
            )
            return output
        (output,) = identity_entry(
            (tensor,),
            lambda output_cotangents: (
                check_hook_gradient(self.f, self.f(output_cotangents[0]), output_cotangents[0]),
            ),
        )
        return output


# ---- Parameters ----


def assign_in_place(variable: Any, value: Any) -> Any:
    """Assign a value of the same shape to a Parameter or tensor; later computations, and their gradients, use it."""
    if not isinstance(variable, Tensor):
        raise TypeError(f"needed a Parameter to write to, but got {type(variable).__name__}: {variable!r}")
    new = value if value.dtype == variable.dtype else elementwise.cast(value, dtype=variable.dtype)
    variable._rebind(new)
    return new


def _convert_to_assign(variable: Any, value: Any, *, of: str) -> Any:
    """Convert `value` to a tensor that can be assigned to `variable`."""
    if not isinstance(variable, TensorLike):
        raise TypeError(f"For '{of}', 'variable' must be a Parameter, but got {type(variable).__name__}: {variable!r}")
    v = as_tensor(value, "value", of=of)
    if tuple(v.shape) != tuple(variable.shape):
        raise ValueError(
            f"For '{of}', 'value' must have the shape of 'variable', {tuple(variable.shape)}, but got {tuple(v.shape)}"
        )
    lossy = is_floating(v.dtype) and not is_floating(variable.dtype)
    if lossy or (variable.dtype == bool_ and v.dtype != bool_):
        raise TypeError(
            f"For '{of}', 'value' must fit 'variable' of type {dtype_name(variable.dtype)}, but got "
            f"{dtype_name(v.dtype)}"
        )
    return v if v.dtype == variable.dtype else elementwise.cast(v, dtype=variable.dtype)


@public_op(primitive="Assign")
def assign(variable: Any, value: Any) -> Any:
    """Assign `value`, cast to its dtype, to the Parameter `variable`; returns the new value.

    Later computations with the Parameter, also inside a differentiated function, depend on `value`.

    Raises:
        ValueError: the shapes differ.
        TypeError: `variable` isn't a Parameter, or a floating-point `value` would be truncated to integers.
    """
    return assign_in_place(variable, _convert_to_assign(variable, value, of="assign"))


@public_op(primitive="AssignAdd")
def assign_add(variable: Any, value: Any) -> Any:
    """Add `value` to the Parameter `variable`; returns the new value. Errors are those of `assign`."""
    v = _convert_to_assign(variable, value, of="assign_add")
    return assign_in_place(variable, elementwise.add(variable, v))


@public_op(primitive="AssignSub")
def assign_sub(variable: Any, value: Any) -> Any:
    """Subtract `value` from the Parameter `variable`; returns the new value. Errors are those of `assign`."""
    v = _convert_to_assign(variable, value, of="assign_sub")
    return assign_in_place(variable, elementwise.sub(variable, v))


@public_op(primitive="Depend")
def depend(value: Any, expr: Any) -> Any:
    """Return `value`; `expr` is computed first."""
    return value


# ---- printing ----


@public_op(primitive="Print")
def print_(*input_x: Any) -> None:
    """Print each argument on its own line: strings unchanged, tensors as `Tensor(shape=..., dtype=..., value=...)`.

    In traced code, each run of the program prints when it ends.
    """
    trace = current()
    if trace is not None:
        trace.print_tensors(input_x)
        return
    for item in input_x:
        sys.stdout.write(f"{format_item(item)}\n")


def format_item(item: Any) -> str:
    """Format an item for printing: strings unchanged, tensors as `Tensor(shape=..., dtype=..., value=...)`."""
    return item if isinstance(item, str) else str(_plain(item))


def _plain(item: Any) -> Any:
    """Format tensors in `item`; Parameters are formatted as tensors, with their values."""
    if isinstance(item, Tensor):
        return repr(Tensor(item.asnumpy()))
    if isinstance(item, (tuple, list)):
        inner = ", ".join(str(_plain(i)) if isinstance(i, (Tensor, tuple, list)) else repr(i) for i in item)
        return f"[{inner}]" if isinstance(item, list) else f"({inner},)" if len(item) == 1 else f"({inner})"
    return item


@tensor_method("register_hook")
def _register_hook(self: Tensor, hook: Callable[[Tensor], Any]) -> HookHandle:
    """Call `hook(gradient)` when the gradient of this tensor is computed; its result replaces the gradient.

    Returns a handle whose `remove()` unregisters it; `TypeError` if the hook isn't callable.
    """
    return register_gradient_hook(self, hook)
