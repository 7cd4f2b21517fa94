"""`Program`: a graph of ops in static single assignment form, and its tree of Cell calls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import UsageError
from ..lazy import resolve
from ..namespace import Namespace
from ..tree import Structure, positional_arguments, sequence
from ..visible import visible_name
from .sizes import Reading, input_symbols, readings
from .stored import StoredData
from .types import Buffer, CellCall, Constant, DTypeLike, Node, ProgramParameter, Value

if TYPE_CHECKING:
    from os import PathLike


Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Gradients:
    """Gradients of one run.

    Attributes:
        inputs: one entry per tensor input in flat order; None where the input isn't floating-point.
        parameters: by qualified name; frozen parameters are left out, unused ones are zero.
    """

    inputs: tuple[Array | None, ...]
    parameters: dict[str, Array]


@dataclass(frozen=True, eq=False)
class Program:
    """A network as a graph of ops.

    Attributes:
        inputs: the tensor inputs, in flat order of the call's arguments.
        outputs: the tensor outputs, in flat order of the result.
        nodes: in an order in which every value is computed before it is used.
        parameters: by qualified name, as in `named_parameters()`; a shared one appears once.
        buffers: by qualified name; those that a run changes have an `update`.
        constants: tensors whose values are part of the program.
        calls: the Cell calls in order of entry; `calls[0]` is the root.
        arguments: structure of `(args, kwargs)`, whose leaves are the inputs.
        result: structure of the returned object, whose leaves are the outputs.
        train: whether it was captured in train mode.
    """

    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    nodes: tuple[Node, ...]
    parameters: dict[str, ProgramParameter]
    buffers: dict[str, Buffer]
    constants: tuple[Constant, ...]
    calls: tuple[CellCall, ...]
    arguments: Structure
    result: Structure
    train: bool = False

    if TYPE_CHECKING:  # `attachments` provides these, since they need the floors above

        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            """Run forward in the interpreter."""

        def value_and_grad(
            self, *args: Any, cotangents: Iterable[Any] | None = None, **kwargs: Any
        ) -> tuple[Any, Gradients]:
            """Run forward and backward in the interpreter."""

        def astype(self, dtype: DTypeLike) -> Program:
            """The same program in another floating-point dtype."""

        def save(self, path: str | PathLike[str]) -> None:
            """Write to a file that `runtime.load` reads."""

    def cells(self) -> list[ProgramCell]:
        """Return the Cells, one per call, parents before children; each can be extracted and run alone."""
        return [ProgramCell(self, number) for number in range(len(self.calls))]

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
        """The nodes that determine sizes at run time (such as the count of `nonzero`), and their symbols."""
        known_symbols = input_symbols(self.inputs)
        result: dict[Node, list[Reading]] = {}
        for node in self.nodes:
            if symbols := readings(node, known_symbols):
                result[node] = symbols
                known_symbols |= {reading.symbol for reading in symbols}
        return result

    @cached_property
    def constant_data(self) -> StoredData:
        """Data of constants, parameters and buffers, each in its value's dtype."""
        stored: list[Constant | ProgramParameter | Buffer] = [
            *self.constants,
            *self.parameters.values(),
            *self.buffers.values(),
        ]
        return StoredData({item.value: item.data for item in stored})

    def new_names(self) -> Namespace:
        """Return the namespace of new values, in which the names of the program's values are taken."""
        return Namespace(value.name for value in (*self.inputs, *self.constant_data, *self.producers))

    @property
    def updates(self) -> dict[str, Value]:
        """The new values of buffers, by buffer name."""
        return {name: buffer.update for name, buffer in self.buffers.items() if buffer.update is not None}

    def without_data(self) -> Program:
        """Return the same program without data: parameters and buffers are zeros that take no memory."""

        def zeros_for(stored: Mapping[str, Any]) -> dict[str, Any]:
            return {
                name: replace(item, data=np.broadcast_to(np.zeros((), item.data.dtype), item.data.shape))
                for name, item in stored.items()
            }

        return self.replace(parameters=zeros_for(self.parameters), buffers=zeros_for(self.buffers))

    def replace(self, **changes: Any) -> Program:
        """Return a copy with some fields changed."""
        return replace(self, **changes)


@dataclass(frozen=True, eq=False)
class ProgramCell:
    """One call of one Cell of a program.

    Attributes:
        owner: the program that it is part of.
        number: index of the call in `owner.calls`.
    """

    owner: Program
    number: int

    @property
    def call(self) -> CellCall:
        """The call: path, class name, index."""
        return self.owner.calls[self.number]

    @property
    def path(self) -> str:
        """Module path; `""` for the root."""
        return self.call.path

    @property
    def class_name(self) -> str:
        """Name of the module's class."""
        return self.call.class_name

    @property
    def index(self) -> int:
        """0 for the first call of this path, 1 for the second, ..."""
        return self.call.index

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        """The nodes of this call and of the calls within it."""
        inside = {self.number}
        for position, call in enumerate(self.owner.calls):
            if call.parent in inside:
                inside.add(position)
        return tuple(node for node in self.owner.nodes if node.cell in inside)

    @cached_property
    def parameters(self) -> dict[str, Value]:
        """The parameters that the nodes use, by qualified name."""
        used_values = self._operands
        return {name: p.value for name, p in self.owner.parameters.items() if p.value in used_values}

    @property
    def _operands(self) -> set[Value]:
        return {value for node in self.nodes for value in node.inputs if value is not None}

    @cached_property
    def program(self) -> Program:
        """The Cell extracted as a program of its own.

        Its inputs are the values marked at its input boundaries, then any other values from outside that it uses. Its
        outputs are the values marked at its output boundaries or, if there are none, all values used outside.
        """
        produced = {value for node in self.nodes for value in node.outputs}
        stored = set(self.owner.constant_data)
        inputs = list(dict.fromkeys(v for node in self._boundary("input") for v in node.inputs if v is not None))
        inputs = [value for value in inputs if value not in stored]
        for node in self.nodes:
            inputs += [v for v in node.inputs if v is not None and v not in produced | stored and v not in inputs]
        outputs = [node.outputs[0] for node in self._boundary("output")] or self._values_used_outside(produced)
        return part_of(self.owner, self.nodes, tuple(inputs), tuple(outputs))

    def _boundary(self, kind: str) -> list[Node]:
        return [
            node
            for node in self.nodes
            if node.op == "boundary" and node.attributes["call"] == self.number and node.attributes["kind"] == kind
        ]

    def _values_used_outside(self, produced: set[Value]) -> list[Value]:
        inside = set(self.nodes)
        outside = {v for node in self.owner.nodes if node not in inside for v in node.inputs}
        outside |= set(self.owner.outputs)
        return [value for node in self.nodes for value in node.outputs if value in outside & produced]


def part_of(
    program: Program, nodes: tuple[Node, ...], inputs: tuple[Value, ...], outputs: tuple[Value, ...]
) -> Program:
    """Return nodes of a program as a program of their own, with the parameters, buffers and constants that they use."""
    produced = {value for node in nodes for value in node.outputs}
    used_values = {value for node in nodes for value in node.inputs} | set(outputs)
    return Program(
        inputs=inputs,
        outputs=outputs,
        nodes=nodes,
        parameters={n: p for n, p in program.parameters.items() if p.value in used_values},
        buffers={
            name: b if b.update in produced else replace(b, update=None)
            for name, b in program.buffers.items()
            if b.value in used_values or b.update in produced
        },
        constants=tuple(c for c in program.constants if c.value in used_values),
        calls=program.calls,
        arguments=positional_arguments(len(inputs)),
        result=sequence(len(outputs)),
        train=program.train,
    )


for _name, _method in resolve("methods of Program").items():
    setattr(Program, _name, _method)


def require_program(value: Any, instead: str = "") -> None:
    """Raise `UsageError`, which says how to get a program (and what to do `instead`), unless `value` is one."""
    if not isinstance(value, Program):
        raise UsageError(
            f"needed a program, given {type(value).__name__}: `converter.from_torch(module, args)` returns one, and so "
            f"does `trace(cell, args).program`{instead}"
        )
