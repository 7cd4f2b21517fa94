"""What the schemas of onnx say of a node, checked before it is translated."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import onnx
from onnx import AttributeProto

from ...runtime.errors import ConversionError


def require_kind(domain: str, operator: str, version: int, name: str, kind: int, where: str) -> None:
    """Raise `ConversionError` unless an attribute has the type that the operator's schema gives it.

    What the schema of that version doesn't list passes: an importer may know it of another version.
    """
    needed = _kinds(domain, operator, version).get(name)
    if needed is not None and kind != needed:
        raise ConversionError(f"{where}: attribute {name!r} must be {_kind_name(needed)}, given {_kind_name(kind)}")


@functools.cache
def _kinds(domain: str, operator: str, version: int) -> Mapping[str, int]:
    """The types of an operator's attributes by name; empty for an operator that onnx doesn't define."""
    try:
        schema = onnx.defs.get_schema(operator, version, domain)
    except onnx.defs.SchemaError:
        return {}
    attributes: Mapping[str, Any] = schema.attributes  # whose types are enumerations, unlike what their stubs say
    return {name: int(attribute.type.value) for name, attribute in attributes.items()}


def _kind_name(kind: int) -> str:
    known = kind in AttributeProto.AttributeType.values()
    return AttributeProto.AttributeType.Name(kind).lower() if known else f"of the unknown type {kind}"
