"""`Trace` records the operations on Tensors, Parameters and Cells while Python is traced."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..common import tape, tensor
from ..common.elements import Data, unknown_elements_error
from ..common.parameter import Parameter
from ..common.tensor import Tensor
from ..current_trace import use_trace
from ..ir import types
from ..ir.dim_usage import handle_usage
from ..ir.dims import symbols_in
from ..ir.types import CellCall, Node, Source, Type, Value
from ..ops import boundary, elementwise
from ..ops.random import is_seeded
from ..ops.registry import Op, get
from ..tracing import SymbolicTensor
from ..tree import has_same_leaves, map_leaves
from .boundaries import mark_arguments, mark_results
from .builder import TraceBuilder
from .control.source import RetraceRequired
from .current import EnclosingRegion, Recording, SymbolicParameter
from .custom_backward import Pull, with_custom_backward
from .guard import Guard
from .names import Names
from .printing import Entry, deferred_printing, print_when_run, write_symbolic
from .splicing import splice
from .variables import Variables

if TYPE_CHECKING:
    from ..ir.program import Program
    from ..nn.cell import Cell

Array = np.ndarray[Any, Any]
Place = tuple[int, Source | None]


class Trace(Recording):
    """One run of Python on symbolic tensors.

    Operators on Tensors that hold arrays compute at once, and their results become constants where they meet symbolic
    tensors. Parameters are values that the program stores, so operators on them are recorded. Random operators without
    a seed of their own are recorded too, since each run of the program draws again. The trace doesn't change the
    Parameters: it records their assignments.

    Args:
        root: the outermost Cell, or the function.
        arguments: the arguments of the call, by name.

    Attributes:
        region: the branch or loop that is being recorded.
        inputs: the inputs of the program.
        memo: the results of `once`.
        region_values: values that were computed in branches and loops.
        undefined_in_branch: by name, why a variable may have no value: it is defined in one branch only.
        print_entries: the messages that each run of the program prints, in order.
    """

    def __init__(self, root: Callable[..., Any], arguments: Mapping[str, Any]) -> None:
        self.builder = TraceBuilder()
        variables = Variables(root)
        self.names = Names(variables(), arguments)
        self._root_is_cell = hasattr(root, "cells_and_names")
        self._root = root
        self.calls: list[CellCall] = []
        self.parameters: dict[int, SymbolicParameter] = {}
        self._constants: dict[int, tuple[Array, SymbolicTensor]] = {}
        self.guard: Guard = Guard(self, variables)
        for name, argument in arguments.items():
            self.guard.objects.note_argument(name, argument)
        for cell in self.names.cells:
            self.guard.objects.add(cell, self.names.path(cell, ""))
        self.region: EnclosingRegion | None = None
        self.region_values: set[Value] = set()
        self.undefined_in_branch: dict[str, str] = {}
        self.print_entries: list[Entry] = []
        self.inputs: list[Value] = []
        self.memo: dict[Any, Any] = {}
        self._replaying = False
        self._stops_gradients = False
        self._outer_tape = tape.current()

    # ---- operators ----

    def should_record(self, op: Op, operands: Sequence[Any], attributes: dict[str, Any]) -> bool:
        """Whether to record an operator on arrays and symbolic data; otherwise it is computed at once."""
        return (
            any(isinstance(x, SymbolicTensor) for x in operands)
            or self._replaying
            or op is boundary.boundary
            or (op.traits.draws and not is_seeded())
            or bool(symbols_in(*attributes.values()))
        )

    def record(self, op: Op, operands: Sequence[Any], attributes: dict[str, Any]) -> tuple[SymbolicTensor, ...]:
        """Append a node and return its outputs; arrays become constants."""
        values = tuple(
            self.symbolic(x, op.name) if isinstance(x, (np.ndarray, SymbolicTensor)) else x for x in operands
        )
        appended = self.builder.append(op, values, attributes)
        return tuple(map(self.cut, appended)) if isinstance(appended, tuple) else (self.cut(appended),)

    def symbolic(self, data: Data, where: str) -> SymbolicTensor:
        """Data as an operand of a node; an error says `where` a tensor of another trace, or of a branch, was used."""
        if not isinstance(data, SymbolicTensor):
            return self.constant(data)
        if data.builder is not self.builder:
            raise unknown_elements_error(data, where, "")
        if data.value in self.region_values:
            raise self.guard.region_value_error(data)
        return data

    def cut(self, x: SymbolicTensor) -> SymbolicTensor:
        """The output of a node; within `without_gradient`, a `stop_gradient` of it."""
        return self.builder.append(boundary.stop_gradient, (x,), {}) if self._stops_gradients else x

    def splice(
        self, program: Program, cells: Sequence[Cell], operands: Mapping[Value, Tensor], results: Sequence[Value]
    ) -> list[Tensor]:
        """Copy the nodes of a program into the one that is traced; see `splicing.splice`."""
        return splice(self, program, cells, operands, results)

    def apply(self, op: Op, inputs: tuple[Any, ...], attributes: dict[str, Any]) -> Any:
        """Apply an operator without Tensor operands and return its Tensor, or a tuple of several."""
        return tensor.apply(op, inputs, attributes)

    def add_input(self, stem: str, type: Type) -> SymbolicTensor:
        """Add an input of the program, or the initial value of a Parameter."""
        result = self.builder.new_value(stem, type)
        self.inputs.append(result.value)
        return result

    def constant(self, array: Array) -> SymbolicTensor:
        """Return the constant of the program for an array; the same array has one constant."""
        if id(array) not in self._constants:
            self._constants[id(array)] = array, self.builder.constant(array)
        return self._constants[id(array)][1]

    def import_values(self, operands: Sequence[Any]) -> tuple[Any, ...]:
        """Return operands as the branch or loop that is being recorded uses them."""
        return tuple(operands) if self.region is None else tuple(map(self.region.import_values, operands))

    def once(self, what: str, x: Tensor, make: Callable[[], Any]) -> Any:
        """Return the result of `make` for a symbolic tensor, computed once for all tensors computed in the same way.

        This gives two `x[x > 0]` one size. A result that was computed in a branch or loop is used only there.
        """
        producers = {value: node for node in self.builder.nodes for value in node.outputs}
        same = what, _expression_key(x._data.value, producers, _MAX_EXPRESSION_DEPTH)
        region = self.region
        while (*same, region) not in self.memo and region is not None:
            region = region.outer
        if (*same, region) not in self.memo:
            region = self.region
            self.memo[*same, region] = make()
        return self.memo[*same, region]

    def print_tensors(self, items: Sequence[Any]) -> None:
        """Record `ops.Print`: each run of the program prints."""
        print_when_run(items, None)

    # ---- the current place ----

    def place(self) -> Place:
        """Return the current Cell call and the source of the last recorded node."""
        return self.builder.cell, self.builder.source

    @contextlib.contextmanager
    def at(self, place: Place) -> Iterator[None]:
        """Within the context, nodes belong to a place unless a line of the user's code records them."""
        before = self.builder.cell, self.builder.fallback_source
        self.builder.cell, self.builder.fallback_source = place
        try:
            yield
        finally:
            self.builder.cell, self.builder.fallback_source = before

    @contextlib.contextmanager
    def replay(self, source: Source | None) -> Iterator[None]:
        """Within the context, record a node of another program unchanged, whatever its operands are."""
        before, self._replaying = self._replaying, True
        try:
            with self.builder.copying(self.builder.cell, source):
                yield
        finally:
            self._replaying = before

    @contextlib.contextmanager
    def without_gradient(self) -> Iterator[None]:
        """Within the context, no gradient flows through recorded nodes."""
        before, self._stops_gradients = self._stops_gradients, True
        try:
            yield
        finally:
            self._stops_gradients = before

    # ---- Cells ----

    def call(self, cell: Cell, args: tuple[Any, ...], kwargs: dict[str, Any], runs: Callable[..., Any]) -> Any:
        """Run a Cell by `runs(cell, args, kwargs)`, and mark its input and output Tensors as its boundaries."""
        path = self._record_cell(cell, self.builder.cell if self.calls else None)
        return self.run_as_call(path, cell.class_name_in_trace, cell, lambda *a, **k: runs(cell, a, k), args, kwargs)

    def begin_call(self, cell: Cell, caller: int) -> int:
        """Begin a call of a Cell whose nodes are copied; returns its number."""
        return self._begin(self._record_cell(cell, caller), cell.class_name_in_trace, caller)

    def _record_cell(self, cell: Cell, caller: int | None) -> str:
        """Record a Cell that is called, and return its path."""
        path = self.names.path(cell, "" if caller is None else self.calls[caller].path)
        self.guard.on_call(cell, path)
        return path

    def _begin(self, path: str, class_name: str, caller: int | None) -> int:
        index = sum(call.path == path for call in self.calls)
        self.calls.append(CellCall(path, class_name, index, caller))
        return len(self.calls) - 1

    def run_as_call(
        self, path: str, class_name: str, signature_of: Any, runs: Callable[..., Any], args: Any, kwargs: dict[str, Any]
    ) -> Any:
        """Run a function as a Cell call; the parameters of the Cell or function `signature_of` name the inputs."""
        number = self._begin(path, class_name, self.builder.cell if self.calls else None)
        with self._in_call(number), self.guard.checking(getattr(signature_of, "construct", signature_of)):
            if getattr(signature_of, "marks_itself", False):
                return runs(*args, **kwargs)
            crossings: list[tuple[Tensor, str, Tensor, Any]] = []

            def enter(x: Tensor, slot: str) -> Tensor:
                inner: Tensor = self._mark_boundary(x, number, "input", slot)
                crossings.append((x, slot, inner, inner._data))
                return inner

            args, kwargs = mark_arguments(signature_of, args, kwargs, enter)
            before = map_leaves(lambda leaf: leaf, (args, kwargs))
            result = runs(*args, **kwargs)
            if not has_same_leaves((args, kwargs), before):
                raise self.guard.argument_change_error(getattr(signature_of, "construct", signature_of))
            for x, slot, inner, data in crossings:
                if inner._data is not data:  # written in place: the caller's tensor changes too
                    self.guard.on_write_argument(signature_of, [name for outer, name, *_ in crossings if outer is x])
                    x._rebind(self._mark_boundary(inner, number, "output", slot))
            return mark_results(result, lambda x, slot: self._mark_boundary(x, number, "output", slot))

    @contextlib.contextmanager
    def _in_call(self, number: int) -> Iterator[None]:
        before = self.builder.cell
        self.builder.cell = number
        try:
            yield
        finally:
            self.builder.cell = before

    def _mark_boundary(self, x: Tensor, number: int, kind: str, slot: str) -> Any:
        return boundary.boundary(x, call=number, kind=kind, slot=slot)

    # ---- Parameters ----

    def value_of(self, parameter: Parameter) -> SymbolicTensor:
        """Return the value of a Parameter at this point of the program."""
        symbolic = self.parameters.get(id(parameter)) or self._add_parameter(parameter)
        return symbolic.current

    def assign(self, parameter: Parameter, data: Any) -> None:
        """Assign an array or symbolic data to a Parameter."""
        symbolic = self.parameters.get(id(parameter)) or self._add_parameter(parameter)
        symbolic.current = data if isinstance(data, SymbolicTensor) else self.constant(data)

    def with_custom_backward(self, name: str, outputs: Sequence[Tensor], operands: Sequence[Tensor], pull: Pull) -> Any:
        """Return tensors with a custom backward pass; see `own_gradient`."""
        return with_custom_backward(self, name, outputs, operands, pull)

    def update_unless(self, skip: Tensor, update: Callable[[], Any]) -> None:
        """Call `update`, but let the Parameters keep their old values where the symbolic bool `skip` is true."""
        before = {key: symbolic.current for key, symbolic in self.parameters.items()}
        update()
        for key, symbolic in self.parameters.items():
            old = before.get(key, symbolic.initial)
            if symbolic.current is not old:
                symbolic.current = elementwise.where(skip._data, old, symbolic.current)

    def _add_parameter(self, parameter: Parameter) -> SymbolicParameter:
        array = parameter._array
        names = self.names.of_parameter(parameter)
        first = self.add_input(names[0], Type(array.dtype, array.shape))
        # a tape that started while tracing ends with the trace
        outside = self._outer_tape is not None and parameter._tape is self._outer_tape
        previous_tracking = (parameter._tape, parameter._number) if outside else (None, 0)
        initial_tracking = parameter._tape, None if parameter._tape is None else parameter._number
        symbolic = SymbolicParameter(parameter, names, first, first, previous_tracking, initial_tracking)
        self.parameters[id(parameter)] = symbolic
        return symbolic

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Within the context, trace Python; at the end, refuse changes of Python objects, and undo them."""
        answers = handle_usage(self.guard.refuse_number, self.guard.on_comparison)
        try:
            with use_trace(self), tape.record_on(None), answers, deferred_printing():
                try:
                    yield
                    self.guard.finish(self._root)
                except RetraceRequired:
                    raise
                except Exception as error:
                    write_symbolic(self.print_entries)
                    if isinstance(error, NameError):
                        self.guard.require_defined(error, self.undefined_in_branch)
                    raise
        finally:
            self.restore()

    def restore(self) -> None:
        """Undo all changes of Python objects and Parameters."""
        self.guard.objects.restore()
        for symbolic in self.parameters.values():
            symbolic.parameter._tape, symbolic.parameter._number = symbolic.previous_tracking

    def stored_tensors(self) -> tuple[dict[str, types.ProgramParameter], dict[str, types.Buffer], dict[str, Parameter]]:
        """Return the parameters and buffers of the program, and the live Parameters, by name.

        A Parameter with a new value becomes a buffer with an update; state such as moving statistics is always a
        buffer. The program of a Cell stores all its Parameters; that of a function only those that it uses.
        """
        used_values = {value for node in self.builder.nodes for value in node.inputs}
        parameters: dict[str, types.ProgramParameter] = {}
        buffers: dict[str, types.Buffer] = {}
        live: dict[str, Parameter] = {}
        for parameter in self.names.parameters:
            symbolic = self.parameters.get(id(parameter)) or (
                self._add_parameter(parameter) if self._root_is_cell else None
            )
            if symbolic is None or (
                symbolic.initial is symbolic.current
                and symbolic.initial.value not in used_values
                and not self._root_is_cell
            ):
                continue
            name, array = symbolic.names[0], parameter._array
            live[name] = parameter
            if symbolic.current is not symbolic.initial:
                buffers[name] = types.Buffer(symbolic.initial.value, array, symbolic.current.value)
            elif parameter._is_buffer and not parameter.requires_grad:
                buffers[name] = types.Buffer(symbolic.initial.value, array)
            else:
                parameters[name] = types.ProgramParameter(
                    symbolic.initial.value, array, parameter.requires_grad, symbolic.names[1:]
                )
        return parameters, buffers, live


_MAX_EXPRESSION_DEPTH = 8
"""The number of successive nodes that are compared to find out whether two values are computed in the same way."""


def _expression_key(value: Value, producers: Mapping[Value, Node], depth: int) -> Any:
    """Return a key that is equal for values that the same nodes compute from the same values."""
    node = producers.get(value)
    if node is None or not depth or get(node.op).traits.draws:
        return value
    inputs = [None if x is None else _expression_key(x, producers, depth - 1) for x in node.inputs]
    if node.op == "boundary":
        return inputs[0]
    attributes = tuple(sorted((name, repr(item)) for name, item in node.attributes.items()))
    return node.op, attributes, node.outputs.index(value), tuple(inputs)
