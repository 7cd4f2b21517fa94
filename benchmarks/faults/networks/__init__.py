"""Small networks of real architectures, each in a file of its own, that need nothing but torch.

A file has `build()`, which returns the module with torch's initial weights, and `inputs()`, which returns its
arguments. `NETWORKS` has them by name, with weights moved away from their initial values as training would.
"""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

SEED = 20


@dataclass(frozen=True)
class Network:
    """A network by the name of its file."""

    name: str

    def module(self) -> nn.Module:
        """Return the network in eval mode, always with the same weights."""
        with torch.random.fork_rng():
            torch.manual_seed(SEED)
            module: nn.Module = self._file.build()
            _move_from_initial_values(module)
        return module.eval()

    def inputs(self) -> tuple[Any, ...]:
        """Return the arguments, always the same."""
        with torch.random.fork_rng():
            torch.manual_seed(SEED + 1)
            arguments: tuple[Any, ...] = self._file.inputs()
        return arguments

    @property
    def _file(self) -> Any:
        return importlib.import_module(f"{__name__}.{self.name}")


def _move_from_initial_values(module: nn.Module) -> None:
    """Give vectors that start at 0 or 1, and the statistics of batch norms, other values."""
    for tensor in [*module.parameters(), *module.buffers()]:
        if tensor.is_floating_point() and tensor.dim() == 1:
            with torch.no_grad():
                tensor += 0.3 * torch.rand_like(tensor)
    for inner in module.modules():
        if isinstance(inner, nn.Embedding) and inner.padding_idx is not None:
            inner._fill_padding_idx_with_zero()


NETWORKS = {name: Network(name) for name in sorted(file.name for file in pkgutil.iter_modules(__path__))}
