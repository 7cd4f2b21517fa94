"""`Sizes`: symbolic dimensions, computed at run time from the shapes of the model's inputs."""

from __future__ import annotations

import contextlib
import itertools
from typing import Any, Protocol

import numpy as np

from ..errors import ConversionError
from ..ir.dims import Dim, SymbolicDim, symbols_in
from ..ir.types import Type

_ONNX_OPS = {"%": "Mod", "max": "Max", "min": "Min"}  # Mod-13 of integers takes the divisor's sign, as Python does


class SizedGraph(Protocol):
    """The part of `graph.Graph` that `Sizes` uses."""

    def type(self, name: str) -> Type:
        """Return dtype and shape of a tensor."""

    def op(self, op_type: str, *inputs: str, outputs: int = 1, **attributes: Any) -> Any:
        """Add a node."""

    def constant(self, data: Any, dtype: Any = None) -> str:
        """Return the name of a constant."""

    def cast(self, name: str, dtype: Any) -> str:
        """Return a tensor cast to a dtype."""

    def at_root(self) -> contextlib.AbstractContextManager[None]:
        """Within the context, new nodes belong to no Cell but the root."""


class Sizes:
    """Emits each size once, as an int64 vector of one element.

    Attributes:
        data_dependent: the symbols whose sizes depend on data rather than on the shapes of inputs.
    """

    def __init__(self, graph: SizedGraph) -> None:
        self.graph = graph
        self.vectors: dict[SymbolicDim, str] = {}
        self.bindings: dict[str, tuple[str, int, int, int]] = {}
        self.elements: dict[str, tuple[str, int | None]] = {}
        self.data_dependent: set[str] = set()

    def read(self, tensor: str, symbols: tuple[str, ...]) -> None:
        """Bind symbols to the elements of an integer tensor of at most one dimension."""
        alone = self.graph.type(tensor).rank == 0
        self.elements |= {name: (tensor, None if alone else i) for i, name in enumerate(symbols)}
        self.data_dependent |= set(symbols)

    def within(self, graph: SizedGraph) -> Sizes:
        """Return a copy of the sizes for a nested graph."""
        inner = Sizes(graph)
        inner.vectors = dict(self.vectors)
        inner.bindings = dict(self.bindings)
        inner.elements = dict(self.elements)
        inner.data_dependent = set(self.data_dependent)
        return inner

    def bind(self, tensor: str, shape: tuple[Dim, ...], *, anew: bool = False) -> None:
        """Bind symbols to dimensions of an input: to a dimension `n` or, if there is none, to one like `2*n + 1`.

        With `anew`, forget the bindings of these symbols in the enclosing graph.
        """
        if anew:
            names = symbols_in(shape)
            self.vectors = {dim: name for dim, name in self.vectors.items() if not names & dim.symbols()}
            self.bindings = {name: at for name, at in self.bindings.items() if name not in names}
            self.elements = {name: at for name, at in self.elements.items() if name not in names}
        for axis, dim in enumerate(shape):
            linear = _linear(dim)
            if linear is not None:
                name, scale, offset = linear
                if name not in self.bindings or (scale, offset) == (1, 0):
                    self.bindings[name] = tensor, axis, scale, offset

    def vector(self, dims: tuple[Dim, ...]) -> str:
        """Return the name of an int64 vector of these sizes."""
        parts: list[str] = []
        for is_static, run in itertools.groupby(dims, lambda dim: isinstance(dim, int)):
            group = tuple(run)
            parts += [self._constant(*group)] if is_static else map(self._size, group)
        if not parts:
            return self._constant()
        return parts[0] if len(parts) == 1 else self._op("Concat", *parts, axis=0)

    def _size(self, dim: Dim) -> str:
        if isinstance(dim, int):
            return self._constant(dim)
        if dim not in self.vectors:
            with self.graph.at_root():  # every Cell may use the size
                self.vectors[dim] = self._polynomial(dim)
        return self.vectors[dim]

    def _polynomial(self, dim: SymbolicDim) -> str:
        terms = []
        for monomial, coefficient in dim.terms:
            factors = [self._symbol(f) if isinstance(f, str) else self._function(*f) for f in monomial]
            if coefficient != 1 or not factors:
                factors.append(self._constant(coefficient))
            terms.append(self._fold("Mul", factors))
        return self._fold("Add", terms)

    def _function(self, name: str, a: SymbolicDim, b: SymbolicDim) -> str:
        left, right = self._size(_plain(a)), self._size(_plain(b))
        if name != "//":
            return self._op(_ONNX_OPS[name], left, right)
        # Div-14 of integers truncates; without the remainder the quotient is exact, and so equals the floor
        return self._op("Div", self._op("Sub", left, self._op("Mod", left, right)), right)

    def _symbol(self, name: str) -> str:
        if name in self.elements:
            return self._element(*self.elements[name])
        if name not in self.bindings:
            raise ConversionError(f"the size {name!r} is needed, but no input has a dimension from which to read it")
        tensor, axis, scale, offset = self.bindings[name]
        size = self._op("Shape", tensor, start=axis, end=axis + 1)
        if offset:
            size = self._op("Sub", size, self._constant(offset))
        return size if scale == 1 else self._op("Div", size, self._constant(scale))

    def _element(self, tensor: str, index: int | None) -> str:
        sizes = self.graph.cast(tensor, np.int64)
        if index is None:
            return self._op("Reshape", sizes, self._constant(1))
        return self._op("Slice", sizes, self._constant(index), self._constant(index + 1))

    def _fold(self, op_type: str, names: list[str]) -> str:
        result = names[0]
        for name in names[1:]:
            result = self._op(op_type, result, name)
        return result

    def _constant(self, *sizes: Dim) -> str:
        return self.graph.constant(np.array(sizes, np.int64))

    def _op(self, op_type: str, *inputs: str, **attributes: int) -> str:
        name: str = self.graph.op(op_type, *inputs, **attributes)
        return name


def _plain(dim: SymbolicDim) -> Dim:
    """Return an operand of `//`, `%`, `max` or `min` as a dimension: it is a polynomial even if it is an integer."""
    return dim + 0


def _linear(dim: Dim) -> tuple[str, int, int] | None:
    """Return (symbol, scale, offset) of a dimension `scale*symbol + offset`; None for any other."""
    if isinstance(dim, int):
        return None
    terms = dict(dim.terms)
    offset = terms.pop((), 0)
    match list(terms.items()):
        case [((str(name),), scale)]:
            return name, scale, offset
    return None
