"""The arguments of a call as torch takes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

from ...converter.capture.containers import open_containers
from ...runtime.errors import UsageError
from ...runtime.tensor_like import TensorLike


def as_keywords(kwargs: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return keyword arguments.

    Raises:
        UsageError: they are something else, such as a second positional input that stands outside of a tuple.
    """
    if kwargs is None or isinstance(kwargs, Mapping):
        return dict(kwargs or {})
    raise UsageError(
        f"`kwargs` needs a dict of keyword inputs, given {type(kwargs).__name__}; several positional inputs are one "
        "tuple: (x, mask)"
    )


def as_arguments(args: Any, kwargs: Mapping[str, Any] | None) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return positional and keyword arguments, with arrays and the runtime's tensors converted to torch tensors.

    Raises:
        UsageError: `kwargs` is no dict.
    """
    keywords = as_keywords(kwargs)
    open_containers((args, keywords))
    if isinstance(args, Mapping):
        args, keywords = (), {**args, **keywords}
    elif not isinstance(args, (tuple, list)):
        args = (args,)

    def as_torch(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            return leaf
        array = np.asarray(leaf) if isinstance(leaf, TensorLike) or hasattr(leaf, "asnumpy") else leaf
        return torch.from_numpy(np.array(array)) if isinstance(array, np.ndarray) else leaf

    result: tuple[tuple[Any, ...], dict[str, Any]] = pytree.tree_map(as_torch, (tuple(args), keywords))
    return result
