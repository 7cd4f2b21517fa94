"""What some sides can do beside being run, each in a protocol of its own; a search for causes asks which a side has."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol, runtime_checkable

from ..correspondence.layouts import Layout
from ..results.hunk import CodeLine
from .interpreter_side import InterpreterSide
from .records import Key, Records
from .run import Run
from .runtime_model import RuntimeModel


@runtime_checkable
class HasProgram(Protocol):
    """A side whose network can be run as a program in the interpreter."""

    def in_interpreter(self, run: Run | None = None) -> InterpreterSide:
        """Return the side of the program, on the inputs and in the mode of a run, by default the given ones.

        Raises:
            CellbridgeError: there is none.
        """

    def settings(self, path: str) -> dict[str, Any]:
        """The attributes of a Cell that a person sets, and its class."""


@runtime_checkable
class HasSettings(Protocol):
    """A side whose modules have attributes that can be set."""

    def settings(self, path: str) -> dict[str, Any]:
        """The attributes of a Cell that a person sets, and its class."""

    def with_settings(self, path: str, values: Mapping[str, Any]) -> AbstractContextManager[None]:
        """Within the context, attributes of a Cell have other values."""

    def run(self, run: Run) -> Records:
        """Run once."""


@runtime_checkable
class HasCode(Protocol):
    """A side whose Cells are objects with code in Python."""

    def definition(self, path: str) -> CodeLine | None:
        """The line at which the code of a Cell begins; None if there is no such Cell, or its code isn't Python."""


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
