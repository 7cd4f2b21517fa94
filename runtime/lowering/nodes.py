"""Lowering of the nodes of a program by the `onnx` rules of their ops, and of sub-programs to subgraphs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ..errors import ConversionError, ShapeError, UnsupportedOperators
from ..ir.program import Program
from ..ir.types import Node, Type, Value
from ..ops import get
from ..programs.plan import plan
from ..programs.subprograms import trace_subprogram
from .graph import Graph
from .onnx_node import Subgraph
from .opsets import NewerOpset
from .precomputed import Precomputed
from .small_integers import wider_dtypes


class ProgramGraph(Graph):
    """The implementation of `OnnxGraph` that op rules get: it can also lower sub-programs and compositions of ops."""

    def subgraph(self, program: Program, captured: Sequence[str], unused: Mapping[int, Type] | None = None) -> Subgraph:
        """Lower a sub-program to a subgraph, the attribute of a node; see `OnnxGraph`."""
        name = program.calls[0].class_name
        inner = self.within()
        own_count = len(program.inputs) - len(captured)
        inputs = [(inner.define(value.name, value.type), value.type) for value in program.inputs[:own_count]]
        tensors = dict(zip(program.inputs, [*(tensor for tensor, _ in inputs), *captured], strict=True))
        for value in program.inputs:
            inner.sizes.bind(tensors[value], value.shape, anew=True)
        for value, data in program.constant_data.items():
            tensors[value] = inner.define(value.name, value.type)
            inner.initializers[tensors[value]] = data
        for position, type in sorted((unused or {}).items()):
            inputs.insert(position, (inner.define("unused", type), type))
        lower(inner, program, [step.node for step in plan(program, program.outputs)], tensors)
        return _close(inner, name, inputs, [(tensors[value], value.type) for value in program.outputs])

    def body(self, name: str, inputs: Sequence[Type], outputs: Sequence[Type], write: Callable[..., Any]) -> Subgraph:
        """Return the subgraph that `write` emits; see `OnnxGraph`."""
        inner = self.within()
        inner_inputs = [(inner.define("input", type), type) for type in inputs]
        results = write(inner, *(tensor for tensor, _ in inner_inputs))
        return _close(inner, name, inner_inputs, list(zip(results, outputs, strict=True)))

    def compose(self, composition: Callable[..., Any], operands: Sequence[str]) -> tuple[str, ...]:
        """Lower a function of symbolic tensors that is composed of ops; see `OnnxGraph`."""
        program = trace_subprogram(composition, [self.type(tensor) for tensor in operands], "composition")
        tensors = dict(zip(program.inputs, operands, strict=True))
        for value, data in program.constant_data.items():
            tensors[value] = self.constant(data)
            self.types[tensors[value]] = value.type
        lower(self, program, [step.node for step in plan(program, program.outputs)], tensors)
        return tuple(tensors[value] for value in program.outputs)


def lower(
    graph: Graph,
    program: Program,
    nodes: Sequence[Node],
    tensors: dict[Value, str],
    precomputed: Precomputed | None = None,
) -> None:
    """Emit nodes of a program.

    Args:
        graph: the graph to emit to.
        program: the program of the nodes.
        nodes: in order of computation.
        tensors: the tensor of each value so far; the outputs of the nodes are added.
        precomputed: the values that are the same in every run; those without an ONNX operator are stored.

    Raises:
        UnsupportedOperators: ops have no ONNX form; lists all of them, with Cell path and source line.
        ConversionError: an op has no ONNX form with these attributes or symbolic sizes.
    """
    fixed = {node for node in nodes if precomputed is not None and node.outputs and node.outputs[0] in precomputed}
    stored = {node for node in fixed if not has_operator(node)}
    unsupported = [node for node in _all_nodes(n for n in nodes if n not in stored) if get(node.op).onnx_rule is None]
    if unsupported:
        raise _unsupported_error(program, unsupported)
    for node in nodes:
        call = program.calls[node.cell]
        with graph.at(call.label if call.path else graph.cell, str(node.source or graph.source)):
            try:
                if node not in stored:
                    _lower(graph, program, node, tensors)
            except ConversionError:
                if node not in fixed:
                    raise
                stored.add(node)
            if node in stored and precomputed is not None:
                _store(graph, node, tensors, precomputed)


def _store(graph: Graph, node: Node, tensors: dict[Value, str], precomputed: Precomputed) -> None:
    """Store the results of a node in the model, named after the first parameter or buffer they are computed from."""
    for value, array in zip(node.outputs, precomputed.arrays(node), strict=True):
        sources = precomputed.sources(value)
        tensor = graph.define(f"{min(sources)}.{node.op}" if sources else value.name, value.type)
        graph.initializers[tensor] = array
        if sources:
            graph.sources[tensor] = tuple(sources)
        tensors[value] = tensor


def _close(inner: Graph, name: str, inputs: list[tuple[str, Type]], results: list[tuple[str, Type]]) -> Subgraph:
    """Return the finished subgraph, in which each output is computed by a node of its own, as ONNX requires."""
    outputs: list[tuple[str, Type]] = []
    for tensor, type in results:
        computed = any(tensor in node.outputs for node in inner.nodes) and tensor not in dict(outputs)
        outputs.append((tensor if computed else inner.op("Identity", tensor), type))
    return Subgraph(name, tuple(inputs), tuple(outputs), tuple(inner.nodes))


def location(program: Program, node: Node) -> str:
    """Return the op of a node, its Cell and its source line, for messages."""
    return f"op {node.op} in Cell {program.calls[node.cell]}" + (f" at {node.source}" if node.source else "")


def _lower(graph: Graph, program: Program, node: Node, tensors: dict[Value, str]) -> None:
    rule = get(node.op).onnx_rule
    assert rule is not None
    try:
        if _is_empty(node):
            results = tuple(_empty_tensor(graph, value.type) for value in node.outputs)
        else:
            results = _lower_in_wider_integers(
                graph, node, rule, ["" if v is None else tensors[v] for v in node.inputs]
            )
    except NewerOpset as error:
        raise error.at(location(program, node)) from error
    except (ConversionError, ShapeError, TypeError, ValueError) as error:
        raise ConversionError(f"{location(program, node)} can't be written in ONNX: {error}") from error
    for value, tensor in zip(node.outputs, results, strict=True):
        tensors[value] = tensor
        graph.types[tensor] = value.type
    for reading in program.symbol_readings.get(node, ()):
        if reading.axis is not None:
            value = node.outputs[reading.output]
            graph.sizes.bind(tensors[value], value.shape)
            graph.sizes.data_dependent.add(reading.symbol)


def _lower_in_wider_integers(
    graph: Graph, node: Node, rule: Callable[..., Any], operands: list[str]
) -> tuple[str, ...]:
    """Apply the ONNX rule of a node, in wider integers if it has no form for small ones."""
    wide = wider_dtypes(node)
    for i, value in enumerate(node.inputs):
        if value is not None and value.dtype in wide:
            operands[i] = graph.cast(operands[i], wide[value.dtype])
    result = rule(graph, *operands, **node.attributes)
    results = zip(node.outputs, result if isinstance(result, tuple) else (result,), strict=True)
    return tuple(
        graph.op("Cast", tensor, to=value.dtype) if value.dtype in wide else tensor for value, tensor in results
    )


def _is_empty(node: Node) -> bool:
    """Whether all outputs of a node have no elements: some kernels of ONNX Runtime fail on empty tensors."""
    shapes = [value.shape for value in node.outputs]
    is_static = all(isinstance(size, int) for shape in shapes for size in shape)
    return is_static and all(0 in shape for shape in shapes) and node.op != "boundary"


def _empty_tensor(graph: Graph, type: Type) -> str:
    return str(graph.op("Expand", graph.constant(0, type.dtype), graph.dims(type.shape)))


def has_operator(node: Node) -> bool:
    """Whether ONNX has one or a few operators for a node, as opposed to a composition with loops."""
    rules = [get(inner.op).onnx_rule for inner in _all_nodes([node])]
    return all(rule is not None and not hasattr(rule, "is_composition") for rule in rules)


def _all_nodes(nodes: Iterable[Node]) -> Iterable[Node]:
    """Return the nodes, and those of sub-programs in them."""
    for node in nodes:
        yield node
        for attribute in node.attributes.values():
            if isinstance(attribute, Program):
                yield from _all_nodes(attribute.nodes)


def _unsupported_error(program: Program, nodes: list[Node]) -> UnsupportedOperators:
    lines = [f"{location(program, node)}: {get(node.op).no_onnx_reason}" for node in nodes]
    return UnsupportedOperators(
        f"{len(nodes)} operators have no ONNX form:\n  " + "\n  ".join(lines),
        [(node.op, program.calls[node.cell].path, str(node.source or "")) for node in nodes],
    )
