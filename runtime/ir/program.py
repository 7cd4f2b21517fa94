"""`Program`: a graph of ops in static single assignment, and the tree of Cells it belongs to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import UsageError
from ..tree import Structure
from ..visible import visible_name
from .sizes import Reading, input_symbols, readings
from .types import Buffer, CellCall, Constant, DTypeLike, Node, Parameter, Value

if TYPE_CHECKING:
    from os import PathLike

    from ..programs.call import Gradients
    from .cells import Cell

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class Program:
    """One network, ready to run.

    Attributes:
        inputs: the tensor inputs, in flat order of the call's arguments.
        outputs: the tensor outputs, in flat order of the result.
        nodes: in an order in which every value is computed before it is used.
        parameters: by qualified name, as in `named_parameters()`; a shared one stands once.
        buffers: by qualified name; what a run changes has an `update`.
        constants: tensors fixed in the program.
        calls: the Cell calls in order of entry; `calls[0]` is the root.
        arguments: structure of `(args, kwargs)`, whose leaves are the inputs.
        result: structure of the returned object, whose leaves are the outputs.
        train: whether it was captured in train mode.
    """

    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    nodes: tuple[Node, ...]
    parameters: dict[str, Parameter]
    buffers: dict[str, Buffer]
    constants: tuple[Constant, ...]
    calls: tuple[CellCall, ...]
    arguments: Structure
    result: Structure
    train: bool = False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run forward in the interpreter.

        Args:
            *args: as the captured module takes them; tensors may be torch tensors or arrays.
            **kwargs: likewise.

        Returns:
            The module's result with NumPy arrays in place of tensors.

        Raises:
            UsageError: the arguments don't have the structure, dtypes or shapes that were captured.
        """
        from ..programs.call import call

        return call(self, args, kwargs)

    def value_and_grad(
        self, *args: Any, cotangents: Iterable[Any] | None = None, **kwargs: Any
    ) -> tuple[Any, Gradients]:
        """Run forward and backward in the interpreter.

        Args:
            *args: as for a call.
            cotangents: one array per floating-point output, in flat order; ones if not given.
            **kwargs: as for a call.

        Returns:
            The result, and `Gradients` with `inputs` (one entry per tensor input in flat order, None where not
            differentiable) and `parameters` (by name; frozen ones are left out).
        """
        from ..programs.call import value_and_grad

        return value_and_grad(self, args, kwargs, cotangents)

    def cells(self) -> list[Cell]:
        """The Cells, one per call, parents before children; each can be cut out and run alone."""
        from .cells import cells

        return cells(self)

    def astype(self, dtype: DTypeLike) -> Program:
        """The same program with every floating-point value in `dtype`, parameters and casts included."""
        from .passes.retype import retype

        return retype(self, dtype)

    def save(self, path: str | PathLike[str]) -> None:
        """Write to `path`, one zip file of JSON and safetensors, whole or not at all; `runtime.load` reads it."""
        from ..storage.programs import save

        save(self, path)

    def __str__(self) -> str:
        from .printer import text

        return text(self)

    def __repr__(self) -> str:
        root = visible_name(self.calls[0].class_name) if self.calls else "?"
        counts = f"{len(self.nodes)} nodes, {len(self.parameters)} parameters, {len(self.calls)} Cells"
        return f"<Program of {root}: {counts}>"

    @cached_property
    def producers(self) -> dict[Value, Node]:
        """The node that computes each value."""
        return {value: node for node in self.nodes for value in node.outputs}

    @cached_property
    def symbol_readings(self) -> dict[Node, list[Reading]]:
        """The nodes that find sizes when they run (the count of `nonzero`, say), and the symbols that they tell."""
        known = input_symbols(self.inputs)
        found: dict[Node, list[Reading]] = {}
        for node in self.nodes:
            if told := readings(node, known):
                found[node] = told
                known |= {reading.symbol for reading in told}
        return found

    @cached_property
    def constant_data(self) -> dict[Value, Array]:
        """Data of constants, parameters and buffers, each in its value's dtype."""
        stored: list[Constant | Parameter | Buffer] = [
            *self.constants,
            *self.parameters.values(),
            *self.buffers.values(),
        ]
        return {item.value: np.asarray(item.data).astype(item.value.dtype, copy=False) for item in stored}

    @property
    def updates(self) -> dict[str, Value]:
        """The values that buffers get, by buffer name."""
        return {name: buffer.update for name, buffer in self.buffers.items() if buffer.update is not None}

    def without_data(self) -> Program:
        """The same program, for who keeps the parameters and buffers elsewhere: here they are zeros without memory."""

        def emptied(stored: Mapping[str, Any]) -> dict[str, Any]:
            return {
                name: replace(item, data=np.broadcast_to(np.zeros((), item.data.dtype), item.data.shape))
                for name, item in stored.items()
            }

        return self.replace(parameters=emptied(self.parameters), buffers=emptied(self.buffers))

    def replace(self, **changes: Any) -> Program:
        """A copy with some fields changed."""
        return replace(self, **changes)


def require_program(given: Any, instead: str = "") -> None:
    """Raise `UsageError`, which says what gives a program (and what to do `instead`), unless it is one."""
    if not isinstance(given, Program):
        raise UsageError(
            f"needed a program, given {type(given).__name__}: `converter.from_torch(module, args)` gives one, and so "
            f"does `trace(cell, args).program`{instead}"
        )
