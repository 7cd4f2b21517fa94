"""Autocast behaviour that `torch.export` loses: `torch.no_grad()` in a region, and casts within an operator."""

from __future__ import annotations

import string
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

_ATEN = torch.ops.aten
_LETTERS = string.ascii_uppercase + string.ascii_lowercase


class DetachInAutocast(TorchFunctionMode):
    """While a module is exported, detach each result computed in `torch.no_grad()` where autocast is on.

    Elsewhere the exported graph has a region for `torch.no_grad()`, whose results `prepare` detaches.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        keywords = kwargs or {}
        result = func(*args, **keywords)
        if torch.is_grad_enabled() or not _autocasts():
            return result
        operands = {id(leaf) for leaf in pytree.tree_leaves((args, keywords))}  # in-place operators return an operand

        def detach_result(tensor: torch.Tensor) -> torch.Tensor:
            return tensor.detach() if _is_inexact(tensor) and id(tensor) not in operands else tensor

        return pytree.tree_map_only(torch.Tensor, detach_result, result)


class DecomposeInAutocast(TorchFunctionMode):
    """While a module is exported, decompose operators whose inner operators autocast would cast.

    Autocast has no rule for `einsum`, but one for the `bmm` that it calls. An exported graph keeps `einsum` as one
    node, so its operands would not be cast. Recurrent layers have the same problem; they stay whole, and their operands
    are cast here.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        keywords = kwargs or {}
        if not _autocasts():
            return func(*args, **keywords)
        if func in _RECURRENT:
            return func(*_cast_operands(func, args), **keywords)
        if func not in _DECOMPOSITIONS:
            return func(*args, **keywords)
        with torch._C.DisableTorchFunction():  # otherwise another mode would receive the whole operator
            return _DECOMPOSITIONS[func](*args, **keywords)


def _einsum(equation: Any, *operands: Any) -> Any:
    if not isinstance(equation, str):  # x, [0, 1], y, [1, 2], [0, 2]
        arguments = (equation, *operands)
        subscripts = [_subscript(axes) for axes in arguments[1::2]]
        result = f"->{_subscript(arguments[-1])}" if len(arguments) % 2 else ""
        equation, operands = ",".join(subscripts) + result, arguments[: len(subscripts) * 2 : 2]
    elif len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = tuple(operands[0])
    return _ATEN.einsum.default.decompose(equation, list(operands))


def _subscript(axes: Sequence[Any]) -> str:
    return "".join("..." if axis is Ellipsis else _LETTERS[axis] for axis in axes)


def _tensordot(a: torch.Tensor, b: torch.Tensor, dims: Any = 2, out: None = None) -> Any:
    if isinstance(dims, int):
        dims = range(-dims, 0), range(dims)
    dims_a, dims_b = ([axes] if isinstance(axes, int) else list(axes) for axes in dims)
    return _ATEN.tensordot.default.decompose(a, b, dims_a, dims_b)


def _pad(input: torch.Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Any:
    return _ATEN.pad.default.decompose(input, list(pad), mode, value)


def _inner(input: torch.Tensor, other: torch.Tensor) -> Any:
    if not input.ndim or not other.ndim:
        return input * other
    return _tensordot(input, other, (-1, -1))


def _power(input: torch.Tensor, n: int) -> Any:
    return _ATEN.matrix_power.default.decompose(input, n)


def _chain(*matrices: torch.Tensor) -> Any:
    return _ATEN.linalg_multi_dot.default.decompose(list(matrices))


def _multi_dot(tensors: Sequence[torch.Tensor]) -> Any:
    return _chain(*tensors)


def _matmul(input: torch.Tensor, other: torch.Tensor, *, out: None = None) -> Any:
    return torch.matmul(input, other)


def _bilinear(
    input1: torch.Tensor, input2: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None
) -> torch.Tensor:
    """ATen's _trilinear: two matrix products for each output feature, added to zeros in the dtype of `input1`."""
    first_product = torch.matmul(input1.reshape(-1, input1.shape[-1]), weight).movedim(0, 1)
    products = torch.matmul(first_product, input2.reshape(-1, input2.shape[-1], 1)).to(input1.dtype)
    result = products.reshape(*input1.shape[:-1], weight.shape[0])
    return result if bias is None else result + bias


_DECOMPOSITIONS: dict[Any, Callable[..., Any]] = {
    torch.einsum: _einsum,
    torch.tensordot: _tensordot,
    torch.nn.functional.pad: _pad,
    torch.bilinear: _bilinear,
    torch.linalg.matmul: _matmul,
    torch.inner: _inner,
    torch.Tensor.inner: _inner,
    torch.matrix_power: _power,
    torch.Tensor.matrix_power: _power,
    torch.linalg.matrix_power: _power,
    torch.chain_matmul: _chain,
    torch.linalg.multi_dot: _multi_dot,
}

_CAST_TO_HALF = (torch.lstm, torch.rnn_tanh, torch.rnn_relu, torch.rnn_tanh_cell, torch.rnn_relu_cell)
_RECURRENT = frozenset((*_CAST_TO_HALF, torch.gru, torch.gru_cell, torch.lstm_cell))


def _cast_operands(func: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The operands of a recurrent layer, cast to the dtype of its results; some layers keep a float32 input."""
    half = torch.get_autocast_dtype("cuda" if torch.is_autocast_enabled("cuda") else "cpu")
    dtype = half if func in _CAST_TO_HALF else args[0].dtype
    cast: Any = pytree.tree_map_only(torch.Tensor, lambda x: x.to(dtype) if x.dtype == torch.float32 else x, args)
    return tuple(cast)


def _autocasts() -> bool:
    return torch.is_autocast_enabled("cpu") or torch.is_autocast_enabled("cuda")


def _is_inexact(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()
