"""The trace of Python that runs now, and what the rest of the runtime asks of it.

`graph.recording.Trace` is the one that there is. Tensors, Parameters, Cells and the tape know it by these protocols.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import Any, NoReturn, Protocol

from .errors import TracingError


class Guard(Protocol):
    """Refuses what Python may not do while it is traced; see `graph.guard`."""

    def refusal(self, kind: type[TracingError], what: str, instead: str, place: str | None = None) -> TracingError:
        """The error to raise: what Python did, in which Cell, on which line, and what to write instead."""

    def follow_source(self, wanted: str, frame: FrameType) -> None:
        """Python needs the elements of a tensor for a condition, or a built-in function."""

    def on_create(self, cell: Any) -> None:
        """A Cell is made."""

    def on_set(self, cell: Any, name: str, value: Any) -> None:
        """An attribute of a Cell is set."""

    def on_write(self, x: Any) -> None:
        """A Tensor is written to."""

    def on_set_flag(self, parameter: str) -> NoReturn:
        """A flag of the Parameter of that name is set."""

    def on_initial_values(self) -> NoReturn:
        """Initial values of a Parameter are made."""


class Region(Protocol):
    """The branch or loop that is recorded now; see `graph.control.regions`."""

    def check_gradient(self) -> None:
        """A gradient is asked for inside of it."""


class Trace(Protocol):
    """One run of Python on symbolic tensors; see `graph.recording`."""

    builder: Any
    """The `tracing.Builder` of the program under construction."""

    @property
    def guard(self) -> Guard:
        """What refuses."""

    @property
    def region(self) -> Region | None:
        """The innermost branch or loop that is recorded; None outside of any."""

    def should_record(self, op: Any, operands: Sequence[Any], attributes: dict[str, Any]) -> bool:
        """Whether an op on arrays and symbolic data is recorded; otherwise it is computed at once."""

    def record(self, op: Any, operands: Sequence[Any], attributes: dict[str, Any]) -> tuple[Any, ...]:
        """Append a node; arrays become constants."""

    def apply(self, op: Any, inputs: tuple[Any, ...], attributes: dict[str, Any]) -> Any:
        """The Tensor (a tuple of several) of an op without operands that are Tensors."""

    def import_operands(self, operands: Sequence[Any]) -> tuple[Any, ...]:
        """Operands of an op as they are used in the branch or loop that is recorded, if one is."""

    def once(self, what: str, x: Any, make: Callable[[], Any]) -> Any:
        """What `make` gives for a symbolic tensor, made once for what is computed in the same way."""

    def record_print(self, items: Sequence[Any]) -> None:
        """Print tensors at each run of the program."""

    def place(self) -> Any:
        """The Cell call that runs, and the line that recorded last."""

    def at(self, place: Any) -> contextlib.AbstractContextManager[None]:
        """Within the context, nodes belong to a place."""

    def replaying(self, source: Any) -> contextlib.AbstractContextManager[None]:
        """Within the context, a node of another program is recorded as it is, whatever its operands are."""

    def without_gradient(self) -> contextlib.AbstractContextManager[None]:
        """Within the context, no gradient flows through what is recorded."""

    def call(self, cell: Any, args: tuple[Any, ...], kwargs: dict[str, Any], runs: Callable[..., Any]) -> Any:
        """Run a Cell by `runs(cell, args, kwargs)`, with the Tensors that go in and come out marked as its own."""

    def value_of(self, parameter: Any) -> Any:
        """What a Parameter holds at this place of the program."""

    def assign(self, parameter: Any, data: Any) -> None:
        """Let a Parameter hold an array or symbolic data from here on."""

    def with_own_gradient(self, name: str, outputs: Sequence[Any], operands: Sequence[Any], pull: Any) -> Any:
        """Tensors with a backward pass written by hand."""

    def update_unless(self, skip: Any, update: Callable[[], Any]) -> None:
        """Call `update`; each Parameter that it gives a new value keeps its old one where the symbolic `skip` holds."""


class _Current(threading.local):
    """The trace of Python that runs now, per thread; None outside of `graph.trace`."""

    trace: Trace | None = None


_current = _Current()


def current() -> Trace | None:
    """The trace of Python that runs now: Tensors may be symbolic, and what is computed with them is recorded there."""
    return _current.trace


@contextlib.contextmanager
def tracing(trace: Trace | None) -> Iterator[None]:
    """Within the context, `trace` is the current one (None: there is none)."""
    before = _current.trace
    _current.trace = trace
    try:
        yield
    finally:
        _current.trace = before
