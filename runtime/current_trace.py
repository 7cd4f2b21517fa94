"""The current trace of Python code, and the protocols through which the rest of the runtime uses it.

`Trace`, `Guard` and `Region` in `graph` implement them. Tensors, Parameters, Cells and the tape use only these.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import Any, NoReturn, Protocol

from .errors import TracingError


class GuardProtocol(Protocol):
    """Refuses actions that Python code must not take while it is traced; see `graph.guard`."""

    def refusal(self, kind: type[TracingError], what: str, instead: str, place: str | None = None) -> TracingError:
        """Return the error to raise: what the code did, in which Cell and line, and what to write instead."""

    def follow_source(self, operation: str, frame: FrameType) -> None:
        """Handle Python code that needs the elements of a tensor for a condition or a built-in function."""

    def on_cell_created(self, cell: Any) -> None:
        """Handle the creation of a Cell."""

    def on_attribute_set(self, cell: Any, name: str, value: Any) -> None:
        """Handle the assignment of an attribute of a Cell."""

    def on_tensor_write(self, x: Any) -> None:
        """Handle a write to a Tensor."""

    def refuse_flag_change(self, parameter: str) -> NoReturn:
        """Refuse a change of a flag of the Parameter of that name."""

    def refuse_initial_values(self) -> NoReturn:
        """Refuse the creation of initial values for a Parameter."""


class RegionProtocol(Protocol):
    """The branch or loop that is being recorded; see `graph.control.regions`."""

    def on_gradient(self) -> None:
        """Handle a gradient that is requested inside the region."""


class TraceProtocol(Protocol):
    """One run of Python on symbolic tensors; see `graph.recording`."""

    builder: Any
    """The `tracing.Builder` of the program under construction."""

    @property
    def guard(self) -> GuardProtocol:
        """The guard of this trace."""

    @property
    def region(self) -> RegionProtocol | None:
        """The innermost branch or loop that is being recorded; None outside of any."""

    def should_record(self, op: Any, operands: Sequence[Any], attributes: dict[str, Any]) -> bool:
        """Whether to record an op on arrays and symbolic data; otherwise it is computed immediately."""

    def record(self, op: Any, operands: Sequence[Any], attributes: dict[str, Any]) -> tuple[Any, ...]:
        """Append a node; arrays become constants."""

    def apply(self, op: Any, inputs: tuple[Any, ...], attributes: dict[str, Any]) -> Any:
        """Return the output Tensor (a tuple for several outputs) of an op that has no Tensor operands."""

    def import_values(self, operands: Sequence[Any]) -> tuple[Any, ...]:
        """Return the operands of an op as values of the branch or loop that is being recorded, if there is one."""

    def once(self, what: str, x: Any, make: Callable[[], Any]) -> Any:
        """Return the result of `make` for a symbolic tensor, cached for values that are computed in the same way."""

    def print_tensors(self, items: Sequence[Any]) -> None:
        """Print tensors in each run of the program."""

    def place(self) -> Any:
        """Return the current Cell call and the line that recorded last."""

    def at(self, place: Any) -> contextlib.AbstractContextManager[None]:
        """Within the context, nodes belong to a place."""

    def replay(self, source: Any) -> contextlib.AbstractContextManager[None]:
        """Within the context, record a node of another program unchanged, whatever its operands are."""

    def without_gradient(self) -> contextlib.AbstractContextManager[None]:
        """Within the context, no gradient flows through recorded nodes."""

    def call(self, cell: Any, args: tuple[Any, ...], kwargs: dict[str, Any], runs: Callable[..., Any]) -> Any:
        """Run a Cell by `runs(cell, args, kwargs)`, and mark its input and output Tensors with boundaries."""

    def splice(self, program: Any, cells: Sequence[Any], operands: Any, results: Sequence[Any]) -> list[Any]:
        """Copy the nodes of a program into the one being traced; return a Tensor for each of its values `results`."""

    def value_of(self, parameter: Any) -> Any:
        """Return the value of a Parameter at this point of the program."""

    def assign(self, parameter: Any, data: Any) -> None:
        """Give a Parameter a new value, an array or symbolic data, from this point on."""

    def with_custom_backward(self, name: str, outputs: Sequence[Any], operands: Sequence[Any], pull: Any) -> Any:
        """Return tensors with a user-defined backward pass."""

    def update_unless(self, skip: Any, update: Callable[[], Any]) -> None:
        """Call `update`; where the symbolic bool `skip` is true, Parameters that it changes keep their old values."""


class _CurrentTrace(threading.local):
    """The current trace, per thread; None outside of `graph.trace`."""

    trace: TraceProtocol | None = None


_current = _CurrentTrace()


def current() -> TraceProtocol | None:
    """Return the current trace, which records operations on symbolic Tensors; None if there is none."""
    return _current.trace


@contextlib.contextmanager
def use_trace(trace: TraceProtocol | None) -> Iterator[None]:
    """Within the context, make `trace` the current one; None for no trace."""
    before = _current.trace
    _current.trace = trace
    try:
        yield
    finally:
        _current.trace = before
