"""Building programs by running Python: a `SymbolicTensor` represents a value of a program under construction.

An op that is called with a `SymbolicTensor` operand appends a node to that operand's `Builder`. Capture, gradients and
passes all build programs this way, so the same `vjp` rule of an op serves to compute and to record.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from .current_trace import current
from .ir.dims import Dim, SymbolicDim, product
from .ir.program import Program
from .ir.types import Constant, Node, Source, Type, Value, as_dtype
from .namespace import Namespace
from .tensor_like import Operator, TensorLike


class SymbolicTensor(TensorLike):
    """A value of the program that `builder` builds."""

    __array_ufunc__ = None  # so that NumPy leaves `array * symbolic` to us

    def __init__(self, builder: Builder, value: Value) -> None:
        self.builder = builder
        self.value = value

    @property
    def dtype(self) -> np.dtype[Any]:
        """Dtype of the elements."""
        return self.value.dtype

    @property
    def shape(self) -> tuple[Dim, ...]:
        """Shape; dimensions may be symbolic."""
        return self.value.shape

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.value.shape)

    @property
    def size(self) -> Dim:
        """Number of elements."""
        return product(self.value.shape)

    def apply(self, op: Operator, inputs: tuple[Any, ...], attributes: dict[str, Any]) -> Any:
        """Append a node for `op` to the program under construction; a Tensor among the operands takes over instead."""
        if current() is not None:
            for operand in inputs:
                if isinstance(operand, TensorLike) and not isinstance(operand, SymbolicTensor):
                    return operand.apply(op, inputs, attributes)
        return self.builder.append(op, inputs, attributes)

    if TYPE_CHECKING:  # methods that are ops: `ops.symbolic_methods` attaches them

        def astype(self, dtype: np.dtype[Any], copy: bool = True) -> SymbolicTensor:
            """Return the value in another dtype; the value itself if it already has that dtype."""

        def __pow__(self, other: Any) -> Any: ...

    def __repr__(self) -> str:
        return f"SymbolicTensor({self.value})"


class Builder:
    """Collects the nodes and constants of a program under construction, with unique value names.

    New nodes belong to the Cell call `cell` and carry `source`, as set by `at`.
    """

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.constants: list[Constant] = []
        self.cell = 0
        self.source: Source | None = None
        self._names = Namespace()
        self._scalars: dict[tuple[str, str], Value] = {}

    @classmethod
    def from_program(cls, program: Program) -> Builder:
        """Return a builder that starts with the nodes, constants and names of `program`."""
        builder = cls()
        builder.nodes = list(program.nodes)
        builder.constants = list(program.constants)
        for value in (*program.inputs, *program.constant_data, *program.producers):
            builder.reserve(value.name)
        for constant in program.constants:
            if constant.data.ndim == 0:
                builder._scalars[_scalar_key(constant.value.dtype, constant.data)] = constant.value
        return builder

    @contextlib.contextmanager
    def at(self, cell: int, source: Source | None) -> Iterator[None]:
        """Within the context, new nodes belong to Cell call `cell` and come from `source`."""
        before = self.cell, self.source
        self.cell, self.source = cell, source
        try:
            yield
        finally:
            self.cell, self.source = before

    def name(self, stem: str) -> str:
        """Return a value name that isn't taken yet: `stem`, or `stem` with a number."""
        return self._names.unique(stem)

    def reserve(self, name: str) -> None:
        """Mark a name as taken."""
        self._names.take(name)

    def new_symbol(self, stem: str = "count") -> str:
        """Return the name of a size that is known only when the program runs."""
        return self.name(stem)

    def new_value(self, stem: str, type: Type) -> SymbolicTensor:
        """Return a new value that no node computes: an input, parameter or buffer of the program."""
        return SymbolicTensor(self, Value(self.name(stem), type))

    def constant(self, data: Any, dtype: Any = None) -> SymbolicTensor:
        """Return a constant. A Python number keeps all its digits whatever `dtype` is; equal scalars are shared."""
        array = np.asarray(data)
        kind = as_dtype(dtype) if dtype is not None else array.dtype
        key = _scalar_key(kind, array) if array.ndim == 0 else None
        if key is not None and key in self._scalars:
            return SymbolicTensor(self, self._scalars[key])
        value = Value(self.name("constant"), Type(kind, array.shape))
        if key is not None:
            self._scalars[key] = value
        self.constants.append(Constant(value, array))
        return SymbolicTensor(self, value)

    def append(
        self,
        op: Operator,
        inputs: tuple[Any, ...],
        attributes: dict[str, Any],
        types: tuple[Type, ...] | None = None,
    ) -> Any:
        """Append a node and return its output(s); Python numbers and arrays among `inputs` become constants.

        The `types` of the outputs are inferred if not given.
        """
        values = [self._as_value(x, inputs) for x in inputs]
        attributes = {name: _plain(value) for name, value in attributes.items()}
        if types is None:
            types = op.infer_types([None if v is None else v.type for v in values], attributes)
        outputs = tuple([Value(self.name(op.name), type) for type in types])
        self.nodes.append(Node(op.name, tuple(values), attributes, outputs, self.cell, self.source))
        traced = tuple([SymbolicTensor(self, value) for value in outputs])
        return traced[0] if len(traced) == 1 else traced

    def create(self, op: Operator, **attributes: Any) -> Any:
        """Append a node of an op that has no operands (`full`, `arange`, `bernoulli`)."""
        complete = {name: _plain(value) for name, value in op.attributes(attributes).items()}
        types = op.infer_types([], complete)
        outputs = tuple(Value(self.name(op.name), type) for type in types)
        self.nodes.append(Node(op.name, (), complete, outputs, self.cell, self.source))
        return SymbolicTensor(self, outputs[0])

    def _as_value(self, operand: Any, inputs: tuple[Any, ...]) -> Value | None:
        if operand is None:
            return None
        if isinstance(operand, SymbolicTensor):
            if operand.builder is not self:
                raise ValueError(f"{operand!r} belongs to another program")
            return operand.value
        if hasattr(operand, "dtype"):
            return self.constant(operand).value
        dtype = next((x.dtype for x in inputs if isinstance(x, SymbolicTensor)), None)
        return self.constant(operand, dtype).value


def _scalar_key(dtype: np.dtype[Any], array: np.ndarray[Any, Any]) -> tuple[str, str]:
    return dtype.name, repr(array.item())


_PLAIN = frozenset({bool, int, float, complex, str, type(None)})


def _plain(attribute: Any) -> Any:
    """Normalize an attribute for the IR: tuples for lists, Python numbers for NumPy ones."""
    if type(attribute) in _PLAIN:
        return attribute
    if isinstance(attribute, (list, tuple)):
        return tuple([_plain(item) for item in attribute])
    if isinstance(attribute, np.generic):
        return attribute.item()
    if isinstance(attribute, (int, float, complex, str, np.dtype, SymbolicDim, Program)):
        return attribute
    raise TypeError(f"not an attribute of an op: {attribute!r}")
