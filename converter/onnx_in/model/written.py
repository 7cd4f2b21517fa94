"""Attributes as a person wrote them: numbers that float32 holds rounded, and a description for reports."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, NodeProto

MAX_DIGITS = 7  # of a number that a person wrote; float32 holds each of them
MAX_SHOWN = 8  # attributes, and elements of one, in a description
MAX_TEXT = 40  # characters of a name or text in a description
MAX_KEPT = 64  # elements of an attribute that are compared


def written_number(number: float) -> float:
    """Return the number that a person wrote where float32 holds it rounded: 1e-5 for 9.999999747378752e-06.

    It has at most seven digits; another number, which was computed, is returned as it is.
    """
    shortest = np.format_float_scientific(np.float32(number), unique=True, trim="-")
    digits = shortest.lstrip("-").partition("e")[0].replace(".", "")
    return float(shortest) if digits.isdecimal() and len(digits) <= MAX_DIGITS else number


def describe_attributes(node: NodeProto) -> str:
    """Return the numbers and texts among a node's attributes as `axis=-1, approximate=tanh`, shortened."""
    shown: list[str] = []
    for proto in node.attribute:
        value = _describe(proto)
        if value and not proto.ref_attr_name:
            shown.append(f"{str(proto.name)[:MAX_TEXT]}={value}")
    more = ["..."] if len(shown) > MAX_SHOWN else []
    return ", ".join([*shown[:MAX_SHOWN], *more])


def settings_of(node: NodeProto, domain: str, version: int) -> tuple[tuple[str, Any], ...]:
    """Return the numbers, texts and lists among a node's attributes, with the defaults of the operator's schema.

    Args:
        node: the node.
        domain: its domain; "" for the standard one.
        version: the opset version of the domain.
    """
    attributes = {proto.name: proto for proto in node.attribute if not proto.ref_attr_name}
    values = {name: _value(proto) for name, proto in (_defaults(domain, node.op_type, version) | attributes).items()}
    return tuple((str(name), value) for name, value in values.items() if value is not None)


@functools.cache
def _defaults(domain: str, operator: str, version: int) -> dict[str, AttributeProto]:
    try:
        schema = onnx.defs.get_schema(operator, version, domain)
    except onnx.defs.SchemaError:  # of a domain that onnx doesn't define
        return {}
    return {name: attribute.default_value for name, attribute in schema.attributes.items()}


def _value(proto: AttributeProto) -> Any:
    """An attribute as a number, text or tuple; None for tensors, graphs and what isn't given."""
    match proto.type:
        case AttributeProto.FLOAT:
            return written_number(proto.f)
        case AttributeProto.INT:
            return proto.i
        case AttributeProto.STRING:
            return bytes(proto.s[:MAX_TEXT]).decode("utf-8", "replace")
        case AttributeProto.INTS:
            return tuple(proto.ints[:MAX_KEPT])
        case AttributeProto.FLOATS:
            return tuple(map(written_number, proto.floats[:MAX_KEPT]))
        case AttributeProto.STRINGS:
            return tuple(bytes(s[:MAX_TEXT]).decode("utf-8", "replace") for s in proto.strings[:MAX_KEPT])
    return None


def _describe(proto: AttributeProto) -> str:
    match proto.type:
        case AttributeProto.FLOAT:
            return str(written_number(proto.f))
        case AttributeProto.INT:
            return str(proto.i)
        case AttributeProto.STRING:
            return bytes(proto.s[:MAX_TEXT]).decode("utf-8", "replace")
        case AttributeProto.INTS | AttributeProto.FLOATS:
            numbers: list[Any] = [*proto.ints[: MAX_SHOWN + 1], *map(written_number, proto.floats[: MAX_SHOWN + 1])]
            more = ["..."] if len(numbers) > MAX_SHOWN else []
            return f"[{', '.join([*map(str, numbers[:MAX_SHOWN]), *more])}]"
    return ""
