"""`--dynamic NAME:AXIS=SYMBOL`: dynamic axes of a model file's inputs, given on the command line."""

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
    """Return the model file with `dynamic_shapes` set by these options, or unchanged if there are none.

    Raises:
        UsageError: an option isn't NAME:AXIS=SYMBOL, names no tensor argument of `forward` or no axis of it, or the
            file defines `dynamic_shapes` itself.
    """
    if not dynamic:
        return user_file
    if user_file.dynamic_shapes is not None:
        raise UsageError(f"{user_file.name} defines dynamic_shapes: change them there, or leave out --dynamic")
    import torch

    arguments = inspect.signature(user_file.module.forward).bind(*user_file.args, **user_file.kwargs).arguments
    tensors = {name: value for name, value in arguments.items() if isinstance(value, torch.Tensor)}
    shapes: dict[str, Any] = {
        name: None if name in tensors else _no_dynamic_axes(value) for name, value in arguments.items()
    }
    for option in dynamic:
        match = _FORM.fullmatch(option)
        if match is None:
            raise UsageError(f"--dynamic takes NAME:AXIS=SYMBOL, as in x:0=batch, given {option!r}")
        name, axis, symbol = match["name"], int(match["axis"]), match["symbol"]
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


def _no_dynamic_axes(value: Any) -> Any:
    """`dynamic_shapes` of an argument without dynamic axes."""
    import torch
    from torch.utils import _pytree as pytree

    if isinstance(value, (list, tuple, Mapping)):
        return pytree.tree_map(lambda _: None, value, is_leaf=lambda leaf: isinstance(leaf, torch.Tensor))
    return None
