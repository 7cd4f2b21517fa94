"""The interface of the current trace for the parts of graph mode."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol, cast

from .. import current_trace
from ..common.parameter import Parameter
from ..ir.types import CellCall, Value
from ..tracing import SymbolicTensor
from .builder import TraceBuilder


@dataclass
class SymbolicParameter:
    """A Parameter that the traced code uses.

    Attributes:
        parameter: the Parameter.
        names: its qualified names; the first is the one that it is stored under.
        initial: its value at the start of the program.
        current: its value at the current point of the program.
        previous_tracking: its tape and number on it before the trace, to be restored afterwards.
        initial_tracking: its tape and number on it when it was first used.
    """

    parameter: Parameter
    names: tuple[str, ...]
    initial: SymbolicTensor
    current: SymbolicTensor
    previous_tracking: tuple[Any, int]
    initial_tracking: tuple[Any, int | None]


class EnclosingRegion(Protocol):
    """The branch or loop that is being recorded: a `control.regions.Region`."""

    depth: int
    tape: Any

    @property
    def outer(self) -> EnclosingRegion | None:
        """The branch or loop around this one."""

    def import_values(self, x: Any) -> Any:
        """Return a tensor from outside as the branch or loop uses it."""

    def on_gradient(self) -> None:
        """Refuse a gradient inside, where it can't be computed."""


class Recording(ABC):
    """The interface of `recording.Trace` for the parts of graph mode.

    Attributes:
        builder: the program under construction.
        calls: the Cell calls so far.
        parameters: the Parameters that the traced code uses, by identity.
        guard: refuses unsupported Python; see `guard.Guard`.
        region: the branch or loop that is being recorded.
        inputs: the inputs of the program.
        memo: the results of `once`.
        region_values: values that were computed in branches and loops.
        undefined_in_branch: by name, why a variable may have no value: it is defined in one branch only.
        print_entries: the messages that each run of the program prints, in order.
    """

    builder: TraceBuilder
    calls: list[CellCall]
    parameters: dict[int, SymbolicParameter]
    guard: current_trace.GuardProtocol
    region: EnclosingRegion | None
    inputs: list[Value]
    memo: dict[Any, Any]
    region_values: set[Value]
    undefined_in_branch: dict[str, str]
    print_entries: list[Any]

    @abstractmethod
    def constant(self, array: Any) -> SymbolicTensor:
        """Return the constant of the program for an array; the same array has one constant."""

    @abstractmethod
    def symbolic(self, data: Any, where: str) -> SymbolicTensor:
        """Data as an operand of a node; an error says `where` a tensor of another trace, or of a branch, was used."""

    @abstractmethod
    def cut(self, x: SymbolicTensor) -> SymbolicTensor:
        """The output of a node; within `without_gradient`, a `stop_gradient` of it."""

    @abstractmethod
    def import_values(self, operands: Sequence[Any]) -> tuple[Any, ...]:
        """Return operands as the branch or loop that is being recorded uses them, if there is one."""

    @abstractmethod
    def at(self, place: Any) -> AbstractContextManager[None]:
        """Within the context, nodes belong to a place: a Cell call and a source."""

    @abstractmethod
    def begin_call(self, cell: Any, caller: int) -> int:
        """Begin a call of a Cell whose nodes are copied; returns its number."""

    @abstractmethod
    def running(self) -> AbstractContextManager[None]:
        """Within the context, trace Python."""

    @abstractmethod
    def run_as_call(
        self, path: str, class_name: str, signature_of: Any, runs: Callable[..., Any], args: Sequence[Any], kwargs: Any
    ) -> Any:
        """Run a function as a Cell call."""


def current_recording() -> Recording:
    """Return the current trace; there must be one, since symbolic tensors exist only during tracing."""
    trace = current_trace.current()
    assert trace is not None, "symbolic tensors exist only while Python is traced"
    return cast(Recording, trace)
