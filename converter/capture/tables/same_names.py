"""ATen operators with the name, operands and attributes of an op (`Traits.in_torch`)."""

from __future__ import annotations

from typing import Any

from ....runtime import ops
from ....runtime.ir.types import is_floating
from ....runtime.ops.registry import Op
from .table import TABLE, Context, Translation, aten, binder, describe, operands, schema_of


def translation_of(op: Op, schema: Any) -> Translation:
    """Return the translation of the operator with this schema to an op.

    Operands are computed in the dtype of the result. Ops that round to whole numbers return integers as they are.

    Raises:
        ValueError: the operator has other operands or attributes than the op.
    """
    names = [argument.name for argument in schema.arguments]
    count = sum("Tensor" in str(argument.type) for argument in schema.arguments)
    if count != len(op.input_names) or set(names[count:]) != op.attribute_defaults.keys():
        raise ValueError(f"ATen's {schema} takes other arguments than the op {op.name}{op.signature}")

    bind = binder(schema)

    def translation(context: Context, *args: Any, **named: Any) -> Any:
        values = bind(args, named)
        tensors = operands(context, context.dtype, *(values[name] for name in names[:count]))
        if op.traits.whole and not is_floating(context.dtype):
            return tensors[0]
        return op(*tensors, **{name: _number(values[name]) for name in names[count:]})

    describe(translation, schema)
    return translation


def _number(value: Any) -> Any:
    """An attribute that is a number as a float: ATen's scalars may be ints."""
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def register(names: dict[str, Op]) -> None:
    """Register the operators that have no function of their own in a table."""
    for name, op in names.items():
        target = f"aten.{name}.default"
        if target not in TABLE and (schema := schema_of(target)) is not None:
            aten(target)(translation_of(op, schema))


NAMES = {
    f"special_{name}" if op.traits.in_torch == "special" else name: op
    for name, op in ops.all_ops().items()
    if op.traits.in_torch
} | {f"special_modified_bessel_{name}": ops.get(name) for name in ("i0", "i1")}
"""Ops by the names of ATen's operators."""
