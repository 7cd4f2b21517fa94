"""Programs within programs, the branches and loop bodies of `ops.control_flow`: built, put in line, differentiated.

A sub-program has no parameters and no buffers: all that it uses comes in through its inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..errors import ShapeError
from ..ir.dims import Dim, SymbolicDim, substitute, symbol
from ..ir.program import Program
from ..ir.types import CellCall, Type, Value, is_floating
from ..ops import creation
from ..tracing import Builder, SymbolicTensor
from ..tree import positional, sequence
from .call import as_array
from .evaluation import Evaluation
from .gradient_program import differentiate
from .interpreter import bind
from .plan import Step, every_step


def traced(function: Callable[..., Iterable[Any]], types: Sequence[Type], name: str) -> Program:
    """The sub-program that `function` records, of traced inputs of these types; it gives what the function gives."""
    builder = Builder()
    inputs = [builder.new_value(f"input_{i}", type) for i, type in enumerate(types)]
    outputs = [x if isinstance(x, SymbolicTensor) else builder.constant(x) for x in function(*inputs)]
    return finished(builder, inputs, outputs, name)


def finished(
    builder: Builder, inputs: Sequence[SymbolicTensor], outputs: Sequence[SymbolicTensor], name: str
) -> Program:
    """The sub-program of what `builder` has collected."""
    return Program(
        inputs=tuple(x.value for x in inputs),
        outputs=tuple(x.value for x in outputs),
        nodes=tuple(builder.nodes),
        parameters={},
        buffers={},
        constants=tuple(builder.constants),
        calls=(CellCall("", name),),
        arguments=positional(len(inputs)),
        result=sequence(len(outputs)),
    )


def inlined(builder: Builder, program: Program, operands: Sequence[SymbolicTensor]) -> list[SymbolicTensor]:
    """Append the nodes of `program`, run on `operands`, to another program; its outputs there.

    Sizes that nodes find when they run get new names.
    """
    values: dict[Value, Any] = dict(zip(program.inputs, operands, strict=True))
    for constant in program.constants:
        values[constant.value] = builder.constant(constant.data, constant.value.dtype)
    appended = _Appended(builder, values, bound_sizes(program, [x.value.type for x in operands]))
    appended.run(every_step(program))
    return [appended.values[value] for value in program.outputs]


class _Appended(Evaluation):
    """A program evaluated by appending its nodes to another, whose sizes of the same names are others."""

    def __init__(self, builder: Builder, values: dict[Value, Any], sizes: Mapping[str, Dim]) -> None:
        super().__init__(values, sizes)
        self.builder = builder
        self.renamed: dict[str, str] = {}

    def apply(self, step: Step, operands: list[Any]) -> Any:
        """The outputs of the node that is appended."""
        attributes = self.attributes(step)
        if "symbols" in attributes:
            fresh = {name: self.builder.new_symbol(name) for name in attributes["symbols"]}
            self.renamed |= fresh
            attributes["symbols"] = tuple(fresh.values())
        with self.builder.at(self.builder.cell, step.node.source):
            if operands:
                return self.builder.append(step.op, tuple(operands), attributes)
            return self.builder.create(step.op, **attributes)

    def found_sizes(self, step: Step, results: tuple[Any, ...]) -> dict[str, Dim]:
        """The new names of the sizes that the node finds."""
        return {r.symbol: symbol(self.renamed.get(r.symbol, r.symbol)) for r in step.readings}


def with_definitions(program: Program) -> Program:
    """The same program with the definitions of its `onnx_function` nodes in their place, in sub-programs too."""
    builder = Builder.continuing(program)
    builder.nodes = []
    for node in program.nodes:
        programs = {name: with_definitions(x) for name, x in node.attributes.items() if isinstance(x, Program)}
        if node.op != "onnx_function":
            builder.nodes.append(replace(node, attributes={**node.attributes, **programs}))
            continue
        begin = len(builder.nodes)
        with builder.at(node.cell, node.source):
            operands = [SymbolicTensor(builder, value) for value in node.inputs if value is not None]
            results = inlined(builder, programs["body"], operands)
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


def called(program: Program, operands: Sequence[Any]) -> list[Any]:
    """What `program` gives, by its ops on tensors of any kind: traced, recorded on a tape, or arrays."""
    builder = next((x.builder for x in operands if isinstance(x, SymbolicTensor)), None)
    if builder is not None:
        return list(
            inlined(builder, program, [x if isinstance(x, SymbolicTensor) else builder.constant(x) for x in operands])
        )
    values = evaluated(program, dict(zip(program.inputs, operands, strict=True)))
    return [values[value] for value in program.outputs]


def evaluated(
    program: Program, given: Mapping[Value, Any], known: Mapping[Value, Any] | None = None
) -> dict[Value, Any]:
    """All values of `program`, computed node by node by its ops on tensors of any kind.

    Args:
        program: the program.
        given: its inputs and what it stores, but for constants.
        known: results that aren't computed, such as what was drawn at random.
    """
    values: dict[Value, Any] = {**program.constant_data, **given}
    run = _OnTensors(values, bind(program, [values[value] for value in program.inputs]), known or {})
    run.run(every_step(program))
    return run.values


class _OnTensors(Evaluation):
    """A program evaluated by calling its ops on tensors of any kind."""

    def __init__(self, values: dict[Value, Any], sizes: Mapping[str, Dim], known: Mapping[Value, Any]) -> None:
        super().__init__(values, sizes)
        self.known = known

    def apply(self, step: Step, operands: list[Any]) -> Any:
        """What the op gives, or what is known of it."""
        outputs = step.node.outputs
        if outputs[0] in self.known:
            return tuple(self.known[value] for value in outputs)
        return step.op(*operands, **self.attributes(step))

    def found_sizes(self, step: Step, results: tuple[Any, ...]) -> dict[str, Dim]:
        """The sizes that the elements or shapes of tensors tell."""
        return super().found_sizes(step, tuple(as_array(x) for x in results))


def bound_sizes(program: Program, types: Sequence[Type]) -> dict[str, Dim]:
    """What the symbols of a sub-program's inputs stand for, where operands have these types.

    Raises:
        ShapeError: the operands aren't what the sub-program takes.
    """
    if len(types) != len(program.inputs):
        raise ShapeError(f"the sub-program takes {len(program.inputs)} operands, given {len(types)}")
    sizes: dict[str, Dim] = {}
    for value, type in zip(program.inputs, types, strict=True):
        if value.dtype != type.dtype or len(value.shape) != type.rank:
            raise ShapeError(f"the sub-program takes {value.type}, given {type}")
        for dim, given in zip(value.shape, type.shape, strict=True):
            if isinstance(dim, SymbolicDim):
                if str(dim) in dim.symbols():
                    sizes.setdefault(str(dim), given)
            elif isinstance(given, int) and given != dim:
                raise ShapeError(f"the sub-program takes {value.type}, given {type}")
    return sizes


def result_types(program: Program, types: Sequence[Type]) -> list[Type]:
    """Types of the results of a sub-program on operands of these types, in the symbols of the operands."""
    sizes = bound_sizes(program, types)
    return [value.type.with_shape(tuple(substitute(d, sizes) for d in value.shape)) for value in program.outputs]


def own_symbols(program: Program) -> set[str]:
    """The sizes that only a run of the sub-program tells."""
    return {reading.symbol for told in program.symbol_readings.values() for reading in told}


def gradient(program: Program) -> Program:
    """The sub-program that takes the inputs of `program` and a cotangent for each of its floating-point outputs.

    It gives the cotangent of each floating-point input, zeros where none arrives.
    """
    found = differentiate(program)
    builder = Builder.continuing(found.program)
    outputs: list[SymbolicTensor] = []
    for value, cotangent in zip(program.inputs, found.input_gradients, strict=True):
        if not is_floating(value.dtype):
            continue
        if cotangent is None:
            outputs.append(builder.create(creation.full, shape=value.shape, value=0.0, dtype=value.dtype))
        else:
            outputs.append(SymbolicTensor(builder, cotangent))
    inputs = [SymbolicTensor(builder, value) for value in found.program.inputs]
    return finished(builder, inputs, outputs, f"{program.calls[0].class_name}_gradient")
