"""Questions about blocks of statements: which names they bind, and whether something leaves them."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import Any

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def within_function(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes in a function or statement, without those of functions and classes in it."""
    for child in ast.iter_child_nodes(node):
        yield child
        if not isinstance(child, (*_FUNCTIONS, ast.ClassDef)):
            yield from within_function(child)


def bound_names(block: Iterable[ast.stmt]) -> set[str]:
    """The names to which a block binds something (or that it deletes), without those of functions in it.

    The functions of our making are blocks of the user's function: what they declare nonlocal is bound there.
    """
    found: set[str] = set()
    for statement in block:
        _collect(statement, found)
    return found


def _collect(node: Any, found: set[str], comprehension: bool = False) -> None:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        found.add(node.name)
        if node.name.startswith("_cellbridge_function"):
            for statement in node.body:
                if isinstance(statement, ast.Nonlocal):
                    found.update(statement.names)
        return
    if isinstance(node, ast.Lambda):
        return
    if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
        if not comprehension:
            found.add(node.id)
    elif isinstance(node, ast.NamedExpr):
        found.add(node.target.id)
        _collect(node.value, found, comprehension)
        return
    elif isinstance(node, (ast.Import, ast.ImportFrom)):
        found.update((alias.asname or alias.name.partition(".")[0]) for alias in node.names)
    elif isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and node.name:
        found.add(node.name)
    elif isinstance(node, ast.MatchMapping) and node.rest:
        found.add(node.rest)
    for child in ast.iter_child_nodes(node):
        _collect(child, found, comprehension or isinstance(node, _COMPREHENSIONS))


def has_exits(block: Iterable[ast.stmt], *, loops: bool) -> bool:
    """Whether something in a block leaves it: a `return`, and (with `loops`) a `break` or `continue` of a loop around.

    Those of the functions and loops in it don't.
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
    """The statements directly in a statement: of its blocks, handlers and cases."""
    found: list[ast.stmt] = []
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt):
            found.append(child)
        elif isinstance(child, (ast.ExceptHandler, ast.match_case)):
            found += child.body
    return found
