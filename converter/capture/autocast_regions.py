"""What `torch.export` forgets of autocast regions: `torch.no_grad()` there, and casts within an operator."""

from __future__ import annotations

import string
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

_ATEN = torch.ops.aten
_LETTERS = string.ascii_uppercase + string.ascii_lowercase


class DetachedInAutocast(TorchFunctionMode):
    """While a module is exported, results in `torch.no_grad()` are detached one by one where autocast is on.

    Elsewhere the exported graph has a region for it, whose results `prepare` detaches.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        keywords = kwargs or {}
        result = func(*args, **keywords)
        if torch.is_grad_enabled() or not _autocasts():
            return result
        given = {id(leaf) for leaf in pytree.tree_leaves((args, keywords))}  # what is changed in place stays itself

        def detached(tensor: torch.Tensor) -> torch.Tensor:
            return tensor.detach() if _is_inexact(tensor) and id(tensor) not in given else tensor

        return pytree.tree_map_only(torch.Tensor, detached, result)


class TakenApartInAutocast(TorchFunctionMode):
    """While a module is exported, operators that autocast reaches only in their parts are taken apart where it is on.

    Autocast has no rule for `einsum`, but for the `bmm` that it calls. An exported graph holds `einsum` whole, and what
    it would have cast stays as it was. So it is with recurrent layers, which stay whole: their operands are cast.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        keywords = kwargs or {}
        if not _autocasts():
            return func(*args, **keywords)
        if func in _RECURRENT:
            return func(*_in_one_dtype(func, args), **keywords)
        if func not in _APART:
            return func(*args, **keywords)
        with torch._C.DisableTorchFunction():  # another mode would be handed the whole operator
            return _APART[func](*args, **keywords)


def _einsum(equation: Any, *operands: Any) -> Any:
    if not isinstance(equation, str):  # x, [0, 1], y, [1, 2], [0, 2]
        given = (equation, *operands)
        subscripts = [_subscript(axes) for axes in given[1::2]]
        result = f"->{_subscript(given[-1])}" if len(given) % 2 else ""
        equation, operands = ",".join(subscripts) + result, given[: len(subscripts) * 2 : 2]
    elif len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = tuple(operands[0])
    return _ATEN.einsum.default.decompose(equation, list(operands))


def _subscript(axes: Sequence[Any]) -> str:
    return "".join("..." if axis is Ellipsis else _LETTERS[axis] for axis in axes)


def _tensordot(a: torch.Tensor, b: torch.Tensor, dims: Any = 2, out: None = None) -> Any:
    if isinstance(dims, int):
        dims = range(-dims, 0), range(dims)
    ours, theirs = ([of] if isinstance(of, int) else list(of) for of in dims)
    return _ATEN.tensordot.default.decompose(a, b, ours, theirs)


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
    """As ATen _trilinear: two products of matrices for each output feature, added to zeros in the dtype of `input1`."""
    of_first = torch.matmul(input1.reshape(-1, input1.shape[-1]), weight).movedim(0, 1)
    of_both = torch.matmul(of_first, input2.reshape(-1, input2.shape[-1], 1)).to(input1.dtype)
    result = of_both.reshape(*input1.shape[:-1], weight.shape[0])
    return result if bias is None else result + bias


_APART: dict[Any, Callable[..., Any]] = {
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

_CAST = (torch.lstm, torch.rnn_tanh, torch.rnn_relu, torch.rnn_tanh_cell, torch.rnn_relu_cell)
_RECURRENT = frozenset((*_CAST, torch.gru, torch.gru_cell, torch.lstm_cell))


def _in_one_dtype(func: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The operands of a recurrent layer in the dtype of its results: float32 in some of them, if the input is."""
    half = torch.get_autocast_dtype("cuda" if torch.is_autocast_enabled("cuda") else "cpu")
    dtype = half if func in _CAST else args[0].dtype
    cast: Any = pytree.tree_map_only(torch.Tensor, lambda x: x.to(dtype) if x.dtype == torch.float32 else x, args)
    return tuple(cast)


def _autocasts() -> bool:
    return torch.is_autocast_enabled("cpu") or torch.is_autocast_enabled("cuda")


def _is_inexact(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()
