"""Dimensions: Python integers, or expressions over named symbols that are bound when a program runs.

A `SymbolicDim` is a polynomial with integer coefficients, so that equal dimensions compare equal however they were
computed: `(batch + 1) * 2 == 2 * batch + 2`. Other functions (`//`, `%`, `max`, `min`) are opaque factors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Union

from ..errors import ShapeError
from .dim_usage import AS_CLASS, AS_KEY, AS_TEXT, handlers, unknown

Dim = Union[int, "SymbolicDim"]
Factor = str | tuple[str, "SymbolicDim", "SymbolicDim"]
Monomial = tuple[Factor, ...]

MAX_TERMS = 1000  # symbols, numbers and operators in one dimension
MAX_NUMBER = 2**127  # coefficients
MAX_DEPTH = 40  # levels of nested `//`, `%`, `max` and `min`

_FUNCTIONS: dict[str, Callable[[int, int], int]] = {
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "max": max,
    "min": min,
}


class SymbolicDim:
    """An integer expression over symbols; supports `+ - * // %`, equality and hashing.

    Dimensions have no order: whether `n < 4` isn't known before the program runs, so the comparison raises `TypeError`,
    and so does arithmetic with fractions. An expression that grows too large (the product of twenty sums) raises
    `ShapeError`.

    Attributes:
        terms: monomials and their coefficients, in a canonical order.
        size: the number of symbols, numbers and operators.
        depth: the nesting depth of opaque factors.
    """

    __slots__ = ("depth", "size", "terms")

    def __init__(self, terms: Mapping[Monomial, int]) -> None:
        self.terms: tuple[tuple[Monomial, int], ...] = tuple(
            sorted(((m, c) for m, c in terms.items() if c), key=lambda term: (-len(term[0]), str(term[0])))
        )
        opaque = [factor for monomial, _ in self.terms for factor in monomial if not isinstance(factor, str)]
        self.size: int = sum(1 + len(m) for m, _ in self.terms) + sum(a.size + b.size for _, a, b in opaque)
        self.depth: int = 1 + max((max(a.depth, b.depth) for _, a, b in opaque), default=0)
        if any(abs(c) >= MAX_NUMBER for _, c in self.terms):
            raise ShapeError("a coefficient of a symbolic dimension reached 128 bits")
        if self.size > MAX_TERMS or self.depth > MAX_DEPTH:
            raise ShapeError(
                f"a symbolic dimension became an expression of {self.size} parts in {self.depth} levels; at most "
                f"{MAX_TERMS} parts and {MAX_DEPTH} levels are supported. Make fewer of its dimensions symbolic"
            )

    def __add__(self, other: Dim) -> Dim:
        if not _is_whole(self, other):
            return NotImplemented
        terms = dict(self.terms)
        for monomial, coefficient in _symbolic(other).terms:
            terms[monomial] = terms.get(monomial, 0) + coefficient
        return _simplify(terms)

    def __mul__(self, other: Dim) -> Dim:
        if not _is_whole(self, other):
            return NotImplemented
        terms: dict[Monomial, int] = {}
        factor = _symbolic(other)
        if len(self.terms) * len(factor.terms) > MAX_TERMS:
            raise ShapeError(
                f"the product of symbolic dimensions of {len(self.terms)} and {len(factor.terms)} terms is too long"
            )
        for left, a in self.terms:
            for right, b in factor.terms:
                monomial = tuple(sorted(left + right, key=str))
                terms[monomial] = terms.get(monomial, 0) + a * b
        return _simplify(terms)

    def __neg__(self) -> Dim:
        return self * -1

    def __sub__(self, other: Dim) -> Dim:
        return self + other * -1 if _is_whole(self, other) else NotImplemented

    def __rsub__(self, other: Dim) -> Dim:
        return self * -1 + other if _is_whole(self, other) else NotImplemented

    __radd__ = __add__
    __rmul__ = __mul__

    def __floordiv__(self, other: Dim) -> Dim:
        if not _is_whole(self, other):
            return NotImplemented
        quotient = _exact_quotient(self, other)
        if quotient is not None:
            return quotient
        whole, rest = _split_multiples(self, other)
        return whole + (rest // other if isinstance(rest, int) else _opaque("//", rest, other))

    def __rfloordiv__(self, other: Dim) -> Dim:
        return _opaque("//", other, self) if _is_whole(self, other) else NotImplemented

    def __mod__(self, other: Dim) -> Dim:
        if not _is_whole(self, other):
            return NotImplemented
        if _exact_quotient(self, other) is not None:
            return 0
        _, rest = _split_multiples(self, other)
        return rest % other if isinstance(rest, int) else _opaque("%", rest, other)

    def __rmod__(self, other: Dim) -> Dim:
        return _opaque("%", other, self) if _is_whole(self, other) else NotImplemented

    def __eq__(self, other: object) -> bool:
        equal = isinstance(other, SymbolicDim) and self.terms == other.terms
        if not equal and handlers.on_comparison is not None:
            handlers.on_comparison(self, other)
        return equal

    def __hash__(self) -> int:
        if handlers.on_comparison is not None:
            handlers.on_comparison(self, AS_KEY)
        return hash(self.terms)

    @property  # type: ignore[misc]
    def __class__(self) -> type[SymbolicDim]:
        """The class, which `isinstance` looks at."""
        if handlers.on_comparison is not None:
            handlers.on_comparison(self, AS_CLASS)
        return SymbolicDim

    def __index__(self) -> int:
        raise unknown(self, "an int", "its size is known only when the program runs")

    def __bool__(self) -> bool:
        raise unknown(self, "a bool", "whether it is zero is known only when the program runs")

    def __float__(self) -> float:
        raise unknown(self, "a float", "its size is known only when the program runs")

    def __lt__(self, other: object) -> bool:
        raise unknown(self, f"a comparison with {other}", "its size is known only when the program runs")

    __le__ = __gt__ = __ge__ = __lt__

    def __truediv__(self, other: object) -> Any:
        return _no_fraction(self, f"{self} / {other}", other)

    def __rtruediv__(self, other: object) -> Any:
        return _no_fraction(self, f"{other} / {self}", other)

    def __pow__(self, other: object) -> Any:
        return _no_fraction(self, f"{self} ** {other}", other)

    def __rpow__(self, other: object) -> Any:
        return _no_fraction(self, f"{other} ** {self}", other)

    def __str__(self) -> str:
        if handlers.on_comparison is not None:
            handlers.on_comparison(self, AS_TEXT)
        return " + ".join(_term_text(m, c) for m, c in self.terms).replace("+ -", "- ") or "0"

    __repr__ = __str__

    def evaluate(self, sizes: Mapping[str, int]) -> int:
        """Return the size for given symbol sizes; `KeyError` names a symbol without one."""
        total = 0
        for monomial, coefficient in self.terms:
            product = coefficient
            for factor in monomial:
                if isinstance(factor, str):
                    product *= sizes[factor]
                else:
                    name, a, b = factor
                    product *= _FUNCTIONS[name](a.evaluate(sizes), b.evaluate(sizes))
            total += product
        return total

    def substitute(self, sizes: Mapping[str, Dim]) -> Dim:
        """Return the dimension with symbols replaced by other dimensions; symbols missing from `sizes` are kept."""
        kept = {monomial: c for monomial, c in self.terms if sizes.keys().isdisjoint(_symbols_of(monomial))}
        total = _simplify(kept)
        for monomial, coefficient in self.terms:
            if monomial in kept:
                continue
            product: Dim = coefficient
            for factor in monomial:
                if isinstance(factor, str):
                    product = product * sizes.get(factor, symbol(factor))
                else:
                    name, a, b = factor
                    product = product * _COMBINE[name](a.substitute(sizes), b.substitute(sizes))
            total = total + product
        return total

    def solve(self, size: int) -> tuple[str, int] | None:
        """Return the symbol in a dimension like `n` or `2*n + 1`, and its size if the dimension is `size`.

        The size is rounded down; None for dimensions of another form.
        """
        terms = dict(self.terms)
        constant = terms.pop((), 0)
        match list(terms.items()):
            case [((str(name),), coefficient)]:
                return name, (size - constant) // coefficient
        return None

    def symbols(self) -> set[str]:
        """Return the names of the symbols in the expression."""
        return set().union(*(_symbols_of(monomial) for monomial, _ in self.terms))


def _symbols_of(monomial: Monomial) -> set[str]:
    symbols: set[str] = set()
    for factor in monomial:
        symbols |= {factor} if isinstance(factor, str) else factor[1].symbols() | factor[2].symbols()
    return symbols


def _is_whole(dim: SymbolicDim, other: object) -> bool:
    """Whether `other` is an integer or a dimension; a fraction raises an error."""
    if isinstance(other, float):
        raise unknown(dim, f"arithmetic with {other}", "its size is known only when the program runs")
    return isinstance(other, (int, SymbolicDim))


def _no_fraction(dim: SymbolicDim, text: str, other: object) -> Any:
    if isinstance(other, (int, float, SymbolicDim)):
        raise unknown(dim, text, "its size is known only when the program runs")
    return NotImplemented


def symbol(name: str) -> SymbolicDim:
    """Return the dimension that is the symbol `name`."""
    return SymbolicDim({(name,): 1})


def maximum(a: Dim, b: Dim) -> Dim:
    """Return the larger of two dimensions."""
    return max(a, b) if isinstance(a, int) and isinstance(b, int) else _opaque("max", a, b)


def minimum(a: Dim, b: Dim) -> Dim:
    """Return the smaller of two dimensions."""
    return min(a, b) if isinstance(a, int) and isinstance(b, int) else _opaque("min", a, b)


_COMBINE: dict[str, Callable[[Dim, Dim], Dim]] = {
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "max": maximum,
    "min": minimum,
}


def substitute(dim: Dim, sizes: Mapping[str, Dim]) -> Dim:
    """Return `dim` with symbols replaced by other dimensions."""
    return dim if isinstance(dim, int) else dim.substitute(sizes)


def substitute_nested(item: object, sizes: Mapping[str, Dim]) -> Any:
    """Replace symbols in a dimension, or in the dimensions of a tuple; return anything else unchanged."""
    if isinstance(item, tuple):
        return tuple(substitute_nested(part, sizes) for part in item)
    return item.substitute(sizes) if isinstance(item, SymbolicDim) else item


def symbols_in(*items: object) -> set[str]:
    """Return the names of the symbols in dimensions and in tuples of them; anything else has none."""
    symbols: set[str] = set()
    for item in items:
        if isinstance(item, SymbolicDim):
            symbols |= item.symbols()
        elif isinstance(item, tuple):
            symbols |= symbols_in(*item)
    return symbols


def evaluate(dim: Dim, sizes: Mapping[str, int]) -> int:
    """Return `dim` as an integer, for given symbol sizes."""
    return dim if isinstance(dim, int) else dim.evaluate(sizes)


def product(dims: Iterable[Dim]) -> Dim:
    """Return the product of dimensions (1 for none)."""
    total: Dim = 1
    for dim in dims:
        total = total * dim
    return total


def _symbolic(dim: Dim) -> SymbolicDim:
    return dim if isinstance(dim, SymbolicDim) else SymbolicDim({(): dim})


def _simplify(terms: Mapping[Monomial, int]) -> Dim:
    dim = SymbolicDim(terms)
    if not dim.terms:
        return 0
    if len(dim.terms) == 1 and dim.terms[0][0] == ():
        return dim.terms[0][1]
    return dim


def _opaque(name: str, a: Dim, b: Dim) -> SymbolicDim:
    return SymbolicDim({((name, _symbolic(a), _symbolic(b)),): 1})


def _exact_quotient(numerator: SymbolicDim, divisor: Dim) -> Dim | None:
    """Return the quotient by an integer or a single term if it is exact for all sizes, else None."""
    if divisor == 0:
        raise ZeroDivisionError(f"dimension {numerator} divided by zero")
    divisor_terms = _symbolic(divisor).terms
    if len(divisor_terms) != 1:
        return 1 if numerator == divisor else None
    factors, coefficient = divisor_terms[0]
    quotient: dict[Monomial, int] = {}
    for monomial, c in numerator.terms:
        rest = list(monomial)
        for factor in factors:
            if factor not in rest:
                return None
            rest.remove(factor)
        if c % coefficient:
            return None
        quotient[tuple(rest)] = c // coefficient
    return _simplify(quotient)


def _split_multiples(numerator: SymbolicDim, divisor: Dim) -> tuple[Dim, Dim]:
    """Return `(whole, rest)` with `numerator = whole * divisor + rest`; terms that an integer divides are whole.

    Thus `(2 * n - 1) // 2` is `n - 1`, which the sizes of a convolution followed by a transposed one require.
    """
    if not isinstance(divisor, int):
        return 0, numerator
    whole: dict[Monomial, int] = {}
    rest: dict[Monomial, int] = {}
    for monomial, c in numerator.terms:
        # round down for the constant, towards zero for sizes, so that a falling function of a size stays one
        towards_zero = abs(c) // abs(divisor) * (1 if (c < 0) == (divisor < 0) else -1)
        whole[monomial] = c // divisor if monomial == () else towards_zero
        rest[monomial] = c - whole[monomial] * divisor
    return _simplify(whole), _simplify(rest)


def _term_text(monomial: Monomial, coefficient: int) -> str:
    factors = [f if isinstance(f, str) else _factor_text(*f) for f in monomial]
    if coefficient != 1 or not factors:
        factors.insert(0, str(coefficient))
    return "*".join(factors) if not (coefficient == -1 and monomial) else "-" + "*".join(factors[1:])


def _factor_text(name: str, a: SymbolicDim, b: SymbolicDim) -> str:
    return f"{name}({a}, {b})" if name in ("max", "min") else f"(({a}){name}({b}))"
