"""Programs within programs, the branches and loop bodies of `ops.control_flow`: built, put in line, differentiated.

A sub-program has no parameters and no buffers: all that it uses comes in through its inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ..errors import ShapeError
from ..ir.dims import Dim, SymbolicDim, substitute, substituted
from ..ir.program import Program
from ..ir.types import CellCall, Type, Value, is_floating
from ..ops import creation
from ..ops.registry import get
from ..tracing import Builder, Traced
from ..tree import positional, sequence
from .call import as_array
from .gradient_program import differentiate
from .interpreter import bind


def traced(function: Callable[..., Iterable[Any]], types: Sequence[Type], name: str) -> Program:
    """The sub-program that `function` records, of traced inputs of these types; it gives what the function gives."""
    builder = Builder()
    inputs = [builder.new_value(f"input_{i}", type) for i, type in enumerate(types)]
    outputs = [x if isinstance(x, Traced) else builder.constant(x) for x in function(*inputs)]
    return finished(builder, inputs, outputs, name)


def finished(builder: Builder, inputs: Sequence[Traced], outputs: Sequence[Traced], name: str) -> Program:
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


def inlined(builder: Builder, program: Program, operands: Sequence[Traced]) -> list[Traced]:
    """Append the nodes of `program`, run on `operands`, to another program; its outputs there.

    Sizes that nodes find when they run get new names.
    """
    sizes: dict[str, Dim] = bound_sizes(program, [x.value.type for x in operands])
    values: dict[Value, Traced] = dict(zip(program.inputs, operands, strict=True))
    for constant in program.constants:
        values[constant.value] = builder.constant(constant.data, constant.value.dtype)
    renamed: dict[str, str] = {}
    for node in program.nodes:
        attributes = {name: substituted(item, sizes) for name, item in node.attributes.items()}
        if "symbols" in attributes:
            fresh = {name: builder.new_symbol(name) for name in attributes["symbols"]}
            renamed |= fresh
            attributes["symbols"] = tuple(fresh.values())
        with builder.at(builder.cell, node.source):
            if node.inputs:
                operands_here = tuple(None if value is None else values[value] for value in node.inputs)
                result = builder.append(get(node.op), operands_here, attributes)
            else:
                result = builder.create(get(node.op), **attributes)
        results = result if isinstance(result, tuple) else (result,)
        values.update(zip(node.outputs, results, strict=True))
        for reading in program.symbol_readings.get(node, ()):
            sizes[reading.symbol] = SymbolicDim({(renamed.get(reading.symbol, reading.symbol),): 1})
    return [values[value] for value in program.outputs]


def called(program: Program, operands: Sequence[Any]) -> list[Any]:
    """What `program` gives, by its ops on tensors of any kind: traced, recorded on a tape, or arrays."""
    builder = next((x.builder for x in operands if isinstance(x, Traced)), None)
    if builder is not None:
        return list(inlined(builder, program, [x if isinstance(x, Traced) else builder.constant(x) for x in operands]))
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
    found = known or {}
    values: dict[Value, Any] = {**program.constant_data, **given}
    sizes = bind(program, [values[value] for value in program.inputs])
    for node in program.nodes:
        if node.outputs[0] in found:
            results: tuple[Any, ...] = tuple(found[value] for value in node.outputs)
        else:
            attributes = {name: substituted(item, sizes) for name, item in node.attributes.items()}
            result = get(node.op)(*(None if value is None else values[value] for value in node.inputs), **attributes)
            results = result if isinstance(result, tuple) else (result,)
        values.update(zip(node.outputs, results, strict=True))
        for reading in program.symbol_readings.get(node, ()):
            sizes[reading.symbol] = reading.size([as_array(x) for x in results])
    return values


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
    outputs: list[Traced] = []
    for value, cotangent in zip(program.inputs, found.input_gradients, strict=True):
        if not is_floating(value.dtype):
            continue
        if cotangent is None:
            outputs.append(builder.create(creation.full, shape=value.shape, value=0.0, dtype=value.dtype))
        else:
            outputs.append(Traced(builder, cotangent))
    inputs = [Traced(builder, value) for value in found.program.inputs]
    return finished(builder, inputs, outputs, f"{program.calls[0].class_name}_gradient")
