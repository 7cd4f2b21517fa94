"""Checks of a node against the schemas of onnx, before it is translated."""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import onnx
from onnx import AttributeProto

from ....runtime.errors import ConversionError

MAX_AXIS = 63  # the last axis that a NumPy array can have
MAX_INT32 = 2**31 - 1  # ONNX Runtime keeps most integers in 32 bits
Limits = tuple[int, int]
AXIS: Limits = (-MAX_AXIS - 1, MAX_AXIS)
COUNT: Limits = (1, MAX_INT32)
NUMBER: Limits = (0, MAX_INT32)
SIZE: Limits = (-1, 2**63 - 1)
ANY: Limits = (-(2**63), 2**63 - 1)
OTHERS: Limits = (-MAX_INT32 - 1, MAX_INT32)
"""The limits of integer attributes of the standard domain that `LIMITS` doesn't list: flags, element types, ..."""
LIMITS: Mapping[str, Limits] = {
    **dict.fromkeys(("axis", "axes", "batch_axis", "time_axis", "scan_input_axes", "scan_output_axes", "perm"), AXIS),
    **dict.fromkeys(("kernel_shape", "strides", "dilations", "blocksize", "size"), COUNT),
    **dict.fromkeys(("group", "offset_group", "num_groups", "hidden_size", "num_scan_inputs", "p"), COUNT),
    **dict.fromkeys(("output_height", "output_width", "pooled_shape"), COUNT),
    **dict.fromkeys(("block_size", "chunk_size", "output_padding", "rotary_embedding_dim", "sample_size"), NUMBER),
    **dict.fromkeys(("sampling_ratio", "num_heads", "kv_num_heads", "q_num_heads"), NUMBER),
    **dict.fromkeys(("scan_input_directions", "scan_output_directions"), (0, 1)),
    "batch_dims": (0, MAX_AXIS),
    **dict.fromkeys(("shape", "output_shape", "split"), SIZE),
    **dict.fromkeys(("start", "end", "starts", "ends", "k", "num_outputs", "seed", "ignore_index"), ANY),
    **dict.fromkeys(("value_int", "value_ints", "pool_int64s"), ANY),
}
"""The smallest and the largest value of integer attributes by name: operators of a family use the same names."""


def require_valid(domain: str, operator: str, version: int, proto: AttributeProto, name: str, where: str) -> None:
    """Raise `ConversionError` unless attribute `name` has the type of the operator's schema, and its integers fit.

    An attribute that isn't in the schema of that version passes: the importer may know it from another version.
    """
    needed = _kinds(domain, operator, version).get(name)
    if needed is None:
        return
    if proto.type != needed:
        kinds = _kind_name(needed), _kind_name(proto.type)
        raise ConversionError(f"{where}: attribute {name!r} must be {kinds[0]}, given {kinds[1]}")
    integers: Sequence[int] = {AttributeProto.INT: [proto.i], AttributeProto.INTS: proto.ints}.get(proto.type, [])
    low, high = LIMITS.get(name, OTHERS) if domain == "" else ANY
    wrong = next((value for value in integers if not low <= value <= high), None)
    if wrong is not None:
        raise ConversionError(f"{where}: attribute {name!r} must be {low} to {high}, given {wrong}")


def require_complete(
    domain: str, operator: str, version: int, inputs: Sequence[str], attributes: Collection[str], where: str
) -> None:
    """Raise `ConversionError` unless the node has the inputs and attributes that the operator's schema requires.

    Where the schema allows only integers (axes, a shape, indices), floating-point numbers are refused. An input may be
    a sequence or an optional only where the schema says so. Operators without a schema in onnx pass.
    The translations can't check this: some inputs were attributes in earlier versions.

    Args:
        domain: empty for the standard domain.
        operator: name of the operator.
        version: opset version of the domain.
        inputs: the kind of each input, "seq", "optional", or the name of a tensor's dtype; empty if it is absent.
        attributes: names of the attributes of the node.
        where: start of the error message.
    """
    needed, needed_attributes, kinds = _requirements(domain, operator, version)
    absent = [name for at, name in enumerate(needed) if name and (at >= len(inputs) or not inputs[at])]
    if absent:
        raise ConversionError(f"{where}: needed the operands {', '.join(filter(None, needed))}; {absent[0]} is missing")
    for at, kind in enumerate(inputs):
        if kind in ("seq", "optional") and kinds and kind not in kinds[min(at, len(kinds) - 1)]:
            other = "a sequence" if kind == "seq" else "an optional"
            raise ConversionError(f"{where}: needed a tensor as operand {at + 1}, given {other}")
        if "float" in kind and kinds and kinds[min(at, len(kinds) - 1)] == {"integers"}:
            raise ConversionError(f"{where}: needed integers as operand {at + 1}, given {kind}")
    if missing := [name for name in needed_attributes if name not in attributes]:
        raise ConversionError(f"{where}: needed the attribute {missing[0]!r}")


@functools.cache
def _requirements(
    domain: str, operator: str, version: int
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[frozenset[str], ...]]:
    """The requirements of an operator's schema.

    Returns:
        The names of the inputs (empty for optional ones), the names of the required attributes, and the allowed kinds
        of each input: "integers", "tensor", "seq" or "optional".
    """
    try:
        schema = onnx.defs.get_schema(operator, version, domain)
    except onnx.defs.SchemaError:
        return (), (), ()
    single = onnx.defs.OpSchema.FormalParameterOption.Single
    attributes = sorted(name for name, attribute in schema.attributes.items() if attribute.required)
    kinds = (frozenset(map(_input_kind, p.types)) for p in schema.inputs)
    return tuple(p.name if p.option == single else "" for p in schema.inputs), tuple(attributes), tuple(kinds)


def _input_kind(allowed: str) -> str:
    """Return the kind of an input by a type that a schema allows, such as "tensor(int64)" or "seq(tensor(float))"."""
    return "integers" if allowed.startswith(("tensor(int", "tensor(uint")) else allowed.partition("(")[0]


@functools.cache
def _kinds(domain: str, operator: str, version: int) -> Mapping[str, int]:
    """The types of an operator's attributes by name; empty for an operator that onnx doesn't define."""
    try:
        schema = onnx.defs.get_schema(operator, version, domain)
    except onnx.defs.SchemaError:
        return {}
    attributes: Mapping[str, Any] = schema.attributes  # the stubs are wrong: the types are enumerations
    return {name: int(attribute.type.value) for name, attribute in attributes.items()}


def _kind_name(kind: int) -> str:
    is_defined = kind in AttributeProto.AttributeType.values()
    return AttributeProto.AttributeType.Name(kind).lower() if is_defined else f"of the unknown type {kind}"
