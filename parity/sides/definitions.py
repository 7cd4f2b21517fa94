"""Where the code of a Cell begins, and where a Cell is made."""

from __future__ import annotations

import ast
import inspect
import linecache
import textwrap
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ...runtime.visible import visible_name
from ..results.hunk import CodeLine

DECORATORS = 20
"""The most lines of decorators that stand before a function."""
MAX_LENGTH = 500
"""The most characters of a statement that makes a Cell."""


def definition_of(function: Callable[..., Any]) -> CodeLine | None:
    """Return the line of `def` of a function that was defined in Python; None for any other."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is None:
        return None
    first = code.co_firstlineno  # that of the first decorator
    texts = [linecache.getline(code.co_filename, first + n).strip() for n in range(DECORATORS)]
    number = next((n for n, text in enumerate(texts) if text.startswith(("def ", "async def "))), 0)
    return CodeLine(visible_name(code.co_filename), first + number, visible_name(texts[number]))


def construction_of(cells: Mapping[str, object], path: str) -> CodeLine | None:
    """Return the statement `self.name = ...` that makes a Cell, or the list of layers that holds it.

    Args:
        cells: all Cells of a network by path.
        path: path of the Cell.

    Returns:
        The statement on one line; None if it isn't known, calls nothing, or isn't the only one.
    """
    while path:
        parent, _, name = path.rpartition(".")
        if parent not in cells:
            return None
        if (line := _assignment(type(cells[parent]), name)) is not None:
            return line
        path = parent if name.isdigit() else ""
    return None


def _assignment(owner: type, name: str) -> CodeLine | None:
    for base in owner.__mro__:
        function = inspect.unwrap(vars(base).get("__init__", object.__init__))
        if not inspect.isfunction(function):
            continue
        try:
            lines, first = inspect.getsourcelines(function)
            code = textwrap.dedent("".join(lines))
            tree = ast.parse(code)
        except (OSError, TypeError, SyntaxError):  # made without a file, or not a function in Python
            continue
        own = function.__code__.co_varnames[0]
        statements = [node for node in ast.walk(tree) if isinstance(node, ast.stmt) and (own, name) in _assigned(node)]
        if statements:
            text = ast.get_source_segment(code, statements[0]) or ""
            text = ast.unparse(statements[0]) if "\n" in text else text  # without remarks
            makes = any(isinstance(node, ast.Call) for node in ast.walk(statements[0]))
            known = len(statements) == 1 and makes and len(text) <= MAX_LENGTH
            file = visible_name(function.__code__.co_filename)
            return CodeLine(file, first + statements[0].lineno - 1, visible_name(text)) if known else None
    return None


def _assigned(node: ast.stmt) -> Iterator[tuple[str, str]]:
    """Yield the attributes that a statement sets, each with the name of its object, such as `self`."""
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    for target in targets:
        for part in target.elts if isinstance(target, ast.Tuple) else [target]:
            if isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name):
                yield part.value.id, part.attr
