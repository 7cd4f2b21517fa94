"""Symbolic sizes within one graph: read from the shapes of tensors, and computed with proxies of ints."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from ...runtime.ir.dims import Dim, Factor, SymbolicDim

_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "//": operator.floordiv,
    "%": operator.mod,
    "max": torch.sym_max,
    "min": torch.sym_min,
}


class Sizes:
    """The sizes that a graph needs, each computed once.

    Args:
        tracer: the tracer of the graph.
        symbol: returns the proxy of the size of a symbol.
    """

    def __init__(self, tracer: fx.proxy.TracerBase, symbol: Callable[[str], Any]) -> None:
        self._tracer = tracer
        self._symbol = symbol
        self._computed: dict[Dim, Any] = {}

    def __call__(self, dim: Dim) -> Any:
        """A dimension as an int or a proxy of an int."""
        if not isinstance(dim, SymbolicDim):
            return dim
        if not dim.symbols():
            return dim.evaluate({})
        if dim not in self._computed:
            self._computed[dim] = self._sum(dim)
        return self._computed[dim]

    def resolve(self, attribute: Any) -> Any:
        """An attribute with its dimensions replaced by sizes."""
        if isinstance(attribute, tuple):
            return tuple(self.resolve(item) for item in attribute)
        return self(attribute) if isinstance(attribute, SymbolicDim) else attribute

    def solve(self, tensor: fx.Proxy, axis: int, dim: SymbolicDim) -> Any:
        """The size of the symbol in a dimension `a * symbol + b` of a tensor's axis."""
        terms = dict(dim.terms)
        offset = terms.pop((), 0)
        (coefficient,) = terms.values()
        size: Any = tensor.size(axis)
        size = size - offset if offset else size
        return size // coefficient if coefficient != 1 else size

    def _sum(self, dim: SymbolicDim) -> Any:
        total: Any = None
        for monomial, coefficient in sorted(dim.terms, key=lambda term: term[1] < 0):
            product: Any = None
            for factor in monomial:
                product = self._factor(factor) if product is None else product * self._factor(factor)
            if product is None:
                product = coefficient
            elif total is not None and coefficient < 0:
                total = total - (product if coefficient == -1 else product * -coefficient)
                continue
            elif coefficient != 1:
                product = product * coefficient
            total = product if total is None else total + product
        return total

    def _factor(self, factor: Factor) -> Any:
        if isinstance(factor, str):
            return self._symbol(factor)
        name, a, b = factor
        return self._tracer.create_proxy("call_function", _FUNCTIONS[name], (self(a), self(b)), {})
