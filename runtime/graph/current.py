"""The trace of Python that runs now, with all that graph mode knows of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol, cast

from .. import current_trace
from ..common.parameter import Parameter
from ..ir.types import CellCall, Value
from ..tracing import Builder, SymbolicTensor


@dataclass
class SymbolicParameter:
    """A Parameter that was met: its value at the beginning of the program, and now.

    It was tracked as `tracked` says before the trace, and as `began` says when it was met.
    """

    parameter: Parameter
    names: tuple[str, ...]
    first: SymbolicTensor
    now: SymbolicTensor
    tracked: tuple[Any, int]
    began: tuple[Any, int | None]


class Enclosing(Protocol):
    """A branch or loop around what is recorded: a `control.regions.Region`."""

    depth: int
    tape: Any

    @property
    def outer(self) -> Enclosing | None:
        """The one around it."""

    def imported(self, x: Any) -> Any:
        """A tensor of outside, as it is used within."""

    def begins_gradient(self) -> None:
        """A gradient is asked for within."""


class Recording(ABC):
    """What `recording.Trace` is for the parts of graph mode.

    Attributes:
        builder: the program under construction.
        calls: the Cell calls so far.
        held: the Parameters that were met, by identity.
        guard: what refuses; see `guard.Guard`.
        region: the branch or loop that is recorded now.
        inputs: the values that the program is given.
        made: what is made `once`.
        enclosed: values of branches and loops that were recorded.
        one_sided: why a variable may have no value, by name: it is defined in one branch only.
        printed: what each run of the program prints, in order.
    """

    builder: Builder
    calls: list[CellCall]
    held: dict[int, SymbolicParameter]
    guard: current_trace.Guard
    region: Enclosing | None
    inputs: list[Value]
    made: dict[Any, Any]
    enclosed: set[Value]
    one_sided: dict[str, str]
    printed: list[Any]

    @abstractmethod
    def constant(self, array: Any) -> SymbolicTensor:
        """An array as a constant of the program, the same for the same array."""

    @abstractmethod
    def running(self) -> AbstractContextManager[None]:
        """Within the context, Python is traced."""

    @abstractmethod
    def within(
        self, path: str, class_name: str, signed: Any, runs: Callable[..., Any], args: Sequence[Any], kwargs: Any
    ) -> Any:
        """Run a function as a Cell call."""


def current_recording() -> Recording:
    """The trace that runs now; to be called with symbolic tensors at hand."""
    trace = current_trace.current()
    assert trace is not None, "there are symbolic tensors while Python is traced"
    return cast(Recording, trace)
