"""`--dynamic NAME:AXIS=SYMBOL`: which axes of a model file's inputs may vary, said on the command line."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...runtime.errors import UsageError
from .model_file import ModelFile

_FORM = re.compile(r"(?P<name>[^\W\d]\w*):(?P<axis>-?\d+)=(?P<symbol>[^\W\d]\w*)")


def with_dynamic_axes(user_file: ModelFile, dynamic: Sequence[str]) -> ModelFile:
    """The model file with `dynamic_shapes` as these options say; itself if there are none.

    Raises:
        UsageError: an option isn't NAME:AXIS=SYMBOL, names no tensor argument of `forward` or an axis that it hasn't,
            or the file has `dynamic_shapes` of its own.
    """
    if not dynamic:
        return user_file
    if user_file.dynamic_shapes is not None:
        raise UsageError(f"{user_file.name} defines dynamic_shapes: change them there, or leave out --dynamic")
    import torch

    bound = inspect.signature(user_file.module.forward).bind(*user_file.args, **user_file.kwargs).arguments
    tensors = {name: value for name, value in bound.items() if isinstance(value, torch.Tensor)}
    shapes: dict[str, Any] = {name: None if name in tensors else _fixed(value) for name, value in bound.items()}
    for option in dynamic:
        found = _FORM.fullmatch(option)
        if found is None:
            raise UsageError(f"--dynamic takes NAME:AXIS=SYMBOL, as in x:0=batch, given {option!r}")
        name, axis, symbol = found["name"], int(found["axis"]), found["symbol"]
        if name not in tensors:
            raise UsageError(
                f"--dynamic {option}: the tensors that forward takes are {', '.join(tensors) or 'none'}; "
                "for tensors in lists, tuples and dicts, define dynamic_shapes in the model file"
            )
        rank = tensors[name].ndim
        if not -rank <= axis < rank:
            raise UsageError(f"--dynamic {option}: {name} has {rank} dimensions")
        shapes[name] = {**(shapes[name] or {}), axis % rank: torch.export.Dim(symbol)}
    return replace(user_file, dynamic_shapes=shapes)


def _fixed(value: Any) -> Any:
    """`dynamic_shapes` of an argument of which nothing varies."""
    import torch
    from torch.utils import _pytree as pytree

    if isinstance(value, (list, tuple, Mapping)):
        return pytree.tree_map(lambda _: None, value, is_leaf=lambda leaf: isinstance(leaf, torch.Tensor))
    return None
