"""`torch.no_grad()` within an autocast region, which `torch.export` (2.13) forgets."""

from __future__ import annotations

from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree


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


def _autocasts() -> bool:
    return torch.is_autocast_enabled("cpu") or torch.is_autocast_enabled("cuda")


def _is_inexact(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()
