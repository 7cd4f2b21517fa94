"""Parsing of dimensions from text, in the form that `str` writes."""

from __future__ import annotations

import ast

from .dims import MAX_NUMBER, Dim, maximum, minimum, symbol

MAX_TEXT_LENGTH = 20_000
"""The largest number of characters that `parse` accepts."""


def parse(text: str) -> Dim:
    """Return the dimension that `str` wrote, e.g. `"2*batch + 1"`, `"(s0 + 1)//2"`; `ValueError` for anything else."""
    if len(text) > MAX_TEXT_LENGTH:
        raise ValueError(f"not a dimension: {text[:40]!r}... of {len(text)} characters")
    try:
        dim = _from_ast(ast.parse(text, mode="eval").body)
    except (
        SyntaxError,
        KeyError,
        ZeroDivisionError,
        RecursionError,
        MemoryError,
    ) as error:
        raise ValueError(f"not a dimension: {text[:200]!r}") from error
    if isinstance(dim, int) and abs(dim) >= MAX_NUMBER:
        raise ValueError(f"not a dimension: {text[:200]!r}")
    return dim


def _from_ast(node: ast.expr) -> Dim:
    match node:
        case ast.Constant(value=int(value)) if not isinstance(value, bool) and value < 2**63:
            return value
        case ast.Name(id=name):
            return symbol(name)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return _from_ast(operand) * -1
        case ast.BinOp(left=left, op=op, right=right):
            a, b = _from_ast(left), _from_ast(right)
            match op:
                case ast.Add():
                    return a + b
                case ast.Sub():
                    return a - b
                case ast.Mult():
                    return a * b
                case ast.FloorDiv():
                    return a // b
                case ast.Mod():
                    return a % b
        case ast.Call(func=ast.Name(id=name), args=[left, right]):
            return {"max": maximum, "min": minimum}[name](_from_ast(left), _from_ast(right))
    raise ValueError(f"not a dimension: {ast.unparse(node)!r}")
