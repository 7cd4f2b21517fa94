"""Marks in an exported graph: a custom torch operator, the identity, at each value that crosses a Cell boundary."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ...runtime.ir.types import CellCall

_LIBRARY = torch.library.Library("cellbridge", "DEF")  # type: ignore[no-untyped-call]
_LIBRARY.define("boundary(Tensor x, int call, int position, bool is_output) -> Tensor")  # type: ignore[no-untyped-call]


@torch.library.impl(_LIBRARY, "boundary", "CompositeExplicitAutograd")
def _boundary(x: torch.Tensor, call: int, position: int, is_output: bool) -> torch.Tensor:
    return x.clone()


@torch.library.register_fake("cellbridge::boundary", lib=_LIBRARY)  # type: ignore[untyped-decorator]
def _boundary_fake(x: torch.Tensor, call: int, position: int, is_output: bool) -> torch.Tensor:
    return torch.empty_like(x)


BOUNDARY = torch.ops.cellbridge.boundary.default
# an unused output of a Cell is still a boundary: torch must not remove its mark as dead code
torch.fx.node.has_side_effect(BOUNDARY)


class Marker:
    """A visitor that marks every boundary and records the calls.

    Attributes:
        calls: the Cell calls, in order of entry.
        slots: name of each marked tensor, by `(call number, position, is output)`.
    """

    def __init__(self) -> None:
        self.calls: list[CellCall] = []
        self.slots: dict[tuple[int, int, bool], str] = {}

    def enter(self, number: int, call: CellCall, module: torch.nn.Module, slots: Sequence[str]) -> None:
        """Record the call; the root's call starts a new tracing run."""
        if number == 0:
            self.calls.clear()
            self.slots.clear()
        self.calls.append(call)

    def input(self, number: int, position: int, slot: str, tensor: torch.Tensor) -> torch.Tensor:
        """Mark an input."""
        return self._mark(number, position, slot, tensor, is_output=False)

    def returns(self, number: int, result: Any, slots: Sequence[str]) -> None:
        """Do nothing."""

    def output(self, number: int, position: int, slot: str, tensor: torch.Tensor) -> torch.Tensor:
        """Mark an output."""
        return self._mark(number, position, slot, tensor, is_output=True)

    def leave(self, number: int, module: torch.nn.Module) -> None:
        """Do nothing."""

    def _mark(self, number: int, position: int, slot: str, tensor: torch.Tensor, *, is_output: bool) -> torch.Tensor:
        self.slots[number, position, is_output] = slot
        marked: torch.Tensor = BOUNDARY(tensor, number, position, is_output)
        return marked
