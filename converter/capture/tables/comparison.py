"""ATen comparisons, logic and bitwise operators. Operands are compared in the dtype to which torch promotes them."""

from __future__ import annotations

from typing import Any

from ....runtime import ops
from ....runtime.ir.types import BOOL, is_floating
from ....runtime.ops import comparison
from ....runtime.tracing import SymbolicTensor
from .table import Context, aten, cast, operands, promote

COMPARISONS = {
    "eq": "equal",
    "ne": "not_equal",
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
}
LOGICAL = ("logical_and", "logical_or", "logical_xor")
BITWISE = {
    "bitwise_and": ("bitwise_and", "__and__"),
    "bitwise_or": ("bitwise_or", "__or__"),
    "bitwise_xor": ("bitwise_xor", "__xor__"),
    "left_shift": ("bitwise_left_shift", "__lshift__"),
    "right_shift": ("bitwise_right_shift", "__rshift__"),
}
# bitwise operators on bools are logical ones
BITS_OF_BOOLS = {"bitwise_and": "logical_and", "bitwise_or": "logical_or", "bitwise_xor": "logical_xor"}


def _comparison(name: str, op: ops.Op) -> None:
    @aten(f"aten.{name}.Tensor", f"aten.{name}.Scalar")
    def translation(context: Context, self: Any, other: Any) -> Any:
        return op(*operands(context, promote(self, other), self, other))

    translation.__name__ = name
    translation.__doc__ = f"{name}.Tensor(Tensor self, Tensor other) -> Tensor"


def _logical(name: str) -> None:
    op = ops.get(name)

    @aten(f"aten.{name}.default")
    def translation(context: Context, self: SymbolicTensor, other: SymbolicTensor) -> Any:
        return op(cast(self, BOOL), cast(other, BOOL))

    translation.__name__ = name
    translation.__doc__ = f"{name}(Tensor self, Tensor other) -> Tensor"


def _bitwise(name: str, aliases: tuple[str, ...]) -> None:
    scalar = "Tensor_Scalar" if name.endswith("shift") else "Scalar"
    overloads = [f"aten.{aliases[0]}.{kind}" for kind in ("Tensor", scalar, "Scalar_Tensor")]

    @aten(*overloads, *(f"aten.{aliases[1]}.{kind}" for kind in ("Tensor", "Scalar")))
    def translation(context: Context, self: Any, other: Any) -> Any:
        a, b = operands(context, context.dtype, self, other)
        return ops.get(BITS_OF_BOOLS.get(name, name) if a.dtype == BOOL else name)(a, b)

    translation.__name__ = name
    translation.__doc__ = f"{name}.Tensor(Tensor self, Tensor other) -> Tensor"


for _name, _op in COMPARISONS.items():
    _comparison(_name, ops.get(_op))
for _name in LOGICAL:
    _logical(_name)
for _name, _aliases in BITWISE.items():
    _bitwise(_name, _aliases)


@aten("aten.logical_not.default")
def logical_not(context: Context, self: SymbolicTensor) -> Any:
    """logical_not(Tensor self) -> Tensor"""
    return comparison.logical_not(cast(self, BOOL))


@aten("aten.bitwise_not.default")
def bitwise_not(context: Context, self: SymbolicTensor) -> Any:
    """bitwise_not(Tensor self) -> Tensor"""
    return comparison.logical_not(self) if self.dtype == BOOL else comparison.bitwise_not(self)


@aten("aten.isnan.default")
def isnan(context: Context, self: SymbolicTensor) -> Any:
    """isnan(Tensor self) -> Tensor"""
    return comparison.isnan(self) if is_floating(self.dtype) else comparison.not_equal(self, self)


@aten("aten.isinf.default")
def isinf(context: Context, self: SymbolicTensor) -> Any:
    """isinf(Tensor self) -> Tensor"""
    return comparison.isinf(self) if is_floating(self.dtype) else comparison.not_equal(self, self)


@aten("aten.isfinite.default")
def isfinite(context: Context, self: SymbolicTensor) -> Any:
    """isfinite(Tensor self) -> Tensor"""
    return comparison.isfinite(self) if is_floating(self.dtype) else comparison.equal(self, self)
