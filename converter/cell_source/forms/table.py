"""The table of the forms of ops, and the argument of a form: one node, with its operands as expressions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ....runtime.ir.dims import Dim
from ....runtime.ir.types import Node, Type, Value
from ....runtime.registration import register_as
from ..text.expressions import ATOM, NEGATION, Expression, Literals, number, tuple_literal

Form = Callable[["Operation"], "Expression | MultiOutput"]

FORMS: dict[str, Form] = {}


@dataclass(frozen=True)
class MultiOutput:
    """The form of an op with several outputs.

    Attributes:
        call: an expression for a tuple with an item for each output of the op.
        after: for each output, a function applied to its item, or None.
    """

    call: Expression
    after: tuple[Callable[[Expression], Expression] | None, ...]


class UnsupportedForm(Exception):
    """Raised by a form for a use of the op that it doesn't support; the message says which."""


def form(*ops: str) -> Callable[[Form], Form]:
    """Register the form of ops; a registered name raises."""
    return register_as(FORMS, ops)


class FormScope(Protocol):
    """The scope in which a node is written, with the names of its operands."""

    literals: Literals
    target: str

    def tensor(self, value: Value) -> Expression:
        """The expression of a value, as a tensor."""

    def scalar(self, value: Value) -> Any:
        """The number in a constant; None for other values."""

    def constant(self, value: Value) -> np.ndarray[Any, Any] | None:
        """The data of a constant; None for other values."""

    def producer(self, value: Value) -> Node | None:
        """The node of this scope that computes a value."""

    def size(self, dim: Dim) -> str:
        """A symbolic dimension as an expression of the available sizes."""

    def use(self, helper: str) -> None:
        """Request a helper function in the generated source."""


class Attributes:
    """The attributes of one node, and literals for them."""

    def __init__(self, literals: Literals, node: Node) -> None:
        self.literals = literals
        self.node = node

    def __getitem__(self, attribute: str) -> Any:
        return self.node.attributes[attribute]

    def type(self, i: int = 0) -> Type:
        """The type of operand `i`."""
        value = self.node.inputs[i]
        assert value is not None, f"op {self.node.op} has no operand {i}"
        return value.type

    @property
    def out(self) -> Type:
        """The type of the first output."""
        return self.node.outputs[0].type

    def literal(self, value: Any, name: str) -> str:
        """A literal for a number, which is named `name` if it becomes an argument."""
        return self.literals.hole(number(value), name)

    def each(self, values: Iterable[Any], name: str) -> str:
        """A tuple of numbers; one number if all are equal."""
        numbers = list(values)
        if len(set(numbers)) == 1:
            return self.literal(numbers[0], name)
        return self.literals.hole(tuple_literal([number(value) for value in numbers]), name)

    def unless(self, default: Any, value: Any, name: str) -> str | None:
        """A number, or a tuple with one for each axis; None if it is the default."""
        values = value if isinstance(value, tuple) else (value,)
        return None if set(values) == {default} else self.each(values, name)

    def dtype(self, dtype: np.dtype[Any]) -> str:
        """The name of a dtype."""
        return dtype_name(dtype)


def dtype_name(dtype: np.dtype[Any]) -> str:
    """The name of a dtype in the generated source."""
    return f"ms.{'bool_' if dtype.name == 'bool' else dtype.name}"


class Operation(Attributes):
    """One node, to be written in a scope."""

    def __init__(self, scope: FormScope, node: Node) -> None:
        super().__init__(scope.literals, node)
        self.scope = scope

    def has(self, i: int) -> bool:
        """Whether operand `i` exists."""
        return i < len(self.node.inputs) and self.node.inputs[i] is not None

    def x(self, i: int = 0) -> Expression:
        """Operand `i` as a tensor."""
        value = self.node.inputs[i]
        assert value is not None, f"op {self.node.op} has no operand {i}"
        return self.scope.tensor(value)

    def n(self, i: int) -> Expression:
        """Operand `i`: a number if it is a constant of rank 0 beside a tensor."""
        value = self.node.inputs[i]
        assert value is not None, f"op {self.node.op} has no operand {i}"
        number = self.scope.scalar(value)
        others = (v for j, v in enumerate(self.node.inputs) if j != i and v is not None)
        if number is None or not any(self.scope.scalar(v) is None and v.dtype == value.dtype for v in others):
            return self.x(i)
        if value.dtype.kind not in "iub":
            number = float(number)
        return Expression(self.literal(number, "value"), NEGATION if number < 0 else ATOM)

    def optional(self, i: int) -> str | None:
        """The text of operand `i`; None if it is absent."""
        return self.x(i).text if self.has(i) else None

    def size(self, dim: Dim, name: str = "size") -> str:
        """A dimension: a literal if it isn't symbolic."""
        return self.literal(dim, name) if isinstance(dim, int) else self.scope.size(dim)

    def sizes(self, dims: Iterable[Dim], name: str = "size") -> str:
        """A tuple of dimensions."""
        return tuple_literal([self.size(dim, name) for dim in dims])
