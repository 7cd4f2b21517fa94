"""`Around`: a part of a network at its own path, without the rest of the network."""

from __future__ import annotations

from typing import Any

import torch


class Around(torch.nn.Module):
    """Modules that hold a part where the network does, so that Cells and parameters have the network's names."""

    def __init__(self, path: str, part: torch.nn.Module) -> None:
        super().__init__()
        *outer, last = path.split(".")
        parent: torch.nn.Module = self
        for name in outer:
            inner = torch.nn.Module()
            inner.training = part.training
            parent.add_module(name, inner)
            parent = inner
        parent.add_module(last, part)
        self.training = part.training
        self._path = path

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the part."""
        return self.get_submodule(self._path)(*args, **kwargs)
