"""Sub-programs, which are branches and loop bodies of `ops.control_flow`: building, inlining, differentiating them.

A sub-program has no parameters and no buffers: it uses only its inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

from ..errors import ShapeError
from ..ir.dims import Dim, SymbolicDim, substitute, symbol
from ..ir.program import Program
from ..ir.types import CellCall, Node, Type, Value, is_floating
from ..ops import creation
from ..tensor_like import TensorLike
from ..tracing import Builder, SymbolicTensor
from ..tree import positional_arguments, sequence
from .call import as_array
from .evaluation import Evaluation
from .gradient_program import differentiate
from .interpreter import bind
from .plan import Step, every_step


def trace_subprogram(function: Callable[..., Iterable[Any]], types: Sequence[Type], name: str) -> Program:
    """Trace `function` on symbolic inputs of these types and return the sub-program."""
    builder = Builder()
    inputs = [builder.new_value(f"input_{i}", type) for i, type in enumerate(types)]
    outputs = [x if isinstance(x, SymbolicTensor) else builder.constant(x) for x in function(*inputs)]
    return build_subprogram(builder, inputs, outputs, name)


def build_subprogram(
    builder: Builder, inputs: Sequence[SymbolicTensor], outputs: Sequence[SymbolicTensor], name: str
) -> Program:
    """Return the sub-program of the nodes in `builder`."""
    return Program(
        inputs=tuple(x.value for x in inputs),
        outputs=tuple(x.value for x in outputs),
        nodes=tuple(builder.nodes),
        parameters={},
        buffers={},
        constants=tuple(builder.constants),
        calls=(CellCall("", name),),
        arguments=positional_arguments(len(inputs)),
        result=sequence(len(outputs)),
    )


def inline(builder: Builder, program: Program, operands: Sequence[SymbolicTensor]) -> list[SymbolicTensor]:
    """Append the nodes of `program`, applied to `operands`, to another program and return its outputs there.

    Sizes that nodes determine at run time get new names.
    """
    values: dict[Value, Any] = dict(zip(program.inputs, operands, strict=True))
    for constant in program.constants:
        values[constant.value] = builder.constant(constant.data, constant.value.dtype)
    appended = Inliner(builder, values, bind_sizes(program, [x.value.type for x in operands]))
    appended.run(every_step(program))
    return [appended.values[value] for value in program.outputs]


class Inliner(Evaluation):
    """The evaluation of a program by appending its nodes to another one, with new names for its symbols."""

    def __init__(self, builder: Builder, values: dict[Value, Any], sizes: Mapping[str, Dim]) -> None:
        super().__init__(values, sizes)
        self.builder = builder
        self.renamed: dict[str, str] = {}

    def at(self, node: Node) -> AbstractContextManager[None]:
        """Return the context in which the copy of a node is appended to the other program."""
        return self.builder.at(self.builder.cell, node.source)

    def attributes(self, step: Step) -> dict[str, Any]:
        """Return the attributes of the copy, with new names for the sizes that it determines at run time."""
        attributes = super().attributes(step)
        if "symbols" in attributes:
            fresh = {name: self.builder.new_symbol(name) for name in attributes["symbols"]}
            self.renamed |= fresh
            attributes["symbols"] = tuple(fresh.values())
        return attributes

    def apply(self, step: Step, operands: list[Any], types: tuple[Type, ...] | None = None) -> Any:
        """Append the node and return its outputs, whose `types` are inferred if not given."""
        with self.at(step.node):
            return self.builder.append(step.op, tuple(operands), self.attributes(step), types)

    def new_sizes(self, step: Step, results: tuple[Any, ...]) -> dict[str, Dim]:
        """Return new names for the sizes that the node determines."""
        return {r.symbol: symbol(self.renamed.get(r.symbol, r.symbol)) for r in step.readings}


def inline_functions(program: Program) -> Program:
    """Return the program with its `onnx_function` nodes replaced by their definitions, also in sub-programs."""
    builder = Builder.from_program(program)
    builder.nodes = []
    for node in program.nodes:
        programs = {name: inline_functions(x) for name, x in node.attributes.items() if isinstance(x, Program)}
        if node.op != "onnx_function":
            builder.nodes.append(replace(node, attributes={**node.attributes, **programs}))
            continue
        begin = len(builder.nodes)
        with builder.at(node.cell, node.source):
            operands = [SymbolicTensor(builder, value) for value in node.inputs if value is not None]
            results = inline(builder, programs["body"], operands)
        names = {x.value: value for x, value in zip(results, node.outputs, strict=True)}
        builder.nodes[begin:] = [
            replace(
                inner,
                inputs=tuple(None if value is None else names.get(value, value) for value in inner.inputs),
                outputs=tuple(names.get(value, value) for value in inner.outputs),
                source=node.source,
            )
            for inner in builder.nodes[begin:]
        ]
    return program.replace(nodes=tuple(builder.nodes), constants=tuple(builder.constants))


def apply_program(program: Program, operands: Sequence[Any]) -> list[Any]:
    """Apply `program` to tensors of any kind (symbolic, recorded on a tape, arrays) and return its outputs."""
    symbolic = [x for x in operands if isinstance(x, SymbolicTensor)]
    if symbolic and len(symbolic) == sum(isinstance(x, TensorLike) for x in operands):
        builder = symbolic[0].builder
        return list(
            inline(builder, program, [x if isinstance(x, SymbolicTensor) else builder.constant(x) for x in operands])
        )
    values = evaluate_program(program, dict(zip(program.inputs, operands, strict=True)))
    return [values[value] for value in program.outputs]


def evaluate_program(
    program: Program, inputs: Mapping[Value, Any], known_values: Mapping[Value, Any] | None = None
) -> dict[Value, Any]:
    """Compute all values of `program` node by node, by calling its ops on tensors of any kind.

    Args:
        program: the program.
        inputs: its inputs, parameters and buffers.
        known_values: results to use instead of computing them, such as recorded random numbers.
    """
    values: dict[Value, Any] = {**program.constant_data, **inputs}
    run = _TensorEvaluation(values, bind(program, [values[value] for value in program.inputs]), known_values or {})
    run.run(every_step(program))
    return run.values


class _TensorEvaluation(Evaluation):
    """The evaluation of a program by calling its ops on tensors of any kind."""

    def __init__(self, values: dict[Value, Any], sizes: Mapping[str, Dim], known_values: Mapping[Value, Any]) -> None:
        super().__init__(values, sizes)
        self.known_values = known_values

    def apply(self, step: Step, operands: list[Any]) -> Any:
        """Return the known results of the step, or else apply its op."""
        outputs = step.node.outputs
        if outputs[0] in self.known_values:
            return tuple(self.known_values[value] for value in outputs)
        return step.op(*operands, **self.attributes(step))

    def new_sizes(self, step: Step, results: tuple[Any, ...]) -> dict[str, Dim]:
        """Return the sizes in the elements or shapes of the results."""
        return super().new_sizes(step, tuple(as_array(x) for x in results))


def bind_sizes(program: Program, types: Sequence[Type]) -> dict[str, Dim]:
    """Return the sizes of the symbols of a sub-program's inputs for operands of these types.

    Raises:
        ShapeError: the operands don't match the inputs of the sub-program.
    """
    if len(types) != len(program.inputs):
        raise ShapeError(f"the sub-program takes {len(program.inputs)} operands, given {len(types)}")
    sizes: dict[str, Dim] = {}
    for value, type in zip(program.inputs, types, strict=True):
        if value.dtype != type.dtype or len(value.shape) != type.rank:
            raise ShapeError(f"the sub-program takes {value.type}, given {type}")
        for dim, size in zip(value.shape, type.shape, strict=True):
            if isinstance(dim, SymbolicDim):
                if str(dim) in dim.symbols():
                    sizes.setdefault(str(dim), size)
            elif isinstance(size, int) and size != dim:
                raise ShapeError(f"the sub-program takes {value.type}, given {type}")
    return sizes


def result_types(program: Program, types: Sequence[Type]) -> list[Type]:
    """Return the types of a sub-program's results for operands of these types, in the symbols of the operands."""
    sizes = bind_sizes(program, types)
    return [value.type.with_shape(tuple(substitute(d, sizes) for d in value.shape)) for value in program.outputs]


def own_symbols(program: Program) -> set[str]:
    """Return the symbols of sizes that are known only when the sub-program runs."""
    return {reading.symbol for readings in program.symbol_readings.values() for reading in readings}


def gradient(program: Program) -> Program:
    """Return the gradient of a sub-program as a sub-program.

    It takes the inputs of `program` and a cotangent for each of its floating-point outputs, and returns the cotangent
    of each floating-point input, zeros where none flows.
    """
    gradient_of = differentiate(program)
    builder = Builder.from_program(gradient_of.program)
    outputs: list[SymbolicTensor] = []
    for value, cotangent in zip(program.inputs, gradient_of.input_gradients, strict=True):
        if not is_floating(value.dtype):
            continue
        if cotangent is None:
            outputs.append(builder.create(creation.full, shape=value.shape, value=0.0, dtype=value.dtype))
        else:
            outputs.append(SymbolicTensor(builder, cotangent))
    inputs = [SymbolicTensor(builder, value) for value in gradient_of.program.inputs]
    return build_subprogram(builder, inputs, outputs, f"{program.calls[0].class_name}_gradient")
