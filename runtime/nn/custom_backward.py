"""Custom backward passes: `Cell.bprop` replaces the derivative of `construct`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ..common import tape
from ..common.parameter import Parameter
from ..common.tensor import Tensor, from_array, zeros_like
from ..current_trace import current
from ..errors import ShapeError
from ..ir.types import is_floating
from ..ops import elementwise
from ..ops.common import broadcast_shapes, unbroadcast
from ..tree import leaves, leaves_of, map_leaves, replace_leaves
from .cell_base import CellBase

Args = tuple[Any, ...]


def run_with_bprop(cell: CellBase, args: Args, kwargs: dict[str, Any]) -> Any:
    """Run `construct` without recording it, and record `bprop` as its backward pass, on the tape or in the trace."""
    recording = tape.current()
    call = inspect.signature(cell.construct).bind(*args, **kwargs)
    call.apply_defaults()
    inputs, parameters = call.args, _internal_params(cell)
    with tape.record_on(None):
        output = cell.construct(*inputs, **call.kwargs)

    def gradients(inputs: Args, result: Any, dout: Any) -> list[Any]:
        bprop_result = cell.bprop(*inputs, result, dout)
        try:
            of_inputs, of_parameters = _split_gradients(bprop_result, parameters)
            return [*_input_gradients(inputs, of_inputs), *_parameter_gradients(parameters, of_parameters)]
        except (TypeError, RuntimeError) as error:
            details = f"; its arguments were {(*inputs, result, dout)} and it returned {bprop_result}"
            raise type(error)(f"bprop of {cell.cls_name}: {error}{details if cell.bprop_debug else ''}") from None

    if recording is None:
        return _add_to_trace(cell, inputs, parameters, output, gradients)
    operands = tuple(x.number_on(recording) for x in (*leaves_of(inputs, Tensor), *parameters))
    if all(number is None for number in operands):
        return output
    outputs = list(leaves_of(output, Tensor))
    numbers = tuple(recording.number() for _ in outputs)
    tracked = (from_array(x._data, recording, number) for x, number in zip(outputs, numbers, strict=True))
    result = replace_leaves(output, Tensor, tracked)

    def pull(output_cotangents: list[Any]) -> Sequence[Any]:
        douts = (zeros_like(x) if g is None else g for x, g in zip(outputs, output_cotangents, strict=True))
        dout = map_leaves(lambda leaf: next(douts) if isinstance(leaf, Tensor) else None, output)
        return gradients(inputs, result, dout)

    recording.append(tape.Entry(operands, numbers, pull))
    return result


def _add_to_trace(
    cell: CellBase, inputs: Args, parameters: list[Parameter], output: Any, gradients: Callable[[Args, Any, Any], Any]
) -> Any:
    """Record `bprop` in the trace as the backward pass of `construct`, and return the output of `construct`."""
    trace = current()
    assert trace is not None
    tensors = list(leaves_of(inputs, Tensor))

    def pull(operands: list[Tensor], outputs: list[Tensor], douts: list[Tensor]) -> Any:
        result, remaining = replace_leaves(output, Tensor, iter(outputs)), iter(douts)
        dout = map_leaves(lambda leaf: _next_cotangent(leaf, remaining) if isinstance(leaf, Tensor) else None, result)
        return gradients(replace_leaves(inputs, Tensor, iter(operands[: len(tensors)])), result, dout)

    outputs = trace.with_custom_backward(cell.cls_name, list(leaves_of(output, Tensor)), [*tensors, *parameters], pull)
    return replace_leaves(output, Tensor, iter(outputs))


def _next_cotangent(output: Tensor, douts: Iterator[Tensor]) -> Any:
    return next(douts) if is_floating(output.dtype) else zeros_like(output)


def _internal_params(cell: CellBase) -> list[Parameter]:
    declared = getattr(cell, "internal_params", ())
    if not isinstance(declared, (list, tuple)) or not all(isinstance(item, Parameter) for item in declared):
        raise TypeError(f"`internal_params` of {cell.cls_name} must be a list of Parameters, but got {declared!r}")
    return list(declared)


def _split_gradients(result: Any, parameters: list[Parameter]) -> tuple[Any, dict[Any, Any]]:
    """Split the result of `bprop` into gradients of the inputs and gradients by Parameter."""
    is_pair = isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], dict)
    if parameters and not is_pair:
        raise RuntimeError(
            "with internal_params it must return (gradients of the inputs, {parameter: gradient}), but it returned "
            f"{type(result).__name__}"
        )
    return (result[0], result[1] if parameters else {}) if is_pair else (result, {})


def _input_gradients(inputs: Args, result: Any) -> Iterator[Any]:
    """Yield the gradients of the tensors in `inputs` from the result of `bprop`."""
    if result is None:
        raise TypeError(f"it returned None: needed a tuple with one gradient per input ({len(inputs)})")
    if not isinstance(result, (Tensor, tuple, list, int, float)):
        raise TypeError(f"it must return a tuple of gradients or a Tensor, but it returned {type(result).__name__}")
    gradients = tuple(result) if isinstance(result, (tuple, list)) else (result,)
    if len(gradients) < len(inputs):
        raise RuntimeError(
            f"it must return one gradient per input of construct: it returned {len(gradients)}, but construct has "
            f"{len(inputs)} inputs"
        )
    for i, (x, gradient) in enumerate(zip(inputs, gradients, strict=False)):
        parts, values = leaves(x), leaves(gradient)
        if gradient is None:
            values = [None] * len(parts)
        if len(parts) != len(values) and any(isinstance(part, Tensor) for part in parts):
            raise RuntimeError(
                f"input {i} holds {len(parts)} values: needed a gradient for each, but got {len(values)}"
            )
        for part, g in zip(parts, values, strict=False):
            if isinstance(part, Tensor):
                yield _fit_gradient(f"input {i}", part, g)


def _parameter_gradients(parameters: list[Parameter], result: dict[Any, Any]) -> Iterator[Any]:
    for parameter in parameters:
        if parameter not in result:
            raise RuntimeError(f"it returned no gradient for Parameter '{parameter.name}' of internal_params")
        yield _fit_gradient(f"Parameter '{parameter.name}'", parameter, result[parameter])


def _fit_gradient(where: str, x: Tensor, gradient: Any) -> Any:
    """Convert a gradient to the dtype and shape of `x`, summing over the axes along which `x` was broadcast."""
    if gradient is None:
        return zeros_like(x)
    if isinstance(gradient, (int, float)):
        gradient = Tensor(gradient)
    if not isinstance(gradient, Tensor):
        raise TypeError(f"{where}: a gradient must be a Tensor or None, but got {type(gradient).__name__}")
    if gradient.shape != x.shape:
        if not _is_broadcast(x.shape, gradient.shape):
            raise RuntimeError(f"{where}: needed a gradient of shape {x.shape}, but got shape {gradient.shape}")
        gradient = unbroadcast(gradient, x)
    return gradient if gradient.dtype == x.dtype else elementwise.cast(gradient, dtype=x.dtype)


def _is_broadcast(shape: tuple[int, ...], larger: tuple[int, ...]) -> bool:
    try:
        return broadcast_shapes(shape, larger) == larger
    except ShapeError:
        return False
