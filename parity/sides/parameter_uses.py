"""Observes which parameters a torch module uses outside the Cells that hold them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode


class ParameterUses(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A mode that collects the parameters that a Cell uses which doesn't hold them, such as the words of a tied head.

    Args:
        names: qualified names of the parameters.
        running: returns the path of the running Cell.
    """

    def __init__(self, names: Mapping[torch.nn.Parameter, str], running: Callable[[], str]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.names = names
        self.running = running
        self.elsewhere: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        for leaf in pytree.tree_leaves((args, kwargs)):
            name = self.names.get(leaf) if isinstance(leaf, torch.nn.Parameter) else None
            if name is not None and name.rpartition(".")[0] != self.running():
                self.elsewhere.add(name)
        return func(*args, **kwargs or {})
