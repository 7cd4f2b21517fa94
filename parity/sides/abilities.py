"""What some sides can do beside being run, each in a protocol of its own; a search for causes asks which a side has."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar, runtime_checkable

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from ...runtime.ir.program import Program
from ..correspondence.layouts import Layout
from ..results.hunk import CodeLine
from .interpreter_side import InterpreterSide
from .records import Key, Records
from .run import Arguments, GivenInputs, Run
from .runtime_model import RuntimeModel
from .side import Side

Mode = TypeVar("Mode", bound=TorchDispatchMode)


@runtime_checkable
class HasProgram(Protocol):
    """A side whose network can be run as a program in the interpreter."""

    def in_interpreter(self, run: Run | None = None) -> InterpreterSide:
        """Return the side of the program, on the inputs and in the mode of a run, by default the given ones.

        Raises:
            CellbridgeError: there is none.
        """


@runtime_checkable
class RunsProgram(HasProgram, Protocol):
    """A side that runs a program in the interpreter itself, whose operations are those that are read."""

    def own_program(self) -> Program:
        """The program."""


@runtime_checkable
class RunsModule(Protocol):
    """A side that runs a torch module, whose operators can be watched as they are run."""

    @property
    def name(self) -> str:
        """What it is called in reports."""

    @property
    def module(self) -> torch.nn.Module:
        """The module."""

    @property
    def args(self) -> tuple[Any, ...]:
        """Positional inputs of the module."""

    @property
    def kwargs(self) -> Mapping[str, Any]:
        """Its keyword inputs."""

    @property
    def train(self) -> bool | None:
        """Whether it runs in train mode; None for the mode that it is in."""

    @property
    def working_dtype(self) -> str:
        """The working dtype."""

    @property
    def seed(self) -> int:
        """Seed of torch's random numbers."""

    def watch_operators(self, mode: Mode, arguments: Arguments | None = None) -> Mode:
        """Run the module forward in float64 within a mode, on the given inputs or on others, and return the mode."""


@runtime_checkable
class GivesInputs(Protocol):
    """A side whose inputs are known as the arguments of a call, from which others can be derived."""

    def given_inputs(self) -> GivenInputs | None:
        """The inputs; None if torch has no tensors of their dtypes."""


@runtime_checkable
class HasIntegers(Protocol):
    """A side whose attributes have integers, which may bound a size."""

    def integers(self) -> set[int]:
        """Sizes of its parameters and buffers, and attributes of its modules or Cells."""


@runtime_checkable
class KeepsForms(Protocol):
    """A side that keeps what it makes for a run, to be used by the next."""

    def release(self) -> None:
        """Forget it."""


@runtime_checkable
class HasSettings(Protocol):
    """A side whose modules have attributes that can be set."""

    def settings(self, path: str) -> dict[str, Any]:
        """The attributes of a Cell that a person sets, and its class."""

    def with_settings(self, path: str, values: Mapping[str, Any]) -> AbstractContextManager[None]:
        """Within the context, attributes of a Cell have other values."""

    def run(self, run: Run) -> Records:
        """Run once."""


def settings_of(side: Side, path: str) -> dict[str, Any]:
    """Return the attributes of a Cell that compare with those of the module at a path; none of a program or a port."""
    return side.settings(path) if isinstance(side, HasSettings) else {}


@runtime_checkable
class HasCode(Protocol):
    """A side whose Cells are objects with code in Python."""

    def definition(self, path: str) -> CodeLine | None:
        """The line at which the code of a Cell begins; None if there is no such Cell, or its code isn't Python."""

    def construction(self, path: str) -> CodeLine | None:
        """The statement that makes a Cell; None if there is no such Cell, or the statement isn't known."""


@runtime_checkable
class HasLayouts(Protocol):
    """A side whose tensors are arranged in other ways than the reference's, known for the sizes of the given inputs."""

    @property
    def layouts(self) -> Mapping[Key, Layout]:
        """How they are arranged, by boundary."""


@runtime_checkable
class KnowsGradientCode(Protocol):
    """A side that knows where the network's own code sets gradients."""

    def cells_with_gradient_code(self) -> set[str]:
        """Paths of these Cells."""


@runtime_checkable
class ReadFromFile(Protocol):
    """A side that was read from an ONNX file."""

    @property
    def reference_in_a_file(self) -> Callable[[], InterpreterSide] | None:
        """Returns the reference read from a file, too, or raises `CellbridgeError`; None if it isn't known."""


@runtime_checkable
class RunsInOnnxRuntime(Protocol):
    """A side that runs an ONNX model in ONNX Runtime."""

    @property
    def name(self) -> str:
        """What it is called in reports."""

    def runtime_model(self, run: Run) -> RuntimeModel:
        """Return the model that a run consists of."""
