"""Builds the syntax trees of rewritten code, and inspects those of the user's code."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

MODULE = "_cellbridge"
"""The name of the module `statements` in rewritten code, and the prefix of all generated names."""


def import_statements() -> ast.stmt:
    """Import `statements`."""
    package = __package__ or ""
    return ast.ImportFrom(package, [ast.alias("statements", MODULE)], 0)


def load(name: str) -> ast.Name:
    """Read a variable."""
    return ast.Name(name, ast.Load())


def store(name: str) -> ast.Name:
    """Assign to a variable."""
    return ast.Name(name, ast.Store())


def helper_name(name: str) -> ast.Attribute:
    """Refer to a function of `statements`."""
    return ast.Attribute(load(MODULE), name, ast.Load())


def helper(name: str, *arguments: Any) -> ast.Call:
    """Call a function of `statements`."""
    return ast.Call(helper_name(name), list(arguments), [])


def defer(node: ast.expr) -> ast.Lambda:
    """Wrap an expression in a lambda without parameters."""
    return ast.Lambda(ast.arguments([], [], None, [], [], None, []), node)


def can_defer(nodes: Sequence[ast.expr]) -> bool:
    """Whether `defer` preserves the meaning of expressions."""
    bound_to_function = (ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom)
    return not any(isinstance(inner, bound_to_function) for node in nodes for inner in ast.walk(node))


def is_called(node: ast.Call, name: str) -> bool:
    """Whether a call names its function `name`."""
    return isinstance(node.func, ast.Name) and node.func.id == name


def is_check(statement: Any) -> bool:
    """Whether the body of an `if` only raises an exception."""
    (first, *others) = statement.body
    if others or not isinstance(first, ast.Raise) or first.exc is None or first.cause is not None:
        return False
    return can_defer([first.exc])


def always_exits(block: Sequence[ast.stmt]) -> bool:
    """Whether the statements after a block never run."""
    return bool(block) and isinstance(block[-1], (ast.Return, ast.Break, ast.Continue, ast.Raise))


def replace_at(old: ast.expr, new: ast.expr) -> Any:
    """Give a generated expression the location of the user's expression that it replaces."""
    locate(new, old)
    return new


def at(where: Any, statements: Sequence[ast.stmt]) -> list[ast.stmt]:
    """Give generated statements the location of a node of the user's code."""
    for statement in statements:
        locate(statement, where)
    return [*statements]


def locate(tree: ast.AST, where: Any) -> None:
    """Give the nodes of a tree that have no location the start of a node of the user's code."""
    if "lineno" in tree._attributes:
        if hasattr(tree, "lineno"):
            return
        vars(tree).update(lineno=where.lineno, end_lineno=where.lineno)
        vars(tree).update(col_offset=where.col_offset, end_col_offset=where.col_offset)
    for child in ast.iter_child_nodes(tree):
        locate(child, where)
