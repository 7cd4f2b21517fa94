"""Operators whose result has a shape that values decide, as graphs of `to_torch` call them."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ...runtime.ir.types import Type
from ...runtime.onnx_functions.registry import get_recipe
from ...runtime.ops.higher_order.by_value import contents
from ...runtime.programs.subprograms import traced
from ..capture.table import numpy_dtype

Options = tuple[tuple[str, Any], ...]


def by_value(operator: str, options: Options, *operands: Tensor | None) -> Any:
    """Apply an ONNX operator, written in torch for the sizes and the contents that it meets.

    Args:
        operator: name of its recipe.
        options: its attributes, with dtypes of torch.
        *operands: those of the operator; None for an absent one.

    Returns:
        The output, or a tuple of them.
    """
    structural = get_recipe(operator).flags(len(operands))
    pairs = list(zip(operands, structural, strict=True))
    given = tuple(contents(x) if fixed else None for x, fixed in pairs)
    tensors = [x for x, fixed in pairs if x is not None and not fixed]
    attributes = tuple((key, numpy_dtype(x) if isinstance(x, torch.dtype) else x) for key, x in options)
    types = tuple(None if x is None or fixed else Type(numpy_dtype(x.dtype), tuple(x.shape)) for x, fixed in pairs)
    devices = [x.device for x in operands if x is not None]
    return _written(operator, attributes, types, given, devices[0])(*tensors)


@functools.lru_cache(maxsize=256)
def _written(
    operator: str, options: Options, types: Sequence[Type | None], contents: Sequence[Any], device: torch.device
) -> nn.Module:
    """The recipe as a module, for operands of these types or contents."""
    from .export import to_torch  # whose graphs call this

    def applied(*tensors: Any) -> Sequence[Any]:
        remaining = iter(tensors)
        chosen = [fixed if type is None else next(remaining) for type, fixed in zip(types, contents, strict=True)]
        made = get_recipe(operator).function(*chosen, **dict(options))
        return made if isinstance(made, tuple) else (made,)

    return to_torch(traced(applied, [type for type in types if type is not None], operator)).to(device)
