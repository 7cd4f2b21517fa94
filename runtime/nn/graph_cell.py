"""`GraphCell`: wraps a program, such as the result of `converter.from_torch`, as a Cell."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .. import tree
from ..common.parameter import Parameter
from ..common.tensor import Tensor, from_array
from ..current_trace import TraceProtocol, current
from ..errors import ProgramError, UsageError
from ..ir.dims import symbol
from ..ir.flow import Flow, flows
from ..ir.program import Program
from ..ir.types import Node, Type, Value, is_floating
from ..ops import elementwise
from ..ops.registry import get
from ..precision import casts_operands, effective_dtype
from ..programs.call import as_array
from ..programs.evaluation import Evaluation
from ..programs.interpreter import FAILURES, bind, failure
from ..programs.plan import Step, plan
from ..tensor_like import TensorLike
from .cell import Cell


class GraphCell(Cell):
    """A captured network as a Cell, which can be trained, frozen, nested and hooked like one written by hand.

    The Cells of the program become Cells with the same paths. Hooks see the values that cross their boundaries: a
    single output as a tensor, several as a flat tuple. A Cell can be replaced by one written by hand that takes and
    returns the same tensors. A Cell that the program calls several times is a single Cell.

    The mode, train or eval, is fixed at capture: `set_train` doesn't turn on Dropout or batch statistics. Random
    numbers are drawn again in each call.

    Args:
        program: the network. Its parameters and buffers become Parameters with the same names and a copy of the data;
            frozen parameters and buffers have `requires_grad=False`.

    Inputs and outputs:
        The arguments and the result of the program, with Tensors for arrays; arrays are accepted, too. A call with
        `training` set writes the program's buffer updates to the buffers. Initially, `training` is set if the program
        was captured in train mode.

    Raises:
        ProgramError: the nodes of one call of a Cell aren't contiguous in the program.
        UsageError: in a call, the arguments don't fit the program.
        CellbridgeError: in a call, an op failed; the message names it, its operands, the Cell and the source line.
    """

    marks_itself = True

    def __init__(self, program: Program) -> None:
        super().__init__()
        self._graph = graph = _Graph(program.without_data(), self)
        for name, parameter in program.parameters.items():
            self._add_parameter(name, Parameter(program.constant_data[parameter.value], name, parameter.trainable))
        for name, buffer in program.buffers.items():
            item = Parameter(program.constant_data[buffer.value], name, requires_grad=False)
            item._is_buffer = True
            self._add_parameter(name, item)
        for call in program.calls[1:]:
            self._make_cells(call.path).class_name = call.class_name
        called_paths = {call.path for call in program.calls}
        for name, parameter in program.parameters.items():
            for alias in parameter.aliases:
                if alias.rpartition(".")[0] in called_paths:
                    self._add_parameter(alias, graph.parameter(name))
        for _, cell in self.cells_and_names():
            cell.training = program.train
        self._class_name = graph.program.calls[0].class_name

    def _add_parameter(self, qualified_name: str, parameter: Parameter) -> None:
        path, _, attribute = qualified_name.rpartition(".")
        self._make_cells(path)._params[attribute] = parameter  # attribute assignment would refuse some names

    def _make_cells(self, path: str) -> Any:
        """Return the Cell at a path; create it and the Cells around it if they don't exist."""
        cell: Cell = self
        path_parts: list[str] = []
        for name in path.split(".") if path else ():
            path_parts.append(name)
            if name not in cell._cells:
                cell._cells[name] = _Region(self._graph, ".".join(path_parts))
            cell = cell._cells[name]
        return cell

    @property
    def input_count(self) -> int:
        """The number of tensors that the program takes."""
        return len(self._graph.program.inputs)

    def construct(self, *args: Any, **kwargs: Any) -> Any:
        """Run the program."""
        program = self._graph.program
        arguments = tree.match_call(program.arguments, args, kwargs)
        inputs = [
            _cast_input(value, x if isinstance(x, TensorLike) else from_array(as_array(x)))
            for value, x in zip(program.inputs, arguments, strict=True)
        ]
        values: dict[Value, Any] = dict(zip(program.inputs, inputs, strict=True))
        trace = current()
        unchanged = None if trace is None or casts_operands() else self._graph.unchanged_cells()
        if trace is not None and unchanged is not None:
            cells, parameters = unchanged
            results = (*program.outputs, *program.updates.values())
            values = dict(zip(results, trace.splice(program, cells, values | parameters, results), strict=True))
        else:
            run = _Run(self._graph, bind(program, inputs))
            run.values.update(values)
            run.begin(0)
            run.execute(0)
            values = run.values
        for name, update in program.updates.items() if self.training else ():
            self._graph.parameter(name).set_data(from_array(values[update]._data))
        return tree.unflatten(program.result, [values[value] for value in program.outputs])

    def aliases(self) -> Iterator[tuple[str, Parameter]]:
        """Yield `(name, Parameter)` for every additional name of a Parameter that several modules share."""
        for name, parameter in self._graph.program.parameters.items():
            for alias in parameter.aliases:
                yield alias, self._graph.parameter(name)

    @property
    def class_name_in_trace(self) -> str:
        """The class of the captured module."""
        return self._class_name

    def extend_repr(self) -> str:
        """The class of the captured module."""
        return self._class_name


class _Region(Cell):
    """A Cell of a program, or a container of such Cells; `class_name` is the class of the captured module."""

    marks_itself = True

    def __init__(self, graph: _Graph, path: str) -> None:
        super().__init__()
        self._graph = graph
        self._path = path
        self.class_name = "Cell"

    @property
    def cls_name(self) -> str:
        """The class name of the captured module."""
        return self.class_name

    def only_runs_nodes(self, graph: _Graph) -> bool:
        """Whether a call only runs nodes of `graph`: without hooks, `bprop`, another `construct` or `to_float`."""
        is_original = self._graph is graph and type(self) is _Region and "construct" not in vars(self)
        return is_original and not self.has_hooks and self.bprop is None and self._compute_dtype is None

    def construct(self, *inputs: Any, within: tuple[_Run, int] | None = None) -> Any:
        """Run the nodes of one call of the Cell.

        `within` is the run of the whole program and the number of the call. If it is None, the Cell runs alone, as in
        its first call, and doesn't update buffers, because only a run of the whole program computes their new values.
        """
        run, number = within or self._graph.start_run(self._path, inputs)
        flow = self._graph.flows[number]
        run.begin(number)
        for entry, x in zip(flow.entries, inputs, strict=True):
            run.values[entry.outputs[0]] = run.cross(entry, x)
        run.execute(number)
        outputs = tuple(run.cross(end, run.value(end.inputs[0], number)) for end in flow.exits)
        return outputs[0] if len(outputs) == 1 else outputs


class _Graph:
    """A program, prepared to be run one Cell call at a time.

    Attributes:
        program: the program.
        root: the outermost Cell; paths of Cells and names of Parameters are relative to it.
        steps: the prepared step of each node that runs.
        flows: the control flow of each Cell call.
        used: the values that are operands of a node that runs.
        names: qualified names of the parameters and buffers.
        aliases: additional names of shared parameters, by the path of the Cell that has them and the value.
    """

    def __init__(self, program: Program, root: Cell) -> None:
        self.program = program
        self.root = root
        steps = plan(program, (*program.outputs, *program.updates.values()), every_boundary=True)
        self.steps = {step.node: step for step in steps}
        self.flows = flows(program, self.steps)
        self.used_values = {value for step in steps for value in step.node.inputs}
        self._constants: dict[Value, Any] = {
            c.value: from_array(program.constant_data[c.value]) for c in program.constants
        }
        self.names = {parameter.value: name for name, parameter in program.parameters.items()}
        self.names |= {buffer.value: name for name, buffer in program.buffers.items()}
        self.aliases = {(a.rpartition(".")[0], p.value): a for p in program.parameters.values() for a in p.aliases}

    def constants(self) -> dict[Value, Any]:
        """Return the constants as Tensors."""
        trace = current()
        if trace is not None:
            return {c.value: from_array(trace.builder.constant(c.data, c.value.dtype)) for c in self.program.constants}
        exact = [c for c in self.program.constants if effective_dtype(c.value.dtype) != c.value.dtype]
        return self._constants | {c.value: from_array(c.data.astype(effective_dtype(c.value.dtype))) for c in exact}

    def cell(self, path: str) -> Cell:
        """Return the Cell currently at a path; raise `UsageError` if it was removed."""
        cell = self.root
        for name in path.split(".") if path else ():
            if name not in cell._cells:
                raise UsageError(f"the network needs Cell '{path}', but '{name}' was removed from {cell.cls_name}")
            cell = cell._cells[name]
        return cell

    def parameter(self, name: str) -> Parameter:
        """Return the Parameter that currently has a qualified name; raise `UsageError` if it was removed."""
        path, _, attribute = name.rpartition(".")
        owner = self.cell(path)
        if attribute not in owner._params:
            raise UsageError(f"the network needs Parameter '{name}', but it was removed from {owner.cls_name} '{path}'")
        parameter: Parameter = owner._params[attribute]
        return parameter

    def unchanged_cells(self) -> tuple[list[Cell], dict[Value, Parameter]] | None:
        """Return the Cell of each call and the Parameter of each value in use, if a run does nothing but run nodes.

        Return None if a Cell was replaced or does more than run its nodes, if a Parameter has another dtype or shape,
        or if a shared Parameter was replaced in only some of the Cells that share it.
        """
        by_path = dict(self.root.cells_and_names())
        cells = [by_path.get(call.path) for call in self.program.calls[1:]]
        regions = [cell for cell in cells if isinstance(cell, _Region) and cell.only_runs_nodes(self)]
        if len(regions) < len(cells):
            return None
        parameters = {value: self.parameter(name) for value, name in self.names.items() if value in self.used_values}
        if any(Type(parameter.dtype, parameter.shape) != value.type for value, parameter in parameters.items()):
            return None
        called_paths = {call.path for call in self.program.calls}
        aliases = [(value, alias) for (path, value), alias in self.aliases.items() if path in called_paths]
        if any(value in parameters and self.parameter(alias) is not parameters[value] for value, alias in aliases):
            return None
        return [self.root, *regions], parameters

    def start_run(self, path: str, inputs: tuple[Any, ...]) -> tuple[_Run, int]:
        """Start a run of a single Cell, and return it with the number of the Cell's first call.

        Raises:
            UsageError: the Cell is never called, or the inputs don't fit.
        """
        number = next((i for i, call in enumerate(self.program.calls) if call.path == path), None)
        if number is None:
            raise UsageError(f"Cell '{path}' is a container without a computation of its own: call the Cells in it")
        operands = [entry.inputs[0] for entry in self.flows[number].entries]
        arguments = tree.Structure("tuple", (tree.TENSOR,) * len(operands))
        return _Run(self, bind(self.program.replace(inputs=tuple(operands), arguments=arguments), inputs)), number


class _Run(Evaluation):
    """One run of a program, or of one of its Cells, on Tensors."""

    def __init__(self, graph: _Graph, sizes: dict[str, Any]) -> None:
        super().__init__(graph.constants(), sizes)
        self.graph = graph
        self.numbers: dict[int, int] = {}

    def begin(self, number: int) -> None:
        """Record the number of a call in the traced program, if Python is being traced."""
        trace = current()
        if trace is not None:
            self.numbers[number] = trace.builder.cell

    def cross(self, node: Node, x: Any) -> Any:
        """Return `x`, which crosses a boundary; if Python is being traced, record the boundary."""
        trace = current()
        if trace is None:
            return x
        attributes = dict(node.attributes) | {"call": self.numbers[node.attributes["call"]]}
        with trace.replay(node.source):
            return get(node.op)(x, **attributes)

    def execute(self, number: int) -> None:
        """Run the nodes of a call, and the calls inside it."""
        for part in self.graph.flows[number].body:
            if isinstance(part, int):
                self._call(self.graph.flows[part])
            else:
                self.compute(self.graph.steps[part])

    def _call(self, flow: Flow) -> None:
        cell = self.graph.cell(flow.call.path)
        inputs = [self.value(entry.inputs[0], flow.number) for entry in flow.entries]
        result = cell(*inputs, within=(self, flow.number)) if isinstance(cell, _Region) else cell(*inputs)
        outputs = list(tree.leaves_of(result, Tensor))
        if len(outputs) != len(flow.exits):
            raise UsageError(
                f"Cell {flow.call} ({cell.cls_name}) must return {len(flow.exits)} tensors, but it (or a hook) "
                f"returned {len(outputs)}"
            )
        for end, output in zip(flow.exits, outputs, strict=True):
            self.values[end.outputs[0]] = output
        for node in (*flow.entries, *flow.exits):
            self.forget(self.graph.steps[node])

    def operand(self, value: Value, step: Step) -> Any:
        """Look up an operand of a node; a shared Parameter is looked up in the Cell that the node belongs to."""
        return self.value(value, step.node.cell)

    def apply(self, step: Step, operands: list[Any]) -> Any:
        """Return the outputs of a node as Tensors; if Python is being traced, record the node."""
        node, trace = step.node, current()
        if node.op == "boundary":
            return self.cross(node, operands[0])
        try:
            if trace is None:
                results = step.op(*operands, **self.attributes(step))
            else:
                with trace.replay(node.source):
                    results = step.op(*operands, **self._with_new_symbols(self.attributes(step), trace))
        except ProgramError:
            raise
        except FAILURES as error:
            raise failure(self.graph.program, node, operands, error) from error
        return tuple(map(_as_tensor, results)) if isinstance(results, tuple) else _as_tensor(results)

    def new_sizes(self, step: Step, results: tuple[Any, ...]) -> dict[str, Any]:
        """Return the sizes that a result determines; while Python is traced, return none: they have new symbols."""
        return super().new_sizes(step, tuple(map(as_array, results))) if current() is None else {}

    def _with_new_symbols(self, attributes: dict[str, Any], trace: TraceProtocol) -> dict[str, Any]:
        """Replace the symbols for sizes that the node determines at run time with new symbols."""
        if "symbols" not in attributes:
            return attributes
        new_symbols = tuple(map(trace.builder.new_symbol, attributes["symbols"]))
        self.sizes |= dict(zip(attributes["symbols"], map(symbol, new_symbols), strict=True))
        return attributes | {"symbols": new_symbols}

    def value(self, value: Value | None, number: int) -> Any:
        """Return the tensor of a value that call `number` uses; raise `UsageError` if none has computed it."""
        if value in self.values:
            return self.values[value]
        call = self.graph.program.calls[number]
        if value in self.graph.names:
            return self.graph.parameter(self.graph.aliases.get((call.path, value), self.graph.names[value]))
        raise UsageError(
            f"Cell {call} uses {value}, which isn't one of its inputs, so it can't run alone: call the whole network"
        )


def _cast_input(value: Value, x: Any) -> Any:
    """Cast a floating-point input to the dtype that the program takes, if `to_float` is in effect."""
    cast = casts_operands() and is_floating(x.dtype) and is_floating(value.dtype) and x.dtype != value.dtype
    return elementwise.cast(x, dtype=value.dtype) if cast else x


def _as_tensor(x: Any) -> Any:
    return from_array(x) if isinstance(x, np.ndarray) else x
