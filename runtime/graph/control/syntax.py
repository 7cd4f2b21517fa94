"""Pieces of syntax trees, of which rewritten code is made."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

MODULE = "_cellbridge"
"""What `statements` is called in rewritten code; all its other names begin so, too."""


def import_statements() -> ast.stmt:
    """The import of `statements`."""
    package = __package__ or ""
    return ast.ImportFrom(package, [ast.alias("statements", MODULE)], 0)


def load(name: str) -> ast.Name:
    """A variable that is read."""
    return ast.Name(name, ast.Load())


def store(name: str) -> ast.Name:
    """A variable that is set."""
    return ast.Name(name, ast.Store())


def helper_name(name: str) -> ast.Attribute:
    """A function of `statements`."""
    return ast.Attribute(load(MODULE), name, ast.Load())


def helper(name: str, *arguments: Any) -> ast.Call:
    """A call of a function of `statements`."""
    return ast.Call(helper_name(name), list(arguments), [])


def later(node: ast.expr) -> ast.Lambda:
    """An expression as a function without parameters."""
    return ast.Lambda(ast.arguments([], [], None, [], [], None, []), node)


def can_wait(nodes: Sequence[ast.expr]) -> bool:
    """Whether expressions mean the same in a function of their own."""
    moved = (ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom)
    return not any(isinstance(inner, moved) for node in nodes for inner in ast.walk(node))


def is_called(node: ast.Call, name: str) -> bool:
    """Whether a call is of the variable of that name."""
    return isinstance(node.func, ast.Name) and node.func.id == name


def is_check(statement: Any) -> bool:
    """Whether all that an `if` does, where its condition holds, is to raise an exception."""
    (first, *others) = statement.body
    if others or not isinstance(first, ast.Raise) or first.exc is None or first.cause is not None:
        return False
    return can_wait([first.exc])


def ends(block: Sequence[ast.stmt]) -> bool:
    """Whether what follows a block never runs."""
    return bool(block) and isinstance(block[-1], (ast.Return, ast.Break, ast.Continue, ast.Raise))


def in_place(old: ast.expr, new: ast.expr) -> Any:
    """An expression of our making, at the place of the user's."""
    locate(new, old)
    return new


def at(where: Any, statements: Sequence[ast.stmt]) -> list[ast.stmt]:
    """Statements of our making, at the place of the user's."""
    for statement in statements:
        locate(statement, where)
    return [*statements]


def locate(made: ast.AST, where: Any) -> None:
    """Let what is of our making in a tree stand at the beginning of a piece of the user's."""
    if "lineno" in made._attributes:
        if hasattr(made, "lineno"):
            return
        vars(made).update(lineno=where.lineno, end_lineno=where.lineno)
        vars(made).update(col_offset=where.col_offset, end_col_offset=where.col_offset)
    for child in ast.iter_child_nodes(made):
        locate(child, where)
