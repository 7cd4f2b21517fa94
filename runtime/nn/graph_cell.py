"""`GraphCell`: a program, such as `converter.from_torch` gives, as a Cell among Cells."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .. import tree
from ..common.nested import tensors_in
from ..common.parameter import Parameter
from ..common.tensor import from_array
from ..current_trace import Trace, current
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
    """A captured network as a Cell: it trains, freezes, nests and takes hooks as Cells written by hand do.

    The Cells of the program are Cells here, under their paths, and the values that cross their boundaries are the
    inputs and outputs that hooks see (a single output bare, several as a flat tuple). One may be replaced by a Cell
    written by hand that takes and returns the same tensors. A Cell that the program calls twice is one Cell.

    It behaves as it was captured, in train or in eval mode: `set_train` doesn't bring in Dropout or the statistics of
    a batch. Random numbers are drawn anew in each call.

    Args:
        program: the network. Its parameters become Parameters with the same names, the frozen ones with
            `requires_grad=False`, and so do its buffers. Their data is copied.

    Inputs and outputs:
        The arguments and the result of the program, with Tensors in place of arrays; arrays are taken, too. After a
        call while `training` is True (as it is at first if the program was captured in train mode), the buffers that
        the program updates have their new values.

    Raises:
        ProgramError: the nodes of one call of a Cell don't stand together in the program.
        UsageError: from a call, arguments that don't fit the program.
        CellbridgeError: from a call, an op failed; the message names it, its operands, the Cell and the source line.
    """

    marks_itself = True

    def __init__(self, program: Program) -> None:
        super().__init__()
        self._graph = graph = _Graph(program.without_data(), self)
        for name, parameter in program.parameters.items():
            self._hold(name, Parameter(program.constant_data[parameter.value], name, parameter.trainable))
        for name, buffer in program.buffers.items():
            held = Parameter(program.constant_data[buffer.value], name, requires_grad=False)
            held._is_buffer = True
            self._hold(name, held)
        for call in program.calls[1:]:
            self._made(call.path).class_name = call.class_name
        called = {call.path for call in program.calls}
        for name, parameter in program.parameters.items():
            for alias in parameter.aliases:
                if alias.rpartition(".")[0] in called:
                    self._hold(alias, graph.parameter(name))
        for _, cell in self.cells_and_names():
            cell.training = program.train
        self._class_name = graph.program.calls[0].class_name

    def _hold(self, qualified_name: str, parameter: Parameter) -> None:
        path, _, attribute = qualified_name.rpartition(".")
        self._made(path)._params[attribute] = parameter  # not by assignment: any attribute name will do

    def _made(self, path: str) -> Any:
        """The Cell at a path; it and those that lead there are made where there are none."""
        cell: Cell = self
        walked: list[str] = []
        for name in path.split(".") if path else ():
            walked.append(name)
            if name not in cell._cells:
                cell._cells[name] = _Region(self._graph, ".".join(walked))
            cell = cell._cells[name]
        return cell

    @property
    def inputs_taken(self) -> int:
        """How many tensors the program takes."""
        return len(self._graph.program.inputs)

    def construct(self, *args: Any, **kwargs: Any) -> Any:
        """Run the program."""
        program = self._graph.program
        given = tree.match_call(program.arguments, args, kwargs)
        inputs = [
            _in_dtype_of(value, x if isinstance(x, TensorLike) else from_array(as_array(x)))
            for value, x in zip(program.inputs, given, strict=True)
        ]
        values: dict[Value, Any] = dict(zip(program.inputs, inputs, strict=True))
        trace = current()
        unchanged = None if trace is None or casts_operands() else self._graph.unchanged()
        if trace is not None and unchanged is not None:
            cells, parameters = unchanged
            wanted = (*program.outputs, *program.updates.values())
            values = dict(zip(wanted, trace.splice(program, cells, values | parameters, wanted), strict=True))
        else:
            run = _Run(self._graph, bind(program, inputs))
            run.values.update(values)
            run.begin(0)
            run.execute(0)
            values = run.values
        for name, update in program.updates.items() if self.training else ():
            self._graph.parameter(name).set_data(from_array(values[update]._data))
        return tree.unflatten(program.result, [values[value] for value in program.outputs])

    def aliased(self) -> Iterator[tuple[str, Parameter]]:
        """`(name, Parameter)` for the further names of Parameters that several modules shared."""
        for name, parameter in self._graph.program.parameters.items():
            for alias in parameter.aliases:
                yield alias, self._graph.parameter(name)

    @property
    def traced_name(self) -> str:
        """The class of the captured module."""
        return self._class_name

    def extend_repr(self) -> str:
        """The class of the captured module."""
        return self._class_name


class _Region(Cell):
    """A Cell of a program, or a container of such Cells; `class_name` is that of the module it was."""

    marks_itself = True

    def __init__(self, graph: _Graph, path: str) -> None:
        super().__init__()
        self._graph = graph
        self._path = path
        self.class_name = "Cell"

    @property
    def cls_name(self) -> str:
        """Name of the class of the captured module."""
        return self.class_name

    def runs_nodes_alone(self, graph: _Graph) -> bool:
        """Whether a call runs the nodes of this program alone: no hook, backward pass or dtype of its own."""
        own = self._graph is graph and type(self) is _Region and "construct" not in vars(self)
        return own and not self.has_hooks and self.bprop is None and self._compute_dtype is None

    def construct(self, *inputs: Any, within: tuple[_Run, int] | None = None) -> Any:
        """Run the nodes of one call: that of the program which `within` names, else, alone, the first.

        Alone, it leaves buffers as they are: the program knows their values after the whole run.
        """
        run, number = within or self._graph.run_of(self._path, inputs)
        flow = self._graph.flows[number]
        run.begin(number)
        for entry, x in zip(flow.entries, inputs, strict=True):
            run.values[entry.outputs[0]] = run.crossed(entry, x)
        run.execute(number)
        outputs = tuple(run.crossed(end, run.value(end.inputs[0], number)) for end in flow.exits)
        return outputs[0] if len(outputs) == 1 else outputs


class _Graph:
    """A program arranged to be run call by call.

    Attributes:
        program: the program.
        root: the Cell in which its Cells and Parameters are found by their paths.
        steps: the nodes that are run, made ready.
        flows: what each call does.
        names: qualified names of the parameters and buffers.
        aliases: other names of shared parameters, by the Cell that holds them so.
    """

    def __init__(self, program: Program, root: Cell) -> None:
        self.program = program
        self.root = root
        steps = plan(program, (*program.outputs, *program.updates.values()), every_boundary=True)
        self.steps = {step.node: step for step in steps}
        self.flows = flows(program, self.steps)
        self.used = {value for step in steps for value in step.node.inputs}
        self._constants: dict[Value, Any] = {
            c.value: from_array(program.constant_data[c.value]) for c in program.constants
        }
        self.names = {parameter.value: name for name, parameter in program.parameters.items()}
        self.names |= {buffer.value: name for name, buffer in program.buffers.items()}
        self.aliases = {(a.rpartition(".")[0], p.value): a for p in program.parameters.values() for a in p.aliases}

    def constants(self) -> dict[Value, Any]:
        """The constants as tensors."""
        trace = current()
        if trace is not None:
            return {c.value: from_array(trace.builder.constant(c.data, c.value.dtype)) for c in self.program.constants}
        exact = [c for c in self.program.constants if effective_dtype(c.value.dtype) != c.value.dtype]
        return self._constants | {c.value: from_array(c.data.astype(effective_dtype(c.value.dtype))) for c in exact}

    def cell(self, path: str) -> Cell:
        """The Cell that is at a path now; `UsageError` if there is none any more."""
        cell = self.root
        for name in path.split(".") if path else ():
            if name not in cell._cells:
                raise UsageError(f"the network needs Cell '{path}', but '{name}' was taken out of {cell.cls_name}")
            cell = cell._cells[name]
        return cell

    def parameter(self, name: str) -> Parameter:
        """The Parameter that is under a qualified name now; `UsageError` if there is none any more."""
        path, _, attribute = name.rpartition(".")
        holder = self.cell(path)
        if attribute not in holder._params:
            raise UsageError(f"the network needs Parameter '{name}', but {holder.cls_name} '{path}' doesn't hold it")
        found: Parameter = holder._params[attribute]
        return found

    def unchanged(self) -> tuple[list[Cell], dict[Value, Parameter]] | None:
        """The Cell of each call and the Parameter of each value that nodes use; None if a run isn't just these nodes.

        That is so if a Cell was replaced or does more than run its nodes, if a Parameter has another dtype or shape, or
        if a shared Parameter was replaced in some of the Cells that share it.
        """
        there = dict(self.root.cells_and_names())
        cells = [there.get(call.path) for call in self.program.calls[1:]]
        plain = [cell for cell in cells if isinstance(cell, _Region) and cell.runs_nodes_alone(self)]
        if len(plain) < len(cells):
            return None
        parameters = {value: self.parameter(name) for value, name in self.names.items() if value in self.used}
        if any(Type(parameter.dtype, parameter.shape) != value.type for value, parameter in parameters.items()):
            return None
        called = {call.path for call in self.program.calls}
        shared = [(value, alias) for (path, value), alias in self.aliases.items() if path in called]
        if any(value in parameters and self.parameter(alias) is not parameters[value] for value, alias in shared):
            return None
        return [self.root, *plain], parameters

    def run_of(self, path: str, inputs: tuple[Any, ...]) -> tuple[_Run, int]:
        """A run of the first call of a Cell alone; `UsageError` if it has none or the inputs don't fit."""
        number = next((i for i, call in enumerate(self.program.calls) if call.path == path), None)
        if number is None:
            raise UsageError(f"Cell '{path}' holds Cells but computes nothing itself: call those")
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
        """Note, while Python is traced, which call of the program being built a call is."""
        trace = current()
        if trace is not None:
            self.numbers[number] = trace.builder.cell

    def crossed(self, node: Node, x: Any) -> Any:
        """What passes a boundary: the same; while Python is traced, it is marked there as it is here."""
        trace = current()
        if trace is None:
            return x
        attributes = dict(node.attributes) | {"call": self.numbers[node.attributes["call"]]}
        with trace.replay(node.source):
            return get(node.op)(x, **attributes)

    def execute(self, number: int) -> None:
        """Run the nodes of a call, and the calls that it makes."""
        for part in self.graph.flows[number].body:
            if isinstance(part, int):
                self._call(self.graph.flows[part])
            else:
                self.compute(self.graph.steps[part])

    def _call(self, flow: Flow) -> None:
        cell = self.graph.cell(flow.call.path)
        inputs = [self.value(entry.inputs[0], flow.number) for entry in flow.entries]
        returned = cell(*inputs, within=(self, flow.number)) if isinstance(cell, _Region) else cell(*inputs)
        outputs = list(tensors_in(returned))
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
        """The value, or the Parameter, for the call that the node belongs to."""
        return self.value(value, step.node.cell)

    def apply(self, step: Step, operands: list[Any]) -> Any:
        """What a node gives, as Tensors; while Python is traced, it is recorded as it is here."""
        node, trace = step.node, current()
        if node.op == "boundary":
            return self.crossed(node, operands[0])
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
        """The sizes that Tensors tell; while Python is traced, they have new names already."""
        return super().new_sizes(step, tuple(map(as_array, results))) if current() is None else {}

    def _with_new_symbols(self, attributes: dict[str, Any], trace: Trace) -> dict[str, Any]:
        """The attributes, with new names for the sizes that the node finds when it runs."""
        if "symbols" not in attributes:
            return attributes
        fresh = tuple(map(trace.builder.new_symbol, attributes["symbols"]))
        self.sizes |= dict(zip(attributes["symbols"], map(symbol, fresh), strict=True))
        return attributes | {"symbols": fresh}

    def value(self, value: Value | None, number: int) -> Any:
        """The tensor of a value that call `number` uses; `UsageError` if that is one of a Cell that wasn't run."""
        if value in self.values:
            return self.values[value]
        call = self.graph.program.calls[number]
        if value in self.graph.names:
            return self.graph.parameter(self.graph.aliases.get((call.path, value), self.graph.names[value]))
        raise UsageError(
            f"Cell {call} uses {value}, which doesn't come in through its inputs: it can't be run alone, call the "
            "whole network"
        )


def _in_dtype_of(value: Value, x: Any) -> Any:
    """`x`; while a dtype of computation is set (`to_float`), in the dtype that the program takes."""
    cast = casts_operands() and is_floating(x.dtype) and is_floating(value.dtype) and x.dtype != value.dtype
    return elementwise.cast(x, dtype=value.dtype) if cast else x


def _as_tensor(x: Any) -> Any:
    return from_array(x) if isinstance(x, np.ndarray) else x
