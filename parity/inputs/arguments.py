"""The arguments of a call as torch takes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

from ...converter.capture.containers import open_containers
from ...runtime.tensor_like import TensorLike


def as_arguments(args: Any, kwargs: Mapping[str, Any] | None) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return positional and keyword arguments, with arrays and the runtime's tensors converted to torch tensors."""
    keywords = dict(kwargs or {})
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
