"""Operators that are functions: the bodies that onnx itself defines for them."""

from __future__ import annotations

from typing import Any

import onnx
from onnx import FunctionProto, NodeProto


def body_of(node: NodeProto, domain: str, version: int, types: list[onnx.TypeProto | None]) -> FunctionProto | None:
    """The body of an operator of a version of its domain; None if onnx defines none.

    Args:
        node: the use of it.
        domain: empty for the standard one.
        version: of the domain.
        types: of the operands, which the bodies of some operators depend on.
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
        given = [(t or absent).SerializeToString() for t in types]
        versions = [v for v in schema.context_dependent_function_opset_versions if v <= version]
        serialized = schema.get_context_dependent_function_with_opset_version(
            max(versions or schema.context_dependent_function_opset_versions), node.SerializeToString(), given
        )
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
