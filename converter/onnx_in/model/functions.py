"""Functions: their size when inlined, and the bodies that onnx defines for operators."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import onnx
from onnx import FunctionProto, NodeProto

from ....runtime.errors import ConversionError

Functions = Mapping[tuple[str, str, str], FunctionProto]
Key = tuple[str, str, str]

MAX_DEPTH = 40  # nested functions and sub-graphs
MAX_NODES = 50_000  # nodes that inlined functions and unrolled loops may add to those in the file


def count_inlined_nodes(nodes: Sequence[NodeProto], functions: Functions) -> int:
    """The number of nodes after all function calls are inlined.

    Raises:
        ConversionError: functions call each other in a cycle or too deep, or there are too many nodes.
    """
    counts: dict[Key, int] = {}

    def count(nodes: Iterable[NodeProto], calls: tuple[Key, ...]) -> int:
        total = 0
        for node in _with_subgraphs(nodes):
            key = node.domain, node.op_type, node.overload
            total += 1
            if key not in functions:
                continue
            if key in calls or len(calls) >= MAX_DEPTH:
                trail = " -> ".join(name for _, name, _ in (*calls[-4:], key))
                kind = "in a cycle" if key in calls else f"more than {MAX_DEPTH} deep"
                raise ConversionError(f"the functions of the model call each other {kind}: {trail}")
            if key not in counts:
                counts[key] = count(functions[key].node, (*calls, key))
            total += counts[key]
        return total

    total = count(nodes, ())
    if total > MAX_NODES + sum(1 for _ in _with_subgraphs(nodes)):
        raise ConversionError(
            f"with its functions inlined, the model has {total} nodes; at most {MAX_NODES} are supported"
        )
    return total


def _with_subgraphs(nodes: Iterable[NodeProto]) -> Iterator[NodeProto]:
    for node in nodes:
        yield node
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                yield from _with_subgraphs(graph.node)


def function_body(
    node: NodeProto, domain: str, version: int, types: list[onnx.TypeProto | None]
) -> FunctionProto | None:
    """The function body that onnx defines for an operator in a version of its domain; None if there is none.

    Args:
        node: the node that uses the operator.
        domain: empty for the standard domain.
        version: opset version of the domain.
        types: types of the operands; the bodies of some operators depend on them.

    Raises:
        ConversionError: onnx can't construct the body with the names or attributes of the node.
    """
    try:
        schema: Any = onnx.defs.get_schema(node.op_type, version, domain)
    except onnx.defs.SchemaError:
        return None
    body = None
    if schema.has_function:
        body = schema.function_body
    elif schema.has_context_dependent_function:
        absent = onnx.TypeProto()
        contents = [(t or absent).SerializeToString() for t in types]
        versions = [v for v in schema.context_dependent_function_opset_versions if v <= version]
        newest = max(versions or schema.context_dependent_function_opset_versions)
        try:
            serialized = schema.get_context_dependent_function_with_opset_version(
                newest, node.SerializeToString(), contents
            )
        except RuntimeError as error:
            raise ConversionError(f"onnx can't construct its function body: {str(error)[:1000]}") from error
        body = FunctionProto.FromString(serialized) if serialized else None
    if body is None:
        return None
    result = FunctionProto()
    result.CopyFrom(body)
    given_names = {proto.name for proto in node.attribute}
    for name, attribute in schema.attributes.items():
        if name not in given_names and attribute.default_value.name:
            result.attribute_proto.append(attribute.default_value)
    if not result.opset_import:
        result.opset_import.append(onnx.helper.make_opsetid(domain, version))
    return result
