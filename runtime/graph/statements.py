"""Finds statements that can't be traced in the source of a function before it runs."""

from __future__ import annotations

import ast
import functools
import inspect
import textwrap
from collections.abc import Iterator
from types import CodeType
from typing import Any

from .sources import PACKAGE


def unsupported_statement(function: Any) -> tuple[str, str] | None:
    """Return the first statement of a function that can't be traced, and its line; None if there is none.

    `try` can't be traced, since it would catch exceptions of the trace; neither can `yield` and `await`. Nested
    functions and the runtime's own functions aren't searched.
    """
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is None or code.co_filename.startswith(PACKAGE):
        return None
    return _first_unsupported(code)


@functools.lru_cache(maxsize=4096)
def _first_unsupported(code: CodeType) -> tuple[str, str] | None:
    try:
        lines, _ = inspect.getsourcelines(code)
        (function,) = ast.parse(textwrap.dedent("".join(lines))).body
    except (OSError, SyntaxError, ValueError):  # no source, or a lambda in the middle of a statement
        generates = code.co_flags & (inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR)
        return ("expression 'Yield'", f"{code.co_filename}:{code.co_firstlineno}") if generates else None
    for node in _own_nodes(function):
        if isinstance(node, (ast.Try, ast.TryStar)):
            return f"statement '{type(node).__name__}'", _line(code, lines, node.lineno)
        if isinstance(node, (ast.Yield, ast.YieldFrom, ast.Await)):
            return f"expression '{type(node).__name__}'", _line(code, lines, node.lineno)
    return None


def _own_nodes(function: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function, without the nodes of nested functions and classes."""
    for child in ast.iter_child_nodes(function):
        if not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            yield child
            yield from _own_nodes(child)


def _line(code: CodeType, lines: list[str], number: int) -> str:
    return f"{code.co_filename}:{code.co_firstlineno + number - 1}: {lines[number - 1].strip()}"
