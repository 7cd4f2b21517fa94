"""What TorchScript computes without tensors: with numbers, texts and containers, as Python does."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable
from typing import Any

import torch

_NUMBERS = (int, float, bool, torch.SymInt, torch.SymFloat, torch.SymBool)


_NUMBERS_OF: Any = torch.jit.CompilationUnit(
    """
    def dtype(x: Tensor) -> int:
        return x.dtype
    def layout(x: Tensor) -> int:
        return x.layout
    """
)
ENUMS: dict[str, dict[int, Any]] = {
    "ScalarType": {
        _NUMBERS_OF.dtype(torch.empty(0, dtype=dtype)): dtype
        for dtype in (
            *(torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.float32),
            *(torch.float64, torch.complex64, torch.complex128, torch.bool, torch.bfloat16),
        )
    },
    "Layout": {_NUMBERS_OF.layout(torch.empty(0)): torch.strided},
    "MemoryFormat": dict(enumerate((torch.contiguous_format, torch.preserve_format, torch.channels_last))),
}
"""Values of operators' arguments, which TorchScript holds as integers, by type."""


def _number(kind: type, x: Any) -> Any:
    """A number of a kind, from a number or a tensor of one element."""
    if isinstance(x, torch.Tensor):
        return x.bool().item() if kind is bool else x.item()
    return x if isinstance(x, _NUMBERS) and (kind is int) == isinstance(x, (int, torch.SymInt)) else kind(x)


def _insert(container: Any, key: Any, value: Any) -> Any:
    container[key] = value
    return container


def _append(items: list[Any], item: Any) -> list[Any]:
    items.append(item)
    return items


def _divide(x: Any, y: Any, rounding_mode: str | None = None) -> Any:
    return x / y if rounding_mode is None else x // y if rounding_mode == "floor" else math.trunc(x / y)


def _format(text: str, values: tuple[Any, ...]) -> str:
    """Return a text with a value in the place of each `{}`: all that TorchScript's `format` knows."""
    first, *rest = text.split("{}")
    return first + "".join(f"{value}{part}" for value, part in zip(values, rest, strict=True))


def _same(x: Any, *_: Any) -> Any:
    return x


_PROPERTIES = (
    *("dtype", "device", "layout", "requires_grad", "is_cpu", "is_cuda", "is_meta", "is_mkldnn", "is_mps", "is_nested"),
    *("is_quantized", "is_sparse", "is_xla", "is_xpu", "itemsize", "nbytes"),
    "type",  # of a device,
)
"""Attributes of a tensor."""
PRIMITIVES: dict[str, Callable[..., Any]] = {
    "prim::ListConstruct": lambda *items: list(items),
    "prim::TupleConstruct": lambda *items: items,
    "prim::TupleIndex": operator.getitem,
    "prim::Uninitialized": lambda: None,
    "prim::NumToTensor": _same,
    "prim::unchecked_cast": _same,
    "prim::unchecked_unwrap_optional": _same,
    "prim::ImplicitTensorToNum": functools.partial(_number, float),
    **{f"prim::{name}": operator.attrgetter(name) for name in _PROPERTIES},
    "prim::Print": lambda *_: None,
    "aten::_unwrap_optional": _same,
    "aten::warn": lambda *_: None,
    "aten::Int": functools.partial(_number, int),
    "aten::IntImplicit": functools.partial(_number, int),
    "aten::Float": functools.partial(_number, float),
    "aten::FloatImplicit": functools.partial(_number, float),
    "aten::Bool": functools.partial(_number, bool),
    "aten::ScalarImplicit": lambda x: x.item() if isinstance(x, torch.Tensor) else x,
    "aten::size": lambda x, *dim: x.shape[dim[0]] if dim else list(x.shape),
    "aten::dim": lambda x: x.ndim,
    "aten::len": len,
    "aten::__getitem__": operator.getitem,
    "aten::__contains__": operator.contains,
    "aten::__is__": operator.is_,
    "aten::__isnot__": operator.is_not,
    "aten::_set_item": _insert,
    "aten::_convolution": lambda *operands: torch.ops.aten.convolution.default(*operands[:9]),  # then come settings
    "aten::append": _append,
    "aten::keys": lambda x: list(x.keys()),
    "aten::values": lambda x: list(x.values()),
    "aten::items": lambda x: list(x.items()),
    "aten::list": list,
}
"""Operations that may have tensors among their operands, most of which run no operator of torch."""
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "aten::add": operator.add,
    "aten::sub": operator.sub,
    "aten::mul": operator.mul,
    "aten::div": _divide,
    "aten::floordiv": operator.floordiv,
    "aten::floor_divide": operator.floordiv,
    "aten::remainder": operator.mod,
    "aten::pow": operator.pow,
    "aten::neg": operator.neg,
    "aten::abs": abs,
    "prim::abs": abs,
    "prim::min": min,
    "prim::max": max,
    "aten::sqrt": math.sqrt,
    "aten::log": math.log,
    "aten::exp": math.exp,
    "aten::floor": math.floor,
    "aten::ceil": math.ceil,
    "aten::eq": operator.eq,
    "aten::ne": operator.ne,
    "aten::lt": operator.lt,
    "aten::le": operator.le,
    "aten::gt": operator.gt,
    "aten::ge": operator.ge,
    "aten::__and__": operator.and_,
    "aten::__or__": operator.or_,
    "aten::__xor__": operator.xor,
    "aten::__not__": operator.not_,
    "aten::format": lambda text, *values: _format(text, values),
}
"""Operations on numbers, texts and lists, which are operators of torch where an operand is a tensor."""
