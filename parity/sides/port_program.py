"""The program of a port, in the names of its module."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from torch.utils import _pytree as pytree

from ...runtime import tree
from ...runtime.common.tensor import Tensor
from ...runtime.errors import CellbridgeError, ConversionError
from ...runtime.graph.traced import TracedProgram, trace
from ...runtime.ir.program import Program
from ...runtime.ir.types import Node, Type, Value, as_dtype
from ...runtime.ops import shaping
from ...runtime.programs.call import as_array
from ...runtime.tracing import Builder, SymbolicTensor
from ..correspondence.cells import Pairing
from ..dtypes import cast_floating
from ..weights.arrangements import Axes
from ..weights.mapping import Weights

OWN = "port:"
"""The prefix of paths of Cells, and names of Parameters, that correspond to nothing in the module."""


def trace_port(cell: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], dtype: str) -> TracedProgram:
    """Return the trace of a Cell on arguments that hold torch's tensors or arrays, in a floating-point dtype.

    Raises:
        CellbridgeError: the Cell can't be traced, or its code raises an exception.
    """

    def tensor(leaf: Any) -> Any:
        return Tensor(cast_floating(as_array(leaf), as_dtype(dtype))) if tree.is_tensor(leaf) else leaf

    arguments = pytree.tree_map(tensor, (args, dict(kwargs)))
    try:
        return trace(cell, *arguments)
    except CellbridgeError:
        raise
    except Exception as error:  # the user's code may raise anything
        raise ConversionError(f"it raises {type(error).__name__}: {error}") from error


def in_names_of_module(traced: TracedProgram, pairing: Pairing, weights: Weights) -> Program:
    """Return the program with the paths of the paired modules, and their parameters by name and in their layout."""
    program, modules = traced.program, pairing.module_of
    arrangements = {id(entry.parameter): entry.arrangement for entry in weights.unique()}
    by_name = {name: arrangements.get(id(parameter)) for name, parameter in traced.parameters.items()}
    axes = {name: arrangement for name, arrangement in by_name.items() if isinstance(arrangement, Axes)}
    port_names = {arrangement.name: name for name, arrangement in reversed(axes.items())}  # the first of several copies
    names = {name: source for source, name in port_names.items()}
    names |= {name: name for name in names.values()}
    calls = tuple(replace(call, path=modules.get(call.path, OWN + call.path)) for call in program.calls)

    def renamed(stored: Mapping[str, Any]) -> dict[str, Any]:
        return {names.get(name, OWN + name): item for name, item in stored.items()}

    program = program.replace(calls=calls, buffers=renamed(program.buffers))
    other_layouts = {n: a for n, a in axes.items() if n in program.parameters and not _is_same_layout(a)}
    program = _in_layout_of_module(program, other_layouts)
    return program.replace(parameters=renamed(program.parameters))


def _is_same_layout(arrangement: Axes) -> bool:
    return arrangement.axes is None and arrangement.unit_axes is None


def _in_layout_of_module(program: Program, layouts: Mapping[str, Axes]) -> Program:
    """Return the program with these parameters in the module's layout, changed to the Cell's where a Cell uses them."""
    if not layouts:
        return program
    builder = Builder.from_program(program)
    builder.nodes = []
    parameters = dict(program.parameters)
    stored: dict[Value, tuple[SymbolicTensor, Axes]] = {}
    for name, layout in layouts.items():
        old = parameters.pop(name)
        data = layout.to_module(old.data)[layout.name]
        tensor = builder.new_value(name, Type(old.value.dtype, data.shape))
        parameters[layout.name] = replace(old, value=tensor.value, data=data)
        stored[old.value] = tensor, layout
    changed: dict[tuple[Value, int], Value] = {}

    def operand(value: Value | None, node: Node) -> Value | None:
        if value is None or value not in stored:
            return value
        if (value, node.cell) not in changed:
            tensor, layout = stored[value]
            with builder.at(node.cell, node.source):
                if layout.axes is not None:
                    tensor = shaping.transpose(tensor, permutation=layout.axes)
                if layout.unit_axes is not None:
                    tensor = shaping.reshape(tensor, shape=layout.unit_axes)
            changed[value, node.cell] = tensor.value
        return changed[value, node.cell]

    for node in program.nodes:
        builder.nodes.append(replace(node, inputs=tuple([operand(value, node) for value in node.inputs])))
    return program.replace(nodes=tuple(builder.nodes), constants=tuple(builder.constants), parameters=parameters)
