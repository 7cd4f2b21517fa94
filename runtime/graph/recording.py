"""`Trace`: what happens to Tensors, Parameters and Cells while Python is traced."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..common import tensor
from ..common.elements import unknown_elements
from ..common.nested import is_alike, mapped
from ..common.parameter import Parameter
from ..common.tensor import Tensor
from ..current_trace import tracing
from ..eager import tape
from ..ir import types
from ..ir.dims import answering, symbols_in
from ..ir.types import CellCall, Node, Source, Type, Value
from ..ops import boundary, elementwise
from ..ops.random import RANDOM_OPS, is_seeded
from ..ops.registry import Op
from ..tensor_like import Operator
from ..tracing import Builder, SymbolicTensor
from .boundaries import crossing_in, crossing_out
from .control.source import Unfollowed
from .current import Enclosing, Recording, SymbolicParameter
from .guard import Guard
from .names import Names
from .own_gradient import Pull, with_own_gradient
from .printing import Entry, at_each_run, print_when_run, write_as_traced
from .sources import running_line
from .variables import Variables

if TYPE_CHECKING:
    from ..nn.cell import Cell

Array = np.ndarray[Any, Any]
Place = tuple[int, Source | None]


class Trace(Recording):
    """One run of Python on symbolic tensors.

    Tensors that hold arrays compute at once, as they always do, and become constants where they meet symbolic ones.
    Parameters are values that the program stores: what is computed of them is recorded. So is whatever is drawn without
    a seed of its own, since each run of the program draws anew. Parameters themselves are left as they are: what they
    are assigned is kept here.

    Args:
        root: the outermost Cell, or the function.
        arguments: what it is called with, by name; what isn't a tensor is met as it is.

    Attributes:
        region: the branch or loop that is recorded now.
        inputs: the values that the program is given.
        made: what is made `once`.
        enclosed: values of branches and loops that were recorded.
        one_sided: why a variable may have no value, by name: it is defined in one branch only.
        printed: what each run of the program prints, in order.
    """

    def __init__(self, root: Callable[..., Any], arguments: Mapping[str, Any]) -> None:
        self.builder: _Builder = _Builder()
        variables = Variables(root)
        self.names = Names(variables(), arguments)
        self._of_cell = hasattr(root, "cells_and_names")
        self._root = root
        self.calls: list[CellCall] = []
        self.held: dict[int, SymbolicParameter] = {}
        self._constants: dict[int, tuple[Array, SymbolicTensor]] = {}
        self.guard: Guard = Guard(self, variables)
        for name, argument in arguments.items():
            self.guard.objects.note_argument(name, argument)
        for cell in self.names.cells:
            self.guard.objects.add(cell, self.names.path(cell, ""))
        self.region: Enclosing | None = None
        self.enclosed: set[Value] = set()
        self.one_sided: dict[str, str] = {}
        self.printed: list[Entry] = []
        self.inputs: list[Value] = []
        self.made: dict[Any, Any] = {}
        self._replaying = False
        self._cut = False
        self._outside = tape.current()

    # ---- operators ----

    def records(self, op: Op, operands: Sequence[Any], attributes: dict[str, Any]) -> bool:
        """Whether an operator on arrays and symbolic data is recorded; otherwise it is computed at once."""
        return (
            any(isinstance(x, SymbolicTensor) for x in operands)
            or self._replaying
            or op is boundary.boundary
            or (op.name in RANDOM_OPS and not is_seeded())
            or bool(symbols_in(*attributes.values()))
        )

    def record(self, op: Op, operands: Sequence[Any], attributes: dict[str, Any]) -> tuple[SymbolicTensor, ...]:
        """Append a node; arrays become constants."""
        for x in operands:
            if isinstance(x, SymbolicTensor) and x.builder is not self.builder:
                raise unknown_elements(x, op.name, "")
            if isinstance(x, SymbolicTensor) and x.value in self.enclosed:
                raise self.guard.uses_enclosed(x)
        values = tuple(self.constant(x) if isinstance(x, np.ndarray) else x for x in operands)
        appended = self.builder.append(op, values, attributes)
        outputs = appended if isinstance(appended, tuple) else (appended,)
        if self._cut:
            return tuple(self.builder.append(boundary.stop_gradient, (x,), {}) for x in outputs)
        return outputs

    def apply(self, op: Op, inputs: tuple[Any, ...], attributes: dict[str, Any]) -> Any:
        """The Tensor (a tuple of several) of an operator without operands that are Tensors."""
        return tensor.apply(op, inputs, attributes)

    def given(self, stem: str, type: Type) -> SymbolicTensor:
        """A value that the program is given: an input, or what a Parameter holds."""
        made = self.builder.new_value(stem, type)
        self.inputs.append(made.value)
        return made

    def constant(self, array: Array) -> SymbolicTensor:
        """An array as a constant of the program, the same for the same array."""
        if id(array) not in self._constants:
            self._constants[id(array)] = array, self.builder.constant(array)
        return self._constants[id(array)][1]

    def imported(self, operands: Sequence[Any]) -> tuple[Any, ...]:
        """Operands of an operator as they are used in the branch or loop that is recorded, if one is."""
        return tuple(operands) if self.region is None else tuple(map(self.region.imported, operands))

    def once(self, what: str, x: Tensor, make: Callable[[], Any]) -> Any:
        """What `make` gives for a symbolic tensor, made once for what is computed in the same way.

        So that two `x[x > 0]` have one size. What is made in a branch or loop stays there.
        """
        producers = {value: node for node in self.builder.nodes for value in node.outputs}
        same = what, _meaning(x._data.value, producers, _MAX_MEANING_DEPTH)
        region = self.region
        while (*same, region) not in self.made and region is not None:
            region = region.outer
        if (*same, region) not in self.made:
            region = self.region
            self.made[*same, region] = make()
        return self.made[*same, region]

    def prints(self, items: Sequence[Any]) -> None:
        """`ops.Print` of what may be symbolic: at each run of the program."""
        print_when_run(items, None)

    # ---- where we are ----

    def place(self) -> Place:
        """The Cell call that runs, and the line that recorded last."""
        return self.builder.cell, self.builder.source

    @contextlib.contextmanager
    def at(self, place: Place) -> Iterator[None]:
        """Within the context, nodes belong to a place, as long as no line of the user's runs."""
        before = self.builder.cell, self.builder.elsewhere
        self.builder.cell, self.builder.elsewhere = place
        try:
            yield
        finally:
            self.builder.cell, self.builder.elsewhere = before

    @contextlib.contextmanager
    def replaying(self, source: Source | None) -> Iterator[None]:
        """Within the context, a node of another program is recorded as it is, whatever its operands are."""
        before = self._replaying, self.builder.fixed
        self._replaying, self.builder.fixed = True, (source,)
        try:
            yield
        finally:
            self._replaying, self.builder.fixed = before

    @contextlib.contextmanager
    def without_gradient(self) -> Iterator[None]:
        """Within the context, no gradient flows through what is recorded."""
        before, self._cut = self._cut, True
        try:
            yield
        finally:
            self._cut = before

    # ---- Cells ----

    def call(self, cell: Cell, args: tuple[Any, ...], kwargs: dict[str, Any], runs: Callable[..., Any]) -> Any:
        """Run a Cell by `runs(cell, args, kwargs)`, with the Tensors that go in and come out marked as its own."""
        caller = self.builder.cell if self.calls else None
        path = self.names.path(cell, "" if caller is None else self.calls[caller].path)
        self.guard.meets(cell, path)
        return self.within(path, cell.traced_name, cell, lambda *a, **k: runs(cell, a, k), args, kwargs)

    def within(
        self, path: str, class_name: str, signed: Any, runs: Callable[..., Any], args: Any, kwargs: dict[str, Any]
    ) -> Any:
        """Run a function as a Cell call; `signed` is the Cell or function whose parameters name what goes in."""
        caller = self.builder.cell if self.calls else None
        index = sum(call.path == path for call in self.calls)
        number = len(self.calls)
        self.calls.append(CellCall(path, class_name, index, caller))
        with self._in_call(number), self.guard.around(getattr(signed, "construct", signed)):
            if getattr(signed, "marks_itself", False):
                return runs(*args, **kwargs)
            crossings: list[tuple[Tensor, str, Tensor, Any]] = []

            def arrives(x: Tensor, slot: str) -> Tensor:
                crossed: Tensor = self._cross(x, number, "input", slot)
                crossings.append((x, slot, crossed, crossed._data))
                return crossed

            args, kwargs = crossing_in(signed, args, kwargs, arrives)
            before = mapped((args, kwargs), lambda leaf: leaf)
            result = runs(*args, **kwargs)
            if not is_alike((args, kwargs), before):
                raise self.guard.changed_argument(getattr(signed, "construct", signed))
            for x, slot, crossed, data in crossings:
                if crossed._data is not data:  # written to, and so is what the caller has
                    self.guard.writes_argument(signed, [name for given, name, *_ in crossings if given is x])
                    x._rebind(self._cross(crossed, number, "output", slot))
            return crossing_out(result, lambda x, slot: self._cross(x, number, "output", slot))

    @contextlib.contextmanager
    def _in_call(self, number: int) -> Iterator[None]:
        before = self.builder.cell
        self.builder.cell = number
        try:
            yield
        finally:
            self.builder.cell = before

    def _cross(self, x: Tensor, number: int, kind: str, slot: str) -> Any:
        return boundary.boundary(x, call=number, kind=kind, slot=slot)

    # ---- Parameters ----

    def value_of(self, parameter: Parameter) -> SymbolicTensor:
        """What a Parameter holds at this place of the program."""
        found = self.held.get(id(parameter))
        return (found or self._hold(parameter)).now

    def assign(self, parameter: Parameter, data: Any) -> None:
        """Let a Parameter hold an array or symbolic data from here on."""
        held = self.held.get(id(parameter)) or self._hold(parameter)
        held.now = data if isinstance(data, SymbolicTensor) else self.constant(data)

    def with_own_gradient(self, name: str, outputs: Sequence[Tensor], operands: Sequence[Tensor], pull: Pull) -> Any:
        """Tensors with a backward pass written by hand; see `own_gradient`."""
        return with_own_gradient(self, name, outputs, operands, pull)

    def update_unless(self, skip: Tensor, update: Callable[[], Any]) -> None:
        """Call `update`; each Parameter that it gives a new value keeps its old one where the symbolic `skip` holds."""
        before = {key: held.now for key, held in self.held.items()}
        update()
        for key, held in self.held.items():
            old = before.get(key, held.first)
            if held.now is not old:
                held.now = elementwise.where(skip._data, old, held.now)

    def _hold(self, parameter: Parameter) -> SymbolicParameter:
        array = parameter._array
        names = self.names.of_parameter(parameter)
        first = self.given(names[0], Type(array.dtype, array.shape))
        # a tape that began while tracing ends with it
        outside = self._outside is not None and parameter._tape is self._outside
        tracked = (parameter._tape, parameter._number) if outside else (None, 0)
        began = parameter._tape, None if parameter._tape is None else parameter._number
        held = SymbolicParameter(parameter, names, first, first, tracked, began)
        self.held[id(parameter)] = held
        return held

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Within the context, Python is traced; what it changed unseen is refused at the end, and all is as it was."""
        answers = answering(self.guard.needs_number, self.guard.compares)
        try:
            with tracing(self), tape.recording(None), answers, at_each_run():
                try:
                    yield
                    self.guard.finish(self._root)
                except Unfollowed:
                    raise
                except Exception as error:
                    write_as_traced(self.printed)
                    if isinstance(error, NameError):
                        self.guard.require_defined(error, self.one_sided)
                    raise
        finally:
            self.restore()

    def restore(self) -> None:
        """Leave everything as it was."""
        self.guard.objects.restore()
        for held in self.held.values():
            held.parameter._tape, held.parameter._number = held.tracked

    def stored(self) -> tuple[dict[str, types.ProgramParameter], dict[str, types.Buffer], dict[str, Parameter]]:
        """The parameters and buffers of the program, and the live Parameters, by name.

        What was given a new value is a buffer with an update; state such as moving statistics is always a buffer. A
        Cell's Parameters are all there; otherwise those that were used.
        """
        used = {value for node in self.builder.nodes for value in node.inputs}
        parameters: dict[str, types.ProgramParameter] = {}
        buffers: dict[str, types.Buffer] = {}
        live: dict[str, Parameter] = {}
        for parameter in self.names.parameters:
            held = self.held.get(id(parameter)) or (self._hold(parameter) if self._of_cell else None)
            if held is None or (held.first is held.now and held.first.value not in used and not self._of_cell):
                continue
            name, array = held.names[0], parameter._array
            live[name] = parameter
            if held.now is not held.first:
                buffers[name] = types.Buffer(held.first.value, array, held.now.value)
            elif parameter._is_buffer and not parameter.requires_grad:
                buffers[name] = types.Buffer(held.first.value, array)
            else:
                parameters[name] = types.ProgramParameter(
                    held.first.value, array, parameter.requires_grad, held.names[1:]
                )
        return parameters, buffers, live


_MAX_MEANING_DEPTH = 8
"""Nodes one after the other in which a value is looked for that is computed in the same way."""


def _meaning(value: Value, producers: Mapping[Value, Node], depth: int) -> Any:
    """What is equal for values that the same nodes compute of the same values."""
    node = producers.get(value)
    if node is None or not depth or node.op in RANDOM_OPS:
        return value
    inputs = [None if x is None else _meaning(x, producers, depth - 1) for x in node.inputs]
    if node.op == "boundary":
        return inputs[0]
    attributes = tuple(sorted((name, repr(item)) for name, item in node.attributes.items()))
    return node.op, attributes, node.outputs.index(value), tuple(inputs)


class _Builder(Builder):
    """A builder whose nodes come from the line of the user's that runs.

    Attributes:
        elsewhere: the source of what is recorded by a backward pass.
        fixed: the source of all that is recorded, if it isn't to be looked for.
    """

    def __init__(self) -> None:
        super().__init__()
        self.elsewhere: Source | None = None
        self.fixed: tuple[Source | None] | None = None

    def append(self, op: Operator, inputs: tuple[Any, ...], attributes: dict[str, Any]) -> Any:
        """Append a node."""
        self.source = self.fixed[0] if self.fixed else running_line(op.name) or self.elsewhere
        return super().append(op, inputs, attributes)

    def create(self, op: Operator, **attributes: Any) -> Any:
        """Append a node of an op that has no operands."""
        return self.append(op, (), op.attributes(attributes))
