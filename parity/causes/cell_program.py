"""`CellProgram`: one call of a Cell cut out of a program, with the values that were recorded at its boundaries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from ...runtime.errors import ConversionError
from ...runtime.ir.dims import substitute_nested, symbols_in
from ...runtime.ir.program import Program, part_of
from ...runtime.ir.types import Node, Type, Value
from ...runtime.ops.registry import get
from ...runtime.programs.interpreter import bind, execute
from ..dtypes import cast_floating
from ..sides.boundary_observer import BoundaryKeys, match_root
from ..sides.feeding import feed_or_keep, feed_value
from ..sides.interpreter_side import InterpreterSide
from ..sides.program_draws import recorded_draws
from ..sides.records import INPUT, OUTPUT, Array, Key, Records, gradient_key
from ..sides.run import Run
from .rebuilding import rebuild
from .written_numbers import numbers_of

TensorKey = Key | tuple[str, str]
"""A boundary, `("parameter", name)` for a gradient, or `("update", name)` for a buffer."""


@dataclass(frozen=True)
class CellProgram:
    """The nodes of one call of a Cell, without those of the Cells inside it (`cut`), or with them (`whole`).

    Attributes:
        path: path of the Cell.
        program: the nodes in float64. Inputs are the inputs of the Cell, the outputs of the Cells inside it and other
            values from outside; outputs are the outputs of the Cell and the values that it passes to Cells inside it.
        arrays: the recorded inputs.
        input_keys: for each input, the boundary at which its gradient is recorded; None if there is none.
        output_keys: the boundaries of the outputs.
        cotangents: the recorded gradients of the outputs; None for an output without one.
        own_parameters: names of the parameters whose gradient comes from this call alone.
        slots: the names that this side has for inputs of the Cell, which may not be those of the keys.
        places: the lines of code that constants come from.
    """

    path: str
    program: Program
    arrays: tuple[Array, ...]
    input_keys: tuple[Key | None, ...]
    output_keys: tuple[Key, ...]
    cotangents: tuple[Array | None, ...]
    own_parameters: frozenset[str]
    slots: Mapping[Value, str] = field(default_factory=dict)
    places: Mapping[Value, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Network:
    """A side's program in float64, from which Cells are cut.

    Attributes:
        program: the program.
        inputs: the inputs of the network.
        run: the settings of an isolated run, which feeds the reference's records.
    """

    program: Program
    inputs: tuple[Array, ...]
    run: Run

    @classmethod
    def of(cls, side: InterpreterSide, run: Run) -> Network:
        """Return the network of a side."""
        program = side.program.astype("float64")
        inputs = tuple(cast_floating(cast_floating(x, side.dtype), np.dtype(np.float64)) for x in side.inputs)
        return cls(program, inputs, replace(run, dtype="float64"))

    @property
    def truth(self) -> Records:
        """The records that are fed."""
        assert self.run.feed is not None
        return self.run.feed

    @cached_property
    def keys(self) -> BoundaryKeys:
        """The keys of the boundaries."""
        _, _, names = match_root(self.program, self.inputs, self.run)
        return BoundaryKeys.of(self.program, self.run, names)

    @cached_property
    def numbers(self) -> frozenset[float]:
        """The numbers that stand in the program."""
        return numbers_of(self.program)

    @cached_property
    def _owners(self) -> list[int]:
        """For each call, the innermost call around it, or itself, that is recorded."""
        recorded = {(call.path, call.index) for call in self.truth.calls}
        owners: list[int] = []
        for number, call in enumerate(self.program.calls):
            own = call.parent is None or (call.path, call.index) in recorded
            owners.append(number if own else owners[call.parent or 0])
        return owners

    @cached_property
    def _users(self) -> dict[Value, set[int]]:
        """For each parameter, the numbers of the calls that use it."""
        users: dict[Value, set[int]] = {p.value: set() for p in self.program.parameters.values()}
        for node in self.program.nodes:
            for value in node.inputs:
                if value in users:
                    users[value].add(self._owners[node.cell])
        for value in self.program.outputs:
            if value in users:
                users[value].add(0)
        return users

    @cached_property
    def _draws(self) -> dict[str, Array]:
        return recorded_draws(self.program, self.run)

    def calls_of(self, path: str) -> list[int]:
        """The numbers of the calls of a Cell."""
        return [number for number, call in enumerate(self.program.calls) if call.path == path]

    def compute(self, values: Sequence[Value]) -> dict[Value, Array]:
        """Compute values inside the network from the records that are fed."""

        def observe(node: Node, array: Array) -> Array:
            return feed_or_keep(self.truth, self.keys.keys(node)[0], array)

        arrays = execute(self.program, self.inputs, wanted=values, draws=self._draws, observe=observe)
        return dict(zip(values, arrays, strict=True))

    def cut(self, number: int) -> CellProgram:
        """Cut out the call of that number.

        Raises:
            ConversionError: its nodes can't be run alone: sizes or random draws in it aren't known.
        """
        own = [
            node
            for node in self.program.nodes
            if (self._is_inside(node, number) if node.op == "boundary" else self._owners[node.cell] == number)
        ]
        drawn = {node.outputs[0]: node for node in own if get(node.op).traits.draws}
        own = [node for node in own if not get(node.op).traits.draws]
        entries, exits = self._boundaries(number)
        gradients = {value: key for value, key, _ in entries}
        slots = {mark.outputs[0]: mark.attributes["slot"] for mark in self._marks(number)}
        produced = {value for node in own for value in node.outputs}
        stored = self.program.constant_data
        operands = [value for value, _, _ in entries] + [value for value, _, _ in exits]  # the unused ones too
        operands += [value for node in own for value in node.inputs if value is not None]
        outside = dict.fromkeys(v for v in operands if v not in produced and v not in stored)
        arrays = self._arrays(outside, {value: key for value, _, key in entries}, drawn)
        cell = self._assemble(own, arrays, gradients, exits, self.program.calls[number].path)
        inputs = zip(arrays, cell.program.inputs, strict=True)
        return replace(cell, slots={new: slots[value] for value, new in inputs if value in slots})

    def whole(self) -> CellProgram:
        """Return the network with the Cells inside it, and what was recorded at its own boundary."""
        entries: dict[Value, Key] = {}
        exits: list[tuple[Value, Key]] = []
        for node in self.program.nodes:
            if node.op == "boundary" and node.attributes["call"] == 0:
                assert node.inputs[0] is not None
                for key in self.keys.keys(node):
                    if node.attributes["kind"] == INPUT:
                        entries[node.inputs[0]] = gradient_key(key)
                    else:
                        exits.append((node.outputs[0], key))
        return CellProgram(
            "",
            self.program.replace(outputs=tuple(value for value, _ in exits)),
            self.inputs,
            tuple(entries.get(value) for value in self.program.inputs),
            tuple(key for _, key in exits),
            tuple(self._cotangent(gradient_key(key), key) for _, key in exits),
            frozenset(self.program.parameters),
            {mark.inputs[0]: mark.attributes["slot"] for mark in self._marks(0) if mark.inputs[0] is not None},
        )

    def _marks(self, number: int) -> list[Node]:
        """The boundaries at which values enter a call."""
        marks = [node for node in self.program.nodes if node.op == "boundary" and node.attributes["call"] == number]
        return [mark for mark in marks if mark.attributes["kind"] == INPUT]

    def _is_inside(self, node: Node, number: int) -> bool:
        """Whether a boundary belongs to a call inside the call that isn't recorded."""
        call: int = node.attributes["call"]
        return self._owners[call] == number != call

    def _boundaries(self, number: int) -> tuple[list[tuple[Value, Key, Key]], list[tuple[Value, Key, Key]]]:
        """Return the values that enter and those that leave: each with the keys of its gradient and of itself."""
        entries, exits = [], []
        for node in self.program.nodes:
            if node.op != "boundary":
                continue
            call, kind = node.attributes["call"], node.attributes["kind"]
            parent = self.program.calls[call].parent
            inner = self._owners[call] == call and parent is not None and self._owners[parent] == number
            if not inner and call != number:
                continue
            for key in self.keys.keys(node):
                if (kind == INPUT) == inner:
                    assert node.inputs[0] is not None
                    exits.append((node.inputs[0], gradient_key(key), key))
                else:
                    entries.append((node.outputs[0], gradient_key(key), key))
        return entries, exits

    def _arrays(
        self, outside: Mapping[Value, None], keys: Mapping[Value, Key], drawn: Mapping[Value, Node]
    ) -> dict[Value, Array]:
        """Return the recorded arrays of values from outside; what isn't recorded is computed."""
        arrays: dict[Value, Array] = {}
        for value in outside:
            recorded = self._draws.get(value.name) if value in drawn else None
            if value in drawn and recorded is None:
                raise ConversionError(f"the random draw {value.name} wasn't recorded")
            if value in keys:
                recorded = self.truth.values.get(keys[value])
            if recorded is not None and _fits(recorded, value):
                arrays[value] = recorded.astype(value.dtype, copy=False)
        missing = [value for value in outside if value not in arrays]
        if missing:
            arrays |= self.compute(missing)
        return {value: arrays[value] for value in outside}

    def _assemble(
        self,
        own: Sequence[Node],
        arrays: Mapping[Value, Array],
        gradients: Mapping[Value, Key],
        exits: Sequence[tuple[Value, Key, Key]],
        path: str,
    ) -> CellProgram:
        """Return the program of these nodes, with sizes in place of symbols."""
        sizes = bind(self.program, self.inputs)
        concrete = {v: Value(v.name, Type(v.dtype, array.shape)) for v, array in arrays.items()}
        nodes = tuple(
            replace(
                node,
                inputs=tuple(None if v is None else concrete.get(v, v) for v in node.inputs),
                attributes={name: substitute_nested(item, sizes) for name, item in node.attributes.items()},
            )
            for node in own
        )
        if any(symbols_in(tuple(node.attributes.values())) for node in nodes):
            raise ConversionError("sizes in it are known only when it runs")
        outputs = tuple(concrete.get(value, value) for value, _, _ in exits)
        program = part_of(self.program, nodes, tuple(concrete.values()), outputs)
        return CellProgram(
            path,
            rebuild(program),
            tuple(arrays.values()),
            tuple(gradients.get(value) for value in arrays),
            tuple(key for _, _, key in exits),
            tuple(self._cotangent(gradient, key) for _, gradient, key in exits),
            frozenset(name for name, p in program.parameters.items() if len(self._users[p.value]) == 1),
        )

    def _cotangent(self, gradient: Key, key: Key) -> Array | None:
        """The recorded gradient of an output or passed value."""
        if key.path == "" and key.kind == OUTPUT:
            slots = list(self.run.reference.slots.get(("", 0, OUTPUT), ()))
            position = slots.index(key.slot) if key.slot in slots else len(slots)
            return (
                self.truth.gradients.cotangents[position] if position < len(self.truth.gradients.cotangents) else None
            )
        return feed_value(self.truth, gradient)


def _fits(array: Array, value: Value) -> bool:
    """Whether an array has the shape of a value, in which symbols stand for any size."""
    return array.ndim == len(value.shape) and all(
        not isinstance(dim, int) or dim == size for dim, size in zip(value.shape, array.shape, strict=True)
    )
