"""The table of how ops are written, and what an entry is given: one node, with its operands as expressions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ....runtime.ir.dims import Dim
from ....runtime.ir.types import Node, Type, Value
from ....runtime.registration import register_as
from ..text.expressions import ATOM, NEGATION, Expression, Literals, number, several

Form = Callable[["Operation"], "Expression | MultiOutput"]

FORMS: dict[str, Form] = {}


@dataclass(frozen=True)
class MultiOutput:
    """How an op with several outputs is written.

    Attributes:
        call: gives a tuple with an item for each output of the op.
        after: for each output, what is done with its item; None for nothing.
    """

    call: Expression
    after: tuple[Callable[[Expression], Expression] | None, ...]


class UnsupportedForm(Exception):
    """Raised by a form for a use of the op that can't be written; the text says which."""


def form(*ops: str) -> Callable[[Form], Form]:
    """Enter how ops are written; a name taken raises."""
    return register_as(FORMS, ops)


class Scope(Protocol):
    """Where a node is written: knows what its operands are called there."""

    literals: Literals
    target: str

    def tensor(self, value: Value) -> Expression:
        """The expression of a value, as a tensor."""

    def scalar(self, value: Value) -> Any:
        """The number that a value is; None if it isn't a constant number."""

    def constant(self, value: Value) -> np.ndarray[Any, Any] | None:
        """The data of a constant; None for what isn't one."""

    def producer(self, value: Value) -> Node | None:
        """The node that computes a value here."""

    def size(self, dim: Dim) -> str:
        """A symbolic dimension as an expression of the sizes at hand."""

    def use(self, helper: str) -> None:
        """Ask for a function of the written source that isn't an operator."""


class Attributes:
    """The attributes of one node, and the literals made of them."""

    def __init__(self, literals: Literals, node: Node) -> None:
        self.literals = literals
        self.node = node

    def __getitem__(self, attribute: str) -> Any:
        return self.node.attributes[attribute]

    def type(self, i: int = 0) -> Type:
        """Type of operand `i`."""
        value = self.node.inputs[i]
        assert value is not None, f"op {self.node.op} has no operand {i}"
        return value.type

    @property
    def out(self) -> Type:
        """Type of the first output."""
        return self.node.outputs[0].type

    def literal(self, value: Any, name: str) -> str:
        """A number, as a literal that is called `name`."""
        return self.literals.hole(number(value), name)

    def each(self, values: Iterable[Any], name: str) -> str:
        """A tuple of numbers; one number if all are the same."""
        numbers = list(values)
        if len(set(numbers)) == 1:
            return self.literal(numbers[0], name)
        return self.literals.hole(several([number(value) for value in numbers]), name)

    def unless(self, default: Any, value: Any, name: str) -> str | None:
        """A number, or a tuple of one for each axis; None where that is the default."""
        values = value if isinstance(value, tuple) else (value,)
        return None if set(values) == {default} else self.each(values, name)

    def dtype(self, dtype: np.dtype[Any]) -> str:
        """The name of a dtype."""
        return dtype_name(dtype)


def dtype_name(dtype: np.dtype[Any]) -> str:
    """The name of a dtype in the written source."""
    return f"ms.{'bool_' if dtype.name == 'bool' else dtype.name}"


class Operation(Attributes):
    """One node to be written in a scope."""

    def __init__(self, scope: Scope, node: Node) -> None:
        super().__init__(scope.literals, node)
        self.scope = scope

    def given(self, i: int) -> bool:
        """Whether operand `i` is there."""
        return i < len(self.node.inputs) and self.node.inputs[i] is not None

    def x(self, i: int = 0) -> Expression:
        """Operand `i` as a tensor."""
        value = self.node.inputs[i]
        assert value is not None, f"op {self.node.op} has no operand {i}"
        return self.scope.tensor(value)

    def n(self, i: int) -> Expression:
        """Operand `i`: a number where it is a constant one that stands beside a tensor."""
        value = self.node.inputs[i]
        assert value is not None, f"op {self.node.op} has no operand {i}"
        found = self.scope.scalar(value)
        others = (v for j, v in enumerate(self.node.inputs) if j != i and v is not None)
        if found is None or not any(self.scope.scalar(v) is None and v.dtype == value.dtype for v in others):
            return self.x(i)
        if value.dtype.kind not in "iub":
            found = float(found)
        return Expression(self.literal(found, "value"), NEGATION if found < 0 else ATOM)

    def optional(self, i: int) -> str | None:
        """Text of operand `i`, None where it is absent."""
        return self.x(i).text if self.given(i) else None

    def size(self, dim: Dim, name: str = "size") -> str:
        """A dimension: a literal if it is known."""
        return self.literal(dim, name) if isinstance(dim, int) else self.scope.size(dim)

    def sizes(self, dims: Iterable[Dim], name: str = "size") -> str:
        """A tuple of dimensions."""
        return several([self.size(dim, name) for dim in dims])
