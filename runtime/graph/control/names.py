"""Analysis of blocks of statements: the names that they bind, and whether control leaves them early."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import Any

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def within_function(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes in a function or statement, without the nodes of nested functions and classes."""
    for child in ast.iter_child_nodes(node):
        yield child
        if not isinstance(child, (*_FUNCTIONS, ast.ClassDef)):
            yield from within_function(child)


def bound_names(block: Iterable[ast.stmt]) -> set[str]:
    """The names that a block binds or deletes, without the names in nested functions.

    Functions that the rewriting generated are blocks of the user's function, so their nonlocal names count.
    """
    result: set[str] = set()
    for statement in block:
        _collect(statement, result)
    return result


def _collect(node: Any, names: set[str], comprehension: bool = False) -> None:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        names.add(node.name)
        if node.name.startswith("_cellbridge_function"):
            for statement in node.body:
                if isinstance(statement, ast.Nonlocal):
                    names.update(statement.names)
        return
    if isinstance(node, ast.Lambda):
        return
    if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
        if not comprehension:
            names.add(node.id)
    elif isinstance(node, ast.NamedExpr):
        names.add(node.target.id)
        _collect(node.value, names, comprehension)
        return
    elif isinstance(node, (ast.Import, ast.ImportFrom)):
        names.update((alias.asname or alias.name.partition(".")[0]) for alias in node.names)
    elif isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and node.name:
        names.add(node.name)
    elif isinstance(node, ast.MatchMapping) and node.rest:
        names.add(node.rest)
    for child in ast.iter_child_nodes(node):
        _collect(child, names, comprehension or isinstance(node, _COMPREHENSIONS))


def has_exits(block: Iterable[ast.stmt], *, loops: bool) -> bool:
    """Whether a statement leaves the block: a `return`, and (with `loops`) a `break` or `continue` of an outer loop.

    Statements that leave only a nested function or loop don't count.
    """
    for node in block:
        if isinstance(node, ast.Return) or (loops and isinstance(node, (ast.Break, ast.Continue))):
            return True
        if isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
            continue
        if isinstance(node, (ast.For, ast.AsyncFor, ast.While)):
            if has_exits(node.body, loops=False) or has_exits(node.orelse, loops=loops):
                return True
            continue
        if has_exits(_statements_in(node), loops=loops):
            return True
    return False


def _statements_in(node: ast.AST) -> list[ast.stmt]:
    """The direct children of a statement: the statements of its blocks, handlers and cases."""
    result: list[ast.stmt] = []
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt):
            result.append(child)
        elif isinstance(child, (ast.ExceptHandler, ast.match_case)):
            result += child.body
    return result
