"""`Twin`: a network and the port of it that somebody else wrote, with the weights of the network."""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from fixtures.planted_faults.port_edits import PortFault
from fixtures.planted_faults.source_edits import edited

SEED = 50
PAIRS = f"{__package__}.pairs"
STATISTICS = ("running_mean", "running_var")


@dataclass(frozen=True)
class Twin:
    """A network and its port.

    Attributes:
        name: `<family>/<what is different>`; the family is the name of the file.
        build: makes the reference; its weights are drawn anew.
        port: makes the candidate, in torch's default dtype, with the weights of the reference that it is given.
        inputs: makes the arguments.
        rounding: how far the outputs of the two may be apart in float64, relative to their size.
    """

    name: str
    build: Callable[[], nn.Module]
    port: Callable[[nn.Module], Any]
    inputs: Callable[[], tuple[Any, ...]]
    rounding: float = 1e-9

    @property
    def family(self) -> str:
        """Name of the file."""
        return self.name.partition("/")[0]

    def reference(self) -> nn.Module:
        """Return the reference in eval mode, always with the same weights, which aren't the usual initial values."""
        with torch.random.fork_rng():
            torch.manual_seed(SEED)
            module = self.build().eval()
            draw_weights(module)
        return module

    def candidate(self, reference: nn.Module, faults: Iterable[PortFault] = ()) -> Any:
        """Return the candidate in eval mode, from the file in which the faults are planted."""
        changes = [(fault.old, fault.new) for fault in faults]
        twin = self if not changes else _twins_of(edited(PAIRS, self.family, changes))[self.name]
        with torch.random.fork_rng():
            torch.manual_seed(SEED + 1)  # for a parameter that a fault leaves as it was drawn
            candidate = twin.port(reference)
        return candidate.eval() if isinstance(candidate, nn.Module) else candidate

    def arguments(self) -> tuple[Any, ...]:
        """Return the arguments, always the same."""
        with torch.random.fork_rng():
            torch.manual_seed(SEED + 2)
            return self.inputs()


def draw_weights(module: nn.Module) -> None:
    """Draw matrices by their number of inputs; move vectors, and the statistics of batch norms, from 0 and 1."""
    statistics = [tensor for name, tensor in module.named_buffers() if name.rpartition(".")[2] in STATISTICS]
    with torch.no_grad():
        for tensor in [*module.parameters(), *statistics]:
            if tensor.dim() > 1:
                tensor.normal_().mul_((tensor.numel() / tensor.shape[0]) ** -0.5)
            else:
                tensor += 0.3 * torch.rand_like(tensor)
        for inner in module.modules():
            if isinstance(inner, nn.Embedding) and inner.padding_idx is not None:
                inner._fill_padding_idx_with_zero()


@functools.cache
def twins() -> dict[str, Twin]:
    """Return the pairs of all files by name."""
    (folder,) = importlib.import_module(PAIRS).__path__
    families = sorted(file.name for file in pkgutil.iter_modules([folder]))
    files = [importlib.import_module(f"{PAIRS}.{family}") for family in families]
    return {name: twin for file in files for name, twin in _twins_of(file).items()}


def _twins_of(file: Any) -> dict[str, Twin]:
    return {twin.name: twin for twin in file.TWINS}
