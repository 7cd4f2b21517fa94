"""Marks in an exported graph: a custom torch operator, the identity, at each value that crosses a Cell boundary."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx.experimental.proxy_tensor import (
    disable_proxy_modes_tracing,
    get_proxy_mode,
    get_proxy_slot,
    track_tensor_tree,
)
from torch.fx.experimental.symbolic_shapes import uninteresting_files

from ...runtime.ir.types import CellCall
from .cell_hooks import Visitor

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


class Marker(Visitor):
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

    def output(self, number: int, position: int, slot: str, tensor: torch.Tensor) -> torch.Tensor:
        """Mark an output."""
        return self._mark(number, position, slot, tensor, is_output=True)

    def _mark(self, number: int, position: int, slot: str, tensor: torch.Tensor, *, is_output: bool) -> torch.Tensor:
        self.slots[number, position, is_output] = slot
        boundary = number, position, is_output
        marked: torch.Tensor | None = _record(tensor, boundary)
        return BOUNDARY(tensor, *boundary) if marked is None else marked


def _record(tensor: torch.Tensor, boundary: tuple[int, int, bool]) -> torch.Tensor | None:
    """Record the call of `BOUNDARY` in torch's graph, as its dispatcher would, in a quarter of the time.

    Returns:
        The result; None if torch must record the call, since it isn't tracing, or knows the number in the tensor.
    """
    mode = get_proxy_mode()
    if mode is None or type(tensor) is not FakeTensor:
        return None
    tracer: Any = mode.tracer
    tracked = get_proxy_slot(tensor, tracer, None)
    if tracked is None or tracked.constant is not None:
        return None
    records, tracer.record_stack_traces = tracer.record_stack_traces, False
    try:
        with torch._C.DisableTorchFunction():
            with disable_proxy_modes_tracing():
                marked: torch.Tensor = BOUNDARY(tensor, *boundary)
            proxy = tracer.create_proxy("call_function", BOUNDARY, (tracked.proxy, *boundary), {}, name="boundary")
            proxy.node.stack_trace = _stack_trace()
            track_tensor_tree(marked, proxy, constant=None, tracer=tracer)
    finally:
        tracer.record_stack_traces = records
    return marked


def _stack_trace() -> str:
    """Return the lines of the model that are running, as torch writes them: those in functions called `forward`."""
    running = ((frame.f_code, line) for frame, line in traceback.walk_stack(None))
    lines = [
        traceback.FrameSummary(code.co_filename, line, code.co_name)
        for code, line in running
        if code.co_name == "forward" and code.co_filename not in uninteresting_files()
    ]
    return "".join(traceback.format_list(lines[::-1])).strip()
