"""Symbolic dimensions as Python expressions of sizes."""

from __future__ import annotations

from collections.abc import Mapping

from ....runtime.ir.dims import Dim, Factor, SymbolicDim
from .expressions import POWER, PRODUCT, SUM, Expression, call, infix


def dimension(dim: Dim, names: Mapping[str, str]) -> Expression:
    """The expression of a dimension, such as `2 * batch + 1`, with the names of sizes."""
    if isinstance(dim, int):
        return Expression(str(dim))
    total: Expression | None = None
    for monomial, coefficient in sorted(dim.terms, key=lambda term: term[1] < 0):  # positive terms first
        factors = [_factor(factor, names) for factor in monomial]
        if abs(coefficient) != 1 or not factors:
            factors.insert(0, Expression(str(abs(coefficient))))
        product = factors[0]
        for factor in factors[1:]:
            product = infix("*", PRODUCT, product, factor)
        if total is None:
            total = product if coefficient > 0 else Expression(f"-{product.within(POWER)}", SUM)
        else:
            total = infix("+" if coefficient > 0 else "-", SUM, total, product)
    return total or Expression("0")


def _factor(factor: Factor, names: Mapping[str, str]) -> Expression:
    if isinstance(factor, str):
        return Expression(names[factor])
    name, a, b = factor
    if name in ("max", "min"):
        return call(name, dimension(_plain(a), names).text, dimension(_plain(b), names).text)
    return infix(name, PRODUCT, dimension(_plain(a), names), dimension(_plain(b), names))


def _plain(dim: SymbolicDim) -> Dim:
    """A dimension without symbols as an integer; other dimensions unchanged."""
    return dim if dim.symbols() else dim.evaluate({})


def size_expression(tensor: str, axis: int, dim: SymbolicDim) -> str:
    """The expression of a symbol, solved from a tensor's dimension: `(x.shape[1] - 1) // 2` for `2 * n + 1`."""
    terms = dict(dim.terms)
    offset = terms.pop((), 0)
    (coefficient,) = terms.values()
    size = Expression(f"{tensor}.shape[{axis}]")
    if offset:
        size = infix("-" if offset > 0 else "+", SUM, size, Expression(str(abs(offset))))
    return size.text if coefficient == 1 else infix("//", PRODUCT, size, Expression(str(coefficient))).text
